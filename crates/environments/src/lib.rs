//! Places in which a workload can run, and settings of the host, each with a certain end.
//!
//! An [`EnvironmentConfig`] says what a plan wants; it is [started](EnvironmentConfig::start) beneath a
//! [`Guard`](guard::Guard), which undoes what was done however we end; commands run in what was
//! [`Started`].
//!
//! # Adding a kind
//!
//! One file with a `Config` and its `start`, and one line in the list in `config`. A kind does what it
//! does by lines of the shell, run at a [`ShellTarget`]: so it works on this machine, on another one and in a
//! guest alike. Before a line makes something, [`protect`](guard::Guard::protect) is told the line that
//! undoes it.

mod common;
mod config;
mod engine;
mod error;
pub mod guard;
mod needs;
mod options;
mod process_scope;
mod remove;
mod root;
pub mod settings;
mod shell_target;
mod start;
mod started;
mod tool;

// One file per kind.
pub mod bubblewrap;
pub mod chroot;
pub mod docker;
pub mod host;
pub mod libvirt;
pub mod lxc;
pub mod netns;
pub mod nspawn;
pub mod podman;
pub mod qemu;
pub mod ssh;

pub use common::{COMMON_OPTIONS, Common, Memory};
pub use config::{EnvironmentConfig, EnvironmentKind, KINDS, KindConfig};
pub use engine::Network;
pub use error::Error;
pub use nightwatt_host::shell;
pub use shell_target::ShellTarget;
pub use started::Started;
