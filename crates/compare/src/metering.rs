//! Power during a run: read by all meters, recorded beside it, and summed over the part that counts.

use std::cell::Cell;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nightwatt_clock::meter::{Stamp, monotonic};
use nightwatt_energy::integration::{Totals, Track, TrackSpec};
use nightwatt_energy::quantity::{Joules, Watts};
use nightwatt_energy::time::Mono;
use nightwatt_meters::recording::{self, Format, Meta, Recorder, SCHEMA};
use nightwatt_meters::sampler::{Measured, Opened, Sample, Sampler, Sink};
use nightwatt_meters::{Channel, Host, MeterSpec};

use super::error::Error;
use super::record::ChannelRecord;

/// The file beside a run's output.
pub(crate) const POWER_FILE: &str = "power.parquet";

/// Rows of a recording go to the disk in parts of this length.
const PART: Duration = Duration::from_hours(1);

/// Readings of power further apart than this many intervals have a gap between them: the pieces that the
/// sampler made say so already.
const GAP_AFTER: f64 = 2.5;

/// Measured power that is known for less of the time that counts says nothing of the run.
const LEAST_COVERAGE: f64 = 0.9;

/// Meters, between runs.
pub struct Meters {
    opened: Vec<Opened>,
    interval: Option<Duration>,
}

/// What does not count at both ends of a run.
#[derive(Debug, Clone, Copy, Default)]
pub struct Trim {
    /// From the beginning.
    pub first: Duration,
    /// Up to the end.
    pub last: Duration,
}

/// What meters said of a run.
#[derive(Debug)]
pub struct Power {
    /// By channel.
    pub channels: Vec<ChannelRecord>,
    /// What to think twice about.
    pub warnings: Vec<String>,
}

impl Meters {
    /// Opens all of them.
    ///
    /// # Errors
    /// A meter that cannot be used.
    pub fn open(specs: &[MeterSpec], interval: Option<Duration>) -> Result<Self, Error> {
        let host = Host::default();
        let open = |spec: &MeterSpec| Opened::open(&host, spec);
        Ok(Self { opened: specs.iter().map(open).collect::<Result<_, _>>()?, interval })
    }

    /// All channels, with the names of their meters.
    pub fn channels(&self) -> impl Iterator<Item = (&str, &Channel)> {
        self.opened
            .iter()
            .flat_map(|meter| meter.channels().iter().map(move |channel| (meter.name(), channel)))
    }

    /// Reads them while `work` goes on, which says when it begins, and returns when it ended. What they
    /// say goes into a file in `folder`, too.
    pub fn during<T>(
        &mut self,
        folder: &Path,
        trim: Trim,
        work: impl FnOnce(&dyn Fn(Mono)) -> Result<(T, Mono), Error>,
    ) -> Result<(T, Power), Error> {
        let opened = std::mem::take(&mut self.opened);
        let recorder = match self.recorder(&folder.join(POWER_FILE), &opened) {
            Ok(recorder) => recorder,
            Err(error) => {
                self.opened = opened;
                return Err(error);
            }
        };
        let mut totals = Vec::new();
        let sink = |meter: &Opened| -> Box<dyn Sink> {
            let book = Arc::new(Mutex::new(MeterTotals::new(meter, self.interval, trim.last)));
            let record = recorder.sink(totals.len());
            totals.push(Arc::clone(&book));
            Box::new(Tee { book, record })
        };
        let sampler = Sampler::start(opened, self.interval, sink)
            .map_err(|source| Error::System { what: "start the meters' threads", source })?;
        let from = Cell::new(Mono::NEVER);
        let begins = |begin: Mono| {
            from.set(begin + trim.first);
            for book in &totals {
                lock(book).begin(from.get());
            }
        };
        let done = work(&begins);
        // Meters are given back whatever became of the work.
        let end = done.as_ref().map_or_else(|_| monotonic(), |(_, end)| *end);
        let (measured, back) = sampler.finish(end);
        self.opened = back;
        recorder.finish(&serde_json::json!({ "ended_ns": end.0.as_nanos() as u64 }))?;
        let (told, _) = done?;
        let until = (end - trim.last).max(from.get());
        let totals: Vec<_> = totals.iter().map(|book| lock(book).close(until)).collect();
        Ok((told, power(&measured, &totals, until.since(from.get()))))
    }

    fn recorder(&self, path: &Path, opened: &[Opened]) -> Result<Recorder, Error> {
        let stamp = Stamp::now();
        let meta = Meta {
            schema: SCHEMA,
            nightwatt: env!("CARGO_PKG_VERSION").to_owned(),
            host: serde_json::Value::Null,
            started: super::civil(stamp.wall_ns),
            mono_ns: stamp.mono.0.as_nanos() as i64,
            meters: opened.iter().map(|it| recording::describe(it, self.interval)).collect(),
            settings: serde_json::Value::Null,
        };
        Ok(Recorder::start(path, Format::Parquet, PART, opened, &meta)?)
    }
}

/// Adds up the channels of a meter. The end of the time that counts is not known in advance, so the last
/// samples wait.
struct MeterTotals {
    tracks: Vec<Track>,
    waiting: VecDeque<Sample>,
    wait: Duration,
}

