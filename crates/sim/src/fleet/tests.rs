use nightwatt_energy::quantity::PerSecond;
use nightwatt_policy::arrivals::{Arrivals, Bursts, Profile, Rate};
use nightwatt_policy::fleet::Wear;
use nightwatt_policy::queueing::{ServiceLaw, Station, erlang_b};

use super::*;

const POLICIES: [&str; 6] =
    ["baseline", "always-on 3", "delayed-off 500ms", "hybrid 2 2s", "predictive", "always-on 0"];

/// Like servers that answer one request a second in the mean.
fn kind(servers: u32, places: u32) -> ServerKind {
    ServerKind {
        servers,
        service: PerSecond(1.0),
        places,
        idle: Watts(2.0),
        busy: Watts(3.0),
        off: Watts(0.25),
        switch: Joules(7.0),
        switch_on: Duration::ZERO,
    }
}

fn settings(kinds: Vec<ServerKind>, line: u32) -> FleetSettings {
    FleetSettings {
        kinds,
        min_on: Duration::ZERO,
        line,
        wear: Wear::ByNumber,
        transition_price: Joules(1.0),
        overflow_share: 0.01,
    }
}

fn pool(settings: FleetSettings, choice: &str) -> Pool {
    Pool::new(settings, choice.parse().unwrap(), Mono::ZERO).unwrap()
}

fn nanos(arrivals: &Arrivals, seed: u64) -> impl Iterator<Item = Nanos> + use<> {
    arrivals.times(seed).map(Nanos::from_secs)
}

fn poisson(rate: f64, seed: u64) -> impl Iterator<Item = Nanos> {
    nanos(&Arrivals::Poisson(Rate::new(rate).unwrap()), seed)
}

fn times(service: &Service, seed: u64) -> ServiceTimes {
    service.start(seed, 1).unwrap()
}

/// One queue before servers that are always on.
fn station(servers: u32, load: f64, service: &Service, seed: u64) -> Outcome {
    let choice = format!("always-on {servers}");
    let pool = pool(settings(vec![kind(servers, 1)], u32::MAX), &choice);
    // A queue forgets at the rate c (1 - sqrt(load))^2.
    let forgets = load / (1.0 - load.sqrt()).powi(2);
    let window = Window {
        warm_up: (10.0 * forgets) as u64 + 200,
        counted: (100.0 * forgets) as u64 + 2500,
        cool_down: 0,
    };
    run(pool, poisson(load * f64::from(servers), seed), times(service, seed), window)
}

/// How often the closed form lay in the 95 % and in the 50 % interval of ten replications, and the sum
/// of how many standard errors it was off.
#[derive(Debug, Default)]
struct Coverage {
    held: u32,
    held_half: u32,
    of: u32,
    errors: f64,
}

impl Coverage {
    /// With intervals that are `wider` than they should be.
    fn add(&mut self, values: &[f64], expected: f64, wider: f64) {
        let holds = |confidence| {
            let right = Interval::of(values, confidence);
            let interval = Interval { half_width: wider * right.half_width, ..right };
            u32::from(interval.holds(expected))
        };
        self.held += holds(0.95);
        self.held_half += holds(0.5);
        self.of += 1;
        // t(0.975, 9) = 2.262; the variance of Student's t with 9 degrees is 9/7.
        let interval = Interval::of(values, 0.95);
        let error = (interval.mean - expected) / (interval.half_width / 2.262);
        self.errors += error / (9.0_f64 / 7.0).sqrt();
    }

    /// Within four standard deviations of the binomial distribution of 95 % and of 50 %, and of the
    /// sum. Of 95 % there is no bound above: all of a few hundred are within four. Intervals that are
    /// too wide show in those of 50 %.
    fn is_right(&self) -> bool {
        let of = f64::from(self.of);
        let off = |held: u32, share: f64| {
            (f64::from(held) - share * of) / (of * share * (1.0 - share)).sqrt()
        };
        off(self.held, 0.95) >= -4.0
            && off(self.held_half, 0.5).abs() <= 4.0
            && self.errors.abs() < 4.0 * of.sqrt()
    }
}

