//! `/proc/PID/stat`, by the numbers of `proc_pid_stat(5)`.

use std::io;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

/// A line `42 (name) S 1 ...`. The name may have anything in it, also brackets, spaces and line breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcStat<'a> {
    /// Field 2, without its brackets.
    pub name: &'a str,
    /// Field 3 and what comes after it.
    rest: &'a str,
}

impl<'a> ProcStat<'a> {
    /// Returns `None` if there are no brackets.
    pub fn of(text: &'a str) -> Option<Self> {
        let (head, rest) = text.rsplit_once(')')?;
        let (_, name) = head.split_once('(')?;
        Some(Self { name, rest })
    }

    /// A field from 3 (the state) on, if it is there and can be read.
    pub fn field<T: FromStr>(&self, number: usize) -> Option<T> {
        self.rest.split_ascii_whitespace().nth(number.checked_sub(3)?)?.parse().ok()
    }

    /// User and system time (fields 14 and 15), in ticks.
    pub fn ticks(&self) -> Option<u64> {
        Some(self.field::<u64>(14)?.saturating_add(self.field(15)?))
    }
}

/// The time that this many ticks take.
pub fn ticks_time(ticks: u64) -> Duration {
    Duration::from_millis(ticks.saturating_mul(1000) / rustix::param::clock_ticks_per_second())
}

/// Reads the file of a process, such as `/proc/self` or `/proc/42`. Names need not be UTF-8.
pub fn read(process: &Path) -> io::Result<String> {
    let stat = std::fs::read(process.join("stat"))?;
    Ok(String::from_utf8_lossy(&stat).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_the_numbers_of_the_manual_behind_any_name() {
        for name in ["sh", "a) (b) c", ") S 1", "two\nlines", ""] {
            let text = format!("42 ({name}) Z 7 41 40 34816 39 4194304 1 2 3 4 500 60 8 9");
            let stat = ProcStat::of(&text).unwrap();
            assert_eq!(stat.name, name);
            assert_eq!(stat.field::<char>(3), Some('Z'));
            assert_eq!(stat.field::<u32>(4), Some(7), "parent");
            assert_eq!(stat.field::<i32>(6), Some(40), "session");
            assert_eq!(stat.field::<i32>(8), Some(39), "foreground group of the terminal");
            assert_eq!(stat.ticks(), Some(560));
            assert_eq!(stat.field::<u64>(18), None);
            assert_eq!(stat.field::<u64>(2), None, "before the name");
        }
        assert_eq!(ProcStat::of("42 sh S 7"), None);
    }

    #[test]
    fn a_tick_is_10_ms_on_linux() {
        assert_eq!(ticks_time(300), Duration::from_secs(3));
    }

    #[test]
    fn this_process_has_its_own_number_as_its_childrens_parent() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let text = read(Path::new(&format!("/proc/{}", child.id()))).unwrap();
        let parent = ProcStat::of(&text).unwrap().field::<u32>(4);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(parent, Some(std::process::id()));
        assert!(read(Path::new("/proc/0")).is_err());
    }
}
