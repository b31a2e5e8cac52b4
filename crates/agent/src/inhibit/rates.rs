//! Rates: how busy processor, GPU, network and disks are, from two samples of counters.

use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_clock::meter::monotonic;
use nightwatt_energy::time::Mono;
use nightwatt_host::Host;

use super::{Inhibitions, cpu, disk, gpu, network};
use crate::config::Inhibit;

/// Minimum time between two samples: in a shorter time, one packet is already a rate.
const SHORTEST: Duration = Duration::from_secs(1);

/// Maximum time: traffic of half an hour ago is no reason now, and a mean must not hide the present.
const LONGEST: Duration = Duration::from_mins(2);

/// Counters at one moment; `None` for those that are not configured.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Sample {
    at: Mono,
    cpu: Option<cpu::Ticks>,
    gpu: Option<gpu::Gpus>,
    network: Option<u64>,
    disk: Option<u64>,
}

/// The last sample.
#[derive(Debug, Default)]
pub(super) struct Rates {
    last: Option<Sample>,
}

/// Can a sample of `last` be compared with one of `now`?
fn serves(last: Mono, now: Mono) -> bool {
    (SHORTEST..=LONGEST).contains(&now.since(last))
}

impl Rates {
    pub(super) async fn check(&mut self, host: &Host, config: &Inhibit) -> Inhibitions {
        let shares = config.cpu.is_some() || config.gpu.is_some();
        if !shares && config.network.is_none() && config.disk.is_none() {
            return Ok(Vec::new());
        }
        let mut now = sample(host, config)?;
        let earlier = if let Some(last) = self.last.take().filter(|last| serves(last.at, now.at)) {
            last
        } else {
            Clock::real().sleep(SHORTEST).await;
            std::mem::replace(&mut now, sample(host, config)?)
        };
        let reasons = judge(&earlier, &now, config);
        self.last = Some(now);
        Ok(reasons)
    }
}

fn sample(host: &Host, config: &Inhibit) -> Result<Sample, String> {
    Ok(Sample {
        at: monotonic(),
        cpu: config.cpu.map(|_| cpu::read(host)).transpose()?,
        gpu: config.gpu.map(|_| gpu::read(host)).transpose()?,
        network: config
            .network
            .map(|_| network::read(host, &config.network_interfaces))
            .transpose()?,
        disk: config.disk.map(|_| disk::read(host)).transpose()?,
    })
}

fn judge(earlier: &Sample, now: &Sample, config: &Inhibit) -> Vec<String> {
    let earlier_at = earlier.at;
    let seconds = now.at.since(earlier_at).as_secs_f64();
    let mut reasons = Vec::new();
    if let (Some(limit), Some(earlier), Some(now)) = (config.cpu, &earlier.cpu, &now.cpu) {
        let share = now.busy_since(earlier);
        if share > limit {
            reasons.push(format!(
                "processors are busy by {:.0} % (limit {:.0} %)",
                share * 100.0,
                limit * 100.0
            ));
        }
    }
    if let (Some(limit), Some(earlier), Some(gpus)) = (config.gpu, &earlier.gpu, &now.gpu)
        && let Some((name, share)) = gpus.busiest_since(earlier, now.at.since(earlier_at))
        && share > limit
    {
        let [share, limit] = [share, limit].map(|it| it * 100.0);
        reasons.push(format!("the GPU {name} is busy by {share:.0} % (limit {limit:.0} %)"));
    }
    let mut bytes = |what, limit: Option<f64>, earlier: Option<u64>, now: Option<u64>| {
        if let (Some(limit), Some(earlier), Some(now)) = (limit, earlier, now) {
            let rate = now.saturating_sub(earlier) as f64 / seconds;
            if rate > limit {
                reasons.push(format!("{what} {} kB/s (limit {} kB/s)", kilo(rate), kilo(limit)));
            }
        }
    };
    bytes("the network carries", config.network, earlier.network, now.network);
    bytes("disks move", config.disk, earlier.disk, now.disk);
    reasons
}

fn kilo(bytes: f64) -> String {
    if bytes < 10_000.0 {
        format!("{:.1}", bytes / 1000.0)
    } else {
        format!("{:.0}", bytes / 1000.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_serves_if_it_is_neither_too_fresh_nor_too_old() {
        let at = |seconds| Mono::from_secs(seconds);
        assert!(!serves(at(100), at(100)));
        assert!(serves(at(100), at(101)));
        assert!(serves(at(100), at(220)));
        assert!(!serves(at(100), at(221)));
    }

    #[test]
    fn rates_are_differences_over_the_time_between() {
        let config = Inhibit {
            cpu: Some(0.1),
            network: Some(100_000.0),
            disk: Some(1_000_000.0),
            ..Inhibit::default()
        };
        let earlier = Sample {
            at: Mono::from_secs(10),
            cpu: Some(cpu::Ticks { busy: 100, all: 1000 }),
            gpu: None,
            network: Some(5_000_000),
            disk: Some(70_000_000),
        };
        // Ten seconds later: 25 of 200 ticks busy, 200 kB/s, and a disk that was replaced.
        let now = Sample {
            at: Mono::from_secs(20),
            cpu: Some(cpu::Ticks { busy: 125, all: 1200 }),
            gpu: None,
            network: Some(7_000_000),
            disk: Some(0),
        };
        assert_eq!(
            judge(&earlier, &now, &config),
            [
                "processors are busy by 12 % (limit 10 %)",
                "the network carries 200 kB/s (limit 100 kB/s)"
            ]
        );
        assert_eq!(
            judge(&earlier, &Sample { at: now.at, ..earlier.clone() }, &config),
            Vec::<String>::new()
        );
    }
}
