//! `mirror`.

use super::GatewayArgs;

/// `mirror`.
#[derive(Debug, clap::Args)]
pub(crate) struct MirrorArgs {
    #[command(subcommand)]
    pub(crate) step: MirrorStep,
}

/// Whom to ask.
#[derive(Debug, clap::Args)]
pub(crate) struct MirrorWhom {
    /// Name of the site [default: all that have a mirror]
    #[arg(long, value_name = "NAME")]
    pub(crate) site: Option<String>,
    #[command(flatten)]
    pub(crate) gateway: GatewayArgs,
}

/// What is asked.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum MirrorStep {
    /// Show what is mirrored, how old it is, and what is not mirrored
    Status {
        #[command(flatten)]
        whom: MirrorWhom,
    },
    /// Have pages confirmed before they are served again
    Refresh {
        /// Paths; all pages that begin so are meant [default: all pages]
        #[arg(value_name = "PATH")]
        places: Vec<String>,
        #[command(flatten)]
        whom: MirrorWhom,
    },
    /// Show whether an address is mirrored, and why not
    Explain {
        /// Path, with its query
        #[arg(value_name = "PATH")]
        address: String,
        #[command(flatten)]
        whom: MirrorWhom,
    },
}

pub(super) const EXAMPLES: &str = "Examples:
  nightwatt mirror status
  nightwatt mirror refresh /news/ --site blog        # text, not folders: /a begins /ab too
  nightwatt mirror explain /about.html";
