//! The file that tells the next proxy which process the last one started.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nightwatt_host::files::{self, Access, Durability, Replacement};
use rustix::process::Pid;

use super::procfs;

/// A process that no other is ever taken for, within one boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) pid: Pid,
    /// Clock ticks since boot.
    pub(super) started: u64,
}

/// One line: `PID START_TIME BOOT_ID`.
#[derive(Debug)]
pub(super) struct PidFile {
    path: PathBuf,
    boot: String,
}

impl PidFile {
    pub(super) fn new(path: PathBuf, boot: String) -> Self {
        Self { path, boot }
    }

    /// The process noted there. A file from before the last boot, or that makes no sense, counts as
    /// none.
    pub(super) fn read(&self) -> Option<Identity> {
        let text = fs::read_to_string(&self.path).ok()?;
        let mut words = text.split_ascii_whitespace();
        let pid = procfs::parse_pid(words.next()?)?;
        let started = words.next()?.parse().ok()?;
        (words.next()? == self.boot).then_some(Identity { pid, started })
    }

    /// Notes this process: readers see the old file or the new one, whole.
    pub(super) fn write(&self, child: Identity) -> io::Result<()> {
        let Self { path, boot } = self;
        let line = format!("{} {} {boot}\n", child.pid.as_raw_nonzero(), child.started);
        let how = Replacement { access: Access::Usual, durability: Durability::ThisBoot };
        files::replace(path, how, line.as_bytes())
    }

    pub(super) fn remove(&self) {
        // What stays behind is found out to be stale when it is read.
        let _ = fs::remove_file(&self.path);
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_boot_or_nobody_wrote_counts_as_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("site.process.pid");
        let file = PidFile::new(path.clone(), "this-boot".to_owned());
        assert_eq!(file.read(), None);
        let child = Identity { pid: Pid::from_raw(4711).unwrap(), started: 99 };
        file.write(child).unwrap();
        assert_eq!(file.read(), Some(child));
        assert_eq!(fs::read_to_string(&path).unwrap(), "4711 99 this-boot\n");
        assert_eq!(PidFile::new(path.clone(), "next-boot".to_owned()).read(), None);
        for nonsense in [
            "",
            "4711",
            "-1 99 this-boot",
            "0 99 this-boot",
            "4294967295 99 this-boot",
            "x y z",
            "4711 99 ",
        ] {
            fs::write(&path, nonsense).unwrap();
            assert_eq!(file.read(), None, "{nonsense:?}");
        }
    }
}
