//! The energy of each channel of each meter, shared by what samples saw.

use nightwatt_energy::integration::Piece;
use nightwatt_energy::quantity::Watts;
use nightwatt_energy::samples::{Busy, SampledShares};
use nightwatt_energy::time::Mono;
use nightwatt_energy::uncertainty::Mean;
use nightwatt_meters::sampler::Opened;

use crate::caliper::Event;

/// Of one channel.
pub(crate) struct OneChannel {
    pub(crate) idle: Option<Mean>,
    pub(crate) shares: SampledShares,
}

/// Channel by channel, meter by meter.
pub(crate) struct Channels(Vec<Vec<OneChannel>>);

impl Channels {
    /// `idle` is the idle power of every channel, in the order of meters and channels.
    pub(crate) fn new(meters: &[Opened], idle: Option<&[Option<Mean>]>) -> Self {
        let mut idle = idle.into_iter().flatten();
        let mut one = || {
            let idle = idle.next().copied().flatten();
            let power = idle.map_or(Watts::ZERO, |idle| Watts(idle.mean));
            OneChannel { idle, shares: SampledShares::new(power) }
        };
        let of_meter = |meter: &Opened| meter.channels().iter().map(|_| one()).collect();
        Self(meters.iter().map(of_meter).collect())
    }

    /// Nothing is known of the time up to here.
    pub(crate) fn skip_to(&mut self, at: Mono) {
        for channel in self.0.iter_mut().flatten() {
            channel.shares.skip_to(at);
        }
    }

    /// What stacks have is that of others by `numbers`.
    pub(crate) fn regroup(&mut self, numbers: &[usize]) {
        for channel in self.0.iter_mut().flatten() {
            channel.shares.regroup(numbers);
        }
    }

    /// A CPU was seen busy.
    pub(crate) fn take(&mut self, busy: Busy) {
        for channel in self.0.iter_mut().flatten() {
            channel.shares.take(busy);
        }
    }

    /// A meter said something.
    pub(crate) fn event(&mut self, event: &Event) {
        let Event::Sample { meter, channel, at, piece } = *event else { return };
        let channel = self.0.get_mut(meter).and_then(|meter| meter.get_mut(channel));
        let Some(channel) = channel else { return };
        match piece {
            Piece::Covers { joules, time } => channel.shares.share(joules, time, at),
            Piece::Begins | Piece::Gap(_) => channel.shares.skip_to(at),
            Piece::Ignored | Piece::Holds => {}
        }
    }

    /// Each with the numbers of its meter and of itself there.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, usize, &OneChannel)> {
        self.0.iter().enumerate().flat_map(|(meter, channels)| {
            channels.iter().enumerate().map(move |(place, channel)| (meter, place, channel))
        })
    }
}
