//! Bounds of a mirror.

use std::time::Duration;

/// How much may be fetched and kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Addresses that are fetched.
    pub pages: usize,
    /// Addresses that are remembered, those that are not fetched among them.
    pub known: usize,
    /// Links from the start. Parts of a page and further pages of a list are as far as the page.
    pub depth: u16,
    /// Requests a second.
    pub rate: f64,
    /// Requests at the same time.
    pub at_once: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { pages: 10_000, known: 50_000, depth: 32, rate: 20.0, at_once: 2 }
    }
}

impl Limits {
    /// The time between two requests.
    pub fn pause(&self) -> Duration {
        // A rate that makes no sense is one request a minute.
        let pause = Duration::try_from_secs_f64(self.rate.recip()).ok();
        pause.filter(|it| *it <= Duration::from_mins(1)).unwrap_or(Duration::from_mins(1))
    }
}
