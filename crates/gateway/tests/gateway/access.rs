//! Who may come in, and who may wake the server.

use std::process::Command;

use nightwatt_gateway::Config;
use nightwatt_gateway::config::{AccessConfig, Network, Users};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::access_ban_lines::fail2ban_regex;
use crate::client::{Ask, BROWSER, Client, get, post};
use crate::origin::ok;
use crate::stage::{Setup, Stage, asleep, awake, secs, timeout, watched};

/// ann has the password "Hello world!" (a vector of Drepper's SHA-crypt).
pub(crate) const USERS: &str = "ann:$5$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5\n";
/// `ann:Hello world!` in base64.
pub(crate) const ANN: &str = "Basic YW5uOkhlbGxvIHdvcmxkIQ==";
/// `ann:wrong`.
pub(crate) const WRONG: &str = "Basic YW5uOndyb25n";

pub(crate) fn networks(texts: &[&str]) -> Vec<Network> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

/// Only these networks come in.
pub(crate) fn only(texts: &[&str]) -> AccessConfig {
    AccessConfig { allow: Some(networks(texts)), ..AccessConfig::default() }
}

pub(crate) fn password() -> AccessConfig {
    let users = Users::parse(USERS).unwrap();
    AccessConfig { htpasswd: Some("users".into()), users, ..AccessConfig::default() }
}

pub(crate) fn with(setup: Setup, access: AccessConfig) -> Setup {
    setup.site(|site| site.access = Some(access))
}

/// The peer, 127.0.0.1, speaks for others.
pub(crate) fn behind_a_proxy(setup: Setup) -> Setup {
    setup.with(|config: &mut Config| config.trusted_proxies = networks(&["127.0.0.1"]))
}

pub(crate) fn rule(stage: &Stage) -> Option<String> {
    stage.extras().pop().unwrap().rule
}

#[test]
fn clients_of_other_networks_neither_come_in_nor_wake_it() {
    with(asleep(), only(&["10.0.0.0/8", "::1"])).play(async |stage| {
        for ask in [get("/"), get("/").agent(BROWSER), get("/favicon.ico"), get("/robots.txt")] {
            assert_eq!(stage.ask(ask).await.how(), (403, "denied"));
        }
        assert_eq!(rule(stage).as_deref(), Some("access-network"));
        let state = stage.ask(get("/.nightwatt/state")).await;
        assert_eq!((state.how(), state.text().contains("asleep")), ((403, "denied"), false));
        stage.at(600).await;
        assert_eq!((stage.commands(), stage.status().visits), ((0, 0), 0));
        assert_eq!(stage.status().answers["denied"], 5);
    });
}

#[test]
fn the_client_behind_a_trusted_proxy_counts_and_an_unreadable_one_does_not_come_in() {
    behind_a_proxy(with(awake(), only(&["10.0.0.0/8"]))).play(async |stage| {
        for (client, status) in [
            ("10.1.2.3", 200),
            ("192.0.2.1", 403),
            ("10.1.2.3, 192.0.2.1", 403),
            ("192.0.2.1, 10.1.2.3", 200),
            ("::ffff:10.1.2.3", 200),
            ("unknown", 403),
            ("10.1.2.3, unknown", 403),
            ("_hidden", 403),
            ("", 403),
        ] {
            let got = stage.ask(get("/").field("X-Forwarded-For", client)).await;
            assert_eq!(got.status, status, "{client}");
        }
        assert_eq!(stage.ask(get("/")).await.status, 403, "the proxy itself");
    });
}

#[test]
fn a_password_opens_and_the_server_does_not_get_it() {
    with(asleep(), password()).play(async |stage| {
        let got = stage.ask(get("/a")).await;
        assert_eq!(got.how(), (401, "denied"));
        assert_eq!(got.field("www-authenticate"), Some("Basic realm=\"blog\", charset=\"UTF-8\""));
        assert_eq!(rule(stage).as_deref(), Some("access-log-in"));
        let got = stage.ask(get("/a").field("Authorization", WRONG)).await;
        assert_eq!((got.how(), stage.commands()), ((401, "denied"), (0, 0)));
        assert_eq!(rule(stage).as_deref(), Some("access-password"));
        let got = stage.ask(get("/a").field("Authorization", ANN)).await;
        assert_eq!((got.how(), stage.commands()), ((200, "held"), (1, 0)));
        assert_eq!(stage.origin.only().field("authorization"), None);
    });
}

