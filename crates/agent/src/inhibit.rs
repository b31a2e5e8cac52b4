//! What keeps the machine awake: one file each, one list here.
//!
//! Nothing is looked at until somebody asks. Rates (processor, network, disk) need two samples: the one
//! of the question before serves as the first if it is neither too fresh nor too old, or else another is
//! taken a second later.
//!
//! What is configured and cannot be asked keeps the machine awake, and says so: a backup that is cut off
//! is worse than an hour of power. (A program that is not installed is no such case.)

mod calendar;
mod connections;
mod cpu;
mod disk;
mod load;
mod network;
mod processes;
mod rates;
mod script;
mod systemd;
mod users;

use nightwatt_clock::Clock;

pub use calendar::Calendar;

use crate::config::{self, Config};
use crate::due;
use crate::host::Host;
use rates::Rates;

/// What one inhibitor says: its reasons, or why it cannot say.
type Says = Result<Vec<String>, String>;

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
        let mut add = |says: Says| match says {
            Ok(more) => reasons.extend(more),
            Err(why) => reasons.push(why),
        };
        if config.users {
            add(users::check(host).await);
        }
        add(connections::check(host, &config.ssh_ports, &config.ports));
        if let Some(limit) = config.load {
            add(load::check(host, limit));
        }
        add(processes::check(host, &config.processes));
        if config.systemd {
            add(systemd::check(host).await);
        }
        let now = Clock::real().now();
        if !config.timers_within.is_zero() {
            let within = config.timers_within.as_secs().cast_signed();
            add(due::next(host, alarm, now).await.map(|next| {
                let next = next.filter(|(at, _)| at - now.wall.secs() <= within);
                next.into_iter().map(|(at, what)| due_text(&what, at - now.wall.secs())).collect()
            }));
        }
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

fn due_text(what: &str, seconds: i64) -> String {
    match seconds {
        ..60 => format!("{what} is due in less than a minute"),
        _ => format!("{what} is due in {} min", seconds / 60),
    }
}

/// `1 user`, `2 users`.
fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}
