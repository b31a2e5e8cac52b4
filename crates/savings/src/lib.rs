//! Calculates what sleeping saves, and which visitors it delays: on an access log ([`analyze`]), in a pool of
//! servers ([`fleet`]), and in the published configurations ([`published`]).
//!
//! It is for operators who want to know before they change anything: no server is touched, nothing is measured.
//! `nightwatt_traffic` reads logs, and `nightwatt_sim` simulates with the policies of `nightwatt_policy` that
//! `serve` runs.

pub mod analyze;
mod error;
pub mod fleet;
mod gaps;
pub mod published;
mod resources;
pub mod scenario_file;
pub mod summary;
mod warnings;

pub use self::error::Error;
pub use self::warnings::skipped;
