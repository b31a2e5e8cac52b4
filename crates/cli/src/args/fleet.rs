//! `fleet`.

use clap::Subcommand;

/// `fleet`.
#[derive(Debug, clap::Args)]
pub(crate) struct FleetArgs {
    /// What to do
    #[command(subcommand)]
    pub(crate) step: FleetStep,
}

/// What can be asked of pools.
#[derive(Debug, Subcommand)]
pub(crate) enum FleetStep {
    /// The published claims about pools of small servers: ours beside theirs
    Published(FleetPublishedArgs),
}

/// `fleet published`.
#[derive(Debug, clap::Args)]
pub(crate) struct FleetPublishedArgs {
    /// Requests that each simulation counts (published: 980000)
    #[arg(long, value_name = "N", default_value_t = 980_000, value_parser = clap::value_parser!(u64).range(1000..=1_000_000_000))]
    pub(crate) arrivals: u64,
    /// Print one JSON object, and no progress
    #[arg(long)]
    pub(crate) json: bool,
}

pub(super) const EXAMPLES: &str = "Examples:
  nightwatt fleet published
  nightwatt fleet published --json | jq '.claims[] | {id, verdict}'

docs/fleet.md says how a pool is simulated and what each policy does.";
