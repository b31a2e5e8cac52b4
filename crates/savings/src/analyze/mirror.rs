//! What comes first: what is saved today, with a mirror of the site, and without an SLA.

use std::fmt::Write as _;
use std::time::Duration;

use nightwatt_energy::duration_text;
use nightwatt_energy::quantity::JOULES_PER_KWH;
use nightwatt_report::{
    Axis, Block, Cell, Chart, Column, Kind, Scale, Series, Table, Text, grouped,
};

use super::formats::amount;
use super::result::{Analysis, MirrorRun, PolicyFigures};
use super::text::{ratio, wrapped};

/// A row of what comes first.
struct Headline<'a> {
    name: &'static str,
    saving: f64,
    /// In the scenario's currency.
    bill: f64,
    /// Nothing for the limit, where no visit waits.
    figures: Option<&'a PolicyFigures>,
}

impl<'a> Headline<'a> {
    const fn of(name: &'static str, figures: &'a PolicyFigures) -> Self {
        Self { name, saving: figures.saving, bill: figures.bill, figures: Some(figures) }
    }
}

impl Analysis {
    fn headlines(&self) -> Vec<Headline<'_>> {
        let mirror = &self.mirror;
        let limit = Headline {
            name: "limit: the future is known",
            saving: mirror.limit.saving,
            bill: mirror.limit.bill,
            figures: None,
        };
        let today = self.chosen().map(|it| Headline::of("today: the cache", it));
        let without_sla =
            self.without_sla.as_ref().map(|it| Headline::of("today, without SLA", it));
        let remembered = Headline::of("mirror, remembered", &mirror.remembered.figures);
        let crawled = Headline::of("mirror, crawled", &mirror.crawled.figures);
        [today, Some(remembered), Some(crawled), without_sla, Some(limit)]
            .into_iter()
            .flatten()
            .collect()
    }

    /// The first table of the text, and what it means.
    pub(super) fn first_lines(&self, text: &mut String) {
        let money = self.year.as_ref().map(|year| format!("{}/year", year.currency));
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "\n  {:<26} {:>8} {:>10} {:>18} {:>20}",
            "",
            "saving",
            money.unwrap_or_default(),
            "visits that wait",
            "requests that wait"
        );
        for it in self.headlines() {
            let waits = |some: u64, all: u64| format!("{:.1} %", 100.0 * ratio(some, all));
            let (visits, requests) = it.figures.map_or(("-".to_owned(), "-".to_owned()), |it| {
                (waits(it.delayed_visits, it.visits), waits(it.delayed_requests, it.admitted))
            });
            let _ = writeln!(
                text,
                "  {:<26} {:>6} % {:>10} {visits:>18} {requests:>20}",
                it.name,
                grouped(100.0 * it.saving, 1),
                self.money(it.bill),
            );
        }
        text.push_str(&self.refresh_line());
        text.push_str(&wrapped(&self.mirror_explained()));
    }

    /// What it takes to keep the copies fresh, a line of its own.
    fn refresh_line(&self) -> String {
        let cost = |run: &MirrorRun| {
            let wakeups = if run.refresh_wakeups == 1 { "wake-up" } else { "wake-ups" };
            format!(
                "{} {wakeups}, {} Wh",
                grouped(run.refresh_wakeups as f64, 0),
                amount(run.refresh_j / 3600.0)
            )
        };
        let mirror = &self.mirror;
        format!(
            "  refreshing, counted in: remembered {}; crawled {}\n",
            cost(&mirror.remembered),
            cost(&mirror.crawled)
        )
    }

    /// What a mirror is, and what the log does not show of it.
    pub(super) fn mirror_explained(&self) -> String {
        let max_age = duration_text::format(Duration::from_secs_f64(self.mirror.max_age_s));
        let app = match &self.without_sla {
            Some(_) => {
                " With `kind\u{a0}=\u{a0}\"app\"` there is neither a mirror nor an SLA: see `today, without SLA`."
            }
            None => "",
        };
        format!(
            "A mirror (`kind = \"pages\"`) holds a copy of the site, at most {max_age} old, and answers \
             from it while the server sleeps. It saves at least what it does if it holds only what was \
             asked for before (remembered), and at most what it does if it holds all that exists \
             (crawled). A log does not show cookies: visitors with a session get nothing from a mirror.{app}"
        )
    }

    /// Savings beside each other, and who waits.
    pub(super) fn mirror_chart(&self) -> Chart {
        let rows = self.headlines();
        let names = rows.iter().map(|it| it.name.to_owned()).collect();
        let x = Axis::new("", "", Scale::Category(names));
        let y = Axis::new("share", "%", Scale::FromZero);
        let bars = |name: &str, figure: fn(&Headline<'_>) -> f64| {
            let points = rows.iter().enumerate().map(|(at, it)| (at as f64, 100.0 * figure(it)));
            Series::new(name, Kind::Bar).points(points)
        };
        Chart::new("Today, with a mirror, and the limit", x, y)
            .description(
                "What is saved of the energy of a server that is always on, and the share of visits in \
                 which a request waits. A mirror saves between remembered and crawled.",
            )
            .series(bars("saving", |it| it.saving))
            .series(bars("visits that wait", |it| {
                it.figures.map_or(0.0, |it| ratio(it.delayed_visits, it.visits))
            }))
    }

    /// The same as a table, with what refreshing costs.
    pub(super) fn mirror_table(&self) -> Table {
        let columns = vec![
            Column::text("with"),
            Column::number("saving", "%"),
            Column::number("energy", "kWh"),
            Column::number("wake-ups", "1/d"),
            Column::number("answered from copies", "%"),
            Column::number("delayed requests", "%"),
            Column::number("delayed visits", "%"),
            Column::number("wake-ups to refresh", ""),
            Column::number("energy to refresh", "Wh"),
        ];
        let mut table = Table::new("Today, with a mirror, and without an SLA", columns);
        let mut row = |name: &str, it: &PolicyFigures, refresh: Option<&MirrorRun>| {
            let share = |some, all| Cell::number(100.0 * ratio(some, all), 1);
            let of_refresh = |cell: fn(&MirrorRun) -> Cell| refresh.map_or(Cell::Empty, cell);
            table.rows.push(vec![
                name.into(),
                Cell::number(100.0 * it.saving, 1),
                Cell::number(it.energy_j / JOULES_PER_KWH, 2),
                Cell::number(it.wakeups_per_day, 1),
                share(it.from_copies, it.admitted),
                share(it.delayed_requests, it.admitted),
                share(it.delayed_visits, it.visits),
                of_refresh(|it| Cell::count(it.refresh_wakeups)),
                of_refresh(|it| Cell::number(it.refresh_j / 3600.0, 2)),
            ]);
        };
        let mirror = &self.mirror;
        self.chosen().into_iter().for_each(|it| row("today: the cache", it, None));
        for (name, run) in [
            ("mirror, remembered", &mirror.remembered),
            ("mirror, crawled", &mirror.crawled),
            ("mirror, crawled, complete", &mirror.complete),
        ] {
            row(name, &run.figures, Some(run));
        }
        self.without_sla.iter().for_each(|it| row("today, without SLA", it, None));
        table
    }

    /// What the page says of it.
    pub(super) fn mirror_blocks(&self) -> [Block; 3] {
        let text = self.mirror_explained();
        let parts = text.split('`').enumerate();
        let text = parts.fold(Text::default(), |text, (index, part)| {
            if index % 2 == 1 { text.code(part) } else { text.plain(part) }
        });
        [self.mirror_chart().into(), text.into(), self.mirror_table().into()]
    }
}
