use std::borrow::Cow;
use std::time::Duration;

use nightwatt_meters::Scope;
use nightwatt_workloads::{Better, Figure, Operations, Outcome};

use super::super::figures::{self, ToolOutcome};
use super::*;

fn operations(count: u64, what: &'static str, seconds: u64) -> Outcome {
    Outcome {
        operations: Some(Operations { count, what: Cow::Borrowed(what) }),
        duration: Some(Duration::from_secs(seconds)),
        ..Outcome::default()
    }
}

fn with_figure(mut outcome: Outcome, name: &str, value: f64, unit: &'static str) -> Outcome {
    let unit = Cow::Borrowed(unit);
    outcome.figures.push(Figure { name: name.to_owned(), value, unit, better: Better::Higher });
    outcome
}

/// A run of 10 s at 50 W, of these copies.
fn filled(copies: Vec<Outcome>) -> RunRecord {
    let plan = plan("");
    let mut record = run_of(0, 1);
    record.channels = vec![channel("plug/wall", Scope::Wall, Some(50.0))];
    let said: Vec<ToolOutcome> = copies.into_iter().map(ToolOutcome).collect();
    figures::fill(&plan, &mut record, &said, None);
    record
}

fn unit_of<'a>(record: &'a RunRecord, name: &str) -> &'a str {
    &record.figures.iter().find(|it| it.name == name).unwrap().unit
}

fn spoke(number: u32, cell: usize, channels: Vec<ChannelRecord>) -> RunRecord {
    let mut record = run_of(cell, number);
    let watts: Option<f64> =
        channels.iter().map(|it| it.watts).sum::<Option<f64>>().filter(|_| !channels.is_empty());
    record.figures.extend(watts.map(|it| figure("energy_per_operation", it, "J/request")));
    record.figures.push(figure("operations_per_second", 7.0, "request/s"));
    record.figures.push(figure("elapsed", 10.0, "s"));
    record.channels = channels;
    record
}

#[test]
fn the_first_run_of_a_comparison_settles_its_main_figure() {
    let plan = plan("");
    let (host, jail) = (cell(&plan, "host: base"), cell(&plan, "jail: base"));
    let first = spoke(1, host, vec![channel("plug/wall", Scope::Wall, Some(50.0))]);
    let silent = spoke(2, jail, vec![channel("plug/wall", Scope::Wall, None)]);
    let main = |so_far: &[RunRecord], record: &RunRecord| figures::main_of(&plan, so_far, record);
    assert_eq!(main(&[], &first), Ok(("energy_per_operation".to_owned(), 50.0)));
    let why = main(std::slice::from_ref(&first), &silent).unwrap_err();
    for part in ["the meter said nothing", "6 %", "there is no energy_per_operation", "plug/wall"] {
        assert!(why.contains(part), "{part:?} is not in {why:?}");
    }
    // Where none speaks from the first run on, the rate is the main figure, of all.
    assert_eq!(main(&[], &silent), Ok(("operations_per_second".to_owned(), 7.0)));
    assert!(main(&[silent], &first).unwrap_err().contains("plug/wall"));
    // A run that failed settles nothing.
    let mut failed = spoke(1, host, Vec::new());
    failed.failed = Some("no".to_owned());
    assert_eq!(main(&[failed], &first), Ok(("energy_per_operation".to_owned(), 50.0)));
}

#[test]
fn a_resumed_plan_has_the_same_failures_and_means() {
    let plan = plan("");
    let silent = cell(&plan, "jail: base");
    let all = runs(&plan, |record| {
        let watts = (record.cell != silent || record.block != 1).then_some(50.0);
        let channels = vec![channel("plug/wall", Scope::Wall, watts)];
        *record = RunRecord {
            block: record.block,
            attempt: record.attempt,
            ..spoke(record.number, record.cell, channels)
        };
    });
    let outcomes = |runs: &[RunRecord]| runner::experiment(&plan, runs).unwrap().runs().to_vec();
    let whole = outcomes(&all);
    assert_eq!(whole.len(), 12, "2 environments x 2 workloads x 3 blocks");
    for known in 0..all.len() {
        assert_eq!(outcomes(&all[..known]), whole[..known], "after {known} runs");
    }
    let report = crate::report(&plan, &all).unwrap();
    let of_it = report.answers.figures["main"].cells.iter();
    let means: Vec<_> = of_it.map(|it| (it.n, it.mean)).collect();
    assert_eq!(means[silent].0, if all[0].cell == silent { 3 } else { 2 });
    assert!(!means.contains(&(3, Some(7.0))), "no rate among energies: {means:?}");
}

