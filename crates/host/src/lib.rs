//! What the crates that talk to hardware, programs and devices share, each in one place:
//!
//! - [`Host`]: `/sys`, `/proc` and `/dev` under a root that tests can move
//! - [`files::replace`]: a file replaced in one step
//! - [`secret`]: passwords from files and the environment
//! - [`shell`]: words and lines of the POSIX shell
//! - [`star`]: names with `*` for anything
//! - [`tool`]: other programs, with a time limit
//! - [`tls`] and [`http`]: connections to devices, management controllers and web servers
//! - [`preflight`]: what a command needs of this machine, and lacks
//! - [`proc_stat`]: what the kernel says of a process
//! - [`oom`]: how many processes the kernel has ended for lack of memory
//! - [`connections`]: established TCP connections
//! - [`calendar`]: events of iCalendar files
//! - [`text`]: the output of others, made safe to print, and bytes as text
//! - [`explained`]: errors as users read them
//! - [`spelling`]: words that are spelled alike
//! - [`lock`]: a mutex, even after a panic
//! - [`ConfigError`]: what is wrong with a configuration, with the line and an excerpt

pub mod calendar;
mod config_error;
pub mod connections;
pub mod explained;
pub mod files;
pub mod http;
pub mod oom;
mod poison;
pub mod preflight;
pub mod proc_stat;
mod real_time;
pub mod secret;
pub mod shell;
pub mod spelling;
pub mod star;
pub mod text;
pub mod tls;
pub mod tool;

pub use config_error::ConfigError;
pub use files::Host;
pub use poison::lock;
pub use real_time::within;
