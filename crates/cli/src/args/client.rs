//! Arguments of the commands about clients of a running gateway.

use std::net::IpAddr;

use nightwatt_traffic::address;

use super::GatewayArgs;

/// `why` and `forgive`.
#[derive(Debug, clap::Args)]
pub(crate) struct ClientArgs {
    /// IP address of the client, as the access log shows it; brackets and a port are ignored
    #[arg(value_name = "CLIENT", value_parser = client)]
    pub(crate) client: IpAddr,
    /// Only the client with this User-Agent, as others may share the address
    #[arg(long, value_name = "TEXT")]
    pub(crate) agent: Option<String>,
    /// Only at this site [default: at all]
    #[arg(long, value_name = "SITE")]
    pub(crate) site: Option<String>,
    #[command(flatten)]
    pub(crate) gateway: GatewayArgs,
}

fn client(text: &str) -> Result<IpAddr, String> {
    address::read(text).ok_or_else(|| "not an IP address: the access log shows it".to_owned())
}

pub(super) const WHY_EXAMPLES: &str = "Examples:
  nightwatt why 203.0.113.9 -c nightwatt.toml
  nightwatt why 203.0.113.9 --agent 'curl/8.5.0' --site blog -c nightwatt.toml

Shows the class of each client behind the address, the rule that gives it, since when and until when, and
what is left of its budgets. `nightwatt forgive` ends what a client has earned by what it did.";

pub(super) const FORGIVE_EXAMPLES: &str = "Examples:
  nightwatt forgive 203.0.113.9 -c nightwatt.toml
  nightwatt forgive 203.0.113.9 --agent 'curl/8.5.0' -c nightwatt.toml

Forgets misses, failed log-ins and that robots.txt was read, and gives the budgets of the address and its
network back. What follows from the agent alone stays, and so does the budget of all clients that are not
recognised: name the agent in `api_agents` of `[site.clients]`.";
