//! Connections that are passed through: what wakes the server, what keeps it awake, how they end.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use nightwatt_gateway::Config;
use nightwatt_gateway::control::Order;

use crate::client::get;
use crate::machines::on;
use crate::passthrough_programs::{kept_port, port, services};
use crate::stage::{Setup, Stage, asleep, awake, secs, settle, watched};

/// What the service heard, each connection for itself.
pub(crate) type Heard = Arc<Mutex<Vec<Vec<u8>>>>;

/// A service that sends back what it gets, and ends when its client has.
pub(crate) fn echo(listener: std::net::TcpListener) -> Heard {
    let listener = TcpListener::from_std(listener).unwrap();
    let heard = Heard::default();
    let all = Arc::clone(&heard);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let at = {
                let mut all = all.lock().unwrap();
                all.push(Vec::new());
                all.len() - 1
            };
            let all = Arc::clone(&all);
            tokio::spawn(async move {
                let mut part = vec![0; 4096];
                while let Ok(length @ 1..) = stream.read(&mut part).await {
                    all.lock().unwrap()[at].extend(&part[..length]);
                    if stream.write_all(&part[..length]).await.is_err() {
                        return;
                    }
                }
                let _ = stream.shutdown().await;
            });
        }
    });
    heard
}

/// A service called `echo` with these lines besides, and the address it is at.
pub(crate) fn with_echo(setup: Setup, lines: &str) -> (Setup, std::net::TcpListener) {
    let (listener, origin) = port();
    (echo_at(setup, origin, lines), listener)
}

/// A service called `echo` with these lines besides, at this address.
fn echo_at(setup: Setup, origin: SocketAddr, lines: &str) -> Setup {
    let table = format!(
        "[[tcp]]\nname = \"echo\"\nlisten = [\"127.0.0.1:0\"]\non = \"blog\"\norigin = \"{origin}\"\n{lines}\n"
    );
    services(setup, table)
}

/// A client of a service. Time stands still while it speaks or listens, and only then.
pub(crate) struct Caller(pub(crate) TcpStream);

impl Caller {
    pub(crate) async fn connect(stage: &Stage) -> Self {
        Self::connect_to(stage, stage.tcp_addresses()[0]).await
    }

    pub(crate) async fn connect_to(stage: &Stage, at: SocketAddr) -> Self {
        let _still = stage.clock.owe();
        let stream = watched("a connection", TcpStream::connect(at)).await.unwrap();
        settle(&stage.clock).await;
        Self(stream)
    }

    pub(crate) async fn say(&mut self, stage: &Stage, bytes: &[u8]) {
        let _still = stage.clock.owe();
        watched("bytes to be taken", self.0.write_all(bytes)).await.unwrap();
        settle(&stage.clock).await;
    }

    pub(crate) async fn hears(&mut self, stage: &Stage, length: usize) -> Vec<u8> {
        let _still = stage.clock.owe();
        let mut bytes = vec![0; length];
        watched("bytes of the service", self.0.read_exact(&mut bytes)).await.unwrap();
        settle(&stage.clock).await;
        bytes
    }

    /// All that still comes, or why it was broken off.
    pub(crate) async fn rest(&mut self, stage: &Stage) -> Result<Vec<u8>, ErrorKind> {
        let _still = stage.clock.owe();
        let mut bytes = Vec::new();
        let read = watched("the end", self.0.read_to_end(&mut bytes)).await;
        read.map(|_| bytes).map_err(|error| error.kind())
    }
}

pub(crate) fn outcome(stage: &Stage, outcome: &str) -> u64 {
    stage.services()[0].outcomes.get(outcome).copied().unwrap_or(0)
}

