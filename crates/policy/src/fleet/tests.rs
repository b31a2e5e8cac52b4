mod live;
mod predictive;
mod walk;

use super::*;
use nightwatt_energy::quantity::Watts;
use nightwatt_energy::time::{Mono, Nanos};

fn kind(servers: u32, places: u32, switch_on_ms: u64) -> ServerKind {
    ServerKind {
        servers,
        service: PerSecond(100.0),
        places,
        idle: Watts(2.0),
        busy: Watts(3.0),
        off: Watts(0.5),
        switch: Joules(10.0),
        switch_on: Duration::from_millis(switch_on_ms),
    }
}

fn settings(kinds: Vec<ServerKind>) -> FleetSettings {
    FleetSettings {
        kinds,
        min_on: Duration::ZERO,
        line: 0,
        wear: Wear::ByNumber,
        transition_price: Joules(0.0),
        overflow_share: 0.001,
    }
}

fn ms(ms: u64) -> Nanos {
    Nanos(ms * 1_000_000)
}

/// A pool, its actions put together, and a check of what must always hold.
struct Play {
    pool: Pool,
    actions: Vec<Action>,
}

impl Play {
    fn new(settings: FleetSettings, choice: &str) -> Self {
        let pool = Pool::new(settings, choice.parse().unwrap(), Mono::ZERO).unwrap();
        let mut play = Self { pool, actions: Vec::new() };
        play.pool.begin(Mono::ZERO, &mut play.actions);
        play
    }

    fn arrive(&mut self, at: u64) -> Route {
        self.pool.arrive(ms(at), &mut self.actions)
    }

    fn complete(&mut self, at: u64, server: u32) {
        self.pool.complete(ms(at), server, &mut self.actions);
    }

    fn ready(&mut self, at: u64, server: u32) {
        self.pool.ready(ms(at), server, &mut self.actions);
    }

