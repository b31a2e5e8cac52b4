//! What the machine has to be awake for: timers of systemd, and cron jobs.

mod cron;
mod timers;

use nightwatt_energy::time::Now;
use nightwatt_host::Host;
use nightwatt_host::star::fits;

use crate::config::Alarm;
use crate::dead_man::{self, Work};

/// The next of them. The error says what cannot be asked.
pub async fn next(host: &Host, alarm: &Alarm, now: Now) -> Result<Option<Work>, String> {
    let timer = if alarm.timers.is_empty() || !host.has("/run/systemd/system") {
        None
    } else {
        let all = timers::ask().await?;
        all.into_iter().filter(|(at, unit)| *at > now.wall.secs() && counts(alarm, unit)).min()
    };
    let job = if alarm.cron { cron::next(host, &alarm.cron_ignore, now)? } else { None };
    let next = timer.into_iter().chain(job).min();
    Ok(next.map(|(at_s, name)| Work { at_s, name }))
}

/// Does the machine wake for this timer?
fn counts(alarm: &Alarm, unit: &str) -> bool {
    let any = |patterns: &[String]| patterns.iter().any(|pattern| fits(pattern, unit));
    any(&alarm.timers) && !any(&alarm.timers_ignore)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Timers of a fresh Debian 12 and Ubuntu 24.04.
    const OF_THE_SYSTEM: [&str; 15] = [
        "apt-daily.timer",
        "apt-daily-upgrade.timer",
        "man-db.timer",
        "dpkg-db-backup.timer",
        "logrotate.timer",
        "e2scrub_all.timer",
        "fstrim.timer",
        "systemd-tmpfiles-clean.timer",
        "phpsessionclean.timer",
        "sysstat-collect.timer",
        "motd-news.timer",
        "update-notifier-download.timer",
        "fwupd-refresh.timer",
        "anacron.timer",
        "apport-autoreport.timer",
    ];

    #[test]
    fn nobody_is_woken_for_housekeeping_and_everybody_for_work() {
        let alarm = Alarm::default();
        for unit in OF_THE_SYSTEM {
            assert!(!counts(&alarm, unit), "{unit}");
        }
        for unit in ["backup.timer", "borgmatic.timer", "certbot.timer", "zfs-scrub@tank.timer"] {
            assert!(counts(&alarm, unit), "{unit}");
        }
    }

    #[test]
    fn a_list_of_ones_own_takes_the_place_of_the_usual_one() {
        let text = "listen = [\"10.0.0.2\"]\n[[proxy]]\nkey = \"k\"\n[alarm]\n";
        let with = |line: &str| {
            crate::Config::parse(&format!("{text}{line}"), "agent.toml").unwrap().alarm
        };
        let own = with("timers_ignore = [\"certbot*\"]");
        assert!(counts(&own, "apt-daily.timer") && !counts(&own, "certbot.timer"));
        assert!(counts(&with("timers_ignore = []"), "fstrim.timer"));
        assert!(!counts(&with(""), "fstrim.timer"));
    }
}
