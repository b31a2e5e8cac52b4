//! `nightwatt forgive`.

use serde_json::json;

use crate::ExitStatus;
use crate::args::ClientArgs;
use crate::control;
use crate::errors::Failure;
use crate::figures::counted;
use crate::output;

/// Has a running gateway forget what a client did wrong.
pub(crate) fn run(args: &ClientArgs) -> Result<ExitStatus, Failure> {
    let forgiven = control::forgive(args)?;
    if args.gateway.json {
        output::say_json(&json!({ "forgiven": forgiven }))?;
    } else {
        let clients = counted(forgiven as u64, "client");
        output::say(&format!(
            "forgave {clients}, and gave the wake budget of the address back\n\
             `nightwatt why` shows who is still refused because of its agent"
        ))?;
    }
    Ok(ExitStatus::Success)
}
