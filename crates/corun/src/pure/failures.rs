//! When a job is broken, so that no group with it needs to be run.

/// So many runs on end fail because of a job that is broken.
const MOST_FAILURES: usize = 3;

/// A run that is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// The place of its group.
    pub group: usize,
    /// Whether it failed.
    pub has_failed: bool,
    /// The job because of which it failed, if it is known.
    pub because_of: Option<usize>,
}

/// The job that is broken by the last of these runs: three runs on end have failed because of it, at least one of them
/// alone. A job that fails only beside others is not broken.
pub fn broken_by_last(groups: &[Vec<usize>], runs: &[Ended]) -> Option<usize> {
    let job = runs.last()?.because_of?;
    let with_it = runs.iter().rev().filter(|run| groups[run.group].contains(&job));
    let failures = with_it
        // A run that another job has ended shows nothing of this one.
        .filter(|run| !run.has_failed || run.because_of == Some(job))
        .take_while(|run| run.has_failed);
    let failures: Vec<&Ended> = failures.collect();
    let is_alone = failures.iter().any(|run| groups[run.group].len() == 1);
    (failures.len() >= MOST_FAILURES && is_alone).then_some(job)
}

/// All jobs that are broken, in the order in which that was found.
pub fn broken(groups: &[Vec<usize>], runs: &[Ended]) -> Vec<usize> {
    let mut broken = Vec::new();
    for end in 1..=runs.len() {
        let job = broken_by_last(groups, &runs[..end]);
        broken.extend(job.filter(|job| !broken.contains(job)));
    }
    broken
}

/// The places of the groups with a job.
pub fn groups_with(groups: &[Vec<usize>], job: usize) -> Vec<usize> {
    let with_it = groups.iter().enumerate().filter(|(_, group)| group.contains(&job));
    with_it.map(|(place, _)| place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups() -> Vec<Vec<usize>> {
        vec![vec![0], vec![1], vec![2], vec![0, 1], vec![0, 2], vec![1, 2], vec![0, 1, 2]]
    }

    fn fails(group: usize, because_of: Option<usize>) -> Ended {
        Ended { group, has_failed: true, because_of }
    }

    fn good(group: usize) -> Ended {
        Ended { group, has_failed: false, because_of: None }
    }

    #[test]
    fn three_failures_on_end_one_of_them_alone_are_a_broken_job() {
        let by_0 = |group| fails(group, Some(0));
        let broken = |runs: &[Ended]| broken_by_last(&groups(), runs);
        assert_eq!(broken(&[by_0(3), by_0(0)]), None);
        assert_eq!(broken(&[by_0(3), by_0(0), by_0(4)]), Some(0));
        // Runs of others in between do not matter, and neither do failures because of others.
        let runs = [by_0(0), good(1), fails(3, Some(1)), by_0(4), fails(6, None), by_0(0)];
        assert_eq!(broken(&runs), Some(0));
        assert_eq!(broken(&[by_0(3), by_0(4), by_0(6), by_0(3)]), None, "never alone");
        assert_eq!(broken(&[by_0(0), by_0(0), good(4), by_0(0)]), None, "it works beside 2");
        assert_eq!(broken(&[by_0(0), by_0(0), by_0(0), good(1)]), None, "that was before");
    }

    #[test]
    fn broken_jobs_are_listed_with_their_groups() {
        let runs = [fails(0, Some(0)), fails(0, Some(0)), fails(1, Some(1)), fails(3, Some(0))];
        assert_eq!(broken(&groups(), &runs), [0]);
        assert_eq!(broken(&groups(), &runs[..3]), [0; 0]);
        assert_eq!(groups_with(&groups(), 0), [0, 3, 4, 6]);
    }
}
