//! Orders over the control socket, and shadow mode.

use std::net::{Ipv4Addr, SocketAddr};

use nightwatt_energy::time::Mono;
use nightwatt_gateway::Config;
use nightwatt_gateway::config::AdminConfig;
use nightwatt_gateway::control::{Order, Reply};
use nightwatt_gateway::ledger_file::WakeCause;
use nightwatt_policy::lifecycle::Change;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

use crate::client::{BROWSER, get, post};
use crate::passthrough_programs::kept_port;
use crate::stage::{Stage, asleep, awake, secs, watched};

/// Says lines to the control socket; one line comes back for each.
async fn send_lines(stage: &Stage, lines: &[&str]) -> Vec<Reply> {
    let _still = stage.clock.owe();
    let stream = UnixStream::connect(stage.control_socket()).await.unwrap();
    let (reading, mut writing) = stream.into_split();
    let mut replies = BufReader::new(reading).lines();
    let mut all = Vec::new();
    for line in lines {
        writing.write_all(format!("{line}\n").as_bytes()).await.unwrap();
        let reply = watched("a reply", replies.next_line()).await.unwrap().expect("a reply");
        all.push(serde_json::from_str(&reply).unwrap());
    }
    all
}

fn error(reply: &Reply) -> &str {
    match reply {
        Reply::Error(text) => text,
        other => panic!("not an error: {other:?}"),
    }
}

#[test]
fn the_operator_wakes_it_and_puts_it_to_sleep() {
    asleep().play(async |stage| {
        assert!(matches!(stage.order(Order::Wake { site: None }).await, Reply::Done));
        stage.at(5).await;
        assert_eq!(stage.state(), "awake");
        let woke = stage.journal();
        let waking = woke.iter().find(|record| record.change == Some(Change::Waking)).unwrap();
        assert_eq!(waking.cause, Some(WakeCause::Operator));
        stage.at(10).await;
        let order = Order::Sleep { site: Some("blog".into()) };
        assert!(matches!(stage.order(order).await, Reply::Done));
        stage.at(10).await;
        assert_eq!(stage.state(), "falling-asleep", "an order does not wait for the minute");
        stage.at(15).await;
        assert_eq!(stage.state(), "asleep");
    });
}

#[test]
fn an_order_to_wake_does_not_wait_for_the_pause_after_failures() {
    asleep().power(|power| power.never_wakes = true).play(async |stage| {
        stage.ask(get("/").by_browser()).await;
        stage.at(360).await;
        assert_eq!((stage.state().as_str(), stage.commands()), ("failed", (3, 0)));
        stage.at(370).await;
        assert!(matches!(stage.order(Order::Wake { site: None }).await, Reply::Done));
        assert_eq!((stage.state().as_str(), stage.commands()), ("waking", (4, 0)));
    });
}

#[test]
fn an_order_to_sleep_waits_for_requests_under_way() {
    awake().play(async |stage| {
        let gate = crate::origin::Gate::shut();
        let waits = gate.clone();
        stage.origin.script(move |_| {
            let mut acts = vec![crate::origin::Act::Await(waits.clone())];
            acts.extend(crate::origin::ok("done").acts());
            acts
        });
        let mut client = stage.begin(get("/a")).await;
        client.lets_time_pass();
        stage.order(Order::Sleep { site: None }).await;
        stage.at(20).await;
        assert_eq!((stage.state().as_str(), stage.commands()), ("awake", (0, 0)));
        gate.open();
        assert_eq!(client.answer().await.text(), "done");
        stage.at(20).await;
        assert_eq!(stage.commands(), (0, 1));
    });
}

#[test]
fn stay_awake_holds_for_as_long_as_it_says() {
    asleep().play(async |stage| {
        stage.order(Order::StayAwake { site: None, seconds: 1000 }).await;
        stage.at(999).await;
        let status = stage.status();
        assert_eq!(status.state, "awake");
        assert!(status.kept_awake_by.unwrap().contains("stay-awake"));
        stage.at(1000).await;
        assert_eq!(stage.commands(), (1, 1));
    });
}

