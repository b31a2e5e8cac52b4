//! `calibrate utilisation`: this machine's power against how busy it is, by a meter, while it is kept
//! busy in steps. What comes of it is a power model of this machine (`model,fitted=FILE`).

use std::time::Duration;

use crate::pure::calibrate::utilisation::{
    Better, UtilisationFit, UtilisationPoint, fit_utilisation,
};
use nightwatt_clock::meter::{Stop, monotonic};
use nightwatt_energy::power_model::{Fitted, PowerModel};
use nightwatt_energy::quantity::Watts;
use nightwatt_energy::uncertainty::Accuracy;
use nightwatt_meters::log::tables::Quantity;
use nightwatt_meters::machine::Counts;
use nightwatt_meters::sampler::{Opened, Sampler};
use nightwatt_meters::{Host, MeterSpec};
use serde::Serialize;

use crate::calibrate::channel_of;
use crate::calibrate::table::{self, Wanted};
use crate::error::Error;

/// Loads: from idle to full and back, so that warmth does not look like load.
const TENTHS: [u32; 20] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1];

/// Share of a step's time that is left for the load to settle.
const SETTLING: f64 = 0.2;

/// The cycle in which a thread is busy for its share and then idle.
const PERIOD: Duration = Duration::from_millis(20);

/// Smallest range of loads: a smaller one says little about what lies between idle and full. A machine that
/// was idle at the start covers nearly all of it.
const LEAST_COVERED: f64 = 0.5;

/// Options of `calibrate utilisation`.
#[derive(Debug, Clone)]
pub struct UtilisationOptions {
    /// The meter.
    pub meter: MeterSpec,
    /// Its channel; can be left out where one covers the whole machine.
    pub channel: Option<String>,
    /// Time for each of the loads.
    pub step: Duration,
}

/// Power by utilisation, as measured, and the model fitted to it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Calibration {
    /// Version of this form.
    pub schema: u32,
    /// Meter and channel.
    pub measured_by: String,
    /// Utilisation and power of each step.
    pub points: Vec<UtilisationPoint>,
    /// Lines through them, with errors.
    pub fit: UtilisationFit,
    /// The model of this machine.
    pub model: PowerModel,
}

/// Keeps the machine busy in steps and fits. `on_progress` gets which step of how many begins.
pub fn run(
    options: &UtilisationOptions,
    stop: &Stop,
    mut on_progress: impl FnMut(usize, usize),
) -> Result<Calibration, Error> {
    let host = Host::default();
    let mut meters = vec![Opened::open(&host, &options.meter)?];
    let place = channel_of(&meters[0], &options.meter, options.channel.as_deref())?;
    let channel = meters[0].channels()[place].clone();
    let mut points = Vec::new();
    for (number, tenths) in TENTHS.into_iter().enumerate() {
        on_progress(number, TENTHS.len());
        let load = Load::begin(f64::from(tenths) / 10.0)?;
        stop.wait_until(monotonic() + options.step.mul_f64(SETTLING));
        let point = measure(&mut meters, place, options.step.mul_f64(1.0 - SETTLING), &host, stop);
        drop(load);
        points.extend(point?);
        if stop.is_stopped() {
            return Err(Error::Interrupted);
        }
    }
    let measured_by = format!("{}/{}", options.meter.name(), channel.name);
    fitted(points, measured_by, channel.accuracy)
}

/// Columns of tables of loads.
pub(super) const WATTS: Wanted = Wanted::new("watts", Quantity::Power, &[]);
pub(super) const BUSY: Wanted = Wanted::new(
    "busy",
    Quantity::Share,
    &["busy", "utilisation", "utilization", "load", "usage", "cpu", "auslastung"],
);

/// How far a meter may be off of which a table says nothing.
const OF_TABLES: Accuracy = Accuracy::relative(0.05);

/// Fits a table of `watts,busy` (0 to 1), which another program or an earlier measurement made.
pub fn of_table(text: &str) -> Result<Calibration, Error> {
    let mut points = Vec::new();
    for row in table::read(text, &[WATTS, BUSY])? {
        let (watts, busy) = (row.of(0), row.of(1));
        if !(0.0..=1.0).contains(&busy) {
            let why =
                "`busy` is a share of all CPUs: 0 to 1, and 50 % is 0.5; or call it `busy_percent`";
            return Err(Error::Table { line: row.line, why: why.to_owned() });
        }
        points.push(UtilisationPoint { utilisation: busy, power: Watts(watts) });
    }
    fitted(points, "a table".to_owned(), OF_TABLES)
}

/// The model that fits points.
fn fitted(
    points: Vec<UtilisationPoint>,
    measured_by: String,
    accuracy: Accuracy,
) -> Result<Calibration, Error> {
    let fit = fit_utilisation(&points)?;
    let (low, high) = fit.covered;
    if high - low < LEAST_COVERED {
        return Err(Error::Busy { low: 100.0 * low, high: 100.0 * high });
    }
    let readings: Vec<(f64, Watts)> =
        points.iter().map(|point| (point.utilisation, point.power)).collect();
    let source = format!("calibrate utilisation by {measured_by}");
    let fitted = match (&fit.better, &fit.broken) {
        (Better::BrokenLine, Some(broken)) => {
            let knots = to_the_ends(&broken.knots);
            Fitted::piecewise(&readings, &knots, accuracy, source)
        }
        _ => Fitted::line(&readings, accuracy, source),
    };
    let model = PowerModel::Fitted(fitted?);
    Ok(Calibration { schema: 1, measured_by, points, fit, model })
}

