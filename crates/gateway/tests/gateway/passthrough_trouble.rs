//! Connections that are passed through, when something is amiss: servers that do not answer or sleep by
//! themselves, ends that break off, services that are late, a machine that is out of descriptors.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::process::Command;

use nightwatt_gateway::config::TcpOrigin;
use nightwatt_gateway::control::Order;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::client::get;
use crate::passthrough::{Caller, echo, outcome, with_echo};
use crate::passthrough_programs::{kept_port, services};
use crate::stage::{Setup, Stage, asleep, awake, secs, settle, watched};

/// Breaks a connection off.
fn breaks_off(stream: TcpStream) {
    socket2::SockRef::from(&stream).set_linger(Some(secs(0))).unwrap();
    drop(stream);
}

/// The next connection to a service.
async fn accepted(stage: &Stage, listener: &TcpListener) -> TcpStream {
    let _still = stage.clock.owe();
    let (stream, _) = watched("a connection to the service", listener.accept()).await.unwrap();
    settle(&stage.clock).await;
    stream
}

async fn is_echoed(stage: &Stage, caller: &mut Caller) {
    caller.say(stage, b"a").await;
    assert_eq!(caller.hears(stage, 1).await, b"a");
}

#[test]
fn ssh_gets_through_while_the_web_server_beside_it_is_down() {
    let setup = awake().site(|site| site.watch = secs(10));
    let (setup, listener) = with_echo(setup.power(|power| power.fail_wakes = 100), "");
    setup.play(async |stage| {
        let _heard = echo(listener);
        let mut before = Caller::connect(stage).await;
        is_echoed(stage, &mut before).await;
        // What is probed is down from now on, and all else that is there is not.
        stage.power.go_down();
        stage.at(15).await;
        assert_eq!(stage.state(), "asleep");
        is_echoed(stage, &mut before).await;
        let mut states = Vec::new();
        while stage.state() != "failed" {
            stage.pass(secs(1)).await;
            states.push(stage.state());
            assert!(states.len() < 100, "{states:?}");
            is_echoed(stage, &mut before).await;
            let mut new = Caller::connect(stage).await;
            is_echoed(stage, &mut new).await;
            new.0.shutdown().await.unwrap();
            assert_eq!(new.rest(stage).await, Ok(Vec::new()));
        }
        assert!(states.iter().any(|state| state == "waking"), "{states:?}");
        // Clients that come while no attempt to wake it is due.
        is_echoed(stage, &mut before).await;
        let mut new = Caller::connect(stage).await;
        is_echoed(stage, &mut new).await;
        let cut = ["slept", "broken", "wake-failed"].map(|name| outcome(stage, name));
        assert_eq!(cut, [0, 0, 0]);
    });
}

#[test]
fn a_connection_is_kept_while_its_server_sleeps_by_itself_and_asks_for_it() {
    let lines = "asleep = \"keep\"\nquiet = \"1h\"";
    let (setup, listener) = with_echo(awake().site(|site| site.watch = secs(10)), lines);
    setup.play(async |stage| {
        let _heard = echo(listener);
        let mut caller = Caller::connect(stage).await;
        is_echoed(stage, &mut caller).await;
        stage.power.go_down();
        stage.at(30).await;
        assert_eq!((stage.state().as_str(), stage.commands()), ("asleep", (0, 0)));
        caller.say(stage, b"b").await;
        assert_eq!(stage.commands(), (1, 0), "the next byte has it woken");
        assert_eq!(caller.hears(stage, 1).await, b"b");
        stage.at(60).await;
        assert_eq!(stage.state(), "awake");
    });
}

/// Two connections that are kept while their server sleeps for the first time.
async fn two_that_are_kept(stage: &Stage) -> [Caller; 2] {
    let mut callers = [Caller::connect(stage).await, Caller::connect(stage).await];
    for caller in &mut callers {
        is_echoed(stage, caller).await;
    }
    stage.at(100).await;
    assert_eq!(stage.state(), "asleep");
    callers
}

#[test]
fn the_bound_on_those_who_are_held_ends_no_connection_that_is_kept() {
    let lines = "quiet = \"1m\"\nasleep = \"keep\"\nheld = 1";
    let (setup, listener) = with_echo(awake(), lines);
    setup.with(|config| config.limits.held = 1).play(async |stage| {
        let _heard = echo(listener);
        let [mut one, mut two] = two_that_are_kept(stage).await;
        one.say(stage, b"b").await;
        two.say(stage, b"c").await;
        assert_eq!((stage.state().as_str(), stage.services()[0].held), ("waking", 2));
        stage.at(105).await;
        assert_eq!(
            (one.hears(stage, 1).await, two.hears(stage, 1).await),
            (vec![b'b'], vec![b'c'])
        );
        assert_eq!(outcome(stage, "queue-full"), 0);
    });
}

