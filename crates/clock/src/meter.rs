//! Time for threads that read meters: absolute deadlines, kept by the kernel's monotonic clock.
//!
//! Meters are read in threads that block, up to a thousand times a second; what happens on one host
//! (readings, markers of processes, events of the kernel) has one time base, `CLOCK_MONOTONIC`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nightwatt_energy::time::Mono;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::{Errno, write};
use rustix::time::{ClockId, clock_gettime};

/// The kernel's monotonic time: since boot, without the time in which the host was suspended.
pub fn monotonic() -> Mono {
    Mono(duration(clock_gettime(ClockId::Monotonic)))
}

/// A moment on all three clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// `CLOCK_MONOTONIC`.
    pub mono: Mono,
    /// `CLOCK_REALTIME`: nanoseconds since 1970, UTC.
    pub wall_ns: i64,
    /// How long the host has been suspended since boot (`CLOCK_BOOTTIME` less `CLOCK_MONOTONIC`).
    pub suspended: Duration,
}

impl Stamp {
    /// The present.
    pub fn now() -> Self {
        let mono = monotonic();
        let wall = clock_gettime(ClockId::Realtime);
        let boot = duration(clock_gettime(ClockId::Boottime));
        Self {
            mono,
            wall_ns: wall.tv_sec.saturating_mul(1_000_000_000).saturating_add(wall.tv_nsec),
            suspended: boot.saturating_sub(mono.0),
        }
    }
}

fn duration(time: Timespec) -> Duration {
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// How waiting ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    /// There is something to read.
    Readable,
    /// The deadline has come.
    TimedOut,
    /// It is over.
    Stopped,
}

/// Stops threads that wait; clones share it.
#[derive(Debug, Clone)]
pub struct Stop(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    stopped: AtomicBool,
    event: OwnedFd,
}

impl Stop {
    /// Creates a stop that has not been requested.
    pub fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self(Arc::new(Shared { stopped: AtomicBool::new(false), event })))
    }

    /// Ends all waiting, now and from now on.
    pub fn stop(&self) {
        self.0.stopped.store(true, Ordering::Release);
        // The event stays readable, since nothing reads it. A full counter is readable, too.
        let _ = write(&self.0.event, &1_u64.to_ne_bytes());
    }

    /// Whether the stop was requested.
    pub fn is_stopped(&self) -> bool {
        self.0.stopped.load(Ordering::Acquire)
    }

    /// Waits until `deadline`.
    pub fn wait_until(&self, deadline: Mono) -> Woken {
        self.wait(&mut [PollFd::new(&self.0.event, PollFlags::IN)], deadline)
    }

    /// Waits until there is something to read, or the other end is gone; or until `deadline`.
    pub fn readable_until(&self, file: BorrowedFd<'_>, deadline: Mono) -> Woken {
        let event = self.0.event.as_fd();
        let mut files = [event, file].map(|file| PollFd::from_borrowed_fd(file, PollFlags::IN));
        self.wait(&mut files, deadline)
    }

    /// The first of `files` is the event.
    fn wait(&self, files: &mut [PollFd<'_>], deadline: Mono) -> Woken {
        loop {
            if self.is_stopped() {
                return Woken::Stopped;
            }
            let left = deadline.since(monotonic());
            let timeout = Timespec::try_from(left).ok();
            match poll(files, timeout.as_ref()) {
                Ok(0) if monotonic() >= deadline => return Woken::TimedOut,
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) if self.is_stopped() => return Woken::Stopped,
                // Whatever is wrong with the file, reading it will say what.
                Ok(_) | Err(_) => return Woken::Readable,
            }
        }
    }
}

impl AsFd for Stop {
    /// Readable once it has been told, for loops that wait for much else.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.event.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn waiting_ends_at_the_deadline_or_when_stopped() {
        let stop = Stop::new().unwrap();
        let deadline = monotonic() + Duration::from_millis(3);
        assert_eq!(stop.wait_until(deadline), Woken::TimedOut);
        assert!(monotonic() >= deadline);
        let other = stop.clone();
        let waiting = std::thread::spawn(move || other.wait_until(Mono::NEVER));
        stop.stop();
        assert_eq!(waiting.join().unwrap(), Woken::Stopped);
        assert_eq!(stop.wait_until(Mono::NEVER), Woken::Stopped, "it stays stopped");
    }

    #[test]
    fn waiting_ends_when_something_comes_or_the_other_end_is_gone() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let stop = Stop::new().unwrap();
        assert_eq!(stop.readable_until(reader.as_fd(), monotonic()), Woken::TimedOut);
        writer.write_all(b"x").unwrap();
        assert_eq!(stop.readable_until(reader.as_fd(), Mono::NEVER), Woken::Readable);
        let (reader, writer) = std::io::pipe().unwrap();
        drop(writer);
        assert_eq!(stop.readable_until(reader.as_fd(), Mono::NEVER), Woken::Readable);
    }

    #[test]
    fn the_clocks_run_together() {
        // On a busy machine time passes between the two readings of a stamp: its wall clock was read
        // between `mono` and the reading after it.
        let (before, before_end) = (Stamp::now(), monotonic());
        let (after, after_end) = (Stamp::now(), monotonic());
        let wall = Duration::from_nanos((after.wall_ns - before.wall_ns).unsigned_abs());
        // The wall clock is slewed by at most 500 ppm (adjtimex(2)).
        let slewed = Duration::from_micros(1) + after_end.since(before.mono) / 1000;
        assert!(wall + slewed >= after.mono.since(before_end), "{before:?} {after:?}");
        assert!(wall <= after_end.since(before.mono) + slewed, "{before:?} {after:?}");
        assert!(before.wall_ns > 1_700_000_000_000_000_000, "after 2023");
    }
}
