//! The SLA: whom a sleep may delay, in the forms that an operator can choose.

mod day;
mod keeper;
mod visits;
mod window;

use std::time::Duration;

pub use self::keeper::{Broken, SlaKeeper, SlaUse};
pub use self::visits::DelayedToday;
pub use self::window::SlaWindow;

/// What sleeps may delay. Each form that is given must hold.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Sla {
    /// At most this share of the requests waits.
    pub share: Option<RequestShare>,
    /// At most this number of visits a local calendar day waits.
    pub visits_per_day: Option<u32>,
    /// The server sleeps only while it is expected to wake within this.
    pub longest_wait: Option<Duration>,
}

/// At most `share` of the requests in `window` may wait longer than `delay` because of a sleep.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RequestShare {
    /// 0 ..= 1.
    pub share: f64,
    /// What counts as waiting.
    pub delay: Duration,
    /// Length of the rolling window.
    pub window: Duration,
}
