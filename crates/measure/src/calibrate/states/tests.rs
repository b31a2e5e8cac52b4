//! Known truths found again: by driving a simulated machine in virtual time, and from recordings.

use std::cell::RefCell;
use std::fs;
use std::time::Duration;

use crate::pure::calibrate::states::drive::{DrivePlan, Ending, Phase};
use nightwatt_clock::Clock;
use nightwatt_energy::integration::Reading;
use nightwatt_energy::time::{Mono, Wall};
use nightwatt_power::simulated::{Config, Simulated};
use nightwatt_power::{Context, probe};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;

use super::drive::{Driven, drive, fit};
use super::log::{LogOptions, run};
use super::*;

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A simulated machine, its clock, and what a meter says of it every 200 ms: 43.3 W awake, 60 W while
/// it wakes or falls asleep, 1.6 W asleep.
struct Bench {
    clock: Clock,
    machine: Simulated,
    readings: RefCell<Readings>,
    rng: RefCell<ChaCha8Rng>,
}

impl Bench {
    fn new(seed: u64, config: &Config) -> Self {
        let clock = Clock::virtual_at(Wall::from_secs(0), 0);
        let context =
            Context { clock: clock.clone(), state_dir: "/nowhere".into(), site: "test".to_owned() };
        Self {
            machine: config.build(&context).unwrap(),
            clock,
            readings: RefCell::new(Readings::new(Duration::from_millis(200))),
            rng: RefCell::new(ChaCha8Rng::seed_from_u64(seed)),
        }
    }

    /// Reads for ever. Awake: up; busy: between a command and what comes of it.
    async fn measure(&self, phase: &RefCell<(Phase, Mono)>, config: &Config) {
        loop {
            self.clock.sleep(Duration::from_millis(200)).await;
            let now = self.clock.now().mono;
            let (phase, since) = *phase.borrow();
            let busy = match phase {
                Phase::Waking => !self.machine.is_up(),
                Phase::FallingAsleep => now.since(since) < config.sleep_time,
                Phase::Awake | Phase::Asleep => false,
            };
            let watts = if busy {
                60.0
            } else if self.machine.is_up() {
                43.3
            } else {
                1.6
            };
            let noise: f64 = self.rng.borrow_mut().sample(StandardNormal);
            let reading = Reading::Power(Watts(watts + 0.5 * noise));
            self.readings.borrow_mut().take(now, reading, None);
        }
    }

    fn driven(&self, plan: DrivePlan, config: &Config, stop: Option<Duration>) -> Driven {
        let runtime = self.clock.runtime().unwrap();
        let phase = RefCell::new((Phase::Awake, Mono::ZERO));
        runtime.block_on(async {
            let probe = probe::Probe::new(probe::Config::Controller, self.clock.clone());
            let stop = async {
                match stop {
                    Some(time) => self.clock.sleep(time).await,
                    None => std::future::pending().await,
                }
            };
            let on_progress = |drive: &crate::pure::calibrate::states::drive::Drive, now| {
                if phase.borrow().0 != drive.phase() {
                    *phase.borrow_mut() = (drive.phase(), now);
                }
            };
            let driving = drive(&self.machine, &probe, plan, &self.clock, stop, on_progress);
            tokio::select! {
                driven = driving => driven,
                () = self.measure(&phase, config) => unreachable!(),
            }
        })
    }

    fn found(&self, driven: &Driven) -> Result<StatesFound, Error> {
        fit(driven, self.readings.borrow().clone(), "plug/wall".to_owned(), 0.01)
    }
}

fn config() -> Config {
    Config { wake_time: seconds(6), sleep_time: seconds(4), ..Config::default() }
}

fn plan() -> DrivePlan {
    DrivePlan::new(6, &(seconds(40)..=seconds(80)), &(seconds(20)..=seconds(200)))
}

#[test]
fn a_machine_that_is_driven_gives_its_figures_and_times() {
    let mut covered = [0; 3];
    for seed in 0..40 {
        let config = config();
        let bench = Bench::new(seed, &config);
        let driven = bench.driven(plan(), &config, None);
        assert_eq!(driven.ending, Ending::Complete);
        assert!(bench.machine.is_up(), "it is left awake");
        let found = bench.found(&driven).unwrap();
        let (sleep, wake) = (found.time_to_sleep_s.unwrap(), found.time_to_wake_s.unwrap());
        assert!((sleep.median - 4.0).abs() <= 0.11, "{sleep:?}");
        assert!((wake.median - 6.0).abs() <= 0.11, "{wake:?}");
        let fit = &found.fit;
        // 10 s at 60 W instead of 1.6 W; probes and readings between the steps cost a little of it.
        let near =
            |value: f64, truth: f64, by: f64| assert!((value - truth).abs() < by, "{found:?}");
        near(fit.on.value.get(), 43.3, 0.3);
        near(fit.off.value.get(), 1.6, 0.3);
        near(fit.switch.value.get(), 584.0, 25.0);
        covered[0] += u32::from(fit.on.covers(&Watts(43.3)));
        covered[1] += u32::from(fit.off.covers(&Watts(1.6)));
        covered[2] += u32::from(fit.saved.covers(&Watts(41.7)));
    }
    // Of 40 at 95 %, 38 are expected; fewer than 33 have a chance of 1 in 10,000 or so.
    println!("{covered:?} of 40 intervals cover");
    assert!(covered.iter().all(|covered| *covered >= 33), "{covered:?}");
}

