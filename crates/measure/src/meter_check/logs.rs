//! Two recordings, read as fast as they can be.

use std::path::Path;
use std::time::Duration;

use nightwatt_clock::meter::Stop;
use nightwatt_energy::integration::{Track, TrackSpec};
use nightwatt_energy::time::Mono;
use nightwatt_meters::log::{self, Log, Options, Skipped};

use super::{CheckOptions, Collected, Side};
use crate::channel;
use crate::error::Error;
use crate::series::Series;

/// Readings of power further apart than this many intervals have a gap between them.
const GAP_AFTER: f64 = 2.5;

/// A recording's channel, and the civil time of its beginning.
struct Played {
    series: Series,
    begins_ns: Option<i64>,
    skipped: Option<Skipped>,
}

/// Reads both to their ends.
pub(super) fn collect(options: &CheckOptions, stop: &Stop) -> Result<Collected, Error> {
    let [meter, reference] = [&options.meter, &options.reference];
    let [meter_option, reference_option] = Side::OPTIONS;
    let meter = read(meter, meter_option, stop)?;
    let reference = read(reference, reference_option, stop)?;
    let mut warnings = Vec::new();
    let later = if let (Some(a), Some(b)) = (meter.begins_ns, reference.begins_ns) {
        let first = a.min(b);
        [a, b].map(|begin| Duration::from_nanos(begin.abs_diff(first)))
    } else {
        let why = "not both recordings say the time of day: they are taken to begin at the same \
                   moment, and the lag may be theirs";
        warnings.push(why.to_owned());
        [Duration::ZERO; 2]
    };
    for (side, played) in [&options.meter, &options.reference].into_iter().zip([&meter, &reference])
    {
        if let Some(skipped) = &played.skipped {
            warnings.push(format!("{}: {skipped}", side.spec.name()));
        }
    }
    Ok(Collected { series: [meter.series, reference.series], later, missed: 0, warnings })
}

/// Opens the recording that a meter `file` is of.
pub(crate) fn open(spec: &nightwatt_meters::MeterSpec) -> Result<Log, Error> {
    spec.only(&Options::NAMES)?;
    let path = Path::new(spec.address("watts.csv.gz")?);
    Ok(log::open(path, &Options::of(spec)?)?)
}

fn read(side: &Side, option: &str, stop: &Stop) -> Result<Played, Error> {
    let mut log = open(&side.spec)?;
    let place = channel::pick(log.channels(), side.channel.as_deref(), &side.spec, option)?;
    let channel = log.channels()[place].clone();
    let longest_gap = log.about().mul_f64(GAP_AFTER).max(Duration::from_millis(20));
    let mut track = Track::new(TrackSpec { counter: channel.counter, longest_gap }, Mono::ZERO);
    let (mut series, mut begins_ns) = (Series::new(channel, 0), None);
    for entry in log.by_ref() {
        let entry = entry?;
        if stop.is_stopped() {
            return Err(Error::Interrupted);
        }
        if entry.channel != place {
            continue;
        }
        let since = i64::try_from(entry.mono.0.as_nanos()).unwrap_or(i64::MAX);
        begins_ns = begins_ns.or_else(|| entry.wall_ns.map(|wall_ns| wall_ns - since));
        let piece = match entry.piece {
            None => track.add(entry.mono, entry.reading),
            Some(piece) => track.replay(entry.mono, entry.reading, piece),
        };
        series.take(entry.mono, entry.reading, piece);
    }
    Ok(Played { series, begins_ns, skipped: log.skipped().cloned() })
}