/// Mean response times of ten replications at a station under a load.
struct Simulated {
    station: Station,
    load: f64,
    means: Vec<f64>,
}

fn simulated() -> Vec<Simulated> {
    let mut all = Vec::new();
    for (law, service) in [
        (ServiceLaw::Exponential, Service::Exponential),
        (ServiceLaw::Deterministic, Service::Deterministic),
    ] {
        for (load, seeds) in [(0.1, 10), (0.3, 10), (0.5, 10), (0.7, 8), (0.9, 4), (0.95, 1)] {
            for servers in [1, 2, 8, 64] {
                let theory = Station { servers, service: PerSecond(1.0), law };
                let steady = theory.under(PerSecond(load * f64::from(servers))).unwrap();
                // Where hardly any request waits, deterministic services hardly vary: means are then not
                // normal.
                if law == ServiceLaw::Deterministic && steady.waiting_probability < 0.02 {
                    continue;
                }
                for seed in 0..seeds {
                    let means = (10 * seed..10 * seed + 10)
                        .map(|seed| station(servers, load, &service, seed))
                        .map(|outcome| outcome.mean_response().as_secs_f64())
                        .collect();
                    all.push(Simulated { station: theory, load, means });
                }
            }
        }
    }
    all
}

/// As [`Coverage`] has it, where the closed form is for services that are longer by `stretch`, and
/// intervals are `wider` than they should be.
fn coverage(simulated: &[Simulated], stretch: f64, wider: f64) -> Coverage {
    let mut coverage = Coverage::default();
    for it in simulated {
        let theory = Station { service: PerSecond(1.0 / stretch), ..it.station };
        let arrivals = PerSecond(it.load * f64::from(it.station.servers));
        let expected = theory.under(arrivals).unwrap().mean_response().as_secs_f64();
        coverage.add(&it.means, expected, wider);
    }
    coverage
}

#[test]
fn closed_forms_lie_in_the_intervals_as_often_as_they_should_and_wrong_ones_do_not() {
    let simulated = simulated();
    let right = coverage(&simulated, 1.0, 1.0);
    println!("seeds 0 to 99: {right:?}");
    assert!(right.of > 200 && right.is_right(), "{right:?}");
    // One part in a hundred is noticed, either way.
    for stretch in [0.99, 1.01] {
        let wrong = coverage(&simulated, stretch, 1.0);
        assert!(!wrong.is_right(), "{wrong:?}");
    }
    // So are intervals that are twice as wide as they should be, or half.
    for wider in [2.0, 0.5] {
        let wrong = coverage(&simulated, 1.0, wider);
        assert!(!wrong.is_right(), "{wrong:?}");
    }
}

#[test]
fn losses_are_erlangs_whatever_the_service_times() {
    let measured = [1, 2, 2, 3, 9].map(Duration::from_millis).to_vec();
    let expected = erlang_b(8, 6.0).unwrap();
    for service in [
        Service::Exponential,
        Service::Deterministic,
        Service::LogNormal { variation: 2.0 },
        Service::Empirical(measured),
    ] {
        let shares: Vec<f64> = (0..10)
            .map(|seed| {
                let pool = pool(settings(vec![kind(8, 1)], 0), "always-on 8");
                let window = Window { warm_up: 1000, counted: 20_000, cool_down: 100 };
                run(pool, poisson(6.0, seed), times(&service, seed), window).refused_share()
            })
            .collect();
        let interval = Interval::of(&shares, 0.9999);
        assert!(interval.holds(expected), "{service:?}: {interval:?} for {expected}");
        assert!(interval.half_width < 0.2 * expected);
    }
}

#[test]
fn a_server_with_two_places_loses_as_worked_out_by_hand() {
    // M/D/1/2: a departure leaves the server empty if no request came during its service: exp(-load). So a
    // cycle from departure to departure lasts a service and, in that case, the time to the next arrival: 1 +
    // exp(-load) / load. One request is served in each, of load x that which come.
    for load in [0.3, 0.8, 1.5_f64] {
        let shares: Vec<f64> = (0..10)
            .map(|seed| {
                let pool = pool(settings(vec![kind(1, 2)], 0), "baseline");
                let window = Window { warm_up: 100, counted: 20_000, cool_down: 10 };
                let service = times(&Service::Deterministic, seed);
                run(pool, poisson(load, seed), service, window).refused_share()
            })
            .collect();
        let interval = Interval::of(&shares, 0.9999);
        let expected = 1.0 - 1.0 / (load + (-load).exp());
        assert!(interval.holds(expected), "{interval:?} for {expected}");
    }
}

