//! Progress of a long command: a bar on a terminal, otherwise a line now and then.

use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use nightwatt_clock::Clock;
use nightwatt_energy::time::Mono;
use nightwatt_traffic::scan;

use crate::figures;
use crate::output;

/// Time between two lines without a terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Progress of a command.
pub(crate) enum Progress {
    /// Shows nothing.
    Silent,
    /// On a terminal.
    Bar(ProgressBar),
    /// In a file or pipe; holds when the next line is due, by time or by the share done.
    Lines(Due),
}

/// When the next line is due.
pub(crate) enum Due {
    /// At this time since the start.
    At(Duration),
    /// When this many tenths are done.
    Tenths(u64),
}

impl Progress {
    /// Without a terminal: prints a line every ten seconds.
    pub(crate) fn by_time(silent: bool) -> Self {
        Self::new(silent, Due::At(LINE_EVERY))
    }

    /// Without a terminal: prints a line after each tenth of the work.
    pub(crate) fn by_tenths(silent: bool) -> Self {
        Self::new(silent, Due::Tenths(1))
    }

    fn new(silent: bool, due: Due) -> Self {
        match (silent, io::stderr().is_terminal()) {
            (true, _) => Self::Silent,
            (false, false) => Self::Lines(due),
            (false, true) => {
                let style = ProgressStyle::with_template("{bar:32} {percent:>3} %  {wide_msg}")
                    .unwrap_or_else(|_| ProgressStyle::default_bar());
                Self::Bar(ProgressBar::new(0).with_style(style))
            }
        }
    }

    /// Reports how much is done, of how much. `left` is an estimate of the time left, if the caller has a better one
    /// than the share done.
    pub(crate) fn update(
        &mut self,
        done: u64,
        total: u64,
        elapsed: Duration,
        left: Option<Duration>,
        what: impl FnOnce() -> String,
    ) {
        match self {
            Self::Silent => {}
            Self::Bar(bar) => {
                if bar.length() != Some(total) {
                    bar.set_length(total);
                }
                bar.set_position(done);
                // Before anything is done, there is no estimate.
                let left = left.or_else(|| (done > 0).then(|| bar.eta()));
                let left = left.map(|left| format!(", {} left", figures::time(whole(left))));
                bar.set_message(format!("{}{}", what(), left.unwrap_or_default()));
            }
            Self::Lines(due) => {
                let share = figures::ratio(done, total);
                let is_due = match due {
                    Due::At(time) => elapsed >= *time,
                    Due::Tenths(tenths) => total > 0 && done * 10 >= *tenths * total,
                };
                if !is_due {
                    return;
                }
                match due {
                    Due::At(time) => *time = elapsed + LINE_EVERY,
                    Due::Tenths(tenths) => *tenths = done * 10 / total + 1,
                }
                let left = left.map(|left| format!(", {} left", figures::time(whole(left))));
                let left = left.unwrap_or_default();
                output::complain(&format!("{:3.0} %  {}{left}", share * 100.0, what()));
            }
        }
    }

    /// Prints a line of its own, beside the bar.
    pub(crate) fn note(&self, line: &str) {
        match self {
            Self::Bar(bar) => bar.suspend(|| output::complain(line)),
            Self::Silent | Self::Lines(_) => output::complain(line),
        }
    }

    /// Ends the progress display.
    pub(crate) fn end(&self) {
        if let Self::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}

/// Progress in reading logs.
pub(crate) struct Reading<'a> {
    progress: Progress,
    clock: &'a Clock,
    started: Mono,
}

impl<'a> Reading<'a> {
    pub(crate) fn begin(clock: &'a Clock, silent: bool) -> Self {
        Self { progress: Progress::by_time(silent), clock, started: clock.now().mono }
    }

    pub(crate) fn update(&mut self, at: scan::Progress) {
        let elapsed = self.clock.now().mono.since(self.started);
        let total = at.total.unwrap_or(0);
        // A stream has no known length.
        let left = time_left(at.done, total, elapsed);
        let what = || format!("{} requests", figures::count(at.requests));
        self.progress.update(at.done, total, elapsed, left, what);
    }

    pub(crate) fn end(&self) {
        self.progress.end();
    }
}

/// Estimated from what is done so far; unknown at the very start.
pub(crate) fn time_left(done: u64, total: u64, elapsed: Duration) -> Option<Duration> {
    let left = total.checked_sub(done)? as f64 / done as f64;
    Duration::try_from_secs_f64(elapsed.as_secs_f64() * left).ok()
}

fn whole(time: Duration) -> Duration {
    Duration::from_secs(time.as_secs())
}
