use rand::{RngExt as _, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;

const ALONE: [f64; 2] = [10.0, 20.0];

fn groups() -> Vec<Vec<usize>> {
    vec![vec![0], vec![1], vec![0, 1]]
}

fn rule() -> StopRule {
    StopRule::new(8, 8, 0.03).unwrap()
}

fn job(seconds: f64) -> JobSample {
    JobSample { seconds, work: None }
}

/// Blocks of each job alone and both together, with this noise on every time.
fn samples(blocks: u32, slowdowns: [f64; 2], noise: f64, seed: u64) -> Vec<Sample> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    // The sum of twelve uniform numbers less 6 is nearly normal.
    let mut vary = |value: f64| {
        let normal = (0..12).map(|_| rng.random_range(0.0..1.0)).sum::<f64>() - 6.0;
        value * (1.0 + noise * normal)
    };
    let mut samples = Vec::new();
    for block in 0..blocks {
        for (group, places) in groups().into_iter().enumerate() {
            let is_together = places.len() == 2;
            let jobs: Vec<JobSample> = places
                .iter()
                .map(|place| {
                    job(vary(ALONE[*place] * if is_together { slowdowns[*place] } else { 1.0 }))
                })
                .collect();
            let seconds = jobs.iter().map(|job| job.seconds).fold(0.0, f64::max);
            let watts = if is_together { 70.0 } else { 60.0 };
            let energy = Energy { joules: watts * seconds, by: EnergyBy::Meter };
            samples.push(Sample { block, group, seconds, energy: Some(energy), jobs });
        }
    }
    samples
}

fn answered(samples: &[Sample]) -> Answers {
    answers(&groups(), samples, Rules { stop: &rule(), margin: 0.03 })
}

#[test]
fn a_group_is_compared_with_its_jobs_one_after_the_other() {
    let answers = answered(&samples(8, [1.5, 1.2], 0.0, 1));
    let pair = &answers.groups[2];
    // Together 24 s at 70 W; one after the other 30 s at 60 W.
    let (time, energy) = (pair.time.unwrap(), pair.energy.unwrap());
    assert!((time.ratio - 0.8).abs() < 1e-12 && time.advice() == Advice::Together, "{time:?}");
    assert!((energy.ratio - 1680.0 / 1800.0).abs() < 1e-12, "{energy:?}");
    assert_eq!((energy.advice(), energy.blocks), (Advice::Together, 8));
    let slowdowns: Vec<f64> = pair.slowdowns.iter().map(|it| it.slowdown.ratio).collect();
    assert!((slowdowns[0] - 1.5).abs() < 1e-12 && (slowdowns[1] - 1.2).abs() < 1e-12);
    assert!(answers.groups[0].time.is_none() && answers.groups[0].slowdowns.is_empty());
    let best = answers.least_time.last().unwrap();
    assert_eq!((best.groups.as_slice(), best.at_once), (&[vec![0, 1]][..], 2));
    assert!((best.seconds - 24.0).abs() < 1e-12 && (best.saved.unwrap().ratio - 0.8).abs() < 1e-12);
}

/// Samples whose energy is by a model: watts at both ends of its range, alone and together.
fn modelled(ends: impl Fn(bool) -> Option<[f64; 2]>) -> Vec<Sample> {
    let mut samples = samples(8, [1.5, 1.2], 0.0, 1);
    for Sample { group, seconds, energy, .. } in &mut samples {
        let ends = ends(*group == 2)
            .map(|[low, high]| AtEnds { low_idle: low * *seconds, high_idle: high * *seconds });
        *energy = energy.map(|energy| Energy { by: EnergyBy::Model(ends), ..energy });
    }
    samples
}

