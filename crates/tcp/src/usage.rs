//! What this process has used of the machine.

use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use serde::{Serialize, Serializer};

/// CPU time, and how often it was taken off a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// CPU time in user mode.
    pub user: Duration,
    /// CPU time in the kernel.
    pub system: Duration,
    /// It had nothing to do and slept.
    pub voluntary_switches: u64,
    /// It was taken off.
    pub involuntary_switches: u64,
}

impl Usage {
    /// Of this process so far; nothing where the system does not say.
    pub fn now() -> Self {
        let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else { return Self::default() };
        let count = |number: i64| u64::try_from(number).unwrap_or(0);
        Self {
            user: duration(usage.user_time()),
            system: duration(usage.system_time()),
            voluntary_switches: count(usage.voluntary_context_switches()),
            involuntary_switches: count(usage.involuntary_context_switches()),
        }
    }

    /// What was used since then.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
            voluntary_switches: self.voluntary_switches.saturating_sub(earlier.voluntary_switches),
            involuntary_switches: self
                .involuntary_switches
                .saturating_sub(earlier.involuntary_switches),
        }
    }

    /// CPU time in all.
    pub fn cpu(&self) -> Duration {
        self.user + self.system
    }
}

fn duration(time: TimeVal) -> Duration {
    let seconds = u64::try_from(time.tv_sec()).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_usec() * 1000).unwrap_or(0))
}

impl Serialize for Usage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Form {
            user_s: f64,
            system_s: f64,
            voluntary_switches: u64,
            involuntary_switches: u64,
        }
        let form = Form {
            user_s: self.user.as_secs_f64(),
            system_s: self.system.as_secs_f64(),
            voluntary_switches: self.voluntary_switches,
            involuntary_switches: self.involuntary_switches,
        };
        form.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_was_done_shows_in_what_was_used() {
        let before = Usage::now();
        let mut sum = 0_u64;
        while Usage::now().since(&before).cpu() < Duration::from_millis(5) {
            sum = sum.wrapping_add(std::hint::black_box(sum));
        }
        assert_eq!(
            before.since(&Usage::now()).cpu(),
            Duration::ZERO,
            "time does not run backwards"
        );
    }
}
