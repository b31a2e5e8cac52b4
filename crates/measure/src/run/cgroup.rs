//! A cgroup for the command: what it leaves running behind its back is counted too.
//!
//! Every cgroup of version 2 counts the CPU time of all that was ever in it, whatever its parents
//! wait for, and without any controller. Who may not make one (most users outside a delegated part
//! of the tree) gets the times of the processes that were waited for instead.
//!
//! The command is started by a process that is in the group for that moment: what it starts is in
//! there from its first instruction.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::cpu_time::CpuTime;

/// Groups are called this and our process number.
const NAME: &str = "nightwatt-run-";

/// The kernel moves processes one by one, and they may start others meanwhile.
const ROUNDS: u32 = 20;

/// A cgroup that is gone when this is dropped.
#[derive(Debug)]
pub(super) struct Cgroup {
    folder: PathBuf,
    /// Where we came from.
    home: PathBuf,
}

impl Cgroup {
    /// A group beneath the one that we are in, if we may.
    pub(super) fn make() -> Option<Self> {
        let mount = mount_point(&fs::read_to_string("/proc/self/mounts").ok()?)?;
        let ours = fs::read_to_string("/proc/self/cgroup").ok()?;
        let home = mount.join(own_path(&ours)?.trim_start_matches('/'));
        remove_left_over(&home);
        let folder = home.join(format!("{NAME}{}", std::process::id()));
        fs::create_dir(&folder).ok()?;
        let made = Self { folder, home };
        // Made is not yet allowed to be used.
        let usable = made.used().is_some() && made.join().is_ok() && join(&made.home).is_ok();
        usable.then_some(made)
    }

    fn join(&self) -> io::Result<()> {
        join(&self.folder)
    }

    /// Starts something in the group.
    pub(super) fn around<T>(&self, start: impl FnOnce() -> T) -> T {
        // Both worked a moment ago. If the first fails now the group stays empty, and is not believed.
        let _ = self.join();
        let started = start();
        let _ = join(&self.home);
        started
    }

    /// CPU time of all that was ever in it.
    pub(super) fn used(&self) -> Option<CpuTime> {
        cpu_time(&fs::read_to_string(self.folder.join("cpu.stat")).ok()?)
    }

    /// How many processes are in it.
    pub(super) fn processes(&self) -> usize {
        self.members().len()
    }

    fn members(&self) -> Vec<String> {
        let text = fs::read_to_string(self.folder.join("cgroup.procs")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

impl Drop for Cgroup {
    /// What still runs goes on where it would have been without us.
    fn drop(&mut self) {
        for _ in 0..ROUNDS {
            for member in self.members() {
                let _ = fs::write(self.home.join("cgroup.procs"), member);
            }
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
        }
        tracing::warn!(cgroup = %self.folder.display(), "a cgroup could not be removed");
    }
}

/// What a run that was killed has left: none may be removed in which something still runs.
fn remove_left_over(home: &Path) {
    for entry in fs::read_dir(home).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(NAME));
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// Moves this process into a cgroup.
fn join(folder: &Path) -> io::Result<()> {
    fs::write(folder.join("cgroup.procs"), "0")
}

/// Where cgroups of version 2 are: `cgroup2 /sys/fs/cgroup cgroup2 rw,...`.
fn mount_point(mounts: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let (at, kind) = (words.next()?, words.next()?);
        (kind == "cgroup2").then(|| PathBuf::from(at))
    })
}

/// The line of version 2: `0::/user.slice`.
fn own_path(cgroups: &str) -> Option<&str> {
    cgroups.lines().find_map(|line| line.strip_prefix("0::"))
}

fn cpu_time(stat: &str) -> Option<CpuTime> {
    let micros = |name: &str| {
        let value = stat.lines().find_map(|line| line.strip_prefix(name))?;
        Some(Duration::from_micros(value.trim().parse().ok()?))
    };
    Some(CpuTime { user: micros("user_usec ")?, system: micros("system_usec ")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_files_are_read_as_it_writes_them() {
        let mounts = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n\
                      cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0\n";
        assert_eq!(mount_point(mounts), Some(PathBuf::from("/sys/fs/cgroup/unified")));
        assert_eq!(mount_point("cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0"), None);
        assert_eq!(own_path("2:cpuacct:/\n0::/user.slice/x.scope\n"), Some("/user.slice/x.scope"));
        let stat = "usage_usec 384361\nuser_usec 300000\nsystem_usec 84361\nnice_usec 7\n";
        let time =
            CpuTime { user: Duration::from_millis(300), system: Duration::from_micros(84_361) };
        assert_eq!(cpu_time(stat), Some(time));
        assert_eq!(cpu_time("usage_usec 1"), None);
    }
}
