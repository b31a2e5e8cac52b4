//! `tcp lab`, and what it runs at the ends of its links.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Subcommand, ValueHint};

use super::measure::MeterArgs;
use crate::written;

/// `tcp lab`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct TcpLabArgs {
    /// What else to do
    #[command(subcommand)]
    pub(crate) step: Option<TcpLabStep>,
    /// Links by their names in the table: `d`, `a,d`, or `all`
    #[arg(long, value_name = "NAMES", default_value = "all")]
    pub(crate) scenario: String,
    /// A short form: 1 and 10 connections of 10 segments, a few runs of two seconds
    #[arg(long)]
    pub(crate) quick: bool,
    /// Of which figure, by its name in `--json`
    #[arg(long, value_name = "NAME", default_value = "lifetime")]
    pub(crate) until: String,
    /// Cards cut and join segments (TSO, GSO, GRO) as far as they can, instead of one frame for each
    #[arg(long)]
    pub(crate) offload: bool,
    /// Ask each CPU so often a second what runs there [default: 997], and say where its time and the energy of
    /// connections went (docs/tcp-where.md)
    #[arg(long = "where", value_name = "HZ", num_args = 0..=1, require_equals = true, default_missing_value = "997", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) kernel_time: Option<u32>,
    /// Write all stacks with their CPU time, us, for flame graphs; links and loads come first in each
    #[arg(long, value_name = "FILE", requires = "kernel_time", value_hint = ValueHint::FilePath)]
    pub(crate) folded: Option<PathBuf>,
    /// Capture the sender's packets of each run by tcpdump, and compare them with what kernels and cards count
    #[arg(long)]
    pub(crate) capture: bool,
    #[command(flatten)]
    pub(crate) runs: TcpRunsArgs,
}

/// What `tcp lab` and `tcp helps` have in common.
#[derive(Debug, clap::Args)]
pub(crate) struct TcpRunsArgs {
    /// Another table of links [default: the seven published ones]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) table: Option<PathBuf>,
    /// Where data come from, if not from a network of its own on this machine: `ssh:USER@HOST:PORT`, or `here`
    #[arg(long, value_name = "END", requires = "receiver", conflicts_with = "ends")]
    pub(crate) sender: Option<String>,
    /// Where they go to, likewise
    #[arg(long, value_name = "END", requires = "sender")]
    pub(crate) receiver: Option<String>,
    /// The two ends as a file of TOML says: two guests of QEMU, or two machines (docs/tcp-lab.md)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) ends: Option<PathBuf>,
    /// Connections at once [default: 1,10,100]
    #[arg(short, long, value_name = "N,..", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) connections: Vec<u32>,
    /// Segments of each [default: 10,10000]
    #[arg(short, long, value_name = "N,..", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) segments: Vec<u64>,
    /// Congestion controls of the sender, as the kernel calls them
    #[arg(long, value_name = "NAME,..", value_delimiter = ',', default_value = "cubic")]
    pub(crate) congestion: Vec<String>,
    /// A run lasts so many mean lifetimes [default: 200]
    #[arg(long, value_name = "N", value_parser = written::factor)]
    pub(crate) lifetimes: Option<f64>,
    /// But no longer than this, or three lifetimes where that is more [default: 5m]
    #[arg(long, value_name = "TIME", value_parser = written::some_time)]
    pub(crate) longest: Option<Duration>,
    /// Until the 95 % interval is within this share of the mean
    #[arg(long, value_name = "SHARE", default_value_t = 0.03)]
    pub(crate) precision: f64,
    /// But no more runs of each than this; 3 are made at least [default: 20]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(3..=1000))]
    pub(crate) most: Option<u32>,
    /// Go on over links that are not what they should be, and say so in the result
    #[arg(long)]
    pub(crate) accept_link: bool,
    /// What a transition from idle to active takes, in joules, where power is a model's (`calibrate wakeups` finds it out)
    #[arg(long, value_name = "JOULES", value_parser = written::factor)]
    pub(crate) wake_energy: Option<f64>,
    #[command(flatten)]
    pub(crate) meter: MeterArgs,
    /// The channel whose energy counts, as METER/CHANNEL [default: the one that covers most]
    #[arg(long, value_name = "CHANNEL")]
    pub(crate) energy: Option<String>,
    /// Of the order of runs
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Write a report with charts here
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) html: Option<PathBuf>,
    /// Write the tables as CSV into this folder
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) csv: Option<PathBuf>,
    /// Write each run here as soon as it is over, a JSON object a line; behind what is there
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) runs: Option<PathBuf>,
    /// Print one JSON object, and no progress
    #[arg(long)]
    pub(crate) json: bool,
    /// Our own binary
    #[arg(long, hide = true, value_hint = ValueHint::FilePath)]
    pub(crate) program: Option<PathBuf>,
}

/// What else the laboratory does.
#[derive(Debug, Subcommand)]
pub(crate) enum TcpLabStep {
    /// Undo what a killed run has left
    Clean,
}

pub(super) const EXAMPLES: &str = "\
Examples:
  nightwatt tcp lab --scenario d --quick    10 Mbit/s, half a minute
  nightwatt tcp lab clean                   undo what a killed run has left

Docs: docs/tcp-lab.md";

/// `tcp link`.
#[derive(Debug, clap::Args)]
pub(crate) struct TcpLinkArgs {
    /// What to do
    #[command(subcommand)]
    pub(crate) step: TcpLinkStep,
}

/// What is run at the ends of a link, and between them.
#[derive(Debug, Subcommand)]
pub(crate) enum TcpLinkStep {
    /// Be the wire between two cards
    Relay {
        /// Network namespace of the first card, as a file
        #[arg(long, value_hint = ValueHint::FilePath)]
        first: PathBuf,
        /// Network namespace of the second
        #[arg(long, value_hint = ValueHint::FilePath)]
        second: PathBuf,
        /// Name of both cards
        #[arg(long)]
        card: String,
        /// In each direction, in microseconds
        #[arg(long)]
        delay_us: u64,
        /// Bits per second in each direction
        #[arg(long)]
        rate: Option<f64>,
        /// Bytes that wait at that rate
        #[arg(long, default_value_t = 0)]
        queue: u64,
        /// Share of frames that are lost
        #[arg(long, default_value_t = 0.0)]
        loss: f64,
        /// Of what is lost
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Answer questions about counters
    Count {
        /// The card of the link
        #[arg(long)]
        card: String,
    },
    /// Answer probes
    Answer {
        /// Here
        #[arg(long)]
        listen: SocketAddr,
    },
    /// Probe the link, as a JSON object says
    Ask {
        /// What to send
        asking: String,
    },
}
