//! How long is waited for a server, and how often it is asked.

use std::time::Duration;

/// Timeouts of the lifecycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbeTimeouts {
    /// A wake command that has not led to an answer by then is given again.
    pub wake_timeout: Duration,
    /// Wake commands before the server counts as failed.
    pub wake_attempts: u32,
    /// First pause after a failure; each further failure doubles it.
    pub back_off: Duration,
    /// The longest pause.
    pub longest_back_off: Duration,
    /// A sleep command that has not silenced the server by then has failed.
    pub sleep_timeout: Duration,
    /// How long a server that said good-bye may still answer.
    pub good_bye: Duration,
    /// A server that has reasons of its own to stay awake is asked again after this time; each further
    /// refusal in a row doubles it.
    pub ask_again: Duration,
    /// The longest time after which it is asked again.
    pub longest_ask_again: Duration,
    /// Between two probes while waking or falling asleep.
    pub probe_every: Duration,
    /// Between two looks at a server that is believed awake, and before the first at one that went away by
    /// itself (each further pause is twice as long, up to `longest_back_off`); zero: never look.
    pub watch_every: Duration,
    /// Between two looks at a server that sleeps as it was told; zero: leave it in peace.
    pub watch_asleep_every: Duration,
}

impl Default for ProbeTimeouts {
    fn default() -> Self {
        Self {
            wake_timeout: Duration::from_mins(2),
            wake_attempts: 3,
            back_off: Duration::from_mins(1),
            longest_back_off: Duration::from_hours(1),
            sleep_timeout: Duration::from_mins(1),
            good_bye: Duration::from_secs(30),
            ask_again: Duration::from_mins(1),
            longest_ask_again: Duration::from_mins(8),
            probe_every: Duration::from_millis(500),
            watch_every: Duration::from_mins(1),
            watch_asleep_every: Duration::from_mins(1),
        }
    }
}
