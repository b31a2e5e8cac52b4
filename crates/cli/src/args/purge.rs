//! `purge` and `reload`.

use super::GatewayArgs;

/// `purge`.
#[derive(Debug, clap::Args)]
pub(crate) struct PurgeArgs {
    /// URLs, or paths that are meant on every host of the site
    #[arg(value_name = "URL", required_unless_present = "all")]
    pub(crate) places: Vec<String>,
    /// Everything whose URL begins like one of these
    #[arg(long)]
    pub(crate) prefix: bool,
    /// Everything that is stored, of one site or of all
    #[arg(long, conflicts_with_all = ["places", "prefix"])]
    pub(crate) all: bool,
    /// Name of the site; needed for paths if there are several sites
    #[arg(long, value_name = "NAME")]
    pub(crate) site: Option<String>,
    #[command(flatten)]
    pub(crate) gateway: GatewayArgs,
}

/// `reload`.
#[derive(Debug, clap::Args)]
pub(crate) struct ReloadArgs {
    #[command(flatten)]
    pub(crate) gateway: GatewayArgs,
}

pub(super) const RELOAD_EXAMPLES: &str = "Examples:
  nightwatt check -c nightwatt.toml && nightwatt reload -c nightwatt.toml
  nightwatt reload --socket /var/lib/nightwatt/control.sock --json

A configuration that cannot be used changes nothing. SIGHUP does the same, without an answer.";

pub(super) const PURGE_EXAMPLES: &str = "Examples:
  nightwatt purge https://blog.example.org/feed.xml -c nightwatt.toml
  nightwatt purge --prefix /articles/ --site blog        # text, not folders: /a begins /ab too
  nightwatt purge --all

An answer that is on its way when it is purged is not stored either.";
