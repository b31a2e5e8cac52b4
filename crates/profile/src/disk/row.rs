//! The row of a process and a file.

use serde::Serialize;

/// One process and one file. Bytes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DiskRow {
    /// The process; `None` if unknown, or if several were merged.
    pub pid: Option<u32>,
    /// Its command.
    pub command: String,
    /// The device.
    pub device: String,
    /// The file's number there; none of what is no file's.
    pub inode: Option<u64>,
    /// The file; none where it is not known.
    pub path: Option<String>,
    /// Pairs of a process and a file that were merged into this row, because the table was full.
    pub folded: u64,
    /// The device whose content this file is; its rows have the energy.
    pub carries: Option<String>,
    /// Made dirty in the page cache.
    pub dirtied: u64,
    /// Of that, gone before it was written.
    pub dropped: u64,
    /// From the page cache to the device.
    pub written: u64,
    /// Of what was dirtied and not dropped, written so far, %; none where nothing was.
    pub on_device_percent: Option<f64>,
    /// Past the page cache.
    pub direct: u64,
    /// Read from the device.
    pub read: u64,
    /// Bursts of writing.
    pub bursts: u64,
    /// Bursts of reading.
    pub read_bursts: u64,
    /// Energy above the device's idle state; none where its kind is not known.
    pub joules: Option<f64>,
    /// How far that may be off, at 95 %.
    pub uncertainty_j: Option<f64>,
}
