//! How busy the processors are (`/proc/stat`, proc(5)).

use nightwatt_host::Host;

/// Time of all processors together, in ticks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ticks {
    pub(super) busy: u64,
    pub(super) all: u64,
}

impl Ticks {
    /// The share of the time since then that was busy.
    pub(super) fn busy_since(&self, earlier: &Self) -> f64 {
        let all = self.all.saturating_sub(earlier.all);
        // Idle ticks may step back a little: a counter of the kernel's that is not exact.
        let busy = self.busy.saturating_sub(earlier.busy).min(all);
        if all == 0 { 0.0 } else { busy as f64 / all as f64 }
    }
}

pub(super) fn read(host: &Host) -> Result<Ticks, String> {
    let text =
        host.read("/proc/stat").map_err(|error| format!("cannot read /proc/stat: {error}"))?;
    parse(&text).ok_or_else(|| "cannot understand /proc/stat".to_owned())
}

/// user nice system idle iowait irq softirq steal; the two of guests are in user and nice already.
fn parse(text: &str) -> Option<Ticks> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let fields = line.split_whitespace().take(8).map(|field| field.parse().ok());
    let fields: Vec<u64> = fields.collect::<Option<_>>()?;
    let idle = fields.get(3)? + fields.get(4)?;
    let all = fields.iter().sum::<u64>();
    Some(Ticks { busy: all - idle, all })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_that_waits_for_a_disk_is_not_busy() {
        let text = "cpu  5236401 1488391 535665 2500548 50313 0 28737 193743 0 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n";
        // 5236401 + 1488391 + 535665 + 28737 + 193743, and with 2500548 + 50313.
        assert_eq!(parse(text), Some(Ticks { busy: 7_482_937, all: 10_033_798 }));
        assert_eq!(parse("intr 5\n"), None);
        assert_eq!(parse("cpu  1 2 3\n"), None);
        assert!(read(&Host::default()).unwrap().all > 0);
    }

    #[test]
    fn shares_are_between_nothing_and_all() {
        let earlier = Ticks { busy: 100, all: 1000 };
        let share = |busy, all| Ticks { busy, all }.busy_since(&earlier);
        assert!((share(150, 1100) - 0.5).abs() < 1e-12);
        assert!(share(90, 1100).abs() < 1e-12);
        assert!((share(1100, 1100) - 1.0).abs() < 1e-12);
        assert!(share(100, 1000).abs() < 1e-12);
    }
}
