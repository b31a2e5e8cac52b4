//! Stored lessons of a pool: any file is taken up or refused with a reason, and a pool that took some
//! up serves, goes on learning, and can be stored again, however long it was stopped.

use std::time::Duration;

use nightwatt_energy::quantity::{Joules, PerSecond, Watts};
use nightwatt_energy::time::{Mono, Nanos, Wall};
use nightwatt_gateway::lessons::pool::{PoolLessons, read, write};
use nightwatt_policy::fleet::{FleetChoice, FleetSettings, Pool, Route, ServerKind, Wear};

/// The seeds' time, ten minutes and a week later, and the ends of time, s since 1970.
const TIMES: [i64; 5] =
    [1_795_500_000, 1_795_500_600, 1_796_104_800, i64::MIN / 1000, i64::MAX / 1000];

const SERVERS: u32 = 5;

/// Runs the target on one input.
pub fn run(text: &[u8]) {
    match read(text) {
        Ok(lessons) => {
            for wall in TIMES.map(Wall::from_secs) {
                go_on(&lessons, wall);
            }
        }
        Err(error) => {
            let said = error.to_string();
            assert!(!said.is_empty() && said.len() < 1_000, "{said}");
            assert!(!error.hint().is_empty());
        }
    }
}

fn pool() -> Pool {
    let kind = ServerKind {
        servers: SERVERS,
        service: PerSecond(50.0),
        places: 2,
        idle: Watts(20.0),
        busy: Watts(30.0),
        off: Watts(1.0),
        switch: Joules(50.0),
        switch_on: Duration::from_secs(5),
    };
    let settings = FleetSettings {
        kinds: vec![kind],
        min_on: Duration::ZERO,
        line: 3,
        wear: Wear::Spread,
        transition_price: Joules(1.0),
        overflow_share: 0.01,
    };
    Pool::new(settings, FleetChoice::Predictive, Mono::ZERO).expect("it can be")
}

fn go_on(learned: &PoolLessons, wall: Wall) {
    let mut pool = pool();
    pool.resume(&learned.lessons, learned.stopped(wall));
    let (mut actions, mut busy) = (Vec::new(), Vec::new());
    pool.begin(Mono::ZERO, &mut actions);
    // Bursts of requests, each answered half a second later; then silence.
    for step in 0..40_u64 {
        let now = Nanos(step * 500_000_000);
        let mut ticks = 0;
        while pool.next_timer() <= now {
            pool.tick(pool.next_timer(), &mut actions);
            ticks += 1;
            assert!(ticks < 100, "a timer that never ends");
        }
        for server in busy.drain(..) {
            pool.complete(now, server, &mut actions);
        }
        for server in 0..SERVERS {
            pool.ready(now, server, &mut actions);
        }
        for _ in 0..if step < 30 { step % 7 } else { 0 } {
            if let Route::To(server) = pool.arrive(now, &mut actions) {
                busy.push(server);
            }
        }
        assert!(pool.on() + pool.starting() <= SERVERS);
    }
    let lessons = pool.lessons().expect("it learns");
    read(&write(&lessons, SERVERS as usize, wall)).expect("what it goes on with can be stored");
}