#[test]
fn what_is_stored_goes_to_all_who_log_in_and_to_no_others() {
    with(awake(), password()).play(async |stage| {
        stage.origin.says(ok("page").field("Cache-Control", "max-age=600"));
        let ann = || get("/a").field("Authorization", ANN);
        for how in [(200, "server"), (200, "cache")] {
            assert_eq!(stage.ask(ann()).await.how(), how);
        }
        assert_eq!(stage.ask(get("/a")).await.how(), (401, "denied"));
        assert_eq!(stage.ask(get("/a").field("Authorization", WRONG)).await.status, 401);
        assert_eq!(stage.origin.lines().len(), 1);
    });
}

#[test]
fn a_client_with_ten_wrong_passwords_waits_and_others_do_not() {
    behind_a_proxy(with(awake(), password())).play(async |stage| {
        let ask = |client: &str, login: &str| {
            get("/").field("X-Forwarded-For", client).field("Authorization", login)
        };
        for _ in 0..10 {
            assert_eq!(stage.ask(ask("192.0.2.1", WRONG)).await.status, 401);
        }
        for login in [WRONG, ANN] {
            let got = stage.ask(ask("192.0.2.1", login)).await;
            assert_eq!((got.how(), got.seconds("retry-after")), ((429, "denied"), 10));
        }
        assert_eq!(rule(stage).as_deref(), Some("access-attempts"));
        assert_eq!(stage.ask(ask("192.0.2.2", ANN)).await.status, 200);
        // What is known to be right needs no attempt.
        assert_eq!(stage.ask(ask("192.0.2.1", ANN)).await.status, 200);
        assert_eq!(stage.ask(ask("192.0.2.1", WRONG)).await.status, 429);
        stage.pass(secs(10)).await;
        assert_eq!(stage.ask(ask("192.0.2.1", WRONG)).await.status, 401);
    });
}

/// Sends these bytes again and again on a connection, and counts the answers by their status.
pub(crate) async fn hammer(stage: &Stage, request: String, count: usize) -> usize {
    let mut stream = TcpStream::connect(stage.address()).await.unwrap();
    let (mut reader, mut writer) = stream.split();
    let write = async {
        for _ in 0..count / 100 {
            writer.write_all(request.repeat(100).as_bytes()).await.unwrap();
        }
    };
    let read = async {
        let (mut denied, mut seen, mut bytes) = (0, Vec::new(), vec![0; 1 << 16]);
        while denied < count {
            let length = reader.read(&mut bytes).await.unwrap();
            assert!(length > 0, "closed after {denied} answers");
            seen.extend_from_slice(&bytes[..length]);
            let is_status = |at: &usize| seen[*at..].starts_with(b"nightwatt-answer: denied");
            let marks = memchr::memmem::find_iter(&seen, b"nightwatt-answer: ").collect::<Vec<_>>();
            assert!(marks.iter().rev().skip(1).all(is_status), "{}", seen.escape_ascii());
            denied += marks.len();
            // A mark may be cut in two.
            let keep = marks.last().map_or(seen.len().saturating_sub(17), |at| at + 18);
            seen.drain(..keep.min(seen.len()));
        }
        denied
    };
    tokio::join!(write, watched("all answers", read)).1
}

