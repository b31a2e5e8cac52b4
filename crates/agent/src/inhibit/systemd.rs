//! Inhibitors that programs take from logind (`systemd-inhibit`), asked through `busctl`, whose JSON has
//! one form in all versions.

use std::time::Duration;

use nightwatt_host::Host;
use serde::Deserialize;
use tokio::process::Command;

use super::Inhibitions;
use crate::program::{self, Trouble};

/// It answers within milliseconds, or hangs.
const LIMIT: Duration = Duration::from_secs(5);

const LOGIND: [&str; 3] =
    ["org.freedesktop.login1", "/org/freedesktop/login1", "org.freedesktop.login1.Manager"];

pub(super) async fn check(host: &Host) -> Inhibitions {
    let Some(text) = call(host, "ListInhibitors").await? else { return Ok(Vec::new()) };
    parse(&text)
}

/// What a method of logind answers, as JSON; `None` where there is no logind.
pub(super) async fn call(host: &Host, method: &str) -> Result<Option<String>, String> {
    if !host.has("/run/systemd/system") {
        return Ok(None);
    }
    let mut arguments = vec!["--system", "--json=short", "call"];
    arguments.extend(LOGIND);
    arguments.push(method);
    busctl(&arguments).await
}

pub(super) async fn busctl(arguments: &[&str]) -> Result<Option<String>, String> {
    let mut command = Command::new("busctl");
    command.args(arguments);
    match program::run(command, LIMIT).await {
        Ok(ended) if ended.status.success() => Ok(Some(ended.stdout)),
        Ok(ended) => {
            let said = ended.first_line().unwrap_or("it does not say why");
            // A system without logind, or without D-Bus.
            let absent =
                ["not provided by any .service", "ServiceUnknown", "No such file or directory"];
            if absent.iter().any(|words| said.contains(words)) {
                return Ok(None);
            }
            Err(format!("busctl cannot ask logind: {said}"))
        }
        Err(Trouble::Absent) => Ok(None),
        Err(trouble) => Err(format!("busctl cannot ask logind: {trouble}")),
    }
}

/// What, who, why, mode, user, process.
type Inhibitor = (String, String, String, String, u32, u32);

#[derive(Deserialize)]
struct InhibitorList {
    data: (Vec<Inhibitor>,),
}

fn parse(text: &str) -> Inhibitions {
    let answer: InhibitorList = serde_json::from_str(text)
        .map_err(|error| format!("logind lists inhibitors in a form that is not known: {error}"))?;
    let blocks = |(what, _, _, mode, ..): &Inhibitor| {
        // `block-weak` of systemd 257 is for interactive sleep only.
        mode == "block" && what.split(':').any(|what| what == "sleep" || what == "shutdown")
    };
    let blocking = answer.data.0.into_iter().filter(blocks);
    Ok(blocking.map(|(_, who, why, ..)| format!("{who} inhibits sleep: {why}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_inhibitors_that_block_sleep_count() {
        let text = r#"{"type":"a(ssssuu)","data":[[
            ["sleep","NetworkManager","NetworkManager needs to turn off networks","delay",0,555],
            ["handle-power-key","GNOME","GNOME handles it","block",1000,777],
            ["shutdown:sleep","dpkg","a package is being installed","block",0,888],
            ["sleep","borg","backup","block-weak",0,999]]]}"#;
        assert_eq!(parse(text).unwrap(), ["dpkg inhibits sleep: a package is being installed"]);
        assert_eq!(parse(r#"{"type":"a(ssssuu)","data":[[]]}"#).unwrap(), Vec::<String>::new());
        assert!(parse("WHO UID").is_err());
    }
}
