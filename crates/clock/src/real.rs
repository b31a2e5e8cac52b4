//! The operating system's time.

use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use nightwatt_energy::time::{Mono, Now, Wall};
use nightwatt_energy::zone::{OffsetChange, Zone};

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
    let zone = TimeZone::system();
    Timestamp::from_second(wall.secs()).map_or(0, |at| zone.to_offset(at).seconds())
}

/// The name of the system's time zone.
pub(crate) fn zone_name() -> Result<Option<String>, String> {
    let zone = TimeZone::try_system().map_err(|error| error.to_string())?;
    Ok(zone.iana_name().map(str::to_owned))
}

/// 2100-01-01: twice a year until then are a few hundred changes.
const CENTURY_ENDS: i64 = 4_102_444_800;

/// The offsets of a zone from a day before `from` on.
pub(crate) fn zone(zone: &TimeZone, from: Wall) -> Zone {
    let start = from.secs() - 86_400;
    let Ok(at) = Timestamp::from_second(start) else { return Zone::default() };
    let first =
        OffsetChange { at: Wall::from_secs(start), utc_offset: zone.to_offset(at).seconds() };
    let following = zone.following(at).take_while(|it| it.timestamp().as_second() < CENTURY_ENDS);
    let changes = following.map(|change| OffsetChange {
        at: Wall::from_secs(change.timestamp().as_second()),
        utc_offset: change.offset().seconds(),
    });
    Zone::new(std::iter::once(first).chain(changes).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published rules of the EU and of the USA, and a zone that is put forward by half an hour.
    #[test]
    fn a_zone_has_the_changes_that_its_country_published() {
        // 2026-01-01 00:00 UTC.
        let start = Wall::from_secs(1_767_225_600);
        for (name, offsets) in [
            // 2026-03-29 and 2026-10-25 at 01:00 UTC.
            ("Europe/Berlin", [(0, 3600), (1_774_746_000, 7200), (1_792_890_000, 3600)]),
            // 2026-03-08 at 07:00 UTC, 2026-11-01 at 06:00 UTC.
            (
                "America/New_York",
                [(0, -18_000), (1_772_953_200, -14_400), (1_793_512_800, -18_000)],
            ),
            // 2026-04-04 at 15:00 UTC, 2026-10-03 at 15:30 UTC.
            (
                "Australia/Lord_Howe",
                [(0, 39_600), (1_775_314_800, 37_800), (1_791_041_400, 39_600)],
            ),
        ] {
            let Ok(found) = TimeZone::get(name) else {
                println!("skipped: there is no table of time zones (Debian: tzdata)");
                return;
            };
            let zone = zone(&found, start);
            for (at, offset) in offsets {
                let at = Wall::from_secs(at).max(start);
                assert_eq!(zone.offset_at(at, 1), offset, "{name}");
                let before = Wall(at.0 - 1);
                assert!(at == start || zone.offset_at(before, 1) != offset, "{name}");
            }
            // 2099-07-01: the rules of today are continued.
            let summer = zone.offset_at(Wall::from_secs(4_086_547_200), 1);
            assert_eq!(summer, offsets[1].1, "{name} in July");
        }
    }
}
