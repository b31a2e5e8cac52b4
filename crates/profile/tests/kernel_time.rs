//! Where this very kernel's time goes, while connections run over its loopback.
//!
//! Where this user may not sample, each says `skipped: <reason>`.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use nightwatt_clock::meter::{Stop, monotonic};
use nightwatt_measure::counters::Machine;
use nightwatt_meters::Host;
use nightwatt_profile::kernel_time::{KernelTimeReport, Prepared};
use nightwatt_profile::pure::kernel_time::Os;

const HZ: u32 = 997;

/// Round trips of a byte, each of which goes through the loopback card two times: the CPU time of some 6 s.
/// A number rather than a time: a busy machine takes longer, and sees as many samples.
const ROUND_TRIPS: usize = 500_000;

/// Bytes sent in large pieces.
const BYTES: usize = 3 << 30;

/// None, with the reason told, where this user may not look.
fn watched(processes: &[u32], work: impl FnOnce()) -> Option<KernelTimeReport> {
    match Prepared::watching(HZ, processes).and_then(|it| it.during(&[], work)) {
        Ok(((), report)) if report.warnings.iter().any(|it| it.contains("hides")) => {
            println!("skipped: {:?}", report.warnings);
            None
        }
        Ok(((), report)) => Some(report),
        Err(error) => {
            println!("skipped: {error}");
            None
        }
    }
}

/// Echoes bytes, then takes all that comes.
fn serve(listener: &TcpListener) {
    let mut stream = listener.accept().unwrap().0;
    stream.set_nodelay(true).unwrap();
    let mut byte = [0];
    for _ in 0..ROUND_TRIPS {
        stream.read_exact(&mut byte).unwrap();
        stream.write_all(&byte).unwrap();
    }
    let mut buffer = vec![0; 1 << 18];
    while stream.read(&mut buffer).unwrap() > 0 {}
}

fn exchange() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| serve(&listener));
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        let mut byte = [7];
        for _ in 0..ROUND_TRIPS {
            stream.write_all(&byte).unwrap();
            stream.read_exact(&mut byte).unwrap();
        }
        let buffer = vec![7; 1 << 18];
        for _ in 0..BYTES / buffer.len() {
            stream.write_all(&buffer).unwrap();
        }
    });
}

#[test]
fn connections_over_loopback_are_seen_in_tcp_copies_card_and_memory() {
    let Some(report) = watched(&[std::process::id()], exchange) else { return };
    print!("{}", report.text());
    let counts = &report.samples;
    assert_eq!(counts.lost, 0);
    // Everything is in one of the categories or unknown, and nothing in two.
    let sum = |of: &dyn Fn(&nightwatt_profile::kernel_time::CategoryReport) -> u64| {
        report.os.iter().map(of).sum::<u64>()
    };
    assert_eq!((sum(&|it| it.samples), sum(&|it| it.own_samples)), (counts.busy, counts.own));
    let shares: f64 = report.os.iter().filter_map(|it| it.share).map(|it| it.share).sum();
    assert!((shares - 1.0).abs() < 1e-9, "{shares}");
    let tcp = report.of_os(Os::Tcp).unwrap();
    assert_eq!(report.tcp.iter().map(|it| it.samples).sum::<u64>(), tcp.samples);
    // The rarest of these, the card, has some 20 samples: none, once in 10^8.
    for os in [Os::Tcp, Os::KernelUserInterface, Os::Driver, Os::Memory, Os::Socket, Os::Ip] {
        assert!(report.of_os(os).unwrap().own_samples > 0, "{os:?}");
    }
    for share in report.os.iter().filter_map(|it| it.share) {
        assert!(share.low <= share.share && share.share <= share.high, "{share:?}");
    }
    let unknown = report.os.last().unwrap();
    let own = unknown.own_samples as f64 / counts.own as f64;
    assert!(own < 0.1, "{own}: {:?}", unknown.functions);
    // Stacks hold all samples of CPUs at work: microseconds of each.
    let folded = report.folded().lines().map(|line| line.rsplit_once(' ').unwrap().1);
    let folded: f64 = folded.map(|time| time.parse::<f64>().unwrap()).sum();
    let all = counts.busy as f64 * report.period_s * 1e6;
    assert!((folded / all - 1.0).abs() < 0.01, "{folded} of {all}");
}

/// Seconds of all CPUs at rest, and taken by a hypervisor, by the kernel's own books (proc(5)). What they did
/// else is not asked for: where a CPU goes to rest between two ticks, what it did is in none.
fn at_rest_and_stolen() -> (f64, f64) {
    let ticks = Machine::read(&Host::default()).unwrap().ticks;
    let seconds = |kind: &str| ticks[kind] as f64 / rustix::param::clock_ticks_per_second() as f64;
    (seconds("idle") + seconds("iowait"), seconds("steal"))
}

#[test]
fn the_share_of_rest_is_that_of_the_kernels_own_books() {
    let stop = Stop::new().unwrap();
    let (mut rest, mut stolen, mut all) = (0.0, 0.0, 0.0);
    let cpus = thread::available_parallelism().unwrap().get() as f64;
    let watching = || {
        let (before, began) = (at_rest_and_stolen(), monotonic());
        stop.wait_until(began + Duration::from_secs(3));
        let (after, ended) = (at_rest_and_stolen(), monotonic());
        (rest, stolen) = (after.0 - before.0, after.1 - before.1);
        all = cpus * ended.since(began).as_secs_f64();
    };
    let Some(report) = watched(&[], watching) else { return };
    let (idle, counts) = (report.idle.unwrap(), report.samples);
    let (expected, stolen) = (rest / all, stolen / all);
    println!("by samples {idle:?} of {counts:?}, by the books {expected}, stolen {stolen}");
    // A sample that was due and never taken was of a CPU at rest, or of one that a hypervisor took away.
    let due = (counts.idle + counts.busy + counts.missed) as f64;
    let least = counts.idle as f64 / due;
    let most = (counts.idle + counts.missed) as f64 / due;
    // Two countings of one share, and up to 3 points that the sampler takes itself.
    let off = 0.03 + stolen + 2.0 * (idle.high - idle.low);
    assert!(least - off < expected && expected < most + off, "{least} to {most}");
    // That is not to be an excuse: nearly all are taken as a rule.
    if counts.missed as f64 / due > 0.1 {
        assert!(
            report.warnings.iter().any(|it| it.contains("never taken")),
            "{:?}",
            report.warnings
        );
    }
}
