//! The address of a service that is given by its name. All sessions of the service share one look-up and its answer, so
//! that a flood from invented addresses does not become a flood at the name server.

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
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

/// Host and port of a service, and the answer of the last look-up.
#[derive(Debug)]
pub(super) struct Names {
    authority: String,
    /// The sender is gone once the look-up is over.
    last: Mutex<watch::Receiver<Option<Answer>>>,
}

impl Names {
    pub(super) fn new(authority: String) -> Self {
        Self { authority, last: Mutex::new(watch::channel(None).1) }
    }

    pub(super) fn authority(&self) -> &str {
        &self.authority
    }

    /// The address; nothing if the name leads nowhere, or no answer comes within `limit`. `look_up` is called if the
    /// name must be looked up. It continues without the session that has called it, so that there is never a second one
    /// beside it.
    pub(super) async fn find<F>(
        &self,
        clock: &Clock,
        limit: Duration,
        look_up: impl FnOnce(String) -> F,
    ) -> Option<SocketAddr>
    where
        F: Future<Output = Option<SocketAddr>> + Send + 'static,
    {
        if let Ok(at) = self.authority.parse() {
            return Some(at);
        }
        let mut answer = self.answer(clock, look_up);
        let comes = answer.wait_for(Option::is_some);
        let answer = clock.timeout(limit, comes).await.ok()?.ok()?;
        answer.and_then(|it| it.at)
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
            tokio::spawn(async move {
                let at = work.await;
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
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use nightwatt_energy::time::Wall;
    use tokio::sync::Notify;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(3);

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
                    async move { names.find(&clock, LIMIT, |_| resolver.answer(AT)).await },
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
                found += usize::from(session.await.is_ok_and(|it| it == AT));
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
                    names.find(&clock, LIMIT, |_| Arc::clone(&resolver).answer(answer)).await;
                (found, resolver.asked())
            };
            assert_eq!(find(None).await, (None, 1));
            clock.sleep(Duration::from_millis(4_900)).await;
            assert_eq!(find(AT).await, (None, 1));
            clock.sleep(Duration::from_millis(200)).await;
            assert_eq!(find(AT).await, (AT, 2));
            clock.sleep(Duration::from_millis(29_900)).await;
            assert_eq!(find(None).await, (AT, 2));
            clock.sleep(Duration::from_millis(200)).await;
            assert_eq!(find(None).await, (None, 3));
        });
    }

    #[test]
    fn a_look_up_that_hangs_is_not_begun_again_and_holds_no_session_for_long() {
        play(async |clock, names, resolver| {
            for _ in 0..5 {
                let before = clock.now().mono;
                let found = names.find(&clock, LIMIT, |_| Arc::clone(&resolver).answer(AT)).await;
                assert_eq!((found, clock.now().mono), (None, before + LIMIT));
            }
            assert_eq!(resolver.asked(), 1);
        });
    }

    #[test]
    fn an_address_is_not_looked_up() {
        play(async |clock, _, resolver| {
            let names = Names::new("[2001:db8::5]:27015".to_owned());
            let found = names.find(&clock, LIMIT, |_| Arc::clone(&resolver).answer(AT)).await;
            assert_eq!((found, resolver.asked()), ("[2001:db8::5]:27015".parse().ok(), 0));
        });
    }
}
