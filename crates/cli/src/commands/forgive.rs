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
        output::say_json(&json!({ "forgiven": forgiven.clients, "budgets": forgiven.budgets }))?;
    } else {
        let clients = counted(forgiven.clients as u64, "client");
        let spent: Vec<&str> = forgiven.budgets.iter().map(String::as_str).collect();
        let which = if spent.is_empty() {
            "none was spent".to_owned()
        } else {
            format!("spent: {}", spent.join(", "))
        };
        output::say(&format!(
            "forgave {clients}, and gave the budgets back ({which})\n\
             `nightwatt why` shows who is still refused because of its agent"
        ))?;
    }
    Ok(ExitStatus::Success)
}
