//! The drivers' clock: real time, or virtual time for a day that passes in seconds.
//!
//! Everything outside the pure crates that asks for the time, sleeps or gives up after a while does
//! it through [`Clock`]. With a real clock that is the operating system's time. With a virtual one,
//! client, proxy and controllers run in one process on one thread, and time
//!
//! * **stands still while bytes are owed** (a request sent and not yet answered, a process being started):
//!   each task that owes bytes holds a [`Debt`];
//! * **jumps to the next timer otherwise**, one timer at a time, in order of time and then of
//!   registration, each only after the tasks that the last one woke have come to rest.
//!
//! A request that waits for a server to wake owes nothing while it waits: it is a timer like any
//! other, so its wait goes through [`Clock::parked`].

pub mod connect;
pub mod meter;
mod real;
mod virtual_time;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use nightwatt_energy::time::{Mono, Now, Wall};
use nightwatt_energy::zone::Zone;
use real::RealTime;
use virtual_time::VirtualTime;

/// A handle to the time; clones share it.
#[derive(Debug, Clone)]
pub struct Clock(Kind);

#[derive(Debug, Clone)]
enum Kind {
    Real(Arc<RealTime>),
    Virtual(Arc<VirtualTime>),
}

/// The time allowed ran out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elapsed;

impl std::fmt::Display for Elapsed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the time allowed ran out")
    }
}

impl std::error::Error for Elapsed {}

/// While one of these lives, virtual time stands still. With a real clock it does nothing.
#[derive(Debug)]
#[must_use = "time runs on as soon as this is dropped"]
pub struct Debt(Option<Arc<VirtualTime>>);

impl Drop for Debt {
    fn drop(&mut self) {
        if let Some(time) = &self.0 {
            time.pay();
        }
    }
}

/// The reverse of a [`Debt`]: while it exists, one debt doesn't count.
struct Respite(Option<Arc<VirtualTime>>);

impl Drop for Respite {
    fn drop(&mut self) {
        if let Some(time) = &self.0 {
            time.owe();
        }
    }
}

impl Clock {
    /// The operating system's time.
    pub fn real() -> Self {
        Self(Kind::Real(Arc::new(RealTime::new())))
    }

    /// Virtual time that starts at `start`, in a place whose local time is UTC + `utc_offset` s.
    ///
    /// It moves only inside the runtime that [`Clock::runtime`] builds.
    pub fn virtual_at(start: Wall, utc_offset: i32) -> Self {
        Self(Kind::Virtual(Arc::new(VirtualTime::new(start, utc_offset))))
    }

    /// Does this clock jump?
    pub const fn is_virtual(&self) -> bool {
        matches!(self.0, Kind::Virtual(_))
    }

    /// The single-threaded runtime in which this clock runs.
    pub fn runtime(&self) -> std::io::Result<tokio::runtime::Runtime> {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all();
        if let Kind::Virtual(time) = &self.0 {
            // The runtime calls this when no task can run: if no bytes are owed, time may jump.
            let time = Arc::clone(time);
            builder.on_thread_park(move || time.jump_if_idle());
        }
        builder.build()
    }

    /// The present.
    pub fn now(&self) -> Now {
        match &self.0 {
            Kind::Real(time) => time.now(),
            Kind::Virtual(time) => time.now(),
        }
    }

    /// When local time changes its distance to UTC, from now to the end of the century. Empty for a virtual clock,
    /// whose distance never changes.
    pub fn zone(&self) -> Zone {
        match &self.0 {
            Kind::Real(time) => real::zone(&jiff::tz::TimeZone::system(), time.now().wall),
            Kind::Virtual(_) => Zone::default(),
        }
    }

    /// The name of the place whose local time it is, as `Europe/Berlin`, if it has one.
    ///
    /// # Errors
    ///
    /// If `TZ`, or else `/etc/localtime`, cannot be read: local time is UTC then.
    pub fn zone_name(&self) -> Result<Option<String>, String> {
        match &self.0 {
            Kind::Real(_) => real::zone_name(),
            Kind::Virtual(_) => Ok(None),
        }
    }

    /// Sets a virtual clock's civil time forward by this many milliseconds, or back; a real one is not ours to set.
    pub fn set_wall(&self, by: i64) {
        if let Some(time) = self.virtual_time() {
            time.set(by);
        }
    }

    /// Waits until `deadline`; at once when that is past. `Mono::NEVER` waits for ever.
    ///
    /// With a virtual clock even a past deadline waits for its turn: tasks that wait for the same moment go
    /// on one after the other, each after the one before came to rest.
    pub async fn sleep_until(&self, deadline: Mono) {
        if deadline == Mono::NEVER {
            return std::future::pending().await;
        }
        match &self.0 {
            Kind::Real(time) => time.sleep_until(deadline).await,
            Kind::Virtual(time) => virtual_time::Timer::new(Arc::clone(time), deadline).await,
        }
    }

    /// Waits that long.
    pub async fn sleep(&self, time: Duration) {
        self.sleep_until(self.now().mono + time).await;
    }

    /// Lets tasks that waited earlier go first; does nothing with a real clock.
    pub async fn turn(&self) {
        if self.is_virtual() {
            self.sleep_until(self.now().mono).await;
        }
    }

    /// `work`, or [`Elapsed`] when it is not done by `deadline`.
    pub async fn until<F: Future>(&self, deadline: Mono, work: F) -> Result<F::Output, Elapsed> {
        let mut work = pin!(work);
        let mut timer = pin!(self.sleep_until(deadline));
        std::future::poll_fn(|cx| {
            if let Poll::Ready(output) = work.as_mut().poll(cx) {
                return Poll::Ready(Ok(output));
            }
            timer.as_mut().poll(cx).map(|()| Err(Elapsed))
        })
        .await
    }

