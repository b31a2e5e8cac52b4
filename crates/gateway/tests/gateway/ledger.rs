//! The bill, the journal and the access log.

use nightwatt_energy::time::Mono;
use nightwatt_gateway::Config;
use nightwatt_gateway::ledger_file::WakeCause;
use nightwatt_policy::lifecycle::Change;
use nightwatt_traffic::clf;
use nightwatt_traffic::record::Line;

use crate::client::{BROWSER, CRAWLER, ask, get, post};
use crate::machines::on;
use crate::origin::{Act, Gate};
use crate::stage::{Stage, asleep, awake, secs};

fn near(one: f64, other: f64) -> bool {
    (one - other).abs() < 1e-6
}

/// Causes of all wake-ups so far; panics if one has none.
fn causes(stage: &Stage) -> Vec<WakeCause> {
    let wakings = stage.journal().into_iter().filter(|it| it.change == Some(Change::Waking));
    wakings.map(|it| it.cause.expect("every wake-up names its cause")).collect()
}

#[test]
fn a_cycle_is_billed_by_the_definition() {
    asleep().play(async |stage| {
        stage.at(100).await;
        stage.ask(get("/a")).await;
        stage.at(1000).await;
        let ledger = stage.status().ledger;
        // Woke at 105, was told to sleep at 165.
        assert!(near(ledger.awake_s, 60.0) && near(ledger.asleep_s, 940.0), "{ledger:?}");
        assert!(near(ledger.unobserved_s, 0.0) && near(ledger.span_s, 1000.0), "{ledger:?}");
        assert_eq!((ledger.sleeps, ledger.wakeups), (1, 1));
        let server = 43.3 * 60.0 + 1.6 * 940.0 + 170.7;
        assert!(near(ledger.server.joules.get(), server), "{:?}", ledger.server);
        assert!(near(ledger.proxy.joules.get(), 5.0 * 1000.0), "{:?}", ledger.proxy);
        assert!(near(ledger.always_on.joules.get(), 43.3 * 1000.0), "{:?}", ledger.always_on);
        let saving = ledger.saving.expect("it has slept and woken");
        assert!(near(saving, 1.0 - (server + 5000.0) / 43_300.0), "{saving}");
    });
}

#[test]
fn before_it_has_slept_and_woken_no_saving_is_told() {
    asleep().play(async |stage| {
        stage.at(100).await;
        let ledger = stage.status().ledger;
        assert!(ledger.asleep_s > 99.0 && ledger.saving.is_none(), "{ledger:?}");
        stage.ask(get("/a")).await;
        stage.at(120).await;
        let ledger = stage.status().ledger;
        assert_eq!((ledger.sleeps, ledger.wakeups, ledger.saving), (0, 1, None));
        stage.at(1000).await;
        let ledger = stage.status().ledger;
        assert_eq!((ledger.sleeps, ledger.wakeups), (1, 1));
        assert!(ledger.saving.is_some_and(|it| it > 0.5), "{ledger:?}");
    });
}

#[test]
fn a_proxy_of_several_sites_is_paid_for_once() {
    asleep().play(async |stage| {
        let proxies = |stage: &Stage| -> Vec<f64> {
            stage.running_status().sites.iter().map(|it| it.ledger.proxy.joules.get()).collect()
        };
        stage.at(100).await;
        assert!(near(proxies(stage)[0], 500.0), "alone it has all of it");
        let more = |config: &mut Config| {
            for name in ["shop", "wiki", "mail"] {
                let mut site = config.site[0].clone();
                (site.name, site.hosts) = (name.to_owned(), vec![name.to_owned()]);
                config.site.push(site);
            }
        };
        stage.reload(more).await.unwrap();
        stage.at(101).await;
        // Whatever happens now, even a power cut of this machine: the journal has the share that
        // bills unobserved time.
        let share = stage.journal().last().unwrap().memory.bill.proxy_share.unwrap();
        assert!(near(share.part, 0.25) && near(share.time.as_secs_f64(), 100.0), "{share:?}");
        stage.at(500).await;
        let (now, each) = (proxies(stage), 400.0 * 5.0 / 4.0);
        assert!(near(now[0], 500.0 + each) && now[1..].iter().all(|it| near(*it, each)), "{now:?}");
        stage.reload(|config| config.site.truncate(2)).await.unwrap();
        stage.at(600).await;
        let now = proxies(stage);
        assert!(near(now[0], 500.0 + each + 250.0) && near(now[1], each + 250.0), "{now:?}");
        stage.stop().await;
        stage.clock.sleep(secs(40)).await;
        stage.start();
        stage.looked().await;
        // What was on the bill stays there; the gap is shared as the time before it.
        let gap = stage.clock.now().mono.since(Mono::from_secs(600)).as_secs_f64() * 2.5;
        let gaps: Vec<f64> = proxies(stage).iter().zip(&now).map(|(it, was)| it - was).collect();
        assert!(gaps.iter().all(|it| near(*it, gap)), "{gaps:?} J, not {gap} each");
        // Who is away is not charged for that time.
        let shop = stage.config.site[1].clone();
        stage.reload(|config| drop(config.site.remove(1))).await.unwrap();
        let (before, left) = (proxies(stage)[0], stage.clock.now().mono);
        stage.at(left.0.as_secs() + 100).await;
        stage.reload(move |config| config.site.push(shop)).await.unwrap();
        let away = stage.clock.now().mono.since(left).as_secs_f64() * 5.0;
        let back = proxies(stage);
        assert!(near(back[0], before + away), "{back:?}");
        assert!(near(back[1], now[1] + gap), "{back:?}");
    });
}

