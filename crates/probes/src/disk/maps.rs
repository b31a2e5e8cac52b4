//! What stands in the maps: the structs of `bpf/disk.h`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use nightwatt_energy::storage::{Device, File, Process, Traffic, Whose};
use nightwatt_energy::time::Mono;

use crate::loaded::{half_word, word};

/// Steps of a path, and bytes of each.
const STEPS: usize = 8;
const STEP: usize = 64;

/// Where in `struct known` the number of steps stands, and where the path begins.
const NAMED: usize = 16;
const PATH: usize = 24;

/// Where the command stands in `struct sums`.
const COMMAND: usize = 120;

/// What was not counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lost {
    /// Bytes that found no room, and are in no sum.
    pub sums: u64,
    /// Bytes whose owner may be told wrongly.
    pub pages: u64,
    /// Blocks, folios and requests that the kernel did not report.
    pub events: u64,
}

impl Lost {
    /// `struct lost`.
    pub(super) fn of(value: &[u8]) -> Self {
        Self { sums: word(value, 0), pages: word(value, 1), events: 0 }
    }
}

/// `struct whose`.
pub(super) fn whose(key: &[u8]) -> Whose {
    Whose {
        file: File {
            inode: word(key, 0),
            device: Device(half_word(key, 8)),
            generation: half_word(key, 12),
        },
        process: Process { pid: half_word(key, 16), started: half_word(key, 20) },
    }
}

/// `struct file`.
pub(super) fn file_key(file: File) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&file.inode.to_ne_bytes());
    key[8..12].copy_from_slice(&file.device.0.to_ne_bytes());
    key[12..].copy_from_slice(&file.generation.to_ne_bytes());
    key
}

/// `struct sums`, less when and who.
pub(super) fn traffic(value: &[u8]) -> Traffic {
    Traffic {
        dirtied: word(value, 0),
        dropped: word(value, 1),
        written: word(value, 2),
        direct: word(value, 3),
        read: word(value, 4),
        journal: word(value, 5),
        metadata: word(value, 6),
        swap: word(value, 7),
        stacked: word(value, 8),
        stacked_read: word(value, 9),
        bursts: word(value, 10),
        read_bursts: word(value, 11),
    }
}

/// When a sum was changed last.
pub(super) fn last(value: &[u8]) -> Mono {
    Mono(Duration::from_nanos(word(value, 12)))
}

pub(super) fn command(value: &[u8]) -> String {
    text(value.get(COMMAND..).unwrap_or_default())
}

/// The path of `struct known`, and whether that is all of it.
pub(super) fn path(value: &[u8]) -> Option<(String, bool)> {
    let steps = (half_word(value, NAMED) as usize).min(STEPS);
    let step = |number: usize| {
        let begin = PATH + STEP * number;
        let bytes = value.get(begin..begin + STEP).unwrap_or_default();
        // What is as long as there is room was longer.
        let cut = if bytes.iter().take(STEP - 1).all(|byte| *byte != 0) { "..." } else { "" };
        text(bytes) + cut
    };
    let path: Vec<String> = (0..steps).rev().map(step).collect();
    (steps > 0).then(|| (path.join("/"), steps < STEPS))
}

/// Up to the first zero.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    OsStr::from_bytes(&bytes[..end]).to_string_lossy().into_owned()
}