    /// `work`, or [`Elapsed`] when it takes longer than `limit`.
    pub async fn timeout<F: Future>(&self, limit: Duration, work: F) -> Result<F::Output, Elapsed> {
        self.until(self.now().mono + limit, work).await
    }

    /// Virtual time stands still until the debt is dropped.
    pub fn owe(&self) -> Debt {
        Debt(self.virtual_time().inspect(|time| time.owe()))
    }

    /// Awaits `work` without owing anything meanwhile: for a task that holds a [`Debt`] (or works for a task
    /// that does) and must wait for time to pass.
    pub async fn parked<F: Future>(&self, work: F) -> F::Output {
        let _respite = Respite(self.virtual_time().inspect(|time| time.pay()));
        work.await
    }

    fn virtual_time(&self) -> Option<Arc<VirtualTime>> {
        match &self.0 {
            Kind::Real(_) => None,
            Kind::Virtual(time) => Some(Arc::clone(time)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    fn virtual_clock() -> Clock {
        Clock::virtual_at(Wall::from_secs(1_000_000), 3600)
    }

    #[test]
    fn a_virtual_year_passes_at_once_and_in_order() {
        let clock = virtual_clock();
        let seen = Rc::new(RefCell::new(Vec::new()));
        let local = tokio::task::LocalSet::new();
        local.block_on(&clock.runtime().unwrap(), async {
            for days in [200_u64, 365, 1] {
                let (clock, seen) = (clock.clone(), Rc::clone(&seen));
                tokio::task::spawn_local(async move {
                    clock.sleep(Duration::from_secs(days * 86_400)).await;
                    seen.borrow_mut().push((days, clock.now().mono));
                });
            }
            clock.sleep(Duration::from_hours(8784)).await;
        });
        let day = |n: u64| Mono::from_secs(n * 86_400);
        assert_eq!(*seen.borrow(), [(1, day(1)), (200, day(200)), (365, day(365))]);
        assert_eq!(clock.now().wall, Wall::from_secs(1_000_000 + 366 * 86_400));
    }

    #[test]
    fn time_stands_still_while_bytes_are_owed_over_a_real_socket() {
        let clock = virtual_clock();
        clock.runtime().unwrap().block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            // A peer outside of the virtual clock, as a child process would be.
            let peer = std::thread::spawn(move || {
                let mut stream = std::net::TcpStream::connect(address).unwrap();
                std::io::Read::read_exact(&mut stream, &mut [0; 1]).unwrap();
                std::io::Write::write_all(&mut stream, b"!").unwrap();
            });
            let ticker = {
                let clock = clock.clone();
                tokio::spawn(async move { clock.sleep(Duration::from_secs(1)).await })
            };
            let debt = clock.owe();
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(b"?").await.unwrap();
            stream.read_exact(&mut [0; 1]).await.unwrap();
            assert_eq!(clock.now().mono, Mono::ZERO, "the peer's real time must not count");
            drop(debt);
            ticker.await.unwrap();
            assert_eq!(clock.now().mono, Mono::from_secs(1));
            peer.join().unwrap();
        });
    }

    #[test]
    fn who_is_parked_owes_nothing_and_owes_again_after() {
        let clock = virtual_clock();
        clock.runtime().unwrap().block_on(async {
            let debt = clock.owe();
            clock.parked(clock.sleep(Duration::from_secs(5))).await;
            assert_eq!(clock.now().mono, Mono::from_secs(5));
            let other = {
                let clock = clock.clone();
                tokio::spawn(async move { clock.sleep(Duration::from_secs(1)).await })
            };
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            assert!(!other.is_finished(), "the debt counts again");
            drop(debt);
            other.await.unwrap();
        });
    }

    #[test]
    fn a_timeout_gives_up_at_its_deadline_and_forgets_its_timer() {
        let clock = virtual_clock();
        clock.runtime().unwrap().block_on(async {
            let never = std::future::pending::<()>();
            assert_eq!(clock.timeout(Duration::from_secs(3), never).await, Err(Elapsed));
            assert_eq!(clock.now().mono, Mono::from_secs(3));
            assert_eq!(clock.timeout(Duration::from_secs(3), async { 7 }).await, Ok(7));
            clock.sleep(Duration::from_secs(1)).await;
            assert_eq!(clock.now().mono, Mono::from_secs(4));
        });
    }

    #[test]
    fn waiters_for_one_moment_take_turns() {
        let clock = virtual_clock();
        let log = Rc::new(RefCell::new(Vec::new()));
        let local = tokio::task::LocalSet::new();
        local.block_on(&clock.runtime().unwrap(), async {
            let mut tasks = Vec::new();
            for name in ["a", "b"] {
                let (clock, log) = (clock.clone(), Rc::clone(&log));
                tasks.push(tokio::task::spawn_local(async move {
                    clock.sleep_until(Mono::from_secs(1)).await;
                    for _ in 0..3 {
                        log.borrow_mut().push(name);
                        tokio::task::yield_now().await;
                    }
                }));
            }
            for task in tasks {
                task.await.unwrap();
            }
        });
        assert_eq!(*log.borrow(), ["a", "a", "a", "b", "b", "b"]);
    }

    #[test]
    fn the_real_clock_runs_forward() {
        let clock = Clock::real();
        clock.runtime().unwrap().block_on(async {
            let before = clock.now();
            clock.sleep(Duration::from_millis(2)).await;
            let after = clock.now();
            assert!(after.mono.since(before.mono) >= Duration::from_millis(2));
            assert_eq!(
                clock.timeout(Duration::ZERO, std::future::pending::<()>()).await,
                Err(Elapsed)
            );
        });
    }
}