/// Unlike servers, some of which take time to start, under bursty traffic.
fn mixed(choice: &str, seed: u64, line: u32, window: Window) -> Outcome {
    let slow = ServerKind {
        service: PerSecond(0.25),
        busy: Watts(0.5),
        idle: Watts(0.4),
        switch_on: Duration::from_secs(3),
        ..kind(4, 1)
    };
    // 6/s for 30 s in a third of the time, 0.5/s in the rest.
    let mean = 7.0 / 3.0;
    let bursts = Bursts::new(Rate::new(mean).unwrap(), 6.0 / mean, 1.0 / 3.0, 30.0).unwrap();
    let pool = pool(settings(vec![kind(3, 2), slow], line), choice);
    let arrivals = nanos(&Arrivals::Bursts(bursts), seed);
    run(pool, arrivals, times(&Service::LogNormal { variation: 1.0 }, seed), window)
}

#[test]
fn every_request_is_answered_or_refused_and_every_joule_has_its_state() {
    let window = Window { counted: 20_000, ..Window::ALL };
    for choice in POLICIES {
        for line in [0, 5] {
            let outcome = mixed(choice, 1, line, window);
            assert_eq!(outcome.arrivals, 20_000);
            assert_eq!(outcome.responses.count() + outcome.refused, outcome.arrivals);
            let [quick, slow] = &outcome.tallies[..] else { panic!("{outcome:?}") };
            // Watts by hand, from the definitions above.
            let off = |tally: &Tally, servers: f64| {
                servers * outcome.span.as_secs_f64() - tally.on.as_secs_f64()
            };
            let idle = |tally: &Tally| tally.on.as_secs_f64() - tally.busy.as_secs_f64();
            let energy = 3.0 * quick.busy.as_secs_f64()
                + 2.0 * idle(quick)
                + 0.25 * off(quick, 3.0)
                + 0.5 * slow.busy.as_secs_f64()
                + 0.4 * idle(slow)
                + 0.25 * off(slow, 4.0)
                + 7.0 * (quick.switched_on + slow.switched_on) as f64;
            assert!((outcome.energy.get() / energy - 1.0).abs() < 1e-9, "{choice}");
            let tally = outcome.tally();
            assert!(tally.switched_on >= tally.switched_off);
            assert!(tally.switched_on - tally.switched_off <= 7);
            assert!(outcome.mean_on() <= f64::from(outcome.most_on) && outcome.most_on <= 7);
        }
    }
}

#[test]
fn a_server_is_busy_for_as_long_as_its_requests_take() {
    for choice in POLICIES {
        let pool = pool(settings(vec![kind(5, 3)], 0), choice);
        let window = Window { counted: 5000, ..Window::ALL };
        let outcome = run(pool, poisson(3.0, 2), times(&Service::Deterministic, 2), window);
        // One second each, except for those that began before the end and are done: all of them.
        assert_eq!(
            outcome.tally().busy,
            Duration::from_secs(outcome.responses.count()),
            "{choice}"
        );
    }
}

#[test]
fn littles_law_holds_exactly_over_a_whole_run_and_nearly_in_a_window() {
    for choice in POLICIES {
        let outcome = mixed(choice, 3, 5, Window { counted: 20_000, ..Window::ALL });
        let little = |outcome: &Outcome| {
            let rate = outcome.responses.count() as f64 / outcome.span.as_secs_f64();
            rate * outcome.mean_response().as_secs_f64()
        };
        // The mean is cut to a nanosecond.
        assert!((outcome.mean_in_system / little(&outcome) - 1.0).abs() < 1e-6, "{choice}");
        let window = Window { warm_up: 1000, counted: 20_000, cool_down: 500 };
        let outcome = mixed(choice, 4, 5, window);
        assert!((outcome.mean_in_system / little(&outcome) - 1.0).abs() < 0.01, "{choice}");
    }
}

