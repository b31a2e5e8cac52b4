//! Cron jobs: `/etc/crontab`, `/etc/cron.d` and the tables of users, as crontab(5) has them.
//!
//! Times are local, by the present distance to UTC: on the night in which clocks are changed a job may be
//! an hour off. `CRON_TZ`, `@reboot` and anacron's table are not looked at.

use nightwatt_energy::civil::Date;
use nightwatt_energy::time::Now;
use nightwatt_host::Host;
use nightwatt_host::star::fits;

/// Tables of users, of Debian's cron and of cronie.
const SPOOLS: [&str; 2] = ["/var/spool/cron/crontabs", "/var/spool/cron"];

/// So far ahead is looked: a job on the 29th of February waits eight years at most.
const DAYS: i64 = 8 * 366;

/// The next job of the machine, and its command.
pub(super) fn next(
    host: &Host,
    ignore: &[String],
    now: Now,
) -> Result<Option<(i64, String)>, String> {
    if !runs(host) {
        return Ok(None);
    }
    let mut tables = Vec::new();
    let mut read = |path: String, of_user: bool| {
        if host.path(&path).is_dir() {
            return Ok(());
        }
        let text =
            host.read_if_any(&path).map_err(|error| format!("cannot read {path}: {error}"))?;
        tables.extend(text.map(|text| (text, of_user)));
        Ok::<(), String>(())
    };
    read("/etc/crontab".to_owned(), false)?;
    let names = |folder: &str| {
        host.names(folder).map_err(|error| format!("cannot look into {folder}: {error}"))
    };
    for name in names("/etc/cron.d")? {
        // Cron passes by what packages and editors leave: names with dots.
        if !name.contains('.') {
            read(format!("/etc/cron.d/{name}"), false)?;
        }
    }
    for spool in SPOOLS {
        for name in names(spool)? {
            read(format!("{spool}/{name}"), true)?;
        }
    }
    let offset = i64::from(now.utc_offset);
    let lines = tables.iter().flat_map(|(text, of_user)| text.lines().map(|line| (line, *of_user)));
    let jobs = lines.filter_map(|(line, of_user)| job(line, of_user));
    let wanted = jobs.filter(|(_, command)| {
        let ignored = ignore.iter().any(|pattern| fits(pattern, command));
        !ignored && !is_idle(host, command)
    });
    let due = wanted.filter_map(|(schedule, command)| {
        let local = schedule.next(now.wall.secs() + offset)?;
        Some((local - offset, format!("cron: {command}")))
    });
    Ok(due.min())
}

/// Packages leave tables where no cron is.
fn runs(host: &Host) -> bool {
    let names = host.names("/proc").unwrap_or_default();
    let pids = names.iter().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    let mut comms = pids.filter_map(|pid| host.read(format!("/proc/{pid}/comm")).ok());
    comms.any(|comm| matches!(comm.trim(), "cron" | "crond"))
}

/// Debian's tables hold jobs that do nothing: `run-parts` of folders that are empty, and what is left to
/// systemd where that runs.
fn is_idle(host: &Host, command: &str) -> bool {
    if command.contains("/run/systemd/system") && host.has("/run/systemd/system") {
        return true;
    }
    let Some((_, arguments)) = command.split_once("run-parts") else { return false };
    let folder = arguments.split_whitespace().find(|argument| argument.starts_with('/'));
    let Some(folder) = folder.map(|folder| folder.trim_end_matches([';', ')', '}'])) else {
        return false;
    };
    let names = host.names(folder).unwrap_or_default();
    names.iter().all(|name| name.starts_with('.'))
}

/// When a job runs: one bit for each minute, hour, ..
#[derive(Debug, Clone, PartialEq, Eq)]
struct Schedule {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Both are restricted: then one of them suffices.
    either_day: bool,
}

