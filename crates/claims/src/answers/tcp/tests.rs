//! Answers to results that were made up, with what is to come of them worked out by hand.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::{ReproduceOptions, Reproduction, Verdict, run};

fn answer(id: &str, results: &Value) -> (Verdict, Vec<(String, f64)>, String) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), results.to_string()).unwrap();
    let it = reproduced(id, vec![file.path().to_owned()]).claims.remove(0);
    let figures = it.figures.into_iter().map(|figure| (figure.what, figure.ours)).collect();
    (it.verdict, figures, it.why)
}

fn reproduced(id: &str, results: Vec<PathBuf>) -> Reproduction {
    let ids = vec![id.to_owned()];
    run(&ReproduceOptions { ids, results, ..ReproduceOptions::default() }, |_, _, _| ()).unwrap()
}

fn lab(is_modelled: bool, cells: &[(&str, Value)]) -> Value {
    let scenarios = cells
        .iter()
        .map(|(name, cell)| json!({ "scenario": { "name": name, "loss": 0 }, "cells": [cell] }));
    json!({ "energy_is_modelled": is_modelled, "notes": ["scenario d: made up"], "scenarios": scenarios.collect::<Vec<_>>() })
}

fn cell(congestion: &str, figures: &Value, changing: &[f64]) -> Value {
    let runs = changing.iter().map(|share| {
        let category =
            |name: &str, share: f64| json!({ "name": name, "own_share": { "share": share } });
        json!({ "kernel_time": {
            "changing": category("Scheduler + ACPI + IRQ", *share),
            "os": [category("Scheduler", share / 2.0), category("TCP", 0.15)],
        } })
    });
    let runs: Vec<Value> = runs.collect();
    json!({
        "connections": 1, "segments": 10, "congestion": congestion, "lifetimes": 200.0, "figures": figures,
        "runs": runs,
    })
}

#[test]
fn an_ordering_is_seen_where_no_interval_has_one_and_not_by_chance() {
    let nothing = json!({});
    let results = lab(
        true,
        &[
            ("a", cell("cubic", &nothing, &[0.29, 0.30, 0.31])),
            ("d", cell("cubic", &nothing, &[0.10, 0.31, 0.60])),
            ("f", cell("cubic", &nothing, &[0.61, 0.62, 0.63])),
        ],
    );
    let (verdict, figures, why) = answer("B5", &results);
    assert_eq!(verdict, Verdict::Differs, "d was not seen");
    assert!(
        why.contains("d over a 1.12 times") && why.contains("not seen: may be chance"),
        "{why}"
    );
    assert!(why.contains("f over a 2.07 times") && why.contains("): seen"), "{why}");
    assert!(
        why.contains("scenario d: made up"),
        "what the laboratory has to say goes with it: {why}"
    );
    let of = |what: &str| figures.iter().find(|(name, _)| name.contains(what)).unwrap().1;
    assert!((of("in scenario a") - 30.0).abs() < 1e-9 && (of("in scenario f") - 62.0).abs() < 1e-9);
    assert!((of("scheduler, f") - 31.0).abs() < 1e-9, "{figures:?}");
    // By Fieller's theorem and Welch's degrees of freedom, worked out with scipy:
    // above 0.62, below 0.30, both variances 1e-4 / 3, df 2.888, t 3.2535.
    let low = figures
        .iter()
        .find(|(name, _)| name.ends_with(", f") && name.contains("at least"))
        .unwrap()
        .1;
    assert!((low - 1.930_534).abs() < 1e-5, "{low}");
}

#[test]
fn an_ordering_is_that_of_one_load() {
    let shares =
        |congestion, share: f64| cell(congestion, &json!({}), &[share, share + 0.01, share + 0.02]);
    let a = ("a", shares("cubic", 0.29));
    let (verdict, figures, why) =
        answer("B5", &lab(true, &[a.clone(), ("f", shares("reno", 0.6))]));
    assert_eq!(verdict, Verdict::NotCheckable, "Reno over f, Cubic over a: {why}");
    assert!(figures.is_empty(), "{figures:?}");
    let mut longer = shares("cubic", 0.9);
    longer["segments"] = json!(1000);
    let others = [("f", shares("reno", 0.1)), ("f", longer), ("f", shares("cubic", 0.6))];
    let all = [&[("a", shares("vegas", 0.8)), a][..], &others[..]].concat();
    let (_, figures, why) = answer("B5", &lab(true, &all));
    assert!(why.starts_with("under the load 1 x 10 segments, cubic: "), "{why}");
    assert!(why.contains("f over a 2.03 times"), "{why}");
    let of_f = figures.iter().filter(|(what, _)| what.contains("in scenario f"));
    assert_eq!(of_f.count(), 1, "{figures:?}");
    let of_a = figures.iter().find(|(what, _)| what.contains("in scenario a")).unwrap().1;
    assert!((of_a - 30.0).abs() < 1e-9, "Cubic's, and not that of Vegas: {of_a}");
}

#[test]
fn what_is_said_to_measure_the_ordering_is_what_make_runs() {
    let makefile = include_str!("../../../../../Makefile").replace("\\\n", " ");
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let said = words(super::WHERE);
    let said = said.trim_start_matches("`nightwatt ").split(" > where.json").next().unwrap();
    assert!(words(&makefile).contains(said), "{said}");
}

