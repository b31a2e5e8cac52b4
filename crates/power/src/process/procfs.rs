//! What `/proc` tells of processes.

use std::fs;
use std::io::{self, Read as _};
use std::path::Path;

use nightwatt_host::proc_stat::{self, ProcStat};
use rustix::process::Pid;

/// One process, as `/proc/<pid>/stat` describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) pid: Pid,
    /// None for the first process and the kernel's own.
    pub(super) parent: Option<Pid>,
    /// The process group, which has the process id of its first leader.
    pub(super) group: i32,
    /// It has ended; only its parent has not yet asked how.
    pub(super) zombie: bool,
    /// Clock ticks since boot: together with the pid and the boot it names a process for ever.
    pub(super) started: u64,
}

/// The process with this id; `None` if there is no such process.
pub(super) fn stat(pid: Pid) -> io::Result<Option<Stat>> {
    match proc_stat::read(Path::new(&format!("/proc/{}", pid.as_raw_nonzero()))) {
        Ok(text) => parse_stat(&text).map(Some).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, format!("/proc stat line `{text}`"))
        }),
        // A process that ends between open and read gives ESRCH.
        Err(error)
            if error.kind() == io::ErrorKind::NotFound
                || error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Does it run, or wait for a CPU or a disk? Amid `execve` it does one of these.
pub(super) fn is_busy(pid: Pid) -> bool {
    let text = proc_stat::read(Path::new(&format!("/proc/{}", pid.as_raw_nonzero())));
    let state = |text: String| ProcStat::of(&text)?.field::<char>(3);
    text.ok().and_then(state).is_some_and(|state| matches!(state, 'R' | 'D'))
}

/// Reads a process id.
pub(super) fn parse_pid(text: &str) -> Option<Pid> {
    // `from_raw` refuses 0, but panics on less.
    text.parse::<u32>().ok().and_then(|raw| Pid::from_raw(raw.try_into().ok()?))
}

/// All processes that can be seen.
pub(super) fn all() -> io::Result<Vec<Stat>> {
    let numbers =
        fs::read_dir("/proc")?.filter_map(|entry| parse_pid(entry.ok()?.file_name().to_str()?));
    // One that vanished or makes no sense is not worth failing for.
    Ok(numbers.filter_map(|pid| stat(pid).ok().flatten()).collect())
}

/// Was the process started with this `NAME=value`? False when we may not look; `None` where it shows no
/// environment, because it has none or is amid `execve`. (Nothing else in `/proc` tells the two apart: the
/// bounds of the environment are equal, and the arguments appear before the environment.)
pub(super) fn has_environment(pid: Pid, entry: &str) -> Option<bool> {
    let Ok(text) = environment(pid) else { return Some(false) };
    (!text.is_empty()).then(|| text.split(|byte| *byte == 0).any(|one| one == entry.as_bytes()))
}

/// The environment as one `read` gives it: what comes in several may end where `execve` came between them.
fn environment(pid: Pid) -> io::Result<Vec<u8>> {
    let path = format!("/proc/{}/environ", pid.as_raw_nonzero());
    let mut room = 64 << 10;
    loop {
        let mut text = vec![0; room];
        let length = fs::File::open(&path)?.read(&mut text)?;
        if length < room {
            text.truncate(length);
            return Ok(text);
        }
        room *= 4;
    }
}

/// Names this boot of the machine: each boot starts process ids and start times again.
pub(super) fn boot_id() -> io::Result<String> {
    let text = fs::read_to_string(Path::new("/proc/sys/kernel/random/boot_id"))?;
    Ok(text.trim().to_owned())
}

fn parse_stat(text: &str) -> Option<Stat> {
    let pid = parse_pid(text.split(' ').next()?)?;
    let stat = ProcStat::of(text)?;
    let (state, threads): (char, u32) = (stat.field(3)?, stat.field(20)?);
    let parent = parse_pid(&stat.field::<String>(4)?);
    let (group, started) = (stat.field(5)?, stat.field(22)?);
    // A main thread that left early looks like a zombie while the others work on.
    let zombie = matches!(state, 'Z' | 'X' | 'x') && threads <= 1;
    Some(Stat { pid, parent, group, zombie, started })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_and_spaces_does_not_mislead() {
        let line = "4711 (a) Z 1 (b\n) S 12 4711 4700 0 -1 4194560 102 0 0 0 0 0 0 0 20 0 1 0 \
                    987654 2863104 221 18446744073709551615\n";
        let stat = parse_stat(line).unwrap();
        assert_eq!(stat.pid, Pid::from_raw(4711).unwrap());
        assert_eq!((stat.parent, stat.group, stat.started), (Pid::from_raw(12), 4711, 987_654));
        assert!(!stat.zombie);
        let ended = line.replace("S 12", "Z 12");
        assert!(parse_stat(&ended).unwrap().zombie);
        assert!(!parse_stat(&ended.replace("0 1 0", "0 8 0")).unwrap().zombie);
    }

    #[test]
    fn half_a_line_is_refused() {
        assert_eq!(parse_stat(""), None);
        assert_eq!(parse_stat("1 (init) S 0 1 1 0"), None);
        assert_eq!(parse_stat("0 (idle) S 0 0"), None);
    }

    #[test]
    fn we_find_ourselves() {
        let own = rustix::process::getpid();
        let stat = stat(own).unwrap().unwrap();
        assert_eq!(stat.pid, own);
        assert!(stat.started > 0 && !stat.zombie);
        assert!(all().unwrap().contains(&stat));
    }
}
