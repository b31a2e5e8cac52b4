//! Plans, without running them.

use super::*;
use crate::ends::EndConfig;
use crate::scenario::published;

fn plan() -> Plan {
    Plan {
        ends: EndsConfig::Namespaces,
        scenarios: published(),
        cells: vec![Cell { connections: 1, segments: 10, congestion: "cubic".to_owned() }],
        lifetimes: 200.0,
        longest: Duration::from_mins(1),
        least: 3,
        most: 20,
        precision: 0.03,
        main: "lifetime".to_owned(),
        accept_link: false,
        offload: false,
        meters: Vec::new(),
        energy: None,
        wake_cost: None,
        kernel_time: None,
        capture: false,
        program: PathBuf::new(),
        seed: 1,
    }
}

#[test]
fn runs_last_two_hundred_lifetimes_unless_that_is_too_short_or_too_long() {
    let plan = plan();
    assert_eq!(plan.length(0.012), Duration::from_millis(2400));
    assert_eq!(plan.length(0.001), SHORTEST);
    assert_eq!(plan.length(12.0), Duration::from_mins(1), "five lifetimes");
    assert_eq!(plan.length(100.0), Duration::from_mins(5), "three lifetimes");
}

#[test]
fn loads_of_which_nothing_came_are_left_out_of_what_is_run() {
    let cells = ["reno", "vegas", "cubic"].map(|congestion| Cell {
        connections: 1,
        segments: 10,
        congestion: congestion.to_owned(),
    });
    let plan = Plan { cells: cells.to_vec(), ..plan() };
    let design = plan.design(&plan.scenarios[0], &[0, 2]);
    assert_eq!(design.comparisons, [cells[0].text(), cells[2].text()]);
    assert_eq!((design.cells.len(), design.groups), (2, vec![0, 1]));
}

#[test]
fn plans_that_cannot_be_run_say_why() {
    let said = |plan: Plan| plan.check().unwrap_err().to_string();
    assert!(plan().check().is_ok());
    assert!(said(Plan { main: "x".to_owned(), ..plan() }).contains("wake_ups"));
    assert!(said(Plan { cells: Vec::new(), ..plan() }).contains("nothing to run"));
    let apart = EndConfig::from_words("sender", "ssh:a").unwrap();
    let ends = EndsConfig::of(apart, EndConfig::from_words("receiver", "here").unwrap()).unwrap();
    let sampled = Plan { ends: ends.clone(), kernel_time: Some(997), ..plan() };
    assert!(said(sampled).contains("of this machine"), "its CPUs are not the sender's");
    let captured = Plan { ends, capture: true, ..plan() };
    assert!(said(captured).contains("`nightwatt tcp check`"), "its card is not here");
    assert!(said(Plan { precision: 0.0, ..plan() }).contains("0.03"));
    assert!(said(Plan { lifetimes: 1.0, ..plan() }).contains("3 mean lifetimes"));
}

#[test]
fn wake_ups_that_nobody_counts_are_told_where_they_were_to_cost_something() {
    use super::notes::about_waking;
    assert_eq!(about_waking(Some(1e-4), true), None);
    let said = |joules, counts| about_waking(joules, counts).unwrap();
    assert!(said(Some(1e-4), false).contains("no entries into idle"));
    let said = said(None, true);
    assert!(said.contains("each is 0.2 mJ") && said.contains("`--wake-energy` puts"), "{said}");
}

#[test]
fn cpus_that_choose_their_frequency_are_told_and_fixed_ones_are_not() {
    use super::notes::about_frequency;
    let of = |all: &[(&str, &str)]| {
        let settings = all.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        about_frequency(&settings.collect())
    };
    assert_eq!(
        of(&[("kernel", "6.1")]),
        None,
        "as in most virtual machines: there is none to choose"
    );
    let range = [("lowest frequency kHz", "800000"), ("highest frequency kHz", "3600000")];
    let said = of(&[&[("governor", "powersave"), ("turbo", "on")][..], &range].concat()).unwrap();
    assert!(said.contains("`powersave`, and turbo is on"), "{said}");
    let fixed = [("lowest frequency kHz", "2000000"), ("highest frequency kHz", "2000000")];
    assert_eq!(of(&[&[("governor", "performance")][..], &fixed].concat()), None);
}

#[test]
fn how_long_it_takes_is_reckoned_from_what_links_carry() {
    let scenarios: Vec<_> = published().into_iter().filter(|it| it.name == "d").collect();
    let cell = |connections, segments| Cell { connections, segments, congestion: "cubic".into() };
    let plan = |cells| Plan {
        scenarios: scenarios.clone(),
        cells,
        lifetimes: 200.0,
        longest: Duration::from_mins(5),
        least: 3,
        most: 20,
        ..plan()
    };
    // A million full frames at 10 Mbit/s take 1211.2 s. Three lifetimes are more than five minutes; then the idle
    // machine for as long; and three times that.
    let [least, most] = plan(vec![cell(100, 10_000)]).reckoned().map(|it| it.as_secs_f64());
    assert!((least - 3.0 * 2.0 * 3.0 * 1211.2).abs() < 1.0, "six hours: {least}");
    assert!((most / least - 20.0 / 3.0).abs() < 1e-6, "{most}");
    // Ten frames take 12.1 ms, 200 times that 2.4 s, beside which the longer one is as it was.
    let [both, _] =
        plan(vec![cell(100, 10_000), cell(1, 10)]).reckoned().map(|it| it.as_secs_f64());
    assert!((both - least - 3.0 * 2.42).abs() < 0.1, "{both}");
    let endless = plan(vec![cell(100_000, u64::MAX), cell(1, u64::MAX)]).reckoned();
    assert_eq!(endless, [Duration::MAX; 2]);
}

fn run(goodput: f64) -> result::Run {
    result::Run {
        seconds: 2.04,
        completed: 0,
        failed: 0,
        congestion: None,
        figures: figures::Figures { goodput: Some(goodput), ..figures::Figures::default() },
        disagreements: Vec::new(),
        capture: None,
        kernel_time: None,
        shares: None,
    }
}

#[test]
fn runs_whose_books_do_not_agree_are_counted() {
    let odd = |what: &str| result::Run { disagreements: vec![what.to_owned()], ..run(1e6) };
    let runs = [run(1e6), odd("frames"), run(1e6), odd("bytes")];
    let of = |runs: &[result::Run]| result::disagreeing(&runs.iter().collect::<Vec<_>>());
    assert_eq!(of(&runs).unwrap(), "in 2 of 4 runs the consistency check failed: frames");
    assert_eq!(of(&runs[..1]), None);
}

#[test]
fn a_run_over_which_nothing_came_is_told_as_such() {
    assert_eq!(run(0.0).lacks("lifetime"), "no lifetime: nothing came over the link in 2.0 s");
    assert_eq!(run(1e6).lacks("energy"), "no energy: nothing here tells it");
}
