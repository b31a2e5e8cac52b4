//! The kernel's half of `disk`: loaded, attached, read.

mod maps;

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

use libbpf_rs::{MapCore, MapFlags, OpenObject};
use nightwatt_energy::storage::{Device, File, Traffic, Whose};
use nightwatt_energy::time::Mono;

use crate::error::ProbeError;
use crate::loaded::{Aligned, Loaded, refused};

pub use maps::Lost;

static PROGRAM: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/disk.bpf.o")));

/// Entries untouched for this long leave the kernel's table, so that there is room for others. If
/// the table has more than `FEW` entries, those untouched for a `MOMENT` leave it.
const FORGET_AFTER: Duration = Duration::from_mins(1);
const FEW: usize = 8192;
const MOMENT: Duration = Duration::from_secs(2);

/// Folios that may be dirty at a time, whatever the machine's memory.
const MOST_DIRTY: u64 = 4 << 20;

/// Probes in place. They are taken out when this is dropped, and by the kernel if we are killed.
pub struct DiskProbes {
    loaded: Loaded,
    /// What was told of each pair of a process and a file that the kernel's table still holds.
    told: [HashMap<Whose, Traffic>; 2],
}

/// Requests last: whose pages they carry is to be known by then.
const PROGRAMS: [&str; 4] = ["on_block", "on_folio", "on_delete", "on_request"];

/// Which table of the kernel's half a sum is in.
const TABLES: [&str; 2] = ["sums", "folded"];

/// What a process has done to a file since it was told last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct News {
    /// Who, and to what.
    pub whose: Whose,
    /// The process's command, as the kernel keeps it; empty where it is not known.
    pub command: String,
    /// What it did.
    pub traffic: Traffic,
}

impl DiskProbes {
    /// Loads the programs. Nothing is counted before [`Self::start`].
    pub fn load() -> Result<Self, ProbeError> {
        let loaded = Loaded::load("disk", PROGRAM, prepare)?;
        Ok(Self { loaded, told: [HashMap::new(), HashMap::new()] })
    }

    /// From here on it counts.
    pub fn start(&mut self) -> Result<(), ProbeError> {
        self.loaded.attach(&PROGRAMS, "watch the page cache and the block layer")
    }

    /// These devices carry others as a whole (device mapper, RAID): what processes send on to them is
    /// not theirs a second time.
    pub fn set_carriers(&self, devices: &[Device]) -> Result<(), ProbeError> {
        let map = self.loaded.map("carriers");
        for device in devices {
            let set = map.update(&device.0.to_ne_bytes(), &[1], MapFlags::ANY);
            set.map_err(refused("take the devices that carry others"))?;
        }
        Ok(())
    }

    /// What happened since this was asked last, by `CLOCK_MONOTONIC`.
    pub fn news(&mut self, now: Mono) -> Result<Vec<News>, ProbeError> {
        let mut news = Vec::new();
        for (table, told) in TABLES.into_iter().zip(&mut self.told) {
            let map = self.loaded.map(table);
            // Read all keys before taking anything out: removal restarts the iteration. (Reading in
            // batches does not work: libbpf-rs 0.27 treats a batch that is not full as the last
            // one, and the kernel fills none beyond a bucket's end.)
            let keys: Vec<Vec<u8>> = map.keys().collect();
            let max_age = if keys.len() > FEW { MOMENT } else { FORGET_AFTER };
            for key in keys {
                let value = map.lookup(&key, MapFlags::ANY).map_err(refused("tell its sums"))?;
                let Some(mut value) = value else { continue };
                let is_old = now.since(maps::last(&value)) > max_age;
                if is_old {
                    // Whatever was added in between comes with it.
                    let last = map.lookup_and_delete(&key).map_err(refused("tell its sums"))?;
                    value = last.unwrap_or(value);
                }
                let (whose, sums) = (maps::whose(&key), maps::traffic(&value));
                let before = if is_old { told.remove(&whose) } else { told.insert(whose, sums) };
                let traffic = sums.since(&before.unwrap_or_default());
                if traffic != Traffic::default() {
                    news.push(News { whose, command: maps::command(&value), traffic });
                }
            }
        }
        Ok(news)
    }

    /// A file's path from the root of its file system; whether that is all of it. None where it was
    /// forgotten, or has no name.
    pub fn path(&self, file: File) -> Result<Option<(String, bool)>, ProbeError> {
        let known = self.loaded.map("files").lookup(&maps::file_key(file), MapFlags::ANY);
        Ok(known.map_err(refused("tell a file's name"))?.and_then(|value| maps::path(&value)))
    }

    /// What was not counted, since the beginning.
    pub fn lost(&self) -> Result<Lost, ProbeError> {
        let bss = self.loaded.map("disk.bss").lookup(&0_u32.to_ne_bytes(), MapFlags::ANY);
        let bss = bss.map_err(refused("tell what it lost"))?.unwrap_or_default();
        Ok(Lost { events: self.loaded.missed(&PROGRAMS), ..Lost::of(&bss) })
    }
}

/// Room for as many dirty pages as this machine's memory lets there be.
fn prepare(object: &mut OpenObject) -> Result<(), libbpf_rs::Error> {
    let page = rustix::param::page_size() as u64;
    let most = (memory() * dirty_percent() / 100 / page).clamp(1 << 16, MOST_DIRTY) as u32;
    for mut map in object.maps_mut() {
        if map.name() == "folios" {
            map.set_max_entries(most)?;
        } else if map.name() == "pages" {
            // Of folios that several have written to.
            map.set_max_entries(most / 8)?;
        } else if map.name() == "disk.data"
            && let Some(page_shift) = map.initial_value_mut()
        {
            page_shift[..4].copy_from_slice(&page.trailing_zeros().to_ne_bytes());
        }
    }
    Ok(())
}

/// The share of memory that may be dirty at a time, and some more. Writers are blocked beyond it.
fn dirty_percent() -> u64 {
    let text = fs::read_to_string("/proc/sys/vm/dirty_ratio").unwrap_or_default();
    match text.trim().parse() {
        // The limit is one in bytes, or not known.
        Ok(0) | Err(_) => 50,
        Ok(percent) => (percent + 5).min(100),
    }
}

/// The machine's memory, bytes.
fn memory() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(1 << 20) << 10
}
