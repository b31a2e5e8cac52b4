//! What makes the figures of an analysis doubtful.

use nightwatt_policy::scenario::Server;

use super::DAY;
use super::amounts::{counted, days_text};
use super::policy_figures::PolicyFigures;
use super::result::Analysis;

/// With less of a log, a year is a rough guess: days of a week differ.
const WEEK_S: f64 = 7.0 * 86_400.0;

/// A log of less time, or with fewer requests, is too short for a verdict.
const LEAST_S: f64 = 3600.0;
const LEAST_REQUESTS: u64 = 10;

/// More than one in so many lines that are unreadable or out of order make a log doubtful.
const ONE_IN: u64 = 20;

impl Analysis {
    /// What makes the figures doubtful as a whole: stands below the verdict.
    pub(super) fn careful(&self) -> String {
        let mut doubts = Vec::new();
        let of_lines = |some: u64| {
            let is_many = some.saturating_mul(ONE_IN) > self.lines;
            let percent = 100.0 * some as f64 / self.lines as f64;
            is_many.then(|| format!("{percent:.0} % of the lines"))
        };
        if let Some(lines) = of_lines(self.malformed) {
            doubts.push(format!("{lines} could not be read (has the log two formats?)"));
        }
        if let Some(lines) = of_lines(self.unsorted) {
            doubts.push(format!("{lines} are earlier than the line before them"));
        }
        let missing: f64 = self.holes.iter().map(|hole| hole.length_s).sum();
        let share = 100.0 * missing / self.span_s;
        if !self.holes.is_empty() {
            let holes = counted(self.holes.len() as u64, "hole");
            doubts.push(format!(
                "{share:.0} % of the log's span is in {holes}, so too much or too little may be saved"
            ));
        }
        if self.year.is_some() && self.span_s < WEEK_S {
            let span = days_text(self.span_s);
            doubts.push(format!("{span} of log: a year is a rough guess"));
        }
        doubts.join("; ")
    }

    /// Instead of a verdict on a log that is too short for one.
    pub(super) fn too_short(&self) -> Option<String> {
        let is_too_short = self.span_s < LEAST_S || self.requests < LEAST_REQUESTS;
        let are = if self.requests == 1 { "is" } else { "are" };
        is_too_short.then(|| {
            format!(
                "{} in {} {are} too few to say what sleep would save.",
                counted(self.requests, "request"),
                days_text(self.span_s)
            )
        })
    }

    /// On how many days more would wait than the SLA allows, as a sentence; none where it is kept.
    pub(super) fn broken_sla(&self) -> Option<String> {
        let sla = &self.scenario.sla;
        let own = self.sla.iter().find(|it| it.is_own).filter(|_| sla.enabled)?;
        // `days_over` counts by the calendar day, whatever the window of `share` is.
        let is_daily = own.share.is_some() && sla.window == DAY;
        let PolicyFigures { days, days_over, .. } = own.figures;
        let by_share = if is_daily { (days_over, days) } else { (0, days) };
        let all = self.days().ceil() as u64;
        let (over, days) = own.days_over_visits.map_or(by_share, |visits| {
            if visits > by_share.0 { (visits, all.max(visits)) } else { by_share }
        });
        (over > 0).then(|| {
            let days = counted(days, "day");
            format!(" On {over} of {days}, more would wait than the SLA allows.")
        })
    }

