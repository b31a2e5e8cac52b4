//! What the page's scripts draw, by node on a canvas of paper: CI has node, but no browser.
#![allow(clippy::disallowed_methods, reason = "a test may write the page that node reads")]

use std::path::Path;
use std::process::Command;

use nightwatt_report::Document;
use serde_json::Value;

use crate::sample;

fn drawn(document: &Document) -> Option<Value> {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("report.html");
    std::fs::write(&page, document.to_html()).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/report/canvas.mjs");
    let mut node = Command::new(nightwatt_needs::program("node")?);
    let node = node.arg(script).arg(&page).output().unwrap();
    assert!(node.status.success(), "{}", String::from_utf8_lossy(&node.stderr));
    Some(serde_json::from_slice(&node.stdout).unwrap())
}

#[test]
fn every_chart_has_its_titles_marks_and_lines_and_nothing_lies_nowhere() {
    let Some(said) = drawn(&sample::document()) else { return };
    assert_eq!(said["errors"], serde_json::json!([]));
    assert_eq!(said["ready"], sample::CHARTS.to_string());
    assert_eq!(said["open"], 0, "the tables below drawn charts are closed");
    let words = |chart: usize| -> Vec<&str> {
        said["charts"][chart]["words"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(Value::as_str)
            .collect()
    };
    for (chart, expected) in [
        (0, &["requests [1/h]", "hour of the local day", "00", "people", "mean"][..]),
        (1, &["answer", "waiting page", "grace 7 d"]),
        // The log's own midnights, five hours behind UTC.
        (2, &["local time", "2012-03-01", "2012-03-08"]),
        (3, &["gap", "1 s", "1 min", "1 h", "7 d", "1", "1,000", "break-even 4.1 s"]),
        (4, &["energy [kWh]", "threshold [s]", "60", "break-even"]),
        (5, &["learned", "window", "ski-rental", "timeout 5s", "SLA 10 %", "10"]),
    ] {
        for word in expected {
            assert!(words(chart).contains(word), "chart {chart}: {word} in {:?}", words(chart));
        }
    }
    assert!(!words(5).contains(&"always-on"), "0 has no place on an axis of ratios");
    for chart in said["charts"].as_array().unwrap() {
        assert_eq!(chart["nowhere"], 0, "no coordinate is infinite or no number");
    }
}

#[test]
fn charts_of_nothing_and_of_a_single_point_do_no_harm() {
    use nightwatt_report::{Axis, Chart, Scale, Section, Series, SeriesKind};

    let scales = || {
        [
            Scale::FromZero,
            Scale::Linear,
            Scale::Log,
            Scale::LogDuration,
            Scale::Time { utc_offset: 0 },
            Scale::Category(vec!["a".to_owned(), "b".to_owned()]),
        ]
    };
    let mut blocks = Vec::new();
    for x in scales() {
        for y in scales().into_iter().take(4) {
            for points in [&[][..], &[(1.0, 1.0)], &[(0.0, 0.0)], &[(1.0, 1e300), (1.0, -1e300)]] {
                for kind in [SeriesKind::Step, SeriesKind::Bar, SeriesKind::Scatter] {
                    let axis = |scale: &Scale| Axis::new("t", "u", scale.clone());
                    let series = Series::new("s", kind).points(points.iter().copied());
                    blocks.push(Chart::new("c", axis(&x), axis(&y)).series(series).into());
                }
            }
        }
    }
    let count = blocks.len();
    let mut document = Document::new("empty");
    document.sections.push(Section::new("s", blocks));
    let Some(said) = drawn(&document) else { return };
    assert_eq!(said["errors"], serde_json::json!([]));
    assert_eq!(said["ready"], count.to_string());
}