#[test]
fn an_order_that_is_none_gets_a_reason_and_the_next_one_is_heard() {
    awake().play(async |stage| {
        let long = format!("{{\"order\":\"{}\"}}", "x".repeat(3000));
        let replies = send_lines(
            stage,
            &[
                "wake up",
                "",
                "{}",
                r#"{"order":"dance"}"#,
                r#"{"order":"wake","site":"shop"}"#,
                r#"{"order":"wake","size":"blog"}"#,
                r#"{"order":"stay-awake","seconds":-5}"#,
                r#"{"order":"stay-awake","seconds":604801}"#,
                &long,
                r#"{"order":"status"}"#,
            ],
        )
        .await;
        for reply in &replies[..9] {
            assert!(!error(reply).is_empty());
        }
        assert!(error(&replies[4]).contains("blog"), "it says which sites there are");
        assert!(error(&replies[5]).contains("size"), "{:?}", replies[5]);
        assert!(error(&replies[7]).contains("a week"), "{:?}", replies[7]);
        assert!(matches!(replies[9], Reply::Status(_)));
        assert_eq!(stage.commands(), (0, 0));
    });
}

#[test]
fn an_endless_line_does_no_harm() {
    awake().play(async |stage| {
        {
            let _still = stage.clock.owe();
            let mut stream = UnixStream::connect(stage.control_socket()).await.unwrap();
            let _ = stream.write_all(&vec![b'x'; 1 << 20]).await;
            let _ = stream.write_all(b"\xff\xfe\n").await;
        }
        assert!(matches!(stage.order(Order::Status).await, Reply::Status(_)));
    });
}

