//! Announcements, repeated until they are heard. Pure.
//!
//! Only the latest counts: a machine that is back has no reason to say any more that it left.

use std::time::Duration;

use nightwatt_energy::time::Mono;

use crate::protocol::{Event, News, Nonce};

/// Before sleep there is little time: number of tries, and the pause between them.
const LEAVING: (u32, Duration) = (3, Duration::from_millis(100));

/// After a resume there is more time: number of tries, and the first pause, which doubles from there.
const BACK: (u32, Duration) = (10, Duration::from_secs(1));

/// Pauses grow up to this: ten attempts take two and a half minutes.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

#[derive(Debug)]
struct Pending {
    /// Index of the proxy.
    proxy: usize,
    tries: u32,
    pause: Duration,
    next: Mono,
}

/// What is still to be announced, and to whom.
#[derive(Debug)]
pub struct Announcer {
    /// Indices of the proxies that want to hear.
    listeners: Vec<usize>,
    current: Option<(News, Nonce)>,
    pending: Vec<Pending>,
    /// Did not answer after the last try.
    unheard: Vec<usize>,
}

impl Announcer {
    /// For proxies of these indices.
    pub fn new(listeners: Vec<usize>) -> Self {
        Self { listeners, current: None, pending: Vec::new(), unheard: Vec::new() }
    }

    /// From now on this is announced, in place of whatever was before.
    pub fn announce(&mut self, now: Mono, news: News, nonce: Nonce) {
        let (tries, pause) = if news.event == Event::Leaving { LEAVING } else { BACK };
        self.current = Some((news, nonce));
        let pending = self.listeners.iter();
        self.pending =
            pending.map(|proxy| Pending { proxy: *proxy, tries, pause, next: now }).collect();
    }

    /// What is to be sent now: each proxy's index with the same message.
    pub fn due(&mut self, now: Mono) -> Vec<(usize, News, Nonce)> {
        let Some((news, nonce)) = self.current else { return Vec::new() };
        let mut due = Vec::new();
        for pending in &mut self.pending {
            if pending.next > now {
                continue;
            }
            // The last pause is for its answer.
            if pending.tries > 0 {
                due.push((pending.proxy, news, nonce));
                pending.next = now + pending.pause;
                if news.event != Event::Leaving {
                    pending.pause = (pending.pause * 2).min(LONGEST_PAUSE);
                }
            }
            pending.tries = pending.tries.checked_sub(1).unwrap_or(u32::MAX);
        }
        let given_up = self.pending.extract_if(.., |pending| pending.tries == u32::MAX);
        self.unheard.extend(given_up.map(|pending| pending.proxy));
        due
    }

    /// Proxies that were told often enough and did not answer; each is named once.
    pub fn unheard(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.unheard)
    }

    /// A proxy has heard the announcement with this nonce. True if that is the current one.
    pub fn heard(&mut self, proxy: usize, nonce: Nonce) -> bool {
        let is_current = self.current.is_some_and(|(_, current)| current == nonce);
        if is_current {
            self.pending.retain(|pending| pending.proxy != proxy);
        }
        is_current
    }

    /// Has each proxy acknowledged the announcement, or been sent it the maximum number of times?
    pub fn is_done(&self) -> bool {
        self.pending.is_empty()
    }

    /// When [`Announcer::due`] is to be asked next.
    pub fn next(&self) -> Mono {
        self.pending.iter().map(|pending| pending.next).min().unwrap_or(Mono::NEVER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn news(event: Event) -> News {
        News { event, boot: [1; 16], counter: 1, wall_ms: 0 }
    }

    /// The moments at which something is sent, in milliseconds.
    fn moments(announcer: &mut Announcer) -> Vec<u128> {
        let mut at = Vec::new();
        while announcer.next() != Mono::NEVER {
            let now = announcer.next();
            at.extend(announcer.due(now).iter().map(|_| now.0.as_millis()));
        }
        at
    }

    #[test]
    fn whoever_does_not_answer_is_told_ten_times_with_longer_pauses() {
        let mut announcer = Announcer::new(vec![0]);
        announcer.announce(Mono::ZERO, news(Event::Back), Nonce([1; 16]));
        let seconds: Vec<_> = moments(&mut announcer).iter().map(|ms| ms / 1000).collect();
        assert_eq!(seconds, [0, 1, 3, 7, 15, 31, 61, 91, 121, 151]);
        assert!(announcer.is_done());
        assert_eq!((announcer.unheard(), announcer.unheard()), (vec![0], vec![]));
        announcer.announce(Mono::ZERO, news(Event::Leaving), Nonce([2; 16]));
        assert_eq!(moments(&mut announcer), [0, 100, 200]);
    }

    #[test]
    fn whoever_has_heard_is_not_told_again_and_old_answers_do_not_count() {
        let mut announcer = Announcer::new(vec![0, 3]);
        announcer.announce(Mono::ZERO, news(Event::Back), Nonce([2; 16]));
        assert_eq!(announcer.due(Mono::ZERO).len(), 2);
        assert!(!announcer.heard(3, Nonce([1; 16])), "an answer to an earlier announcement");
        assert!(announcer.heard(3, Nonce([2; 16])));
        let second: Vec<_> = announcer.due(Mono::from_secs(1)).iter().map(|it| it.0).collect();
        assert_eq!(second, [0]);
        assert!(announcer.heard(0, Nonce([2; 16])));
        assert!(announcer.is_done());
        assert_eq!(announcer.unheard(), [] as [usize; 0]);
        assert_eq!(announcer.next(), Mono::NEVER);
    }
}
