//! Memory for the bodies of mirrored answers, until clients have got them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nightwatt_clock::Clock;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// KiB of all bodies together.
const KIB: u32 = 128 << 10;

/// Bodies up to this need no place: the limits of connections bound them.
const SMALL: u64 = 256 << 10;

/// A request that finds no place for this long goes to the server.
const LONGEST: Duration = Duration::from_secs(5);

/// The memory of one site.
#[derive(Debug, Clone)]
pub(super) struct Room(Arc<Semaphore>);

/// A place in it, free again when it is dropped.
#[derive(Debug)]
pub(super) struct Place(Option<OwnedSemaphorePermit>);

/// A body in its place.
struct Held {
    bytes: Bytes,
    _place: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Default for Room {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(KIB as usize)))
    }
}

impl Room {
    /// A place for a body of this length; nothing if none is free in time.
    pub(super) async fn take(&self, length: u64, clock: &Clock) -> Option<Place> {
        if length <= SMALL {
            return Some(Place(None));
        }
        let taking = Arc::clone(&self.0).acquire_many_owned(kib(length));
        // The semaphore is never closed.
        clock.timeout(LONGEST, taking).await.ok()?.ok().map(|permit| Place(Some(permit)))
    }
}

impl Place {
    /// The body, which keeps its place until the last part of it is dropped.
    pub(super) fn hold(self, bytes: Bytes) -> Bytes {
        let Some(mut place) = self.0 else { return bytes };
        let needed = kib(bytes.len() as u64) as usize;
        if bytes.is_empty() {
            return bytes;
        }
        // For its making it needed more, if it is a part or packed.
        drop(place.split(place.num_permits().saturating_sub(needed)));
        Bytes::from_owner(Held { bytes, _place: place })
    }
}

/// No body needs more than there is: then it is alone.
fn kib(length: u64) -> u32 {
    u32::try_from(length.div_ceil(1024)).map_or(KIB, |kib| kib.min(KIB))
}

#[cfg(test)]
mod tests {
    use nightwatt_energy::time::Wall;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn on_virtual_time(play: impl AsyncFnOnce(Clock)) {
        let clock = Clock::virtual_at(Wall::from_secs(0), 0);
        clock.runtime().unwrap().block_on(play(clock.clone()));
    }

    fn free(room: &Room) -> usize {
        room.0.available_permits()
    }

    #[test]
    fn a_body_keeps_its_place_until_the_last_part_of_it_is_sent() {
        on_virtual_time(async |clock| {
            let room = Room::default();
            let place = room.take(60 * MIB, &clock).await.unwrap();
            assert_eq!(free(&room), (68 << 10));
            let body = place.hold(vec![1; MIB as usize].into());
            assert_eq!(free(&room), (127 << 10), "a part needs less than the whole");
            let part = body.slice(5..10);
            drop(body);
            assert_eq!((free(&room), part.as_ref()), ((127 << 10), &[1; 5][..]));
            drop(part);
            assert_eq!(free(&room), (128 << 10));
        });
    }

    #[test]
    fn who_finds_no_place_waits_for_a_while_and_small_bodies_need_none() {
        on_virtual_time(async |clock| {
            let room = Room::default();
            let huge = room.take(1 << 50, &clock).await.unwrap();
            assert_eq!(free(&room), 0);
            let before = clock.now().mono;
            assert!(room.take(MIB, &clock).await.is_none());
            assert_eq!(clock.now().mono.since(before), LONGEST);
            assert!(room.take(SMALL, &clock).await.is_some());
            drop(huge);
            assert!(room.take(MIB, &clock).await.is_some());
            // A body that turns out to be empty (HEAD, 304) needs no place.
            let place = room.take(MIB, &clock).await.unwrap();
            assert!(place.hold(Bytes::new()).is_empty());
            assert_eq!(free(&room), (128 << 10));
        });
    }
}
