//! Timers of systemd, as `systemctl list-timers --output=json` lists them (systemd 249 and later).

use std::time::Duration;

use serde::Deserialize;
use tokio::process::Command;

use crate::program::{self, Trouble};

/// It answers within milliseconds, or hangs.
const LIMIT: Duration = Duration::from_secs(5);

/// When each runs next, in seconds since 1970, and its name.
pub(super) async fn ask() -> Result<Vec<(i64, String)>, String> {
    let mut command = Command::new("systemctl");
    command.args(["list-timers", "--all", "--no-pager", "--output=json"]);
    match program::run(command, LIMIT).await {
        Ok(ended) if ended.status.success() => parse(&ended.stdout),
        Ok(ended) => {
            let said = ended.first_line().unwrap_or("it does not say why");
            Err(format!("systemctl cannot list timers: {said}"))
        }
        Err(Trouble::Absent) => Ok(Vec::new()),
        Err(trouble) => Err(format!("systemctl cannot list timers: {trouble}")),
    }
}

#[derive(Deserialize)]
struct Timer {
    /// Microseconds since 1970; zero or nothing for never.
    next: Option<u64>,
    unit: String,
}

/// What `systemctl list-timers --output=json` says.
fn parse(text: &str) -> Result<Vec<(i64, String)>, String> {
    let timers: Vec<Timer> = serde_json::from_str(text.trim())
        .map_err(|error| format!("systemctl lists timers in a form that is not known: {error}"))?;
    let due = timers.into_iter().filter_map(|timer| {
        let next = timer.next.filter(|next| *next > 0 && *next < u64::MAX)?;
        Some((i64::try_from(next / 1_000_000).ok()?, timer.unit))
    });
    Ok(due.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_are_read_as_systemd_252_lists_them() {
        let text = r#"[{"next":1763775600000000,"left":1763775600000000,"last":1763772000000000,"passed":0,
            "unit":"apt-daily.timer","activates":"apt-daily.service"},
            {"next":null,"left":null,"last":0,"passed":0,"unit":"never.timer","activates":"never.service"},
            {"next":0,"left":0,"last":0,"passed":0,"unit":"off.timer","activates":"off.service"}]"#;
        assert_eq!(parse(text).unwrap(), [(1_763_775_600, "apt-daily.timer".to_owned())]);
        assert_eq!(parse("[]\n").unwrap(), []);
        assert!(parse("NEXT LEFT LAST").is_err());
    }
}
