//! Questions from threads that may block.

use std::future::Future;
use std::io;
use std::time::Duration;

use nightwatt_clock::{Clock, Elapsed};
use tokio::runtime::{Handle, Runtime};

use crate::within;

/// Runs exchanges in the thread that calls it.
pub struct Blocking {
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
}

impl Blocking {
    /// Ready to run exchanges.
    pub fn new() -> io::Result<Self> {
        Ok(Self { runtime: Some(Clock::real().runtime()?) })
    }

    /// Runs `work` for at most `limit`.
    pub fn within<F>(&self, limit: Duration, work: F) -> Result<F::Output, Elapsed>
    where
        F: Future + Send,
        F::Output: Send,
    {
        let Some(runtime) = &self.runtime else { return Err(Elapsed) };
        let clock = Clock::real();
        let run = || runtime.block_on(within(&clock, limit, work));
        if Handle::try_current().is_err() {
            return run();
        }
        // A thread of another runtime can block, but not run a second one.
        std::thread::scope(|scope| match scope.spawn(run).join() {
            Ok(outcome) => outcome,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    }
}

impl Drop for Blocking {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // A name server that does not answer is not waited for.
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_done_in_time_or_not_with_a_runtime_around_it_or_without() {
        let short = Duration::from_millis(10);
        let try_both = || {
            let blocking = Blocking::new().unwrap();
            assert_eq!(blocking.within(short, async { 7 }), Ok(7));
            assert_eq!(blocking.within(short, std::future::pending::<()>()), Err(Elapsed));
        };
        try_both();
        Clock::real().runtime().unwrap().block_on(async { try_both() });
    }
}