#[test]
fn what_was_said_while_the_server_woke_arrives_whole_and_in_order() {
    let (setup, listener) = with_echo(asleep(), "held_bytes = 1000");
    setup.play(async |stage| {
        let heard = echo(listener);
        let all: Vec<u8> = (0..100_000_u32).flat_map(u32::to_be_bytes).collect();
        let mut caller = Caller::connect(stage).await;
        caller.say(stage, &all[..50]).await;
        caller.say(stage, &all[50..40_000]).await;
        assert_eq!((stage.services()[0].held, stage.state().as_str()), (1, "waking"));
        // The server takes 5 s to wake.
        stage.at(5).await;
        assert_eq!(caller.hears(stage, 40_000).await, all[..40_000]);
        caller.say(stage, b"more").await;
        assert_eq!(caller.hears(stage, 4).await, b"more");
        caller.0.shutdown().await.unwrap();
        assert_eq!(caller.rest(stage).await, Ok(Vec::new()));
        assert_eq!(heard.lock().unwrap()[0].len(), 40_004);
        assert_eq!(stage.commands(), (1, 0));
        let line = stage.log().pop().unwrap();
        assert!(line.contains("\"TCP echo HTTP/1.1\" 200 40004 "), "{line}");
        let extras = stage.extras().pop().unwrap();
        assert_eq!((extras.answer.as_str(), extras.delay_s), ("held", 5.0));
    });
}

#[test]
fn a_hundred_are_held_and_the_next_is_turned_away_at_once() {
    let (setup, listener) = with_echo(asleep(), "held = 100");
    // Of many clients: one alone has a share.
    let many = setup.with(|config| config.trusted_proxies = vec!["127.0.0.1".parse().unwrap()]);
    many.play(async |stage| {
        let heard = echo(listener);
        let mut callers = Vec::new();
        for number in 0..100_u8 {
            let mut caller = Caller::connect(stage).await;
            caller.say(stage, &[number; 10]).await;
            callers.push(caller);
        }
        assert_eq!(stage.services()[0].held, 100);
        let mut next = Caller::connect(stage).await;
        assert_eq!(next.rest(stage).await, Err(ErrorKind::ConnectionReset));
        assert_eq!(outcome(stage, "queue-full"), 1);
        stage.at(5).await;
        for (number, caller) in (0..100_u8).zip(&mut callers) {
            assert_eq!(caller.hears(stage, 10).await, [number; 10]);
        }
        assert_eq!(heard.lock().unwrap().len(), 100);
        assert_eq!((stage.services()[0].open, stage.services()[0].waited), (100, 100));
        assert_eq!(stage.commands(), (1, 0), "one wake-up for all");
    });
}

#[test]
fn who_leaves_while_held_gives_the_place_back() {
    let (setup, listener) = with_echo(asleep(), "held = 1");
    setup.play(async |stage| {
        let _heard = echo(listener);
        let caller = Caller::connect(stage).await;
        // Not an orderly end, which may only be the end of what it has to say.
        socket2::SockRef::from(&caller.0).set_linger(Some(secs(0))).unwrap();
        drop(caller);
        settle(&stage.clock).await;
        assert_eq!((stage.services()[0].held, outcome(stage, "left")), (0, 1));
    });
}

#[test]
fn who_has_said_all_that_is_kept_and_breaks_off_gives_the_place_back() {
    // One has filled what is kept of it, the other has ended what it says: nothing more is read of either.
    for (said, ends) in [(5000, false), (5, true)] {
        let (setup, listener) = with_echo(asleep(), "held = 1\nheld_bytes = 1000");
        setup.play(async |stage| {
            let _heard = echo(listener);
            let mut caller = Caller::connect(stage).await;
            caller.say(stage, &vec![7; said]).await;
            if ends {
                caller.0.shutdown().await.unwrap();
                settle(&stage.clock).await;
            }
            assert_eq!(stage.services()[0].held, 1, "an end of what it says is none of it");
            socket2::SockRef::from(&caller.0).set_linger(Some(secs(0))).unwrap();
            drop(caller);
            settle(&stage.clock).await;
            assert_eq!((stage.services()[0].held, outcome(stage, "left")), (0, 1));
        });
    }
}

#[test]
fn a_stop_waits_for_nobody_who_is_held_or_quiet() {
    for setup in [asleep(), awake()] {
        let (setup, listener) = with_echo(setup, "quiet = \"1s\"\nasleep = \"keep\"");
        setup.play(async |stage| {
            let _heard = echo(listener);
            let mut caller = Caller::connect(stage).await;
            let is_asleep = stage.state() == "waking";
            if !is_asleep {
                stage.at(2).await;
            }
            let it = &stage.services()[0];
            assert_eq!((it.held, it.quiet), if is_asleep { (1, 0) } else { (0, 1) });
            let before = stage.now();
            stage.stop().await;
            assert_eq!(stage.now(), before);
            assert_eq!(caller.rest(stage).await, Err(ErrorKind::ConnectionReset));
            assert!(stage.log().pop().unwrap().contains("\"TCP echo HTTP/1.1\""));
        });
    }
}

