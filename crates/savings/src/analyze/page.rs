//! The analysis as a page for people.

use nightwatt_energy::energy::Energy;
use nightwatt_energy::quantity::Joules;
use nightwatt_report::{Block, Document, KeyFigure, Note, Origin, Section, Table, Text, grouped};

use super::formats::{amount, counted, days_text, money};
use super::result::Analysis;
use super::tables::{counts_table, samples_table, wakers_table};

impl Analysis {
    /// One page with all that is known; `generated` says by what and when it was made.
    pub fn document(&self, generated: impl Into<String>) -> Document {
        let names: Vec<&str> = self.logs.iter().map(|log| log.name.as_str()).collect();
        let mut document = Document::new("What sleeping would save");
        document.subtitle = Text::default().code(names.join(", ")).plain(format!(
            ": {} requests in {}",
            grouped(self.requests as f64, 0),
            days_text(self.span_s)
        ));
        document.generated = generated.into();
        document.sections = vec![
            self.short_section(),
            self.policies_section(),
            self.wakers_section(),
            self.ideal_section(),
            self.hours_section(),
            self.clients_section(),
            self.answers_section(),
            self.log_section(),
            self.assumptions_section(),
        ];
        document
    }

    fn short_section(&self) -> Section {
        let mut blocks = vec![marked(&self.in_short()).into()];
        blocks.push(Block::Figures(self.key_figures()));
        blocks.extend(self.mirror_blocks());
        if let Some(chosen) = self.chosen() {
            let energy = Energy::modelled(
                Joules(chosen.energy_j),
                self.scenario.server.uncertainty,
                "the power states of the scenario (below) × the times that the policy would have \
                 made of this log",
            );
            blocks.push(Note::of_energy(&energy).into());
        }
        blocks.push(self.price_note().into());
        let counted = "requests, classes, gaps and hours, in the log; who is a crawler is told by \
                       name and by behaviour.";
        blocks.push(Note::new(Origin::Counted, counted).into());
        blocks
            .extend(self.warnings.iter().map(|it| Note::new(Origin::Caution, it.as_str()).into()));
        Section::new("In short", blocks)
    }

    fn price_note(&self) -> Note {
        let electricity = &self.scenario.electricity;
        let mut text = format!(
            "a kilowatt-hour costs {} {} and its generation emits {} g CO2e",
            electricity.price_per_kwh, electricity.currency, electricity.co2_g_per_kwh
        );
        if *electricity == nightwatt_policy::electricity::Electricity::default() {
            text.push_str(" (defaults, means of the EU: put yours into [electricity])");
        }
        if electricity.price_per_kwh.flat().is_none() {
            text.push_str("; what is used and saved in an hour counts at the price of that hour");
        }
        if let Some(year) = &self.year {
            text = format!("{text}. Figures for a year: {}", year.basis);
        }
        Note::new(Origin::Assumed, format!("{text}."))
    }

    fn key_figures(&self) -> Vec<KeyFigure> {
        let mut figures = Vec::new();
        let percent = |share: f64| format!("{:.1} %", 100.0 * share);
        if let Some(chosen) = self.chosen() {
            let own = KeyFigure::new("Saved", percent(chosen.saving));
            figures.push(own.note(format!("by {}, proxy counted in", self.default_policy)));
        }
        if let Some(year) = &self.year {
            let kwh = format!("{} kWh", amount(year.saved_kwh));
            let worth = format!(
                "{} {}, {} kg CO2e",
                money(year.saved_cost),
                year.currency,
                amount(year.saved_co2_kg)
            );
            figures.push(KeyFigure::new("Saved in a year", kwh).note(worth));
        }
        if let Some(chosen) = self.chosen() {
            let share = chosen.delayed_visits as f64 / chosen.visits.max(1) as f64;
            let day = format!("{:.1}", chosen.delayed_visits as f64 / self.days());
            let note = format!("{} of all visits", percent(share));
            figures.push(KeyFigure::new("Visits a day that wait", day).note(note));
            let wakeups = format!("{:.1}", chosen.wakeups_per_day);
            figures.push(KeyFigure::new("Wake-ups a day", wakeups));
        }
        let best = KeyFigure::new("Perfect knowledge saves", percent(self.oracle.saving));
        figures.push(best.note("nobody waits"));
        let crawlers = KeyFigure::new("Crawlers", percent(self.crawler_share));
        figures.push(crawlers.note("of all requests"));
        let cache = KeyFigure::new("A cache answers", percent(self.cache_share.default));
        let note = format!("{} with an hour of grace", percent(self.cache_share.grace));
        figures.push(cache.note(note));
        figures
    }

    fn policies_section(&self) -> Section {
        let served = Text::from("The very policies of ")
            .code("serve")
            .plain(", run over the log with the promise, cache and classes of the scenario. ")
            .plain("Saving is 1 − (server + proxy) / always on. A visit is what one client asks ")
            .plain("for with no more than half an hour between two requests; it is delayed if one ")
            .plain("of its requests is.");
        let compared = Text::from("The same policies without a promise, behind one cache that is ")
            .plain("the same for all, when sparing one visit its wait is worth so many joules. ")
            .emphasis("Best fixed")
            .plain(" is the fixed time-out that would have been cheapest on this very log, chosen ")
            .plain("with hindsight; below 1 beats it. The oracle knows the future.");
        let costs = Block::Details {
            summary: "All costs in joules".to_owned(),
            blocks: vec![self.costs_table().into()],
        };
        let title = "Policies";
        let blocks = vec![
            served.into(),
            self.policies_short_table().into(),
            self.frontier_chart().into(),
            compared.into(),
            self.ratios_table().into(),
            costs,
        ];
        Section::new(title, blocks)
    }

