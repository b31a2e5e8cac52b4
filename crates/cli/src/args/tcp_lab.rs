//! `tcp lab`, and the hidden commands that it runs at the ends of its links.

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
    /// Other steps
    #[command(subcommand)]
    pub(crate) step: Option<TcpLabStep>,
    /// Links by their names in the table: `d`, `a,d`, or `all`
    #[arg(long, value_name = "NAMES", default_value = "all")]
    pub(crate) scenario: String,
    /// Short form: 1 and 10 connections of 10 segments, a few runs of two seconds
    #[arg(long)]
    pub(crate) quick: bool,
    /// Figure to which `--precision` applies, by its name in `--json`
    #[arg(long, value_name = "NAME", default_value = "lifetime")]
    pub(crate) until: String,
    /// Let cards cut and join segments (TSO, GSO, GRO) as far as they can, instead of one frame per segment
    #[arg(long)]
    pub(crate) offload: bool,
    /// Sample each CPU HZ times per second [default: 997], and report where its time and the energy of connections
    /// went (docs/tcp-where.md)
    #[arg(long = "where", value_name = "HZ", num_args = 0..=1, require_equals = true, default_missing_value = "997", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) kernel_time: Option<u32>,
    /// Write all stacks with their CPU time in us, for flame graphs; each begins with its link and load
    #[arg(long, value_name = "FILE", requires = "kernel_time", value_hint = ValueHint::FilePath)]
    pub(crate) folded: Option<PathBuf>,
    /// Capture the sender's packets of each run with tcpdump, and compare them with the counts of kernels and cards
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
    /// Machine that sends: `ssh:USER@HOST:PORT`, or `here` [default: a network namespace on this machine]
    #[arg(long, value_name = "END", requires = "receiver", conflicts_with = "ends")]
    pub(crate) sender: Option<String>,
    /// Machine that receives, in the same notation
    #[arg(long, value_name = "END", requires = "sender")]
    pub(crate) receiver: Option<String>,
    /// TOML file that describes the two ends: two QEMU guests, or two machines (docs/tcp-lab.md)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) ends: Option<PathBuf>,
    /// Connections at once [default: 1,10,100]
    #[arg(short, long, value_name = "N,..", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) connections: Vec<u32>,
    /// Segments of each connection [default: 10,10000]
    #[arg(short, long, value_name = "N,..", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) segments: Vec<u64>,
    /// Congestion controls of the sender, by the kernel's names
    #[arg(long, value_name = "NAME,..", value_delimiter = ',', default_value = "cubic")]
    pub(crate) congestion: Vec<String>,
    /// Length of a run, in mean lifetimes [default: 200]
    #[arg(long, value_name = "N", value_parser = written::factor)]
    pub(crate) lifetimes: Option<f64>,
    /// Longest run; a run has three lifetimes if that is longer [default: 5m]
    #[arg(long, value_name = "TIME", value_parser = written::some_time)]
    pub(crate) longest: Option<Duration>,
    /// Repeat runs until the 95 % interval is within this share of the mean
    #[arg(long, value_name = "SHARE", default_value_t = 0.03)]
    pub(crate) precision: f64,
    /// Most runs of each load, at least 3 [default: 20]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(3..=1000))]
    pub(crate) most: Option<u32>,
    /// Continue on links that fail their check, and mark that in the result
    #[arg(long)]
    pub(crate) accept_link: bool,
    /// Energy of a transition from idle to active, in joules, for modelled power (`calibrate wakeups` measures it)
    #[arg(long, value_name = "JOULES", value_parser = written::factor)]
    pub(crate) wake_energy: Option<f64>,
    #[command(flatten)]
    pub(crate) meter: MeterArgs,
    /// Channel whose energy counts, as METER/CHANNEL [default: the one that covers most]
    #[arg(long, value_name = "CHANNEL")]
    pub(crate) energy: Option<String>,
    /// Seed of the order of runs
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Write a report with charts as one HTML file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) html: Option<PathBuf>,
    /// Write the tables as CSV into this folder
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) csv: Option<PathBuf>,
    /// Append each run to this file when it ends, one JSON object per line
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) runs: Option<PathBuf>,
    /// Print one JSON object, and no progress
    #[arg(long)]
    pub(crate) json: bool,
    /// Our own binary
    #[arg(long, hide = true, value_hint = ValueHint::FilePath)]
    pub(crate) program: Option<PathBuf>,
}

/// Other steps of the laboratory.
#[derive(Debug, Subcommand)]
pub(crate) enum TcpLabStep {
    /// Undo what a killed run left behind
    Clean,
}

pub(super) const EXAMPLES: &str = "\
Examples:
  nightwatt tcp lab --scenario d --quick    10 Mbit/s, half a minute
  nightwatt tcp lab clean                   undo what a killed run left behind

Docs: docs/tcp-lab.md";

/// `tcp link`.
#[derive(Debug, clap::Args)]
pub(crate) struct TcpLinkArgs {
    /// What to do
    #[command(subcommand)]
    pub(crate) step: TcpLinkStep,
}

/// Commands at the ends of a link, and between them.
#[derive(Debug, Subcommand)]
pub(crate) enum TcpLinkStep {
    /// Act as the wire between two cards
    Relay {
        /// Network namespace of the first card, as a file
        #[arg(long, value_hint = ValueHint::FilePath)]
        first: PathBuf,
        /// Network namespace of the second card, as a file
        #[arg(long, value_hint = ValueHint::FilePath)]
        second: PathBuf,
        /// Name of both cards
        #[arg(long)]
        card: String,
        /// Delay in each direction, in microseconds
        #[arg(long)]
        delay_us: u64,
        /// Bits per second in each direction
        #[arg(long)]
        rate: Option<f64>,
        /// Bytes that may wait at that rate
        #[arg(long, default_value_t = 0)]
        queue: u64,
        /// Share of frames that are lost
        #[arg(long, default_value_t = 0.0)]
        loss: f64,
        /// Seed of the losses
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
        /// Address to listen on
        #[arg(long)]
        listen: SocketAddr,
    },
    /// Probe the link, as a JSON object describes
    Ask {
        /// What to send
        asking: String,
    },
}
