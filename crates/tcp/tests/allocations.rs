//! The loops take no memory: counted by an allocator that counts, in a program of its own, since it
//! counts for all threads.

use std::alloc::System;
use std::time::Duration;

use nightwatt_clock::meter::Stop;
use nightwatt_tcp::{Direction, Plan, Second, Server, ServerPlan, Until, fetch};
use stats_alloc::{INSTRUMENTED_SYSTEM, Stats, StatsAlloc};

#[global_allocator]
static COUNTED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

#[test]
fn neither_loop_allocates_while_connections_come_and_go() {
    for direction in [Direction::Fetch, Direction::Send] {
        let server = Server::bind(ServerPlan::new("127.0.0.1:0".parse().unwrap())).unwrap();
        let address = server.address().unwrap();
        let stop = Stop::new().unwrap();
        let theirs = stop.clone();
        let serving = std::thread::spawn(move || server.run(&theirs).unwrap());
        let plan = Plan {
            connections: 50,
            bytes: 14_600,
            direction,
            until: Until { count: None, time: Some(Duration::from_millis(3500)) },
            verify: true,
            ..Plan::new(address)
        };
        let mut looks: Vec<(Second, Stats)> = Vec::with_capacity(100);
        let mut look = |second: &Second| looks.push((*second, COUNTED.stats()));
        let report = fetch(&plan, &Stop::new().unwrap(), Some(&mut look)).unwrap();
        stop.stop();
        assert!(serving.join().unwrap().completed > 0);
        assert!(report.completed > 0 && report.failed == 0, "{report:?}");
        assert!(looks.len() >= 3, "{looks:?}");
        for pair in looks.windows(2) {
            let (before, after) = (pair[0].1, pair[1].1);
            assert!(pair[1].0.completed > 0, "connections came and went: {looks:?}");
            let more = after - before;
            assert_eq!((more.allocations, more.reallocations), (0, 0), "{direction:?}: {looks:?}");
        }
    }
}
