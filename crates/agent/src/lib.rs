//! On the machine that sleeps: obeys its proxies, says what keeps it awake, wakes for what is due, and
//! keeps the record of when it was really asleep.
//!
//! ```text
//!  datagrams ──► authentication ──► sequence ──► actions: reply, record, announce      (this thread)
//!   (protocol)    who       in which    │
//!                           order       └─► worker: inhibitors, alarm, falling asleep
//! ```
//!
//! `protocol`, `authentication`, `sequence`, `announcer` and `dead_man` decide and are pure: time is an argument, and
//! what is to be done is returned. `daemon`, `worker` and the rest carry it out. Proxies use
//! [`client::ask`], and `protocol` for announcements.

pub mod announcer;
pub mod authentication;
pub mod client;
pub mod config;
mod daemon;
pub mod dead_man;
pub mod due;
mod error;
pub mod inhibit;
pub mod key;
mod program;
pub mod protocol;
pub mod record;
mod resumes;
pub mod rtc;
pub mod sequence;
mod worker;

pub use config::Config;
pub use daemon::{Agent, keys};
pub use error::Error;
pub use nightwatt_energy::civil::utc;
pub use nightwatt_host::Host;