#[test]
fn policies_meet_the_same_requests() {
    let work = |choice: &str| {
        let pool = pool(settings(vec![kind(6, 1)], u32::MAX), choice);
        let window = Window { counted: 5000, ..Window::ALL };
        run(pool, poisson(3.0, 5), times(&Service::Exponential, 5), window).tally().busy
    };
    let all: Vec<Duration> = POLICIES.into_iter().map(work).collect();
    assert!(all.iter().all(|busy| *busy == all[0]), "{all:?}");
}

#[test]
fn the_same_seed_gives_the_same_result_on_any_number_of_threads() {
    let window = Window { warm_up: 100, counted: 3000, cool_down: 100 };
    let one = |seed| mixed("predictive", seed, 2, window);
    let alone: Vec<Outcome> = (0..12).map(one).collect();
    for threads in [2, 5] {
        let shared: Vec<Outcome> = std::thread::scope(|scope| {
            let parts: Vec<_> = (0..threads)
                .map(|part| {
                    scope.spawn(move || {
                        (part..12)
                            .step_by(threads)
                            .map(|it| (it, one(it as u64)))
                            .collect::<Vec<_>>()
                    })
                })
                .collect();
            let mut all: Vec<_> = parts.into_iter().flat_map(|it| it.join().unwrap()).collect();
            all.sort_by_key(|(index, _)| *index);
            all.into_iter().map(|(_, outcome)| outcome).collect()
        });
        assert!(alone == shared, "{threads} threads");
    }
    assert!(alone[0] != alone[1]);
}

#[test]
fn starting_and_waiting_in_line_as_worked_out_by_hand() {
    let starting = ServerKind { switch_on: Duration::from_secs(5), ..kind(1, 1) };
    let pool = pool(settings(vec![starting], 10), "baseline");
    let arrivals = [1, 2, 6].map(Mono::from_secs);
    let service = times(&Service::Deterministic, 1);
    let outcome = run(pool, arrivals, service, Window { counted: 3, ..Window::ALL });
    // Ready at 5; served from 5, 6 and 7 to 6, 7 and 8: after 5, 5 and 2 seconds.
    assert_eq!(outcome.mean_response(), Duration::from_secs(4));
    assert_eq!(outcome.responses.max(), Duration::from_secs(5));
    // From the first arrival at 1 to the last answer at 8: off for 4 s, busy for 3. The cycle was
    // charged when it was switched on, before the span.
    assert_eq!(outcome.span, Duration::from_secs(7));
    assert!((outcome.energy.get() - (4.0 * 0.25 + 3.0 * 3.0)).abs() < 1e-9, "{outcome:?}");
    assert!((outcome.mean_in_system - 12.0 / 7.0).abs() < 1e-9);
}

#[test]
fn the_warm_up_and_what_comes_after_do_not_count() {
    let arrivals = (0..10).map(Mono::from_secs);
    let half = ServerKind { service: PerSecond(2.0), ..kind(1, 1) };
    let pool = pool(settings(vec![half], 0), "always-on 1");
    let window = Window { warm_up: 2, counted: 5, cool_down: 2 };
    let outcome = run(pool, arrivals, times(&Service::Deterministic, 1), window);
    assert_eq!((outcome.arrivals, outcome.responses.count()), (5, 5));
    // From the arrival at 2 to the one at 7, half of the time busy.
    assert_eq!(outcome.span, Duration::from_secs(5));
    assert_eq!(outcome.mean_power(), Watts(2.5));
    assert!((outcome.requests_per_joule() - 5.0 / 12.5).abs() < 1e-12);
}

#[test]
fn a_run_without_arrivals_is_empty() {
    let pool = pool(settings(vec![kind(1, 1)], 0), "baseline");
    let outcome = run(pool, [Mono::ZERO; 0], times(&Service::Deterministic, 1), Window::ALL);
    assert_eq!((outcome.arrivals, outcome.span), (0, Duration::ZERO));
}