#[test]
fn over_the_wake_budget_a_connection_that_is_kept_waits_for_somebody_elses_wake_up() {
    let lines = "quiet = \"1m\"\nasleep = \"keep\"";
    let setup = awake().site(|site| site.wakes_per_client_and_hour = 1);
    let (setup, listener) = with_echo(setup, lines);
    setup.play(async |stage| {
        let _heard = echo(listener);
        let [mut one, mut two] = two_that_are_kept(stage).await;
        one.say(stage, b"b").await;
        stage.at(105).await;
        assert_eq!(one.hears(stage, 1).await, b"b");
        stage.at(200).await;
        assert_eq!((stage.state().as_str(), stage.commands()), ("asleep", (1, 2)));
        two.say(stage, b"c").await;
        stage.at(300).await;
        assert_eq!((stage.state().as_str(), stage.services()[0].open), ("asleep", 2));
        stage.order(Order::Wake { site: None }).await;
        stage.at(310).await;
        assert_eq!(two.hears(stage, 1).await, b"c");
        assert_eq!((stage.commands(), outcome(stage, "over-budget")), ((2, 2), 0));
        // And once the budget allows it, it wakes the server itself.
        stage.at(600).await;
        assert_eq!(stage.state(), "asleep");
        one.say(stage, b"d").await;
        assert_eq!(stage.state(), "asleep");
        stage.at(3800).await;
        assert_eq!(one.hears(stage, 1).await, b"d");
        assert_eq!(stage.commands().0, 3);
    });
}

#[test]
fn the_end_of_a_connection_that_is_kept_wakes_nobody_and_is_told_when_the_server_is_awake() {
    let (setup, listener) = with_echo(awake(), "quiet = \"1m\"\nasleep = \"keep\"");
    setup.play(async |stage| {
        let _heard = echo(listener);
        let [mut one, two] = two_that_are_kept(stage).await;
        one.0.shutdown().await.unwrap();
        breaks_off(two.0);
        stage.at(200).await;
        assert_eq!((stage.state().as_str(), stage.commands()), ("asleep", (0, 1)));
        assert_eq!((outcome(stage, "broken"), stage.services()[0].open), (1, 1));
        stage.order(Order::Wake { site: None }).await;
        stage.at(210).await;
        assert_eq!(one.rest(stage).await, Ok(Vec::new()));
        assert_eq!((outcome(stage, "passed"), stage.services()[0].open), (1, 0));
    });
}

#[test]
fn who_waits_for_longer_than_it_may_be_quiet_lets_the_server_go_all_the_same() {
    let (setup, listener) = with_echo(awake(), "quiet = \"2s\"\nasleep = \"keep\"");
    setup.play(async |stage| {
        let _heard = echo(listener);
        let [mut one, _two] = two_that_are_kept(stage).await;
        // To wake takes 5 s.
        one.say(stage, b"b").await;
        stage.at(105).await;
        assert_eq!(one.hears(stage, 1).await, b"b");
        // It stays up for a minute at least.
        stage.at(180).await;
        assert_eq!((stage.state().as_str(), stage.services()[0].quiet), ("asleep", 2));
    });
}

#[test]
fn a_client_that_breaks_off_while_its_service_does_not_read_is_noticed() {
    let (setup, listener) = with_echo(awake(), "");
    setup.play(async |stage| {
        let listener = TcpListener::from_std(listener).unwrap();
        let caller = Caller::connect(stage).await;
        let mut service = accepted(stage, &listener).await;
        let (part, mut idle) = (vec![7; 64 << 10], 0);
        // Until nothing has been taken for a while: all that is between the two is full.
        while idle < 20 {
            idle = if caller.0.try_write(&part).is_ok() { 0 } else { idle + 1 };
            settle(&stage.clock).await;
        }
        assert_eq!(stage.services()[0].open, 1);
        breaks_off(caller.0);
        settle(&stage.clock).await;
        assert_eq!((stage.services()[0].open, outcome(stage, "broken")), (0, 1));
        let mut all = Vec::new();
        let read = watched("the reset", service.read_to_end(&mut all)).await;
        assert_eq!(read.map_err(|error| error.kind()), Err(ErrorKind::ConnectionReset));
    });
}

