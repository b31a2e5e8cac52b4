use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::judged_ratios::answers;
use super::*;
use nightwatt_energy::stats::equivalence::Verdict;
use nightwatt_energy::stats::ratio;

/// So many environments under so many workloads.
pub(super) fn design(environments: usize, comparisons: usize) -> Design {
    let cells: Vec<Cell> = (0..comparisons)
        .flat_map(|comparison| {
            (0..environments).map(move |environment| Cell { environment, comparison })
        })
        .collect();
    Design {
        environments: (0..environments).map(|place| format!("environment {place}")).collect(),
        baseline: 0,
        comparisons: (0..comparisons).map(|place| format!("workload {place}")).collect(),
        groups: cells.iter().map(|cell| cell.environment).collect(),
        cells,
        main: "J/op".to_owned(),
        rule: Rule {
            min: 3,
            max: 10,
            share: 0.03,
            retries: 1,
            give_up_after: 2,
            restart: Restart::Block,
            seed: 5,
        },
    }
}

pub(super) fn figures(value: f64) -> Outcome {
    Outcome::Figures(BTreeMap::from([("J/op".to_owned(), value)]))
}

fn failed() -> Outcome {
    Outcome::Failed("it did not start".to_owned())
}

/// Runs to the end; what came of each step is asked for.
fn run(experiment: &mut Experiment, mut outcome: impl FnMut(Step) -> Outcome) -> Vec<Step> {
    let mut steps = Vec::new();
    while let Some(step) = experiment.next_run() {
        let Step { block, cell, attempt, .. } = step;
        experiment.done(Done { block, cell, attempt, outcome: outcome(step) }).unwrap();
        steps.push(step);
        assert!(steps.len() < 10_000, "it does not end");
    }
    steps
}

#[test]
fn cells_that_are_precise_wait_for_the_one_of_their_comparison_that_is_not() {
    let mut experiment = Experiment::new(design(2, 2)).unwrap();
    // Cells 0 and 1 are workload 0, 2 and 3 workload 1. Only cell 3 varies: by 5 %, up and down.
    let steps = run(&mut experiment, |step| {
        let up = if step.block.is_multiple_of(2) { 1.05 } else { 0.95 };
        figures(if step.cell == 3 { up } else { 1.0 + 1e-4 * f64::from(step.block) })
    });
    let runs = |cell| steps.iter().filter(|step| step.cell == cell).count();
    assert_eq!((runs(0), runs(1)), (3, 3));
    assert_eq!((runs(2), runs(3)), (10, 10));
    assert_eq!((experiment.end(0), experiment.end(1)), (Some(End::Precise), Some(End::Cap)));
}

#[test]
fn a_failed_run_is_tried_again_afresh_and_a_cell_that_always_fails_is_given_up() {
    let mut experiment = Experiment::new(design(3, 1)).unwrap();
    let steps = run(&mut experiment, |step| match step.cell {
        1 => failed(),
        2 if step.block == 1 && step.attempt == 0 => failed(),
        cell => figures(1.0 + 1e-4 * (cell as f64 + f64::from(step.block))),
    });
    // Two blocks, a retry in each; then it is left out, and the others come to their end.
    let given_up: Vec<_> =
        steps.iter().filter(|step| step.cell == 1).map(|step| (step.block, step.attempt)).collect();
    assert_eq!(given_up, [(0, 0), (0, 1), (1, 0), (1, 1)]);
    assert!(experiment.is_given_up(1) && experiment.end(0) == Some(End::Precise));
    // Each environment has one cell: every step is fresh anyway, retries too.
    assert!(steps.iter().all(|step| step.fresh_environment));
    let answers = answers(&experiment, 0.02);
    let counted: Vec<_> = answers
        .cells
        .iter()
        .map(|cell| (cell.finished, cell.failed, cell.lost_blocks, cell.given_up))
        .collect();
    assert_eq!(counted, [(3, 0, 0, false), (0, 4, 2, true), (3, 1, 0, false)]);
    let family = &answers.figures["J/op"].to_baseline;
    assert_eq!((family.judged, family.ratios.len(), family.without.len()), (1, 1, 1));
    assert_eq!(family.without[0].environment, "environment 1");
    let ratio = &family.ratios[0];
    assert_eq!((ratio.environment.as_str(), ratio.pairs), ("environment 2", 3));
}

