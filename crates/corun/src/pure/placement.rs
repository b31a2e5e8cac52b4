//! On which CPUs jobs run, by the caches that these share.

use serde::{Deserialize, Serialize};

/// What jobs that run at the same time share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Share {
    /// A level-3 cache and no level-2 cache, if the machine can do that; else nothing, or else a level-2 cache.
    #[default]
    Auto,
    /// A level-2 cache: mostly the two threads of a core.
    L2,
    /// A level-3 cache, and no level-2 cache.
    L3,
    /// No cache.
    Nothing,
    /// All CPUs: the kernel places them.
    Any,
}

impl Share {
    /// In words, after "jobs share".
    pub const fn words(self) -> &'static str {
        match self {
            Self::L2 => "a level-2 cache",
            Self::L3 => "a level-3 cache, and no level-2 cache",
            Self::Nothing => "no cache",
            Self::Auto | Self::Any => "all CPUs",
        }
    }
}

/// A CPU, and for each cache the CPUs that share it, as the kernel writes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuCaches {
    /// Its number.
    pub cpu: u32,
    /// Of the level-2 cache.
    pub l2: String,
    /// Of the level-3 cache.
    pub l3: String,
}

/// Where jobs run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Placement {
    /// What they share; never [`Share::Auto`].
    pub share: Share,
    /// Places, with their CPUs.
    pub slots: Vec<Vec<u32>>,
    /// How many jobs there are.
    pub jobs: usize,
    /// All CPUs.
    pub all: Vec<u32>,
}

impl Placement {
    /// Places up to `jobs` jobs with `each` CPUs.
    pub fn of(cpus: &[CpuCaches], share: Share, jobs: usize, each: usize) -> Result<Self, String> {
        let all: Vec<u32> = cpus.iter().map(|it| it.cpu).collect();
        let slots = |share| match share {
            Share::L2 => most(domains(cpus, |it| &it.l2).into_iter().map(|it| chunks(&it, each))),
            Share::L3 => {
                most(domains(cpus, |it| &it.l3).into_iter().map(|it| apart(&it, |it| &it.l2, each)))
            }
            Share::Nothing => apart(&cpus.iter().collect::<Vec<_>>(), |it| &it.l3, each),
            Share::Auto | Share::Any => Vec::new(),
        };
        let tried: &[Share] = match share {
            Share::Any => &[],
            Share::Auto => &[Share::L3, Share::Nothing, Share::L2],
            Share::L2 => &[Share::L2],
            Share::L3 => &[Share::L3],
            Share::Nothing => &[Share::Nothing],
        };
        for share in tried.iter().copied() {
            let mut slots = slots(share);
            if slots.len() >= 2 {
                slots.truncate(jobs);
                return Ok(Self { share, slots, jobs, all });
            }
        }
        match share {
            // With a single CPU, jobs share that.
            Share::Auto if each == 1 => {
                Ok(Self { share: Share::Any, slots: Vec::new(), jobs, all })
            }
            Share::Any => Ok(Self { share, slots: Vec::new(), jobs, all }),
            Share::Auto => Err(format!(
                "{each} CPUs for each of two jobs are more than the {} that this process may use; use a lower \
                 `cpus_each`, or `share = \"any\"`",
                all.len()
            )),
            _ => Err(format!(
                "of the CPUs that this process may use ({}), no {each} for each of two jobs share {}; use `share = \
                 \"auto\"`, or allow it more CPUs (`taskset -p $$`, `nproc`)",
                all.iter().map(u32::to_string).collect::<Vec<_>>().join(","),
                share.words()
            )),
        }
    }

    /// The CPUs of each job of a group. With as many places as jobs, a job always has the same one; else it has that of
    /// its rank in the group. A group with more jobs than places runs on the CPUs of all of them.
    pub fn cpus(&self, group: &[usize]) -> Vec<Vec<u32>> {
        let shared = || if self.slots.is_empty() { self.all.clone() } else { self.slots.concat() };
        let of = |(rank, job): (usize, &usize)| {
            let place = if self.slots.len() == self.jobs { *job } else { rank };
            let own = self.slots.get(place).filter(|_| group.len() <= self.slots.len());
            own.cloned().unwrap_or_else(shared)
        };
        group.iter().enumerate().map(of).collect()
    }
}

/// The slots of the domain that has most of them.
fn most(domains: impl Iterator<Item = Vec<Vec<u32>>>) -> Vec<Vec<u32>> {
    // Of equals the first.
    domains.reduce(|most, it| if it.len() > most.len() { it } else { most }).unwrap_or_default()
}