#[test]
fn who_breaks_off_after_the_end_of_what_it_says_is_noticed_by_the_other() {
    for client_breaks_off in [true, false] {
        let (setup, listener) = with_echo(awake(), "");
        setup.play(async |stage| {
            let listener = TcpListener::from_std(listener).unwrap();
            let mut caller = Caller::connect(stage).await;
            let mut service = accepted(stage, &listener).await;
            let (one, other) = if client_breaks_off {
                (&mut caller.0, &mut service)
            } else {
                (&mut service, &mut caller.0)
            };
            one.shutdown().await.unwrap();
            settle(&stage.clock).await;
            let mut all = Vec::new();
            watched("the end", other.read_to_end(&mut all)).await.unwrap();
            assert_eq!((all.len(), stage.services()[0].open), (0, 1), "half of it is open");
            let (one, other) =
                if client_breaks_off { (caller.0, service) } else { (service, caller.0) };
            breaks_off(one);
            settle(&stage.clock).await;
            assert_eq!((stage.services()[0].open, outcome(stage, "broken")), (0, 1));
            let broken = other.take_error().unwrap().map(|error| error.kind());
            // So Linux calls a reset after an end.
            assert_eq!(broken, Some(ErrorKind::BrokenPipe));
        });
    }
}

#[test]
fn who_reads_slowly_is_read_for_slowly_and_gets_all() {
    let (setup, listener) = with_echo(awake(), "");
    setup.play(async |stage| {
        let listener = TcpListener::from_std(listener).unwrap();
        let mut caller = Caller::connect(stage).await;
        let service = accepted(stage, &listener).await;
        let part = vec![7; 16 << 10];
        let (mut said, mut idle) = (0, 0);
        while idle < 20 {
            match service.try_write(&part) {
                Ok(length) => (said, idle) = (said + length, 0),
                Err(_) => idle += 1,
            }
            settle(&stage.clock).await;
        }
        // No more than the buffers of four sockets and one part: the service is not read from meanwhile.
        let line = stage.services()[0].sent_bytes;
        assert!(line > 0 && (line as usize) < said, "{line} of {said}");
        let heard = caller.hears(stage, said).await;
        assert_eq!(heard, vec![7; said]);
        breaks_off(service);
        assert_eq!(caller.rest(stage).await, Err(ErrorKind::ConnectionReset));
        assert_eq!(outcome(stage, "broken"), 1);
    });
}

#[test]
fn the_last_words_of_a_service_that_takes_nothing_more_reach_its_client() {
    let (setup, listener) = with_echo(awake(), "");
    setup.play(async |stage| {
        let listener = TcpListener::from_std(listener).unwrap();
        // Which way is looked at first is chosen at random.
        for round in 0..30 {
            let mut caller = Caller::connect(stage).await;
            let mut service = accepted(stage, &listener).await;
            caller.say(stage, b"hello").await;
            service.write_all(b"bye").await.unwrap();
            caller.0.write_all(b"more").await.unwrap();
            // With bytes unread it ends in a reset.
            drop(service);
            assert_eq!(caller.hears(stage, 3).await, b"bye", "round {round}");
        }
    });
}

/// A service that is not there yet, and its address.
fn late() -> (Setup, SocketAddr) {
    let at = nightwatt_needs::free_address();
    let table = format!(
        "[[tcp]]\nname = \"late\"\nlisten = [\"127.0.0.1:0\"]\non = \"blog\"\norigin = \"{at}\"\n\
         held = 1\n"
    );
    (services(asleep(), table), at)
}

#[test]
fn a_service_that_begins_after_its_server_is_waited_for_and_counted_once() {
    let (setup, at) = late();
    setup.play(async |stage| {
        let mut caller = Caller::connect(stage).await;
        caller.say(stage, b"hello").await;
        stage.at(8).await;
        assert_eq!((stage.state().as_str(), stage.services()[0].held), ("awake", 1));
        let mut next = Caller::connect(stage).await;
        assert_eq!(next.rest(stage).await, Err(ErrorKind::ConnectionReset), "one is held at once");
        let listener = std::net::TcpListener::bind(at).unwrap();
        listener.set_nonblocking(true).unwrap();
        let _heard = echo(listener);
        stage.at(9).await;
        assert_eq!(caller.hears(stage, 5).await, b"hello");
        let it = &stage.services()[0];
        assert_eq!((it.held, it.waited, it.open), (0, 1, 1));
    });
}

