//! A server that is a listening socket, on this machine and in real time.
//!
//! Under load everything takes longer: only what cannot be shorter, and the order of things, is asserted.

use std::net::TcpListener;
use std::sync::{Mutex, PoisonError};

use nightwatt_power::{Observed, Work};

use super::*;

/// What giving no command takes.
const WAY: Duration = Duration::from_millis(40);

/// What starting takes.
const START: Duration = Duration::from_millis(120);

/// Long enough on any machine: no test waits for its end.
const LONG: Duration = Duration::from_mins(2);

#[derive(Debug)]
struct Server {
    clock: Clock,
    address: SocketAddr,
    listener: Mutex<Option<TcpListener>>,
    told: Mutex<Vec<&'static str>>,
    obeys: bool,
    /// What the controller knows.
    state: Observed,
}

impl Server {
    /// A server that is up, at an address of its own.
    fn new(host: &str, obeys: bool) -> Self {
        let listener = TcpListener::bind((host, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let listener = Mutex::new(Some(listener));
        let state = Observed::Unknown;
        Self { clock: Clock::real(), address, listener, told: Mutex::default(), obeys, state }
    }

    fn listener(&self) -> std::sync::MutexGuard<'_, Option<TcpListener>> {
        self.listener.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hear(&self, command: &'static str) {
        self.told.lock().unwrap().push(command);
    }

    fn orders(&self) -> Vec<&'static str> {
        self.told.lock().unwrap().clone()
    }
}

impl Controller for Server {
    fn wake(&self) -> Work<'_, ()> {
        Box::pin(async {
            self.hear("wake");
            self.clock.sleep(START).await;
            self.listener().get_or_insert_with(|| TcpListener::bind(self.address).unwrap());
            Ok(())
        })
    }

    fn sleep(&self) -> Work<'_, ()> {
        Box::pin(async {
            self.hear("sleep");
            if self.obeys {
                self.listener().take();
            }
            Ok(())
        })
    }

    fn state(&self) -> Work<'_, Observed> {
        Box::pin(std::future::ready(Ok(self.state)))
    }

    fn subject(&self) -> Subject {
        Subject::Child
    }

    fn nothing(&self) -> Work<'_, ()> {
        Box::pin(async {
            self.hear("nothing");
            self.clock.sleep(WAY).await;
            Ok(())
        })
    }
}

#[test]
fn a_server_that_its_controller_knows_to_be_down_is_woken_first() {
    let mut server = Server::new("127.7.3.7", true);
    server.listener().take();
    let (failed, _) = try_out(&server, 1, LONG);
    assert!(failed.unwrap_err().to_string().contains("wake it by hand"));
    assert!(server.orders().is_empty(), "what may be under way is left alone");
    server.state = Observed::Down;
    let (cycles, steps) = try_out(&server, 1, LONG);
    assert_eq!(cycles.unwrap().len(), 1);
    assert_eq!(steps[0], (0, Step::Waking));
    assert_eq!(server.orders(), ["wake", "nothing", "nothing", "nothing", "sleep", "wake"]);
}

#[test]
fn what_another_started_is_not_put_to_sleep() {
    let mut server = Server::new("127.7.3.8", true);
    server.state = Observed::Down;
    let (failed, _) = try_out(&server, 1, LONG);
    assert!(failed.unwrap_err().to_string().contains("did not start"));
    assert!(server.orders().is_empty());
}

type Steps = Vec<(u32, Step)>;

fn try_out(server: &Server, cycles: u32, timeout: Duration) -> (Result<Vec<Cycle>, Error>, Steps) {
    let plan = Plan {
        cycles,
        rest: Duration::ZERO,
        timeout,
        port: server.address,
        by_icmp: false,
        one_way: false,
    };
    let config = nightwatt_power::probe::Config::tcp(server.address.to_string());
    let probe = Probe::new(config, server.clock.clone());
    let mut steps = Vec::new();
    let on_progress = |number, step| steps.push((number, step));
    let runtime = server.clock.runtime().unwrap();
    let tried = runtime.block_on(run(server, &probe, &plan, &server.clock, on_progress));
    (tried, steps)
}

#[test]
fn a_server_is_put_to_sleep_and_woken_as_often_as_planned() {
    let server = Server::new("127.7.3.1", true);
    let (cycles, steps) = try_out(&server, 2, LONG);
    let cycles = cycles.unwrap();
    assert_eq!(cycles.len(), 2);
    let one = ["nothing", "nothing", "nothing", "sleep", "wake"];
    assert_eq!(server.orders(), [one, one].concat());
    let of = |number| [Step::Sleeping, Step::Resting, Step::Waking].map(|step| (number, step));
    assert_eq!(steps, [of(1), of(2)].concat());
    for cycle in cycles {
        assert!(cycle.way_s >= WAY.as_secs_f64(), "{cycle:?}");
        assert!(cycle.to_sleep.tcp_s.is_some() && cycle.to_sleep.probe_s.is_none(), "{cycle:?}");
        let woken = [cycle.to_wake.tcp_s, cycle.to_wake.probe_s].map(Option::unwrap);
        // The way is not subtracted: it is woken by another.
        assert!(woken.iter().all(|time| *time >= START.as_secs_f64()), "{cycle:?}");
        assert_eq!((cycle.to_sleep.icmp_s, cycle.to_wake.icmp_s), (None, None), "{cycle:?}");
    }
    assert!(server.listener().is_some(), "it is left awake");
}

#[test]
fn a_server_that_does_not_answer_is_told_nothing() {
    let server = Server::new("127.7.3.2", true);
    server.listener().take();
    let (tried, steps) = try_out(&server, 1, LONG);
    assert!(tried.unwrap_err().to_string().contains("does not answer its probe"));
    assert_eq!((server.orders(), steps), (Vec::new(), Vec::new()));
}

#[test]
fn a_server_that_will_not_sleep_is_told_to_wake() {
    let server = Server::new("127.7.3.3", false);
    // It never falls silent, so any timeout ends.
    let (tried, _) = try_out(&server, 3, Duration::from_millis(200));
    assert!(tried.unwrap_err().to_string().contains("did not stop answering"));
    assert_eq!(server.orders(), ["nothing", "nothing", "nothing", "sleep", "wake"]);
}
