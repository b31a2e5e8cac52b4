//! Work that takes real time, whatever the clock.

use std::future::Future;
use std::time::Duration;

use nightwatt_clock::{Clock, Elapsed};

/// Awaits `work` for at most `limit` of real time.
///
/// Meanwhile virtual time stands still: a process or a peer outside knows nothing of it, and a
/// limit in virtual time would never come.
pub async fn within<F: Future>(
    clock: &Clock,
    limit: Duration,
    work: F,
) -> Result<F::Output, Elapsed> {
    let _debt = clock.owe();
    #[expect(clippy::disallowed_methods, reason = "what is awaited lives in real time")]
    let outcome = tokio::time::timeout(limit, work).await;
    outcome.map_err(|_| Elapsed)
}
