use std::fs;
use std::os::unix::process::CommandExt;
use std::time::Duration;

use nightwatt_energy::time::Mono;
use nightwatt_power::process::{Config, Process};
use nightwatt_power::{Controller, Error, Heard, Observed, Subject};

use crate::{Rig, ended, kill, runs, vanished};

const SERVER: [&str; 3] = ["sh", "-c", "exec sleep 1000"];

fn script(script: &str) -> Config {
    Config::new(["sh", "-c", script])
}

fn build(rig: &Rig, config: &Config) -> Process {
    config.build(&rig.context()).unwrap()
}

#[test]
fn waking_starts_it_once_and_sleeping_stops_it() {
    let rig = Rig::new();
    let server = build(&rig, &Config::new(SERVER));
    rig.run(async {
        assert_eq!(server.state().await.unwrap(), Observed::Down);
        server.sleep().await.unwrap();
        server.wake().await.unwrap();
        let pid = server.pid().unwrap();
        assert_eq!(server.state().await.unwrap(), Observed::Up);
        server.wake().await.unwrap();
        assert_eq!(server.pid(), Some(pid), "waking what is awake changes nothing");
        server.sleep().await.unwrap();
        assert!(vanished(pid), "neither running nor a zombie");
        assert_eq!(server.state().await.unwrap(), Observed::Down);
        assert!(!rig.pid_file().exists());
        server.wake().await.unwrap();
        assert_ne!(server.pid(), Some(pid));
        server.sleep().await.unwrap();
    });
}

#[test]
fn it_runs_where_and_as_it_was_told_and_its_output_is_kept() {
    let rig = Rig::new();
    let mut news = rig.news("news");
    let mut config = script("echo \"$GREETING from $PWD\"; echo oops >&2; echo done > news");
    config.dir = Some(rig.dir.path().canonicalize().unwrap());
    config.env.insert("GREETING".to_owned(), "hello".to_owned());
    let server = build(&rig, &config);
    rig.run(async {
        server.wake().await.unwrap();
        assert_eq!(news.line().await, "done");
        server.sleep().await.unwrap();
    });
    let log = fs::read_to_string(rig.path("www.example.org.process.log")).unwrap();
    let dir = config.dir.unwrap();
    assert_eq!(log, format!("hello from {}\noops\n", dir.display()));
}

#[test]
fn one_that_dies_counts_as_down_and_leaves_no_zombie() {
    let rig = Rig::new();
    let server = build(&rig, &Config::new(SERVER));
    rig.run(async {
        server.wake().await.unwrap();
        let pid = server.pid().unwrap();
        kill(pid);
        ended(pid).await;
        assert_eq!(server.state().await.unwrap(), Observed::Down);
        assert!(vanished(pid));
        server.wake().await.unwrap();
        assert_eq!(server.state().await.unwrap(), Observed::Up);
        server.sleep().await.unwrap();
    });
}

#[test]
fn one_that_ends_early_is_reaped_at_once_and_reported_with_its_status_and_its_log() {
    let rig = Rig::new();
    // Dies as a server does whose port is taken.
    let server = build(&rig, &script("echo 'address already in use' >&2; exit 98"));
    rig.run(async {
        server.wake().await.unwrap();
        let pid = fs::read_to_string(rig.pid_file()).unwrap();
        let pid = pid.split_whitespace().find_map(|word| word.parse().ok()).unwrap();
        assert_eq!(server.heard().await, Heard::Ended);
        assert!(vanished(pid), "without another call");
        assert_eq!(server.state().await.unwrap(), Observed::Down);
        let error = server.still_starts().await.unwrap_err();
        let log = rig.dir.path().canonicalize().unwrap().join("www.example.org.process.log");
        assert!(fs::read_to_string(&log).unwrap().contains("already in use"));
        let told = error.to_string();
        assert!(told.contains("exit status: 98") && told.contains(log.to_str().unwrap()), "{told}");
        assert!(error.hint().contains("foreground"));
    });
}

