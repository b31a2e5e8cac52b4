//! Without running anything: effects that were planted are found, and where there are none, none is.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use nightwatt_compare::pure::experiment::{Done, Experiment, Outcome};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

use super::*;
use crate::ends::EndsConfig;
use crate::link::{Emulation, Offers};
use crate::scenario::Scenario;
use crate::study::Cell;

/// All seeds of the simulations follow it.
const SEED: u64 = 1006;

fn plan(changes: &str, most: u32) -> HelpsPlan {
    HelpsPlan {
        plan: Plan {
            ends: EndsConfig::Namespaces,
            scenarios: vec![Scenario::bare()],
            cells: vec![Cell { connections: 1, segments: 10, congestion: "cubic".to_owned() }],
            lifetimes: 200.0,
            longest: Duration::from_mins(1),
            least: 3,
            most,
            precision: 0.03,
            main: "cpu".to_owned(),
            accept_link: false,
            offload: true,
            meters: Vec::new(),
            energy: None,
            wake_cost: None,
            kernel_time: None,
            capture: false,
            program: PathBuf::new(),
            seed: SEED,
        },
        changes: Change::parse_all(changes).unwrap(),
        margin: 0.03,
    }
}

/// Runs all of it with these factors of the true CPU time, one for each change. Blocks stray by a fifth, as
/// on a busy machine, and single runs by 1 %; energy beyond idle is noise about nothing.
fn simulated(changes: &str, most: u32, factors: &[f64], seed: u64) -> LinkHelps {
    let plan = plan(changes, most);
    let comparisons: Vec<Comparison> =
        (0..factors.len()).map(|change| Comparison { change, cell: 0 }).collect();
    let mut experiment = Experiment::new(plan.design(&comparisons)).unwrap();
    let offers = Offers { netem: true, tbf: true, nftables: true, tap: true };
    let emulation = Emulation::of(&Scenario::bare(), offers).unwrap();
    let mut link = LinkHelps::of(&Scenario::bare(), &emulation, None);
    link.expects(&plan, &comparisons, &[1.0]);
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut normal = || -> f64 { StandardNormal.sample(&mut rng) };
    let mut block = (u32::MAX, 1.0);
    while let Some(step) = experiment.next_run() {
        if block.0 != step.block {
            block = (step.block, 1.0 + 0.2 * normal().clamp(-3.0, 3.0));
        }
        let place = experiment.design().cells[step.cell];
        let factor = if place.environment == 1 { factors[place.comparison] } else { 1.0 };
        let cpu = 2e-3 * block.1 * factor * (1.0 + 0.01 * normal());
        let energy = 1e-3 * normal();
        let figures = [("cpu", cpu), ("energy", energy), ("rate", 1e9)];
        let figures = figures.map(|(name, value)| (name.to_owned(), value));
        let outcome = Outcome::Figures(BTreeMap::from(figures));
        let (block, cell, attempt) = (step.block, step.cell, step.attempt);
        experiment.done(Done { block, cell, attempt, outcome }).unwrap();
    }
    link.conclude(&experiment, plan.margin);
    link
}

fn cpu(link: &LinkHelps, change: usize) -> Effect {
    link.changes[change].figures["cpu"]
}

#[test]
fn planted_effects_are_found_with_their_direction_though_blocks_stray_by_more() {
    let link = simulated("tso+gso+gro,pacing=9Mbit,gro", 20, &[0.6, 1.25, 1.0], SEED);
    assert_eq!(link.judged, 3);
    let verdicts = [0, 1, 2].map(|change| cpu(&link, change).verdict);
    assert_eq!(
        verdicts,
        [Verdict::Less, Verdict::More, Verdict::NoDifference],
        "seed {SEED}: {link:#?}"
    );
    let it = cpu(&link, 0);
    let (low, high) = (it.low.unwrap(), it.high.unwrap());
    assert!((it.percent.unwrap() + 40.0).abs() < 2.0, "seed {SEED}: {it:?}");
    assert!(high - low < 4.0, "seed {SEED}: {low} to {high}");
    assert_eq!(it.pairs, 20);
}