#[test]
fn a_stop_waits_for_connections_that_are_in_use_for_as_long_as_for_requests() {
    let (setup, listener) = with_echo(awake(), "");
    setup.with(|config| config.limits.drain = secs(7)).play(async |stage| {
        let _heard = echo(listener);
        let mut caller = Caller::connect(stage).await;
        caller.say(stage, b"a").await;
        assert_eq!(caller.hears(stage, 1).await, b"a");
        let before = stage.now();
        stage.stop().await;
        assert_eq!(stage.now().since(before), secs(7));
        assert_eq!(caller.rest(stage).await, Err(ErrorKind::ConnectionReset));
        assert!(stage.log().pop().unwrap().contains("\"TCP echo HTTP/1.1\" 200 1 "));
    });
}

#[test]
fn each_side_may_end_what_it_says_and_listen_on() {
    let (listener, origin) = port();
    let table = format!(
        "[[tcp]]\nname = \"once\"\nlisten = [\"127.0.0.1:0\"]\non = \"blog\"\norigin = \"{origin}\"\n"
    );
    services(awake(), table).play(async |stage| {
        let listener = TcpListener::from_std(listener).unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut question = Vec::new();
            stream.read_to_end(&mut question).await.unwrap();
            assert_eq!(question, b"question");
            stream.write_all(b"answer").await.unwrap();
        });
        let mut caller = Caller::connect(stage).await;
        caller.say(stage, b"question").await;
        caller.0.shutdown().await.unwrap();
        assert_eq!(caller.rest(stage).await, Ok(b"answer".to_vec()));
        assert_eq!(outcome(stage, "passed"), 1);
    });
}

#[test]
fn a_connection_without_bytes_lets_its_server_sleep_and_is_reset_then() {
    let (setup, listener) = with_echo(awake(), "quiet = \"10m\"");
    setup.play(async |stage| {
        let _heard = echo(listener);
        let mut caller = Caller::connect(stage).await;
        caller.say(stage, b"a").await;
        assert_eq!(caller.hears(stage, 1).await, b"a");
        stage.at(599).await;
        assert_eq!((stage.state().as_str(), stage.services()[0].quiet), ("awake", 0));
        // The policy waits for another 5 s.
        stage.at(602).await;
        assert_eq!((stage.state().as_str(), stage.services()[0].quiet), ("awake", 1));
        stage.at(606).await;
        assert_eq!(caller.rest(stage).await, Err(ErrorKind::ConnectionReset));
        assert_eq!(outcome(stage, "slept"), 1);
        assert_eq!((stage.services()[0].open, stage.services()[0].quiet), (0, 0));
        stage.at(611).await;
        assert_eq!(stage.state(), "asleep");
    });
}

#[test]
fn a_connection_that_is_kept_wakes_its_server_with_the_next_byte() {
    let (setup, listener) = with_echo(awake(), "quiet = \"1m\"\nasleep = \"keep\"");
    setup.play(async |stage| {
        let _heard = echo(listener);
        let mut caller = Caller::connect(stage).await;
        caller.say(stage, b"a").await;
        assert_eq!(caller.hears(stage, 1).await, b"a");
        stage.at(100).await;
        assert_eq!(stage.state(), "asleep");
        caller.say(stage, b"b").await;
        assert_eq!(stage.state(), "waking");
        stage.at(105).await;
        assert_eq!(caller.hears(stage, 1).await, b"b");
        assert_eq!((stage.state().as_str(), stage.services()[0].quiet), ("awake", 0));
        assert_eq!(stage.commands(), (1, 1));
    });
}

#[test]
fn an_open_connection_keeps_its_server_awake_if_so_configured_until_it_is_closed() {
    let lines = "keep_awake = \"connection\"\nidle_timeout = \"1h\"";
    let (setup, listener) = with_echo(awake(), lines);
    setup.play(async |stage| {
        let _heard = echo(listener);
        let mut caller = Caller::connect(stage).await;
        stage.at(3599).await;
        assert_eq!((stage.state().as_str(), outcome(stage, "idle")), ("awake", 0));
        stage.at(3602).await;
        assert_eq!(caller.rest(stage).await, Err(ErrorKind::ConnectionReset));
        assert_eq!(outcome(stage, "idle"), 1);
        stage.at(3620).await;
        assert_eq!(stage.state(), "asleep");
    });
}

