//! What is watched: a command, processes that run already with what they have started, or all.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::path::Path;

use nightwatt_host::proc_stat::{self, ProcStat};
use nightwatt_probes::Watch;

use super::is_there;
use crate::error::Error;

/// What runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A command, and what it starts.
    Command(Vec<OsString>),
    /// Processes that run already, what they have started, and what all of these start from now on.
    Processes(Vec<u32>),
    /// Every process.
    Everything,
}

impl Target {
    /// Whom probes watch first; an error if a process is not there.
    pub(crate) fn watch(&self) -> Result<Watch, Error> {
        match self {
            Self::Command(_) => Ok(Watch::Children),
            Self::Everything => Ok(Watch::Everybody),
            Self::Processes(pids) => match pids.iter().find(|pid| !is_there(**pid)) {
                Some(pid) => Err(Error::NoProcess(*pid)),
                None => Ok(pids.first().map_or(Watch::Children, |pid| Watch::Process(*pid))),
            },
        }
    }

    /// Processes that run already and are watched: those that were named, and what they have started.
    pub(crate) fn running(&self) -> Vec<u32> {
        let named = self.pids();
        if named.is_empty() { Vec::new() } else { with_children(named, &parents()) }
    }

    /// The processes that were named.
    pub(crate) fn pids(&self) -> &[u32] {
        if let Self::Processes(pids) = self { pids } else { &[] }
    }

    /// The words of the command.
    pub(crate) fn command(&self) -> Vec<String> {
        let Self::Command(words) = self else { return Vec::new() };
        words.iter().map(|word| word.to_string_lossy().into_owned()).collect()
    }

    /// Have all processes that were named ended?
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self, Self::Processes(pids) if !pids.iter().any(|pid| is_there(*pid)))
    }
}

/// As reports call what was watched: `process 4711`.
pub(crate) fn named(pids: &[u32]) -> String {
    let numbers: Vec<String> = pids.iter().map(u32::to_string).collect();
    match pids {
        [] => "all processes".to_owned(),
        [pid] => format!("process {pid}"),
        _ => format!("processes {}", numbers.join(", ")),
    }
}

/// The parent of each process.
fn parents() -> HashMap<u32, u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let parents = pids.filter_map(|pid| {
        // It may be gone by now.
        let stat = proc_stat::read(Path::new(&format!("/proc/{pid}"))).ok()?;
        Some((pid, ProcStat::of(&stat)?.field(4)?))
    });
    parents.collect()
}

fn with_children(named: &[u32], parents: &HashMap<u32, u32>) -> Vec<u32> {
    let mut all = named.to_vec();
    let mut at = 0;
    while let Some(&parent) = all.get(at) {
        let children = parents.iter().filter(|(_, of)| **of == parent).map(|(pid, _)| *pid);
        let new: Vec<u32> = children.filter(|pid| !all.contains(pid)).collect();
        all.extend(new);
        at += 1;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_master_is_watched_with_its_workers_and_theirs() {
        let parents = HashMap::from([(10, 1), (11, 10), (12, 10), (13, 12), (20, 1), (21, 20)]);
        let mut all = with_children(&[10], &parents);
        all.sort_unstable();
        assert_eq!(all, [10, 11, 12, 13]);
        let two = with_children(&[12, 20, 13], &parents);
        assert_eq!(two.len(), 4, "{two:?}");
        assert_eq!(with_children(&[99], &parents), [99]);
    }

    #[test]
    fn what_is_watched_has_a_name() {
        assert_eq!(named(&[]), "all processes");
        assert_eq!(
            (named(&[7]), named(&[7, 8])),
            ("process 7".to_owned(), "processes 7, 8".to_owned())
        );
        let me = std::process::id();
        assert!(Target::Processes(vec![me]).running().contains(&me));
        assert!(Target::Everything.running().is_empty() && !Target::Everything.is_gone());
    }
}