/// Runs an oracle over Poisson arrivals at 3/s.
fn foreseen(settings: &FleetSettings, always_on: u32, seed: u64) -> Outcome {
    let window = Window { counted: 5000, ..Window::ALL };
    let service = || times(&Service::Exponential, seed);
    let schedule = oracle(settings, always_on, poisson(3.0, seed), service(), window).unwrap();
    let pool = Pool::scheduled(settings.clone(), schedule, Mono::ZERO).unwrap();
    run(pool, poisson(3.0, seed), service(), window)
}

#[test]
fn nobody_costs_less_than_the_oracle_and_refuses_as_few() {
    let cost = |settings: &FleetSettings, outcome: &Outcome| {
        let price = settings.transition_price * outcome.tally().transitions() as f64;
        (outcome.energy + price).get() / outcome.span.as_secs_f64()
    };
    for (seed, starting) in [(1, 0), (2, 2), (3, 20)] {
        // A cycle costs 7 J and twice 1 J of price, and 1.75 W are saved: gaps above 5.1 s pay.
        let starting = ServerKind { switch_on: Duration::from_secs(starting), ..kind(20, 1) };
        let settings = settings(vec![starting], 0);
        let oracle = foreseen(&settings, 0, seed);
        // Only requests during the first start are refused: no server can be ready in time for them.
        assert!(oracle.refused <= 100 && oracle.tally().switched_off > 50, "{}", oracle.refused);
        for choice in POLICIES.into_iter().chain(["always-on 20", "delayed-off 5s"]) {
            let window = Window { counted: 5000, ..Window::ALL };
            let service = times(&Service::Exponential, seed);
            let other = run(pool(settings.clone(), choice), poisson(3.0, seed), service, window);
            let (ours, theirs) = (cost(&settings, &oracle), cost(&settings, &other));
            assert!(ours <= theirs || other.refused > oracle.refused, "{choice}: {ours}, {theirs}");
        }
        // What is to stay on costs more.
        assert!(cost(&settings, &foreseen(&settings, 10, seed)) > cost(&settings, &oracle));
    }
}

#[test]
fn an_oracle_is_on_when_it_has_to_be_as_worked_out_by_hand() {
    // 7 J a cycle and 2 J of price at 1.75 W saved: gaps above 5.14 s pay. It takes 2 s to start.
    let starting = ServerKind { switch_on: Duration::from_secs(2), ..kind(2, 1) };
    let settings = settings(vec![starting], 0);
    // Each takes a second; from 10.5 to 11 two are busy, and to 11.5 one is.
    let arrivals = || [10_000, 10_500, 15_000, 30_000].map(|at| Mono(Duration::from_millis(at)));
    let service = || times(&Service::Deterministic, 1);
    let schedule = oracle(&settings, 0, arrivals(), service(), Window::ALL).unwrap();
    let millis = |at| Mono(Duration::from_millis(at));
    let expected =
        [(0, 0), (8000, 1), (8500, 2), (11_000, 1), (16_000, 0), (28_000, 1), (31_000, 0)];
    assert_eq!(schedule.steps(), expected.map(|(at, on)| (millis(at), on)));
    let pool = Pool::scheduled(settings.clone(), schedule, Mono::ZERO).unwrap();
    let outcome = run(pool, arrivals(), service(), Window::ALL);
    assert_eq!((outcome.refused, outcome.tally().busy), (0, Duration::from_secs(4)));
    // One on from 10 to 16, one from 10.5 to 11, and one from 30 to 31.
    assert_eq!(outcome.tally().on, Duration::from_millis(7500));
    let two = FleetSettings { kinds: vec![starting, kind(1, 1)], ..settings };
    let unlike = oracle(&two, 0, arrivals(), service(), Window::ALL).unwrap_err();
    assert!(unlike.to_string().contains("2 kinds"), "{unlike}");
}

#[test]
fn a_longer_delay_switches_less_and_a_further_server_always_on_too() {
    let transitions = |choice: &str| {
        let pool = pool(settings(vec![kind(8, 2)], 0), choice);
        let window = Window { warm_up: 500, counted: 20_000, cool_down: 100 };
        let outcome = run(pool, poisson(4.0, 6), times(&Service::Deterministic, 6), window);
        outcome.transitions_per_server_hour()
    };
    for row in [
        ["delayed-off 10ms", "delayed-off 1s", "delayed-off 10s", "delayed-off 100s"],
        ["always-on 1", "always-on 3", "always-on 5", "always-on 7"],
    ] {
        let found = row.map(transitions);
        assert!(found.is_sorted_by(|a, b| a > b), "{row:?}: {found:?}");
    }
}