#[test]
fn a_server_that_will_not_wake_resets_who_waited_for_it() {
    // Nor does its service answer.
    let (_kept, port) = kept_port(Ipv4Addr::LOCALHOST);
    let origin = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let setup = echo_at(asleep().power(|power| power.fail_wakes = 100), origin, "");
    setup.play(async |stage| {
        let mut caller = Caller::connect(stage).await;
        stage.at(130).await;
        assert_eq!(caller.rest(stage).await, Err(ErrorKind::ConnectionReset));
        assert_eq!(outcome(stage, "wake-failed") + outcome(stage, "held-too-long"), 1);
    });
}

#[test]
fn a_service_that_is_not_there_resets_who_wants_it() {
    // No server listens at port 1.
    let table = "[[tcp]]\nname = \"none\"\nlisten = [\"127.0.0.1:0\"]\non = \"blog\"\n\
                 origin = \"127.0.0.1:1\"\n";
    services(awake(), table.to_owned()).play(async |stage| {
        stage.at(60).await;
        stage.ask(get("/")).await;
        let mut caller = Caller::connect(stage).await;
        let rest = Caller::rest(&mut caller, stage).await;
        assert_eq!(rest, Err(ErrorKind::ConnectionReset));
        assert_eq!(outcome(stage, "unreachable"), 1);
    });
}

#[test]
fn the_service_is_told_whose_connection_it_is() {
    for version in ["v1", "v2"] {
        let (setup, listener) = with_echo(awake(), &format!("send_proxy_protocol = \"{version}\""));
        setup.play(async |stage| {
            let heard = echo(listener);
            let mut caller = Caller::connect(stage).await;
            let (from, to) =
                (caller.0.local_addr().unwrap().port(), stage.tcp_addresses()[0].port());
            caller.say(stage, b"hello").await;
            // By the specification of HAProxy, sections 2.1 and 2.2.
            let expected = if version == "v1" {
                format!("PROXY TCP4 127.0.0.1 127.0.0.1 {from} {to}\r\nhello").into_bytes()
            } else {
                let mut bytes =
                    b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\x7f\0\0\x01\x7f\0\0\x01".to_vec();
                bytes.extend(from.to_be_bytes());
                bytes.extend(to.to_be_bytes());
                bytes.extend(b"hello");
                bytes
            };
            assert_eq!(caller.hears(stage, expected.len()).await, expected);
            assert_eq!(heard.lock().unwrap()[0], expected);
        });
    }
}

/// A `ClientHello` for `git.example.org`, by RFC 8446, 4.1.2 and RFC 6066, 3.
pub(crate) fn hello() -> Vec<u8> {
    let name = b"git.example.org";
    let mut body =
        [&[3, 3][..], &[7; 32], &[0, 0, 2, 0x13, 1, 1, 0, 0, 24, 0, 0, 0, 20, 0, 18, 0, 0, 15]]
            .concat();
    body.extend(name);
    let message = [&[1, 0, 0, body.len() as u8][..], &body].concat();
    [&[22, 3, 1, 0, message.len() as u8][..], &message].concat()
}

#[test]
fn a_hello_that_comes_byte_by_byte_wakes_the_server_with_its_last_one() {
    let (setup, listener) = with_echo(asleep(), "sni = [\"*.example.org\"]");
    setup.play(async |stage| {
        let heard = echo(listener);
        let (hello, mut caller) = (hello(), Caller::connect(stage).await);
        for byte in &hello[..hello.len() - 1] {
            caller.say(stage, &[*byte]).await;
        }
        assert_eq!(stage.commands(), (0, 0));
        caller.say(stage, &hello[hello.len() - 1..]).await;
        assert_eq!(stage.commands(), (1, 0));
        stage.at(5).await;
        assert_eq!(caller.hears(stage, hello.len()).await, hello);
        assert_eq!(heard.lock().unwrap()[0], hello, "as it was sent");
    });
}

