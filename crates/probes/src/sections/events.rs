//! Calls one by one: out of the kernel's ring.

use std::mem;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use libbpf_rs::{OpenObject, RingBuffer, RingBufferBuilder};
use nightwatt_energy::sections::CallEvent;

use super::{Extras, SectionProbes, maps};
use crate::error::ProbeError;
use crate::loaded::refused;

/// Calls that end, each by itself. There is one reader of a ring.
pub struct CallEvents {
    ring: RingBuffer<'static>,
    file: OwnedFd,
    taken: Arc<Mutex<Vec<CallEvent>>>,
}

impl CallEvents {
    /// Calls that are taken at a time, at most.
    pub const MOST: usize = 1 << 14;

    pub(super) fn of(probes: &SectionProbes) -> Result<Self, ProbeError> {
        let cannot = || refused("tell each call");
        let map = probes.loaded.map("calls");
        let taken = Arc::new(Mutex::new(Vec::new()));
        let theirs = Arc::clone(&taken);
        let mut builder = RingBufferBuilder::new();
        let take = move |record: &[u8]| {
            theirs.lock().unwrap_or_else(PoisonError::into_inner).push(maps::call_event(record));
            0
        };
        builder.add(&map, take).map_err(cannot())?;
        let ring = builder.build().map_err(cannot())?;
        let file = map.as_fd().try_clone_to_owned();
        let file = file.map_err(|error| cannot()(libbpf_rs::Error::from(error)))?;
        Ok(Self { ring, file, taken })
    }

    /// Those that have ended since; if there are [`Self::MOST`], there may be more.
    pub fn take(&mut self) -> Result<Vec<CallEvent>, ProbeError> {
        let result = self.ring.consume_raw_n(Self::MOST);
        if result < 0 {
            let error = libbpf_rs::Error::from_raw_os_error(-result);
            return Err(refused("tell each call")(error));
        }
        Ok(mem::take(&mut *self.taken.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

/// Readable when there are some. The kernel wakes a waiting reader when many have come; otherwise
/// the reader polls.
impl AsFd for CallEvents {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Before the programs are loaded: a ring of so many bytes (a power of two, and a page at least), or none.
pub(super) fn prepare(object: &mut OpenObject, extras: Extras) -> Result<(), libbpf_rs::Error> {
    let cpus = libbpf_rs::num_possible_cpus()?;
    for mut map in object.maps_mut() {
        if map.name() == "calls" {
            match extras.calls {
                Some(bytes) => map.set_max_entries(bytes)?,
                None => map.set_autocreate(false)?,
            }
        } else if map.name() == ".rodata.settings"
            && let Some(settings) = map.initial_value_mut()
        {
            let step_ns = extras.step.map_or(0, |step| step.as_nanos() as u64);
            settings[8..16].copy_from_slice(&step_ns.to_ne_bytes());
            let Some(bytes) = extras.calls else { continue };
            // The reader is woken while most of the ring is free, whichever CPUs have filled the rest: on
            // a busy machine it has to wait for a CPU.
            let wake_after = (bytes as usize / maps::CALL / cpus / 4).max(1) as u32;
            settings[..4].copy_from_slice(&1_u32.to_ne_bytes());
            settings[4..8].copy_from_slice(&wake_after.to_ne_bytes());
        }
    }
    Ok(())
}
