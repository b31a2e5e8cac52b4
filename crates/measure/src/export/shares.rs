//! Energy by name of process: what the machine's meters say, shared out by CPU time.

use std::time::Duration;

use nightwatt_energy::attribution::Attribution;
use nightwatt_energy::quantity::Joules;
use nightwatt_meters::processes::Processes;
use nightwatt_meters::sampler::Measured;
use nightwatt_meters::{Host, machine};

/// How often processes are looked at: what lives for less is not seen, and counts with the others.
pub const LOOK_EVERY: Duration = Duration::from_secs(10);

/// The shares of every channel that stands for the work of processors.
#[derive(Debug)]
pub struct Shares {
    host: Host,
    places: usize,
    processes: Processes,
    busy: Option<Duration>,
    channels: Vec<Shared>,
}

/// The shares of one channel.
#[derive(Debug, Clone)]
pub struct Shared {
    /// The meter, as the user calls it.
    pub meter: String,
    /// Its channel.
    pub channel: String,
    /// Who has how much.
    pub attribution: Attribution,
    /// What has been shared out.
    told: Joules,
}

impl Shares {
    /// Nothing is shared out yet; at most `places` names of processes are told.
    pub fn new(host: Host, places: usize) -> Self {
        let (processes, busy, channels) = (Processes::default(), None, Vec::new());
        Self { host, places, processes, busy, channels }
    }

    /// Shares out what the meters have counted since the last look.
    pub fn look(&mut self, measured: &[Measured]) {
        let users = self.processes.look(&self.host);
        let now = machine::busy(&self.host);
        let before = std::mem::replace(&mut self.busy, now);
        let busy =
            now.zip(before).map_or(Duration::ZERO, |(now, before)| now.saturating_sub(before));
        for it in measured {
            for (channel, totals) in it.channels.iter().zip(&it.totals) {
                if !channel.scope.goes_by_cpu_time() {
                    continue;
                }
                let known = self
                    .channels
                    .iter()
                    .position(|shared| shared.meter == it.meter && shared.channel == channel.name);
                let place = known.unwrap_or_else(|| {
                    self.channels.push(Shared {
                        meter: it.meter.clone(),
                        channel: channel.name.clone(),
                        attribution: Attribution::new(self.places),
                        told: Joules::ZERO,
                    });
                    self.channels.len() - 1
                });
                let shared = &mut self.channels[place];
                shared.attribution.share(totals.joules - shared.told, &users, busy);
                shared.told = totals.joules;
            }
        }
    }

    /// The energy of each channel.
    pub fn channels(&self) -> &[Shared] {
        &self.channels
    }
}