#[test]
fn who_leaves_while_the_service_is_late_gives_the_place_back() {
    let (setup, _at) = late();
    setup.play(async |stage| {
        let mut caller = Caller::connect(stage).await;
        caller.say(stage, b"hello").await;
        stage.at(8).await;
        assert_eq!(stage.services()[0].held, 1);
        breaks_off(caller.0);
        settle(&stage.clock).await;
        assert_eq!((stage.services()[0].held, outcome(stage, "left")), (0, 1));
    });
}

#[test]
fn a_service_that_never_begins_is_not_waited_for_for_ever() {
    let (setup, _at) = late();
    setup.play(async |stage| {
        let mut caller = Caller::connect(stage).await;
        stage.at(34).await;
        assert_eq!(stage.services()[0].held, 1);
        stage.at(36).await;
        assert_eq!(caller.rest(stage).await, Err(ErrorKind::ConnectionReset));
        let it = &stage.services()[0];
        assert_eq!((it.held, outcome(stage, "unreachable")), (0, 1));
    });
}

#[test]
fn a_service_that_leads_back_to_nightwatt_is_refused_at_its_first_connection() {
    let (setup, _listener) = with_echo(awake(), "");
    let (_kept, port) = kept_port(Ipv4Addr::UNSPECIFIED);
    let own = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    // At an address that `check` cannot know to be this machine's.
    let setup = setup.with(move |config| {
        config.tcp[0].listen = vec![SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), own.port())];
        config.tcp[0].origin = TcpOrigin { host: Some("127.0.0.3".into()), port: own.port() };
    });
    setup.play(async |stage| {
        let mut caller = Caller::connect_to(stage, own).await;
        assert_eq!(caller.rest(stage).await, Err(ErrorKind::ConnectionReset));
        settle(&stage.clock).await;
        let all: u64 = stage.services()[0].outcomes.values().sum();
        assert_eq!((outcome(stage, "loops"), all), (1, 1));
    });
}

#[test]
fn a_service_leads_back_to_nightwatt_since_it_was_read_again_and_is_refused() {
    let (setup, _listener) = with_echo(awake(), "");
    let (_kept, port) = kept_port(Ipv4Addr::UNSPECIFIED);
    let own = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let setup = setup.with(move |config| {
        config.tcp[0].origin = TcpOrigin { host: Some("127.0.0.3".into()), port: own.port() };
    });
    setup.play(async |stage| {
        let all = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), own.port());
        stage.reload(|config| config.tcp[0].listen = vec![all]).await.unwrap();
        assert_eq!(stage.tcp_addresses(), [all]);
        let mut caller = Caller::connect_to(stage, own).await;
        assert_eq!(caller.rest(stage).await, Err(ErrorKind::ConnectionReset));
        settle(&stage.clock).await;
        assert_eq!(outcome(stage, "loops"), 1);
    });
}

#[test]
fn the_port_of_a_header_is_read_whole_and_passed_on() {
    let (setup, listener) = with_echo(awake(), "send_proxy_protocol = \"v1\"");
    let setup = setup.with(|config| config.proxy_protocol = vec!["127.0.0.0/8".parse().unwrap()]);
    setup.play(async |stage| {
        let heard = echo(listener);
        let mut caller = Caller::connect(stage).await;
        caller.say(stage, b"PROXY TCP4 192.0.2.7 127.0.0.1 4711 4").await;
        caller.say(stage, b"43\r\nhello").await;
        let here = stage.tcp_addresses()[0].port();
        let told = format!("PROXY TCP4 192.0.2.7 127.0.0.1 4711 {here}\r\nhello").into_bytes();
        assert_eq!(caller.hears(stage, told.len()).await, told);
        assert_eq!(heard.lock().unwrap()[0], told);
    });
}

#[test]
fn one_address_for_all_of_ipv6_stands_beside_one_of_ipv4_whatever_is_spoken_there() {
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        eprintln!("skipped: no IPv6 here");
        return;
    }
    let (setup, listener) = with_echo(awake(), "");
    let (_kept, port) = kept_port(Ipv6Addr::UNSPECIFIED);
    let at = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let setup = setup.with(move |config| {
        config.listen = vec![at];
        config.tcp[0].listen = vec![SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), at.port())];
    });
    setup.play(async |stage| {
        let _heard = echo(listener);
        let v6 = SocketAddr::new(Ipv6Addr::LOCALHOST.into(), at.port());
        let mut caller = Caller::connect_to(stage, v6).await;
        is_echoed(stage, &mut caller).await;
        assert_eq!(stage.ask(get("/")).await.status, 200);
    });
}