#[test]
fn modelled_energy_is_advice_if_it_is_so_at_both_ends_of_the_models_range() {
    // By the model's figure 24 s at 70 W against 30 s at 60 W: 93.3 %. At an end without load-dependent power 80 %.
    let energy = |samples: &[Sample]| answered(samples).groups[2].energy.unwrap();
    let sure = energy(&modelled(|is_together| {
        Some(if is_together { [35.0, 70.0] } else { [30.0, 70.0] })
    }));
    assert_eq!((sure.advice(), sure.is_unsure_by_model), (Advice::Together, false));
    let interval = sure.interval.unwrap();
    assert!((interval.low - 0.8).abs() < 1e-12 && (interval.high - 1680.0 / 1800.0).abs() < 1e-12);
    // Idle power next to nothing: 24 s at 40 W against 30 s at 20 W.
    let by_load =
        modelled(|is_together| Some(if is_together { [40.0, 70.0] } else { [20.0, 70.0] }));
    let unsure = energy(&by_load);
    assert_eq!((unsure.advice(), unsure.verdict), (Advice::CannotTellByModel, Verdict::CannotTell));
    let interval = unsure.interval.unwrap();
    assert!((interval.low - 0.8).abs() < 1e-12 && (interval.high - 1.6).abs() < 1e-12);
    assert!((unsure.ratio - 1680.0 / 1800.0).abs() < 1e-12);
    let answers = answered(&by_load);
    let saved = |groupings: &[Grouping]| groupings.last().unwrap().saved.unwrap().advice();
    assert_eq!(saved(&answers.least_energy), Advice::CannotTellByModel);
    assert_eq!(saved(&answers.least_time), Advice::Together, "time is measured");
    // A model of which no range is known.
    assert_eq!(energy(&modelled(|_| None)).advice(), Advice::CannotTellByModel);
    // Noise is noise, by whatever model.
    let mut noisy = samples(8, [3.0, 1.5], 0.2, 1);
    for sample in &mut noisy {
        sample.energy = Some(Energy { joules: sample.seconds, by: EnergyBy::Model(None) });
    }
    assert_eq!(energy(&noisy).advice(), Advice::CannotTell);
}

#[test]
fn without_two_runs_of_each_job_alone_there_is_no_advice() {
    let all = samples(8, [1.5, 1.2], 0.0, 1);
    let without = |group: usize, kept: u32| {
        let is_kept = |it: &&Sample| it.group != group || it.block < kept;
        answered(&all.iter().filter(is_kept).cloned().collect::<Vec<_>>())
    };
    for kept in [0, 1] {
        let answers = without(1, kept);
        assert_eq!(answers.unknown_alone, [1]);
        assert!(answers.least_time.is_empty() && answers.least_energy.is_empty());
    }
    assert!(without(1, 2).unknown_alone.is_empty());
    // The pair ran once: only one after the other is known.
    let answers = without(2, 1);
    let [only] = &answers.least_time[..] else { panic!("{:?}", answers.least_time) };
    assert!(only.is_one_after_the_other() && only.saved.is_none());
}

#[test]
fn jobs_that_stop_each_other_are_better_apart() {
    let answers = answered(&samples(8, [3.5, 1.75], 0.0, 1));
    // 35 s together, 30 s one after the other.
    assert_eq!(answers.groups[2].time.unwrap().advice(), Advice::Apart);
    let best: Vec<_> = answers.least_time.iter().map(|it| &it.groups).collect();
    assert_eq!(best.len(), 1, "two at once are not better: {best:?}");
    assert_eq!(best[0].len(), 2);
}

#[test]
fn intervals_of_few_and_different_runs_end_at_0() {
    let mut ends_at_0 = 0;
    for seed in 0..100 {
        let answers = answered(&samples(2, [1.2, 1.1], 0.25, seed));
        for group in &answers.groups {
            let ratios = group.slowdowns.iter().map(|it| it.slowdown).chain(group.time);
            let of_ratios = ratios.filter_map(|it| it.interval);
            let of_means = group.seconds.and_then(|it| it.interval);
            for interval in of_ratios.chain(of_means) {
                assert!(interval.low >= 0.0 && interval.high > 0.0, "{interval:?}");
                ends_at_0 += u32::from(interval.low == 0.0);
            }
        }
    }
    assert!(ends_at_0 > 0, "two runs that differ by a quarter hardly bound a ratio from below");
}

#[test]
fn noise_gives_no_advice() {
    // Together as long as one after the other: 30 s.
    let answers = answered(&samples(8, [3.0, 1.5], 0.2, 1));
    assert_eq!(answers.groups[2].time.unwrap().advice(), Advice::CannotTell);
}

