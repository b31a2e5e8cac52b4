//! Sends files with the compression that costs least energy, chosen block by block.
//!
//! [`pure`] decides which codec a block is sent with, [`codec`] packs and unpacks, and [`record`] records what that costs
//! on a machine, for replays. [`wire`] is the protocol, [`send`] and [`receive`] are its two ends; [`summary`] and
//! [`forecast`] are what they come to, [`ssh`] starts the receiver on another machine, and [`net`] reaches one that
//! listens.

pub mod codec;
pub mod forecast;
pub mod net;
pub mod pure;
pub mod receive;
pub mod record;
pub mod send;
pub mod ssh;
pub mod summary;
pub mod wire;
