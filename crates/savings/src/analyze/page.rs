//! The analysis as a report for people.

use std::fmt::Write as _;

use nightwatt_energy::duration_text;
use nightwatt_energy::energy::Energy;
use nightwatt_energy::quantity::{JOULES_PER_KWH, Joules};
use nightwatt_report::{Block, Document, KeyFigure, Note, Origin, Section, Table, Text, grouped};

use super::Tables;
use super::amounts::{amount, counted, days_text, money};
use super::policy_figures::PolicyFigures;
use super::result::Analysis;
use super::tables::{counts_table, samples_table, wakers_table};

impl Analysis {
    /// The report for a terminal.
    pub fn text(&self) -> String {
        let more = "Charts, gaps, hours and clients: `--html report.html`.";
        format!("{}{more}\n", self.document(String::new()).to_text())
    }

    /// One page with all that is known; `generated` says by what and when it was made.
    pub fn document(&self, generated: impl Into<String>) -> Document {
        let names: Vec<&str> = self.logs.iter().map(|log| log.name.as_str()).collect();
        let mut document = Document::new("What sleeping would save");
        document.subtitle = Text::default().code(names.join(", ")).plain(format!(
            ": {} requests in {}",
            grouped(self.requests as f64, 0),
            days_text(self.span_s)
        ));
        document.warnings.clone_from(&self.warnings);
        document.verdict = Text::marked(&self.in_short());
        document.generated = generated.into();
        document.careful = self.careful();
        document.sections([
            self.short_section(),
            self.policies_section(),
            self.wakers_section(),
            self.ideal_section(),
            Section::of_charts("Hours", [self.day_chart(), self.week_chart()]),
            self.clients_section(),
            self.answers_section(),
            self.log_section(),
            self.unread_section(),
            self.assumptions_section(),
        ])
    }

    fn short_section(&self) -> Section {
        let mut blocks = Vec::from(self.mirror_blocks());
        blocks.push(Block::Figures(self.key_figures()));
        blocks.extend(self.chosen().map(|it| self.modelled_note(it).into()));
        blocks.push(self.price_note().into());
        let counted = "requests, classes, gaps and hours, in the log; crawlers are known by \
                       name and by behaviour.";
        blocks.push(Note::new(Origin::Counted, counted).into());
        Section::new("In short", blocks)
    }

    /// Where the energy comes from. How far an assumed server differs from the reader's is not known.
    fn modelled_note(&self, chosen: &PolicyFigures) -> Note {
        let times = "(below) × the times that the policy would have made of this log";
        if self.watts_assumed {
            let text = format!(
                "by the power states of an assumed server {times}; how far yours differs is not known"
            );
            return Note::new(Origin::Modelled, text);
        }
        let model = format!("the power states of the scenario {times}");
        let uncertainty = self.scenario.server.uncertainty;
        Note::of_energy(&Energy::modelled(Joules(chosen.energy_j), uncertainty, model))
    }

    fn price_note(&self) -> Note {
        let electricity = &self.scenario.electricity;
        let mut text = String::new();
        if self.watts_assumed {
            let proxy_w = self.scenario.proxy.power_w;
            let _ = write!(
                text,
                "the server draws {}, and the proxy {proxy_w} W (defaults: {} sets yours); ",
                self.watts(),
                self.place_of_watts("`--scenario`")
            );
        }
        if self.unmeasured().is_some() {
            let _ = write!(text, "{} (not measured); ", self.watts());
        }
        let _ = write!(
            text,
            "electricity costs {} {}/kWh, and its generation emits {} g CO2e/kWh",
            electricity.price_per_kwh, electricity.currency, electricity.co2_g_per_kwh
        );
        if *electricity == nightwatt_policy::electricity::Electricity::default() {
            let place = self.tables.as_ref().map_or_else(
                || "[electricity]".to_owned(),
                |it| format!("`{}` of {}", it.electricity, it.file),
            );
            let _ = write!(text, " (defaults, means of the EU: put yours into {place})");
        }
        if electricity.price_per_kwh.flat().is_none() {
            text.push_str("; what is used and saved in an hour counts at the price of that hour");
        }
        if let Some(year) = &self.year {
            text = format!("{text}. Figures for a year: {}", year.basis);
        }
        Note::new(Origin::Assumed, Text::marked(&format!("{text}.")))
    }

    /// Where the user sets what the server draws: in the configuration, if the scenario is from one.
    fn place_of_watts(&self, otherwise: &str) -> String {
        match &self.tables {
            Some(Tables { file, server, .. }) => format!("`{server}` of {file}"),
            None => otherwise.to_owned(),
        }
    }

    /// What the server draws, in words.
    fn watts(&self) -> String {
        let server = &self.scenario.server;
        format!("{} W awake and {} W asleep", server.on_w, server.off_w)
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
                money(year.saved_cost, self.watts_assumed),
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
        let best = KeyFigure::new("The oracle saves", percent(self.oracle.saving));
        figures.push(best.note("with today's cache; no visit waits"));
        let crawlers = KeyFigure::new("Crawlers", percent(self.crawler_share));
        figures.push(crawlers.note("of all requests"));
        let cache = KeyFigure::new("A cache answers", percent(self.cache_share.default));
        let note = format!("{} with an hour of grace", percent(self.cache_share.grace));
        figures.push(cache.note(note));
        figures
    }