#[test]
fn a_null_pair_covers_1_in_95_of_100_and_a_throttled_job_its_known_slowdown() {
    for (truth, noise) in [(1.0, 0.05), (1.25, 0.1), (2.0, 0.02)] {
        let (mut covers, mut widths) = (0, 0.0);
        for seed in 0..1_000 {
            // The first job beside one that idles: truth is what slows it down.
            let answers = answered(&samples(8, [truth, 1.0], noise, seed));
            let interval = answers.groups[2].slowdowns[0].slowdown.interval.unwrap();
            covers += u32::from(interval.contains(truth));
            widths += interval.width() / 2.0 / 1_000.0;
        }
        // Of 1,000 at 95 %, the standard deviation is 7.
        assert!((929..=971).contains(&covers), "{covers} of 1,000 for {truth}");
        // Student's t with 7 degrees of freedom is 2.36; two means of eight add their errors.
        let closed = 2.36 * truth * noise * (2.0_f64 / 8.0).sqrt();
        assert!((widths / closed - 1.0).abs() < 0.15, "{widths} beside {closed}");
    }
}

#[test]
fn operations_count_where_a_tool_has_them() {
    // A server load of 10 s each time: 1,000 operations alone, 800 beside the other.
    let mut all = samples(8, [1.0, 1.0], 0.0, 1);
    for sample in &mut all {
        let operations = if sample.group == 2 { 800.0 } else { 1_000.0 };
        let job = &mut sample.jobs[0];
        if sample.group != 1 {
            job.work = Some(Work { operations, per_second: operations / 10.0 });
        }
    }
    let answers = answered(&all);
    let slowdown = answers.groups[2].slowdowns[0];
    assert!(slowdown.by_operations && (slowdown.slowdown.ratio - 1.25).abs() < 1e-12);
    assert!(!answers.groups[2].slowdowns[1].by_operations);
    // It does less work beside the other, so times of the group say nothing of what is better.
    assert_eq!((answers.uneven.as_slice(), answers.groups[2].time), (&[0][..], None));
    assert!(answers.least_time.is_empty());
}

#[test]
fn what_has_not_run_gives_no_answer() {
    let none = answered(&[]);
    assert!(none.groups.iter().all(|it| it.runs == 0 && it.time.is_none()));
    assert!(none.least_time.is_empty() && none.least_energy.is_empty());
    let mut without_energy = samples(3, [1.0, 1.0], 0.01, 1);
    for sample in &mut without_energy {
        sample.energy = None;
    }
    let answers = answered(&without_energy);
    assert!(answers.groups[2].energy.is_none() && answers.least_energy.is_empty());
    let best = answers.least_time.last().unwrap();
    assert!(best.joules.is_none() && best.saved.is_some());
}

#[test]
fn of_many_groups_the_best_is_the_sum_of_measured_ones() {
    // Three jobs of 10 s: 0 and 1 run well together, all others stop each other.
    let groups: Vec<Vec<usize>> =
        vec![vec![0], vec![1], vec![2], vec![0, 1], vec![0, 2], vec![1, 2], vec![0, 1, 2]];
    let seconds = [10.0, 10.0, 10.0, 11.0, 25.0, 25.0, 40.0];
    let mut samples = Vec::new();
    for block in 0..5 {
        for (group, places) in groups.iter().enumerate() {
            // A block that is slower is so in all groups.
            let seconds = seconds[group] * (1.0 + 0.1 * f64::from(block));
            let jobs = vec![job(seconds); places.len()];
            samples.push(Sample { block, group, seconds, energy: None, jobs });
        }
    }
    let answers = answers(&groups, &samples, Rules { stop: &rule(), margin: 0.03 });
    let best = answers.least_time.last().unwrap();
    let mut found = best.groups.clone();
    found.sort_unstable();
    assert_eq!(found, [vec![0, 1], vec![2]]);
    assert!((best.saved.unwrap().ratio - 0.7).abs() < 1e-12, "21 s for 30 s, in every block");
}