impl MeterTotals {
    fn new(meter: &Opened, interval: Option<Duration>, wait: Duration) -> Self {
        let longest_gap = meter.interval(interval).mul_f64(GAP_AFTER);
        let track = |channel: &Channel| {
            Track::new(TrackSpec { counter: channel.counter, longest_gap }, Mono::NEVER)
        };
        let tracks = meter.channels().iter().map(track).collect();
        Self { tracks, waiting: VecDeque::new(), wait }
    }

    /// Counts from here on.
    fn begin(&mut self, begin: Mono) {
        self.tracks.iter_mut().for_each(|track| track.begin(begin));
    }

    fn take(&mut self, sample: &Sample) {
        self.waiting.push_back(*sample);
        while self.waiting.front().is_some_and(|first| first.mono + self.wait < sample.mono) {
            self.count_first();
        }
    }

    fn count_first(&mut self) {
        let Some(sample) = self.waiting.pop_front() else { return };
        if let Some(track) = self.tracks.get_mut(sample.channel) {
            track.replay(sample.mono, sample.reading, sample.piece);
        }
    }

    /// Counts to here.
    fn close(&mut self, until: Mono) -> Vec<Totals> {
        self.tracks.iter_mut().for_each(|track| track.end(until));
        while !self.waiting.is_empty() {
            self.count_first();
        }
        self.tracks.iter_mut().for_each(Track::close);
        self.tracks.iter().map(Track::totals).collect()
    }
}

/// Hands samples to the book and to the recording.
struct Tee {
    book: Arc<Mutex<MeterTotals>>,
    record: Box<dyn Sink>,
}

impl Sink for Tee {
    fn take(&mut self, sample: &Sample) {
        lock(&self.book).take(sample);
        self.record.take(sample);
    }
}

fn lock(book: &Mutex<MeterTotals>) -> MutexGuard<'_, MeterTotals> {
    book.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What all channels said of the time that counts.
fn power(measured: &[Measured], totals: &[Vec<Totals>], window: Duration) -> Power {
    let (mut channels, mut warnings) = (Vec::new(), Vec::new());
    for (meter, totals) in measured.iter().zip(totals) {
        for (channel, totals) in meter.channels.iter().zip(totals) {
            // A counter that never counted has said nothing: its steps are longer than a run.
            let is_silent = channel.counter.is_some() && totals.joules == Joules::ZERO;
            let coverage =
                totals.covered.as_secs_f64() / window.as_secs_f64().max(f64::MIN_POSITIVE);
            let is_thin = !channel.is_modelled && coverage < LEAST_COVERAGE;
            if is_thin {
                warnings.push(format!(
                    "{}/{}: power is known for {:.0} % of the time that counts, and is left out",
                    meter.meter,
                    channel.name,
                    100.0 * coverage
                ));
            }
            let watts = totals.mean_power().filter(|_| !is_silent && !is_thin);
            channels.push(ChannelRecord {
                meter: meter.meter.clone(),
                channel: channel.name.clone(),
                scope: channel.scope,
                provenance: channel.provenance(&meter.meter),
                watts: watts.map(Watts::get),
                accuracy_w: watts.map(|watts| channel.accuracy.at(watts).get()),
                window_s: window.as_secs_f64(),
                coverage,
                readings: totals.readings,
            });
        }
        warnings.extend(meter.warnings());
        if meter.suspends > 0 {
            warnings.push("the host was suspended: that time is not covered".to_owned());
        }
    }
    Power { channels, warnings }
}

#[cfg(test)]
mod tests {
    use nightwatt_meters::{Accuracy, Scope};

    use super::*;

    #[test]
    fn power_that_is_known_of_little_of_a_run_is_not_its_power() {
        let channel = |name: &str, is_modelled| Channel {
            is_modelled,
            ..Channel::power(name, Scope::Wall, Accuracy::relative(0.0))
        };
        let measured = Measured {
            meter: "plug".to_owned(),
            channels: vec![channel("a", false), channel("b", false), channel("c", true)],
            totals: Vec::new(),
            latest: Vec::new(),
            interval: Duration::from_secs(1),
            slowest: Duration::ZERO,
            missed: 0,
            errors: 0,
            last_error: None,
            remarks: Vec::new(),
            clock_steps: 0,
            suspends: 0,
        };
        let known = |seconds: u64| Totals {
            joules: Watts(40.0) * Duration::from_secs(seconds),
            covered: Duration::from_secs(seconds),
            ..Totals::default()
        };
        // Of 100 s: 6, 90, and 6 of a model.
        let totals = [vec![known(6), known(90), known(6)]];
        let power = power(&[measured], &totals, Duration::from_secs(100));
        let watts: Vec<Option<f64>> = power.channels.iter().map(|it| it.watts).collect();
        assert_eq!(watts, [None, Some(40.0), Some(40.0)]);
        assert!((power.channels[0].coverage - 0.06).abs() < 1e-12);
        let [warning] = &power.warnings[..] else { panic!("one: {:?}", power.warnings) };
        assert!(warning.contains("plug/a") && warning.contains("6 %"), "{warning}");
    }
}
