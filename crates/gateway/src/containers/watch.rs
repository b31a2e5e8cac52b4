//! Watches the daemon's events. While the daemon is away, sites stay as they are.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_power::docker::Address;
use nightwatt_power::engine::Engine;
use tokio::sync::mpsc;

use super::{Found, engine};
use crate::control::Demand;
use crate::gateway::Gateway;
use crate::live::Live;

/// Events of a project that starts come one after the other: the list is read this long after the first.
const SETTLES: Duration = Duration::from_millis(300);

/// Time between two lists without an event, of a daemon on a socket of this machine: it cannot die unnoticed, but may
/// omit an event.
const LISTS_HERE: Duration = Duration::from_mins(10);

/// The same for a daemon by TCP: a stream whose other end is gone may stay silent for ever. Each list has a connection
/// of its own, so that a lost daemon is noticed after this time and the limit of an answer (30 s).
const LISTS_BY_TCP: Duration = Duration::from_mins(1);

/// Pauses before the daemon is tried again, the last one for ever.
const PAUSES: [Duration; 4] = [
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(15),
    Duration::from_mins(1),
];

/// The containers that were found, and the task that applies their sites.
#[derive(Debug, Clone)]
pub(crate) struct Watched {
    pub(crate) found: Found,
    pub(crate) demand: mpsc::Sender<Demand>,
    /// Failures to apply them, one after the other.
    pub(crate) failures: Arc<AtomicUsize>,
}

impl Watched {
    /// They were applied, or were not: then that is tried again after a pause, unless it was tried meanwhile.
    pub(crate) fn tried(&self, done: bool, clock: &Clock) {
        if done {
            self.failures.store(0, Ordering::Relaxed);
            return;
        }
        let before = self.failures.fetch_add(1, Ordering::Relaxed);
        let (it, clock) = (self.clone(), clock.clone());
        tokio::spawn(async move {
            clock.sleep(PAUSES[before.min(PAUSES.len() - 1)]).await;
            if it.failures.load(Ordering::Relaxed) == before + 1 {
                let _ = it.demand.send(Demand::Containers).await;
            }
        });
    }
}

/// Keeps the sites of containers current, as long as the gateway runs.
pub(crate) async fn run(mut live: Live<Gateway>, watched: Watched) {
    loop {
        let gateway = live.now();
        let (config, clock) =
            (gateway.serving.config.containers.clone(), gateway.serving.clock.clone());
        let engine = engine(&gateway.serving.config, &clock);
        let by_tcp = config.as_ref().and_then(|it| it.daemon());
        let by_tcp = by_tcp.is_some_and(|(_, at)| matches!(at, Address::Tcp(_)));
        let every = if by_tcp { LISTS_BY_TCP } else { LISTS_HERE };
        // In shadow mode the configuration does not change.
        let engine = engine.filter(|_| !gateway.serving.observe);
        drop(gateway);
        let Some(engine) = engine else {
            live.changed().await;
            continue;
        };
        let mut failures = 0;
        let watching = async {
            loop {
                let followed = Followed { engine: &engine, clock: &clock, every };
                let error = follow(&followed, &watched, &mut failures).await;
                if let Some(error) = &error {
                    watched.found.lost(&engine.whom(), clock.now(), error.to_string());
                }
                let pause = PAUSES[failures.min(PAUSES.len() - 1)];
                if failures == 0 {
                    if let Some(error) = &error {
                        let hint = error.hint();
                        tracing::warn!(%error, hint, "containers are not watched: their sites stay as they are");
                    } else {
                        let daemon = engine.whom();
                        tracing::info!(
                            daemon,
                            "the stream of events has ended or left out a change: it is opened again"
                        );
                    }
                }
                failures += 1;
                clock.sleep(pause).await;
            }
        };
        let other_daemon = async {
            let mut live = live.clone();
            while live.now().serving.config.containers == config {
                live.changed().await;
            }
        };
        tokio::select! {
            () = watching => {}
            () = other_daemon => {}
        }
    }
}

/// A daemon that is followed.
struct Followed<'a> {
    engine: &'a Engine,
    clock: &'a Clock,
    /// Time between two lists without an event.
    every: Duration,
}

