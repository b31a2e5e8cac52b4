//! What comes first: what is saved today, with a mirror of the site, and without an SLA.

use std::time::Duration;

use nightwatt_energy::duration_text;
use nightwatt_energy::quantity::JOULES_PER_KWH;
use nightwatt_report::{Axis, Block, Chart, Rows, Scale, Series, SeriesKind, Table, Text};

use super::amounts::{amount, counted};
use super::policy_figures::PolicyFigures;
use super::result::{Analysis, MirrorFigures, MirrorRun};
use super::tables::ratio;

/// A row of what comes first.
struct Headline<'a> {
    name: &'static str,
    saving: f64,
    /// In the scenario's currency.
    bill: f64,
    /// Nothing for the oracle, where no visit waits.
    figures: Option<&'a PolicyFigures>,
    /// What keeps the copies fresh.
    run: Option<&'a MirrorRun>,
}

impl<'a> Headline<'a> {
    const fn of(name: &'static str, figures: &'a PolicyFigures) -> Self {
        let PolicyFigures { saving, bill, .. } = *figures;
        Self { name, saving, bill, figures: Some(figures), run: None }
    }

    const fn mirror(name: &'static str, run: &'a MirrorRun) -> Self {
        Self { run: Some(run), ..Self::of(name, &run.figures) }
    }
}

/// Of a row that crawls all there is before it sleeps: for CSV.
const COMPLETE: &str = "mirror, crawled, complete";

impl Analysis {
    fn headlines(&self) -> Vec<Headline<'_>> {
        let mirror = &self.mirror;
        let mut rows = vec![
            Headline::mirror("mirror, remembered", &mirror.remembered),
            Headline::mirror("mirror, crawled", &mirror.crawled),
            Headline::mirror(COMPLETE, &mirror.complete),
        ];
        if self.is_app {
            rows.clear();
        }
        rows.splice(0..0, self.chosen().map(|it| Headline::of("today: the cache", it)));
        rows.extend(self.without_sla.as_ref().map(|it| Headline::of("today, without SLA", it)));
        rows
    }

    /// The same with the limit.
    fn with_limit(&self) -> Vec<Headline<'_>> {
        if self.is_app {
            return self.headlines();
        }
        let (name, limit) = ("oracle, with a full mirror", &self.mirror.limit);
        let (figures, run) = (None, None);
        let limit = Headline { name, saving: limit.saving, bill: limit.bill, figures, run };
        let rows = self.headlines().into_iter().filter(|it| it.name != COMPLETE);
        rows.chain([limit]).collect()
    }

    /// What a mirror is, and what the log does not show of it.
    fn mirror_explained(&self) -> Text {
        if self.is_app {
            return Text::marked(
                "A site of `kind\u{a0}=\u{a0}\"app\"` has no mirror: its answers are for one visitor each.",
            );
        }
        let max_age = duration_text::format(Duration::from_secs_f64(self.mirror.max_age_s));
        let app = match &self.without_sla {
            Some(_) => {
                " With `kind\u{a0}=\u{a0}\"app\"` there is neither a mirror nor an SLA: see `today, without SLA`."
            }
            None => "",
        };
        let cost = |run: &MirrorRun| {
            let (wakeups, wh) = (run.refresh_wakeups, amount(run.refresh_j / 3600.0));
            format!("{} and {wh}\u{a0}Wh", counted(wakeups, "wake-up"))
        };
        let runs = [&self.mirror.remembered, &self.mirror.crawled];
        // Less than is shown of it.
        let is_nothing = |run: &&MirrorRun| run.refresh_wakeups == 0 && run.refresh_j < 18.0;
        let refreshing = if runs.iter().all(is_nothing) {
            "Refreshing it costs nothing here.".to_owned()
        } else {
            let costs = runs.map(cost).join(" (remembered) or ");
            format!("Refreshing it, {costs} (crawled), is counted in.")
        };
        Text::marked(&format!(
            "A mirror (`kind = \"pages\"`) holds a copy of the site, at most {max_age} old, and answers \
             from it while the server sleeps. {} {refreshing} A log does not show cookies: visitors with a \
             session get nothing from a mirror.{app} The oracle knows the future.",
            self.mirror_range()
        ))
    }

    /// Between which figures a mirror saves, if they agree with that. A mirror answers more requests if it holds more,
    /// but then a policy or an SLA lets the server sleep at other times.
    fn mirror_range(&self) -> String {
        let tenths = |run: &MirrorRun| (1000.0 * run.figures.saving).round();
        let MirrorFigures { remembered, crawled, .. } = &self.mirror;
        if tenths(remembered) <= tenths(crawled) {
            return "It saves at least what it does if it holds only what was asked for before (remembered), \
                    and at most what it does if it holds all that exists (crawled)."
                .to_owned();
        }
        let why = if self.scenario.sla.enabled {
            "the SLA then allows other sleeps"
        } else {
            "the policy then chooses other sleeps"
        };
        format!(
            "It holds only what was asked for before (remembered), or all that exists (crawled). The crawled \
             mirror answers more requests, but {why}: here it saves no more than the remembered one. Treat the \
             difference as noise."
        )
    }

    /// Savings beside each other, and who waits.
    fn mirror_chart(&self) -> Chart {
        let rows = self.with_limit();
        let names = rows.iter().map(|it| it.name.to_owned()).collect();
        let x = Axis::new("", "", Scale::Category(names));
        let y = Axis::new("share", "%", Scale::FromZero);
        let bars = |name: &str, figure: fn(&Headline<'_>) -> f64| {
            let points = rows.iter().enumerate().map(|(at, it)| (at as f64, 100.0 * figure(it)));
            Series::new(name, SeriesKind::Bar).points(points)
        };
        let (title, more) = if self.is_app {
            ("Today", "")
        } else {
            let more = " Remembered and crawled are estimates of what a mirror saves.";
            ("Today, with a mirror, and the oracle", more)
        };
        Chart::new(title, x, y)
            .description(format!(
                "What is saved of the energy of a server that is always on, and the share of visits in \
                 which a request waits.{more}",
            ))
            .series(bars("saving", |it| it.saving))
            .series(bars("visits that wait", |it| {
                it.figures.map_or(0.0, |it| ratio(it.delayed_visits, it.visits))
            }))
    }

    /// The rows as a table, with what refreshing costs: for CSV.
    pub(super) fn mirror_table(&self) -> Table {
        let rows = self.headlines();
        refreshing(
            Table::of("Today, with a mirror, and without an SLA", &rows)
                .text("with", |it| it.name)
                .number("saving", "%", 1, |it| 100.0 * it.saving)
                .number("energy", "kWh", 2, |it| it.figures.map(|it| it.energy_j / JOULES_PER_KWH))
                .number("wake-ups", "1/d", 1, |it| it.figures.map(|it| it.wakeups_per_day))
                .number("answered from copies", "%", 1, |it| {
                    it.figures.map(|it| 100.0 * ratio(it.from_copies, it.admitted))
                })
                .number("delayed requests", "%", 1, requests_that_wait)
                .number("delayed visits", "%", 1, visits_that_wait),
        )
    }

    /// The first table, what is to be seen in it, and what it means.
    pub(super) fn mirror_blocks(&self) -> [Block; 3] {
        let rows = self.with_limit();
        let mut table =
            Table::of("", &rows)
                .text("", |it| it.name)
                .number("saving", "%", 1, |it| 100.0 * it.saving);
        if let Some(year) = &self.year {
            let money = format!("{}/year", year.currency);
            let digits = self.digits_of_money();
            table = table.number(money, "", digits, |it| self.saved_in_a_year(it.bill));
        }
        let table = table.number("visits that wait", "%", 1, visits_that_wait).number(
            "requests that wait",
            "%",
            1,
            requests_that_wait,
        );
        [refreshing(table).into(), self.mirror_chart().into(), self.mirror_explained().into()]
    }
}