/// A line of a table; `None` for all that is no job, or runs at boot only.
fn job(line: &str, of_user: bool) -> Option<(Schedule, String)> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    let short = match line.split_whitespace().next()? {
        "@hourly" => Some("0 * * * *"),
        "@daily" | "@midnight" => Some("0 0 * * *"),
        "@weekly" => Some("0 0 * * 0"),
        "@monthly" => Some("0 0 1 * *"),
        "@yearly" | "@annually" => Some("0 0 1 1 *"),
        _ => None,
    };
    let times = if short.is_some() { 1 } else { 5 };
    let mut rest = line;
    let mut fields = Vec::new();
    for _ in 0..times + usize::from(!of_user) {
        let (field, after) = rest.split_once(char::is_whitespace)?;
        fields.push(field);
        rest = after.trim_start();
    }
    fields.truncate(times);
    let fields = short.map_or(fields, |short| short.split(' ').collect());
    Some((schedule(&fields)?, rest.to_owned()))
}

fn schedule(fields: &[&str]) -> Option<Schedule> {
    let [minutes, hours, days, months, weekdays] = fields else { return None };
    let bits = weekday_bits(field(weekdays, 0, 7, "sunmontuewedthufrisat", 0)?);
    Some(Schedule {
        minutes: field(minutes, 0, 59, "", 0)?,
        hours: field(hours, 0, 23, "", 0)?,
        days: field(days, 1, 31, "", 0)?,
        months: field(months, 1, 12, "janfebmaraprmayjunjulaugsepoctnovdec", 1)?,
        weekdays: bits,
        either_day: !days.starts_with('*') && !weekdays.starts_with('*'),
    })
}

/// The seventh day is Sunday too.
const fn weekday_bits(bits: u64) -> u64 {
    (bits | bits >> 7) & 0x7f
}

/// `*`, `5`, `mon`, `1-5`, `*/10`, `0-30/5`, and several of them between commas.
fn field(text: &str, least: u32, most: u32, names: &str, first: u32) -> Option<u64> {
    let value = |text: &str| -> Option<u32> {
        if let Ok(number) = text.parse::<u32>() {
            return (least..=most).contains(&number).then_some(number);
        }
        let name = text.to_ascii_lowercase();
        let at = (name.len() == 3).then(|| names.find(&name)).flatten().filter(|at| at % 3 == 0)?;
        Some(u32::try_from(at / 3).ok()? + first)
    };
    let mut bits = 0_u64;
    for part in text.split(',') {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, step.parse::<u32>().ok().filter(|step| *step > 0)?),
            None => (part, 1),
        };
        let (from, to) = match (range, range.split_once('-')) {
            ("*", _) => (least, most),
            (_, Some((from, to))) => (value(from)?, value(to)?),
            (one, None) if step == 1 => (value(one)?, value(one)?),
            (one, None) => (value(one)?, most),
        };
        if from > to {
            return None;
        }
        for number in (from..=to).step_by(step as usize) {
            bits |= 1 << number;
        }
    }
    Some(bits)
}

impl Schedule {
    /// The first minute after `local`, both in seconds since 1970 by the local clock.
    fn next(&self, local: i64) -> Option<i64> {
        let has = |bits: u64, number: i64| bits >> number & 1 == 1;
        let after = local.div_euclid(60) + 1;
        let today = after.div_euclid(1440);
        let runs_on = |day: i64| {
            let date = Date::from_days(day);
            // The 1st of January 1970 was a Thursday.
            let weekday = (day + 4).rem_euclid(7);
            let (by_day, by_weekday) =
                (has(self.days, date.day().into()), has(self.weekdays, weekday));
            let day_fits =
                if self.either_day { by_day || by_weekday } else { by_day && by_weekday };
            has(self.months, date.month().into()) && day_fits
        };
        for day in (today..today + DAYS).filter(|day| runs_on(*day)) {
            let from = if day == today { after.rem_euclid(1440) } else { 0 };
            let minute = (from..1440)
                .find(|minute| has(self.hours, minute / 60) && has(self.minutes, minute % 60));
            if let Some(minute) = minute {
                return Some((day * 1440 + minute) * 60);
            }
        }
        None
    }
}

#[cfg(test)]
#[path = "cron/tests.rs"]
mod tests;