    fn wakers_section(&self) -> Section {
        let wakers = &self.wakers;
        let text = Text::from("Under ")
            .code(self.default_policy.as_str())
            .plain(
                ". A wake-up is put down to the request that caused it; others may wait with it. ",
            )
            .plain("Where one URL or client stands out, a rule in ")
            .code("[site.cache]")
            .plain(" for it may save more than any policy.");
        Section::new(
            "Who wakes the server",
            vec![
                text.into(),
                wakers_table("Classes that wake it", "class", &wakers.classes).into(),
                wakers_table("URLs that wake it", "URL", &wakers.resources).into(),
                wakers_table("Clients that wake it", "client", &wakers.clients).into(),
            ],
        )
    }

    fn ideal_section(&self) -> Section {
        let resolution = Text::from(format!(
            "The log's times are as fine as {} s, so nothing is known of gaps below that: requests \
             of one moment count as a gap of no length.",
            self.resolution_s
        ));
        Section::new(
            "Gaps, and what they are worth",
            vec![
                self.ideal_chart().into(),
                resolution.into(),
                self.gaps_chart().into(),
                self.gaps_table().into(),
            ],
        )
    }

    fn hours_section(&self) -> Section {
        Section::new("Hours", vec![self.day_chart().into(), self.week_chart().into()])
    }

    fn clients_section(&self) -> Section {
        let text =
            Text::from("Crawlers, monitors and scanners wake nobody: crawlers are told when ")
                .plain("to come back, the others are answered by the proxy.");
        let mut blocks: Vec<Block> = vec![text.into(), self.classes_table().into()];
        push_filled(&mut blocks, self.crawlers_table(), "No crawler was seen.");
        push_filled(
            &mut blocks,
            self.suspects_table(),
            "No agent behaves like an unlisted crawler.",
        );
        if !self.suspects.is_empty() {
            let text = "No list names these, so until their behaviour gives them away they count as \
                        people, and wake the server.";
            blocks.push(Text::from(text).into());
        }
        Section::new("Clients", blocks)
    }

    fn answers_section(&self) -> Section {
        let text = Text::from(format!(
            "{} bytes in all; half of the answers have at most {} bytes, nine in ten at most {}. \
             About {} different URLs.",
            grouped(self.sizes.total as f64, 0),
            grouped(self.sizes.p50 as f64, 0),
            grouped(self.sizes.p90 as f64, 0),
            grouped(self.targets as f64, 0)
        ));
        Section::new(
            "Answers",
            vec![
                text.into(),
                self.sizes_chart().into(),
                counts_table("Methods", "method", &self.methods).into(),
                counts_table("Statuses", "status", &self.statuses).into(),
            ],
        )
    }

    fn log_section(&self) -> Section {
        let text = Text::from(format!(
            "{}: {} analysed; {} hold no HTTP request, {} could not be read, {} earlier than the line before them.",
            counted(self.lines, "line"),
            counted(self.requests, "request"),
            grouped(self.bad_requests as f64, 0),
            grouped(self.malformed as f64, 0),
            grouped(self.unsorted as f64, 0)
        ));
        let mut blocks: Vec<Block> = vec![text.into(), self.logs_table().into()];
        let bad =
            samples_table("The first lines without an HTTP request", &self.bad_request_samples);
        let malformed =
            samples_table("The first lines that could not be read", &self.malformed_samples);
        push_filled(&mut blocks, bad, "Every line that could be read holds an HTTP request.");
        push_filled(&mut blocks, malformed, "Every line could be read.");
        push_filled(&mut blocks, self.holes_table(), "No pause is absurd against the others.");
        Section::new("The log", blocks)
    }

    fn assumptions_section(&self) -> Section {
        let server = &self.scenario.server;
        let break_even = self.scenario.power_states().break_even();
        let text = Text::from(format!(
            "{} W awake, {} W asleep, {} J for each sleep, known within {:.0} %: a sleep pays if it \
             lasts longer than {:.1} s. Put the figures of your server under ",
            server.on_w,
            server.off_w,
            server.switch_j,
            100.0 * server.uncertainty,
            break_even.as_secs_f64()
        ))
        .code("--scenario FILE")
        .plain(": watts and seconds decide everything on this page.");
        Section::new(
            "What was taken for granted",
            vec![text.into(), self.assumptions_table().into()],
        )
    }
}

/// Strong text, in which what stands between backticks is code.
fn marked(text: &str) -> Text {
    let parts = text.split('`').enumerate();
    parts.fold(
        Text::default(),
        |text, (index, part)| {
            if index % 2 == 1 { text.code(part) } else { text.strong(part) }
        },
    )
}

/// A table, or what is to be said instead of an empty one.
fn push_filled(blocks: &mut Vec<Block>, table: Table, otherwise: &str) {
    blocks.push(if table.rows.is_empty() { Text::from(otherwise).into() } else { table.into() });
}
