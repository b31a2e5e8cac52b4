//! Noticing that the machine was suspended, without looking again and again.
//!
//! A timer of the kernel that is to be cancelled when the wall clock is set is cancelled on every resume
//! too (`TFD_TIMER_CANCEL_ON_SET`, `timerfd_create(2)`): the wall clock went on while the monotonic stood.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_clock::meter::{Stamp, Stop, Woken};
use nightwatt_energy::time::Mono;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::sync::mpsc;

/// How often the clocks are compared where the kernel has no such timer.
const EVERY: Duration = Duration::from_secs(10);

/// Far enough: the year 2242.
const FAR: i64 = 1 << 33;

/// The present. How long the machine was suspended is a difference of two clocks that are read one after
/// the other: of three readings the least is the nearest.
pub(crate) fn present() -> Stamp {
    let stamps = [Stamp::now(), Stamp::now(), Stamp::now()];
    let suspended = stamps.iter().map(|stamp| stamp.suspended).min().unwrap_or_default();
    Stamp { suspended, ..stamps[2] }
}

/// Tells when the machine may have been suspended.
#[derive(Debug)]
pub(crate) struct Resumes {
    news: Option<mpsc::UnboundedReceiver<()>>,
    stop: Option<Stop>,
}

impl Resumes {
    /// Begins to watch, in a thread of its own: all it does is wait.
    pub(crate) fn new() -> Self {
        let watched = timer().and_then(|timer| {
            let (stop, (told, news)) = (Stop::new()?, mpsc::unbounded_channel());
            let theirs = stop.clone();
            let wait = move || {
                while theirs.readable_until(timer.as_fd(), Mono::NEVER) == Woken::Readable {
                    // Fails with ECANCELED, which is the news.
                    let _ = rustix::io::read(&timer, &mut [0; 8]);
                    if told.send(()).is_err() {
                        break;
                    }
                }
            };
            std::thread::Builder::new().name("resumes".to_owned()).spawn(wait)?;
            Ok((news, stop))
        });
        match watched {
            Ok((news, stop)) => Self { news: Some(news), stop: Some(stop) },
            Err(error) => {
                tracing::warn!(%error, "the clocks are compared every {EVERY:?} to notice resumes");
                Self { news: None, stop: None }
            }
        }
    }

    /// Returns when the wall clock was set, by a user or by a resume.
    pub(crate) async fn next(&mut self, clock: &Clock) {
        let told = match &mut self.news {
            Some(news) => news.recv().await,
            None => None,
        };
        if told.is_none() {
            clock.sleep(EVERY).await;
        }
    }
}

impl Drop for Resumes {
    fn drop(&mut self) {
        if let Some(stop) = &self.stop {
            stop.stop();
        }
    }
}

fn timer() -> io::Result<OwnedFd> {
    let timer =
        timerfd_create(TimerfdClockId::Realtime, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
    let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
    let far = Itimerspec { it_interval: zero, it_value: Timespec { tv_sec: FAR, tv_nsec: 0 } };
    timerfd_settime(&timer, TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET, &far)?;
    Ok(timer)
}
