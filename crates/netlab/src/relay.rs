//! A wire between two cards that delays frames, for kernels without netem.
//!
//! Each end of the link is a TAP card in its own network namespace; this process is the wire. It costs
//! CPU time on the same machine, which is no side's: it is counted apart.

mod line;
mod tap;

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use nightwatt_clock::meter::{Stop, Woken, monotonic};
use nightwatt_energy::time::Mono;
use rustix::event::epoll;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde::{Deserialize, Serialize};

pub use line::{Counts, Line, LinkEmulation};

use super::Error;

/// Room for a frame of 1500 bytes and its head, and for one with tags.
const FRAME: usize = 2048;

/// Frames taken from one card before the other has its turn.
const BATCH: usize = 64;

/// The two cards of a relay, and what it does to frames between them.
#[derive(Debug, Clone)]
pub struct Relay {
    /// Files that name network namespaces: `/proc/123/ns/net`.
    pub namespaces: [PathBuf; 2],
    /// What each card is called.
    pub card: String,
    /// From the first to the second, and back.
    pub ways: [LinkEmulation; 2],
}

/// What has happened to frames, from the first to the second and back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Relayed {
    /// In each direction.
    pub ways: [Counts; 2],
}

impl Relay {
    /// Makes the cards, says that they are there, and is their wire until it is told to stop.
    pub fn run(
        &self,
        stop: &Stop,
        ready: impl FnOnce() -> io::Result<()>,
    ) -> Result<Relayed, Error> {
        let card = |namespace: &Path| {
            let what = format!("make a card in the network of {}", namespace.display());
            make_in(namespace, &self.card).map_err(Error::system(what))
        };
        let [first, second] = &self.namespaces;
        let cards = [card(first)?, card(second)?];
        let to_error = || Error::system("relay frames");
        // What waits for a deadline is woken within 50 µs of it otherwise.
        let _ = nix::sys::prctl::set_timerslack(1);
        let both =
            epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|error| to_error()(error.into()))?;
        for card in &cards {
            let data = epoll::EventData::new_u64(0);
            epoll::add(&both, card, data, epoll::EventFlags::IN)
                .map_err(|error| to_error()(error.into()))?;
        }
        ready().map_err(to_error())?;
        let mut lines = self.ways.map(Line::new);
        let mut buffer = vec![0; FRAME];
        loop {
            let next = lines.iter().filter_map(Line::due).min();
            if stop.readable_until(both.as_fd(), next.unwrap_or(Mono::NEVER)) == Woken::Stopped {
                return Ok(Relayed { ways: lines.map(|line| line.counts()) });
            }
            for (card, line) in cards.iter().zip(&mut lines) {
                take_in(card, line, &mut buffer).map_err(to_error())?;
            }
            let mut opposite = cards.iter().rev();
            for line in &mut lines {
                let Some(mut card) = opposite.next() else { break };
                // A card that is down takes nothing; on a wire it would be lost as well.
                while line.depart(monotonic(), |frame| drop(card.write(frame))) {}
            }
        }
    }
}

fn take_in(mut card: &File, line: &mut Line, buffer: &mut [u8]) -> io::Result<()> {
    for _ in 0..BATCH {
        match card.read(buffer) {
            Ok(length) => line.offer(monotonic(), &buffer[..length]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            // The card is down, or not yet up.
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error()) => {
                break;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Makes a card in another network namespace; this thread is in there from now on.
fn make_in(namespace: &Path, card: &str) -> io::Result<File> {
    let enter = |path: &Path| -> io::Result<()> {
        let file = File::open(path)?;
        Ok(move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?)
    };
    enter(namespace)?;
    tap::make(card)
}
