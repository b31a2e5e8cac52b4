use nightwatt_report::Cell;

use super::super::report;
use super::super::text::in_a_line;
use super::*;

/// Values of a cell in its three blocks.
fn report_of(fill: impl Fn(&Plan, &mut RunRecord)) -> crate::Report {
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

/// Two environments in which an operation costs 1 J and 1.6 J, with so much CPU time of a run's own.
fn energies_beside_other_work(is_busy: bool, cpu: [f64; 2]) -> crate::Report {
    report_of(|plan, record| {
        let noise = f64::from(record.block) * 0.01;
        let (energy, cpu) = match name(plan, record).as_str() {
            "host: base" => (1.0 + noise, cpu[0]),
            "jail: base" => (1.6 - noise, cpu[1]),
            _ => return record.figures = vec![figure("power", 10.0, "W")],
        };
        record.figures =
            [("energy_per_operation", energy, "J"), ("operations_per_second", 0.1, "1/s")]
                .into_iter()
                .chain([("command_cpu", cpu, "s")])
                .map(|(name, value, unit)| figure(name, value, unit))
                .collect();
        record.warnings =
            is_busy.then(|| crate::host::MACHINE_WAS_BUSY.to_owned()).into_iter().collect();
    })
}

#[test]
fn energies_that_differ_by_the_work_of_others_are_not_said_to() {
    use nightwatt_energy::stats::equivalence::Verdict;
    for (is_busy, cpu, verdict) in [
        (false, [2.0, 2.0], Verdict::Differs),
        (true, [2.0, 2.0], Verdict::CannotTell),
        // A run that used 1.6 times the CPU time may well use 1.6 times the energy.
        (true, [2.0, 3.2], Verdict::Differs),
        (true, [3.2, 2.0], Verdict::CannotTell),
        // Nothing is known of what waits.
        (true, [0.01, 0.02], Verdict::Differs),
    ] {
        let report = energies_beside_other_work(is_busy, cpu);
        let ratio = &report.answers.figures["energy_per_operation"].to_baseline.ratios[0];
        assert_eq!(ratio.verdict, verdict, "{is_busy} {cpu:?}");
        let warned = report.warnings.iter().any(|it| it.contains("may be that of other work"));
        assert_eq!(warned, verdict == Verdict::CannotTell, "{:?}", report.warnings);
    }
}

#[test]
fn a_chart_of_shares_has_no_bar_that_is_none() {
    let report = report_of(|plan, record| {
        record.figures = vec![figure("energy_per_operation", 5.0, "J")];
        // One run has no spread, so there is no ratio.
        let fails = name(plan, record) == "jail: base" && record.block > 0;
        record.failed = fails.then(|| "no".to_owned());
    });
    let chart = report.bars(&report.comparisons[0], "energy_per_operation").unwrap();
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
        ("killed by signal 9 (SIGKILL): a\nb", "killed by signal 9 (SIGKILL): b"),
        ("a warm-up failed: exit status: 2: a\nb", "a warm-up failed: exit status: 2: b"),
        ("`prepare` failed\nno such file", "no such file"),
        (
            "exit status: 2:\nerror: unexpected argument '--duration' found\n\nUsage: x\n\nTry '--help'.",
            "exit status: 2: error: unexpected argument '--duration' found",
        ),
        (
            "exit status: 1:\nerror: the server refused\nhint: ask for what it has",
            "exit status: 1: error: the server refused",
        ),
    ] {
        assert_eq!(in_a_line(why), line, "{why:?}");
    }
}