/// A model answers for all loads: its first knot is 0, its last 1.
fn to_the_ends(knots: &[f64]) -> Vec<f64> {
    let inner = knots.iter().copied().filter(|knot| *knot > 0.0 && *knot < 1.0);
    // The outermost knots stand where the points end; what lies beyond is theirs too.
    let inner: Vec<f64> = inner.collect();
    let inner = inner.get(1..inner.len().saturating_sub(1)).unwrap_or_default();
    [&[0.0], inner, &[1.0]].concat()
}

/// Utilisation and power over some time; `None` where the meter said nothing.
fn measure(
    meters: &mut Vec<Opened>,
    place: usize,
    time: Duration,
    host: &Host,
    stop: &Stop,
) -> Result<Option<UtilisationPoint>, Error> {
    let cannot = |what| move |source| Error::System { what, source };
    let sampler = Sampler::start_without_sinks(std::mem::take(meters), None)
        .map_err(cannot("start the meter's thread"))?;
    let before = Counts::read(host).map_err(cannot("read /proc/stat"))?;
    let begin = monotonic();
    sampler.begin(begin);
    stop.wait_until(begin + time);
    let end = monotonic();
    let after = Counts::read(host).map_err(cannot("read /proc/stat"))?;
    let (measured, back) = sampler.finish(end);
    *meters = back;
    let power = measured.first().and_then(|measured| measured.totals.get(place)?.mean_power());
    let utilisation = after.since(&before, end.since(begin)).utilisation;
    Ok(power.map(|power| UtilisationPoint { utilisation, power }))
}

/// Threads that are busy for a share of the time; they end when it is dropped.
pub(super) struct Load {
    stop: Stop,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Load {
    fn begin(share: f64) -> Result<Self, Error> {
        Self::in_periods(share, PERIOD)
    }

    /// On each CPU a stretch of work begins once in every period.
    pub(super) fn in_periods(share: f64, period: Duration) -> Result<Self, Error> {
        let cannot = |source| Error::System { what: "start threads", source };
        let stop = Stop::new().map_err(cannot)?;
        let count = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let mut load = Self { stop, threads: Vec::new() };
        for _ in 0..if share > 0.0 { count } else { 0 } {
            let stop = load.stop.clone();
            let thread = std::thread::Builder::new().name("load".to_owned());
            load.threads.push(thread.spawn(move || spin(share, period, &stop)).map_err(cannot)?);
        }
        Ok(load)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.stop();
        for thread in self.threads.drain(..) {
            // A thread that does nothing but count cannot have panicked.
            let _ = thread.join();
        }
    }
}

fn spin(share: f64, period: Duration, stop: &Stop) {
    let mut begins = monotonic();
    while !stop.is_stopped() {
        let busy = begins + period.mul_f64(share);
        while monotonic() < busy {
            std::hint::spin_loop();
        }
        begins = begins + period;
        if share < 1.0 {
            stop.wait_until(begins);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_has_knots_at_both_ends() {
        assert_eq!(to_the_ends(&[0.02, 0.1, 0.5, 0.97]), [0.0, 0.1, 0.5, 1.0]);
        assert_eq!(to_the_ends(&[0.0, 0.3, 0.6, 0.9, 1.0]), [0.0, 0.6, 1.0]);
        assert_eq!(to_the_ends(&[]), [0.0, 1.0]);
    }

    #[test]
    fn a_table_of_powers_becomes_a_model() {
        // 40 W idle, 60 W more when all CPUs are busy.
        let row = |tenth: i32| format!("{},{}\n", 40 + 6 * tenth, f64::from(tenth) / 10.0);
        let table: String = (0..=10).map(row).collect();
        let found = of_table(&format!("watts,busy\n{table}")).unwrap();
        let (idle, slope) = (found.fit.line.idle.value.get(), found.fit.line.slope.value.get());
        assert!((idle - 40.0).abs() < 1e-9 && (slope - 60.0).abs() < 1e-9, "{found:?}");
        let wrong = |text: &str| of_table(text).unwrap_err().to_string();
        assert!(wrong("watts,busy\n40,0\n70,50\n").contains("50 % is 0.5"));
        assert!(wrong("watts,busy\n40,0\n70\n").contains("line 3"));
    }

    #[test]
    fn a_model_is_no_meter() {
        let meter = MeterSpec::of("model");
        let options = UtilisationOptions { meter, channel: None, step: Duration::from_secs(1) };
        let error = run(&options, &Stop::new().unwrap(), |_, _| ()).unwrap_err().to_string();
        assert!(error.contains("a model cannot be fitted to a model"), "{error}");
    }
}
