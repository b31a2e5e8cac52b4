//! How long the kernel keeps what was written and not synced: until the machine restarts, or the file system is mounted
//! again.

use std::os::fd::AsFd;

use rustix::fs::{AtFlags, StatxFlags, statx};

/// Since Linux 6.8, each mount has a number that no other gets until the machine restarts (`STATX_MNT_ID_UNIQUE`).
const UNIQUE: StatxFlags = StatxFlags::from_bits_retain(0x4000);

/// From a mount to the next. A file system may be another one after that, as a disk that was pulled out is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Life {
    boot: String,
    mount: Option<u64>,
}

impl Life {
    /// By the id of the boot, and the number of the mount.
    pub(super) fn new(boot: &str, mount: Option<u64>) -> Self {
        Self { boot: boot.to_owned(), mount }
    }

    /// Of the file system of a folder.
    pub(super) fn of(folder: impl AsFd) -> Self {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        Self::new(boot.trim(), mount(folder))
    }

    /// For the journal; empty if it cannot be recognised later.
    pub(super) fn text(&self) -> String {
        match self.mount {
            Some(mount) if !self.boot.is_empty() => format!("{} {mount}", self.boot),
            _ => String::new(),
        }
    }

    /// Whether the journal was written in this life, as far as that is known.
    pub(super) fn is(&self, text: &[u8]) -> bool {
        !text.is_empty() && self.text().as_bytes() == text
    }

    /// Whether a folder is on the same mount for sure.
    pub(super) fn has(&self, folder: impl AsFd) -> bool {
        self.mount.is_some() && mount(folder) == self.mount
    }
}

/// The number of the mount that a folder is on, if the kernel gives one.
fn mount(folder: impl AsFd) -> Option<u64> {
    let found = statx(folder, "", AtFlags::EMPTY_PATH, UNIQUE).ok()?;
    (found.stx_mask & UNIQUE.bits() != 0).then_some(found.stx_mnt_id)
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn two_mounts_are_two_lives_and_a_folder_below_is_not() {
        let open = |path: &str| File::open(path).unwrap();
        let proc = Life::of(open("/proc"));
        if proc.text().is_empty() {
            println!("skipped: this kernel has no numbers for mounts (Linux 6.8 has)");
            return;
        }
        assert!(proc.is(Life::of(open("/proc")).text().as_bytes()));
        assert!(proc.has(open("/proc/self")) && !proc.has(open("/")));
        assert!(!proc.is(Life::of(open("/")).text().as_bytes()));
    }
}