/// Runs a test of this name alone, in a process of its own: it counts descriptors, or runs out of them.
/// True in that process.
fn alone(name: &str) -> bool {
    const ALONE: &str = "NIGHTWATT_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("passthrough_trouble::{name}"), "--nocapture"])
        .env(ALONE, "yes")
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].map(|it| String::from_utf8_lossy(&it).into_owned());
    assert!(output.status.success() && said[0].contains("1 passed"), "{}\n{}", said[0], said[1]);
    false
}

/// The descriptors that this process has.
fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn being_out_of_descriptors_is_told_as_such_and_says_nothing_of_the_server() {
    if !alone("being_out_of_descriptors_is_told_as_such_and_says_nothing_of_the_server") {
        return;
    }
    let setup = awake().probed_by_http().site(|site| site.watch = secs(10));
    let (setup, listener) = with_echo(setup, "");
    setup.play(async |stage| {
        let _heard = echo(listener);
        let mut before = Caller::connect(stage).await;
        is_echoed(stage, &mut before).await;
        let (limit, now) = (getrlimit(Resource::Nofile), descriptors() as u64 + 10);
        let less = Rlimit { current: Some(now), maximum: limit.maximum };
        setrlimit(Resource::Nofile, less).unwrap();
        let mut filled = Vec::new();
        while let Ok(file) = std::fs::File::open("/dev/null") {
            filled.push(file);
        }
        // Both ends of the client's connection.
        filled.truncate(filled.len() - 2);
        let mut caller = Caller::connect(stage).await;
        assert_eq!(caller.rest(stage).await, Err(ErrorKind::ConnectionReset));
        assert_eq!((outcome(stage, "exhausted"), outcome(stage, "unreachable")), (1, 0));
        filled.extend(caller.0.into_std().map(|it| std::fs::File::from(OwnedFd::from(it))));
        while let Ok(file) = std::fs::File::open("/dev/null") {
            filled.push(file);
        }
        // The server is looked at meanwhile, which cannot be done.
        stage.pass(secs(25)).await;
        assert_eq!(stage.state(), "awake");
        drop(filled);
        setrlimit(Resource::Nofile, limit).unwrap();
    });
}

#[test]
fn four_thousand_connections_leave_nothing_open() {
    if !alone("four_thousand_connections_leave_nothing_open") {
        return;
    }
    let (setup, listener) = with_echo(awake(), "");
    setup.play(async |stage| {
        let _heard = echo(listener);
        let at = stage.tcp_addresses()[0];
        let mut before = None;
        for _ in 0..16 {
            let _still = stage.clock.owe();
            let mut streams = Vec::new();
            for _ in 0..250 {
                streams.push(TcpStream::connect(at).await.unwrap());
            }
            for (number, stream) in streams.iter_mut().enumerate() {
                stream.write_all(&[number as u8]).await.unwrap();
            }
            for (number, mut stream) in streams.into_iter().enumerate() {
                assert_eq!(watched("an echo", stream.read_u8()).await.unwrap(), number as u8);
                // Every third in good order, every third in the middle of something, the others break off.
                match number % 3 {
                    0 => {
                        stream.shutdown().await.unwrap();
                        let mut rest = Vec::new();
                        watched("the end", stream.read_to_end(&mut rest)).await.unwrap();
                    }
                    1 => stream.write_all(b"unread").await.unwrap(),
                    _ => breaks_off(stream),
                }
            }
            stage.until("the end of all", |_| stage.services()[0].open == 0).await;
            settle(&stage.clock).await;
            let now = descriptors();
            assert_eq!(*before.get_or_insert(now), now);
        }
        let ended: u64 = stage.services()[0].outcomes.values().sum();
        assert_eq!((ended, stage.status().in_flight), (4000, 0));
    });
}

#[test]
fn one_client_takes_a_quarter_of_the_places_of_those_who_are_held() {
    let (setup, listener) = with_echo(asleep(), "");
    setup.play(async |stage| {
        let _heard = echo(listener);
        // By default, 32 of 128.
        let mut callers = Vec::new();
        for _ in 0..33 {
            callers.push(Caller::connect(stage).await);
        }
        assert_eq!((stage.services()[0].held, outcome(stage, "queue-full")), (32, 1));
        stage.at(10).await;
        let mut one = callers.swap_remove(0);
        one.say(stage, b"a").await;
        assert_eq!(one.hears(stage, 1).await, b"a");
    });
}
