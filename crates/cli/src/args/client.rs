//! A client of a running gateway.

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
