use std::time::Duration;

use nightwatt_energy::time::Mono;
use nightwatt_power::simulated::{Calls, Config, Simulated};
use nightwatt_power::{Controller, ControllerConfig, DriverConfig, Observed, process};

use crate::Rig;

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Wakes in 5 s and falls asleep in 4 s.
fn config() -> Config {
    Config { wake_time: seconds(5), sleep_time: seconds(4), ..Config::default() }
}

fn build(rig: &Rig, config: &Config) -> Simulated {
    config.build(&rig.context()).unwrap()
}

#[test]
fn waking_and_sleeping_take_exactly_their_times() {
    let rig = Rig::in_virtual_time();
    let server = build(&rig, &config());
    let now = || rig.clock.now().mono;
    rig.run(async {
        server.wake().await.unwrap();
        assert_eq!(now(), Mono::from_secs(5));
        assert_eq!(server.state().await.unwrap(), Observed::Up);
        server.wake().await.unwrap();
        assert_eq!(now(), Mono::from_secs(5), "it was awake");
        server.sleep().await.unwrap();
        assert_eq!(now(), Mono::from_secs(9));
        assert_eq!(server.state().await.unwrap(), Observed::Down);
        server.sleep().await.unwrap();
        assert_eq!(now(), Mono::from_secs(9), "it slept");
        assert_eq!(server.calls(), Calls { wakes: 2, sleeps: 2 });
    });
}

#[test]
fn falling_asleep_cannot_be_broken_off() {
    let rig = Rig::in_virtual_time();
    let server = build(&rig, &Config { starts_up: true, ..config() });
    rig.run(async {
        let gave_up = rig.clock.timeout(seconds(1), server.sleep()).await;
        assert!(gave_up.is_err());
        assert_eq!(server.state().await.unwrap(), Observed::Down);
        server.wake().await.unwrap();
        assert_eq!(rig.clock.now().mono, Mono::from_secs(4 + 5));
    });
}

#[test]
fn a_wake_that_is_asked_for_twice_happens_once() {
    let rig = Rig::in_virtual_time();
    let server = build(&rig, &config());
    rig.run(async {
        let (first, second) = tokio::join!(server.wake(), server.wake());
        assert!(first.is_ok() && second.is_ok());
        assert_eq!(rig.clock.now().mono, Mono::from_secs(5));
    });
}

#[test]
fn the_first_commands_fail_as_scripted() {
    let rig = Rig::in_virtual_time();
    let server = build(&rig, &Config { fail_wakes: 2, fail_sleeps: 1, ..config() });
    rig.run(async {
        for _ in 0..2 {
            let error = server.wake().await.unwrap_err();
            assert_eq!(error.to_string(), "the scenario says that this attempt to wake fails");
            assert!(error.retryable());
            assert_eq!(server.state().await.unwrap(), Observed::Down);
        }
        server.wake().await.unwrap();
        assert_eq!(rig.clock.now().mono, Mono::from_secs(15));
        assert!(server.sleep().await.is_err());
        assert_eq!(server.state().await.unwrap(), Observed::Up);
        server.sleep().await.unwrap();
    });
}

#[test]
fn an_accepted_command_may_bear_fruit_later_or_never() {
    let rig = Rig::in_virtual_time();
    let later = build(&rig, &Config { ready_after: seconds(30), ..config() });
    let never = build(&rig, &Config { never_wakes: true, ..config() });
    rig.run(async {
        later.wake().await.unwrap();
        assert_eq!(later.state().await.unwrap(), Observed::Down);
        rig.clock.sleep(seconds(29)).await;
        assert_eq!(later.state().await.unwrap(), Observed::Down);
        rig.clock.sleep(seconds(1)).await;
        assert_eq!(later.state().await.unwrap(), Observed::Up);
        never.wake().await.unwrap();
        rig.clock.sleep(seconds(1_000_000)).await;
        assert_eq!(never.state().await.unwrap(), Observed::Down);
    });
}

#[test]
fn somebody_else_may_wake_it_and_it_may_die() {
    let rig = Rig::in_virtual_time();
    let server = build(&rig, &config());
    let handle = server.clone();
    rig.run(async {
        let server: Box<dyn Controller> = Box::new(server);
        handle.come_up();
        assert_eq!(server.state().await.unwrap(), Observed::Up);
        handle.go_down();
        assert_eq!(server.state().await.unwrap(), Observed::Down);
        assert_eq!(handle.calls(), Calls::default());
    });
}

#[test]
fn a_real_process_inside_is_started_after_the_delay_and_stopped_before_it() {
    let rig = Rig::in_virtual_time();
    let inside = process::Config::new(["sh", "-c", "exec sleep 1000"]);
    let pid_file = rig.pid_file();
    let inner = Some(Box::new(ControllerConfig::One(DriverConfig::Process(inside))));
    let config: Config<ControllerConfig> =
        Config { wake_time: seconds(5), sleep_time: seconds(4), inner, ..Config::default() };
    let server = config.build(&rig.context()).unwrap();
    let now = || rig.clock.now().mono;
    rig.run(async {
        assert_eq!(server.state().await.unwrap(), Observed::Down);
        assert!(rig.clock.timeout(seconds(4), server.wake()).await.is_err());
        assert!(!pid_file.exists(), "not before the delay is over");
        server.wake().await.unwrap();
        assert!(pid_file.exists());
        assert_eq!(now(), Mono::from_secs(4 + 5));
        assert_eq!(server.state().await.unwrap(), Observed::Up);

        let sleeps = server.sleep();
        assert!(rig.clock.timeout(seconds(1), sleeps).await.is_err());
        assert!(!pid_file.exists(), "stopped at once");
        assert_eq!(server.state().await.unwrap(), Observed::Down);
        server.wake().await.unwrap();
        assert_eq!(now(), Mono::from_secs(9 + 4 + 5));

        let pid = std::fs::read_to_string(&pid_file).unwrap();
        let pid = pid.split(' ').next().unwrap().parse().unwrap();
        crate::kill(pid);
        let debt = rig.clock.owe();
        crate::ended(pid).await;
        drop(debt);
        assert_eq!(server.state().await.unwrap(), Observed::Down, "it died inside");
        server.wake().await.unwrap();
        assert_eq!(now(), Mono::from_secs(18 + 5));
        server.sleep().await.unwrap();
    });
}
