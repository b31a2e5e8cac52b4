//! How much of each accelerator's time the command used, by the processes that ran on it: CPU time says
//! nothing of that.

use std::collections::HashMap;
use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;

use nightwatt_clock::meter::{Stop, Woken, monotonic};
use nightwatt_energy::attribution::AcceleratorTime;
use nightwatt_host::proc_stat::{self, ProcStat};
use nightwatt_meters::nvml::{Used, Users};
use nightwatt_meters::sampler::Opened;

use super::Running;

/// The driver keeps what was used for some seconds, and processes that have ended are seen no more.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// No process has more ancestors.
const MOST_ANCESTORS: usize = 256;

/// Of each channel of an accelerator, by its name: its time, or nothing where it does not say who used it.
pub(super) type Times = HashMap<String, Option<AcceleratorTime>>;

/// Looks at accelerators while a command runs.
pub(super) struct Watch {
    stop: Stop,
    thread: JoinHandle<Times>,
}

impl Watch {
    /// Begins to look, if any of these meters is of an accelerator that tells who uses it.
    pub(super) fn start(meters: &[Opened], running: &Running) -> Option<Self> {
        let of_accelerators = meters.iter().filter(|meter| meter.driver() == "nvml");
        let channels = of_accelerators.flat_map(Opened::channels);
        let names: Vec<String> = channels.map(|channel| channel.name.clone()).collect();
        if names.is_empty() {
            return None;
        }
        let (mut users, stop) = (Users::new()?, Stop::new().ok()?);
        let (ends, running) = (stop.clone(), running.clone());
        let look = move || {
            let mut times = Times::new();
            let mut family = Family::default();
            loop {
                let woken = ends.wait_until(monotonic() + LOOK_EVERY);
                family.root = running.pid().or(family.root);
                for name in &names {
                    let number = name.strip_prefix("gpu-").and_then(|it| it.parse().ok());
                    let used = number.and_then(|number| users.look(number));
                    let time =
                        times.entry(name.clone()).or_insert(Some(AcceleratorTime::default()));
                    *time = time.zip(used).map(|(time, used)| family.add(time, &used));
                }
                if woken == Woken::Stopped {
                    return times;
                }
            }
        };
        let thread =
            std::thread::Builder::new().name("accelerators".to_owned()).spawn(look).ok()?;
        Some(Self { stop, thread })
    }

    /// What was used up to now.
    pub(super) fn finish(self) -> Times {
        self.stop.stop();
        self.thread.join().unwrap_or_default()
    }
}

/// Whether processes are of the command. What was once seen stays known when it has ended.
#[derive(Default)]
struct Family {
    root: Option<u32>,
    known: HashMap<u32, bool>,
}

impl Family {
    fn add(&mut self, mut time: AcceleratorTime, used: &[Used]) -> AcceleratorTime {
        for used in used {
            let seconds = used.time.as_secs_f64() * f64::from(used.percent) / 100.0;
            match self.is_ours(used.process) {
                Some(true) => time.ours += seconds,
                Some(false) => time.others += seconds,
                None => time.unseen += seconds,
            }
        }
        time
    }

    /// `None` of a process that cannot be seen: it has ended, or the driver numbers processes otherwise.
    fn is_ours(&mut self, process: u32) -> Option<bool> {
        if let Some(known) = self.known.get(&process) {
            return Some(*known);
        }
        let mut ancestor = process;
        for step in 0..MOST_ANCESTORS {
            if Some(ancestor) == self.root {
                self.known.insert(process, true);
                return Some(true);
            }
            match parent(ancestor) {
                Some(parent) if parent > 0 => ancestor = parent,
                None if step == 0 => return None,
                _ => break,
            }
        }
        self.known.insert(process, false);
        Some(false)
    }
}

fn parent(process: u32) -> Option<u32> {
    let stat = proc_stat::read(Path::new(&format!("/proc/{process}"))).ok()?;
    ProcStat::of(&stat)?.field(4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_own_processes_are_told_from_others_and_from_those_that_are_not_seen() {
        // Something that runs beneath us, and what is not there.
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let (ours, us) = (child.id(), std::process::id());
        let used = |process, percent| Used { process, time: Duration::from_secs(2), percent };
        let mut family = Family { root: Some(us), known: HashMap::new() };
        let all = [used(ours, 50), used(us, 25), used(1, 100), used(u32::MAX, 10)];
        let time = family.add(AcceleratorTime::default(), &all);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!((time.ours - 1.5).abs() < 1e-9 && (time.others - 2.0).abs() < 1e-9, "{time:?}");
        assert!((time.unseen - 0.2).abs() < 1e-9, "{time:?}");
        // It has ended, and is known.
        let time = family.add(AcceleratorTime::default(), &[used(ours, 50)]);
        assert!((time.ours - 1.0).abs() < 1e-9 && time.unseen == 0.0, "{time:?}");
    }
}