#[test]
fn another_source_of_energy_makes_no_run_of_the_same_plan() {
    let plan = plan("");
    let both = |wall| {
        vec![
            channel("plug/wall", Scope::Wall, wall),
            channel("rapl/package-0", Scope::Package, Some(20.0)),
        ]
    };
    // What said nothing is passed over.
    assert_eq!(figures::energy_watts(&plan, &both(None)), Some(20.0));
    assert_eq!(figures::energy_source(&plan, &both(None)), "rapl/package-0");
    assert_eq!(figures::energy_source(&plan, &both(Some(50.0))), "plug/wall");
    let rest = cell(&plan, "host: rest");
    let first = spoke(1, rest, both(Some(50.0)));
    let why = figures::main_of(&plan, std::slice::from_ref(&first), &spoke(2, 0, both(None)))
        .unwrap_err();
    assert!(why.contains("rapl/package-0") && why.contains("plug/wall"), "{why}");
    // What an idle environment draws is not taken from another meter than that of the run.
    assert_eq!(figures::idle_watts(&plan, std::slice::from_ref(&first), &both(None)), None);
    assert_eq!(figures::idle_watts(&plan, &[first], &both(Some(30.0))), Some(30.0));
    assert_eq!(figures::idle_watts(&plan, &[], &both(None)), Some(20.0));
}

#[test]
fn parts_of_all_meters_are_summed_and_none_of_them_twice() {
    let channels = [
        channel("rapl/package-0", Scope::Package, Some(20.0)),
        channel("rapl/core-0", Scope::Core, Some(15.0)),
        channel("rapl/package-1", Scope::Package, Some(10.0)),
        channel("rapl/dram-0", Scope::Dram, None),
        channel("msr/package-0", Scope::Package, Some(20.5)),
        channel("msr/dram-0", Scope::Dram, Some(4.0)),
        channel("nvml/gpu-0", Scope::Gpu, Some(300.0)),
    ];
    // 20 + 10 of rapl, 4 of msr, 300 of nvml.
    assert_eq!(figures::energy_watts(&plan(""), &channels), Some(334.0));
    assert_eq!(
        figures::energy_source(&plan(""), &channels),
        "msr/dram-0 + nvml/gpu-0 + rapl/package-0 + rapl/package-1"
    );
}

#[test]
fn copies_that_end_apart_do_not_count_as_if_all_went_on() {
    // 1000 in 5 s and 1000 in 10 s, at 50 W: 50 W x 10 s / 2000 = 0.25 J. Summed rates would be 300/s.
    let record = filled(vec![operations(1000, "requests", 5), operations(1000, "requests", 10)]);
    assert_eq!(record.figure("energy_per_operation"), Some(0.25));
    assert_eq!(record.figure("operations_per_second"), Some(200.0));
    assert!(record.warnings.iter().any(|it| it.contains("did not end together")));
    let record = filled(vec![operations(1000, "requests", 9), operations(1000, "requests", 10)]);
    assert_eq!(record.warnings, [""; 0], "a tenth apart is together");
}

#[test]
fn a_tools_figure_does_not_take_the_place_of_ours() {
    let mut outcome = operations(1000, "requests", 10);
    for name in ["energy", "elapsed", "main", "errors", "tool_errors", "speed"] {
        outcome = with_figure(outcome, name, 1.5, "J");
    }
    let record = filled(vec![outcome]);
    let mut names: Vec<&str> = record.figures.iter().map(|it| it.name.as_str()).collect();
    for (name, value) in [
        ("energy", 500.0),
        ("elapsed", 10.0),
        ("errors", 0.0),
        ("tool_energy", 1.5),
        ("tool_elapsed", 1.5),
        ("tool_main", 1.5),
        ("tool_errors", 1.5),
        ("tool_tool_errors", 1.5),
        ("speed", 1.5),
    ] {
        assert_eq!(record.figure(name), Some(value), "{name}");
    }
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count, "names are unique: {names:?}");
}

#[test]
fn operations_that_failed_are_a_figure_and_a_share_of_all() {
    let mut outcome = operations(90, "requests", 10);
    outcome.errors = 10;
    outcome.responses = vec![Duration::from_secs(1); 90];
    let record = filled(vec![outcome]);
    assert_eq!(record.figure("errors"), Some(10.0));
    assert!((record.answered - 0.9).abs() < 1e-12);
    assert_eq!(filled(vec![Outcome::default()]).figure("errors"), None, "it tells no operations");
}

#[test]
fn queries_are_counted_by_the_query() {
    let unit = |what| filled(vec![operations(1, what, 10)]);
    assert_eq!(unit_of(&unit("queries"), "energy_per_operation"), "J/query");
    assert_eq!(unit_of(&unit("bytes"), "energy_per_operation"), "J/byte");
    assert_eq!(unit_of(&unit("FLOP"), "operations_per_second"), "FLOP/s");
}

#[test]
fn rates_and_bytes_of_copies_add_up_and_shares_do_not() {
    let copy = || {
        let mut outcome = operations(1, "pages", 10);
        for (name, unit) in [("a", "1"), ("b", "pages/s"), ("c", "B"), ("d", "s"), ("e", "FLOP/s")]
        {
            outcome = with_figure(outcome, name, 0.5, unit);
        }
        outcome
    };
    let record = filled(vec![copy(), copy()]);
    for (name, value) in [("a", 0.5), ("b", 1.0), ("c", 1.0), ("d", 0.5), ("e", 1.0)] {
        assert_eq!(record.figure(name), Some(value), "{name}");
    }
}
