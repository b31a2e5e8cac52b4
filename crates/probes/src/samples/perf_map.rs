//! Names of code that is made as a program runs (JIT): `/tmp/perf-PID.map`, as `perf` reads it.
//!
//! Each line is `START SIZE NAME`, in hexadecimal, of memory addresses. What was made later at an address
//! replaces what was there. Runtimes write the file late, some only when they are asked or end.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// Larger files are no maps: a server that runs for days writes some ten MB.
const MOST: u64 = 1 << 30;

/// Functions by where they begin.
#[derive(Debug, Default)]
pub(super) struct PerfMap(BTreeMap<u64, (u64, String)>);

impl PerfMap {
    /// Of a process, with the file that it is in. `None` if there is no file that this process may have written.
    pub(super) fn of(pid: u32) -> Option<(PathBuf, Self)> {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        // Its number where it lives: in a container another.
        let inside = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
        let inside = inside.and_then(|numbers| numbers.split_whitespace().last()?.parse().ok());
        let file = PathBuf::from(format!("/tmp/perf-{}.map", inside.unwrap_or(pid)));
        let root = PathBuf::from(format!("/proc/{pid}/root"));
        let in_its_root = root.join(file.strip_prefix("/").ok()?);
        let path = Some(in_its_root).filter(|path| path.is_file()).unwrap_or_else(|| file.clone());
        let text = read(&path, fs::metadata(format!("/proc/{pid}")).ok().map(|of| of.uid()))?;
        Some((file, Self::parse(&text)))
    }

    fn parse(text: &str) -> Self {
        let mut map = Self::default();
        for line in text.lines() {
            let mut fields = line.splitn(3, ' ');
            let mut hex = || u64::from_str_radix(fields.next()?.trim_start_matches("0x"), 16).ok();
            let (Some(begin), Some(size)) = (hex(), hex()) else { continue };
            let Some(name) = fields.next().filter(|name| !name.is_empty()) else { continue };
            map.insert(begin, begin.saturating_add(size), name);
        }
        map
    }

    fn insert(&mut self, begin: u64, end: u64, name: &str) {
        let covered = self.0.range(..end).rev().take_while(|(_, (to, _))| *to > begin);
        let covered: Vec<u64> = covered.map(|(from, _)| *from).collect();
        for from in covered {
            self.0.remove(&from);
        }
        self.0.insert(begin, (end, name.to_owned()));
    }

    /// The function at an address.
    pub(super) fn at(&self, address: u64) -> Option<&str> {
        let (_, (end, name)) = self.0.range(..=address).next_back()?;
        (address < *end).then_some(name)
    }
}

/// Anybody may write to `/tmp`: the file has to be the process's own, or root's.
fn read(path: &Path, owner: Option<u32>) -> Option<String> {
    let flags = (OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW).bits().cast_signed();
    let file = fs::File::options().read(true).custom_flags(flags).open(path).ok()?;
    let found = file.metadata().ok()?;
    let is_its = found.uid() == 0 || owner.is_none_or(|owner| owner == found.uid());
    if !found.is_file() || !is_its || found.len() > MOST {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(MOST).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines as node 18 writes them, and one that was cut off.
    #[test]
    fn what_was_made_last_at_an_address_counts() {
        let map = PerfMap::parse(
            "7f10 40 LazyCompile:~work /srv/a.js:1:14\n0x7f60 10 Stub:Add\nrubbish\n\
             7f20 20 LazyCompile:*work /srv/a.js:1:14\n7f8",
        );
        assert_eq!(map.at(0x7f3f), Some("LazyCompile:*work /srv/a.js:1:14"));
        assert_eq!((map.at(0x7f10), map.at(0x7f40)), (None, None));
        assert_eq!((map.at(0x7f6f), map.at(0x7f70)), (Some("Stub:Add"), None));
    }

    #[test]
    fn a_map_of_a_process_that_is_another_users_or_a_link_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("map"), folder.path().join("link"));
        fs::write(&file, "10 10 a\n").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let me = rustix::process::getuid().as_raw();
        assert_eq!(read(&file, Some(me)).as_deref(), Some("10 10 a\n"));
        assert_eq!(read(&link, Some(me)), None);
        if me != 0 {
            assert_eq!(read(&file, Some(me + 1)), None);
        }
    }
}
