//! What can go wrong.

use std::io;
use std::path::PathBuf;

/// Why the scheduler does not run, or no longer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("this kernel has no sched_ext (/sys/kernel/sched_ext is missing)")]
    NoSchedExt,
    #[error("this kernel does not describe its types (/sys/kernel/btf/vmlinux is missing)")]
    NoBtf,
    #[error("another scheduler is loaded: {0}")]
    Busy(String),
    #[error("cannot {what}: {source}{}", lines(.log))]
    Kernel { what: &'static str, source: libbpf_rs::Error, log: Vec<String> },
    #[error("cannot {what}: {source}")]
    System { what: &'static str, source: io::Error },
    #[error("cannot count {operations} on CPU {cpu}: {source}")]
    Counter { operations: &'static str, cpu: usize, source: io::Error },
    #[error("cannot {what} {}: {source}", path.display())]
    File { what: &'static str, path: PathBuf, source: io::Error },
    #[error("the kernel ended the scheduler: {reason}{}", of_message(.message))]
    Ended { reason: String, message: String },
    #[error("no scheduler of nightwatt-sched is loaded")]
    NotLoaded,
    #[error("`{0}` is not a list of CPUs, as in `0-3,5`")]
    Cpus(String),
    #[error("{0}")]
    Usage(String),
}

impl Error {
    /// What to try next.
    pub(crate) fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NoSchedExt => Some(
                "it needs Linux 6.18 or later with CONFIG_SCHED_CLASS_EXT; `nightwatt schedule` needs neither",
            ),
            Self::NoBtf => Some("use a kernel with CONFIG_DEBUG_INFO_BTF"),
            Self::Busy(_) => Some("end it first: a kernel runs one at a time"),
            Self::Kernel { source, .. }
                if source.kind() == libbpf_rs::ErrorKind::PermissionDenied =>
            {
                Some("run it as root")
            }
            Self::Counter { .. } => Some(
                "a guest may have no counters: `--operations given` takes the OPJ of `nightwatt-sched run --opj`",
            ),
            Self::Ended { .. } => {
                Some("all tasks are with the kernel's own scheduler again; `load` begins once more")
            }
            Self::NotLoaded => Some("start `nightwatt-sched load` in another terminal, as root"),
            _ => None,
        }
    }
}

fn lines(log: &[String]) -> String {
    log.iter().fold(String::new(), |text, line| text + "\n  " + line)
}

fn of_message(message: &str) -> String {
    if message.is_empty() { String::new() } else { format!(" ({message})") }
}
