//! Each channel's energy by section, reading by reading.

use nightwatt_meters::sampler::Opened;
use nightwatt_model::quantity::Watts;
use nightwatt_model::sample::Piece;
use nightwatt_model::sections::{Shares, Usage};
use nightwatt_model::uncertainty::Mean;

use super::Event;

/// Of all channels.
pub(super) struct Energies {
    begun: Usage,
    meters: Vec<Vec<OneChannel>>,
}

/// Of one.
pub(super) struct OneChannel {
    pub(super) idle: Option<Mean>,
    pub(super) shares: Shares,
    /// CPU time at its last reading.
    last: Usage,
}

impl Energies {
    /// `idle` is the idle power of every channel, in the order of meters and channels.
    pub(super) fn new(meters: &[Opened], idle: Option<&[Option<Mean>]>) -> Self {
        let mut idle = idle.into_iter().flatten();
        let mut one = || {
            let idle = idle.next().copied().flatten();
            let shares = Shares::new(idle.map_or(Watts::ZERO, |idle| Watts(idle.mean)));
            OneChannel { idle, shares, last: Usage::default() }
        };
        let of_meter = |meter: &Opened| meter.channels().iter().map(|_| one()).collect();
        Self { begun: Usage::default(), meters: meters.iter().map(of_meter).collect() }
    }

    /// From here on it counts.
    pub(super) fn begin(&mut self, usage: Usage) {
        for channel in self.meters.iter_mut().flatten() {
            channel.last = usage.clone();
        }
        self.begun = usage;
    }

    /// CPU time when it began.
    pub(super) const fn begun(&self) -> &Usage {
        &self.begun
    }

    /// A meter said something; `usage` is the CPU time up to now.
    pub(super) fn event(&mut self, event: &Event, usage: &Usage) {
        let Event::Sample { meter, channel, piece, .. } = *event else { return };
        let channel = self.meters.get_mut(meter).and_then(|meter| meter.get_mut(channel));
        let Some(channel) = channel else { return };
        match piece {
            Piece::Covers { joules, time } => {
                channel.shares.share(joules, time, &channel.last, usage);
                channel.last = usage.clone();
            }
            // Nothing is known of the time up to here.
            Piece::Begins | Piece::Gap(_) => channel.last = usage.clone(),
            Piece::Ignored => {}
        }
    }

    /// Channel by channel, meter by meter.
    pub(super) fn channels(&self) -> impl Iterator<Item = (usize, usize, &OneChannel)> {
        self.meters.iter().enumerate().flat_map(|(meter, channels)| {
            channels.iter().enumerate().map(move |(place, channel)| (meter, place, channel))
        })
    }
}
