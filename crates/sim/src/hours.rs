//! What sleeping saves, by hour of the local week: for bills at prices that differ by hour.

use nightwatt_energy::power_states::PowerStates;
use nightwatt_energy::time::Now;
use nightwatt_policy::electricity::EnergyByHour;

/// The savings of one server, written as it sleeps and wakes. By [`Ledger`]'s rules: power is
/// `states.off` from the sleep command to the wake command answered, and each sleep costs
/// `states.switch`, here in the hour of its command.
///
/// [`Ledger`]: nightwatt_policy::ledger::Ledger
#[derive(Debug)]
pub(crate) struct Savings {
    states: PowerStates,
    saved: EnergyByHour,
    /// What was saved is booked up to here; nothing while it is awake.
    asleep: Option<Now>,
}

impl Savings {
    pub(crate) fn of(states: PowerStates) -> Self {
        Self { states, saved: EnergyByHour::default(), asleep: None }
    }

    /// The sleep command was given.
    pub(crate) fn falls_asleep(&mut self, now: Now) {
        self.saved.add(now.hour_of_week() as usize, -self.states.switch);
        self.asleep = Some(now);
    }

    /// It answers again.
    pub(crate) fn wakes(&mut self, now: Now) {
        self.book(now);
        self.asleep = None;
    }

    /// From now on local time has another offset; until now it had the old one.
    pub(crate) fn local_time(&mut self, now: Now, utc_offset: i32) {
        self.book(Now { utc_offset, ..now });
    }

    /// All that was saved by now, against a server that is always on.
    pub(crate) fn by(&mut self, now: Now) -> EnergyByHour {
        self.book(now);
        self.saved.clone()
    }

    /// Adds what was saved since the sleep began, or was last added, if it still goes on.
    fn book(&mut self, now: Now) {
        if let Some(since) = &mut self.asleep {
            let time = now.mono.since(since.mono);
            self.saved.add_stretch(*since, time, self.states.on - self.states.off);
            *since = now;
        }
    }
}
