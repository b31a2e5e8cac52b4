//! What a mirror of the site saves on the March log, against the figures of the design.
//!
//! `make mirror` prints the figures of all logs.

use std::ops::ControlFlow;
use std::path::PathBuf;

use nightwatt_savings::analyze::{self, Analysis, AnalyzeOptions, MirrorRun};

/// By how much a saving may differ from what a prototype in Python found, which had rougher rules.
const NEAR: f64 = 0.01;

fn march() -> Option<Analysis> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder =
        std::env::var_os("NIGHTWATT_DATA").map_or_else(|| "../shared/data".into(), PathBuf::from);
    let log = root.join(folder).join("logs/yuvi_in_nginx_2012-03.log.gz");
    if !log.is_file() {
        println!("skipped: no {}", log.display());
        return None;
    }
    let options = AnalyzeOptions { logs: vec![log], ..AnalyzeOptions::default() };
    Some(analyze::run(&options, |_| ControlFlow::Continue(())).expect("the log can be analysed"))
}

fn delayed(run: &MirrorRun) -> f64 {
    run.figures.delayed_requests as f64 / run.figures.admitted as f64
}

#[test]
fn a_mirror_saves_on_the_march_log_what_the_design_says() {
    let Some(analysis) = march() else { return };
    let mirror = &analysis.mirror;
    // The table of the design: saving, and the share of requests that wait (1.8 % crawled). Its prototype lets the
    // images of a page wait although the page itself waits (0.607 remembered): ours come once the page is open.
    for (name, run, published) in
        [("crawled", &mirror.crawled, 0.826), ("complete", &mirror.complete, 0.831)]
    {
        let saving = run.figures.saving;
        println!("{name}: {saving:.3}, {:.1} % wait", 100.0 * delayed(run));
        assert!((saving - published).abs() <= NEAR, "{name}: {saving}, published {published}");
    }
    let limit = mirror.limit.saving;
    assert!((limit - 0.841).abs() <= NEAR, "limit: {limit}");
    assert!((delayed(&mirror.crawled) - 0.018).abs() <= NEAR, "{}", delayed(&mirror.crawled));
    // The project's plan asks for 0.60 and 0.82.
    let remembered = mirror.remembered.figures.saving;
    println!("remembered: {remembered:.3}, {:.1} % wait", 100.0 * delayed(&mirror.remembered));
    assert!(remembered >= 0.607 && mirror.crawled.figures.saving >= 0.82);
}

#[test]
fn each_bound_of_the_march_log_is_above_the_one_before_and_below_the_limit() {
    let Some(analysis) = march() else { return };
    let today = &analysis.policies[&analysis.default_policy];
    let mirror = &analysis.mirror;
    let runs = [&mirror.remembered, &mirror.crawled, &mirror.complete];
    let mut before = today;
    for run in runs {
        let it = &run.figures;
        // Not exactly the same: a path makes a scanner of its client until the proxy has seen it succeed.
        let share = it.admitted as f64 / today.admitted as f64;
        assert!((share - 1.0).abs() < 0.001, "{share} of the requests");
        assert!(it.saving > before.saving, "{} after {}", it.saving, before.saving);
        assert!(it.from_copies > before.from_copies, "more is answered without the server");
        assert!(it.delayed_requests < before.delayed_requests);
        assert!(it.saving < mirror.limit.saving);
        // Refreshing costs next to nothing where clients wake the server twenty times a day.
        assert_eq!(run.refresh_wakeups, 0);
        assert!(run.refresh_j > 0.0 && run.refresh_j < 0.001 * it.energy_j, "{}", run.refresh_j);
        before = it;
    }
    let without_sla = analysis.without_sla.expect("the default scenario has an SLA");
    assert!(without_sla.saving > today.saving);
    assert!(without_sla.delayed_requests > today.delayed_requests);
}
