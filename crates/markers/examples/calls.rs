//! `benches/markers/calls.c` in Rust, for `make bench-markers`: `calls CALLS TURNS`, `calls burst CALLS`.

use std::hint::black_box;

use nightwatt_markers::section;

/// CPU time of this process, ns.
fn used() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

fn call(turns: u64) {
    let _section = section!("call");
    for turn in 0..turns {
        black_box(turn);
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |place: usize| arguments.get(place).and_then(|it| it.parse::<u64>().ok());
    let is_burst = arguments.first().is_some_and(|it| it == "burst");
    let (calls, turns) = if is_burst { (number(1), Some(0)) } else { (number(0), number(1)) };
    let (Some(calls), Some(turns)) = (calls, turns) else {
        eprintln!("calls CALLS TURNS | calls burst CALLS");
        std::process::exit(2);
    };
    // The first marks make memory and touch it, and are not what is asked for.
    for _ in 0..if is_burst { calls } else { 1 } {
        call(0);
    }
    let begin = used();
    for _ in 0..calls {
        call(turns);
    }
    println!("{}", used() - begin);
}
