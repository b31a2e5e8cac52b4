//! How a running gateway is found.

use std::path::PathBuf;

use clap::ValueHint;

use super::ConfigArgs;

/// How a running gateway is found.
#[derive(Debug, clap::Args)]
pub(crate) struct GatewayArgs {
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
    /// The gateway's control socket, instead of the one that the configuration names
    #[arg(long, value_name = "PATH", conflicts_with = "config", value_hint = ValueHint::FilePath)]
    pub(crate) socket: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