fn visits_that_wait(it: &Headline<'_>) -> Option<f64> {
    it.figures.map(|it| 100.0 * ratio(it.delayed_visits, it.visits))
}

fn requests_that_wait(it: &Headline<'_>) -> Option<f64> {
    it.figures.map(|it| 100.0 * ratio(it.delayed_requests, it.admitted))
}

/// The last columns.
fn refreshing(table: Rows<&Headline<'_>>) -> Table {
    table
        .count("wake-ups to refresh", |it| it.run.map(|it| it.refresh_wakeups))
        .detail()
        .number("energy to refresh", "Wh", 2, |it| it.run.map(|it| it.refresh_j / 3600.0))
        .detail()
        .into()
}

#[cfg(test)]
mod tests {
    use nightwatt_policy::scenario::Scenario;

    use crate::analyze::{AnalyzeOptions, run};

    const LOG: &str = r#"198.51.100.7 - - [04/Mar/2024:12:00:00 +0000] "GET /a HTTP/1.1" 200 500 "-" "Mozilla/5.0"
198.51.100.8 - - [04/Mar/2024:13:01:40 +0000] "GET /b HTTP/1.1" 200 500 "-" "Mozilla/5.0"
"#;

    #[test]
    fn an_application_has_no_row_of_a_mirror() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("a.log");
        std::fs::write(&log, LOG).unwrap();
        let options = AnalyzeOptions { logs: vec![log], is_app: true, ..AnalyzeOptions::default() };
        let analysis = run(&options, |_| std::ops::ControlFlow::Continue(())).unwrap();
        let text = analysis.text();
        for row in ["mirror, remembered", "mirror, crawled", "full mirror", "see `today"] {
            assert!(!text.contains(row), "{row}: {text}");
        }
        assert!(text.contains("today: the cache") && text.contains("has no mirror"), "{text}");
    }

    #[test]
    fn a_range_is_named_only_where_the_figures_agree_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("a.log");
        std::fs::write(&log, LOG).unwrap();
        let scenario = Scenario::default();
        let options = AnalyzeOptions { logs: vec![log], scenario, ..AnalyzeOptions::default() };
        let mut analysis = run(&options, |_| std::ops::ControlFlow::Continue(())).unwrap();
        // Of a real log: with more copies, other sleeps were allowed.
        for (remembered, crawled, agrees) in
            [(0.381, 0.374, false), (0.374, 0.381, true), (0.381, 0.381, true)]
        {
            analysis.mirror.remembered.figures.saving = remembered;
            analysis.mirror.crawled.figures.saving = crawled;
            let text = analysis.text().replace('\n', " ");
            assert_eq!(text.contains("It saves at least what"), agrees, "{text}");
            assert_eq!(
                text.contains("the SLA then allows other sleeps: here it saves no more"),
                !agrees,
                "{text}"
            );
        }
    }
}
