//! Places in which a workload can run, and settings of the host, each with a certain end.
mod error;
pub mod guard;
pub mod shell;
mod tool;

pub use error::Error;
