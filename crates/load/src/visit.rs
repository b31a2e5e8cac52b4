//! One arrival's story: its request, and what its client does about the answer.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use nightwatt_clock::Debt;
use nightwatt_energy::time::{Mono, Now, Wall};
use nightwatt_policy::admission::ClientClass;
use nightwatt_policy::visit::Visitor;
use tokio::sync::mpsc::UnboundedSender;

use crate::answer::Answer;
use crate::exchange::{Client, Reply};
use crate::outcome::{Outcome, RequestKind};
use crate::request::Plan;
use crate::waiting_pages::WaitingPages;

/// What a browser does with a waiting page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// No browser waits for it.
    Ignore,
    /// Ask for the state again and again until it is `awake` or the cap is reached, then open.
    Poll {
        /// Time from one poll to the next.
        every: Duration,
        /// Open after this time, whatever the state.
        cap: Duration,
    },
    /// Open once, after a fixed time, as in the published runs.
    ReopenAfter(Duration),
}

/// How crawlers honour `Retry-After`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Returning {
    /// Number of retries at most.
    pub times: u32,
    /// No later than this after the first attempt.
    pub horizon: Duration,
}

/// How the clients behind the log behave.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientBehaviour {
    pub(crate) waiting: Waiting,
    pub(crate) returning: Option<Returning>,
}

/// One arrival on its way.
pub(crate) struct Visit {
    pub(crate) client: Arc<Client>,
    pub(crate) behaviour: ClientBehaviour,
    pub(crate) outbox: UnboundedSender<Outcome>,
    pub(crate) arrival: usize,
    pub(crate) class: ClientClass,
    pub(crate) visitor: Visitor,
    pub(crate) pages: Arc<WaitingPages>,
    pub(crate) plan: Plan,
    pub(crate) id: String,
}

impl Visit {
    /// Sends the request, which was due at `intended`, and all that follows from it.
    /// While the visitor looks at a waiting page, it is due when that page opens.
    pub(crate) async fn run(self, mut intended: Mono, debt: Debt) {
        let id = self.id.clone();
        while let Some(opened) = self.pages.opens(self.visitor) {
            // It ends with the page, whatever became of that.
            let _ = self.client.clock.parked(opened).await;
            intended = self.client.clock.now().mono;
        }
        let reply = self.send(RequestKind::Trace, &self.plan, id, intended, debt).await;
        if reply.answer == Some(Answer::WaitingPage) && self.plan.navigation {
            // In the published runs nothing waits for a page.
            let polls = matches!(self.behaviour.waiting, Waiting::Poll { .. });
            let _looking = polls.then(|| self.pages.wait(self.visitor));
            self.wait_for_page().await;
        } else if self.class == ClientClass::Crawler
            && let Some(returning) = self.behaviour.returning
        {
            self.come_back(intended, reply, returning).await;
        }
    }

    /// Sends one request of this visit and reports what became of it.
    async fn send(
        &self,
        kind: RequestKind,
        plan: &Plan,
        id: String,
        intended: Mono,
        debt: Debt,
    ) -> Reply {
        let done = self.client.exchange(plan, &id).await;
        let outcome = Outcome {
            id,
            arrival: self.arrival,
            kind,
            class: self.class,
            navigation: plan.navigation,
            intended,
            sent: done.sent,
            answered: done.error.is_none().then_some(done.ended),
            real_time: done.real_time,
            status: done.reply.status,
            answer: done.reply.answer.clone(),
            bytes: done.reply.bytes,
            error: done.error,
        };
        // The receiver is gone if the run was given up; then nothing is lost either.
        let _ = self.outbox.send(outcome);
        drop(debt);
        done.reply
    }

    async fn send_now(&self, kind: RequestKind, plan: &Plan, id: String) -> Reply {
        let debt = self.client.clock.owe();
        self.send(kind, plan, id, self.client.clock.now().mono, debt).await
    }

    /// The waiting page polls until the server is awake, then opens what was asked for; should
    /// the server have gone to sleep again by then, that is another waiting page.
    async fn wait_for_page(&self) {
        let clock = &self.client.clock;
        let (every, give_up) = match self.behaviour.waiting {
            Waiting::Ignore => return,
            Waiting::ReopenAfter(time) => {
                clock.sleep(time).await;
                self.send_now(RequestKind::Reopened, &self.plan, format!("{}-reopened-1", self.id))
                    .await;
                return;
            }
            // A poll without pause would never let time pass.
            Waiting::Poll { every, cap } => {
                (every.max(Duration::from_millis(1)), clock.now().mono + cap)
            }
        };
        let poll = self.plan.poll();
        let (mut polls, mut opened) = (0, 0);
        loop {
            let next = clock.now().mono + every;
            clock.sleep_until(next.min(give_up)).await;
            let timed_out = next >= give_up;
            polls += 1;
            let id = format!("{}-poll-{polls}", self.id);
            let state = self.send_now(RequestKind::Poll, &poll, id).await;
            if !timed_out && !is_awake(&state.body) {
                continue;
            }
            opened += 1;
            let id = format!("{}-reopened-{opened}", self.id);
            let reply = self.send_now(RequestKind::Reopened, &self.plan, id).await;
            if timed_out || reply.answer != Some(Answer::WaitingPage) {
                return;
            }
        }
    }

    /// A crawler asks again when it was told to, a few times.
    async fn come_back(&self, first: Mono, mut reply: Reply, returning: Returning) {
        let clock = &self.client.clock;
        for attempt in 1..=returning.times {
            if !matches!(reply.status, Some(429 | 503)) {
                return;
            }
            let now = clock.now();
            let Some(at) = reply.retry_after.as_deref().and_then(|when| moment(when, now)) else {
                return;
            };
            if at.since(first) > returning.horizon {
                return;
            }
            clock.sleep_until(at).await;
            let debt = clock.owe();
            let id = format!("{}-retry-{attempt}", self.id);
            reply = self.send(RequestKind::CrawlerRetry, &self.plan, id, at, debt).await;
        }
    }
}

fn is_awake(body: &[u8]) -> bool {
    let state: Option<serde_json::Value> = serde_json::from_slice(body).ok();
    state.is_some_and(|state| state["state"] == "awake")
}

/// The moment that a `Retry-After` means: seconds from now, or a date.
fn moment(retry_after: &str, now: Now) -> Option<Mono> {
    let text = retry_after.trim();
    if let Ok(seconds) = text.parse() {
        return Some(now.mono + Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(text).ok()?.duration_since(UNIX_EPOCH).ok()?;
    let ahead = (Wall::default() + date).0.saturating_sub(now.wall.0);
    Some(now.mono + Duration::from_millis(u64::try_from(ahead).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = Now {
            mono: Mono::from_secs(100),
            wall: Wall::from_secs(784_111_777 - 60), // Sun, 06 Nov 1994 08:48:37 GMT
            utc_offset: 0,
        };
        assert_eq!(moment("120", now), Some(Mono::from_secs(220)));
        assert_eq!(moment("Sun, 06 Nov 1994 08:49:37 GMT", now), Some(Mono::from_secs(160)));
        assert_eq!(moment("Sat, 06 Nov 1993 08:49:37 GMT", now), Some(now.mono));
        assert_eq!(moment("soon", now), None);
        assert_eq!(moment("-5", now), None);
    }

    #[test]
    fn only_a_state_that_is_awake_is_awake() {
        assert!(is_awake(br#"{"state":"awake","since":3}"#));
        assert!(!is_awake(br#"{"state":"waking"}"#));
        assert!(!is_awake(b"awake"));
        assert!(!is_awake(b""));
    }
}