#[test]
fn means_are_known_or_not() {
    let known = json!({ "lifetime": { "mean": 0.01, "half_width": 0.0003, "runs": 5 } });
    let vague = json!({ "lifetime": { "mean": 0.01, "half_width": 0.0004, "runs": 5 } });
    let of = |link, figures, runs| (link, cell("cubic", figures, &vec![0.3; runs]));
    let answer = |cells: &[(&str, Value)]| answer("B4", &lab(true, cells));
    let (verdict, figures, why) = answer(&[of("a", &known, 3), of("d", &vague, 20)]);
    assert_eq!((verdict, figures[0].1), (Verdict::Differs, 50.0));
    assert!(why.contains("1 of 2") && why.contains("not of d, 1 x 10 segments, cubic"), "{why}");
    // Broken off, or held to a few runs: by twenty it might have been known.
    let (verdict, figures, why) = answer(&[of("a", &known, 3), of("d", &vague, 19)]);
    assert_eq!((verdict, figures[0].1), (Verdict::Agrees, 100.0), "{why}");
    assert!(why.contains("1 more were not known by fewer than 20 runs"), "{why}");
    assert_eq!(answer(&[of("d", &vague, 19)]).0, Verdict::NotCheckable);
    let (verdict, figures, _) = answer(&[of("a", &known, 3)]);
    assert_eq!((verdict, figures[0].1), (Verdict::Agrees, 100.0));
}

#[test]
fn a_model_answers_no_claim_of_energy_and_a_meter_does() {
    let joules = |it: f64| {
        json!({
            "energy": { "mean": it, "half_width": null, "runs": 3 },
            "energy_per_segment": { "mean": it / 10.0, "half_width": null, "runs": 3 },
        })
    };
    let cells = [
        ("a", cell("cubic", &joules(0.001), &[0.3])),
        ("f", cell("reno", &joules(0.1), &[0.3])),
        ("f", cell("cubic", &joules(0.08), &[0.3])),
    ];
    let (verdict, figures, why) = answer("B1", &lab(true, &cells));
    assert_eq!(verdict, Verdict::NotCheckable);
    assert!(why.contains("without a meter"), "{why}");
    let ours: Vec<f64> = figures.iter().map(|(_, ours)| *ours).collect();
    for (ours, by_hand) in ours.iter().zip([100.0, 100.0, 80.0]) {
        assert!((ours - by_hand).abs() < 1e-9, "{figures:?}");
    }
    assert_eq!(
        answer("B1", &lab(false, &cells)).0,
        Verdict::Differs,
        "100 times a segment, not 300"
    );
    // One that is lost in its own noise is not the cheapest.
    let lost = json!({ "energy": { "mean": 1e-6, "half_width": 5e-4, "runs": 3 } });
    let with_noise = [&cells[..], &[("e", cell("cubic", &lost, &[0.3]))]].concat();
    assert!((answer("B1", &lab(true, &with_noise)).1[0].1 - 100.0).abs() < 1e-9);
}

#[test]
fn sending_is_held_against_receiving_where_the_same_was_metered_at_either_end() {
    let joules = |it: f64| json!({ "energy": { "mean": it, "half_width": 0.25 * it, "runs": 3 } });
    let study = |end: &str, cells: &[(&str, Value)]| {
        let mut study = lab(false, cells);
        let ends = ["sender", "receiver"].map(|it| json!({ "name": it, "is_metered": it == end }));
        study["ends"] = json!(ends);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), study.to_string()).unwrap();
        file
    };
    let of = |link, it| (link, cell("cubic", &joules(it), &[0.3]));
    let sender = study("sender", &[of("a", 3e-3), of("d", 2e-3), of("f", 9e-3)]);
    let receiver = study("receiver", &[of("a", 1e-3), of("d", 2e-3), of("g", 1e-3)]);
    let files = [&sender, &receiver].map(|it| it.path().to_owned());
    let it = reproduced("B1", files.to_vec()).claims.remove(0);
    // 3 over a and 1 over d, each at least 0.75 / 1.25 of it; f and g were metered at one end alone.
    let sending = it.figures.iter().find(|it| it.what.contains("where it is sent")).unwrap();
    assert!((sending.ours - 2.0 * 0.6).abs() < 1e-9, "{:?}", it.figures);
    // The dearest over the cheapest is told of each end by itself.
    let spread = |end: &str| {
        let of_end = |what: &str| what.contains("dearest") && what.ends_with(end);
        it.figures.iter().find(|it| of_end(&it.what)).unwrap().ours
    };
    assert!((spread(", sender") - 4.5).abs() < 1e-9 && (spread(", receiver") - 2.0).abs() < 1e-9);
    let one = reproduced("B1", files[..1].to_vec()).claims.remove(0);
    assert!(!one.figures.iter().any(|it| it.what.contains("where it is sent")));
}

#[test]
fn without_results_it_is_said_what_measures_and_files_of_others_are_refused() {
    for id in ["B1", "B3", "B4", "B5"] {
        let it = reproduced(id, Vec::new()).claims.remove(0);
        assert_eq!(it.verdict, Verdict::NotCheckable);
        assert!(it.why.contains("nightwatt tcp lab") && it.why.contains("--results"), "{}", it.why);
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "{}").unwrap();
    let options = ReproduceOptions {
        ids: vec!["B4".to_owned()],
        results: vec![file.path().to_owned()],
        ..ReproduceOptions::default()
    };
    let told = run(&options, |_, _, _| ()).unwrap_err().to_string();
    assert!(told.contains("tcp lab --json") && told.contains("energy_is_modelled"), "{told}");
}