#[test]
fn a_failure_that_others_share_ends_these_at_once_also_in_this_block() {
    let mut experiment = Experiment::new(design(4, 1)).unwrap();
    // The first cell that runs fails for itself and for the third one.
    let (first, third) = (experiment.order()[0], experiment.order()[2]);
    let outcome = |step: Step| {
        if step.cell == first {
            let (why, cells) = ("no disk".to_owned(), vec![first, third]);
            return Outcome::FailedForAll { why, cells };
        }
        figures(1.0 + 1e-4 * f64::from(step.block))
    };
    let steps = run(&mut experiment, outcome);
    let runs = |cell| steps.iter().filter(|step| step.cell == cell).count();
    let counted: Vec<usize> = (0..4).map(runs).collect();
    assert_eq!((counted[first], counted[third], counted.iter().sum::<usize>()), (1, 0, 7));
    assert!(experiment.is_given_up(first) && experiment.is_given_up(third));
    assert_eq!(experiment.end(0), Some(End::Precise));
    let progress = experiment.progress();
    assert_eq!((progress.done, progress.failed, progress.most_left), (7, 1, 0));
    // The same runs again, as after an interruption.
    let again = Experiment::resume(design(4, 1), experiment.runs().to_vec()).unwrap();
    assert_eq!((again.next_run(), again.end(0)), (None, Some(End::Precise)));
    // It ends the block where what it ends comes last.
    let mut last = Experiment::new(design(2, 1)).unwrap();
    let all = |_| Outcome::FailedForAll { why: String::new(), cells: vec![0, 1] };
    assert_eq!((run(&mut last, all).len(), last.end(0)), (1, Some(End::GivenUp)));
    let mut wrong = Experiment::new(design(2, 1)).unwrap();
    let Step { block, cell, attempt, .. } = wrong.next_run().unwrap();
    let outcome = Outcome::FailedForAll { why: String::new(), cells: vec![2] };
    let error = wrong.done(Done { block, cell, attempt, outcome }).unwrap_err();
    assert_eq!(error, ExperimentError::Place { what: "cell", place: 2, count: 2 });
}

#[test]
fn a_comparison_of_which_nothing_runs_is_given_up() {
    let mut experiment = Experiment::new(design(2, 1)).unwrap();
    assert_eq!(run(&mut experiment, |_| failed()).len(), 8);
    assert_eq!(experiment.end(0), Some(End::GivenUp));
    let progress = experiment.progress();
    assert_eq!((progress.done, progress.failed, progress.most_left), (8, 8, 0));
    assert!(answers(&experiment, 0.02).figures.is_empty());
}

#[test]
fn a_cell_that_fails_now_and_then_is_not_given_up_and_pairs_are_of_common_blocks() {
    let mut experiment = Experiment::new(design(2, 1)).unwrap();
    let steps = run(&mut experiment, |step| {
        if step.cell == 1 && [0, 2].contains(&step.block) {
            return failed();
        }
        figures([1.0, 2.0][step.cell] * (1.0 + 1e-4 * f64::from(step.block)))
    });
    // Three values of cell 1 take five blocks, and cell 0 runs in all of them.
    assert_eq!(steps.last().unwrap().block, 4);
    assert!(!experiment.is_given_up(1));
    let answers = answers(&experiment, 0.02);
    let figure = &answers.figures["J/op"];
    assert_eq!((figure.cells[0].n, figure.cells[1].n), (5, 3));
    let ratio = &figure.to_baseline.ratios[0];
    assert_eq!((ratio.pairs, ratio.design), (3, ratio::Design::Paired));
    assert!((ratio.ratio - 2.0).abs() < 1e-12, "within a block it is 2: {}", ratio.ratio);
}