#[test]
fn only_an_end_of_its_own_accord_is_news() {
    let rig = Rig::new();
    let server = build(&rig, &Config::new(SERVER));
    rig.run(async {
        let mut news = server.heard();
        let mut is_silent = async || {
            let polled = std::future::poll_fn(|cx| std::task::Poll::Ready(news.as_mut().poll(cx)));
            polled.await.is_pending()
        };
        assert!(is_silent().await);
        server.wake().await.unwrap();
        server.still_starts().await.unwrap();
        assert!(is_silent().await);
        server.sleep().await.unwrap();
        assert!(is_silent().await, "it was stopped");
        server.wake().await.unwrap();
        let pid = server.pid().unwrap();
        kill(pid);
        assert_eq!(news.await, Heard::Ended);
        assert!(vanished(pid));
    });
}

#[test]
fn what_is_left_of_its_group_is_no_stranger() {
    let rig = Rig::new();
    let mut news = rig.news("news");
    let mut config = script("sleep 1000 & echo done > news");
    config.dir = Some(rig.dir.path().to_owned());
    let server = build(&rig, &config);
    rig.run(async {
        assert_eq!(server.subject(), Subject::Child);
        server.wake().await.unwrap();
        assert_eq!(news.line().await, "done");
        assert_eq!(server.heard().await, Heard::Ended);
        assert_eq!(server.state().await.unwrap(), Observed::Down);
        assert_eq!(server.subject(), Subject::Machine);
        server.sleep().await.unwrap();
        assert_eq!(server.subject(), Subject::Child);
    });
}

#[test]
fn whether_it_runs_is_found_out_without_a_controller() {
    let rig = Rig::new();
    let config = Config::new(SERVER);
    assert_eq!(config.has_child(&rig.context()), Some(false));
    let nowhere = rig.path("nowhere");
    let elsewhere = nightwatt_power::Context { state_dir: nowhere.clone(), ..rig.context() };
    assert_eq!(config.has_child(&elsewhere), Some(false));
    assert!(!nowhere.exists(), "nothing is made");
    let server = build(&rig, &config);
    rig.run(async {
        server.wake().await.unwrap();
        assert_eq!(config.has_child(&rig.context()), Some(true));
        fs::remove_file(rig.pid_file()).unwrap();
        assert_eq!(config.has_child(&rig.context()), Some(true), "by its mark");
        assert!(!rig.pid_file().exists(), "nothing is written");
        server.sleep().await.unwrap();
        assert_eq!(config.has_child(&rig.context()), Some(false));
    });
}

#[test]
fn the_next_controller_finds_what_the_last_one_started() {
    let rig = Rig::new();
    let first = build(&rig, &Config::new(SERVER));
    rig.run(first.wake()).unwrap();
    let pid = first.pid().unwrap();
    drop(first);
    let second = build(&rig, &Config::new(SERVER));
    rig.run(async {
        assert_eq!(second.state().await.unwrap(), Observed::Up);
        second.wake().await.unwrap();
        assert_eq!(second.pid(), Some(pid));
        second.sleep().await.unwrap();
        assert!(vanished(pid));
    });
}

/// Not a test of its own: the proxy that the next test kills.
#[test]
#[ignore = "run by `a_killed_proxy_leaves_a_server_that_the_next_one_finds`"]
fn a_proxy_that_is_killed() {
    let Ok(dir) = std::env::var("NIGHTWATT_TEST_DIR") else { return };
    let rig = Rig::new();
    let context = nightwatt_power::Context { state_dir: dir.into(), ..rig.context() };
    let server = Config::new(SERVER).build(&context).unwrap();
    rig.run(server.wake()).unwrap();
    kill(std::process::id().cast_signed());
}

#[test]
fn a_killed_proxy_leaves_a_server_that_the_next_one_finds() {
    for lost_pid_file in [false, true] {
        let rig = Rig::new();
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "process::a_proxy_that_is_killed", "--ignored", "--quiet"])
            .env("NIGHTWATT_TEST_DIR", rig.dir.path())
            .stdout(std::process::Stdio::null())
            .status()
            .unwrap();
        assert_eq!(status.code(), None, "it died of a signal");
        if lost_pid_file {
            // As if the kill had come before it was written.
            fs::remove_file(rig.pid_file()).unwrap();
        }
        let server = build(&rig, &Config::new(SERVER));
        let pid = server.pid().expect("found again");
        assert!(rig.pid_file().exists());
        rig.run(async {
            assert_eq!(server.state().await.unwrap(), Observed::Up);
            server.sleep().await.unwrap();
        });
        assert!(!runs(pid));
    }
}

