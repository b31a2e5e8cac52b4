//! The address of a service that is given by its name. All sessions of the service share one look-up and its answer, so
//! that a flood from invented addresses does not become a flood at the name server.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_energy::time::Mono;
use tokio::sync::watch;

/// An address is used for this time: the system's resolver does not report how long it may be.
const KEPT: Duration = Duration::from_secs(30);

/// After a failure, the name is looked up again after this time.
const KEPT_FAILURE: Duration = Duration::from_secs(5);

/// The answer of a look-up, and until when it holds.
#[derive(Debug, Clone, Copy)]
struct Answer {
    at: Option<SocketAddr>,
    until: Mono,
}

/// How long a look-up may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// The address of an earlier look-up is used after this time.
    pub(super) late: Duration,
    /// Without one, it is waited for as long as for the server.
    pub(super) longest: Duration,
}

/// Where a service is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// At this address.
    Known(SocketAddr),
    /// At this address of an earlier look-up: the one under way is late.
    Earlier(SocketAddr),
}

/// Host and port of a service, and the answer of the last look-up.
#[derive(Debug)]
pub(super) struct Names {
    authority: String,
    /// The last address that was found.
    known: Arc<Mutex<Option<SocketAddr>>>,
    /// The sender is gone once the look-up is over.
    last: Mutex<watch::Receiver<Option<Answer>>>,
}

impl Names {
    pub(super) fn new(authority: String) -> Self {
        let last = Mutex::new(watch::channel(None).1);
        Self { authority, known: Arc::default(), last }
    }

    pub(super) fn authority(&self) -> &str {
        &self.authority
    }

    /// The address; nothing if the name leads nowhere, or no answer comes in time. `look_up` is called if the name must
    /// be looked up. It continues without the session that has called it, so that there is never a second one beside
    /// it.
    pub(super) async fn find<F>(
        &self,
        clock: &Clock,
        limits: Limits,
        look_up: impl FnOnce(String) -> F,
    ) -> Option<Place>
    where
        F: Future<Output = Option<SocketAddr>> + Send + 'static,
    {
        if let Ok(at) = self.authority.parse() {
            return Some(Place::Known(at));
        }
        let earlier = *self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut answer = self.answer(clock, look_up);
        let comes = answer.wait_for(Option::is_some);
        let limit = if earlier.is_some() { limits.late } else { limits.longest };
        match clock.timeout(limit, comes).await {
            Ok(answer) => answer.ok()?.and_then(|it| it.at).map(Place::Known),
            Err(_) => earlier.map(Place::Earlier),
        }
    }

    /// The answer that holds, or that comes.
    fn answer<F>(
        &self,
        clock: &Clock,
        look_up: impl FnOnce(String) -> F,
    ) -> watch::Receiver<Option<Answer>>
    where
        F: Future<Output = Option<SocketAddr>> + Send + 'static,
    {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let known = *last.borrow();
        let is_of_use = match known {
            Some(answer) => clock.now().mono < answer.until,
            // Under way, unless its task has ended without an answer.
            None => last.has_changed().is_ok(),
        };
        if !is_of_use {
            let (sender, receiver) = watch::channel(None);
            let (work, clock) = (look_up(self.authority.clone()), clock.clone());
            let found = Arc::clone(&self.known);
            tokio::spawn(async move {
                let at = work.await;
                if at.is_some() {
                    *found.lock().unwrap_or_else(PoisonError::into_inner) = at;
                }
                let kept = if at.is_some() { KEPT } else { KEPT_FAILURE };
                sender.send_replace(Some(Answer { at, until: clock.now().mono + kept }));
            });
            *last = receiver;
        }
        last.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddrV4};
    use std::sync::atomic::{AtomicUsize, Ordering};

    use nightwatt_energy::time::Wall;
    use tokio::sync::Notify;

    use super::*;

    const LATE: Duration = Duration::from_secs(3);
    const LONGEST: Duration = Duration::from_mins(1);
    const LIMITS: Limits = Limits { late: LATE, longest: LONGEST };

    /// A resolver that answers when it may, and counts the questions.
    #[derive(Default)]
    struct Scripted {
        asked: AtomicUsize,
        may: Notify,
    }

    impl Scripted {
        async fn answer(self: Arc<Self>, at: Option<SocketAddr>) -> Option<SocketAddr> {
            self.asked.fetch_add(1, Ordering::Relaxed);
            self.may.notified().await;
            at
        }

        fn asked(&self) -> usize {
            self.asked.load(Ordering::Relaxed)
        }
    }

