//! What sleeping saves: on a log, in a pool of servers, and in the published configurations.

pub mod analyze;
mod error;
pub mod fleet;
pub mod published;
mod resources;
mod warnings;

pub use self::error::Error;
pub use self::warnings::skipped;
