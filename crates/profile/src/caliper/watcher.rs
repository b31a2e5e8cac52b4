//! Where sections come from: probes that sum up in the kernel, or markers of the programs themselves.

use std::time::Duration;

use nightwatt_energy::markers::{self, Merger};
use nightwatt_energy::sections::{Tree, Usage};
use nightwatt_probes::{Calls, Extras, SectionProbes, Watch};

use super::processes::Processes;
use super::{LOOK_EVERY, Section};
use crate::error::Error;

/// The shortest interval between two looks at the rings, and the longest while a process writes.
const SOONEST: Duration = Duration::from_millis(3);
const LATEST: Duration = Duration::from_millis(50);

/// Fuller than this, and the next look comes sooner.
const FULL: u64 = nightwatt_energy::markers::area::RECORDS / 16;

/// One of them, or probes alone.
pub(super) struct Watcher {
    pub(super) probes: SectionProbes,
    markers: Option<Marked>,
}

/// Programs mark their sections, and the kernel tells when they ran.
struct Marked {
    processes: Processes,
    merger: Merger,
    next: Duration,
}

impl Watcher {
    /// Nothing is watched yet.
    pub(super) fn new(watch: Watch, extras: Extras, wanted: &[u32]) -> Result<Self, Error> {
        let probes = SectionProbes::load_with(watch, extras)?;
        if !extras.runs {
            return Ok(Self { probes, markers: None });
        }
        let processes = Processes::new(wanted)?;
        let markers = Marked { processes, merger: Merger::default(), next: SOONEST };
        Ok(Self { probes, markers: Some(markers) })
    }

    /// What the command is to find in its environment.
    pub(super) fn environment(&self) -> Vec<(&'static str, String)> {
        let markers = self.markers.iter();
        markers.map(|it| ("NIGHTWATT_MARKERS", it.processes.address().to_owned())).collect()
    }

    /// Nothing may be left lying for longer than this.
    pub(super) fn timeout(&self) -> Duration {
        self.markers.as_ref().map_or(LOOK_EVERY, |markers| markers.next)
    }

    /// Takes what programs and kernel have said.
    pub(super) fn look(&mut self) -> Result<(), Error> {
        let Some(markers) = &mut self.markers else { return Ok(()) };
        // Pieces first: what a thread said in one of them is then there to be read.
        let mut runs = self.probes.runs()?;
        runs.sort_by_key(|run| run.begin);
        let looked = markers.processes.look(&mut markers.merger);
        for run in &runs {
            markers.merger.run(run);
        }
        markers.next = match looked.fullest {
            FULL.. => SOONEST,
            _ => (markers.next * 2).min(LATEST),
        };
        Ok(())
    }

    /// CPU time so far, up to this moment on every CPU.
    pub(super) fn usage(&mut self) -> Result<Usage, Error> {
        let usage = self.probes.usage()?;
        self.look()?;
        Ok(match &self.markers {
            Some(markers) => markers.merger.usage(usage),
            None => usage,
        })
    }

    /// Nothing more will be asked for but figures.
    pub(super) fn finish(&mut self) {
        if let Some(markers) = &mut self.markers {
            markers.merger.finish();
        }
    }

    /// The sections that programs have marked.
    pub(super) fn marked(&self) -> Vec<Section> {
        let names = self.markers.iter().flat_map(|markers| markers.processes.names());
        names.map(|name| Section::marked(name)).collect()
    }

    pub(super) fn tree(&self) -> Result<Tree, Error> {
        match &self.markers {
            Some(markers) => Ok(markers.merger.tree().clone()),
            None => Ok(self.probes.tree()?),
        }
    }

    pub(super) fn is_full(&self) -> Result<bool, Error> {
        match &self.markers {
            Some(markers) => Ok(markers.merger.is_full()),
            None => Ok(self.probes.is_full()?),
        }
    }

    /// Calls of a section, and how many of them were lost before they were read.
    pub(super) fn calls(&self, section: u32) -> Result<(Calls, u64), Error> {
        match &self.markers {
            Some(markers) => {
                let calls = markers.merger.calls(section);
                let lost = calls.lost;
                Ok((calls_of(calls), lost))
            }
            None => Ok((self.probes.calls(section)?, 0)),
        }
    }

    /// What the reader has to know of markers.
    pub(super) fn warnings(&self) -> Result<Vec<String>, Error> {
        let Some(markers) = &self.markers else { return Ok(Vec::new()) };
        let (trouble, lost) = (markers.processes.trouble(), self.probes.lost_runs()?);
        let mut warnings = Vec::new();
        if trouble.taken {
            warnings.push(
                "another nightwatt reads the markers of this process: one at a time can".to_owned(),
            );
        } else if markers.processes.names().is_empty() {
            warnings.push(
                "no process that was watched has used a marker: see docs/markers.md for how programs \
                 mark their sections. In a container of its own network they cannot report"
                    .to_owned(),
            );
        }
        for (count, what) in [
            (
                trouble.without_ring,
                "calls were not counted: more than 128 threads had markers at once, or the program had closed \
                 all its files",
            ),
            (trouble.refused, "sections were left out: there is room for 256"),
            (trouble.torn, "records of markers made no sense and were left out"),
            (
                trouble.unheard,
                "processes or more with markers could not be read: nightwatt may not open more files. Raise \
                 its limit (`ulimit -Hn`), or start fewer at once",
            ),
            (
                trouble.other_clock,
                "processes with markers have a clock of their own (a time namespace): their sections' lengths \
                 are right and their CPU times are not",
            ),
            (
                markers.merger.unmatched_threads(),
                "threads with markers are known to the kernel by other numbers (in a container's PID namespace \
                 only a process's first thread is recognised), or it did not report when they ran: their calls \
                 have no CPU time and no joules",
            ),
            (trouble.strange, "processes shared something that is not a memory of markers"),
            (lost, "pieces of running time were lost: CPU times in sections are too small"),
        ] {
            if count > 0 {
                warnings.push(format!("{count} {what}"));
            }
        }
        Ok(warnings)
    }
}

fn calls_of(calls: markers::Calls) -> Calls {
    let time = Duration::from_nanos;
    Calls {
        ended: calls.ended,
        begun: calls.begun,
        length: time(calls.length),
        ran: time(calls.ran),
        preempted: time(calls.preempted),
        unended: calls.unended,
        unbegun: calls.unbegun,
        too_deep: calls.too_deep,
        bands: calls.bands,
    }
}
