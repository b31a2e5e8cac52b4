//! Reports of runs that are made up.

use nightwatt_compare::record::{Better, RunFigure, RunRecord};

use crate::plan::Plan;
use crate::pure::placement::{Placement, Share};
use crate::report::{Report, report};
use crate::runner::{self, JobFigures};

const PLAN: &str = "
title = 'three jobs'
[runs]
least = 3
most = 3
[[job]]
name = 'a'
command = 'a'
[[job]]
name = 'b'
command = 'b'
[[job]]
name = 'c'
command = 'c <d>'
";

/// Time of each group, s: a and b stop each other, all others do not matter to each other.
fn seconds(group: &[usize]) -> f64 {
    match group {
        [0, 1] => 22.0,
        [0, 1, 2] => 23.0,
        [_] => 10.0,
        _ => 11.0,
    }
}

/// All runs of the plan, in the order of its experiment. What a run means is up to `make`.
pub(crate) fn runs(plan: &Plan, make: impl Fn(&[usize], &mut RunRecord)) -> Vec<RunRecord> {
    let mut runs: Vec<RunRecord> = Vec::new();
    loop {
        let experiment = runner::experiment(plan, &runs).unwrap();
        let Some(step) = experiment.next_run() else { return runs };
        let mut record = RunRecord::begin(runs.len() as u32 + 1, &step, 0);
        make(&plan.groups[step.cell], &mut record);
        runs.push(record);
    }
}

pub(crate) fn finished(plan: &Plan, group: &[usize], record: &mut RunRecord) {
    // Blocks differ, which drops out of the ratios.
    let seconds = seconds(group) * (1.0 + 0.01 * f64::from(record.block));
    let mut add = |name: String, value| {
        let (unit, better) = (String::new(), Better::Neither);
        record.figures.push(RunFigure { name, value, unit, better });
    };
    add("seconds".to_owned(), seconds);
    add("joules".to_owned(), 50.0 * seconds);
    for job in group {
        add(JobFigures::of(&plan.jobs[*job].name).seconds, seconds);
    }
}

pub(crate) fn plan() -> Plan {
    Plan::read("jobs.toml", "jobs", PLAN).unwrap()
}

fn reported(plan: &Plan, runs: &[RunRecord]) -> Report {
    let slots = vec![vec![0], vec![1]];
    let placement = Placement { share: Share::L3, slots, jobs: 3, all: vec![0, 1] };
    report(plan, &placement, runs).unwrap()
}

#[test]
fn a_report_has_times_slowdowns_and_advice() {
    let plan = plan();
    let report = reported(&plan, &runs(&plan, |group, record| finished(&plan, group, record)));
    assert!(report.is_whole());
    assert_eq!(report.finished, 21);
    let text = report.text();
    let lines: Vec<String> =
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    // 22 s of 20 s, 11 s of 20 s, 23 s of 30 s.
    for (group, end) in [
        ("a + b 3 ", " 110.0 110.0 110.0 apart"),
        ("a + c 3 ", " 55.0 55.0 55.0 together"),
        ("a + b + c 3 ", " 76.7 76.7 76.7 together"),
    ] {
        let of_it = lines.iter().filter(|line| line.starts_with(group) && line.ends_with(end));
        assert_eq!(of_it.count(), 2, "time and energy of {group:?} are not in\n{text}");
    }
    // Beside b, a needs 22 s for 10 s; with both others 23 s.
    assert!(lines.contains(&"a – 220.0 110.0 230.0".to_owned()), "{text}");
    let words = lines.join(" ");
    for part in [
        "Jobs share a level-3 cache, and no level-2 cache: CPUs 0 | 1.",
        // 11 s for one pair, and 10 s for the job that is left: 21 s of 30 s.
        "Least time -30.0 % ",
        ": 70.0 % (70.0 to 70.0 %) of one after the other",
        "Least energy -30.0 % ",
        "How many at once The best measured groups, by how many jobs run at once",
    ] {
        assert!(words.contains(part), "{part:?} is not in\n{text}");
    }
    let warned = report.warnings.join("\n");
    assert!(warned.contains("a + b + c: more jobs than places, so that they share CPUs 0,1"));
    let page = report.document("made now".to_owned()).to_html();
    // 220 % is beyond the darkest shade, 110 % has an eighth of it.
    assert!(page.contains("heat-8\" data-v=\"220") && page.contains("heat-1\" data-v=\"110"));
    assert!(page.contains("c &lt;d&gt;") && !page.contains("<d>"), "text is escaped");
    let tables = report.tables();
    let csv = |name: &str| tables.iter().find(|(it, _)| *it == name).unwrap().1.to_csv();
    assert!(csv("groups").contains("\r\na + b,3,"), "{}", csv("groups"));
    assert_eq!(csv("slowdowns").lines().count(), 1 + 3 * 2 + 3);
}

