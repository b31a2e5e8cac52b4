//! `nightwatt demo`: a day of traffic meets a server that sleeps.

use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_lab::demo::{self, DemoOptions};
use nightwatt_model::time::{Now, Wall};

use crate::ExitStatus;
use crate::args::DemoArgs;
use crate::errors::Failure;
use crate::figures::count;
use crate::output;
use crate::progress::Progress;

/// Runs the demo and shows the bill.
pub(crate) fn run(args: &DemoArgs) -> Result<ExitStatus, Failure> {
    let origin_program = std::env::current_exe().map_err(|error| {
        Failure::because("cannot find the program itself, which is the demo's server too", &error)
    })?;
    let options = DemoOptions {
        seed: args.seed,
        days: args.days,
        log: args.log.clone(),
        scenario: args.scenario.resolve()?,
        real_time: args.real_time,
        out: args.out.clone(),
        origin_program,
    };
    let mut progress = Progress::by_tenths(args.json);
    let clock = Clock::real();
    let started = clock.now().mono;
    let mut first = None;
    let tell = |now: demo::Progress| {
        let first = *first.get_or_insert(now.at);
        let elapsed = clock.now().mono.since(started);
        let left = time_left((now.done, now.total), elapsed);
        progress.tell((now.done, now.total), elapsed, left, || {
            format!("{} requests, {}, server {}", count(now.done), time_of(&now, first), now.state)
        });
    };
    let report = demo::run(&options, tell);
    progress.end();
    let report = report.map_err(|error| {
        let hint = error.hint();
        Failure::failed(&error).maybe_hint(hint)
    })?;
    if args.json {
        output::say_json(&report)?;
    } else {
        output::say(&report.text())?;
    }
    if !report.is_sound() {
        return Err(Failure::saying("requests were lost or answered twice: the bill is not sound")
            .hint("run it again with `--out DIR` and compare the records there by request id"));
    }
    Ok(ExitStatus::Success)
}

/// By what has been done so far; nothing is known at the very start.
fn time_left((done, total): (u64, u64), elapsed: Duration) -> Option<Duration> {
    let left = total.checked_sub(done)? as f64 / done as f64;
    Duration::try_from_secs_f64(elapsed.as_secs_f64() * left).ok()
}

/// `14:30` or `day 2, 14:30`, by the demo's own clock.
fn time_of(now: &demo::Progress, first: Wall) -> String {
    let local = Now { wall: now.at, utc_offset: now.utc_offset, ..Now::default() };
    let minute = local.second_of_day() / 60;
    let time = format!("{:02}:{:02}", minute / 60, minute % 60);
    let day_of = |at: Wall| (at.secs() + i64::from(now.utc_offset)).div_euclid(86_400);
    match day_of(now.at) - day_of(first) {
        0 => time,
        days => format!("day {}, {time}", days + 1),
    }
}
