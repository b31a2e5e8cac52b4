//! Connections: who is at the other end, over which address family, and how they end.

use std::net::{Ipv6Addr, TcpListener};

use crate::client::{Client, get, post};
use crate::origin::ok;
use crate::passthrough_programs::kept_port;
use crate::stage::{Setup, Stage, awake};

fn behind_a_balancer() -> Setup {
    awake().with(|config| config.proxy_protocol = vec!["127.0.0.0/8".parse().unwrap()])
}

const REQUEST: &str = "GET / HTTP/1.1\r\nHost: blog\r\n\r\n";

/// A header of version 2: `PROXY`, TCP over IPv4, from 203.0.113.7:4660 to 192.0.2.1:80, with an
/// extension.
fn version_2() -> Vec<u8> {
    let mut bytes = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x10".to_vec();
    bytes.extend([203, 0, 113, 7, 192, 0, 2, 1, 0x12, 0x34, 0, 80]);
    bytes.extend([0x04, 0, 1, 0]);
    bytes
}

#[test]
fn a_balancer_says_whose_connection_it_is() {
    let headers = [
        (b"PROXY TCP4 203.0.113.7 192.0.2.1 4660 80\r\n".to_vec(), "203.0.113.7"),
        (b"PROXY TCP6 2001:db8::7 2001:db8::1 4660 80\r\n".to_vec(), "2001:db8::7"),
        (version_2(), "203.0.113.7"),
        // Health checks of the balancer's own.
        (b"PROXY UNKNOWN\r\n".to_vec(), "127.0.0.1"),
        (b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0".to_vec(), "127.0.0.1"),
    ];
    for (header, client) in headers {
        for cut in [0, 1, 13, header.len()] {
            behind_a_balancer().play(async |stage| {
                let mut connection = Client::connect(stage).await;
                connection.say(&header[..cut]).await;
                connection.say([&header[cut..], REQUEST.as_bytes()].concat()).await;
                assert_eq!(connection.answer().await.status, 200, "{client}, cut at {cut}");
                assert_eq!(stage.origin.only().field("x-forwarded-for"), Some(client));
                let line = stage.log().pop().unwrap();
                assert!(line.starts_with(&format!("{client} - - ")), "{line}");
            });
        }
    }
}

#[test]
fn without_the_balancers_word_there_is_no_connection() {
    let too_long = [b"PROXY TCP4 ".as_slice(), &[b'1'; 3000]].concat();
    for bytes in [
        REQUEST.as_bytes(),
        b"PROXY TCP4 203.0.113.7\r\nGET / HTTP/1.1\r\nHost: blog\r\n\r\n",
        b"PROXY TCP4 203.0.113.7.1 192.0.2.1 4660 80\r\nGET / HTTP/1.1\r\nHost: blog\r\n\r\n",
        b"\r\n\r\n\0\r\nQUIT\n\x31\x11\0\x0c123456789012GET / HTTP/1.1\r\nHost: blog\r\n\r\n",
        &too_long,
    ] {
        behind_a_balancer().play(async |stage| {
            let mut client = Client::connect(stage).await;
            client.say(bytes).await;
            assert!(client.is_closed().await, "{}", bytes.escape_ascii());
            assert_eq!(stage.origin.lines(), Vec::<String>::new());
        });
    }
}

#[test]
fn a_stranger_cannot_speak_as_a_balancer() {
    awake().play(async |stage| {
        let bytes = format!("PROXY TCP4 203.0.113.7 192.0.2.1 4660 80\r\n{REQUEST}");
        assert_eq!(stage.say(bytes).await.unwrap().status, 505, "a line without HTTP/1.1");
    });
}

#[test]
fn ipv6_is_served() {
    if let Err(error) = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)) {
        eprintln!("skipped: no IPv6 here ({error})");
        return;
    }
    awake().with(|config| config.listen = vec!["[::1]:0".parse().unwrap()]).play(async |stage| {
        assert_eq!(stage.ask(get("/")).await.status, 200);
        assert_eq!(stage.origin.only().field("x-forwarded-for"), Some("::1"));
        assert!(stage.log()[0].starts_with("::1 - - "));
    });
}

