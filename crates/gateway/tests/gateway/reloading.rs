//! Another configuration while it runs: what did not change goes on, what did keeps what can be kept.

use std::net::SocketAddr;
use std::time::Duration;

use nightwatt_gateway::{Config, ReloadError, Reloaded};
use nightwatt_policy::lifecycle::Change;
use nightwatt_policy::sleep::PolicyChoice;

use crate::client::{Client, get};
use crate::machines::on;
use crate::origin::{Act, Seen, ok};
use crate::passthrough::{Caller, echo, with_echo};
use crate::passthrough_programs::services;
use crate::stage::{Stage, asleep, awake, secs};

/// Another site, which sleeps.
fn second(config: &mut Config) {
    let mut site = config.site[0].clone();
    "shop".clone_into(&mut site.name);
    site.hosts = vec!["shop".to_owned()];
    config.site.push(site);
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn a_reload_that_changes_nothing_keeps_everything() {
    awake().play(async |stage| {
        stage.origin.says(ok("page").field("Cache-Control", "max-age=3600"));
        stage.ask(get("/")).await;
        let done = stage.reload(|_| {}).await.unwrap();
        assert_eq!(done, Reloaded::default());
        assert_eq!(stage.ask(get("/")).await.how(), (200, "cache"));
        let requests: u64 = stage.status().answers.values().sum();
        assert_eq!(requests, 2, "what was counted is counted on");
        assert!(stage.running_status().reload.is_some_and(|it| it.refused.is_none()));
    });
}

#[test]
fn who_waits_is_answered_by_the_site_that_changed_meanwhile() {
    asleep().play(async |stage| {
        let mut client = stage.begin(get("/")).await;
        stage.at(2).await;
        assert_eq!(stage.state(), "waking");
        let change = |config: &mut Config| {
            config.scenario.policy = PolicyChoice::AlwaysOn;
            config.site[0].waiting_page = false;
            config.limits.hold = secs(300);
        };
        assert_eq!(stage.reload(change).await.unwrap().changed, names(&["blog"]));
        assert_eq!(client.answer().await.how(), (200, "held"));
        assert_eq!(stage.commands(), (1, 0), "it is woken once");
        stage.at(3600).await;
        assert_eq!(stage.state(), "awake", "the new policy holds");
        let woke = stage.journal().iter().filter(|it| it.change == Some(Change::Woke)).count();
        assert_eq!(woke, 1);
    });
}

#[test]
fn a_connection_from_before_finds_the_sites_that_are_there_now() {
    awake().site(|site| site.hosts = vec!["blog".to_owned()]).play(async |stage| {
        let mut client = Client::connect(stage).await;
        let shop = get("/").host("shop");
        client.send(&shop).await;
        assert_eq!(client.answer().await.status, 421);
        let mut client = Client::connect(stage).await;
        client.send(&get("/")).await;
        assert_eq!(client.answer().await.status, 200);
        let done = stage.reload(|config| config.site[0].hosts.push("shop".to_owned())).await;
        assert_eq!(done.unwrap().changed, names(&["blog"]));
        client.send(&shop).await;
        assert_eq!(client.answer().await.status, 200);
    });
}

#[test]
fn who_is_believed_no_more_speaks_for_nobody_else() {
    let trusting = awake().with(|config| {
        config.trusted_proxies = vec!["127.0.0.1".parse().unwrap()];
    });
    trusting.play(async |stage| {
        stage.origin.says(ok("hello").field("Cache-Control", "max-age=600"));
        let mut client = Client::connect(stage).await;
        for ask in [get("/"), get("/").field("X-Forwarded-For", "203.0.113.7")] {
            client.send(&ask).await;
            assert_eq!(client.answer().await.status, 200);
        }
        assert!(stage.log().pop().unwrap().starts_with("203.0.113.7 "));
        stage.reload(|config| config.trusted_proxies.clear()).await.unwrap();
        client.send(&get("/")).await;
        assert_eq!(client.answer().await.how(), (200, "cache"));
        let line = stage.log().pop().unwrap();
        assert!(line.starts_with("127.0.0.1 "), "{line}");
    });
}

#[test]
fn new_sites_begin_and_those_that_are_gone_leave_their_servers_as_they_are() {
    awake().site(|site| site.hosts = vec!["blog".to_owned()]).play(async |stage| {
        assert_eq!(stage.reload(second).await.unwrap().new, names(&["shop"]));
        stage.at(1).await;
        assert_eq!(stage.running_status().sites.len(), 2);
        let done = stage.reload(|config| drop(config.site.remove(0))).await.unwrap();
        assert_eq!(done.gone, names(&["blog"]));
        stage.at(3600).await;
        assert_eq!(stage.commands(), (0, 0));
        assert_eq!(stage.ask(get("/")).await.status, 421);
        let back = stage.reload(|config| {
            let mut site = config.site[0].clone();
            (site.name, site.hosts) = ("blog".to_owned(), vec!["blog".to_owned()]);
            config.site.push(site);
        });
        assert_eq!(back.await.unwrap().new, names(&["blog"]));
        assert_eq!(stage.ask(get("/")).await.status, 200);
    });
}

#[test]
fn who_waits_for_a_site_that_goes_is_answered() {
    asleep().site(|site| site.hosts = vec!["blog".to_owned()]).play(async |stage| {
        stage.reload(second).await.unwrap();
        let mut client = stage.begin(get("/")).await;
        stage.at(2).await;
        assert_eq!(stage.state(), "waking");
        stage.reload(|config| drop(config.site.remove(0))).await.unwrap();
        assert_eq!(client.answer().await.how(), (200, "held"));
        stage.at(3600).await;
        assert_eq!(stage.commands(), (1, 0), "nobody puts it to sleep any more");
    });
}

#[test]
fn who_waits_for_a_site_that_goes_and_comes_back_is_answered_by_it() {
    let hosts =
        |site: &mut nightwatt_gateway::config::SiteConfig| site.hosts = vec!["blog".to_owned()];
    on(&["metal"], "", asleep()).site(hosts).play(async |stage| {
        let blog = stage.config.site[0].clone();
        let metal = stage.config.machine[0].clone();
        stage.reload(second).await.unwrap();
        let mut client = stage.begin(get("/")).await;
        stage.at(2).await;
        assert_eq!(stage.states()[..2], ["waking", "waking"]);
        let leave = |config: &mut Config| {
            config.site.remove(0);
            config.site[0].on = None;
            config.machine.clear();
        };
        assert_eq!(stage.reload(leave).await.unwrap().gone, names(&["metal", "blog"]));
        stage.at(4).await;
        let come_back = move |config: &mut Config| {
            config.machine.push(metal);
            config.site.insert(0, blog);
        };
        assert_eq!(stage.reload(come_back).await.unwrap().new, names(&["metal", "blog"]));
        assert_eq!(stage.states()[..2], ["waking", "waking"], "it is the same as before");
        assert_eq!(client.answer().await.how(), (200, "held"));
        // 10 s for the metal, 5 for the server: no wake-up was given up and begun again.
        assert_eq!(stage.clock.now().mono.0.as_secs(), 15);
        assert_eq!(stage.commands(), (1, 0));
        stage.at(3600).await;
        assert_eq!(stage.states()[..2], ["asleep", "asleep"], "and it is looked after again");
        assert_eq!(stage.commands(), (1, 1));
    });
}

#[test]
fn a_reload_that_fails_leaves_those_waiting_who_had_left() {
    asleep().site(|site| site.hosts = vec!["blog".to_owned()]).play(async |stage| {
        let blog = stage.config.site[0].clone();
        stage.reload(second).await.unwrap();
        let mut client = stage.begin(get("/")).await;
        stage.at(2).await;
        stage.reload(|config| drop(config.site.remove(0))).await.unwrap();
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let come_back = move |config: &mut Config| {
            config.site.push(blog);
            config.listen.push(address);
        };
        assert!(matches!(stage.reload(come_back).await, Err(ReloadError::Start(_))));
        assert_eq!(client.answer().await.how(), (200, "held"));
        stage.at(3600).await;
        assert_eq!(stage.commands(), (1, 0), "nobody puts it to sleep any more");
    });
}

#[test]
fn what_cannot_change_is_named_and_nothing_is_changed() {
    awake().play(async |stage| {
        let elsewhere = std::env::temp_dir().join("nightwatt-elsewhere");
        let changed = stage.reload(move |config| {
            config.state_dir = elsewhere;
            config.site[0].hosts = vec!["other".to_owned()];
        });
        let error = changed.await.unwrap_err();
        assert!(
            matches!(&error, ReloadError::Fixed { what, .. } if *what == ["`state_dir`"]),
            "{error}"
        );
        // The control socket is there: `--replace` would find no process.
        assert!(error.hint().contains("stop this process"), "{}", error.hint());
        assert_eq!(stage.ask(get("/")).await.status, 200);
        let refused = stage.running_status().reload.unwrap().refused.unwrap();
        assert!(refused.contains("`state_dir` cannot change"), "{refused}");
        let fewer = stage.reload(|config| config.limits.connections = 7).await.unwrap_err();
        assert!(fewer.hint().contains("--replace"), "{}", fewer.hint());
    });
}

#[test]
fn what_cannot_be_begun_changes_nothing() {
    awake().play(async |stage| {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let changed = stage.reload(move |config| {
            config.listen.push(address);
            config.site[0].hosts = vec!["other".to_owned()];
        });
        assert!(matches!(changed.await, Err(ReloadError::Start(_))));
        assert_eq!(stage.ask(get("/")).await.status, 200);
    });
}

#[test]
fn addresses_come_and_go_and_who_is_connected_stays() {
    awake().play(async |stage| {
        let mut client = Client::connect(stage).await;
        client.send(&get("/")).await;
        assert_eq!(client.answer().await.status, 200);
        let old = stage.address();
        let done = stage.reload(|config| config.listen[0] = "127.0.0.2:0".parse().unwrap()).await;
        let wanted = Reloaded {
            listens_on: vec!["127.0.0.2:0".to_owned()],
            no_longer_on: vec!["127.0.0.1:0".to_owned()],
            has_changed: true,
            ..Reloaded::default()
        };
        assert_eq!(done.unwrap(), wanted);
        assert_ne!(stage.address(), old);
        assert_eq!(stage.ask(get("/")).await.status, 200);
        client.send(&get("/")).await;
        let last = client.answer().await;
        assert_eq!((last.status, last.field("connection")), (200, Some("close")));
        stage.at(10).await;
        assert!(std::net::TcpStream::connect_timeout(&old, Duration::from_secs(5)).is_err());
    });
}

/// The addresses of the only services that are passed through, as `status` shows them.
fn shown(stage: &Stage) -> [Vec<String>; 2] {
    let status = stage.running_status();
    [status.tcp[0].listen.clone(), status.udp[0].listen.clone()]
}

/// The same as the kernel knows them.
fn bound(stage: &Stage) -> [Vec<String>; 2] {
    let texts = |all: &[SocketAddr]| all.iter().map(ToString::to_string).collect();
    [texts(&stage.running().tcp_addresses), texts(&stage.running().udp_addresses)]
}

#[test]
fn status_shows_the_ports_that_services_got_also_after_a_reload() {
    let tables = "[[tcp]]\nname = \"git\"\nlisten = [\"127.0.0.1:0\", \"127.0.0.2:0\"]\non = \"blog\"\n\
                  origin = \"127.0.0.1:9\"\n[[udp]]\nname = \"dns\"\nlisten = [\"127.0.0.1:0\"]\n\
                  on = \"blog\"\norigin = \"127.0.0.1:9\"\n";
    services(awake(), tables.to_owned()).play(async |stage| {
        let before = shown(stage);
        assert_eq!((&before, before[0].len(), before[1].len()), (&bound(stage), 2, 1));
        assert!(before.iter().flatten().all(|it| !it.ends_with(":0")), "{before:?}");
        let change = |config: &mut Config| {
            config.tcp[0].listen.remove(0);
            config.udp[0].listen.push("127.0.0.2:0".parse().unwrap());
        };
        stage.reload(change).await.unwrap();
        let after = shown(stage);
        assert_eq!((&after, after[1].len()), (&bound(stage), 2));
        assert_eq!(after[0], before[0][1..], "it is kept");
        assert_eq!(after[1][0], before[1][0], "it is kept");
    });
}

#[test]
fn who_is_held_at_an_address_that_goes_is_answered_however_long_the_server_takes() {
    // Longer than idle connections linger and than requests under way may take at a stop, together.
    let slow = asleep().power(|power| power.wake_time = secs(100));
    slow.with(|config| config.limits.hold = secs(180)).play(async |stage| {
        let mut client = stage.begin(get("/")).await;
        stage.at(2).await;
        stage.reload(|config| config.listen[0] = "127.0.0.2:0".parse().unwrap()).await.unwrap();
        assert_eq!(client.answer().await.how(), (200, "held"));
        assert_eq!(stage.now().0.as_secs(), 100);
    });
}

#[test]
fn what_is_passed_through_goes_on_when_its_service_is_gone_from_the_configuration() {
    let (setup, listener) = with_echo(awake(), "quiet = \"1m\"\nasleep = \"keep\"");
    setup.play(async |stage| {
        let _heard = echo(listener);
        let mut caller = Caller::connect(stage).await;
        caller.say(stage, b"a").await;
        assert_eq!(caller.hears(stage, 1).await, b"a");
        stage.reload(|config| config.tcp.clear()).await.unwrap();
        stage.at(600).await;
        assert_eq!(stage.state(), "asleep");
        caller.say(stage, b"b").await;
        stage.at(605).await;
        assert_eq!(caller.hears(stage, 1).await, b"b");
        assert_eq!(stage.commands(), (1, 1));
    });
}

#[test]
fn a_site_that_goes_keeps_its_machine_awake_no_longer_than_somebody_is_served() {
    let setup = on(&["metal"], "starts_up = true", awake());
    let setup = setup.site(|site| site.hosts = vec!["blog".to_owned()]);
    setup.with(|config| config.scenario.policy = PolicyChoice::AlwaysOn).play(async |stage| {
        stage.at(100).await;
        assert_eq!(stage.states(), ["awake", "awake"]);
        let slow = |_: &Seen| [vec![Act::Take(secs(50))], ok("late").acts()].concat();
        stage.origin.script(slow);
        let mut client = stage.begin(get("/")).await;
        let change = |config: &mut Config| {
            second(config);
            config.site.remove(0);
            config.site[0].on = None;
        };
        assert_eq!(stage.reload(change).await.unwrap().gone, names(&["blog"]));
        stage.at(149).await;
        assert_eq!(stage.machines()[0].state, "awake");
        assert_eq!(client.answer().await.status, 200);
        // It lingers for 30 s, and takes 5 to fall asleep.
        stage.at(187).await;
        assert_eq!(stage.machines()[0].state, "asleep");
    });
}

#[test]
fn what_a_refused_reload_had_begun_ends() {
    awake().site(|site| site.hosts = vec!["blog".to_owned()]).play(async |stage| {
        // The site could be opened, and its driver has begun; the log cannot.
        let refused = stage.reload(|config| {
            second(config);
            config.access_log = Some("/proc/no/such/log".into());
        });
        assert!(matches!(refused.await, Err(ReloadError::Start(_))));
        let ledger = stage.ledger_of("shop");
        stage.at(7200).await;
        assert_eq!(stage.ledger_of("shop"), ledger, "nobody drives it");
        assert_eq!(stage.reload(second).await.unwrap().new, names(&["shop"]));
    });
}

#[test]
fn a_cache_whose_rules_changed_begins_empty_and_the_other_one_stays() {
    awake().site(|site| site.hosts = vec!["blog".to_owned()]).play(async |stage| {
        stage.origin.says(ok("page").field("Cache-Control", "max-age=3600"));
        stage.ask(get("/")).await;
        assert_eq!(stage.status().cache.0, 1);
        stage.reload(|config| config.site[0].wakes_per_client_and_hour = 3).await.unwrap();
        assert_eq!(stage.status().cache.0, 1);
        stage.reload(|config| config.scenario.cache.size_mb = 1).await.unwrap();
        assert_eq!(stage.status().cache.0, 0);
    });
}

async fn page(stage: &Stage) -> String {
    stage.ask(get("/").by_browser()).await.text().to_owned()
}

#[test]
fn a_page_to_wait_on_that_was_written_anew_is_shown_after_a_reload() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("page.html");
    std::fs::write(&file, "first").unwrap();
    let own = file.clone();
    let setup = asleep().power(|power| power.never_wakes = true);
    setup.site(move |site| site.waiting_page_file = Some(own)).play(async |stage| {
        assert_eq!(page(stage).await, "first");
        assert_eq!(stage.reload(|_| {}).await.unwrap(), Reloaded::default());
        std::fs::write(&file, "second").unwrap();
        assert_eq!(page(stage).await, "first");
        assert_eq!(stage.reload(|_| {}).await.unwrap().changed, names(&["blog"]));
        assert_eq!(page(stage).await, "second");
        assert_eq!(stage.commands().0, 1, "it is being woken still");
        std::fs::remove_file(&file).unwrap();
        let error = stage.reload(|_| {}).await.unwrap_err();
        assert!(error.to_string().contains("`waiting_page_file` of site `blog`"), "{error}");
        assert_eq!(page(stage).await, "second");
    });
}
