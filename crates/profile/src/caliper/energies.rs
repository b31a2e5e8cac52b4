//! Each channel's energy by section, reading by reading.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nightwatt_energy::integration::Piece;
use nightwatt_energy::quantity::Watts;
use nightwatt_energy::sections::{Rates, Shares, Usage};
use nightwatt_energy::time::Mono;
use nightwatt_energy::uncertainty::Mean;
use nightwatt_meters::sampler::Opened;

use super::Event;
use super::events::AllRates;

/// Of all channels.
pub(super) struct Energies {
    begun: Usage,
    meters: Vec<Vec<OneChannel>>,
    /// Channel by channel, meter by meter.
    rates: AllRates,
}

/// Of one.
pub(super) struct OneChannel {
    pub(super) idle: Option<Mean>,
    pub(super) shares: Shares,
    /// Its place among all channels.
    place: usize,
    /// CPU time at its last reading.
    pub(super) last: Usage,
    /// The time of which `shares` has the energy.
    pub(super) covered: Duration,
}

impl Energies {
    /// `idle` is the idle power of every channel, in the order of meters and channels.
    pub(super) fn new(meters: &[Opened], idle: Option<&[Option<Mean>]>) -> Self {
        let mut idle = idle.into_iter().flatten();
        let mut place = 0;
        let mut one = || {
            let idle = idle.next().copied().flatten();
            let shares = Shares::new(idle.map_or(Watts::ZERO, |idle| Watts(idle.mean)));
            place += 1;
            OneChannel {
                idle,
                shares,
                place: place - 1,
                last: Usage::default(),
                covered: Duration::ZERO,
            }
        };
        let of_meter = |meter: &Opened| meter.channels().iter().map(|_| one()).collect();
        let meters: Vec<Vec<OneChannel>> = meters.iter().map(of_meter).collect();
        let rates = Arc::new(Mutex::new(vec![Rates::since(Mono::ZERO); place]));
        Self { begun: Usage::default(), meters, rates }
    }

    /// What a busy CPU draws by each channel, as it becomes known.
    pub(super) fn rates(&self) -> AllRates {
        Arc::clone(&self.rates)
    }

    /// From here on it counts.
    pub(super) fn begin(&mut self, usage: Usage, at: Mono) {
        self.rates.lock().unwrap_or_else(PoisonError::into_inner).fill(Rates::since(at));
        for channel in self.meters.iter_mut().flatten() {
            channel.last = usage.clone();
        }
        self.begun = usage;
    }

    /// CPU time when it began.
    pub(super) const fn begun(&self) -> &Usage {
        &self.begun
    }

    /// A meter said something; `usage` is the CPU time up to `at`, which is about now.
    pub(super) fn event(&mut self, event: &Event, usage: &Usage, at: Mono) {
        let Event::Sample { meter, channel, piece, .. } = *event else { return };
        let channel = self.meters.get_mut(meter).and_then(|meter| meter.get_mut(channel));
        let Some(channel) = channel else { return };
        let watts = match piece {
            Piece::Covers { joules, time } => {
                channel.covered += time;
                Some(channel.shares.share(joules, time, &channel.last, usage))
            }
            // Nothing is known of the time up to here.
            Piece::Begins | Piece::Gap(_) => None,
            Piece::Ignored | Piece::Holds => return,
        };
        channel.last = usage.clone();
        if let Some(rates) =
            self.rates.lock().unwrap_or_else(PoisonError::into_inner).get_mut(channel.place)
        {
            rates.add(at, watts);
        }
    }

    /// Channel by channel, meter by meter.
    pub(super) fn channels(&self) -> impl Iterator<Item = (usize, usize, &OneChannel)> {
        self.meters.iter().enumerate().flat_map(|(meter, channels)| {
            channels.iter().enumerate().map(move |(place, channel)| (meter, place, channel))
        })
    }
}