#[test]
fn intervals_hold_as_often_as_they_say_and_no_effect_is_seldom_taken_for_one() {
    let (mut held, mut wrong, mut wrong_way) = (0, 0, 0);
    let seeds = SEED..SEED + 200;
    for seed in seeds.clone() {
        let link = simulated("tso,gso,gro", 10, &[1.0, 1.0, 0.8], seed);
        let holds = |change: usize, truth: f64| {
            let it = cpu(&link, change);
            it.low.unwrap() <= truth && truth <= it.high.unwrap()
        };
        held += u32::from(holds(0, 0.0)) + u32::from(holds(1, 0.0)) + u32::from(holds(2, -20.0));
        let differs =
            |change: usize| matches!(cpu(&link, change).verdict, Verdict::Less | Verdict::More);
        wrong += u32::from(differs(0) || differs(1));
        wrong_way += u32::from(cpu(&link, 2).verdict != Verdict::Less);
    }
    // 95 % of 600 are 570; three standard deviations of a binomial below it, 554.
    assert!(held >= 554, "{held} of 600 hold; seeds {seeds:?}");
    // One or more wrong with 5 % at most: 10 of 200, and three standard deviations, 19.
    assert!(wrong <= 19, "{wrong} of 200 families have a false one; seeds {seeds:?}");
    assert_eq!(wrong_way, 0, "a fifth less is found by ten pairs; seeds {seeds:?}");
}

#[test]
fn what_is_not_surely_above_nothing_has_no_share_and_is_not_known() {
    let link = simulated("gro", 5, &[1.0], SEED);
    let energy = link.changes[0].figures["energy"];
    assert_eq!((energy.low, energy.verdict), (None, Verdict::NotKnownYet), "seed {SEED}");
    assert!(!link.changes[0].figures.contains_key("rate"), "nobody compares it");
    assert!(!link.changes[0].figures.contains_key("lifetime"), "nobody knew it");
}

#[test]
fn the_two_runs_of_a_pair_follow_each_other_in_random_order() {
    let plan = plan("tso,gso,gro", 20);
    let comparisons = [0, 1, 2].map(|change| Comparison { change, cell: 0 });
    let experiment = Experiment::new(plan.design(&comparisons)).unwrap();
    let order = experiment.order();
    assert_eq!(order.len(), 6);
    for pair in order.chunks(2) {
        assert_eq!(pair[0] / 2, pair[1] / 2, "{order:?}");
        assert_ne!(pair[0], pair[1]);
    }
}

#[test]
fn plans_that_cannot_be_run_say_why() {
    let said = |plan: HelpsPlan| plan.check().unwrap_err().to_string();
    let good = plan("tso", 20);
    assert!(good.check().is_ok());
    assert!(said(HelpsPlan { changes: Vec::new(), ..good.clone() }).contains("tso+gso+gro"));
    assert!(said(HelpsPlan { margin: 3.0, ..good.clone() }).contains("0.03"));
    // All connections have ten segments.
    assert!(said(plan("pacing", 20)).contains("the first 10 packets"));
    assert!(plan("pacing,tso", 20).check().is_ok(), "the other one is felt");
    let main = "x".to_owned();
    assert!(said(HelpsPlan { plan: Plan { main, ..good.plan.clone() }, ..good }).contains("cpu"));
}

#[test]
fn tables_and_the_page_have_each_change_with_its_interval_and_verdict() {
    let mut report = HelpsReport::of(&plan("tso+gso+gro,gro", 20), BTreeMap::new());
    report.links.push(simulated("tso+gso+gro,gro", 20, &[0.6, 1.0], SEED));
    report.close();
    let text = report.text();
    let line = text.lines().find(|line| line.contains("CPU of both sides")).unwrap_or_default();
    assert!(line.contains("tso+gso+gro") && line.ends_with("less"), "{text}");
    // Its cells are broken into lines where they are too wide.
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("no difference beyond the margin") && words.contains("Holm"), "{text}");
    let (_, table) = report.tables().remove(0);
    assert_eq!(table.rows.len(), 4, "CPU time and energy of two changes");
    let page = report.document("now".to_owned()).to_html();
    assert!(page.contains("Saved by it: CPU of both sides"));
}
