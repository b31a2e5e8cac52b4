//! Finds what could keep a machine from sleeping or from being woken (`nightwatt doctor`), before it happens at
//! night.
//!
//! [`machine`] examines the machine that is to sleep, and runs there. [`proxy`] runs on the machine that
//! stays awake and examines the servers of its configuration, by `nightwatt_gateway` and `nightwatt_power`.
//! Neither changes anything, except that an agent's driver creates its file of the last announcement if the
//! file is missing. [`cycle`] puts a machine to sleep and wakes it, and `bpf_programs` reports which eBPF
//! programs the kernel accepts.

#[cfg(feature = "bpf")]
pub mod bpf_programs;
pub mod cycle;
mod error;
mod ethtool;
pub mod machine;
mod ping;
pub mod proxy;
mod route;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Serialize;

pub use self::error::Error;

/// The verdict of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// As it should be.
    Good,
    /// Worth knowing; may be as it should be.
    Note,
    /// Could not be found out.
    Unknown,
    /// It will not work like this.
    Bad,
}

impl Verdict {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Note => "note",
            Self::Unknown => "unknown",
            Self::Bad => "bad",
        }
    }
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What it is about: `sleep states`, `network card eth0`.
    pub about: String,
    /// How it stands.
    pub verdict: Verdict,
    /// What was found.
    pub found: String,
    /// What helps, where something is to be done.
    pub cure: Option<String>,
}

impl Finding {
    fn new(about: &str, verdict: Verdict, found: impl Into<String>) -> Self {
        Self { about: about.to_owned(), verdict, found: found.into(), cure: None }
    }

    fn good(about: &str, found: impl Into<String>) -> Self {
        Self::new(about, Verdict::Good, found)
    }

    fn note(about: &str, found: impl Into<String>) -> Self {
        Self::new(about, Verdict::Note, found)
    }

    fn unknown(about: &str, found: impl Into<String>) -> Self {
        Self::new(about, Verdict::Unknown, found)
    }

    fn bad(about: &str, found: impl Into<String>) -> Self {
        Self::new(about, Verdict::Bad, found)
    }

    fn cure(mut self, cure: impl Into<String>) -> Self {
        self.cure = Some(cure.into());
        self
    }
}

/// The machine that is examined: its files, and programs that know more.
pub struct HostView {
    root: PathBuf,
    programs: Programs,
}

/// Runs a program: what it printed if it succeeded, nothing if it is not there or failed.
type Programs = Box<dyn Fn(&str, &[&str]) -> Option<String>>;

impl Default for HostView {
    /// This machine.
    fn default() -> Self {
        Self { root: PathBuf::from("/"), programs: Box::new(run) }
    }
}

impl HostView {
    /// A machine whose files lie here, and whose programs answer so.
    pub fn new(
        root: PathBuf,
        programs: impl Fn(&str, &[&str]) -> Option<String> + 'static,
    ) -> Self {
        Self { root, programs: Box::new(programs) }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    fn exists(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// A file without the line break at its end; nothing if it cannot be read.
    fn read(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.path(path)).ok().map(|text| text.trim_end().to_owned())
    }

    /// Names in a directory, sorted.
    fn names(&self, path: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.path(path)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    fn ask(&self, program: &str, arguments: &[&str]) -> Option<String> {
        (self.programs)(program, arguments)
    }
}

/// Directories of programs for administrators, which a user's `PATH` may lack.
const SBIN: [&str; 3] = ["/usr/sbin", "/sbin", "/usr/local/sbin"];

fn run(program: &str, arguments: &[&str]) -> Option<String> {
    let elsewhere = SBIN.iter().map(|dir| Path::new(dir).join(program)).find(|it| it.exists());
    let mut command = elsewhere.map_or_else(|| Command::new(program), Command::new);
    command.args(arguments).stdin(Stdio::null()).stderr(Stdio::null());
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}
