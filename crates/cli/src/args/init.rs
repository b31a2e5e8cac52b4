//! `init`: a first configuration.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{ValueEnum, ValueHint};

/// `init`. It asks no question that an option answers.
#[derive(Debug, clap::Args)]
pub(crate) struct InitArgs {
    /// Address of the server: `http://10.0.0.5:8080`
    #[arg(long, value_name = "URL")]
    pub(crate) origin: Option<String>,
    /// Host name of the site; may be given several times [default: any]
    #[arg(long = "host", value_name = "NAME")]
    pub(crate) hosts: Vec<String>,
    /// Address to listen on; may be given several times [default: port 80 of all addresses]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Vec<SocketAddr>,
    /// How the server is woken and put to sleep [default: agent; for a server on this machine systemd, or process
    /// where systemd does not run]
    #[arg(long, value_name = "HOW", value_enum)]
    pub(crate) power: Option<PowerChoice>,
    /// Target of `--power`: a MAC address (agent, ssh), a unit, a container, or a command line [default: the
    /// server's MAC address, if this machine knows it]
    #[arg(long, value_name = "WHAT")]
    pub(crate) target: Option<String>,
    /// Power of the server awake and asleep, in watts: `43.3,1.6`
    #[arg(long, value_name = "ON,OFF")]
    pub(crate) watts: Option<String>,
    /// Kind of the site: does every visitor who is not logged in see the same? [default: unsure]
    #[arg(long, value_name = "KIND", value_enum)]
    pub(crate) kind: Option<KindChoice>,
    /// Propose a kind for each site of a configuration that has none, from the contents of the disk cache. Writes
    /// it only with `--force`
    #[arg(long)]
    pub(crate) upgrade: bool,
    /// The file to write
    #[arg(short, long, value_name = "FILE", default_value = "nightwatt.toml", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,
    /// Ask nothing, and use the proposed answers
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Overwrite an existing file
    #[arg(long)]
    pub(crate) force: bool,
}

/// What kind of site it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum KindChoice {
    /// Every visitor who is not logged in sees the same: a blog, documentation, a wiki
    Pages,
    /// Answers depend on the user: Nextcloud, Jellyfin, an API
    App,
    /// Unknown: keep only answers that the server marks as cacheable
    Unsure,
}

/// How a server is woken and put to sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PowerChoice {
    /// Woken by a magic packet, put to sleep by its nightwatt agent
    Agent,
    /// Woken by a magic packet, put to sleep by ssh
    Ssh,
    /// A systemd unit on this machine
    Systemd,
    /// A Docker container on this machine
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

`init` contacts the server to find out whether it answers and which MAC address it has, so the
server must be awake. It asks before it overwrites a file, unless you give `--force`.";
