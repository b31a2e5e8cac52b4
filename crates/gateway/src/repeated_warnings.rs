//! Warnings that can repeat with every request: each is logged at once, and then once per minute with its count, so
//! that a full disk or a server that fails does not fill the log.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_energy::time::Mono;
use tokio::runtime::Handle;

/// Time between two lines about the same.
const PAUSE: Duration = Duration::from_mins(1);

/// What can repeat: the kind of warning, and the site or service that it is about.
type Key = (&'static str, String);

/// Recently logged warnings. Subjects come from the configuration, never from clients, so their number is limited.
#[derive(Debug, Clone, Default)]
pub(crate) struct Repeats(Arc<Mutex<HashMap<Key, Repeat>>>);

/// One kind of warning about one subject.
#[derive(Debug, Default)]
struct Repeat {
    silent_until: Mono,
    /// How many times it happened since it was last logged.
    count: u64,
}

/// How to handle an event.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// Log it now, with this count.
    Log(u64),
    /// Log it, and those that follow, at this time.
    LogAt(Mono),
    /// Only count it; a line will follow.
    Nothing,
}

impl Repeat {
    fn happened(&mut self, now: Mono) -> Next {
        self.count += 1;
        if now >= self.silent_until {
            return self.due(now).map_or(Next::Nothing, Next::Log);
        }
        if self.count == 1 { Next::LogAt(self.silent_until) } else { Next::Nothing }
    }

    /// The pause is over: returns how many times it happened meanwhile, if at all.
    fn due(&mut self, now: Mono) -> Option<u64> {
        let count = std::mem::take(&mut self.count);
        (count > 0).then(|| {
            self.silent_until = now + PAUSE;
            count
        })
    }
}

impl Repeats {
    /// A warning of this kind about `subject`: calls `log` now or within a minute, with the number of times since the
    /// last line.
    pub(crate) fn warn(
        &self,
        clock: &Clock,
        kind: &'static str,
        subject: &str,
        log: impl FnOnce(u64) + Send + 'static,
    ) {
        let key = (kind, subject.to_owned());
        let next = self.lock().entry(key.clone()).or_default().happened(clock.now().mono);
        match next {
            Next::Log(count) => log(count),
            Next::LogAt(then) => {
                // Without a runtime (in a thread of its own) the next event past the pause logs it.
                let Ok(runtime) = Handle::try_current() else { return };
                let (repeats, clock) = (self.clone(), clock.clone());
                runtime.spawn(async move {
                    clock.sleep_until(then).await;
                    let now = clock.now().mono;
                    let count = repeats.lock().get_mut(&key).and_then(|it| it.due(now));
                    count.map(log);
                });
            }
            Next::Nothing => {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Repeat>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use nightwatt_energy::time::Wall;

    use super::*;

    /// Second, count, subject.
    type Lines = Vec<(u64, u64, &'static str)>;

    #[test]
    fn the_first_is_logged_at_once_and_the_rest_once_a_minute_with_their_count() {
        let clock = Clock::virtual_at(Wall::from_secs(0), 0);
        let repeats = Repeats::default();
        let logged: Arc<Mutex<Lines>> = Arc::default();
        let warn = |subject: &'static str| {
            let (at, logged) = (clock.clone(), Arc::clone(&logged));
            let log = move |count| {
                let second = at.now().mono.0.as_secs();
                logged.lock().unwrap().push((second, count, subject));
            };
            repeats.warn(&clock, "the server failed", subject, log);
        };
        clock.runtime().unwrap().block_on(async {
            for _ in 0..100 {
                warn("blog");
                warn("wiki");
                clock.sleep(Duration::from_secs(1)).await;
            }
            // Silence, then once more.
            clock.sleep(Duration::from_mins(15)).await;
            warn("blog");
        });
        let of = |subject| {
            let logged = logged.lock().unwrap();
            let of: Vec<_> = logged.iter().filter(|it| it.2 == subject).copied().collect();
            of.into_iter().map(|(second, count, _)| (second, count)).collect::<Vec<_>>()
        };
        assert_eq!(of("wiki").iter().map(|it| it.1).sum::<u64>(), 100, "none is lost");
        assert_eq!(of("blog"), [&of("wiki")[..], &[(1000, 1)]].concat());
        assert_eq!(of("wiki").len(), 3);
        assert_eq!(of("wiki")[0], (0, 1));
        assert_eq!((of("wiki")[1].0, of("wiki")[2].0), (60, 120));
    }

    #[test]
    fn what_could_not_be_logged_in_time_is_counted_with_the_next() {
        let mut repeat = Repeat::default();
        let at = Mono::from_secs;
        assert_eq!(repeat.happened(at(0)), Next::Log(1));
        assert_eq!(repeat.happened(at(10)), Next::LogAt(at(60)));
        assert_eq!(repeat.happened(at(20)), Next::Nothing);
        assert_eq!(repeat.happened(at(70)), Next::Log(3));
        assert_eq!(repeat.due(at(130)), None);
    }
}
