//! Samples of whatever runs, with all of the kernel's functions.

use nightwatt_clock::meter::monotonic;
use nightwatt_energy::samples::{Record, SampleOutcome, calls};
use nightwatt_energy::time::Mono;

use super::programs::Program;
use super::{Samples, locked};

/// What a CPU was found at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuSample {
    /// When.
    pub at: Mono,
    /// In the name of which process; of 0 where no process had anything to do.
    pub pid: u32,
    /// Is that one watched?
    pub is_watched: bool,
    /// Its program.
    pub program: Program,
    /// Functions of the kernel, the innermost first; none where it was not in the kernel. By their numbers
    /// in [`Samples::functions`].
    pub kernel: Vec<usize>,
    /// Functions of a watched process, the innermost first; as far as its stack tells.
    pub user: Vec<usize>,
}

impl Samples {
    /// Learns what all processes are called that run now.
    pub fn find_programs(&mut self) {
        self.programs.find();
    }

    /// All samples since the last time, in their order, of [`Samples::open_everything`].
    pub fn read_everything(&mut self) -> Vec<CpuSample> {
        let now = monotonic().0.as_nanos() as u64;
        let ready = locked(&self.rings).take(now);
        ready.into_iter().filter_map(|(time, record)| self.look(time, record)).collect()
    }

    fn look(&mut self, time: u64, record: Record) -> Option<CpuSample> {
        self.programs.take(&record);
        let Record::Sample { pid, kernel, user } = record else {
            self.take(time, record);
            return None;
        };
        let kernel = calls(&kernel).map(|address| self.kernel_function(address)).collect();
        let of_process = Record::Sample { pid, kernel: Vec::new(), user };
        let (is_watched, mut frames) = match self.processes.take(of_process) {
            SampleOutcome::Watched(frames) => (true, frames),
            _ => (false, Vec::new()),
        };
        frames.reverse();
        let user = frames.into_iter().map(|frame| self.function(frame)).collect();
        let at = Mono(std::time::Duration::from_nanos(time));
        Some(CpuSample {
            at,
            pid,
            is_watched,
            program: self.programs.of(pid).clone(),
            kernel,
            user,
        })
    }
}