    const AT: Option<SocketAddr> =
        Some(SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 7), 51_820)));

    fn play(scene: impl AsyncFnOnce(Clock, Arc<Names>, Arc<Scripted>)) {
        let clock = Clock::virtual_at(Wall::from_secs(0), 0);
        let names = Arc::new(Names::new("vpn.example.org:51820".to_owned()));
        clock.runtime().unwrap().block_on(scene(clock.clone(), names, Arc::default()));
    }

    #[test]
    fn ten_thousand_sessions_at_once_share_one_look_up() {
        play(async |clock, names, resolver| {
            let session = |_| {
                let (clock, names, resolver) = (clock.clone(), names.clone(), resolver.clone());
                tokio::spawn(
                    async move { names.find(&clock, LIMITS, |_| resolver.answer(AT)).await },
                )
            };
            let sessions: Vec<_> = (0..10_000).map(session).collect();
            // The first sessions are gone before the answer comes, as those that make room for others.
            for gone in &sessions[..100] {
                clock.turn().await;
                gone.abort();
            }
            resolver.may.notify_one();
            let mut found = 0;
            for session in sessions {
                found += usize::from(session.await.is_ok_and(|it| it == AT.map(Place::Known)));
            }
            assert!(found >= 9_900, "{found}");
            assert_eq!(resolver.asked(), 1);
        });
    }

    #[test]
    fn an_answer_holds_for_thirty_seconds_and_a_failure_for_five() {
        play(async |clock, names, resolver| {
            let find = async |answer| {
                resolver.may.notify_one();
                let found =
                    names.find(&clock, LIMITS, |_| Arc::clone(&resolver).answer(answer)).await;
                (found, resolver.asked())
            };
            assert_eq!(find(None).await, (None, 1));
            clock.sleep(Duration::from_millis(4_900)).await;
            assert_eq!(find(AT).await, (None, 1));
            clock.sleep(Duration::from_millis(200)).await;
            let known = AT.map(Place::Known);
            assert_eq!(find(AT).await, (known, 2));
            clock.sleep(Duration::from_millis(29_900)).await;
            assert_eq!(find(None).await, (known, 2));
            clock.sleep(Duration::from_millis(200)).await;
            assert_eq!(find(None).await, (None, 3));
        });
    }

    #[test]
    fn a_look_up_that_hangs_is_not_begun_again_and_holds_no_session_for_ever() {
        play(async |clock, names, resolver| {
            for _ in 0..5 {
                let before = clock.now().mono;
                let found = names.find(&clock, LIMITS, |_| Arc::clone(&resolver).answer(AT)).await;
                assert_eq!((found, clock.now().mono), (None, before + LONGEST));
            }
            assert_eq!(resolver.asked(), 1);
        });
    }

    #[test]
    fn a_late_look_up_finds_the_address_of_an_earlier_one() {
        play(async |clock, names, resolver| {
            let find = async || {
                let before = clock.now().mono;
                let found = names.find(&clock, LIMITS, |_| Arc::clone(&resolver).answer(AT)).await;
                (found, clock.now().mono.since(before))
            };
            resolver.may.notify_one();
            assert_eq!(find().await, (AT.map(Place::Known), Duration::ZERO));
            clock.sleep(KEPT).await;
            assert_eq!(find().await, (AT.map(Place::Earlier), LATE));
            assert_eq!((find().await, resolver.asked()), ((AT.map(Place::Earlier), LATE), 2));
            // The answer comes after all.
            resolver.may.notify_one();
            clock.turn().await;
            assert_eq!(find().await, (AT.map(Place::Known), Duration::ZERO));
        });
    }

    #[test]
    fn a_session_waits_for_the_first_answer_as_long_as_for_the_server() {
        play(async |clock, names, resolver| {
            let answers = async {
                clock.sleep(LATE * 5).await;
                resolver.may.notify_one();
                std::future::pending::<()>().await;
            };
            tokio::select! {
                () = answers => {}
                found = names.find(&clock, LIMITS, |_| Arc::clone(&resolver).answer(AT)) => {
                    assert_eq!(found, AT.map(Place::Known));
                }
            }
            assert_eq!(clock.now().mono, Mono::ZERO + LATE * 5);
        });
    }

    #[test]
    fn an_address_is_not_looked_up() {
        play(async |clock, _, resolver| {
            let names = Names::new("[2001:db8::5]:27015".to_owned());
            let found = names.find(&clock, LIMITS, |_| Arc::clone(&resolver).answer(AT)).await;
            let at = "[2001:db8::5]:27015".parse().ok();
            assert_eq!((found, resolver.asked()), (at.map(Place::Known), 0));
        });
    }
}