#[test]
fn one_that_becomes_other_programs_is_found_by_its_mark_all_the_while() {
    let rig = Rig::new();
    // Each of them shows no environment for a moment.
    let config = script(
        "n=${n:-0}; [ $n -lt 2000 ] || exec sleep 1000; export n=$((n + 1)); exec sh -c \"$0\" \"$0\"",
    );
    let config = Config {
        command: [config.command.clone(), vec![config.command[2].clone()]].concat(),
        ..config
    };
    let first = build(&rig, &config);
    rig.run(first.wake()).unwrap();
    let leader = first.pid().unwrap();
    for look in 0..50 {
        fs::remove_file(rig.pid_file()).unwrap();
        assert_eq!(build(&rig, &config).pid(), Some(leader), "look {look}");
    }
    rig.run(first.sleep()).unwrap();
    assert!(vanished(leader));
}

#[test]
fn the_mark_leads_to_the_leader_and_not_to_groups_that_it_started() {
    let rig = Rig::new();
    let mut news = rig.news("news");
    let mut config = script("setsid sh -c 'echo $$ > news; exec sleep 1000' & wait");
    config.dir = Some(rig.dir.path().to_owned());
    let first = build(&rig, &config);
    rig.run(async {
        first.wake().await.unwrap();
        let other_group = news.pid().await;
        let leader = first.pid();
        assert_ne!(leader, Some(other_group));
        fs::remove_file(rig.pid_file()).unwrap();
        let second = build(&rig, &config);
        assert_eq!(second.pid(), leader);
        second.sleep().await.unwrap();
        assert!(runs(other_group), "what leaves the group is no longer ours");
    });
}

#[test]
fn a_pid_that_was_given_to_a_stranger_is_left_alone() {
    let rig = Rig::new();
    // It even leads a group, as our own child would.
    let mut stranger =
        std::process::Command::new("sleep").arg("1000").process_group(0).spawn().unwrap();
    let pid = stranger.id().cast_signed();
    let own = build(&rig, &Config::new(SERVER));
    rig.run(own.wake()).unwrap();
    let noted = fs::read_to_string(rig.pid_file()).unwrap();
    rig.run(own.sleep()).unwrap();
    let mut words: Vec<_> = noted.split_whitespace().map(str::to_owned).collect();
    words[0] = pid.to_string();
    words[1] = "1".to_owned();
    fs::write(rig.pid_file(), words.join(" ")).unwrap();

    let server = build(&rig, &Config::new(SERVER));
    rig.run(async {
        assert_eq!(server.state().await.unwrap(), Observed::Down);
        server.sleep().await.unwrap();
        assert!(runs(pid));
        server.wake().await.unwrap();
        assert_ne!(server.pid(), Some(pid));
        server.sleep().await.unwrap();
        assert!(runs(pid));
    });
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}

#[test]
fn one_that_does_not_stop_is_killed_with_its_children() {
    let rig = Rig::new();
    let mut news = rig.news("news");
    let mut config = script(
        "trap '' TERM; sh -c 'echo $$ > news; while :; do sleep 1000; done' & \
         while :; do sleep 1000; done",
    );
    config.dir = Some(rig.dir.path().to_owned());
    config.stop_timeout = Duration::from_millis(50);
    let server = build(&rig, &config);
    rig.run(async {
        server.wake().await.unwrap();
        let (leader, child) = (server.pid().unwrap(), news.pid().await);
        assert!(runs(child));
        server.sleep().await.unwrap();
        assert!(vanished(leader));
        assert!(!runs(child));
        assert_eq!(server.state().await.unwrap(), Observed::Down);
    });
}

