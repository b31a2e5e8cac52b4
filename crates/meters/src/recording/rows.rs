//! Rows of a recording.

use nightwatt_energy::integration::{Gap, Piece, Reading};
use nightwatt_energy::quantity::{Joules, Watts};

use crate::sampler::{Opened, Sample};

/// One reading of one channel.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Row {
    /// Nanoseconds since 1970, UTC.
    pub time_ns: i64,
    /// Nanoseconds of the monotonic clock.
    pub mono_ns: i64,
    /// Meter and channel, by their place in [`Names`].
    pub name: u32,
    /// What the meter said, or the mean since the last step of a counter.
    pub watts: Option<f64>,
    /// What a counter showed.
    pub counter: Option<i64>,
    /// The time that `watts` is the meter's own mean over, s.
    pub over_s: Option<f64>,
    /// Energy since the reading before.
    pub joules: Option<f64>,
    /// The time of which that is the energy, s.
    pub covers_s: Option<f64>,
    /// Why nothing is known since the reading before.
    pub gap: Option<Gap>,
}

impl Row {
    /// A sample of the meter whose first channel has the place `first`.
    pub(super) fn of(sample: &Sample, first: u32) -> Self {
        let (joules, covers_s) = match sample.piece {
            Piece::Covers { joules: Joules(joules), time } => {
                (Some(joules), Some(time.as_secs_f64()))
            }
            _ => (None, None),
        };
        let (watts, counter, over_s) = match sample.reading {
            Reading::Power(Watts(watts)) => (Some(watts), None, None),
            Reading::MeanPower { watts: Watts(watts), over } => {
                (Some(watts), None, Some(over.as_secs_f64()))
            }
            // Counters of 64 bits show their upper half as negative numbers, as SQL has them.
            Reading::Counter(value) => {
                let mean = joules.zip(covers_s).map(|(joules, time)| joules / time);
                (mean, Some(value.cast_signed()), None)
            }
        };
        let gap = if let Piece::Gap(why) = sample.piece { Some(why) } else { None };
        Self {
            time_ns: sample.wall_ns,
            mono_ns: i64::try_from(sample.mono.0.as_nanos()).unwrap_or(i64::MAX),
            name: first + u32::try_from(sample.channel).unwrap_or(0),
            watts: watts.filter(|watts| watts.is_finite()),
            counter,
            over_s,
            joules,
            covers_s,
            gap,
        }
    }
}

/// A gap's name in the column `gap`.
pub(super) const fn gap_name(gap: Gap) -> &'static str {
    match gap {
        Gap::Stalled => "stalled",
        Gap::Wrapped => "wrapped",
        Gap::Reset => "reset",
        Gap::Suspended => "suspended",
    }
}

/// The reverse of [`gap_name`].
pub(crate) fn gap_named(name: &str) -> Option<Gap> {
    [Gap::Stalled, Gap::Wrapped, Gap::Reset, Gap::Suspended]
        .into_iter()
        .find(|gap| gap_name(*gap) == name)
}

/// Meters and channels in one list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Names {
    names: Vec<(String, String)>,
    first: Vec<u32>,
}

impl Names {
    pub(super) fn of(meters: &[Opened]) -> Self {
        let mut names = Self::default();
        for meter in meters {
            names.first.push(u32::try_from(names.names.len()).unwrap_or(u32::MAX));
            let channels = meter.channels().iter();
            names
                .names
                .extend(channels.map(|channel| (meter.name().to_owned(), channel.name.clone())));
        }
        names
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    /// Place of a meter's first channel.
    pub(super) fn first(&self, meter: usize) -> u32 {
        self.first[meter]
    }

    /// Meter and channel of a row.
    pub fn get(&self, name: u32) -> (&str, &str) {
        let (meter, channel) = &self.names[name as usize];
        (meter, channel)
    }

    /// The place of a name, which it gets now if it has none.
    pub(super) fn place(&mut self, meter: &str, channel: &str) -> u32 {
        let is_it = |(its_meter, its_channel): &(String, String)| {
            its_meter == meter && its_channel == channel
        };
        let place = self.names.iter().position(is_it).unwrap_or_else(|| {
            self.names.push((meter.to_owned(), channel.to_owned()));
            self.names.len() - 1
        });
        u32::try_from(place).unwrap_or(u32::MAX)
    }
}
