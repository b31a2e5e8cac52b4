use nightwatt_report::Cell;

use super::super::report;
use super::super::text::in_a_line;
use super::*;

/// Values of a cell in its three blocks.
fn report_of(fill: impl Fn(&Plan, &mut RunRecord)) -> crate::compare::Report {
    let plan = plan("");
    let runs = runs(&plan, |record| fill(&plan, record));
    report(&plan, &runs).unwrap()
}

fn name(plan: &Plan, record: &RunRecord) -> String {
    plan.describe(record.cell)
}

#[test]
fn verdicts_of_main_figures_are_those_that_were_judged_together() {
    let report = report_of(|plan, record| {
        let noise = f64::from(record.block) * 0.01;
        let (of, value) = match name(plan, record).as_str() {
            "host: base" => ("energy_per_operation", 1.0 + noise),
            "jail: base" => ("energy_per_operation", 1.5 - noise),
            "host: rest" => ("power", 10.0 + noise),
            _ => ("power", 10.0 - noise),
        };
        record.figures = vec![figure(of, value, "J")];
    });
    let base = &report.comparisons[0];
    assert_eq!((base.name.as_str(), base.main.as_str()), ("base", "energy_per_operation"));
    let jail = report.cells("base", &base.main).find(|it| it.environment == "jail").unwrap();
    let shown = report.ratio(jail, &base.main).unwrap();
    // Holm with two: the least p counts twice. Alone it would count once.
    assert!(shown.p > 0.0 && (shown.p_adjusted / shown.p - 2.0).abs() < 1e-9, "{shown:?}");
    assert_eq!(report.answers.figures["energy_per_operation"].to_baseline.judged, 1);
}

#[test]
fn a_chart_of_shares_has_no_bar_that_is_none() {
    let report = report_of(|plan, record| {
        record.figures = vec![figure("energy_per_operation", 5.0, "J")];
        // One run has no spread, so there is no ratio.
        let fails = name(plan, record) == "jail: base" && record.block > 0;
        record.failed = fails.then(|| "no".to_owned());
    });
    let chart = report.bars(&report.comparisons[0]).unwrap();
    assert_eq!(chart.y.unit, "%");
    let bars: Vec<(f64, f64)> = chart.series[0].points.iter().map(|it| (it.x, it.y)).collect();
    assert_eq!(bars, [(0.0, 100.0)], "the baseline alone, not 5 J as 5 %");
}

#[test]
fn outliers_and_coverage_stand_beside_each_run() {
    let plan = PlanFile::read(
        "plan.toml",
        "plan",
        "[runs]\nleast = 8\nmost = 8\n[[environment]]\nname = 'host'\nkind = 'host'\n\
         [[workload]]\nname = 'rest'\ntool = 'idle'\ncommand = 'x'\n",
    )
    .unwrap();
    let all = runs(&plan, |record| {
        // Quartiles of 10, 10.1 .. 10.6 and 99 lie within 10 and 11: 99 is beyond any fence.
        let watts = if record.block == 5 { 99.0 } else { 10.0 + f64::from(record.block) / 10.0 };
        record.figures = vec![figure("power", watts, "W")];
        record.channels = vec![channel("plug/wall", nightwatt_meters::Scope::Wall, Some(watts))];
        record.channels[0].coverage = 0.95;
    });
    let report = report(&plan, &all).unwrap();
    let (_, table) = report.tables().into_iter().find(|(name, _)| *name == "runs").unwrap();
    let column = |name: &str| table.columns.iter().position(|it| it.title == name).unwrap();
    let marked: Vec<usize> = (0..table.rows.len())
        .filter(|row| table.rows[*row][column("outlier")] == Cell::from("yes"))
        .collect();
    assert_eq!(marked, [5]);
    assert!(matches!(table.rows[0][column("coverage")], Cell::Number { value: 0.95, .. }));
}

#[test]
fn operations_that_failed_are_warned_of() {
    let report = report_of(|plan, record| {
        record.figures = vec![figure("power", 1.0, "W")];
        record.errors = if name(plan, record) == "jail: base" { 4 } else { 0 };
    });
    let said = report.warnings.iter().find(|it| it.contains("operations failed"));
    // 4 in each of 3.
    let wanted = "jail: base: 12 operations failed in 3 runs: see `errors`";
    assert_eq!(said.map(String::as_str), Some(wanted));
}

#[test]
fn of_a_long_reason_its_end_is_told() {
    for (why, line) in [
        ("no server", "no server"),
        ("exit status: 3: no", "exit status: 3: no"),
        (
            "exit status: 1: starting up\nready\n\nfatal: no disk\n",
            "exit status: 1: fatal: no disk",
        ),
        ("signal: 9 (SIGKILL)\nkilled", "signal: 9 (SIGKILL): killed"),
        ("a warm-up failed: exit status: 2: a\nb", "a warm-up failed: exit status: 2: b"),
        ("`prepare` failed\nno such file", "no such file"),
    ] {
        assert_eq!(in_a_line(why), line, "{why:?}");
    }
}
