//! `nightwatt tcp`: connections, and what they cost.

mod check;
mod fetch;
mod helps;
mod lab;
mod link;
mod serve;
#[cfg(feature = "bpf")]
mod r#where;

use clap::Subcommand;

use crate::ExitStatus;
use crate::commands::{Group, Listed};
use crate::errors::Failure;

/// Measure TCP connections: lifetime, CPU time, wake-ups, energy
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// What to do
    #[command(subcommand)]
    pub(crate) step: Step,
}

pub(crate) const LISTED: Listed = Listed::In(Group::Compare);

const EXAMPLES: &str = "Examples:
  nightwatt tcp serve --listen '[::]:5210'                   # on one machine
  nightwatt tcp fetch server.lan --connections 100 --for 1m  # on another
  nightwatt tcp fetch server.lan -s 10000 -n 200 --json      # one by one
  nightwatt tcp fetch server.lan -s 10000 --congestion bbr --rows c.csv
  nightwatt tcp fetch server.lan --send -s 10000 --pacing 100Mbit --verify

Use it only with servers of your own. docs/tcp.md explains each figure and the protocol.";

/// What can be done with TCP connections.
#[derive(Debug, Subcommand)]
pub(crate) enum Step {
    /// Count retransmits, reordering and more in a capture (pcap, pcapng)
    Check(check::Args),
    /// Open connections to a `tcp serve`, and measure what they cost
    Fetch(Box<fetch::Args>),
    /// Serve the connections of `tcp fetch`
    Serve(serve::Args),
    /// Measure what connections cost over links of all kinds: lifetime, CPU time, wake-ups, energy
    Lab(Box<lab::Args>),
    /// Compare settings that make connections cheaper: offloads, coalescing, pacing, buffers, busy polling
    Helps(Box<helps::Args>),
    /// Measure what the CPUs spend time on while connections run: TCP, copies, cards, the scheduler, rest
    #[cfg(feature = "bpf")]
    Where(Box<r#where::Args>),
    /// Run the ends of a link of `lab`
    #[command(hide = true)]
    Link(link::Args),
}

/// Runs the chosen subcommand.
pub(crate) fn run(args: &Args) -> Result<ExitStatus, Failure> {
    match &args.step {
        Step::Check(args) => check::run(args),
        Step::Fetch(args) => fetch::run(args),
        Step::Serve(args) => serve::run(args),
        Step::Helps(args) => helps::run(args),
        Step::Lab(args) => lab::run(args),
        #[cfg(feature = "bpf")]
        Step::Where(args) => r#where::run(args),
        Step::Link(args) => link::run(args),
    }
}