    /// What the server draws awake, if that was neither measured nor is the default: `calibrate` writes how sure it is.
    pub(super) fn unmeasured(&self) -> Option<String> {
        let server = &self.scenario.server;
        let is_typed = (server.uncertainty - Server::default().uncertainty).abs() < f64::EPSILON;
        (is_typed && !self.watts_assumed)
            .then(|| format!("assumes {} W awake (not measured)", server.on_w))
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::ops::ControlFlow;

    use nightwatt_policy::scenario::Scenario;

    use super::*;
    use crate::analyze::{AnalyzeOptions, run};

    /// A request every ten minutes, and then lines that cannot be read.
    fn log(requests: u32, rubbish: u32) -> String {
        let mut log = String::new();
        for n in 0..requests {
            let (day, hour, minute) = (4 + n / 144 % 20, n / 6 % 24, n % 6 * 10);
            let _ = writeln!(
                log,
                "198.51.100.{} - - [{day:02}/Mar/2024:{hour:02}:{minute:02}:00 +0000] \"GET /{n} HTTP/1.1\" 200 500 \
                 \"-\" \"Firefox/115.0\"",
                n % 200
            );
        }
        log + &"rubbish\n".repeat(rubbish as usize)
    }

    fn analyzed(log: &str, scenario: Scenario) -> Analysis {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.log");
        std::fs::write(&path, log).unwrap();
        let options = AnalyzeOptions { logs: vec![path], scenario, ..AnalyzeOptions::default() };
        run(&options, |_| ControlFlow::Continue(())).unwrap()
    }

    #[test]
    fn a_few_requests_or_minutes_get_no_verdict() {
        for requests in [1, 5, 9] {
            let text = analyzed(&log(requests, 0), Scenario::default()).in_short();
            assert!(text.contains("too few to say what sleep would save"), "{text}");
            assert!(!text.contains("you would") && !text.contains("Without the SLA"), "{text}");
        }
        let text = analyzed(&log(300, 0), Scenario::default()).in_short();
        assert!(text.contains("you would save") && !text.contains("too few"), "{text}");
    }

    #[test]
    fn what_was_not_read_makes_the_figures_doubtful() {
        let careful = |log: &str| analyzed(log, Scenario::default()).careful();
        let half = careful(&log(300, 300));
        assert!(half.contains("50 % of the lines could not be read (has the log two"), "{half}");
        let few = careful(&log(300, 3));
        assert!(!few.contains("could not be read"), "{few}");
        let lines: Vec<String> = log(300, 0).lines().map(|line| format!("{line}\n")).collect();
        let turned: String = lines.iter().rev().map(String::as_str).collect();
        let turned = careful(&turned);
        assert!(turned.contains("100 % of the lines are earlier"), "{turned}");
    }

    #[test]
    fn days_on_which_the_sla_is_broken_are_counted_in_the_verdict() {
        let mut analysis = analyzed(&log(288, 0), Scenario::default());
        let place = analysis.sla.iter().position(|it| it.is_own).unwrap();
        let own = &mut analysis.sla[place];
        (own.figures.days, own.figures.days_over) = (2, 0);
        assert_eq!(analysis.broken_sla(), None);
        analysis.sla[place].figures.days_over = 1;
        let text = analysis.in_short();
        assert!(text.ends_with("On 1 of 2 days, more would wait than the SLA allows."), "{text}");
        analysis.sla[place].days_over_visits = Some(2);
        let told = analysis.broken_sla().unwrap();
        assert!(told.contains("On 2 of 2 days"), "{told}");
        analysis.scenario.sla.enabled = false;
        assert_eq!(analysis.broken_sla(), None, "there is no SLA");
    }

    #[test]
    fn watts_that_the_user_wrote_are_assumed_unless_they_were_measured() {
        let mut scenario = Scenario::default();
        scenario.sla.enabled = false;
        assert_eq!(analyzed(&log(300, 0), scenario.clone()).unmeasured(), None, "the defaults");
        scenario.server.on_w = 30.0;
        let typed = analyzed(&log(300, 0), scenario.clone());
        let text = typed.in_short();
        assert!(text.contains("a year, which assumes 30 W awake (not measured)."), "{text}");
        let text = typed.text().split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("Assumed: 30 W awake and 1.6 W asleep (not measured);"), "{text}");
        scenario.server.uncertainty = 0.031;
        let measured = analyzed(&log(300, 0), scenario);
        assert_eq!(measured.unmeasured(), None);
        assert!(!measured.text().contains("not measured"), "{}", measured.text());
    }

    #[test]
    fn what_would_be_saved_without_the_sla_is_told_where_it_is_more_than_nothing() {
        let mut analysis = analyzed(&log(300, 0), Scenario::default());
        let own = analysis.default_policy.clone();
        for (saving, free, is_told) in
            [(-0.12, -0.12, false), (-0.12, -0.05, false), (-0.1, 0.3, true), (0.3, 0.35, false)]
        {
            analysis.policies.get_mut(&own).unwrap().saving = saving;
            analysis.without_sla.as_mut().unwrap().saving = free;
            let text = analysis.in_short();
            assert_eq!(text.contains("Without the SLA"), is_told, "{saving}, {free}: {text}");
        }
    }
}
