//! `init`: a first configuration.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{ValueEnum, ValueHint};

/// `init`. What is said here is not asked.
#[derive(Debug, clap::Args)]
pub(crate) struct InitArgs {
    /// Where the server answers: `http://10.0.0.5:8080`
    #[arg(long, value_name = "URL")]
    pub(crate) origin: Option<String>,
    /// A name by which people ask for it; may be given several times [default: any]
    #[arg(long = "host", value_name = "NAME")]
    pub(crate) hosts: Vec<String>,
    /// Where to listen; may be given several times [default: port 80 of all addresses]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Vec<SocketAddr>,
    /// How the server is woken and put to sleep [default: agent; for a server on this machine systemd, or process
    /// where systemd does not run]
    #[arg(long, value_name = "HOW", value_enum)]
    pub(crate) power: Option<PowerChoice>,
    /// What belongs to that: a MAC address (agent, ssh), a unit, a container, a command line [default: the
    /// MAC address that this machine knows of the server]
    #[arg(long, value_name = "WHAT")]
    pub(crate) target: Option<String>,
    /// What the server draws awake and asleep, in watts: `43.3,1.6`
    #[arg(long, value_name = "ON,OFF")]
    pub(crate) watts: Option<String>,
    /// What kind of site it is: whether every visitor who is not logged in sees the same [default: unsure]
    #[arg(long, value_name = "KIND", value_enum)]
    pub(crate) kind: Option<KindChoice>,
    /// Propose a kind for each site of a configuration that has none, by what the disk cache holds; write it
    /// with `--force`
    #[arg(long)]
    pub(crate) upgrade: bool,
    /// The file to write
    #[arg(short, long, value_name = "FILE", default_value = "nightwatt.toml", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,
    /// Ask nothing: what is not said is as proposed
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Write over a file that is there
    #[arg(long)]
    pub(crate) force: bool,
}

/// What kind of site it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum KindChoice {
    /// Every visitor who is not logged in sees the same: a blog, documentation, a wiki
    Pages,
    /// What is shown depends on who asks: Nextcloud, Jellyfin, an API
    App,
    /// Nothing is assumed: only what the server marks as cacheable is kept
    Unsure,
}

/// How a server is woken and put to sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PowerChoice {
    /// Woken by a magic packet, put to sleep by its nightwatt agent
    Agent,
    /// Woken by a magic packet, put to sleep by ssh
    Ssh,
    /// A unit of systemd on this machine
    Systemd,
    /// A container of Docker on this machine
    Docker,
    /// A process on this machine
    Process,
}

pub(super) const EXAMPLES: &str = "\
Examples:
  nightwatt init                                   # asks six questions
  nightwatt init -o /etc/nightwatt/nightwatt.toml
  nightwatt init --yes --origin http://10.0.0.5:8080 --host blog.example.org --kind pages
  nightwatt init --yes --origin http://127.0.0.1:8080 --power systemd --target nginx
  nightwatt init --yes --origin http://127.0.0.1:8081 --listen 127.0.0.1:8080 \\
    --power process --target 'python3 -m http.server 8081 --bind 127.0.0.1'
  nightwatt init --upgrade -o /etc/nightwatt/nightwatt.toml

The server is looked at (does it answer? which MAC address has it?), so let it be awake. A file that is
there is not written over unless you say so.";