/// Follows the stream of events to its end, or to a change that it leaves out. Nothing is lost between the list and the
/// stream: that is opened first.
async fn follow(
    Followed { engine, clock, every }: &Followed<'_>,
    Watched { found, demand, .. }: &Watched,
    failures: &mut usize,
) -> Option<nightwatt_power::Error> {
    let mut events = match engine.events().await {
        Ok(events) => events,
        Err(error) => return Some(error),
    };
    let daemon = engine.whom();
    let mut is_told = true;
    loop {
        match engine.containers(&found.all(&daemon)).await {
            Ok(all) => {
                *failures = 0;
                let has_changed = found.set(&daemon, all);
                if has_changed && demand.send(Demand::Containers).await.is_err() {
                    return None;
                }
                if has_changed && !is_told {
                    return None;
                }
            }
            Err(error) => return Some(error),
        }
        is_told = match clock.timeout(*every, events.changed()).await {
            Ok(true) => true,
            Ok(false) => return None,
            Err(_) => false,
        };
        if is_told {
            settle().await;
        }
    }
}

/// Changes that come together are applied together.
#[expect(clippy::disallowed_methods, reason = "containers live in real time")]
async fn settle() {
    tokio::time::sleep(SETTLES).await;
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn what_could_not_be_applied_is_tried_again_with_longer_pauses() {
        let clock = Clock::virtual_at(nightwatt_energy::time::Wall::from_secs(0), 0);
        clock.runtime().unwrap().block_on(async {
            let (demand, mut demands) = mpsc::channel(4);
            let watched = Watched { found: Found::default(), demand, failures: Arc::default() };
            for pause in [1, 5, 15, 60, 60] {
                let begin = clock.now().mono;
                watched.tried(false, &clock);
                assert!(matches!(demands.recv().await, Some(Demand::Containers)));
                assert_eq!(clock.now().mono.since(begin), Duration::from_secs(pause));
            }
            watched.tried(false, &clock);
            watched.tried(true, &clock);
            clock.sleep(Duration::from_mins(2)).await;
            assert!(demands.try_recv().is_err(), "it was applied meanwhile");
        });
    }

    /// A daemon whose stream of events is silent, and whose lists are empty but for this container from the second one
    /// on.
    fn silent_daemon(container: &'static str) -> Address {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::Tcp(listener.local_addr().unwrap().to_string());
        std::thread::spawn(move || {
            let (mut streams, mut lists) = (Vec::new(), 0);
            for mut stream in listener.incoming().map(Result::unwrap) {
                let lines = BufReader::new(&stream).lines().map_while(Result::ok);
                let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
                let path = head[0].split(' ').nth(1).unwrap();
                if path.starts_with("/events") {
                    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
                    stream.write_all(head.as_bytes()).unwrap();
                    streams.push(stream);
                    continue;
                }
                let body = match path {
                    "/containers/ab/json" => container,
                    _ if lists == 0 => "[]",
                    _ => {
                        r#"[{"Id": "ab", "Names": ["/wiki"], "Labels": {"nightwatt.enable": "true"}}]"#
                    }
                };
                lists += 1;
                let length = body.len();
                let head = format!(
                    "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
                );
                stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
            }
        });
        address
    }

    #[test]
    fn a_change_that_a_dead_stream_does_not_report_is_found_by_the_next_list() {
        let container = r#"{"Name": "/wiki", "Config": {"Labels": {"nightwatt.enable": "true"}},
            "HostConfig": {"PortBindings": null}}"#;
        let clock = Clock::virtual_at(nightwatt_energy::time::Wall::from_secs(0), 0);
        let engine = Engine::new("docker", silent_daemon(container), clock.clone());
        clock.runtime().unwrap().block_on(async {
            let (demand, mut demands) = mpsc::channel(4);
            let watched = Watched { found: Found::default(), demand, failures: Arc::default() };
            let followed = Followed { engine: &engine, clock: &clock, every: LISTS_BY_TCP };
            let mut failures = 0;
            let following = follow(&followed, &watched, &mut failures);
            let followed = clock.timeout(Duration::from_hours(1), following).await;
            assert!(matches!(followed, Ok(None)), "the stream is opened again: {followed:?}");
            assert_eq!(clock.now().mono.since(nightwatt_energy::time::Mono::ZERO), LISTS_BY_TCP);
            assert!(matches!(demands.try_recv(), Ok(Demand::Containers)));
            assert_eq!(watched.found.all(&engine.whom())[0].name, "wiki");
        });
    }
}
