//! Work on all cores whose result does not depend on how many there are.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

/// Runs every job; results are in the order of the jobs. `progress` gets how many of how many are done. If it breaks, no
/// further job starts, and the results are those of the jobs that had started.
pub fn all<J: Sync, R: Send>(
    jobs: &[J],
    work: impl Fn(&J) -> R + Sync,
    mut progress: impl FnMut(u64, u64) -> ControlFlow<()>,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    // Without room for results: a thread hands over one before it starts the next, so a break comes in time.
    let (done, arriving) = mpsc::sync_channel(0);
    let mut results: Vec<Option<R>> = jobs.iter().map(|_| None).collect();
    let threads = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    thread::scope(|scope| {
        for _ in 0..threads.min(jobs.len()) {
            let (done, next, work) = (done.clone(), &next, &work);
            scope.spawn(move || {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = jobs.get(index) else { return };
                    // A closed channel is fine: the caller no longer needs the result.
                    let _ = done.send((index, work(job)));
                }
            });
        }
        drop(done);
        for (finished, (index, result)) in arriving.iter().enumerate() {
            results[index] = Some(result);
            if progress(finished as u64 + 1, jobs.len() as u64).is_break() {
                next.store(jobs.len(), Ordering::Relaxed);
            }
        }
    });
    results.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_jobs() {
        let jobs: Vec<u64> = (0..1000).collect();
        let mut told = Vec::new();
        let squares = all(
            &jobs,
            |job| job * job,
            |done, of| {
                told.push((done, of));
                ControlFlow::Continue(())
            },
        );
        assert_eq!(squares, jobs.iter().map(|job| job * job).collect::<Vec<_>>());
        assert_eq!(told, (1..=1000).map(|done| (done, 1000)).collect::<Vec<_>>());
        assert!(all(&[0; 0], |job: &u64| *job, |_, _| ControlFlow::Continue(())).is_empty());
    }

    #[test]
    fn no_job_starts_after_a_break() {
        let jobs: Vec<u64> = (0..100_000).collect();
        let threads = thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let done = all(&jobs, |job| *job, |_, _| ControlFlow::Break(()));
        // The first result, and one that each thread has ready by then.
        assert!(!done.is_empty() && done.len() <= 1 + threads, "{}", done.len());
        assert!(done.is_sorted());
    }
}
