//! The operating system's time.

use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use nightwatt_energy::time::{Mono, Now, Wall};

/// Local time's distance to UTC changes twice a year: looking it up this often is plenty.
const OFFSET_KEPT: Duration = Duration::from_mins(1);

#[derive(Debug)]
pub(crate) struct RealTime {
    origin: Instant,
    utc_offset: AtomicI32,
    /// Seconds after `origin` at which `utc_offset` is to be looked up again.
    look_up_at: AtomicU64,
}

impl RealTime {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that asks")]
    pub(crate) fn new() -> Self {
        Self {
            origin: Instant::now(),
            utc_offset: AtomicI32::new(0),
            look_up_at: AtomicU64::new(0),
        }
    }

    #[expect(clippy::disallowed_methods, reason = "this is the one place that asks")]
    pub(crate) fn now(&self) -> Now {
        let mono = Mono(self.origin.elapsed());
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let wall = Wall::default() + since_1970.unwrap_or_default();
        if mono.0.as_secs() >= self.look_up_at.load(Ordering::Relaxed) {
            self.utc_offset.store(utc_offset(wall), Ordering::Relaxed);
            self.look_up_at.store((mono.0 + OFFSET_KEPT).as_secs(), Ordering::Relaxed);
        }
        Now { mono, wall, utc_offset: self.utc_offset.load(Ordering::Relaxed) }
    }

    #[expect(clippy::disallowed_methods, reason = "this is the one place that waits")]
    pub(crate) async fn sleep_until(&self, deadline: Mono) {
        match self.origin.checked_add(deadline.0) {
            Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
            None => std::future::pending().await,
        }
    }
}

fn utc_offset(wall: Wall) -> i32 {
    let zone = jiff::tz::TimeZone::system();
    jiff::Timestamp::from_second(wall.secs()).map_or(0, |at| zone.to_offset(at).seconds())
}