#[test]
fn without_a_site_the_machines_pay_for_the_proxy() {
    let only = |config: &mut Config| {
        config.site.clear();
        let mut other = config.machine[0].clone();
        "other".clone_into(&mut other.name);
        config.machine.push(other);
    };
    on(&["metal"], "", asleep()).with(only).play_from_the_start(async |stage| {
        stage.at(100).await;
        for machine in stage.machines() {
            assert!(near(machine.ledger.proxy.joules.get(), 250.0), "{:?}", machine.ledger);
        }
    });
    on(&["metal"], "", asleep()).play(async |stage| {
        stage.at(100).await;
        assert!(near(stage.machines()[0].ledger.proxy.joules.get(), 0.0));
        assert!(near(stage.status().ledger.proxy.joules.get(), 500.0));
        stage.reload(|config| config.site.clear()).await.unwrap();
        stage.at(300).await;
        let metal = &stage.machines()[0].ledger;
        assert!(near(metal.proxy.joules.get(), 1000.0), "from then on: {metal:?}");
    });
}

#[test]
fn a_restart_goes_on_where_the_bill_was_and_claims_nothing_for_the_gap() {
    asleep().play(async |stage| {
        stage.ask(get("/a")).await;
        stage.at(500).await;
        let before = stage.status().ledger;
        stage.stop().await;
        stage.clock.sleep(secs(300)).await;
        stage.start();
        stage.looked().await;
        let after = stage.status().ledger;
        assert!(near(after.unobserved_s, 300.0), "{after:?}");
        assert!(near(after.awake_s, before.awake_s), "{after:?}");
        assert!(near(after.asleep_s, before.asleep_s), "{after:?}");
        assert_eq!((after.sleeps, after.wakeups), (1, 1));
        stage.at(1000).await;
        let later = stage.status().ledger;
        assert!(near(later.asleep_s, before.asleep_s + 200.0), "{later:?}");
        assert!(near(later.span_s, 1000.0), "{later:?}");
        assert_eq!(stage.ask(post("/b", "x")).await.how(), (200, "held"));
        assert_eq!(stage.status().ledger.wakeups, 2);
    });
}

#[test]
fn a_restart_keeps_the_appointment_with_crawlers() {
    asleep().play(async |stage| {
        let after = stage.ask(get("/deep").agent(CRAWLER)).await.seconds("retry-after");
        stage.at(100).await;
        stage.stop().await;
        stage.clock.sleep(secs(300)).await;
        stage.start();
        stage.looked().await;
        stage.at(after).await;
        assert_eq!(stage.ask(get("/deep").agent(CRAWLER)).await.how(), (200, "server"));
    });
}

#[test]
fn a_restarted_gateway_finds_out_where_the_server_is() {
    awake().play(async |stage| {
        stage.at(10).await;
        stage.stop().await;
        stage.power.go_down();
        stage.origin.down().await;
        stage.start();
        stage.looked().await;
        assert_eq!(stage.state(), "asleep");
        assert_eq!(stage.ask(get("/a")).await.how(), (200, "held"));
    });
}

#[test]
fn every_wake_up_names_the_request_that_caused_it() {
    asleep().play(async |stage| {
        let mut one = stage.begin(get("/one?a=b").agent("curl/8")).await;
        stage.at(1).await;
        let mut other = stage.begin(get("/other")).await;
        tokio::join!(one.answer(), other.answer());
        stage.at(100).await;
        stage.ask(get("/page").by_browser()).await;
        stage.at(200).await;
        let causes = causes(stage);
        let logged = stage.extras();
        let id_of = |line: &str| {
            let at = stage.log().iter().position(|it| it.contains(line)).unwrap();
            logged[at].id.clone()
        };
        let expected = [
            WakeCause::Request {
                id: id_of("GET /one?a=b "),
                client: "127.0.0.1".into(),
                class: "api".into(),
                agent: Some("curl/8".into()),
                line: "GET /one?a=b".into(),
            },
            WakeCause::Request {
                id: id_of("GET /page "),
                client: "127.0.0.1".into(),
                class: "human".into(),
                agent: Some(BROWSER.into()),
                line: "GET /page".into(),
            },
        ];
        assert_eq!(causes, expected);
    });
}

#[test]
fn a_wake_up_before_the_first_look_is_named_too() {
    asleep().play_from_the_start(async |stage| {
        stage.ask(get("/early")).await;
        let causes = causes(stage);
        let [WakeCause::Request { line, .. }] = causes.as_slice() else { panic!("{causes:?}") };
        assert_eq!(line, "GET /early");
    });
}