/// CPUs by what they share, in the order of their first one.
fn domains<'a>(
    cpus: impl IntoIterator<Item = &'a CpuCaches>,
    key: fn(&CpuCaches) -> &String,
) -> Vec<Vec<&'a CpuCaches>> {
    let mut domains: Vec<Vec<&CpuCaches>> = Vec::new();
    for cpu in cpus {
        match domains.iter_mut().find(|domain| key(domain[0]) == key(cpu)) {
            Some(domain) => domain.push(cpu),
            None => domains.push(vec![cpu]),
        }
    }
    domains
}

fn chunks(cpus: &[&CpuCaches], each: usize) -> Vec<Vec<u32>> {
    let numbers: Vec<u32> = cpus.iter().map(|it| it.cpu).collect();
    numbers.chunks_exact(each.max(1)).map(<[u32]>::to_vec).collect()
}

/// Slots of which no two have a CPU of the same domain.
fn apart(cpus: &[&CpuCaches], key: fn(&CpuCaches) -> &String, each: usize) -> Vec<Vec<u32>> {
    let mut slots = Vec::new();
    let mut slot = Vec::new();
    for domain in domains(cpus.iter().copied(), key) {
        slot.extend(domain.iter().map(|it| it.cpu));
        if slot.len() >= each.max(1) {
            slot.truncate(each.max(1));
            slots.push(std::mem::take(&mut slot));
        }
    }
    slots
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two sockets with a level-3 cache each, two cores on each, two threads on each core.
    fn cpus() -> Vec<CpuCaches> {
        let caches = |cpu: u32| CpuCaches {
            cpu,
            l2: format!("core {}", cpu / 2),
            l3: format!("socket {}", cpu / 4),
        };
        (0..8).map(caches).collect()
    }

    fn slots(share: Share, jobs: usize, each: usize) -> Vec<Vec<u32>> {
        Placement::of(&cpus(), share, jobs, each).unwrap().slots
    }

    #[test]
    fn jobs_share_what_is_asked_for() {
        assert_eq!(slots(Share::L2, 2, 1), [[0], [1]]);
        assert_eq!(slots(Share::L3, 2, 1), [[0], [2]]);
        assert_eq!(slots(Share::L3, 2, 2), [[0, 1], [2, 3]]);
        assert_eq!(slots(Share::Nothing, 2, 1), [[0], [4]]);
        assert_eq!(
            slots(Share::Nothing, 3, 4),
            [[0, 1, 2, 3], [4, 5, 6, 7]],
            "two places for three"
        );
        assert!(slots(Share::Any, 2, 1).is_empty());
    }

    #[test]
    fn by_default_jobs_share_a_level_3_cache_or_else_what_there_is() {
        let of = |share, cpus: &[CpuCaches]| Placement::of(cpus, share, 2, 1).map(|it| it.share);
        assert_eq!(of(Share::Auto, &cpus()), Ok(Share::L3));
        assert_eq!(of(Share::Auto, &[cpus()[0].clone(), cpus()[4].clone()]), Ok(Share::Nothing));
        assert_eq!(of(Share::Auto, &cpus()[..2]), Ok(Share::L2));
        assert_eq!(of(Share::Auto, &cpus()[..1]), Ok(Share::Any));
        let too_many = Placement::of(&cpus(), Share::Auto, 2, 9).unwrap_err();
        assert!(too_many.contains("cpus_each"), "{too_many}");
        assert!(
            of(Share::L2, &[cpus()[0].clone(), cpus()[4].clone()]).unwrap_err().contains("auto")
        );
        assert_eq!(of(Share::Any, &cpus()[..1]), Ok(Share::Any));
    }

    #[test]
    fn a_job_has_its_own_place_or_that_of_its_rank_or_shares_all() {
        let of_two = Placement::of(&cpus(), Share::L3, 2, 1).unwrap();
        assert_eq!(of_two.cpus(&[1]), [[2]], "alone as together with others");
        let of_three = Placement::of(&cpus(), Share::L3, 3, 1).unwrap();
        assert_eq!(of_three.slots, [[0], [2]]);
        assert_eq!(
            (of_three.cpus(&[1]), of_three.cpus(&[1, 2])),
            (vec![vec![0]], vec![vec![0], vec![2]])
        );
        assert_eq!(of_three.cpus(&[0, 1, 2]), [[0, 2], [0, 2], [0, 2]]);
        let any = Placement::of(&cpus(), Share::Any, 3, 1).unwrap();
        assert_eq!(any.cpus(&[0]), [(0..8).collect::<Vec<_>>()]);
    }
}
