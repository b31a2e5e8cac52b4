//! Power of the machine: what RAPL counts, or a constant.
//!
//! RAPL's energy is a number of a millisecond, and a quantum has four of them, so a quantum gets the mean power of the
//! last tenth of a second: joules are shared by time, and the scheduler divides each task's operations by its share.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Between two readings.
pub(crate) const INTERVAL: Duration = Duration::from_millis(100);

const RAPL: &str = "/sys/class/powercap";

/// Where watts come from.
#[derive(Debug)]
pub(crate) enum Power {
    /// Counters of all packages of CPUs.
    Rapl { files: Vec<PathBuf>, last: Option<Reading> },
    /// The same at all times: then tasks are ranked by operations per second.
    Constant(f64),
}

/// Microjoules of each package, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reading {
    at: Instant,
    microjoules: Vec<u64>,
}

impl Power {
    /// The watts that were named, or RAPL, or a constant.
    pub(crate) fn of(watts: Option<f64>) -> Self {
        if let Some(watts) = watts {
            return Self::Constant(watts);
        }
        let files = packages(Path::new(RAPL));
        if files.is_empty() { Self::Constant(1.0) } else { Self::Rapl { files, last: None } }
    }

    /// In words, for the user.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Rapl { files, .. } => {
                format!(
                    "measured by RAPL, {} packages of CPUs, which is not the whole machine",
                    files.len()
                )
            }
            Self::Constant(watts) => {
                format!(
                    "modelled, {watts} W at all times: ranks are those of operations per second"
                )
            }
        }
    }

    /// When to read again.
    pub(crate) const fn interval(&self) -> Option<Duration> {
        match self {
            Self::Rapl { .. } => Some(INTERVAL),
            Self::Constant(_) => None,
        }
    }

    /// Milliwatts since the last reading, where there is one.
    pub(crate) fn milliwatts(&mut self, now: Instant) -> Option<u64> {
        match self {
            Self::Constant(watts) => Some((1e3 * *watts) as u64),
            Self::Rapl { files, last } => {
                let microjoules = files.iter().map(|file| number(file)).collect::<Option<_>>()?;
                let reading = Reading { at: now, microjoules };
                let power = last.as_ref().and_then(|last| last.milliwatts_until(&reading));
                *last = Some(reading);
                power
            }
        }
    }
}

impl Reading {
    /// `None` if a counter began again from 0.
    fn milliwatts_until(&self, next: &Self) -> Option<u64> {
        let seconds = next.at.duration_since(self.at).as_secs_f64();
        let used = self.microjoules.iter().zip(&next.microjoules);
        let used: Option<u64> = used.map(|(from, to)| to.checked_sub(*from)).sum();
        (seconds > 0.0).then(|| used.map(|used| (used as f64 / 1e3 / seconds) as u64))?
    }
}

/// `intel-rapl:0`, and not `intel-rapl:0:0`, which is part of it.
fn packages(folder: &Path) -> Vec<PathBuf> {
    let Ok(all) = fs::read_dir(folder) else { return Vec::new() };
    let is_package = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.strip_prefix("intel-rapl:").is_some_and(|rest| !rest.contains(':'))
            && fs::read_to_string(path.join("name")).is_ok_and(|it| it.starts_with("package"))
    };
    let folders = all.flatten().map(|entry| entry.path()).filter(is_package);
    let files = folders.map(|folder| folder.join("energy_uj"));
    files.filter(|file| number(file).is_some()).collect()
}

fn number(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "this crate has no clock of nightwatt's")]
mod tests {
    use super::*;

    #[test]
    fn power_is_the_energy_of_all_packages_over_time() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, file: &str, text: &str| {
            let folder = folder.path().join(name);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(file), text).unwrap();
        };
        for (name, kind) in [
            ("intel-rapl:0", "package-0"),
            ("intel-rapl:0:0", "core"),
            ("intel-rapl:1", "package-1"),
            ("intel-rapl:2", "psys"),
        ] {
            write(name, "name", kind);
            write(name, "energy_uj", "1000000\n");
        }
        let files = packages(folder.path());
        assert_eq!(files.len(), 2, "{files:?}");
        let mut power = Power::Rapl { files, last: None };
        let begin = Instant::now();
        assert_eq!(power.milliwatts(begin), None, "one reading is no power");
        // 0.5 J and 1.5 J in 100 ms: 20 W.
        write("intel-rapl:0", "energy_uj", "1500000\n");
        write("intel-rapl:1", "energy_uj", "2500000\n");
        assert_eq!(power.milliwatts(begin + INTERVAL), Some(20_000));
        write("intel-rapl:1", "energy_uj", "5\n");
        assert_eq!(power.milliwatts(begin + 2 * INTERVAL), None, "it began again");
    }

    #[test]
    fn a_constant_is_named_as_a_model() {
        let mut power = Power::of(Some(40.0));
        assert_eq!((power.milliwatts(Instant::now()), power.interval()), (Some(40_000), None));
        assert!(power.words().starts_with("modelled, 40 W"));
    }
}