#[test]
fn a_group_that_fails_every_time_is_named_and_is_in_no_advice() {
    let plan = plan();
    let report = reported(
        &plan,
        &runs(&plan, |group, record| match group {
            [0, 2] => record.failed = Some("exit status: 1: no disk".to_owned()),
            _ => finished(&plan, group, record),
        }),
    );
    assert!(!report.is_whole());
    let best = report.answers.least_time.last().unwrap();
    assert!(!best.groups.contains(&vec![0, 2]), "{best:?}");
    let (text, warned) = (report.text(), report.warnings.join("\n"));
    assert!(warned.contains("a + c: no more runs, since it failed every time"), "{warned}");
    let failed = text.lines().filter(|line| line.ends_with("  a + c  exit status: 1: no disk"));
    assert!(failed.count() > 0, "{text}");
}

#[test]
fn before_the_first_run_there_is_a_report_without_figures() {
    let plan = plan();
    let report = reported(&plan, &[]);
    assert!(!report.is_whole() && report.end.is_none());
    let text = report.text();
    assert!(text.contains("Jobs share") && report.tables()[1].1.rows.is_empty());
    assert!(text.contains("cannot tell") && text.contains("no runs of a alone"), "{text}");
    assert!(text.contains("Careful: no run came to its end"), "{text}");
    assert!(!text.contains("no meter"), "what meters said is not known: {text}");
    // A page with nothing but headings is still a page.
    assert!(report.document(String::new()).to_html().contains("three jobs"));
}

#[test]
fn there_is_no_advice_about_jobs_that_did_not_run_alone() {
    let plan = plan();
    let runs = runs(&plan, |group, record| match group {
        [1] => record.failed = Some("exit status: 1: a.xz exists".to_owned()),
        _ => finished(&plan, group, record),
    });
    let text = reported(&plan, &runs).text();
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("Least time cannot tell no runs of b alone"), "{text}");
    assert!(!words.contains("one after the other:"), "{text}");
    // Each alone, and nothing together.
    let alone = |group: &[usize], record: &mut RunRecord| match group {
        [_] => finished(&plan, group, record),
        _ => record.failed = Some("exit status: 1: no room".to_owned()),
    };
    let text = reported(&plan, &self::runs(&plan, alone)).text();
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("Least time cannot tell there are not two runs of any jobs"), "{text}");
}

#[test]
fn a_job_that_fails_by_itself_ends_all_groups_with_it() {
    let plan = plan();
    let broken = |group: &[usize], record: &mut RunRecord| {
        if group.contains(&1) {
            record.failed = Some("job `b` failed: exit status: 1".to_owned());
            record.facts.insert("failed job".to_owned(), "b".to_owned());
        } else {
            finished(&plan, group, record);
        }
    };
    let runs = runs(&plan, broken);
    let with_b = || runs.iter().filter(|run| plan.groups[run.cell].contains(&1));
    // Four groups have it; without this rule, each would run twice in each of three blocks.
    assert!((3..=7).contains(&with_b().count()), "{}", with_b().count());
    assert!(with_b().all(|run| run.block == 0));
    // a, c and both together, three times.
    assert_eq!(runs.len() - with_b().count(), 9);
    let report = reported(&plan, &runs);
    assert!(!report.is_whole());
    let warned = report.warnings.join("\n");
    assert!(warned.contains("job `b` failed three times on end"), "{warned}");
    assert!(!warned.contains("since it failed every time"), "{warned}");
}

#[test]
fn the_page_of_modelled_energy_explains_its_intervals() {
    let plan = plan();
    let mut report = reported(&plan, &runs(&plan, |group, record| finished(&plan, group, record)));
    let explained = "at both ends of the model's range";
    assert!(!report.text().replace('\n', " ").contains(explained));
    report.energy.is_modelled = true;
    report.energy.channels = "model/machine".to_owned();
    let words = report.text().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(explained), "{words}");
    let csv = report.tables()[0].1.to_csv();
    let mut lines = csv.lines();
    assert!(lines.next().is_some_and(|head| head.ends_with(",energy by")), "{csv}");
    assert!(lines.all(|line| line.ends_with(",model/machine (modelled)")), "{csv}");
}
