//! Runs of an experiment, with their progress and a way to stop them: `compare`, `corun`, `schedule`.

use nightwatt_clock::Clock;
use nightwatt_clock::meter::Stop;
use nightwatt_compare::{RunProgress, in_a_line};

use crate::errors::Failure;
use crate::progress::Progress;
use crate::signals;

/// Makes runs by `run`, and shows what comes next in these words. Returns what `run` returns; an error only if signals
/// cannot be caught.
pub(crate) fn with_progress<T>(
    json: bool,
    next: fn(&RunProgress<'_>) -> String,
    run: impl FnOnce(&Stop, &mut dyn FnMut(&RunProgress<'_>)) -> T,
) -> Result<T, Failure> {
    let stop = signals::stop_on_signals()?;
    let clock = Clock::real();
    let started = clock.now().mono;
    let mut progress = Progress::by_time(json);
    let ran = run(&stop, &mut |told| {
        let elapsed = clock.now().mono.since(started);
        if let Some((run, why)) = &told.failed {
            progress.note(&format!("{run} failed: {}", in_a_line(why)));
        }
        let (done, total) = told.runs();
        progress.update(done, total, elapsed, told.left, || next(told));
    });
    progress.end();
    Ok(ran)
}

/// The exit status that a shell reports for a command that SIGINT ended.
const INTERRUPTED: u8 = 130;

/// `done` is kept, and the same command continues: `3 runs, which are kept`.
pub(crate) fn interrupted(done: &str) -> Failure {
    Failure::new(format!("interrupted after {done}"))
        .hint("the same command continues from there")
        .ending_with(INTERRUPTED)
}

/// Why `corun` or `schedule` could not go on.
pub(crate) fn of_corun(error: &nightwatt_corun::Error) -> Failure {
    let failure = if error.is_usage() { Failure::usage(error) } else { Failure::failed(error) };
    failure.maybe_hint(error.hint())
}
