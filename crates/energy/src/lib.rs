//! Energy as data: quantities with units and origin, time as an argument, readings and what becomes of them, statistics.
//!
//! Nothing in this crate reads a clock, opens a file or a socket, or starts a thread: the time comes in as an argument.

pub mod attribution;
pub mod civil;
pub mod display;
pub mod duration_text;
pub mod energy;
pub mod histogram;
pub mod integration;
pub mod least_squares;
pub mod markers;
pub mod power_model;
pub mod power_states;
pub mod quantity;
pub mod samples;
pub mod sections;
pub mod stats;
pub mod storage;
pub mod time;
pub mod uncertainty;
pub mod wrapping_counter;
pub mod zone;
