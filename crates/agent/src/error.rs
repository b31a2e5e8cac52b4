//! What can go wrong, and what to try next.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error as ThisError;

/// The agent cannot be set up, or cannot be asked.
#[derive(Debug, ThisError)]
pub enum Error {
    /// A configuration cannot be read.
    #[error("cannot read {}", .path.display())]
    ConfigFile {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// What it says cannot be.
    #[error("{name}: {message}")]
    Config {
        /// The file, and the line if it is known.
        name: String,
        /// What is wrong, and what would be right.
        message: String,
    },
    /// A key cannot be read.
    #[error("cannot read the key {}", .path.display())]
    KeyFile {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Others can read a key.
    #[error("the key {} can be read by everybody (mode {mode:03o})", .path.display())]
    KeyExposed {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// A file holds no key.
    #[error("{} is no key: {why}", .path.display())]
    KeyText {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Two proxies have one key.
    #[error("the proxies `{first}` and `{second}` have the same key")]
    KeyShared {
        /// Name of the one.
        first: String,
        /// Name of the other.
        second: String,
    },
    /// An address cannot be listened on.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The state directory is of no use.
    #[error("cannot use {}", .path.display())]
    State {
        /// The directory, or a file in it.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The agent does not answer.
    #[error("the agent at {address} did not answer within {limit:?}")]
    Silent {
        /// Where it should be.
        address: SocketAddr,
        /// How long it was asked.
        limit: Duration,
    },
    /// The agent answers, but has something else to do.
    #[error("the agent at {address} was busy for {limit:?}")]
    Busy {
        /// Where it is.
        address: SocketAddr,
        /// How long it was asked.
        limit: Duration,
    },
    /// The operating system refused.
    #[error("cannot {attempt}")]
    System {
        /// What was attempted.
        attempt: String,
        /// Why not.
        source: io::Error,
    },
}

impl Error {
    /// What to try next, as an imperative.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::ConfigFile { .. } => {
                "`-c FILE` says where it is; docs/agent.md and `nightwatt agent --help` show one"
            }
            Self::Config { .. } => "docs/agent.md lists what can be set",
            Self::KeyFile { source, .. } => match source.kind() {
                io::ErrorKind::NotFound => {
                    "make one with `nightwatt agent key -o FILE`, and copy it to the other machine over \
                     an encrypted connection (`scp`)"
                }
                _ => "let the user that nightwatt runs as read it, and no other user",
            },
            Self::KeyExposed { .. } => {
                "`chmod 600` it; if others had access to this machine, make a new one with \
                 `nightwatt agent key`"
            }
            Self::KeyText { .. } => {
                "make one with `nightwatt agent key -o FILE`, and use the same file on both machines"
            }
            Self::KeyShared { .. } => {
                "each proxy is recognised by its key: give each `[[proxy]]` its own (`nightwatt agent key \
                 -o FILE`), or leave one of the two out"
            }
            Self::Listen { source, .. } => match source.kind() {
                io::ErrorKind::AddrInUse => {
                    "is another agent running? `ss -ulpn` shows who has the port"
                }
                io::ErrorKind::AddrNotAvailable => {
                    "give an address of this machine (`ip address`); one that comes up later needs \
                     `After=network-online.target`"
                }
                _ => "choose an address and a port above 1023",
            },
            Self::State { .. } => {
                "make it a directory that the agent's user may write, or configure another"
            }
            Self::Silent { .. } => {
                "is the machine awake? does `nightwatt agent` run there (`systemctl status \
                 nightwatt-agent`), and listen on this address? does a firewall let UDP through? have \
                 both the same key? (an agent ignores requests with another key; its log counts them)"
            }
            Self::Busy { .. } => "`nightwatt agent log` there says with what; a script may hang",
            Self::System { .. } => "check the permissions and limits of nightwatt's user",
        }
    }
}