#[test]
fn whoever_stops_it_gets_an_awake_machine_and_what_there_is_to_say() {
    for stop in [1, 30, 47, 55, 100, 260] {
        let config = config();
        let bench = Bench::new(stop, &config);
        let driven = bench.driven(plan(), &config, Some(seconds(stop)));
        assert_eq!(driven.ending, Ending::Stopped, "{stop}");
        assert!(bench.machine.is_up(), "stopped after {stop} s");
        match bench.found(&driven) {
            Ok(found) => assert!(found.warnings.iter().any(|it| it.contains("early")), "{found:?}"),
            Err(error) => assert!(matches!(error, Error::Interrupted), "{stop}: {error}"),
        }
    }
}

#[test]
fn a_controller_that_fails_is_told_of() {
    let config = Config { fail_sleeps: 9, starts_up: true, ..config() };
    let bench = Bench::new(1, &config);
    let driven = bench.driven(plan(), &config, None);
    assert_eq!(driven.ending, Ending::NeverSleeps);
    let error = bench.found(&driven).unwrap_err().to_string();
    assert!(error.contains("did not fall asleep") && error.contains("sleep fails"), "{error}");
    let config = Config { never_wakes: true, ..self::config() };
    let bench = Bench::new(2, &config);
    let driven = bench.driven(plan(), &config, None);
    assert_eq!((driven.ending, bench.machine.calls().wakes), (Ending::NeverWakes, 3));
    let error = bench.found(&driven).unwrap_err().to_string();
    assert!(error.contains("by hand"), "{error}");
    // A wake command that fails once is given again.
    let config = Config { fail_wakes: 1, ..self::config() };
    let bench = Bench::new(3, &config);
    assert_eq!(bench.driven(plan(), &config, None).ending, Ending::Complete);
}

/// Seconds of a log at 1 Hz, of means, with two sleeps: 50 W awake, 2 W asleep, and 30 s at 70 W in
/// each waking.
fn recorded() -> (String, [(u64, u64); 3]) {
    let sleeps = [(300, 500), (900, 1500), (1800, 1900)];
    let mut text = String::from("time,watts\n");
    for second in 1..=2400_u64 {
        let of = |(from, to): &(u64, u64)| (*from + 1..=*to).contains(&second);
        let watts = match sleeps.iter().find(|it| of(it)) {
            Some((_, to)) if second > to - 30 => 70.0,
            Some(_) => 2.0,
            None => 50.0,
        };
        // Alternating: means of two are exact.
        let noise = if second % 2 == 0 { 0.1 } else { -0.1 };
        writeln!(text, "{},{}", 1_700_000_000 + second, watts + noise).unwrap();
    }
    (text, sleeps)
}

#[test]
fn a_recording_and_the_times_of_its_sleeps_give_the_figures() {
    let folder = tempfile::tempdir().unwrap();
    let (text, sleeps) = recorded();
    let log = folder.path().join("log.csv");
    fs::write(&log, text).unwrap();
    let times = folder.path().join("times.csv");
    // date -u -d @1700000300 +%FT%TZ and so on; seconds since 1970; since the recording began.
    let forms: [&dyn Fn(u64) -> String; 3] =
        [&|second| (1_700_000_000 + second).to_string(), &|second| second.to_string(), &|second| {
            let of_day = 22 * 3600 + 13 * 60 + 20 + second;
            format!("2023-11-14T{}:{:02}:{:02}Z", of_day / 3600, of_day / 60 % 60, of_day % 60)
        }];
    for form in forms {
        let rows = sleeps.map(|(from, to)| format!("{},{}\n", form(from), form(to)));
        fs::write(&times, format!("sleep,awake\n{}", rows.concat())).unwrap();
        let spec = format!("file={},mean=1s", log.display()).parse().unwrap();
        let options = LogOptions { log: spec, channel: None, times: times.clone() };
        let found = run(&options).unwrap_or_else(|error| panic!("{error}"));
        // 30 s at 70 W instead of 2 W.
        let fit = &found.fit;
        let figures = (fit.on.value.get(), fit.off.value.get(), fit.switch.value.get());
        for (figure, truth) in [(figures.0, 50.0), (figures.1, 2.0), (figures.2, 2040.0)] {
            assert!((figure - truth).abs() < 0.005 * truth, "{found:?}");
        }
        assert_eq!((found.cycles, found.left_out), (3, 0));
        assert!(found.toml().starts_with("[scenario.server]\non_w = 50.0"), "{}", found.toml());
    }
    fs::write(&times, "300,500\nnever,600\n").unwrap();
    let spec = format!("file={}", log.display()).parse().unwrap();
    let options = LogOptions { log: spec, channel: None, times };
    let error = run(&options).unwrap_err().to_string();
    assert!(error.contains("line 2: `never` is no time"), "{error}");
}

#[test]
fn what_is_told_can_be_written_into_a_configuration() {
    #[derive(serde::Deserialize)]
    struct File {
        scenario: nightwatt_policy::scenario::Scenario,
    }
    let config = config();
    let bench = Bench::new(5, &config);
    let driven = bench.driven(plan(), &config, None);
    let text = bench.found(&driven).unwrap().toml();
    println!("{text}");
    let file: File = toml::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    file.scenario.check().unwrap();
    let server = file.scenario.server;
    assert!((server.on_w - 43.3).abs() < 0.3 && server.uncertainty >= 0.01, "{text}");
    assert!(server.wake_time.abs_diff(seconds(6)) < Duration::from_millis(110), "{text}");
}