    fn policies_section(&self) -> Section {
        let served = "The very policies of `serve`, run over the log with the SLA, cache and classes \
                      of the scenario. Saving is 1 − (server + proxy) / always on. A visit is what one \
                      client asks for with no more than half an hour between two requests; it is delayed \
                      if one of its requests is.";
        let compared = "The same policies without an SLA, behind one cache that is the same for all, \
                        when sparing one visit its wait is worth so many joules. Best fixed is the fixed \
                        time-out that would have been cheapest on this very log, chosen with hindsight; \
                        below 1 beats it. The oracle knows the future.";
        let costs = Block::Details {
            summary: "All costs in joules".to_owned(),
            blocks: vec![self.costs_table().into()],
        };
        let title = "Policies";
        let [sla_table, sla_text] = self.sla_blocks();
        let blocks = vec![
            Text::marked(served).into(),
            self.policies_short_table().into(),
            sla_table,
            sla_text,
            self.frontier_chart().into(),
            Text::from(compared).into(),
            self.ratios_table().into(),
            costs,
        ];
        Section::new(title, blocks)
    }

    fn wakers_section(&self) -> Section {
        let wakers = &self.wakers;
        let mut text = format!(
            "Under `{}`. A wake-up is put down to the request that caused it; others may wait with it. Where \
             one URL or client stands out, a rule in `[site.cache]` for it may save more than any policy.",
            self.default_policy
        );
        if !self.suspects.is_empty() {
            let agents = counted(self.suspects.len() as u64, "agent");
            let _ = write!(
                text,
                " {agents} on no list behave like crawlers or monitors: the page names them."
            );
        }
        let tables = [
            wakers_table("Classes that wake it", "class", &wakers.classes),
            wakers_table("URLs that wake it", "URL", &wakers.resources),
            wakers_table("Clients that wake it", "client", &wakers.clients),
        ];
        let tables = tables.into_iter().filter(|it| !it.rows.is_empty()).map(Block::from);
        let text = std::iter::once(Text::marked(&text).into());
        Section::new("Who wakes the server", text.chain(tables).collect())
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
        .detail()
    }

    fn clients_section(&self) -> Section {
        let text = Text::from(
            "Crawlers, monitors and scanners wake no server: crawlers are told when to come \
                        back, the others are answered by the proxy.",
        );
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
        Section::new("Clients", blocks).detail()
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
        .detail()
    }

    fn log_section(&self) -> Section {
        let text = Text::from(format!(
            "{}: {} in {}; {} hold no HTTP request, {} could not be read, {} earlier than the line before them{}.",
            counted(self.lines, "line"),
            counted(self.requests, "request"),
            days_text(self.span_s),
            grouped(self.bad_requests as f64, 0),
            grouped(self.malformed as f64, 0),
            grouped(self.unsorted as f64, 0),
            match self.outside {
                0 => String::new(),
                1 => "; 1 is of another time".to_owned(),
                more => format!("; {} are of another time", grouped(more as f64, 0)),
            }
        ));
        Section::new("The log", vec![text.into()])
    }

    fn unread_section(&self) -> Section {
        let mut blocks = vec![Block::from(self.logs_table())];
        let bad =
            samples_table("The first lines without an HTTP request", &self.bad_request_samples);
        let malformed =
            samples_table("The first lines that could not be read", &self.malformed_samples);
        push_filled(&mut blocks, bad, "Every line that could be read holds an HTTP request.");
        push_filled(&mut blocks, malformed, "Every line could be read.");
        push_filled(&mut blocks, self.holes_table(), "No pause is absurd against the others.");
        Section::new("The logs, and what is odd in them", blocks).detail()
    }

    fn assumptions_section(&self) -> Section {
        let server = &self.scenario.server;
        let break_even = self.scenario.power_states().break_even();
        let known = if self.watts_assumed {
            "all assumed".to_owned()
        } else {
            format!("known within {:.0} %", 100.0 * server.uncertainty)
        };
        let text = format!(
            "{} W awake, {} W asleep, {} J for each sleep, {known}; {} W for the proxy: a sleep \
             pays if it lasts longer than {:.1} s. Put the figures of your server {}: watts and seconds \
             decide all of this.",
            server.on_w,
            server.off_w,
            server.switch_j,
            self.scenario.proxy.power_w,
            break_even.as_secs_f64(),
            self.tables.as_ref().map_or_else(
                || "under `--scenario FILE`".to_owned(),
                |it| format!("into `{}` of {}", it.server, it.file),
            )
        );
        let summary = "Every figure of the scenario".to_owned();
        let all = Block::Details { summary, blocks: vec![self.assumptions_table().into()] };
        Section::new("What was taken for granted", vec![Text::marked(&text).into(), all])
    }

    /// The scenario's policy.
    pub fn chosen(&self) -> Option<&PolicyFigures> {
        self.policies.get(&self.default_policy)
    }

