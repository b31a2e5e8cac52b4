//! Everything that decides: no clock, files, sockets or threads. Time is an argument, and actions are return
//! values. `cargo xtask tidy` checks it for this folder, and for `discover`.

pub use nightwatt_httpcache::Timestamp;

pub mod address;
pub mod admit;
pub mod bypass;
pub mod complete;
pub mod coverage;
pub mod entry;
pub mod negotiate;
pub mod own_use;
pub mod plan;
pub mod popularity;
pub mod reason;
pub mod refresh;
pub mod refused_addresses;
pub mod represent;
pub mod robots;
pub mod traps;
