//! What the machine has to be awake for: timers of systemd, and cron jobs.

mod cron;
mod timers;

use nightwatt_model::time::Now;

use crate::config::Alarm;
use crate::dead_man;
use crate::host::Host;
use crate::pattern::fits;

/// The next of them: seconds since 1970, and what it is. The error says what cannot be asked.
pub async fn next(host: &Host, alarm: &Alarm, now: Now) -> Result<Option<(i64, String)>, String> {
    let timer = if alarm.timers.is_empty() || !host.has("/run/systemd/system") {
        None
    } else {
        let counts = |unit: &str| {
            let any = |patterns: &[String]| patterns.iter().any(|pattern| fits(pattern, unit));
            any(&alarm.timers) && !any(&alarm.timers_ignore)
        };
        let all = timers::ask().await?;
        all.into_iter().filter(|(at, unit)| *at > now.wall.secs() && counts(unit)).min()
    };
    let job = if alarm.cron { cron::next(host, &alarm.cron_ignore, now)? } else { None };
    Ok(timer.into_iter().chain(job).min())
}

/// The alarm that a sleep beginning now would set.
pub async fn alarm(
    host: &Host,
    config: &Alarm,
    now: Now,
) -> Result<Option<dead_man::Alarm>, String> {
    let work = next(host, config, now).await?;
    Ok(dead_man::plan(now.wall.secs(), config.dead_man, work, config.lead))
}
