//! `nightwatt stay-awake`.

use std::time::Duration;

use nightwatt_gateway::control::{LONGEST_AWAKE, Order};

use crate::ExitStatus;
use crate::args::GatewayArgs;
use crate::commands::{Group, Listed};
use crate::control;
use crate::errors::Failure;
use crate::figures;
use crate::values;

/// Keep a server awake for a while
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Name of the site; can be left out if there is only one
    pub(crate) site: Option<String>,
    /// For how long, at most a week
    #[arg(long = "for", value_name = "TIME", default_value = "1h", value_parser = time_awake)]
    pub(crate) time: Duration,
    #[command(flatten)]
    pub(crate) gateway: GatewayArgs,
}

pub(crate) const LISTED: Listed = Listed::In(Group::Act);

const EXAMPLES: &str = "Examples:
  nightwatt stay-awake --for 2h -c nightwatt.toml
  nightwatt stay-awake blog --for 30m -c nightwatt.toml  # for maintenance

`nightwatt sleep` ends it early.";

fn time_awake(text: &str) -> Result<Duration, String> {
    match values::some_time(text)? {
        time if time > LONGEST_AWAKE => {
            Err("one order keeps a server awake for a week at most: `7d`".to_owned())
        }
        time => Ok(time),
    }
}

/// Keeps a server awake.
pub(crate) fn run(args: &Args) -> Result<ExitStatus, Failure> {
    // The gateway counts whole seconds: round up.
    let seconds = args.time.as_secs() + u64::from(args.time.subsec_nanos() > 0);
    let order = Order::StayAwake { site: args.site.clone(), seconds };
    let done = format!("the server stays awake for {}", figures::time(args.time));
    control::command(&args.gateway, &order, &done)
}
