//! Passwords: what counts as an attempt, who gets them, and clients that leave before theirs is checked.

use std::sync::{Arc, Mutex, mpsc};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use nightwatt_gateway::config::{AccessConfig, Users};
use socket2::SockRef;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::access::{ANN, USERS, WRONG, behind_a_proxy, networks, password, rule, with};
use crate::client::get;
use crate::origin::ok;
use crate::stage::{Stage, awake, secs, settle};

fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
}

#[test]
fn credentials_of_another_kind_are_no_attempts() {
    with(awake(), password()).play(async |stage| {
        for credentials in ["Bearer abc", "Digest username=\"ann\"", "Negotiate YII=", "token x"] {
            for _ in 0..10 {
                let got = stage.ask(get("/").field("Authorization", credentials)).await;
                assert_eq!(got.how(), (401, "denied"), "{credentials}");
                assert!(got.field("www-authenticate").is_some());
                assert_eq!(rule(stage).as_deref(), Some("access-log-in"));
            }
        }
        assert_eq!(stage.ask(get("/").field("Authorization", ANN)).await.status, 200);
        assert_eq!(stage.origin.only().field("authorization"), None);
    });
}

#[test]
fn right_passwords_are_no_attempts() {
    let users: String = (0..13).map(|number| USERS.replace("ann", &format!("u{number}"))).collect();
    let access = AccessConfig { users: Users::parse(&users).unwrap(), ..password() };
    with(awake(), access).play(async |stage| {
        for number in 0..13 {
            let right = basic(&format!("u{number}"), "Hello world!");
            let got = stage.ask(get("/").field("Authorization", &right)).await;
            assert_eq!(got.status, 200, "the user with number {number}");
        }
    });
}

#[test]
fn clients_without_password_keep_their_credentials_for_the_server_and_their_answers() {
    let access = AccessConfig { without_password: networks(&["10.0.0.0/8"]), ..password() };
    behind_a_proxy(with(awake(), access)).play(async |stage| {
        stage.origin.says(ok("page").field("Cache-Control", "max-age=600"));
        let from = |client: &str, credentials: &str| {
            get("/a").field("X-Forwarded-For", client).field("Authorization", credentials)
        };
        let theirs = basic("ann", "of the server");
        let credentials = ["Bearer abc", theirs.as_str(), "Bearer abc"];
        for shown in credentials {
            assert_eq!(stage.ask(from("10.0.0.1", shown)).await.how(), (200, "server"));
        }
        let seen = stage.origin.seen();
        let shown: Vec<_> = seen.iter().map(|it| it.field("authorization")).collect();
        assert_eq!(shown, credentials.map(Some));
        // Their answers are for them alone.
        let anonymous = get("/a").field("X-Forwarded-For", "10.0.0.2");
        assert_eq!(stage.ask(anonymous).await.how(), (200, "server"));
        // A password of this proxy is for this proxy, also where none is needed.
        assert_eq!(stage.ask(from("192.0.2.1", ANN)).await.status, 200);
        let ours = get("/b").field("X-Forwarded-For", "10.0.0.1").field("Authorization", ANN);
        assert_eq!(stage.ask(ours).await.how(), (200, "server"));
        let last = stage.origin.seen().pop().unwrap();
        assert_eq!((last.target.as_str(), last.field("authorization")), ("/b", None));
        // They were no attempts.
        for _ in 0..20 {
            assert_eq!(stage.ask(from("10.0.0.1", WRONG)).await.status, 200);
        }
    });
}

/// All threads for hashes are busy until this is dropped.
fn busy_threads() -> mpsc::Sender<()> {
    let (over, is_over) = mpsc::channel();
    let is_over = Arc::new(Mutex::new(is_over));
    // The number of threads that tokio has by default.
    for _ in 0..512 {
        let is_over = Arc::clone(&is_over);
        tokio::task::spawn_blocking(move || {
            let _ = is_over.lock().unwrap().recv();
        });
    }
    over
}

/// A client shows a password, and resets its connection while it waits for the answer.
async fn shows_and_resets(stage: &Stage, credentials: &str) {
    let mut stream = TcpStream::connect(stage.address()).await.unwrap();
    let request = format!("GET / HTTP/1.1\r\nHost: blog\r\nAuthorization: {credentials}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    settle(&stage.clock).await;
    SockRef::from(&stream).set_linger(Some(secs(0))).unwrap();
    drop(stream);
    settle(&stage.clock).await;
}

#[test]
fn a_guess_of_a_client_that_left_is_logged_and_counted_by_its_result() {
    with(awake(), password()).play(async |stage| {
        let denied = |stage: &Stage| stage.status().answers.get("denied").copied().unwrap_or(0);
        let busy = busy_threads();
        shows_and_resets(stage, WRONG).await;
        assert_eq!(denied(stage), 0, "its hash is not computed yet");
        // Its turn does not come before the first one's is over.
        shows_and_resets(stage, &basic("ann", "another")).await;
        assert_eq!(denied(stage), 1);
        assert_eq!(rule(stage).as_deref(), Some("access-left"));
        drop(busy);
        stage.until("the result of the guess", |it| it.answers.get("denied") == Some(&2)).await;
        // It is counted before it is logged.
        while stage.log().len() < 2 {
            settle(&stage.clock).await;
        }
        assert_eq!(rule(stage).as_deref(), Some("access-password"));
        let lines = stage.log();
        assert!(lines.iter().all(|line| line.contains("\" 499 0 ")), "{lines:?}");
        // One that has left with the right password came in.
        let busy = busy_threads();
        shows_and_resets(stage, ANN).await;
        drop(busy);
        stage.until("its result", |it| it.answers.get("gone") == Some(&1)).await;
        while stage.log().len() < 3 {
            settle(&stage.clock).await;
        }
        assert_eq!((rule(stage), denied(stage)), (None, 2));
        assert_eq!(stage.origin.lines(), [""; 0]);
    });
}

/// A browser that comes back after a restart sends several requests at once.
#[test]
fn requests_of_one_client_with_the_same_password_do_not_hinder_each_other() {
    with(awake(), password()).play(async |stage| {
        let busy = busy_threads();
        let mut clients = Vec::new();
        for number in 0..6 {
            let ask = get(&format!("/{number}")).field("Authorization", ANN);
            clients.push(stage.begin(ask).await);
        }
        let third = || get("/").field("Authorization", &basic("ann", "third"));
        let second = stage.begin(get("/").field("Authorization", WRONG)).await;
        let got = stage.ask(third()).await;
        assert_eq!((got.how(), got.seconds("retry-after")), ((503, "denied"), 1));
        assert_eq!(rule(stage).as_deref(), Some("access-busy"));
        drop(busy);
        for mut client in clients {
            assert_eq!(client.answer().await.status, 200);
        }
        drop(second);
    });
}
