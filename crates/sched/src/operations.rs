//! Counters of operations, one for each CPU.

use std::fs;
use std::os::fd::AsRawFd as _;

use perf_event::events::{Hardware, Software};
use perf_event::{Builder, Counter};

use crate::error::Error;
use crate::kernel::Loaded;

/// What is an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Operations {
    /// None is counted: `nightwatt-sched run --opj` gives the OPJ, as `nightwatt corun` measured it
    Given,
    /// Instructions that the CPU has retired
    Instructions,
    /// Nanoseconds of the CPU: no measure of work, for machines without counters, to try out the rest
    CpuClock,
}

impl Operations {
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Given => "given by the launcher",
            Self::Instructions => "instructions",
            Self::CpuClock => "nanoseconds of the CPU clock (no measure of work)",
        }
    }

    /// Starts a counter on each CPU, and hands it to the scheduler. The counters end with what is returned.
    pub(crate) fn count(self, loaded: &Loaded) -> Result<Vec<Counter>, Error> {
        if self == Self::Given {
            return Ok(Vec::new());
        }
        let mut counters = Vec::new();
        for cpu in online()? {
            let refused = |source| Error::Counter { operations: self.words(), cpu, source };
            let mut builder = match self {
                Self::Instructions => Builder::new(Hardware::INSTRUCTIONS),
                Self::Given | Self::CpuClock => Builder::new(Software::CPU_CLOCK),
            };
            let builder = builder.any_pid().one_cpu(cpu).exclude_kernel(false).exclude_hv(false);
            let mut counter = builder.build().map_err(refused)?;
            counter.enable().map_err(refused)?;
            let file = counter.as_raw_fd().cast_unsigned();
            loaded.set("counters", cpu as u32, &file.to_ne_bytes())?;
            counters.push(counter);
        }
        Ok(counters)
    }
}

/// CPUs that are online.
pub(crate) fn online() -> Result<Vec<usize>, Error> {
    let path = "/sys/devices/system/cpu/online";
    let text = fs::read_to_string(path).map_err(|source| Error::File {
        what: "read",
        path: path.into(),
        source,
    })?;
    cpus(text.trim()).ok_or_else(|| Error::Cpus(text.trim().to_owned()))
}

/// `0-3,5`
fn cpus(text: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        cpus.extend(first..=last);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_those_of_the_kernel() {
        assert_eq!(cpus("0"), Some(vec![0]));
        assert_eq!(cpus("0-2,5,7-8"), Some(vec![0, 1, 2, 5, 7, 8]));
        assert_eq!(cpus(""), None);
        assert_eq!(cpus("0-x"), None);
    }
}