#[test]
fn a_hello_that_does_not_come_to_its_end_wakes_nobody_and_is_not_waited_for() {
    let (setup, listener) = with_echo(asleep(), "sni = [\"*.example.org\"]");
    setup.play(async |stage| {
        let _heard = echo(listener);
        let (hello, mut caller) = (hello(), Caller::connect(stage).await);
        // A byte each 10 s: 30 s is the limit for a head, from its first byte to its last.
        for (at, byte) in hello[..3].iter().enumerate() {
            stage.at(at as u64 * 10).await;
            caller.say(stage, &[*byte]).await;
        }
        stage.at(31).await;
        // A fatal alert, and the end.
        assert_eq!(caller.rest(stage).await, Ok(vec![21, 3, 3, 0, 2, 2, 80]));
        assert_eq!(stage.commands(), (0, 0));
        let page = stage.ask_admin(get("/metrics")).await;
        let line = "nightwatt_tcp_connections_total{service=\"unknown\",outcome=\"slow-hello\"} 1";
        assert!(page.text().contains(line), "{}", page.text());
        let unknown = stage.services().pop().unwrap();
        assert_eq!((unknown.name.as_str(), unknown.outcomes["slow-hello"]), ("unknown", 1));
        let line = stage.log().pop().unwrap();
        assert!(
            line.contains("\"TCP unknown HTTP/1.1\" 400 ") && line.contains("site=- "),
            "{line}"
        );
    });
}

#[test]
fn what_is_no_tls_is_reset_where_names_are_asked_for() {
    let (setup, listener) = with_echo(asleep(), "sni = [\"*.example.org\"]");
    setup.play(async |stage| {
        let _heard = echo(listener);
        let mut caller = Caller::connect(stage).await;
        caller.say(stage, b"GET / HTTP/1.1\r\n\r\n").await;
        assert_eq!(caller.rest(stage).await, Err(ErrorKind::ConnectionReset));
        assert_eq!(stage.commands(), (0, 0));
    });
}

#[test]
fn shadow_mode_passes_everything_through_and_counts_a_connection_once() {
    let (setup, listener) = with_echo(awake().observing(), "quiet = \"1m\"");
    setup.play(async |stage| {
        let _heard = echo(listener);
        let mut caller = Caller::connect(stage).await;
        for at in [600, 1200, 1800] {
            stage.at(at).await;
            assert_eq!(stage.services()[0].quiet, 1);
            caller.say(stage, b"a").await;
            assert_eq!(caller.hears(stage, 1).await, b"a");
        }
        assert_eq!(stage.commands(), (0, 0));
        let shadow = stage.status().shadow.expect("a shadow");
        assert_eq!((shadow.requests, shadow.delayed_requests), (1, 0));
        caller.0.shutdown().await.unwrap();
        assert_eq!(caller.rest(stage).await, Ok(Vec::new()));
        settle(&stage.clock).await;
        let line = stage.log().pop().unwrap();
        assert!(line.ends_with(" would=server outcome=passed"), "{line}");
    });
}

#[test]
fn a_service_on_a_machine_wakes_that_and_nothing_on_it() {
    let (listener, origin) = port();
    let setup = on(&["metal"], "", asleep()).with(move |config| {
        let text = format!(
            "[[machine]]\nname = \"metal\"\nprobe = \"controller\"\npower.simulated = {{}}\n\
             [[tcp]]\nname = \"echo\"\nlisten = [\"127.0.0.1:0\"]\non = \"metal\"\n\
             origin = \"{origin}\"\nquiet = \"1m\"\n"
        );
        config.tcp = Config::parse(&text, "test").unwrap().tcp;
    });
    setup.play(async |stage| {
        let _heard = echo(listener);
        let mut caller = Caller::connect(stage).await;
        caller.say(stage, b"a").await;
        // It takes 10 s to wake.
        stage.at(10).await;
        assert_eq!(caller.hears(stage, 1).await, b"a");
        assert_eq!(stage.states(), ["awake", "asleep"]);
        let machine = &stage.machines()[0];
        assert_eq!((machine.awake_on_it, machine.connections), (0, 1));
        assert_eq!(machine.kept_awake_by.as_deref(), Some("1 connection under way"));
        // Quiet from 70 on; the machine lingers for 30 s, and takes 5 s to fall asleep.
        stage.at(99).await;
        assert_eq!(stage.states(), ["awake", "asleep"]);
        stage.at(101).await;
        assert_eq!(caller.rest(stage).await, Err(ErrorKind::ConnectionReset));
        let line = stage.log().pop().unwrap();
        assert!(line.contains(" delay=10.000 ") && line.ends_with(" outcome=slept"), "{line}");
        stage.at(106).await;
        assert_eq!(stage.states(), ["asleep", "asleep"]);
    });
}

