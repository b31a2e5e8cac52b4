//! Meters that are read at once, into series.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nightwatt_clock::meter::{Stop, Woken, monotonic};
use nightwatt_meters::sampler::{Measured, Opened, Sample, Sampler, Sink};

use super::Series;
use crate::error::Error;

/// Interval between two progress reports.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Space is reserved for readings this close together: faster ones cost an allocation.
const CLOSEST: f64 = 1e-5;

/// Puts samples of a meter's channels into series, which have room for all that is expected.
struct Collect {
    places: Vec<(usize, Arc<Mutex<Series>>)>,
}

impl Sink for Collect {
    fn take(&mut self, sample: &Sample) {
        for (_, series) in self.places.iter().filter(|(place, _)| *place == sample.channel) {
            lock(series).take(sample.mono, sample.reading, sample.piece);
        }
    }
}

fn lock(series: &Mutex<Series>) -> MutexGuard<'_, Series> {
    series.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What meters said in a time.
pub(crate) struct Live {
    /// In the order in which they were wanted.
    pub(crate) series: Vec<Series>,
    pub(crate) missed: u64,
    /// Meters that failed.
    pub(crate) warnings: Vec<String>,
}

/// Reads meters for a time, or until stopped: of each that is `wanted` the meter, by its place, and
/// the channel. `on_progress` gets how much time is left.
pub(crate) fn collect(
    meters: Vec<Opened>,
    wanted: &[(usize, usize)],
    time: Duration,
    interval: Option<Duration>,
    stop: &Stop,
    mut on_progress: impl FnMut(Duration),
) -> Result<Live, Error> {
    let series = wanted.iter().map(|&(meter, channel)| {
        let opened = &meters[meter];
        let apart = opened.interval(interval).as_secs_f64().max(CLOSEST);
        let expected = (1.1 * time.as_secs_f64() / apart) as usize + 64;
        Arc::new(Mutex::new(Series::new(opened.channels()[channel].clone(), expected)))
    });
    let series: Vec<_> = series.collect();
    let mut meter = 0..meters.len();
    let sink = |_: &Opened| -> Box<dyn Sink> {
        let meter = meter.next();
        let its = wanted.iter().zip(&series).filter(|((it, _), _)| Some(*it) == meter);
        let places = its.map(|((_, channel), series)| (*channel, Arc::clone(series))).collect();
        Box::new(Collect { places })
    };
    let sampler = Sampler::start(meters, interval, sink)
        .map_err(|source| Error::System { what: "start the meters' threads", source })?;
    let ends = monotonic() + time;
    while stop.wait_until(ends.min(monotonic() + LOOK_EVERY)) != Woken::Stopped {
        let now = monotonic();
        if now >= ends {
            break;
        }
        on_progress(ends.since(now));
    }
    let (measured, _) = sampler.finish(monotonic());
    Ok(Live {
        series: series.iter().map(|series| lock(series).clone()).collect(),
        missed: measured.iter().map(|it| it.missed).sum(),
        warnings: measured.iter().flat_map(Measured::warnings).collect(),
    })
}
