//! Finds out what keeps the machine awake: one file per inhibitor, one list here.
//!
//! Each query reads the inhibitors afresh. Rates (processor, GPU, network, disk) need two samples: the sample of
//! the previous query serves as the first one if it is neither too recent nor too old; otherwise the second
//! sample follows one second later.
//!
//! An inhibitor that is configured but cannot be read keeps the machine awake and reports that: a backup
//! that is cut off is worse than an hour of power. (This does not apply to a program that is not
//! installed.)

mod calendar;
mod connections;
mod cpu;
mod disk;
mod gpu;
mod load;
mod network;
mod processes;
mod rates;
mod script;
mod systemd;
mod users;

use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_energy::time::Now;
use nightwatt_host::Host;

use crate::config::{self, Config};
use crate::dead_man::{self, Work};
use crate::due;
use rates::Rates;

/// What one inhibitor says: its reasons, or why it cannot say.
type Inhibitions = Result<Vec<String>, String>;

/// All that may inhibit, as configured.
#[derive(Debug)]
pub struct Inhibitors {
    host: Host,
    config: config::Inhibit,
    alarm: config::Alarm,
    rates: Rates,
}

impl Inhibitors {
    /// Touches nothing yet.
    pub fn new(config: &Config, host: &Host) -> Self {
        Self {
            host: host.clone(),
            config: config.inhibit.clone(),
            alarm: config.alarm.clone(),
            rates: Rates::default(),
        }
    }

    /// The reasons why the machine has to stay awake now, for people; none if it may sleep.
    pub async fn check(&mut self) -> Vec<String> {
        let Self { host, config, alarm, rates } = self;
        let mut reasons = Vec::new();
        let mut add = |says: Inhibitions| match says {
            Ok(more) => reasons.extend(more),
            Err(why) => reasons.push(why),
        };
        if config.users {
            add(users::check(host).await);
        }
        add(connections::check(host, config));
        if let Some(limit) = config.load {
            add(load::check(host, limit));
        }
        add(processes::check(host, &config.processes));
        if config.systemd {
            add(systemd::check(host).await);
        }
        let now = Clock::real().now();
        add(due::next(host, alarm, now).await.map(|next| {
            let reason = due_soon(next.as_ref(), now, config.timers_within);
            reason.into_iter().chain(no_alarm(host, alarm, next, now)).collect()
        }));
        for path in &config.calendars {
            add(calendar::check(host, path, now));
        }
        add(rates.check(host, config).await);
        if let Some((program, arguments)) = config.script.split_first() {
            add(script::check(program, arguments, config.script_timeout).await);
        }
        reasons
    }
}

fn due_soon(next: Option<&Work>, now: Now, within: Duration) -> Option<String> {
    let Work { at_s, name } = next?;
    let seconds = at_s - now.wall.secs();
    if within.is_zero() || seconds > within.as_secs().cast_signed() {
        return None;
    }
    Some(match seconds {
        ..60 => format!("{name} is due in less than a minute"),
        _ => format!("{name} is due in {} min", seconds / 60),
    })
}

/// A machine that is to wake by itself needs a clock that wakes it.
fn no_alarm(host: &Host, alarm: &config::Alarm, next: Option<Work>, now: Now) -> Option<String> {
    let rtc = format!("/sys/class/rtc/{}/wakealarm", alarm.rtc);
    dead_man::plan(now.wall.secs(), alarm.dead_man, next, alarm.lead)?;
    (!host.has(&rtc)).then(|| {
        format!(
            "there is no {rtc} to wake it again; `dead_man = \"0\"`, `timers = []` and `cron = false` in \
             [alarm] let it sleep without"
        )
    })
}

/// `1 user`, `2 users`.
fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}