/// A service called `echo` at this port of whichever server of the pool.
fn at_pool(port: u16) -> Setup {
    let table = format!(
        "[[tcp]]\nname = \"echo\"\nlisten = [\"127.0.0.1:0\"]\non = \"blog\"\norigin = \":{port}\"\n"
    );
    services(awake().pool(&["one", "two"], "", ""), table)
}

#[test]
fn a_pool_gives_a_connection_a_server_that_stays_awake_under_it() {
    // The servers of the stage have addresses of their own, and this one listens at all of them.
    let listener = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    at_pool(listener.local_addr().unwrap().port()).play(async |stage| {
        let _heard = echo(listener);
        let mut caller = Caller::connect(stage).await;
        caller.say(stage, b"a").await;
        assert_eq!(caller.hears(stage, 1).await, b"a");
        stage.at(1800).await;
        let tunnels = |stage: &Stage| stage.pool().servers.iter().map(|it| it.tunnels).sum::<u32>();
        assert_eq!((tunnels(stage), stage.services()[0].open), (1, 1));
        caller.say(stage, b"b").await;
        assert_eq!(caller.hears(stage, 1).await, b"b");
        caller.0.shutdown().await.unwrap();
        assert_eq!(caller.rest(stage).await, Ok(Vec::new()));
        assert_eq!(tunnels(stage), 0);
    });
}

#[test]
fn a_service_that_no_server_of_a_pool_has_takes_no_server_out_of_it() {
    // No server listens at port 1.
    at_pool(1).play(async |stage| {
        stage.at(60).await;
        let mut caller = Caller::connect(stage).await;
        assert_eq!(caller.rest(stage).await, Err(ErrorKind::ConnectionReset));
        assert_eq!(outcome(stage, "unreachable"), 1);
        let pool = stage.pool();
        let failed: u64 = pool.servers.iter().map(|it| it.failed).sum();
        let tunnels: u32 = pool.servers.iter().map(|it| it.tunnels).sum();
        assert_eq!((failed, tunnels), (0, 0));
        assert_eq!(stage.ask(get("/")).await.status, 200);
    });
}

#[test]
fn a_port_scan_does_not_wake_a_server_that_the_first_byte_wakes() {
    let (setup, listener) = with_echo(asleep(), "wake_on = \"first-byte\"");
    setup.play(async |stage| {
        let _heard = echo(listener);
        // One says nothing, one leaves at once, one breaks off.
        let mut silent = Caller::connect(stage).await;
        Caller::connect(stage).await.0.shutdown().await.unwrap();
        drop(Caller::connect(stage).await);
        stage.at(29).await;
        assert_eq!((stage.commands(), stage.services()[0].held), ((0, 0), 0));
        stage.at(60).await;
        assert_eq!(silent.rest(stage).await, Err(ErrorKind::ConnectionReset));
        assert_eq!((outcome(stage, "silent"), outcome(stage, "left")), (1, 2));
        assert_eq!(stage.state(), "asleep");

        let mut caller = Caller::connect(stage).await;
        stage.at(70).await;
        assert_eq!(stage.state(), "asleep");
        caller.say(stage, b"a").await;
        assert_eq!(stage.state(), "waking");
        stage.at(80).await;
        assert_eq!(caller.hears(stage, 1).await, b"a");
    });
}

#[test]
fn where_the_first_byte_wakes_a_service_may_still_speak_first_while_its_server_is_awake() {
    for wakes_later in [false, true] {
        let setup = if wakes_later { asleep() } else { awake() };
        let (setup, listener) = with_echo(setup, "wake_on = \"first-byte\"");
        setup.play(async |stage| {
            let listener = TcpListener::from_std(listener).unwrap();
            let mut caller = Caller::connect(stage).await;
            if wakes_later {
                stage.order(Order::Wake { site: None }).await;
                stage.at(10).await;
            }
            let (mut service, _) = watched("a connection", listener.accept()).await.unwrap();
            service.write_all(b"220 hello").await.unwrap();
            assert_eq!(caller.hears(stage, 9).await, b"220 hello");
        });
    }
}