#[test]
fn arrivals_are_asked_for_one_at_a_time() {
    // The simulator asks for one arrival at a time: when it asks for the next, all before it are
    // settled except for those in the system.
    let asked = std::cell::Cell::new(0_u64);
    let arrivals = (0..).map(|n| {
        asked.set(n + 1);
        Mono(Duration::from_millis(1500 * n))
    });
    let pool = pool(settings(vec![kind(1, 1)], 0), "baseline");
    let window = Window { warm_up: 0, counted: 1000, cool_down: 0 };
    let outcome = run(pool, arrivals, times(&Service::Deterministic, 1), window);
    assert_eq!((asked.get(), outcome.arrivals), (1000, 1000));
}

/// Energy and price of two days with a quiet night and a busy evening, and the share refused.
fn days(choice: &str, seed: u64) -> (f64, f64) {
    let hour = |hour: f64| {
        let angle = (hour - 8.0) / 24.0 * std::f64::consts::TAU;
        5.5 + 4.5 * angle.sin()
    };
    let hours: [f64; 24] = std::array::from_fn(|it| hour(it as f64));
    let day = Arrivals::Profile(Profile::new(&hours, 3600.0, true).unwrap());
    let starting = Duration::from_secs(15);
    let kind = ServerKind { service: PerSecond(2.0), switch_on: starting, ..kind(8, 2) };
    let price = Joules(20.0);
    let settings = FleetSettings { transition_price: price, ..settings(vec![kind], 0) };
    let end = Nanos(2 * 86_400 * 1_000_000_000);
    let arrivals = nanos(&day, seed).take_while(|at| *at < end);
    let service = times(&Service::Exponential, seed);
    let outcome = run(pool(settings, choice), arrivals, service, Window::ALL);
    let cost = outcome.energy + price * outcome.tally().transitions() as f64;
    (cost.get(), outcome.refused_share())
}

#[test]
fn the_predictive_policy_costs_no_more_than_the_best_fitted_one_over_days() {
    let always_on = (1..=8).map(|servers| format!("always-on {servers}"));
    let delayed = [3, 10, 30, 100, 300, 1000].map(|secs| format!("delayed-off {secs}s"));
    // Fitted on other days, among those that refuse no more than the predictive one may.
    let fitted = always_on.chain(delayed).map(|choice| (days(&choice, 1), choice));
    let kept = fitted.filter(|((_, refused), _)| *refused <= 0.012);
    let (_, best) = kept.min_by(|a, b| a.0.0.total_cmp(&b.0.0)).unwrap();
    let (fitted, _) = days(&best, 2);
    let (predictive, refused) = days("predictive", 2);
    // Seen: 0.998, with 0.67 % refused.
    assert!(predictive <= 1.03 * fitted, "{predictive} for {fitted} of {best}");
    assert!(refused <= 0.012, "{refused}");
}

#[test]
fn the_predictive_policy_has_as_many_on_as_the_share_that_may_be_refused_needs_and_few_more() {
    for share in [0.001, 0.01, 0.05] {
        let kind = ServerKind { switch_on: Duration::from_secs(5), ..kind(30, 1) };
        let settings = FleetSettings { overflow_share: share, ..settings(vec![kind], 0) };
        let window = Window { warm_up: 50_000, counted: 200_000, cool_down: 0 };
        let service = times(&Service::Exponential, 1);
        let outcome = run(pool(settings, "predictive"), poisson(10.0, 1), service, window);
        // Erlang's loss formula.
        let enough = (1..30).find(|&servers| erlang_b(servers, 10.0).unwrap() <= share).unwrap();
        let (on, refused) = (outcome.mean_on(), outcome.refused_share());
        assert!(on <= f64::from(enough) + 1.5, "{on} for {enough}");
        assert!((0.3 * share..=share).contains(&refused), "{refused} for {share}");
    }
}
