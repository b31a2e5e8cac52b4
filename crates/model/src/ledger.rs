//! The bill: how long the server was in which state, and what that cost and saved.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::energy::PowerStates;
use crate::quantity::{Joules, Watts};
use crate::time::Mono;

/// What the bill counts the present time as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Billing {
    /// The server is awake.
    On,
    /// From the sleep command to the wake command answered.
    Off,
    /// Nobody watched (the proxy was down): billed as awake, so that no saving is claimed.
    Unobserved,
}

/// Times and counts from which every energy figure of a server follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Bill {
    /// Time awake.
    pub on: Duration,
    /// Time from sleep commands to wake commands answered.
    pub off: Duration,
    /// Time in which nobody watched.
    pub unobserved: Duration,
    /// Sleeps begun. Each is charged the energy of one cycle.
    pub cycles: u64,
    /// Wake-ups answered.
    pub wakeups: u64,
}

impl Bill {
    /// The span billed.
    pub fn span(&self) -> Duration {
        self.on + self.off + self.unobserved
    }

    /// Energy of the server, modelled from its power states.
    pub fn server(&self, states: &PowerStates) -> Joules {
        states.energy(self.on + self.unobserved, self.off, self.cycles)
    }

    /// Energy of a proxy that drew this much all the time.
    pub fn proxy(&self, power: Watts) -> Joules {
        power * self.span()
    }

    /// Energy of the server had it never slept, without a proxy.
    pub fn always_on(&self, states: &PowerStates) -> Joules {
        states.on * self.span()
    }

    /// What came to it since an earlier state of the same bill.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            on: self.on.saturating_sub(earlier.on),
            off: self.off.saturating_sub(earlier.off),
            unobserved: self.unobserved.saturating_sub(earlier.unobserved),
            cycles: self.cycles.saturating_sub(earlier.cycles),
            wakeups: self.wakeups.saturating_sub(earlier.wakeups),
        }
    }

    /// 1 - (server + proxy) / (server always on, no proxy). Zero for an empty span.
    pub fn saving(&self, states: &PowerStates, proxy: Watts) -> f64 {
        let always_on = self.always_on(states);
        if always_on.get() <= 0.0 {
            return 0.0;
        }
        1.0 - (self.server(states) + self.proxy(proxy)) / always_on
    }
}

/// A bill that is being written.
#[derive(Debug, Clone)]
pub struct Ledger {
    bill: Bill,
    billing: Billing,
    since: Mono,
}

impl Ledger {
    /// Goes on with `bill` from now.
    pub const fn resume(bill: Bill, billing: Billing, now: Mono) -> Self {
        Self { bill, billing, since: now }
    }

    /// From now on the time counts as something else.
    pub fn turn(&mut self, now: Mono, billing: Billing) {
        self.bill = self.bill(now);
        self.since = now;
        self.billing = billing;
    }

    /// A sleep command was given.
    pub fn fell_asleep(&mut self, now: Mono) {
        self.turn(now, Billing::Off);
        self.bill.cycles += 1;
    }

    /// The sleep command came to nothing: the time since it was spent awake, and no cycle began.
    pub fn stayed_awake(&mut self, now: Mono) {
        self.bill.on += now.since(self.since);
        self.bill.cycles = self.bill.cycles.saturating_sub(1);
        self.since = now;
        self.billing = Billing::On;
    }

    /// The server answers again.
    pub fn woke(&mut self, now: Mono) {
        self.turn(now, Billing::On);
        self.bill.wakeups += 1;
    }

    /// The bill as of now.
    pub fn bill(&self, now: Mono) -> Bill {
        let mut bill = self.bill;
        let passed = now.since(self.since);
        match self.billing {
            Billing::On => bill.on += passed,
            Billing::Off => bill.off += passed,
            Billing::Unobserved => bill.unobserved += passed,
        }
        bill
    }

    /// The bill as of the last turn, without the sleep that began then and may still come to
    /// nothing.
    pub const fn before_sleep(&self) -> Bill {
        Bill { cycles: self.bill.cycles.saturating_sub(1), ..self.bill }
    }

    /// What the present time counts as.
    pub const fn billing(&self) -> Billing {
        self.billing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATES: PowerStates = PowerStates {
        on: Watts(43.3),
        off: Watts(1.6),
        switch: Joules(170.7),
        wake_time: Duration::from_secs(5),
        sleep_time: Duration::from_secs(5),
    };

    #[test]
    fn an_hour_with_one_sleep_of_half_an_hour() {
        let mut ledger = Ledger::resume(Bill::default(), Billing::On, Mono::ZERO);
        ledger.fell_asleep(Mono::from_secs(900));
        ledger.woke(Mono::from_secs(2700));
        let bill = ledger.bill(Mono::from_secs(3600));
        assert_eq!((bill.on.as_secs(), bill.off.as_secs()), (1800, 1800));
        assert_eq!((bill.cycles, bill.wakeups), (1, 1));
        // By hand: 43.3 * 1800 + 1.6 * 1800 + 170.7 = 80,990.7 J.
        assert!((bill.server(&STATES).get() - 80_990.7).abs() < 1e-9);
        assert!((bill.always_on(&STATES).get() - 155_880.0).abs() < 1e-9);
        assert!((bill.proxy(Watts(5.0)).get() - 18_000.0).abs() < 1e-9);
        // By hand: 1 - (80,990.7 + 18,000) / 155,880.
        let saving = bill.saving(&STATES, Watts(5.0));
        assert!((saving - (1.0 - 98_990.7 / 155_880.0)).abs() < 1e-12);
    }

    #[test]
    fn nobody_can_save_more_than_what_proxy_and_sleep_leave() {
        // 00-system: with 5 W of proxy and this server, 1 - 6.6 / 43.3 = 85 %.
        let asleep = Bill { off: Duration::from_secs(1_000_000), ..Bill::default() };
        let saving = asleep.saving(&STATES, Watts(5.0));
        assert!((saving - (1.0 - 6.6 / 43.3)).abs() < 1e-12);
    }

    #[test]
    fn a_sleep_that_came_to_nothing_is_billed_as_awake() {
        let mut ledger = Ledger::resume(Bill::default(), Billing::On, Mono::ZERO);
        ledger.fell_asleep(Mono::from_secs(10));
        ledger.stayed_awake(Mono::from_secs(40));
        let bill = ledger.bill(Mono::from_secs(60));
        assert_eq!(bill, Bill { on: Duration::from_mins(1), ..Bill::default() });
    }

    #[test]
    fn unobserved_time_claims_no_saving() {
        let dead = Bill { unobserved: Duration::from_secs(100), ..Bill::default() };
        assert!(dead.saving(&STATES, Watts::ZERO).abs() < 1e-12);
    }
}