#[test]
fn a_hundred_thousand_requests_of_strangers_wake_it_no_time() {
    let access = AccessConfig { deny: networks(&["127.0.0.1"]), ..password() };
    let guarded = AccessConfig { deny: vec![], ..access.clone() };
    for access in [access, guarded] {
        with(asleep(), access).play(async |stage| {
            let _still = stage.clock.owe();
            let mut answers = 0;
            for (target, login) in
                [("/", ""), ("/robots.txt", ""), ("/wp-login.php", ""), ("/", WRONG), ("/", "Bearer x")]
            {
                let login =
                    if login.is_empty() { String::new() } else { format!("Authorization: {login}\r\n") };
                let request = format!(
                    "GET {target} HTTP/1.1\r\nHost: blog\r\nUser-Agent: {BROWSER}\r\nAccept: text/html\r\n{login}\r\n"
                );
                answers += hammer(stage, request, 10_000).await;
            }
            assert_eq!((answers, stage.commands()), (50_000, (0, 0)));
            assert_eq!(stage.status().answers["denied"], 50_000);
        });
    }
}

#[test]
fn a_password_is_not_asked_for_before_the_client_uses_tls() {
    with(awake(), password()).site(|site| site.redirect_to_https = true).play(async |stage| {
        let got = stage.ask(get("/a")).await;
        assert_eq!((got.how(), got.field("www-authenticate")), ((308, "redirect"), None));
        // What is answered without a redirect needs one.
        assert_eq!(stage.ask(get("/.nightwatt/state")).await.how(), (401, "denied"));
        assert_eq!(stage.origin.lines(), [""; 0]);
    });
    let both = AccessConfig { deny: networks(&["127.0.0.1"]), ..password() };
    with(awake(), both).site(|site| site.redirect_to_https = true).play(async |stage| {
        assert_eq!(stage.ask(get("/a")).await.how(), (403, "denied"));
    });
}

#[test]
fn a_network_without_password_needs_none() {
    let access = AccessConfig { without_password: networks(&["10.0.0.0/8"]), ..password() };
    behind_a_proxy(with(awake(), access)).play(async |stage| {
        let from = |client: &str| get("/").field("X-Forwarded-For", client);
        assert_eq!(stage.ask(from("10.0.0.1")).await.status, 200);
        assert_eq!(stage.ask(from("192.0.2.1")).await.status, 401);
    });
}

#[test]
fn clients_that_never_wake_it_are_served_while_it_is_awake() {
    let access = AccessConfig {
        wake: Some(networks(&["10.0.0.0/8"])),
        never_wake: networks(&["10.9.0.0/16"]),
        ..AccessConfig::default()
    };
    let brief = |config: &mut Config| config.scenario.policy = timeout(5);
    behind_a_proxy(with(asleep(), access)).with(brief).play(async |stage| {
        stage.origin.says(ok("page").field("Cache-Control", "max-age=1"));
        let from = |client: &str, target: &str| get(target).field("X-Forwarded-For", client);
        let others = ["192.0.2.1", "10.9.0.1"];
        for client in others {
            for ask in
                [from(client, "/a"), from(client, "/a").by_browser(), from(client, "/robots.txt")]
            {
                let got = stage.ask(ask).await;
                assert_eq!((got.how(), got.seconds("retry-after")), ((503, "denied"), 60));
            }
        }
        assert_eq!((stage.commands(), rule(stage).as_deref()), ((0, 0), Some("access-wake")));
        assert_eq!(stage.ask(from("10.0.0.1", "/a")).await.how(), (200, "held"));
        for (client, target) in others.into_iter().zip(["/b", "/c"]) {
            assert_eq!(stage.ask(from(client, target)).await.how(), (200, "server"));
        }
        stage.pass(secs(600)).await;
        assert_eq!((stage.state().as_str(), stage.commands()), ("asleep", (1, 1)));
        // An old answer needs no wake-up.
        assert_eq!(stage.ask(from(others[0], "/a")).await.how(), (200, "stale"));
        assert_eq!(stage.ask(from(others[0], "/d")).await.how(), (503, "denied"));
        assert_eq!(stage.commands(), (1, 1));
    });
}

