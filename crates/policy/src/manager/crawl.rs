//! Appointments with crawlers: sent away now, they are answered in the crawl window.

use std::time::Duration;

use crate::scenario::CrawlWindow;
use nightwatt_energy::time::{Mono, Now, Wall};

const DAY: Duration = Duration::from_hours(24);

/// Crawlers are spread over this part of the window, so that the last ones find it open too.
const SPREAD: f64 = 0.8;

/// Keeps the appointments. The window opens only on days for which a crawler was invited.
#[derive(Debug, Clone)]
pub(super) struct Crawl {
    window: CrawlWindow,
    /// The window that a crawler was invited to.
    promised: Option<Mono>,
    invited: u32,
}

impl Crawl {
    pub(super) fn new(window: CrawlWindow, appointment: Option<Wall>, now: Now) -> Self {
        let promised = appointment.map(|at| {
            let ahead = u64::try_from(at.0.saturating_sub(now.wall.0)).unwrap_or(0);
            // Appointments are at most a day ahead: otherwise the clock is behind.
            now.mono + Duration::from_millis(ahead).min(DAY)
        });
        Self { window, promised, invited: 0 }
    }

    /// From now to the opening of the next window.
    fn to_opening(&self, now: Now) -> Duration {
        let opens = self.window.opens.as_secs() % 86_400;
        let second = u64::from(now.second_of_day());
        Duration::from_secs((opens + 86_400 - second - 1) % 86_400 + 1)
    }

    /// In how long a crawler that asks now will be welcome; promises nothing.
    pub(super) fn peek(&self, now: Now) -> Duration {
        self.to_opening(now)
    }

    /// Invites a crawler: in how long it may come back. At most 24 hours.
    pub(super) fn promise(&mut self, now: Now) -> Duration {
        let opening = self.to_opening(now);
        self.promised.get_or_insert(now.mono + opening);
        self.invited = self.invited.wrapping_add(1);
        // Multiples of the golden ratio fall evenly over the window, however many come.
        let place = (f64::from(self.invited) * 0.618_033_988_749_895).fract();
        (opening + self.window.length.mul_f64(SPREAD * place)).min(DAY)
    }

    /// If it is time to wake the server for a window: until when that is open.
    pub(super) fn opens(&mut self, now: Now, wake_time: Duration) -> Option<Mono> {
        let promised = self.promised?;
        if now.mono + wake_time < promised {
            return None;
        }
        self.promised = None;
        Some(promised + self.window.length)
    }

    pub(super) fn next_timer(&self, wake_time: Duration) -> Mono {
        self.promised.map_or(Mono::NEVER, |at| at - wake_time)
    }

    pub(super) fn appointment(&self, now: Now) -> Option<Wall> {
        self.promised.map(|at| now.wall + at.since(now.mono))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(hour: u64, minute: u64) -> Now {
        let second = hour * 3600 + minute * 60;
        Now {
            mono: Mono::from_secs(second),
            wall: Wall::from_secs(second.cast_signed()),
            utc_offset: 0,
        }
    }

    fn night() -> Crawl {
        Crawl::new(CrawlWindow::default(), None, at(0, 0))
    }

    #[test]
    fn whoever_asks_is_invited_within_a_day_into_the_window() {
        let mut crawl = night();
        for hour in 0..24 {
            for minute in [0, 5, 59] {
                let now = at(hour, minute);
                let welcome = crawl.promise(now);
                assert!(welcome <= DAY);
                let second = (u64::from(now.second_of_day()) + welcome.as_secs()) % 86_400;
                assert!((10_800..10_800 + 600).contains(&second), "{hour}:{minute} -> {second}");
            }
        }
    }

    #[test]
    fn without_an_invitation_the_window_stays_shut() {
        let mut crawl = night();
        assert_eq!(crawl.next_timer(Duration::from_secs(5)), Mono::NEVER);
        assert_eq!(crawl.opens(at(3, 0), Duration::from_secs(5)), None);
    }

    #[test]
    fn the_server_is_woken_ahead_of_the_window_and_kept_up_to_its_end() {
        let mut crawl = night();
        crawl.promise(at(1, 0));
        let wake_time = Duration::from_secs(5);
        assert_eq!(crawl.next_timer(wake_time), Mono::from_secs(3 * 3600 - 5));
        assert_eq!(crawl.opens(at(2, 59), wake_time), None);
        assert_eq!(crawl.opens(at(3, 0), wake_time), Some(at(3, 10).mono));
        assert_eq!(crawl.opens(at(3, 0), wake_time), None, "once");
    }

    #[test]
    fn an_appointment_survives_a_restart() {
        let mut crawl = night();
        crawl.promise(at(1, 0));
        let kept = crawl.appointment(at(1, 0));
        assert_eq!(kept, Some(Wall::from_secs(3 * 3600)));
        let again = Crawl::new(CrawlWindow::default(), kept, at(2, 0));
        assert_eq!(again.next_timer(Duration::ZERO), Mono::from_secs(3 * 3600));
    }

    #[test]
    fn an_appointment_of_a_clock_that_now_starts_in_1970_is_kept_within_a_day() {
        let kept = Some(Wall::from_secs(1_795_435_200));
        let again = Crawl::new(CrawlWindow::default(), kept, at(0, 0));
        assert_eq!(again.next_timer(Duration::ZERO), Mono::from_secs(86_400));
    }
}