#[test]
fn a_wake_up_while_it_falls_asleep_is_named_too() {
    asleep().play(async |stage| {
        stage.ask(get("/a")).await;
        stage.at(67).await;
        stage.ask(get("/b")).await;
        let causes = causes(stage);
        let lines: Vec<_> = causes
            .iter()
            .map(|cause| match cause {
                WakeCause::Request { line, .. } => line.as_str(),
                _ => "-",
            })
            .collect();
        assert_eq!(lines, ["GET /a", "GET /b"]);
    });
}

#[test]
fn a_wake_up_for_crawlers_and_one_for_a_server_that_died_are_named() {
    awake().play(async |stage| {
        stage.at(10).await;
        stage.power.go_down();
        stage.origin.down().await;
        stage.ask(post("/a", "x")).await;
        stage.at(100).await;
        stage.ask(get("/deep").agent(CRAWLER)).await;
        stage.at(60_000).await;
        let causes = causes(stage);
        assert_eq!(causes.len(), 2, "{causes:?}");
        assert!(matches!(&causes[0], WakeCause::Request { line, .. } if line == "POST /a"));
        assert_eq!(causes[1], WakeCause::CrawlWindow);
    });
}

#[test]
fn every_request_is_one_line_that_log_readers_understand() {
    asleep().play(async |stage| {
        let odd = "a \"quoted\\ agent";
        let asks = [
            (get("/a").agent("curl/8"), 200, "held", true),
            (get("/a"), 200, "cache", false),
            (get("/wp-login.php"), 200, "server", false),
            (get("/favicon.ico").by_browser(), 200, "server", false),
            (ask("HEAD", "/b"), 200, "server", true),
            (
                post("/c?x='y'\\", "x").agent(odd).field("Referer", "http://blog/\"a"),
                200,
                "server",
                true,
            ),
            (get("/.nightwatt/state"), 200, "state", false),
        ];
        let mut got = Vec::new();
        for (ask, ..) in &asks {
            got.push(stage.ask(ask.clone()).await);
        }
        let lines = stage.log();
        assert_eq!(lines.len(), asks.len(), "{lines:#?}");
        for ((line, got), (_, status, answer, needs)) in lines.iter().zip(&got).zip(&asks) {
            let Ok(Line::Request(record)) = clf::parse(line.as_bytes()) else { panic!("{line}") };
            assert_eq!((record.status, got.status), (*status, *status), "{line}");
            assert_eq!(record.bytes, got.body.len() as u64, "{line}");
            let extras = nightwatt_gateway::Extras::read(line).unwrap();
            assert_eq!((extras.answer.as_str(), extras.answer.as_str()), (*answer, got.answer()));
            assert_eq!(extras.needs_server, *needs, "{line}");
        }
        let extras = stage.extras();
        assert!(near(extras[0].delay_s, 5.0) && near(extras[1].delay_s, 0.0), "{extras:?}");
        let Ok(Line::Request(record)) = clf::parse(lines[5].as_bytes()) else { panic!() };
        assert_eq!(record.to_arrival().agent.as_deref(), Some(odd));
        // The same ids as the origin saw, each once.
        let mut ids: Vec<_> = extras.iter().map(|it| it.id.clone()).collect();
        for seen in stage.origin.seen() {
            assert!(ids.contains(&seen.field("x-request-id").unwrap().to_owned()));
        }
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), asks.len());
    });
}

#[test]
fn refusals_are_in_the_log() {
    awake().play(async |stage| {
        stage.say("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n").await;
        let extras = stage.extras();
        assert_eq!(extras.len(), 1);
        assert_eq!(extras[0].answer, "refused");
    });
}

#[test]
fn a_broken_off_download_is_logged_with_what_passed() {
    awake().play(async |stage| {
        let gate = Gate::shut();
        let never = gate.clone();
        stage.origin.script(move |_| {
            let half = b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf".to_vec();
            vec![Act::Body, Act::Say(half), Act::Await(never.clone())]
        });
        let mut client = stage.begin(get("/film")).await;
        client.head().await;
        client.part().await;
        client.leave().await;
        let lines = stage.log();
        let Ok(Line::Request(record)) = clf::parse(lines[0].as_bytes()) else {
            panic!("{lines:?}")
        };
        assert_eq!((record.status, record.bytes), (200, 4));
    });
}

#[test]
fn answers_are_counted_and_add_up() {
    asleep().play(async |stage| {
        stage.ask(get("/wp-login.php")).await;
        stage.ask(get("/a")).await;
        stage.ask(get("/a")).await;
        stage.ask(get("/deep").agent(CRAWLER)).await;
        let status = stage.status();
        assert_eq!(status.answers.values().sum::<u64>(), 4, "{:?}", status.answers);
        assert_eq!(status.answers["held"], 1);
        assert_eq!(status.answers["scanner"], 1);
        assert_eq!((status.delayed_requests, status.visits, status.delayed_visits), (1, 1, 1));
    });
}
