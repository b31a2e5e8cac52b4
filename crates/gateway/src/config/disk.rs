//! `[cache.disk]`: what the cache may do on a disk.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{Wrong, wrong};

const MB: u64 = 1 << 20;

/// `[cache]`: the cache of all sites.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SharedCacheConfig {
    /// A disk behind the memory; default: none.
    pub disk: Option<DiskConfig>,
}

/// The disk behind the cache's memory.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DiskConfig {
    /// Where; default: `cache` in `state_dir`.
    pub directory: Option<PathBuf>,
    /// How much of the disk it takes, in MiB.
    pub size_mb: u64,
    /// How much the whole proxy writes a day before the cache writes no more of what it stores, in MiB.
    pub write_mb_per_day: u64,
}

impl Default for DiskConfig {
    fn default() -> Self {
        Self { directory: None, size_mb: 512, write_mb_per_day: 200 }
    }
}

/// How large a disk cache may become.
#[derive(Debug, Clone, Copy)]
pub struct DiskBounds {
    /// Bytes of all segments.
    pub bytes: u64,
    /// Bytes of one.
    pub segment: u64,
    /// Stored answers.
    pub records: usize,
}

impl DiskBounds {
    /// The longest record that is written.
    pub const fn largest(&self) -> u64 {
        self.segment / 4
    }
}

impl DiskConfig {
    /// The folder it lies in.
    pub fn folder(&self, state_dir: &Path) -> PathBuf {
        self.directory.clone().unwrap_or_else(|| state_dir.join("cache"))
    }

    pub(crate) fn bounds(&self, records: usize) -> DiskBounds {
        let bytes = self.size_mb * MB;
        DiskBounds { bytes, segment: (bytes / 32).clamp(MB, 16 * MB), records }
    }

    /// The largest answer that is written, in bytes.
    pub fn largest(&self) -> u64 {
        self.bounds(0).largest()
    }

    pub(super) fn check(&self) -> Result<(), Wrong> {
        let bounds =
            [("size_mb", self.size_mb, 8, MB), ("write_mb_per_day", self.write_mb_per_day, 1, MB)];
        for (key, value, least, most) in bounds {
            if !(least..=most).contains(&value) {
                let text =
                    format!("`{key}` is {value}, but it must lie between {least} and {most}");
                return wrong(format!("cache.disk.{key}"), text);
            }
        }
        Ok(())
    }
}
