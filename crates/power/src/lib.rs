//! Power controllers: drivers that wake servers and put them to sleep.
//!
//! A [`Controller`] issues the command; a [`Probe`](probe::Probe) says whether the server answers.
//! When to wake and when to sleep is decided elsewhere (crate `policy`).
//!
//! # Adding a driver
//!
//! One file with a `Config`, its `build` and its `facts`; its `pub mod` here, and a line in the list in `drivers`.
//! ARCHITECTURE.md ("To add a controller") has the tests and docs.
//!
//! # Time
//!
//! Processes, shell commands and sockets live in real time, even when the [`Clock`] is virtual: a caller
//! that awaits one holds a [`Debt`](nightwatt_clock::Debt), so virtual time stands still, and times out in
//! real time. Only `simulated` lets the clock's time pass; a caller that holds a debt calls it through
//! [`Clock::parked`].

mod container;
mod drivers;
pub mod engine;
mod error;
mod facts;
mod helper;
pub mod neighbour;
mod pair;
mod password;
pub mod probe;
mod program_error_hints;
mod rewake;
mod risks;
mod tool;

// One file per driver.
pub mod agent;
pub mod command;
pub mod docker;
pub mod gpio;
pub mod ipmi;
pub mod libvirt;
pub mod podman;
pub mod process;
pub mod qemu;
pub mod redfish;
pub mod simulated;
pub mod ssh;
pub mod systemd;
pub mod wol;

use std::fmt::{Debug, Write};
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;

use nightwatt_clock::Clock;

pub use drivers::{ControllerConfig, DRIVERS, Driver, DriverConfig};
pub use error::{ConfigError, Error};
pub use facts::{ContainerOf, Program};
pub use nightwatt_host::tls::Fingerprint;

/// What a controller is doing, boxed so that controllers can be trait objects.
pub type Work<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// What a driver hears of its server, without having asked.
pub type News<'a> = Pin<Box<dyn Future<Output = Heard> + Send + 'a>>;

/// How one server is woken and put to sleep.
///
/// Every method ends: what can hang has a time-out. Each may be called at any time, in any state
/// and again: to wake what is awake is a success. To drop the work before it is done is allowed;
/// helper processes are then killed, and the next call finds out how far it had come.
pub trait Controller: Debug + Send + Sync {
    /// Issues the command to wake; ends when that is done or was accepted. The server may need much
    /// longer until it answers: ask a [`Probe`](probe::Probe).
    fn wake(&self) -> Work<'_, ()>;

    /// Issues the command to sleep; ends when that is done or was accepted.
    fn sleep(&self) -> Work<'_, ()>;

    /// What the controller itself can tell (does the process live?), without changing anything.
    fn state(&self) -> Work<'_, Observed>;

    /// Does [`state`](Self::state) ask something other than the server itself: its host, its management
    /// controller, the kernel? Then the proxy can check a sleeping server without disturbing it.
    fn asks_others(&self) -> bool {
        false
    }

    /// Called when its site is gone from the configuration, while the server stays as it is: what was started only for
    /// the server may end.
    fn leave(&self) {}

    /// Does nothing, over the same channel as commands, so that its cost is that of the channel. By default
    /// it asks for the state.
    fn nothing(&self) -> Work<'_, ()> {
        Box::pin(async { self.state().await.map(|_| ()) })
    }

    /// Will the server say when it goes to sleep ([`Heard::Leaving`])? Then it is not asked meanwhile.
    fn announces_sleep(&self) -> bool {
        false
    }

    /// Called before each probe while the server wakes: drivers whose wake command may get lost on its
    /// way give it again when they think that it is time.
    fn remind(&self) -> Work<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Ends when the driver has heard news of the server that no request asked for. The last news is kept
    /// until a caller fetches it. Most drivers never hear anything.
    fn heard(&self) -> News<'_> {
        Box::pin(std::future::pending())
    }

    /// Called after each probe while the server wakes: an error if what the wake command started has ended, so
    /// that it cannot come up any more. Most drivers know only that it is not up yet.
    fn still_starts(&self) -> Work<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// What the driver controls: how much a probe of it can do and show while it is [`Observed::Down`].
    fn subject(&self) -> Subject {
        Subject::Machine
    }
}

/// What a driver controls. What answers a probe while it is down is another server, for all but a machine; each
/// kind allows more probes than the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// A machine: a probe may wake it, so it is not probed while another source knows that it sleeps.
    Machine,
    /// A unit: a probe may start it (socket activation), so it is not probed while it is to be down.
    Unit,
    /// A program on a machine that stays awake: a probe disturbs nothing.
    Program,
    /// A child of this process: nothing else can be at its port, and a probe of this machine costs no time.
    Child,
}

/// What a controller can tell of its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Observed {
    /// It runs; whether it already answers is for a probe to find out.
    Up,
    /// It does not run.
    Down,
    /// It stands still (paused, frozen): what connects to it is accepted by the kernel, and gets no answer.
    Frozen,
    /// The controller has no means to tell, or the server is between the two.
    Unknown,
}

/// What was heard of a server. That it is up is a hint, worth a probe; that it leaves is to be believed,
/// so a driver says so only if it knows who spoke.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// It goes to sleep at this moment, by itself or because it was told to: whatever is sent to it now
    /// may wake it.
    Leaving,
    /// It is up: it has resumed or started.
    Back,
    /// It said that it goes, and did not fall asleep.
    StayedAwake,
    /// What the driver had started ended by itself.
    Ended,
}

/// What a driver needs to know besides its own configuration.
#[derive(Debug, Clone)]
pub struct Context {
    /// Real or virtual time.
    pub clock: Clock,
    /// Where state that must outlive the proxy is kept; made when missing.
    pub state_dir: PathBuf,
    /// Name of the site that the server serves: in messages, file names and environments.
    pub site: String,
}

impl Context {
    /// The file of this site in the state directory whose name ends so. Names with characters that
    /// file names should not have are written with `%`, so that two sites never share a file.
    fn file(&self, suffix: &str) -> PathBuf {
        let mut name = String::new();
        for byte in self.site.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
                    name.push(char::from(byte));
                }
                _ => {
                    let _ = write!(name, "%{byte:02x}");
                }
            }
        }
        self.state_dir.join(format!("{name}.{suffix}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_never_share_a_file() {
        let file = |site: &str| {
            let context = Context {
                clock: Clock::real(),
                state_dir: PathBuf::from("/var/lib/nightwatt"),
                site: site.to_owned(),
            };
            context.file("process.pid").display().to_string()
        };
        assert_eq!(file("www.example.org"), "/var/lib/nightwatt/www.example.org.process.pid");
        assert_eq!(file("a/b"), "/var/lib/nightwatt/a%2fb.process.pid");
        assert_eq!(file("a%2fb"), "/var/lib/nightwatt/a%252fb.process.pid");
        assert_eq!(file(".."), "/var/lib/nightwatt/...process.pid");
    }
}