#[test]
fn the_control_socket_is_for_its_owner() {
    use std::os::unix::fs::PermissionsExt;
    awake().play(async |stage| {
        let mode = std::fs::metadata(stage.control_socket()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        stage.stop().await;
        assert!(!stage.control_socket().exists());
    });
}

#[test]
fn shadow_mode_leaves_the_server_alone_and_says_what_would_have_been() {
    awake().observing().probed_by_http().play(async |stage| {
        assert_eq!(stage.ask(get("/a").by_browser()).await.how(), (200, "server"));
        stage.at(1000).await;
        assert_eq!(stage.commands(), (0, 0));
        let shadow = stage.status().shadow.unwrap();
        assert_eq!(shadow.state, "asleep");
        // Awake from 0 to 60.
        assert!((shadow.ledger.awake_s - 60.0).abs() < 1e-9, "{:?}", shadow.ledger);
        assert!((shadow.ledger.asleep_s - 940.0).abs() < 1e-9, "{:?}", shadow.ledger);
        assert_eq!((shadow.ledger.sleeps, shadow.delayed_requests), (1, 0));
        assert_eq!((stage.ask(post("/b", "x")).await.how()), (200, "server"));
        assert_eq!(stage.now(), Mono::from_secs(1000), "nobody is delayed in truth");
        stage.at(1010).await;
        let shadow = stage.status().shadow.unwrap();
        assert_eq!((shadow.requests, shadow.delayed_requests), (2, 1));
        assert_eq!((shadow.visits, shadow.delayed_visits), (2, 1));
        assert_eq!((shadow.state.as_str(), shadow.ledger.wakeups), ("awake", 1));
        let log = stage.log();
        assert!(log[0].contains("would=server"), "{}", log[0]);
        assert!(log[1].contains("would=held"), "{}", log[1]);
        let truth = stage.status().ledger;
        assert_eq!((truth.sleeps, truth.wakeups), (0, 0));
        assert!((truth.awake_s - 1010.0).abs() < 1e-9, "{truth:?}");
    });
}

#[test]
fn shadow_mode_serves_whatever_the_probe() {
    for setup in [awake(), awake().probed_by_tcp(), awake().probed_by_http()] {
        setup.observing().play(async |stage| {
            let got = stage.ask(get("/a").agent(BROWSER)).await;
            assert_eq!((got.how(), stage.now()), ((200, "server"), Mono::ZERO));
        });
    }
}

#[test]
fn shadow_mode_serves_a_server_that_the_controller_did_not_start() {
    awake().observing().play(async |stage| {
        stage.stop().await;
        // The origin goes on all the same.
        stage.power.go_down();
        stage.start();
        stage.looked().await;
        assert_eq!(stage.ask(get("/a")).await.how(), (200, "server"));
        assert_eq!(stage.commands(), (0, 0));
    });
}

#[test]
fn shadow_mode_takes_no_orders() {
    awake().observing().probed_by_http().play(async |stage| {
        let reply = stage.order(Order::Sleep { site: None }).await;
        assert!(error(&reply).contains("shadow"));
        stage.at(100).await;
        assert_eq!(stage.commands(), (0, 0));
    });
}

#[test]
fn shadow_mode_survives_an_origin_that_is_away() {
    let observed = awake().observing().probed_by_http();
    observed.site(|site| site.watch = secs(60)).play(async |stage| {
        stage.origin.down().await;
        let got = stage.ask(get("/a")).await;
        assert!(matches!(got.status, 502..=504), "{got:?}");
        assert_eq!(stage.commands(), (0, 0));
        stage.origin.up();
        stage.pass(secs(3600)).await;
        assert_eq!(stage.ask(get("/b")).await.how(), (200, "server"));
    });
}

#[test]
fn a_second_gateway_on_the_same_address_disturbs_nothing() {
    let (_kept, port) = kept_port(Ipv4Addr::LOCALHOST);
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let fixed = awake().with(move |config| config.listen = vec![address]);
    fixed.play(async |stage| {
        let records = stage.journal().len();
        let error = stage.start_another().err().expect("the address is taken");
        assert!(error.to_string().contains("cannot listen"), "{error}");
        assert!(error.hint().is_some());
        assert!(matches!(stage.order(Order::Status).await, Reply::Status(_)));
        stage.at(100).await;
        assert_eq!(stage.commands(), (0, 1), "only one of them commands the server");
        let of_others = stage.journal().len() - records;
        assert_eq!(of_others, 2, "it fell asleep: two records, all of the first gateway");
    });
}

#[test]
fn an_address_that_cannot_be_had_is_named_with_its_key() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    // An address for documentation (RFC 5737), which no machine has.
    let foreign: SocketAddr = "192.0.2.1:9180".parse().unwrap();
    for (admin, key, advice) in [
        (AdminConfig::from(address), "`admin`", "`ss -ltnp` shows which"),
        (AdminConfig { is_table: true, ..address.into() }, "`admin.listen`", "write another port"),
        (AdminConfig::from(foreign), "`admin`", "`ip address` shows"),
    ] {
        awake().play(async |stage| {
            let listen = admin.listen;
            let config = Config { admin: Some(admin), ..stage.config.clone() };
            let error = stage.start_beside(config).err().expect("the address cannot be had");
            let start = format!("{key}: cannot listen on {listen}: ");
            assert!(error.to_string().starts_with(&start), "{error}");
            assert!(error.hint().unwrap().contains(advice), "{:?}", error.hint());
        });
    }
}

#[test]
fn a_second_gateway_on_the_same_state_is_refused() {
    awake().play(async |stage| {
        let records = stage.journal().len();
        let error = stage.start_another().err().expect("the state is in use");
        assert!(error.to_string().contains("another gateway"), "{error}");
        assert!(error.hint().unwrap().contains("state_dir"));
        assert!(matches!(stage.order(Order::Status).await, Reply::Status(_)));
        assert_eq!(stage.journal().len(), records);
    });
}

#[test]
fn what_a_killed_gateway_left_behind_is_no_hindrance_and_what_is_not_its_own_is_left_alone() {
    awake().play(async |stage| {
        stage.stop().await;
        let socket = stage.control_socket();
        drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
        stage.start();
        assert!(matches!(stage.order(Order::Status).await, Reply::Status(_)));
        stage.stop().await;
        std::fs::write(&socket, "precious").unwrap();
        let error = stage.start_another().err().expect("the place is taken");
        assert!(error.to_string().contains("control.sock"), "{error}");
        assert_eq!(std::fs::read_to_string(&socket).unwrap(), "precious");
    });
}