/// One and three copies of host and jail; block 0 is a little warmer.
#[test]
fn copies_on_one_machine_are_held_against_as_many_machines() {
    let text = "[runs]\nleast = 3\nmost = 3\n[[environment]]\nname = 'host'\nkind = 'host'\n\
                [[environment]]\nname = 'jail'\nkind = 'bubblewrap'\nroot = 'host'\n\
                [[factor]]\nname = 'guests'\noption = 'copies'\nvalues = [1, 3]\n\
                [[workload]]\nname = 'web'\ntool = 'idle'\ncommand = 'x'\n";
    let plan = PlanFile::read("plan.toml", "plan", text).unwrap();
    let all = runs(&plan, |record| {
        let watts = match plan.describe(record.cell).as_str() {
            "host: web, guests 1" => 40.0,
            "host: web, guests 3" => 48.0,
            "jail: web, guests 1" => 41.0,
            _ => 60.0,
        };
        let warmth = if record.block == 0 { 1.01 } else { 1.0 };
        record.figures = vec![figure("power", watts * warmth, "W")];
    });
    let report = report(&plan, &all).unwrap();
    let shares: Vec<(&str, u32, &str, f64)> = (report.consolidation.iter())
        .map(|it| (it.environment.as_str(), it.copies, it.reference.as_str(), it.share))
        .collect();
    // 48 W of 3 x 40 W, and 60 W: against the host with one, since that is the baseline.
    let is_near = |a: f64, b: f64| (a - b).abs() < 1e-12;
    assert_eq!(shares.len(), 2);
    assert!(matches!(shares[0], ("host", 3, "host", share) if is_near(share, 0.4)), "{shares:?}");
    assert!(matches!(shares[1], ("jail", 3, "host", share) if is_near(share, 0.5)), "{shares:?}");
    // The warm block is in both sides of each pair, and so in no interval.
    let interval = report.consolidation[0].interval.unwrap();
    assert!(interval.width() < 1e-6, "{interval:?}");
    let said = "web: 3 x jail on one machine takes 50.0 % (50.0 to 50.0 %) of the power of 3 machines with one \
                host each";
    let text = report.text().replace('\n', " ");
    assert!(text.contains(said), "{text}");
    let section = report.consolidation_section();
    assert_eq!(section.blocks.len(), 3, "two sentences and a chart");
    // A workload that takes all there is: three copies do no more than one, and nothing is saved.
    let all = runs(&plan, |record| {
        record.figures = vec![
            figure("power", 50.0 + f64::from(record.block), "W"),
            figure("energy_per_operation", 0.05 + 0.001 * f64::from(record.block), "J/loop"),
        ];
    });
    let report = super::super::report(&plan, &all).unwrap();
    let it = &report.consolidation[0];
    assert!(is_near(it.share, 1.0) && it.figure == "energy_per_operation", "{it:?}");
}

#[test]
fn percentiles_over_runs_have_intervals_within_what_the_runs_said() {
    let report = report_of(|plan, record| {
        record.figures = vec![figure("power", 1.0, "W")];
        if name(plan, record) == "jail: base" {
            let late = 0.010 + 0.001 * f64::from(record.block);
            record.percentiles = vec![(50.0, 0.002), (99.0, late)];
        }
    });
    let [half, late] = &report.service[..] else { panic!("{:?}", report.service) };
    assert_eq!((half.environment.as_str(), half.percent, half.seconds), ("jail", 50.0, 0.002));
    let interval = late.interval.unwrap();
    // The mean of 10, 11 and 12 ms; of 27 draws one is all 10 ms, so that 2.5 % are not beyond it.
    assert!((late.seconds - 0.011).abs() < 1e-12);
    assert!((interval.low - 0.010).abs() < 1e-9 && (interval.high - 0.012).abs() < 1e-9);
    let table = report.service_table("base").unwrap();
    assert_eq!(table.rows.len(), 2);
    assert!(report.service_table("rest").is_none());
}

#[test]
fn warnings_that_differ_in_numbers_only_are_told_once() {
    let report = report_of(|plan, record| {
        record.figures = vec![figure("power", 1.0, "W")];
        if name(plan, record) == "jail: base" {
            record.warnings = vec![format!("one left {}.5 ms late", 9 + record.block)];
        }
    });
    let told: Vec<&String> = report.warnings.iter().filter(|it| it.contains("late")).collect();
    assert_eq!(
        told,
        ["jail: base: one left 9.5 ms late (and 2 more like that: `runs.jsonl` has them)"]
    );
}
