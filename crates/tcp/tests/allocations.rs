//! The loops take no memory: counted by an allocator that counts, in a program of its own, since it
//! counts for all threads.

use std::alloc::System;

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
            until: Until::default(),
            verify: true,
            ..Plan::new(address)
        };
        let mut looks: Vec<(Second, Stats)> = Vec::with_capacity(100);
        let enough = Stop::new().unwrap();
        // On a busy machine there are seconds in which neither loop gets a processor.
        let mut lively = 0;
        let mut look = |second: &Second| {
            lively += u32::from(!looks.is_empty() && second.completed > 0);
            looks.push((*second, COUNTED.stats()));
            if lively == 2 || looks.len() == looks.capacity() {
                enough.stop();
            }
        };
        let report = fetch(&plan, &enough, Some(&mut look)).unwrap();
        stop.stop();
        assert!(serving.join().unwrap().completed > 0);
        assert!(report.completed > 0 && report.failed == 0, "{report:?}");
        assert_eq!(lively, 2, "connections came and went: {looks:?}");
        for pair in looks.windows(2) {
            let more = pair[1].1 - pair[0].1;
            assert_eq!((more.allocations, more.reallocations), (0, 0), "{direction:?}: {looks:?}");
        }
    }
}