#[test]
fn children_that_outlive_their_parent_are_cleared_away_before_the_next_start() {
    let rig = Rig::new();
    let mut news = rig.news("news");
    let mut config = script("sh -c 'echo $$ > news; exec sleep 1000' & wait");
    config.dir = Some(rig.dir.path().to_owned());
    let server = build(&rig, &config);
    rig.run(async {
        server.wake().await.unwrap();
        let (leader, child) = (server.pid().unwrap(), news.pid().await);
        kill(leader);
        ended(leader).await;
        assert_eq!(server.state().await.unwrap(), Observed::Down);
        assert!(runs(child), "it may hold the port");
        server.wake().await.unwrap();
        assert!(!runs(child));
        let child = news.pid().await;
        server.sleep().await.unwrap();
        assert!(!runs(child));
    });
}

#[test]
fn a_wake_during_a_stop_that_nobody_waits_for_starts_it_anew() {
    let rig = Rig::new();
    let mut news = rig.news("news");
    // Takes until it is told so before it ends. It starts nothing: what a shell forks and has not
    // yet changed into another program may swallow a signal.
    let mut config = script(
        "trap 'echo stopping > news; read -r _ < go; exit' TERM; echo started > news; \
         read -r _ < never",
    );
    config.dir = Some(rig.dir.path().to_owned());
    let (_go, _never) = (rig.news("go"), rig.news("never"));
    let server = build(&rig, &config);
    rig.run(async {
        server.wake().await.unwrap();
        let pid = server.pid().unwrap();
        assert_eq!(news.line().await, "started");
        tokio::select! {
            biased;
            line = news.line() => assert_eq!(line, "stopping"),
            _ = server.sleep() => panic!("it has not ended yet"),
        }
        assert_eq!(server.state().await.unwrap(), Observed::Unknown);
        let go = async { fs::write(rig.path("go"), "on\n").unwrap() };
        tokio::join!(async { server.wake().await.unwrap() }, go);
        assert_eq!(news.line().await, "started");
        assert!(!runs(pid));
        assert_eq!(server.state().await.unwrap(), Observed::Up);
    });
}

#[test]
fn virtual_time_stands_still_while_a_process_stops() {
    let rig = Rig::in_virtual_time();
    let mut config = script("trap '' TERM; while :; do sleep 1000; done");
    config.stop_timeout = Duration::from_millis(20);
    let server = build(&rig, &config);
    rig.run(async {
        let clock = rig.clock.clone();
        let ticker = tokio::spawn(async move { clock.sleep(Duration::from_secs(1)).await });
        server.wake().await.unwrap();
        server.sleep().await.unwrap();
        assert_eq!(rig.clock.now().mono, Mono::ZERO);
        ticker.await.unwrap();
        assert_eq!(rig.clock.now().mono, Mono::from_secs(1));
    });
}

#[test]
fn a_program_that_is_not_there_is_named_and_not_worth_a_retry() {
    let rig = Rig::new();
    let server = build(&rig, &Config::new(["/no/such/program", "--now"]));
    let error = rig.run(server.wake()).unwrap_err();
    assert_eq!(error.to_string(), "cannot start `/no/such/program`");
    assert!(matches!(error, Error::Start { .. }) && !error.retryable());
    assert!(error.hint().contains("full path"));
    assert_eq!(rig.run(server.state()).unwrap(), Observed::Down);
}

#[test]
fn a_log_that_cannot_be_written_does_not_keep_the_site_down() {
    let rig = Rig::new();
    let mut config = Config::new(SERVER);
    config.log = Some(rig.path("no/such/directory/log"));
    let server = build(&rig, &config);
    rig.run(server.wake()).unwrap();
    assert_eq!(rig.run(server.state()).unwrap(), Observed::Up);
    rig.run(server.sleep()).unwrap();
}

#[test]
fn a_state_directory_that_is_a_file_is_refused() {
    let rig = Rig::new();
    let path = rig.path("file");
    fs::write(&path, "").unwrap();
    let context = nightwatt_power::Context { state_dir: path.clone(), ..rig.context() };
    let error = Config::new(SERVER).build(&context).unwrap_err();
    assert_eq!(error.to_string(), format!("cannot use the state directory {}", path.display()));
}
