//! When threads ran, piece by piece: what `bpf/runs.h` tells.

use std::sync::mpsc::{Receiver, channel};

use libbpf_rs::{MapCore, MapFlags, OpenObject, RingBuffer, RingBufferBuilder};
use nightwatt_energy::markers::{Run, RunEnd, ThreadId};

use crate::error::ProbeError;
use crate::loaded::{Loaded, half_word, refused, word};

/// Bytes that wait for us: some 150,000 pieces.
const SIZE: u32 = 8 << 20;

/// Pieces as they come.
pub(super) struct Runs {
    ring: RingBuffer<'static>,
    receiver: Receiver<Run>,
}

/// Makes room for them.
pub(super) fn prepare(object: &mut OpenObject) -> Result<(), libbpf_rs::Error> {
    let mut maps = object.maps_mut();
    maps.find(|map| map.name() == "runs").map_or(Ok(()), |mut map| map.set_max_entries(SIZE))
}

impl Runs {
    /// From here on they are told.
    pub(super) fn start(loaded: &Loaded) -> Result<Self, ProbeError> {
        let cannot = || refused("tell when threads run");
        let (sender, receiver) = channel();
        let map = loaded.map("runs");
        let mut builder = RingBufferBuilder::new();
        let take = move |bytes: &[u8]| {
            // The receiver lives as long as the ring.
            let _ = sender.send(run_of(bytes));
            0
        };
        builder.add(&map, take).map_err(cannot())?;
        let ring = builder.build().map_err(cannot())?;
        let wanted = [1_u64.to_ne_bytes(), 0_u64.to_ne_bytes()].concat();
        let zero = 0_u32.to_ne_bytes();
        loaded.map("wanted").update(&zero, &wanted, MapFlags::ANY).map_err(cannot())?;
        Ok(Self { ring, receiver })
    }

    /// Those told since the last time.
    pub(super) fn take(&self) -> Result<Vec<Run>, ProbeError> {
        self.ring.consume().map_err(refused("tell when threads ran"))?;
        Ok(self.receiver.try_iter().collect())
    }
}

/// Pieces that found no room.
pub(super) fn lost(loaded: &Loaded) -> Result<u64, ProbeError> {
    let value = loaded.map("wanted").lookup(&0_u32.to_ne_bytes(), MapFlags::ANY);
    let value = value.map_err(refused("tell what it lost"))?;
    Ok(value.map_or(0, |value| word(&value, 1)))
}

/// `struct run`.
fn run_of(bytes: &[u8]) -> Run {
    Run {
        begin: word(bytes, 0),
        end: word(bytes, 1),
        ran: word(bytes, 2),
        thread: ThreadId { process: half_word(bytes, 24), thread: half_word(bytes, 28) },
        then: match half_word(bytes, 32) {
            0 => RunEnd::Runs,
            1 => RunEnd::Preempted,
            2 => RunEnd::Waits,
            _ => RunEnd::Gone,
        },
    }
}