    /// What was to be done since the last call.
    fn done(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    /// Ticks whenever a timer asks for it, until `until`; returns when.
    fn wait(&mut self, until: u64) -> Vec<Nanos> {
        let mut ticks = Vec::new();
        while self.pool.next_timer() <= ms(until) {
            let at = self.pool.next_timer();
            self.pool.tick(at, &mut self.actions);
            assert!(ticks.len() < 1000, "a timer that never ends");
            ticks.push(at);
        }
        ticks
    }
}

use Action::{SwitchOff, SwitchOn, Take};

#[test]
fn the_published_rule_fills_a_server_then_switches_the_next_on_then_refuses() {
    let mut play = Play::new(settings(vec![kind(2, 2, 0)]), "baseline");
    assert_eq!(play.done(), [SwitchOn(0)]);
    assert_eq!(play.arrive(1), Route::To(0));
    assert_eq!(play.arrive(2), Route::To(0));
    assert_eq!(play.done(), []);
    assert_eq!(play.arrive(3), Route::To(1));
    assert_eq!(play.done(), [SwitchOn(1)]);
    assert_eq!(play.arrive(4), Route::To(1));
    assert_eq!(play.arrive(5), Route::Refuse);
    // A place is free again; the second server falls idle and goes off at once, the first stays.
    play.complete(11, 0);
    assert_eq!(play.arrive(12), Route::To(0));
    play.complete(13, 1);
    play.complete(14, 1);
    assert_eq!(play.done(), [SwitchOff(1)]);
    play.complete(21, 0);
    play.complete(22, 0);
    assert_eq!(play.done(), []);
    assert_eq!((play.pool.on(), play.pool.busy()), (1, 0));
}

#[test]
fn the_baseline_switches_off_whoever_is_idle_not_whoever_is_last() {
    let mut play = Play::new(settings(vec![kind(2, 1, 0)]), "baseline");
    assert_eq!(play.arrive(1), Route::To(0));
    assert_eq!(play.arrive(2), Route::To(1));
    play.complete(11, 0);
    assert_eq!(play.done(), [SwitchOn(0), SwitchOn(1), SwitchOff(0)]);
}

#[test]
fn a_delay_counts_from_the_end_of_the_last_request_and_a_request_ends_it() {
    let mut play = Play::new(settings(vec![kind(2, 1, 0)]), "delayed-off 100ms");
    play.arrive(0);
    assert_eq!(play.arrive(1), Route::To(1));
    play.complete(11, 1);
    // Busy again from 50 to 60, so not off at 111 but at 160.
    assert_eq!(play.arrive(50), Route::To(1));
    play.complete(60, 1);
    play.done();
    play.wait(159);
    assert_eq!(play.done(), []);
    assert_eq!(play.wait(1000).last(), Some(&ms(160)));
    assert_eq!(play.done(), [SwitchOff(1)]);
    // The last one stays.
    play.complete(2000, 0);
    assert!(play.wait(1_000_000).is_empty());
}

#[test]
fn so_many_stay_on_and_a_spare_one_goes_when_there_are_more() {
    let mut play = Play::new(settings(vec![kind(4, 1, 0)]), "hybrid 2 10ms");
    assert_eq!(play.done(), [SwitchOn(0), SwitchOn(1)]);
    for at in 0..3 {
        play.arrive(at);
    }
    assert_eq!(play.done(), [SwitchOn(2)]);
    // Two fall idle while they are among three, the third stays busy: one of them goes.
    play.complete(10, 0);
    play.complete(11, 1);
    play.wait(100);
    assert_eq!(play.done(), [SwitchOff(0)]);
    assert_eq!(play.pool.on(), 2);
}

#[test]
fn starting_takes_time_and_whoever_waits_in_line_is_served_in_order() {
    let settings = FleetSettings { line: 2, ..settings(vec![kind(2, 1, 5000)]) };
    let mut play = Play::new(settings, "baseline");
    // No server is ready yet: two wait, a third is refused. The server that starts will do for all.
    assert_eq!(play.done(), [SwitchOn(0)]);
    assert_eq!(
        [play.arrive(1), play.arrive(2), play.arrive(3)],
        [Route::Wait, Route::Wait, Route::Refuse]
    );
    assert_eq!(play.done(), []);
    play.ready(5000, 0);
    assert_eq!(play.done(), [Take(0)]);
    play.complete(5010, 0);
    assert_eq!(play.done(), [Take(0)]);
    play.complete(5020, 0);
    assert_eq!((play.pool.waiting(), play.pool.busy()), (0, 0));
}

#[test]
fn a_further_server_is_started_only_when_those_starting_cannot_make_up_for_what_is_lost() {
    // A server serves 100/s, so 500 while it starts for 5 s.
    let mut play = Play::new(settings(vec![kind(3, 1, 5000)]), "baseline");
    play.done();
    let switched: Vec<u64> = (1..=1200)
        .filter(|&n| {
            play.arrive(n);
            !play.done().is_empty()
        })
        .collect();
    assert_eq!(switched, [501, 1001]);
}

#[test]
fn who_was_started_for_nothing_stays_as_long_as_starting_took() {
    let mut play = Play::new(settings(vec![kind(2, 1, 5000)]), "baseline");
    play.ready(5000, 0);
    play.arrive(6000);
    play.arrive(6001);
    assert_eq!(play.done(), [SwitchOn(0), SwitchOn(1)]);
    play.complete(6010, 0);
    play.wait(11_000);
    play.ready(11_001, 1);
    assert_eq!(play.wait(100_000).last(), Some(&ms(16_001)));
    assert_eq!(play.done(), [SwitchOff(1)]);
}

#[test]
fn a_minimum_on_time_is_kept() {
    let min_on = Duration::from_secs(1);
    let settings = FleetSettings { min_on, ..settings(vec![kind(2, 1, 0)]) };
    let mut play = Play::new(settings, "baseline");
    play.arrive(0);
    play.arrive(10);
    play.complete(20, 1);
    play.done();
    play.wait(1009);
    assert_eq!(play.done(), []);
    play.wait(1010);
    assert_eq!(play.done(), [SwitchOff(1)]);
}

#[test]
fn a_failed_server_is_replaced_and_comes_back_when_repaired() {
    let mut play = Play::new(settings(vec![kind(2, 2, 5000)]), "always-on 1");
    play.ready(5000, 0);
    play.arrive(5001);
    play.done();
    play.pool.failed(ms(5002), 0, &mut play.actions);
    assert_eq!(play.done(), [SwitchOn(1)]);
    assert_eq!((play.pool.on(), play.pool.starting(), play.pool.busy()), (0, 1, 0));
    // Its answer comes too late, and one that is not there says it is ready.
    play.complete(5003, 0);
    play.ready(5004, 0);
    play.ready(5004, 77);
    assert_eq!(play.pool.phase(0), Some(Phase::Failed));
    play.pool.repaired(ms(6000), 0, &mut play.actions);
    assert_eq!(play.pool.phase(0), Some(Phase::Off));
    // It failed while starting.
    play.pool.failed(ms(7000), 1, &mut play.actions);
    assert_eq!(play.done(), [SwitchOn(0)]);
}

#[test]
fn what_nobody_waits_for_switches_nothing_on() {
    let mut play = Play::new(settings(vec![kind(2, 1, 0)]), "baseline");
    play.done();
    assert_eq!(play.pool.take_spare(ms(1), None), Some(0));
    assert_eq!(play.pool.take_spare(ms(1), None), None);
    assert_eq!(play.done(), []);
    play.pool.start(ms(2), 1, &mut play.actions);
    assert_eq!(play.done(), [SwitchOn(1)]);
}

#[test]
fn wear_is_spread_over_all_or_left_to_the_last() {
    let ons = |wear| {
        let settings = FleetSettings { wear, ..settings(vec![kind(5, 1, 0)]) };
        let mut play = Play::new(settings, "baseline");
        let mut now = 0;
        for _ in 0..100 {
            // Two at a time, so that one is switched on, and then one off.
            let routes = [play.arrive(now), play.arrive(now + 1)];
            for route in routes {
                let Route::To(server) = route else { panic!("{route:?}") };
                play.complete(now + 10, server);
            }
            now += 100;
        }
        [0, 1, 2, 3, 4].map(|server| play.pool.tally(ms(now), server).switched_on)
    };
    let spread = ons(Wear::Spread);
    assert!(spread.iter().all(|count| (19..=22).contains(count)), "{spread:?}");
    let by_number = ons(Wear::ByNumber);
    assert_eq!(by_number[2..], [0, 0, 0], "{by_number:?}");
}

#[test]
fn the_kind_with_the_least_energy_per_request_is_used_first() {
    let thirsty = ServerKind { busy: Watts(80.0), service: PerSecond(500.0), ..kind(1, 1, 0) };
    let play = |kinds| {
        let mut play = Play::new(settings(kinds), "baseline");
        play.arrive(1);
        play.arrive(2);
        play.arrive(3);
        play.done()
    };
    // 3 W at 100/s are 30 mJ, 80 W at 500/s are 160 mJ.
    assert_eq!(play(vec![thirsty, kind(2, 1, 0)]), [SwitchOn(1), SwitchOn(2), SwitchOn(0)]);
    assert_eq!(play(vec![kind(2, 1, 0), thirsty]), [SwitchOn(0), SwitchOn(1), SwitchOn(2)]);
}

#[test]
fn energy_is_the_sum_of_states() {
    let mut play = Play::new(settings(vec![kind(2, 1, 5000)]), "always-on 1");
    play.ready(5000, 0);
    play.arrive(6000);
    play.complete(7000, 0);
    let tallies = play.pool.tallies(ms(10_000));
    // On from 5 to 10 s, one of them busy; two servers off for 15 s together; one cycle.
    let expected = 3.0 * 1.0 + 2.0 * 4.0 + 0.5 * 15.0 + 10.0;
    let energy = tallies[0].energy(&play.pool.settings().kinds[0], 2, Duration::from_secs(10));
    assert!((energy.get() - expected).abs() < 1e-9, "{energy}");
    assert_eq!(tallies[0].starting, Duration::from_secs(5));
}

#[test]
fn what_cannot_be_a_pool_is_refused() {
    let refused =
        |kinds| Pool::new(settings(kinds), FleetChoice::Baseline, Mono::ZERO).unwrap_err();
    assert_eq!(refused(vec![]), FleetError::Servers(0));
    assert!(matches!(
        refused(vec![kind(1, 1, 0), kind(1, 0, 0)]),
        FleetError::ServerKind { kind: 2, .. }
    ));
    let slow = ServerKind { service: PerSecond(f64::NAN), ..kind(1, 1, 0) };
    assert!(matches!(refused(vec![slow]), FleetError::ServerKind { kind: 1, .. }));
    let source = ServerKind { idle: Watts(-1.0), ..kind(1, 1, 0) };
    assert!(refused(vec![source]).to_string().contains("watts"));
}

#[test]
fn an_oracle_sleeps_through_gaps_that_pay_and_is_back_in_time() {
    // Saves 1.5 W, a cycle costs 15 J: gaps above 10 s pay.
    let mut levels =
        Levels::new(2, 1, Watts(1.5), Joules(15.0), Duration::from_secs(2), Duration::ZERO);
    let secs = Mono::from_secs;
    for (at, busy) in [(3, 1), (5, 2), (6, 1), (15, 2), (16, 0), (30, 2), (31, 0)] {
        levels.busy(secs(at), busy);
    }
    let schedule = levels.schedule();
    let expected = [(0, 1), (3, 2), (16, 1), (28, 2), (31, 1)].map(|(at, on)| (secs(at), on));
    assert_eq!(schedule.steps(), expected);
    let mut pool = Pool::scheduled(settings(vec![kind(2, 1, 2000)]), schedule, Mono::ZERO).unwrap();
    let mut actions = Vec::new();
    pool.begin(Mono::ZERO, &mut actions);
    pool.ready(secs(2), 0, &mut actions);
    assert_eq!(pool.next_timer(), secs(3).into());
    pool.tick(secs(3), &mut actions);
    assert_eq!(actions, [SwitchOn(0), SwitchOn(1)]);
}