#[test]
fn an_environment_is_started_once_a_block_and_anew_after_a_failure() {
    let mut experiment = Experiment::new(design(2, 3)).unwrap();
    let steps = run(&mut experiment, |step| {
        let fails = step.block == 1 && step.cell == 2 && step.attempt == 0;
        if fails { failed() } else { figures(1.0 + 1e-4 * f64::from(step.block)) }
    });
    for block in 0..3 {
        let of_block: Vec<&Step> = steps.iter().filter(|step| step.block == block).collect();
        let fresh = of_block.iter().filter(|step| step.fresh_environment).count();
        assert_eq!(fresh, if block == 1 { 3 } else { 2 }, "block {block}: {of_block:?}");
    }
    let mut every_run = design(2, 3);
    every_run.rule.restart = Restart::Run;
    let mut experiment = Experiment::new(every_run).unwrap();
    let steps = run(&mut experiment, |step| figures(1.0 + 1e-4 * f64::from(step.block)));
    assert!(steps.iter().all(|step| step.fresh_environment));
}

#[test]
fn every_order_is_as_likely_as_any_other_and_follows_from_the_seed() {
    let orders = |seed: u64, restart: Restart| {
        let mut plan = design(2, 2);
        plan.rule = Rule { max: 600, seed, restart, ..plan.rule };
        let mut experiment = Experiment::new(plan).unwrap();
        let far_apart = |block: u32| if block.is_multiple_of(2) { 1.0 } else { 9.0 };
        let steps = run(&mut experiment, |step| figures(far_apart(step.block)));
        blocks(&steps).into_values().collect::<Vec<_>>()
    };
    for (restart, kinds) in [(Restart::Block, 8), (Restart::Run, 24)] {
        let found = orders(5, restart);
        let mut counts = BTreeMap::<&[usize], f64>::new();
        for order in &found {
            *counts.entry(order).or_default() += 1.0;
        }
        // Chi-squared over all kinds; its mean is one less than these, its deviation the root of twice
        // that. Two environments of two cells each: 2 x 2 x 2 orders; four cells shuffled: 24.
        let expected = 600.0 / f64::from(kinds);
        let squares: f64 = counts.values().map(|count| (count - expected).powi(2) / expected).sum();
        let degrees = f64::from(kinds - 1);
        assert_eq!(counts.len(), kinds as usize, "seed 5: {counts:?}");
        assert!(squares < degrees + 4.0 * (2.0 * degrees).sqrt(), "seed 5: {squares}");
        assert_eq!(found, orders(5, restart), "the same seed");
        assert_ne!(found, orders(6, restart), "another seed");
    }
}

#[test]
fn what_is_left_is_known_as_soon_as_spreads_are() {
    let mut experiment = Experiment::new(design(2, 1)).unwrap();
    let progress = experiment.progress();
    assert_eq!((progress.expected_left, progress.most_left), (None, 20));
    let mut seen = Vec::new();
    run(&mut experiment.clone(), |_| figures(1.0));
    while let Some(Step { block, cell, attempt, .. }) = experiment.next_run() {
        let outcome = figures(1.0 + 1e-4 * f64::from(block));
        experiment.done(Done { block, cell, attempt, outcome }).unwrap();
        let progress = experiment.progress();
        seen.push((progress.expected_left, progress.most_left));
    }
    // Three blocks of two are enough; two values of both cells are known after four runs.
    let expected = [(None, 19), (None, 18), (None, 17), (Some(2), 16), (Some(1), 15), (Some(0), 0)];
    assert_eq!(seen, expected);
}

#[test]
fn runs_of_another_plan_are_refused() {
    let mut experiment = Experiment::new(design(2, 1)).unwrap();
    let Step { block, cell, attempt, .. } = experiment.next_run().unwrap();
    let other = Done { block, cell: 1 - cell, attempt, outcome: figures(1.0) };
    let error = experiment.done(other).unwrap_err();
    assert!(matches!(error, ExperimentError::OutOfOrder { .. }), "{error}");
    for value in [f64::NAN, f64::INFINITY] {
        let error = experiment.done(Done { block, cell, attempt, outcome: figures(value) });
        assert!(matches!(error, Err(ExperimentError::NoFigure { .. })));
    }
    assert_eq!(experiment.runs(), []);
}