#[test]
fn what_is_no_request_is_logged_all_the_same() {
    awake().play(async |stage| {
        let _ = stage.say("\x16\x03\x01\x02\0\x01").await;
        let line = stage.log().pop().unwrap();
        assert!(line.contains("\"- - HTTP/1.1\" 400 ") && line.contains(" site=- "), "{line}");
    });
}

#[test]
fn a_connection_goes_on_after_every_kind_of_answer() {
    awake().play(async |stage| {
        stage.origin.says(ok("body").field("Cache-Control", "max-age=60").field("ETag", "\"1\""));
        let mut client = Client::connect(stage).await;
        // Of the server, from memory by both ways, and without a body.
        for (ask, status) in [
            (get("/a"), 200),
            (get("/a"), 200),
            (get("/a").field("Range", "bytes=1-2"), 206),
            (get("/a").field("If-None-Match", "\"1\""), 304),
            (crate::client::ask("HEAD", "/a"), 200),
            (get("/a"), 200),
            (get("/b"), 200),
        ] {
            client.send(&ask).await;
            assert_eq!(client.answer().await.status, status, "{ask:?}");
        }
        assert_eq!(stage.origin.seen().len(), 2);
    });
}

#[test]
fn requests_sent_together_are_answered_in_their_order() {
    awake().play(async |stage| {
        stage.origin.script(|seen| {
            ok(&format!("this is {}", seen.target)).field("Cache-Control", "max-age=60").acts()
        });
        assert_eq!(stage.ask(get("/hit")).await.status, 200);
        let targets = ["/hit", "/miss", "/hit", "/hit", "/other", "/hit"];
        let all: Vec<u8> = targets.iter().flat_map(|target| get(target).bytes()).collect();
        // Cut at any place: no request may get another's answer.
        for cut in [1, 40, 41, 60, 100, all.len() - 3] {
            let mut client = Client::connect(stage).await;
            client.say(&all[..cut]).await;
            crate::stage::settle(&stage.clock).await;
            client.say(&all[cut..]).await;
            for target in targets {
                assert_eq!(client.answer().await.text(), format!("this is {target}"), "cut {cut}");
            }
        }
    });
}

#[test]
fn both_families_are_listened_to_on_one_port() {
    if let Err(error) = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)) {
        eprintln!("skipped: no IPv6 here ({error})");
        return;
    }
    // Free for both.
    let (_kept, port) = kept_port(Ipv6Addr::UNSPECIFIED);
    let listen = ["0.0.0.0", "[::]"].map(|host| format!("{host}:{port}").parse().unwrap());
    awake().with(move |config| config.listen = listen.to_vec()).play(async |stage| {
        for (address, seen_as) in [("127.0.0.1", "127.0.0.1 - - "), ("[::1]", "::1 - - ")] {
            let mut client =
                Client::connect_to(stage, format!("{address}:{port}").parse().unwrap()).await;
            client.send(&get("/")).await;
            assert_eq!(client.answer().await.status, 200);
            let line = stage.log().pop().unwrap();
            assert!(line.starts_with(seen_as), "{line}");
        }
    });
}

/// The numbers of the connections that the server saw.
fn connections(stage: &Stage) -> Vec<usize> {
    stage.origin.seen().iter().map(|seen| seen.connection).collect()
}

#[test]
fn what_cannot_be_sent_twice_goes_on_a_connection_that_was_used_just_now() {
    let get = || get("/a").field("Cache-Control", "no-cache");
    let once = || post("/a", "once");
    let plan = [(0, get()), (0, once()), (10, once()), (10, get()), (20, get()), (30, once())];
    awake().play(async |stage| {
        for (second, request) in plan {
            stage.at(second).await;
            assert_eq!(stage.ask(request).await.status, 200);
        }
        assert_eq!(connections(stage), [1, 1, 2, 2, 2, 3]);
    });
}

#[test]
fn a_connection_is_given_up_before_the_server_does_it() {
    awake().play(async |stage| {
        let says = ok("five").field("Keep-Alive", "max=100, Timeout=5");
        stage.origin.says(says.field("Cache-Control", "no-store"));
        for second in [0, 3, 6, 10, 13] {
            stage.at(second).await;
            assert_eq!(stage.ask(get("/a")).await.status, 200);
        }
        assert_eq!(connections(stage), [1, 1, 1, 2, 2]);
    });
}
