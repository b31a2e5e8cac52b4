//! `calibrate wakeups`: what a transition from idle to active takes, from a table, or by a meter while
//! the CPUs are kept busy in stretches of different lengths.

use std::time::Duration;

use crate::pure::calibrate::wakeups::{WakeupFit, WakeupPoint, fit_wakeups};
use nightwatt_clock::meter::{Stop, monotonic};
use nightwatt_energy::quantity::Watts;
use nightwatt_meters::log::tables::Quantity;
use nightwatt_meters::sampler::{Opened, Sampler};
use nightwatt_meters::{Host, MeterSpec};
use serde::Serialize;

use crate::calibrate::channel_of;
use crate::calibrate::table::{self, Wanted};
use crate::calibrate::utilisation::{BUSY, Load, WATTS};
use crate::error::Error;
use crate::idle::IdleTrace;

/// All CPUs are busy for these shares of the time,
const SHARES: [f64; 4] = [0.1, 0.3, 0.5, 0.7];
/// in stretches that begin this many times a second on each CPU.
const RATES: [f64; 4] = [20.0, 100.0, 500.0, 2000.0];

/// Share of a step's time that is left for the load to settle.
const SETTLING: f64 = 0.2;

/// Options of `calibrate wakeups`.
#[derive(Debug, Clone)]
pub struct WakeupOptions {
    /// The meter.
    pub meter: MeterSpec,
    /// Its channel; can be left out where one covers the whole machine.
    pub channel: Option<String>,
    /// Time for each of the loads.
    pub step: Duration,
}

/// The energy of a wake-up, as measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WakeupsFound {
    /// Version of this form.
    pub schema: u32,
    /// Meter and channel, or the table.
    pub measured_by: String,
    /// Each load.
    pub points: Vec<WakeupPoint>,
    /// The three figures.
    pub fit: WakeupFit,
    /// What to think twice about.
    pub warnings: Vec<String>,
}

/// From a table with the columns `watts,busy,wakeups_per_s`.
pub fn of_table(text: &str) -> Result<WakeupsFound, Error> {
    let mut points = Vec::new();
    let wakeups = Wanted::new("wakeups_per_s", Quantity::Count, &["wakeups", "wakeup"]);
    for row in table::read(text, &[WATTS, BUSY, wakeups])? {
        let (busy, per_second) = (row.of(1), row.of(2));
        points.push(WakeupPoint { power: Watts(row.of(0)), busy, per_second });
    }
    WakeupsFound::of(points, "a table".to_owned())
}

/// Keeps the machine busy and fits. `on_progress` gets which step of how many begins.
pub fn run(
    options: &WakeupOptions,
    stop: &Stop,
    mut on_progress: impl FnMut(usize, usize),
) -> Result<WakeupsFound, Error> {
    let host = Host::default();
    let mut meters = vec![Opened::open(&host, &options.meter)?];
    let place = channel_of(&meters[0], &options.meter, options.channel.as_deref())?;
    let name = meters[0].channels()[place].name.clone();
    let trace = IdleTrace::start(&host);
    let loads = SHARES.iter().flat_map(|share| RATES.map(|rate| (*share, rate)));
    let mut points = Vec::new();
    for (number, (share, rate)) in loads.enumerate() {
        on_progress(number, SHARES.len() * RATES.len());
        let load = Load::in_periods(share, Duration::from_secs_f64(1.0 / rate))?;
        stop.wait_until(monotonic() + options.step.mul_f64(SETTLING));
        let time = options.step.mul_f64(1.0 - SETTLING);
        let point = measure(&mut meters, place, time, &host, &trace, stop);
        drop(load);
        points.extend(point?);
        if stop.is_stopped() {
            return Err(Error::Interrupted);
        }
    }
    let (all, read) = (SHARES.len() * RATES.len(), points.len());
    let mut found = WakeupsFound::of(points, format!("{}/{name}", options.meter.name()))?;
    if read < all {
        found.warnings.push(format!(
            "the meter said nothing in {} of {all} steps, which are left out: longer steps (`--step`) would help",
            all - read
        ));
    }
    Ok(found)
}

fn measure(
    meters: &mut Vec<Opened>,
    place: usize,
    time: Duration,
    host: &Host,
    trace: &IdleTrace,
    stop: &Stop,
) -> Result<Option<WakeupPoint>, Error> {
    let sampler = Sampler::start_without_sinks(std::mem::take(meters), None)
        .map_err(|source| Error::System { what: "start the meter's thread", source })?;
    let counted = || trace.read(host);
    let before = counted()?;
    let begin = monotonic();
    sampler.begin(begin);
    stop.wait_until(begin + time);
    let end = monotonic();
    let machine = counted()?.since(&before);
    let (measured, back) = sampler.finish(end);
    *meters = back;
    let power = measured.first().and_then(|measured| measured.totals.get(place)?.mean_power());
    let seconds = end.since(begin).as_secs_f64();
    // Prefers the kernel's cpuidle counters to the tracepoint, as `tcp lab`, which uses the figure, does.
    let wake_ups = machine.wake_ups().or(machine.traced_wake_ups);
    let wake_ups = wake_ups.ok_or_else(|| Error::NoIdleStates(trace.refused.clone()))?;
    let busy = machine.busy_seconds(seconds) / (machine.cpus as f64 * seconds);
    let per_second = wake_ups as f64 / seconds;
    Ok(power.map(|power| WakeupPoint { power, busy: busy.min(1.0), per_second }))
}

impl WakeupsFound {
    fn of(points: Vec<WakeupPoint>, measured_by: String) -> Result<Self, Error> {
        let fit = fit_wakeups(&points)?;
        let mut warnings = Vec::new();
        if fit.wake_up.covers(&nightwatt_energy::quantity::Joules(0.0)) {
            warnings.push(
                "the interval of a wake-up's energy includes 0: these loads do not determine it; longer \
                 steps, a finer meter or a quieter machine may"
                    .to_owned(),
            );
        }
        Ok(Self { schema: 1, measured_by, points, fit, warnings })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_says_what_a_wake_up_takes() {
        // 20 W + 30 W x busy + 50 µJ x wake-ups/s, by hand.
        let table = "watts,busy,wakeups_per_s\n23.005,0.1,100\n23.05,0.1,1000\n29.005,0.3,100\n\
                     29.05,0.3,1000\n35.5,0.5,10000\n";
        let found = of_table(table).unwrap();
        assert!((found.fit.wake_up.value.get() - 50e-6).abs() < 1e-9, "{:?}", found.fit);
        assert!(found.warnings.is_empty());
        let error = of_table("1,0.1,x\n").unwrap_err().to_string();
        assert!(error.contains("line 1") && error.contains("wakeups_per_s"), "{error}");
        assert!(of_table("1,2\n").is_err());
    }

    #[test]
    fn a_model_is_no_meter() {
        let meter = MeterSpec::of("model");
        let options = WakeupOptions { meter, channel: None, step: Duration::from_secs(1) };
        let error = run(&options, &Stop::new().unwrap(), |_, _| ()).unwrap_err().to_string();
        assert!(error.contains("a model cannot be fitted to a model"), "{error}");
    }
}