#[test]
fn designs_that_nobody_can_run_are_refused() {
    let refused = |change: &dyn Fn(&mut Design)| {
        let mut design = design(2, 1);
        change(&mut design);
        Experiment::new(design).unwrap_err()
    };
    assert!(matches!(refused(&|d| d.cells.clear()), ExperimentError::Empty));
    assert!(matches!(
        refused(&|d| {
            d.cells.push(d.cells[0]);
            d.groups.push(0);
        }),
        ExperimentError::Twice { .. }
    ));
    assert!(matches!(refused(&|d| d.cells[0].environment = 2), ExperimentError::Place { .. }));
    assert!(matches!(refused(&|d| d.comparisons.push("two".into())), ExperimentError::Idle(_)));
    assert!(matches!(refused(&|d| d.baseline = 2), ExperimentError::Place { .. }));
    assert!(matches!(refused(&|d| d.rule.give_up_after = 0), ExperimentError::GiveUp));
    assert!(matches!(refused(&|d| d.rule.min = 2), ExperimentError::Rule(_)));
}

/// By hand: pairs (10, 20), (11, 22), (12, 25), (11, 21) by block; means 11 and 22, sd sqrt(2/3) and
/// sqrt(14/3).
#[test]
fn answers_of_four_blocks_by_hand() {
    let mut plan = design(2, 1);
    plan.rule = Rule { min: 4, max: 4, ..plan.rule };
    let mut experiment = Experiment::new(plan).unwrap();
    let values = [[10.0, 11.0, 12.0, 11.0], [20.0, 22.0, 25.0, 21.0]];
    run(&mut experiment, |step| figures(values[step.cell][step.block as usize]));
    let answers = answers(&experiment, 0.02);
    let figure = &answers.figures["J/op"];
    let cell = &figure.cells[0];
    assert_eq!((cell.n, cell.mean), (4, Some(11.0)));
    assert!((cell.sd.unwrap() - (2.0_f64 / 3.0).sqrt()).abs() < 1e-12);
    // 1.96 x 0.8164966 / 2 and 3.1824463 x 0.8164966 / 2; a fixed number of runs widens nothing.
    assert!((cell.normal.unwrap().high - 11.800_167).abs() < 1e-6);
    assert!((cell.student.unwrap().high - 12.299_228).abs() < 1e-6);
    assert!((cell.sequential.unwrap().high - 12.299_228).abs() < 1e-6);
    assert!((cell.relative_half_width.unwrap() - 1.299_228 / 11.0).abs() < 1e-6);
    let ratio = &figure.to_baseline.ratios[0];
    assert_eq!(
        (ratio.design, ratio.pairs, figure.to_baseline.judged),
        (ratio::Design::Paired, 4, 1)
    );
    assert!((ratio.ratio - 2.0).abs() < 1e-12);
    // T(1): differences 10, 11, 13, 10: mean 11, sd sqrt(2): 11 / (sqrt(2) / 2) = 15.556; three degrees.
    // scipy.stats.t.sf(15.556349186104045, 3) x 2 = 0.000578.
    assert!((ratio.p - 0.000_577_6).abs() < 1e-6, "{}", ratio.p);
    assert_eq!(ratio.verdict, Verdict::Differs);
    let text = serde_json::to_string(experiment.runs()).unwrap();
    assert_eq!(serde_json::from_str::<Vec<Done>>(&text).unwrap(), experiment.runs());
    let json = serde_json::to_value(&answers).unwrap();
    assert_eq!(json["figures"]["J/op"]["to_baseline"]["ratios"][0]["verdict"], "differs");
    assert_eq!(json["comparisons"][0]["end"], "cap");
}