    /// What it comes to, in two or three sentences. Figures are tied to their units by spaces that
    /// do not break.
    pub fn in_short(&self) -> String {
        let Some(chosen) = self.chosen() else { return String::new() };
        let too_short = self.too_short();
        // The price of the SLA, where it is most of the saving.
        let is_more = |free: &PolicyFigures| free.saving > 0.0 && free.saving > 1.3 * chosen.saving;
        let free = self.without_sla.as_ref().filter(|it| too_short.is_none() && is_more(it));
        let mut text = too_short.unwrap_or_else(|| self.saved_in_short(chosen));
        if let Some(free) = free {
            let (percent, wait) = (
                100.0 * free.saving,
                100.0 * free.delayed_visits as f64 / free.visits.max(1) as f64,
            );
            // Writing to a String cannot fail, here and below.
            let _ = write!(
                text,
                " Without the SLA it would be {percent:.0} %, and {wait:.0} % of visits would wait."
            );
        }
        let wake = format!("{} s", self.scenario.server.wake_time.as_secs_f64());
        let days = self.days();
        let (delayed, visits) = (chosen.delayed_visits as f64, chosen.visits as f64);
        if days >= 1.0 {
            let _ = write!(
                text,
                " {} of {} visits a day would wait {wake} for the server to wake.",
                amount(delayed / days),
                amount(visits / days),
            );
        } else {
            let (delayed, visits) = (grouped(delayed, 0), grouped(visits, 0));
            let _ = write!(
                text,
                " {delayed} of {visits} visits would have waited {wake} for the server to wake."
            );
        }
        text.extend(self.broken_sla());
        for unit in ["kWh", "Wh", "kg", "%", "s", &self.scenario.electricity.currency] {
            text = text.replace(&format!(" {unit} "), &format!("\u{a0}{unit} "));
        }
        text
    }

    /// Is it the SLA that keeps the server awake, and not the traffic?
    fn kept_by_sla(&self, chosen: &PolicyFigures) -> bool {
        let sla = &self.scenario.sla;
        let few =
            |share: f64| chosen.delayed_requests as f64 <= 0.5 * share * chosen.admitted as f64;
        let saves_without = self.without_sla.as_ref().is_some_and(|free| free.saving > 0.0);
        sla.enabled && saves_without && sla.share.is_none_or(few)
    }

    /// Why the SLA leaves no room for sleep.
    fn kept_because(&self) -> String {
        let sla = &self.scenario.sla;
        let wake_time = self.scenario.server.wake_time;
        match sla.longest_wait {
            Some(most) if wake_time > most => format!(
                "the server wakes in {}, and `sla.longest_wait` is {}",
                duration_text::format(wake_time),
                duration_text::format(most)
            ),
            _ if sla.share.is_some() => {
                "the SLA leaves hardly any room for sleep, with so few requests of people and \
                 programs"
                    .to_owned()
            }
            _ => {
                format!("the SLA ({}) leaves hardly any room for sleep", sla.in_words().join("; "))
            }
        }
    }

    fn saved_in_short(&self, chosen: &PolicyFigures) -> String {
        let policy = &self.default_policy;
        let saved_j = self.always_on_j - chosen.energy_j;
        let percent = format!("{:.0} %", 100.0 * chosen.saving);
        let if_it_draws = if self.watts_assumed {
            let place = self.place_of_watts("`--scenario`");
            format!(" if yours draws {} (assumed; set yours: {place})", self.watts())
        } else {
            self.unmeasured().map_or_else(String::new, |assumes| format!(", which {assumes}"))
        };
        match &self.year {
            Some(year) if saved_j > 0.0 => format!(
                "With `{policy}` you would save {percent} of the energy of a server that is always on, the \
                 proxy's own use counted in: {} of {} kWh and {} {} a year{if_it_draws}.",
                amount(year.saved_kwh),
                amount(year.always_on_kwh),
                money(year.saved_cost, self.watts_assumed),
                year.currency,
            ),
            None if saved_j > 0.0 => format!(
                "With `{policy}` you would have saved {percent}, {} Wh, in {}{if_it_draws}: too short a \
                 time to speak of a year.",
                amount(1000.0 * saved_j / JOULES_PER_KWH),
                days_text(self.span_s),
            ),
            _ if self.kept_by_sla(chosen) => format!(
                "With `{policy}` you would save nothing: {}. See what `--no-sla` would save.",
                self.kept_because()
            ),
            _ => {
                let more = match (-100.0 * chosen.saving).round() {
                    more if more > 0.0 => {
                        format!(", {more:.0} % more in all than a server that is always on")
                    }
                    _ => String::new(),
                };
                format!(
                    "With `{policy}` you would save nothing: the proxy uses more than the server's sleep \
                     saves{more}."
                )
            }
        }
    }
}

/// A table, or what is to be said instead of an empty one.
fn push_filled(blocks: &mut Vec<Block>, table: Table, otherwise: &str) {
    blocks.push(if table.rows.is_empty() { Text::from(otherwise).into() } else { table.into() });
}
