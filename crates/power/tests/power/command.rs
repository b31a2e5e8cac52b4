use std::time::Duration;

use nightwatt_energy::time::Mono;
use nightwatt_power::command::{Command, Config};
use nightwatt_power::{Controller, Error, Observed};

use crate::{Rig, ended, runs};

fn build(rig: &Rig, config: &Config) -> Command {
    config.build(&rig.context()).unwrap()
}

#[test]
fn each_command_is_told_the_site_and_what_it_is_for() {
    let rig = Rig::new();
    let log = rig.path("log");
    let note = format!("echo \"$NIGHTWATT_ACTION $NIGHTWATT_SITE\" >> {}", log.display());
    let mut config = Config::new(&note, &note);
    config.probe = Some(note);
    let server = build(&rig, &config);
    rig.run(async {
        server.wake().await.unwrap();
        assert_eq!(server.state().await.unwrap(), Observed::Up);
        server.sleep().await.unwrap();
    });
    let log = std::fs::read_to_string(log).unwrap();
    assert_eq!(log, "wake www.example.org\nprobe www.example.org\nsleep www.example.org\n");
}

#[test]
fn the_exit_status_of_the_probe_says_up_or_down_unless_it_could_not_run() {
    let rig = Rig::new();
    let state = |probe: Option<&str>| {
        let mut config = Config::new("true", "true");
        config.probe = probe.map(str::to_owned);
        rig.run(build(&rig, &config).state())
    };
    assert_eq!(state(None).unwrap(), Observed::Unknown);
    assert_eq!(state(Some("exit 0")).unwrap(), Observed::Up);
    assert_eq!(state(Some("exit 1")).unwrap(), Observed::Down);
    assert_eq!(state(Some("exit 255")).unwrap(), Observed::Down);
    let error = state(Some("no-such-prober web")).unwrap_err().to_string();
    assert!(error.starts_with("`no-such-prober web` failed (exit status: 127)"), "{error}");
    let error = state(Some("kill -9 $$")).unwrap_err().to_string();
    assert!(error.starts_with("`kill -9 $$` failed (signal: 9 (SIGKILL))"), "{error}");
}

#[test]
fn a_failure_ends_with_the_last_words() {
    let rig = Rig::new();
    let script = "echo to stdout; echo to stderr >&2; exit 3";
    let error = rig.run(build(&rig, &Config::new(script, "true")).wake()).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("`{script}` failed (exit status: 3), its last words: to stdout\nto stderr")
    );
    assert!(error.retryable());
    let error = rig.run(build(&rig, &Config::new("true", "false")).sleep()).unwrap_err();
    assert_eq!(error.to_string(), "`false` failed (exit status: 1)");
}

#[test]
fn of_much_output_only_the_end_is_kept() {
    let rig = Rig::new();
    let script = "i=0; while [ $i -lt 50000 ]; do echo $i; i=$((i+1)); done; exit 1";
    let error = rig.run(build(&rig, &Config::new(script, "true")).wake()).unwrap_err();
    let Error::Failed { output, .. } = error else { panic!("{error}") };
    assert!(output.len() <= 4096, "{}", output.len());
    assert!(output.ends_with("49998\n49999"), "{output}");
}

#[test]
fn a_time_out_kills_the_shell_and_all_it_started() {
    let rig = Rig::new();
    let mut news = rig.news("news");
    let news_path = rig.path("news");
    let script = format!(
        "echo waiting; trap '' TERM; sh -c 'echo $$ > {}; exec sleep 1000'",
        news_path.display()
    );
    let mut config = Config::new(&script, "true");
    config.timeout = Duration::from_millis(50);
    rig.run(async {
        // On a busy machine it takes longer until there is something to kill.
        let (pid, error) = loop {
            let error = build(&rig, &config).wake().await.unwrap_err();
            let Error::TimedOut { output, .. } = &error else { panic!("{error}") };
            tokio::select! {
                biased;
                // It may be that of the attempt before.
                pid = news.pid() => if output == "waiting" { break (pid, error) },
                () = std::future::ready(()) => {}
            }
            config.timeout *= 2;
            assert!(config.timeout < Duration::from_mins(1), "{error}");
        };
        ended(pid).await;
        assert!(!runs(pid));
        let Error::TimedOut { limit, output, .. } = &error else { panic!("{error}") };
        assert_eq!((*limit, output.as_str()), (config.timeout, "waiting"));
        assert!(error.retryable() && error.hint().contains("`timeout`"));
        let message = format!("`{script}` was not done after {limit:?} and was killed");
        assert!(error.to_string().starts_with(&message), "{error}");
    });
}

#[test]
fn a_command_that_nobody_waits_for_any_more_is_killed() {
    let rig = Rig::new();
    let mut news = rig.news("news");
    let script = format!("echo $$ > {}; exec sleep 1000", rig.path("news").display());
    let server = build(&rig, &Config::new(script, "true"));
    rig.run(async {
        let pid = tokio::select! {
            biased;
            pid = news.pid() => pid,
            _ = server.wake() => panic!("it does not end by itself"),
        };
        ended(pid).await;
        // The next command of all reaps what was left.
        server.sleep().await.unwrap();
        assert!(crate::vanished(pid));
    });
}

#[test]
fn what_a_command_leaves_in_the_background_is_not_waited_for_and_lives_on() {
    let rig = Rig::new();
    let mut news = rig.news("news");
    // It inherits the pipe for the output and holds it open.
    let script =
        format!("sh -c 'echo $$ > {}; exec sleep 1000' & exit 0", rig.path("news").display());
    let mut config = Config::new(script, "true");
    config.timeout = Duration::from_secs(1000);
    rig.run(async {
        build(&rig, &config).wake().await.unwrap();
        let pid = news.pid().await;
        assert!(runs(pid));
        crate::kill(pid);
        ended(pid).await;
    });
}

#[test]
fn a_command_takes_no_virtual_time() {
    let rig = Rig::in_virtual_time();
    let mut config = Config::new("sleep 0.05", "sleep 1000");
    config.timeout = Duration::from_millis(20);
    rig.run(async {
        let clock = rig.clock.clone();
        let ticker = tokio::spawn(async move { clock.sleep(Duration::from_secs(1)).await });
        assert!(build(&rig, &config).sleep().await.is_err());
        config.timeout = Duration::from_secs(1000);
        build(&rig, &config).wake().await.unwrap();
        assert_eq!(rig.clock.now().mono, Mono::ZERO);
        ticker.await.unwrap();
    });
}