#[test]
fn every_pair_of_environments_has_a_ratio_in_one_of_two_families() {
    let mut plan = design(3, 2);
    plan.baseline = 1;
    let mut experiment = Experiment::new(plan).unwrap();
    run(&mut experiment, |step| {
        figures([1.0, 2.0, 4.0][step.cell % 3] * (1.0 + 1e-4 * f64::from(step.block)))
    });
    let answers = answers(&experiment, 0.02);
    let named = |family: &judged_ratios::Family| -> Vec<(String, String, f64, usize)> {
        let name = |name: &str| name.trim_start_matches("environment ").to_owned();
        family
            .ratios
            .iter()
            .filter(|ratio| ratio.comparison == "workload 1")
            .map(|ratio| {
                let rounded = (ratio.ratio * 1e6).round() / 1e6;
                let (one, other) = (name(&ratio.environment), name(&ratio.reference));
                (one, other, rounded, family.judged)
            })
            .collect()
    };
    let of = |one: &str, other: &str, ratio, judged| (one.into(), other.into(), ratio, judged);
    let figure = &answers.figures["J/op"];
    assert_eq!(named(&figure.to_baseline), [of("0", "1", 0.5, 4), of("2", "1", 2.0, 4)]);
    assert_eq!(named(&figure.to_each_other), [of("2", "0", 4.0, 2)]);
}

#[test]
fn outliers_are_marked_and_still_counted() {
    let mut plan = design(1, 1);
    plan.rule = Rule { min: 6, max: 6, ..plan.rule };
    let mut experiment = Experiment::new(plan).unwrap();
    // The example of `stats::outliers`: 40 lies more 21.25.
    let values = [7.0, 40.0, 1.0, 4.0, 2.0, 11.0];
    run(&mut experiment, |step| figures(values[step.block as usize]));
    let answers = answers(&experiment, 0.02);
    let cell = &answers.figures["J/op"].cells[0];
    assert_eq!(cell.outliers, [judged_ratios::Outlier { block: 1, value: 40.0 }]);
    assert!((cell.mean.unwrap() - 65.0 / 6.0).abs() < 1e-12, "it is in the mean");
}

/// Any design, with outcomes that follow from block, cell and attempt.
#[derive(Debug, Clone)]
struct Play {
    design: Design,
    noise: u64,
    fails: u64,
}

