//! A site of a running gateway.

use super::GatewayArgs;

/// `wake` and `sleep`.
#[derive(Debug, clap::Args)]
pub(crate) struct SiteArgs {
    /// Name of the site; can be left out if there is only one
    pub(crate) site: Option<String>,
    #[command(flatten)]
    pub(crate) gateway: GatewayArgs,
}
