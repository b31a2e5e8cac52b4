//! `nightwatt stay-awake`.

use nightwatt_gateway::control::Order;

use crate::ExitStatus;
use crate::args::StayAwakeArgs;
use crate::control;
use crate::errors::Failure;
use crate::figures;

/// Keeps a server awake.
pub(crate) fn run(args: &StayAwakeArgs) -> Result<ExitStatus, Failure> {
    // The gateway counts whole seconds: rather one too many.
    let seconds = args.time.as_secs() + u64::from(args.time.subsec_nanos() > 0);
    let order = Order::StayAwake { site: args.site.clone(), seconds };
    let done = format!("the server stays awake for {}", figures::time(args.time));
    control::command(&args.gateway, &order, &done)
}