impl Play {
    fn outcome(&self, block: u32, cell: usize, attempt: u32) -> Outcome {
        let mut mixed = self.noise;
        for part in [u64::from(block), cell as u64, u64::from(attempt)] {
            mixed = (mixed ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        }
        if mixed % 100 < self.fails {
            return failed();
        }
        figures(100.0 + (mixed >> 32) as f64 / f64::from(u32::MAX) * 20.0)
    }
}

fn plays() -> impl Strategy<Value = Play> {
    let size = (1..4_usize, 1..4_usize, any::<u16>(), any::<bool>());
    let rule = (3..5_u32, 0..6_u32, 0.02..0.2_f64, 0..3_u32, 1..4_u32, any::<u64>());
    (size, rule, any::<u64>(), 0..60_u64).prop_map(|(size, rule, noise, fails)| {
        let (environments, comparisons, left_out, every_run) = size;
        let mut design = design(environments, comparisons);
        // Not every environment has every workload.
        let mut bits = left_out;
        design.cells.retain(|_| {
            bits = bits.rotate_left(1);
            bits & 3 != 3
        });
        for comparison in 0..comparisons {
            if design.cells.iter().all(|cell| cell.comparison != comparison) {
                design.cells.push(Cell { environment: 0, comparison });
            }
        }
        design.groups = design.cells.iter().map(|cell| cell.environment).collect();
        let (min, more, share, retries, give_up_after, seed) = rule;
        let restart = if every_run { Restart::Run } else { Restart::Block };
        let max = min + more;
        design.rule = Rule { min, max, share, retries, give_up_after, restart, seed };
        Play { design, noise, fails }
    })
}

/// The cells of a block in the order in which their first attempts came.
fn blocks(steps: &[Step]) -> BTreeMap<u32, Vec<usize>> {
    let mut blocks = BTreeMap::<u32, Vec<usize>>::new();
    for step in steps.iter().filter(|step| step.attempt == 0) {
        blocks.entry(step.block).or_default().push(step.cell);
    }
    blocks
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn an_experiment_resumed_after_any_run_goes_on_as_if_nothing_had_been(
        play in plays(), cut in 0.0..1.0_f64
    ) {
        let mut whole = Experiment::new(play.design.clone()).unwrap();
        let steps = run(&mut whole, |step| play.outcome(step.block, step.cell, step.attempt));
        let cut = (cut * (steps.len() + 1) as f64) as usize;
        let kept = whole.runs()[..cut].to_vec();
        let mut resumed = Experiment::resume(play.design.clone(), kept).unwrap();
        let rest = run(&mut resumed, |step| play.outcome(step.block, step.cell, step.attempt));
        prop_assert_eq!(&rest[..], &steps[cut..]);
        prop_assert_eq!(resumed.runs(), whole.runs());
        prop_assert_eq!(answers(&resumed, 0.02), answers(&whole, 0.02));
    }

    #[test]
    fn every_block_holds_every_open_cell_once(play in plays()) {
        let mut experiment = Experiment::new(play.design.clone()).unwrap();
        let mut open: BTreeMap<u32, BTreeSet<usize>> = BTreeMap::new();
        while let Some(Step { block, cell, attempt, .. }) = experiment.next_run() {
            open.entry(block).or_insert_with(|| {
                let cells = play.design.cells.iter().enumerate();
                let is_open = |(cell, of): &(usize, &Cell)| {
                    experiment.end(of.comparison).is_none() && !experiment.is_given_up(*cell)
                };
                cells.filter(is_open).map(|(cell, _)| cell).collect()
            });
            let outcome = play.outcome(block, cell, attempt);
            experiment.done(Done { block, cell, attempt, outcome }).unwrap();
        }
        let last = *open.keys().last().unwrap();
        prop_assert!(last < play.design.rule.max);
        prop_assert_eq!(open.len(), last as usize + 1, "no block is left out");
        let mut again = Experiment::new(play.design.clone()).unwrap();
        let steps = run(&mut again, |step| play.outcome(step.block, step.cell, step.attempt));
        for (block, cells) in blocks(&steps) {
            let once: BTreeSet<usize> = cells.iter().copied().collect();
            prop_assert_eq!(once.len(), cells.len(), "block {}: {:?}", block, cells);
            prop_assert_eq!(&once, &open[&block], "block {}", block);
            if play.design.rule.restart == Restart::Block {
                let mut environments: Vec<usize> =
                    cells.iter().map(|&cell| play.design.cells[cell].environment).collect();
                environments.dedup();
                let started: BTreeSet<usize> = environments.iter().copied().collect();
                prop_assert_eq!(started.len(), environments.len(), "started twice: {:?}", cells);
            }
        }
    }

    #[test]
    fn failed_runs_never_vanish(play in plays()) {
        let mut experiment = Experiment::new(play.design.clone()).unwrap();
        let (mut told, mut told_failed) = (0_u64, 0_u64);
        run(&mut experiment, |step| {
            let outcome = play.outcome(step.block, step.cell, step.attempt);
            told += 1;
            told_failed += u64::from(matches!(outcome, Outcome::Failed(_)));
            outcome
        });
        let answers = answers(&experiment, 0.02);
        let failed: u64 = answers.cells.iter().map(|cell| cell.failed).sum();
        let finished: u64 = answers.cells.iter().map(|cell| cell.finished).sum();
        prop_assert_eq!((finished + failed, failed), (told, told_failed));
        prop_assert_eq!((experiment.progress().done, experiment.progress().failed), (told, failed));
        for (place, cell) in answers.cells.iter().enumerate() {
            let blocks = experiment.runs().iter().filter(|run| run.cell == place);
            let blocks = blocks.map(|run| run.block).collect::<BTreeSet<_>>().len() as u64;
            prop_assert_eq!(cell.finished + cell.lost_blocks, blocks, "{:?}", cell);
        }
    }
}
