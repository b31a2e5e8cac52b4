//! The receiver.
//!
//! ```text
//!   session   messages in, messages out, what is written where; knows no socket and no file
//!   access    errors, permissions and attributes of the file system
//!   folder    files below a folder: temporary names, then the final ones
//!   pipe      one file, to another program
//!   journal   what was written, so that a later attempt goes on from there
//!   life      how long the kernel keeps what was written
//!   remove    what the sender no longer has
//!   trial     what would be done
//!   run       a session over a pair of streams
//! ```

mod access;
mod folder;
mod journal;
mod life;
mod pipe;
mod remove;
mod run;
mod session;
mod trial;

pub use folder::Folder;
pub use pipe::Pipe;
pub use run::{Gauges, ReceiveError, Received, SILENCE, refuse, run, run_metered};
pub use session::{Clocks, Options, Outcome, Receiver, SessionError, Standing, Store, StoreError};

#[cfg(test)]
mod tests;