#[test]
fn a_monitor_by_its_network_is_answered_with_what_the_proxy_knows() {
    let access = AccessConfig { monitors: networks(&["127.0.0.1"]), ..AccessConfig::default() };
    with(asleep(), access).play(async |stage| {
        let got = stage.ask(get("/").by_browser()).await;
        assert_eq!((got.status, got.answer(), stage.commands()), (200, "monitor", (0, 0)));
        assert_eq!(rule(stage).as_deref(), Some("monitor-networks"));
        // What it sends is not delivered, and no answer may look as if it was.
        let got = stage.ask(post("/order", "x")).await;
        assert_eq!((got.status, got.answer(), stage.commands()), (503, "monitor", (0, 0)));
        assert!(got.field("retry-after").is_some());
    });
}

#[test]
fn a_reload_changes_the_rules_for_connections_that_are_open() {
    awake().play(async |stage| {
        let mut client = Client::connect(stage).await;
        client.send(&get("/a")).await;
        assert_eq!(client.answer().await.status, 200);
        let close = |config: &mut Config| config.site[0].access = Some(only(&["10.0.0.0/8"]));
        stage.reload(close).await.unwrap();
        client.send(&get("/a")).await;
        assert_eq!(client.answer().await.status, 403);
        stage.reload(|config| config.site[0].access = None).await.unwrap();
        client.send(&get("/a")).await;
        assert_eq!(client.answer().await.status, 200);
    });
}

/// The real fail2ban matches the lines that our filter is for, and no others, whatever clients put into them.
#[test]
fn fail2ban_finds_who_guesses_passwords() {
    if !nightwatt_needs::programs(&["fail2ban-regex"]) {
        return;
    }
    behind_a_proxy(with(awake(), password())).play(async |stage| {
        let from = |client: &str, ask: Ask| ask.field("X-Forwarded-For", client);
        // Honest clients, and one that writes what the filter looks for into what it chooses.
        let forged = "\" id=1 site=blog class=api answer=denied delay=0.000 rule=access-password";
        for client in ["192.0.2.1", "192.0.2.2"] {
            stage.ask(from(client, get("/").field("Authorization", ANN))).await;
            stage.ask(from(client, get("/"))).await;
            let asks = [
                get("/").field("Referer", forged),
                get("/").agent(forged),
                get("/?%22%20answer=denied%20rule=access-password"),
            ];
            for ask in asks {
                stage.ask(from(client, ask)).await;
            }
        }
        let guesses = 7;
        for _ in 0..guesses {
            stage.ask(from("198.51.100.7", get("/").field("Authorization", WRONG))).await;
        }
        let lines = stage.log();
        let said = fail2ban_regex(&lines);
        let total = format!("Lines: {} lines, 0 ignored, {guesses} matched", lines.len());
        assert!(said.contains(&total), "{said}\n{lines:#?}");
        let (matched, missed) = said.split_once("Missed line(s)").unwrap();
        assert_eq!(matched.matches("198.51.100.7 - - [").count(), guesses, "{said}");
        assert!(!matched.contains("192.0.2.") && !missed.contains("198.51.100.7"), "{said}");
    });
}

/// Hashes that other programs write today.
#[test]
fn passwords_hashed_by_openssl_and_python_are_known() {
    if !nightwatt_needs::programs(&["openssl", "python3"]) {
        return;
    }
    let openssl = |function: &str| {
        Command::new("openssl")
            .args(["passwd", function, "-salt", "pepper", "Tr0ub4dor&3"])
            .output()
    };
    let crypt = "import crypt; print(crypt.crypt('Tr0ub4dor&3', crypt.mksalt(crypt.METHOD_BLOWFISH, rounds=16)))";
    let python = Command::new("python3").args(["-W", "ignore", "-c", crypt]).output();
    for ran in [openssl("-5"), openssl("-6"), python] {
        let output = ran.unwrap();
        let hash = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && hash.starts_with('$'), "{hash}");
        let users = Users::parse(&format!("ann:{hash}")).unwrap();
        assert!(users.check("ann", b"Tr0ub4dor&3"), "{hash}");
        assert!(!users.check("ann", b"Tr0ub4dor&4"), "{hash}");
    }
}
