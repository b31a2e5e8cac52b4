//! The analysis in plain language.

use std::fmt::Write as _;

use nightwatt_energy::quantity::JOULES_PER_KWH;
use nightwatt_report::grouped;

use super::formats::{amount, counted, days_text, money};
use super::result::{Analysis, PolicyFigures};
use super::tables::seconds;
use super::wakers::Waker;
use super::what_if::WhatIf;
use nightwatt_energy::display::shown;

/// Rows of who wakes the server, on a terminal.
const WAKERS: usize = 3;

/// Letters of a name, on a terminal.
const NAME: usize = 60;

impl Analysis {
    /// The analysis as text for a terminal.
    pub fn text(&self) -> String {
        let mut text = wrapped(&self.in_short());
        self.first_lines(&mut text);
        self.counts(&mut text);
        self.policies(&mut text);
        self.prices(&mut text);
        self.wakers(&mut text);
        self.terms(&mut text);
        text
    }

    fn counts(&self, text: &mut String) {
        let count = |n: u64| grouped(n as f64, 0);
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "\n{}: {} in {}, {}, {} malformed",
            counted(self.lines, "line"),
            counted(self.requests, "request"),
            days_text(self.span_s),
            counted(self.bad_requests, "bad request"),
            count(self.malformed)
        );
        let _ = writeln!(
            text,
            "{:.1} % crawlers; a cache answers {:.1} %, with an hour of grace {:.1} %",
            100.0 * self.crawler_share,
            100.0 * self.cache_share.default,
            100.0 * self.cache_share.grace
        );
    }

    fn policies(&self, text: &mut String) {
        let promise = &self.scenario.sla;
        let promise = if promise.enabled {
            format!("at most {:.0} % of requests wait", 100.0 * promise.share)
        } else {
            "nobody is promised anything".to_owned()
        };
        let money = self.year.as_ref().map(|year| format!("{}/year", year.currency));
        let _ = writeln!(text, "\nPolicies, as `serve` would run them ({promise}; * yours)");
        let _ = writeln!(
            text,
            "  {:<14} {:>8} {:>10} {:>12} {:>18} {:>17} {:>13}",
            "",
            "saving",
            money.unwrap_or_default(),
            "wake-ups/day",
            "delayed requests",
            "delayed visits",
            "of the oracle"
        );
        for (name, it) in self.ranked() {
            let mark = if name == self.default_policy { '*' } else { ' ' };
            let part = |some: u64, all: u64| {
                format!("{} ({:>4.1} %)", grouped(some as f64, 0), 100.0 * ratio(some, all))
            };
            let _ = writeln!(
                text,
                "{mark} {name:<14} {:>6} % {:>10} {:>12.1} {:>18} {:>17} {:>13}",
                grouped(100.0 * it.saving, 1),
                self.money(it.bill),
                it.wakeups_per_day,
                part(it.delayed_requests, it.admitted),
                part(it.delayed_visits, it.visits),
                it.oracle_share.map_or_else(|| "-".to_owned(), |it| format!("{:.1} %", 100.0 * it)),
            );
        }
        let _ = writeln!(
            text,
            "  {:<14} {:>6.1} % {:>10}   perfect knowledge: nobody waits",
            "oracle",
            100.0 * self.oracle.saving,
            self.money(self.oracle.bill)
        );
    }

    pub(super) fn money(&self, bill: f64) -> String {
        self.saved_in_a_year(bill).map(|money| grouped(money, 2)).unwrap_or_default()
    }

    fn prices(&self, text: &mut String) {
        let policies = self.priced();
        if policies.is_empty() {
            return;
        }
        let _ = writeln!(
            text,
            "\nCost, if sparing a visit its wait is worth so much (no promise; best fixed = 1)"
        );
        let _ = write!(text, "  {:<10} {:>12}", "J a visit", "best fixed");
        for policy in &policies {
            let _ = write!(text, " {policy:>10}");
        }
        text.push('\n');
        for (&price, row) in &self.costs {
            let timeout = self.best_timeout_s(price).map_or_else(|| "never".to_owned(), seconds);
            let _ = write!(text, "  {:<10} {timeout:>12}", grouped(price.into(), 0));
            let best = row.get("best_fixed").copied().unwrap_or(f64::NAN);
            for policy in &policies {
                let _ = write!(
                    text,
                    " {:>10}",
                    grouped(row.get(*policy).map_or(f64::NAN, |cost| cost / best), 3)
                );
            }
            text.push('\n');
        }
    }

    fn wakers(&self, text: &mut String) {
        let wakers = &self.wakers;
        if wakers.classes.is_empty() {
            return;
        }
        let _ = writeln!(
            text,
            "\nWho wakes it, under {}: wake-ups, delayed requests",
            self.default_policy
        );
        for (what, rows) in
            [("class", &wakers.classes), ("URL", &wakers.resources), ("client", &wakers.clients)]
        {
            for (index, Waker { name, caused, what_if }) in rows.iter().take(WAKERS).enumerate() {
                let what = if index == 0 { what } else { "" };
                let count = |n: u64| grouped(n as f64, 0);
                let (woke, delayed) = (count(caused.wakeups), count(caused.delayed_requests));
                let _ = writeln!(text, "  {what:<7} {woke:>7} {delayed:>7}  {}", cut(name));
                if let Some(it) = what_if {
                    let _ = writeln!(text, "  {:<24} {}", "", would_save(it));
                }
            }
        }
        if !self.suspects.is_empty() {
            let _ = writeln!(
                text,
                "  {} on no list behave{} like crawlers or monitors: the report names them",
                if self.suspects.len() == 1 {
                    "1 agent".to_owned()
                } else {
                    format!("{} agents", self.suspects.len())
                },
                if self.suspects.len() == 1 { "s" } else { "" }
            );
        }
    }

    fn terms(&self, text: &mut String) {
        let server = &self.scenario.server;
        let electricity = &self.scenario.electricity;
        let mut terms = format!(
            "Energy is modelled: server {} W awake, {} W asleep, {} J a sleep (± {:.0} %), proxy {} \
             W; {} {}/kWh, {} g CO2e/kWh.",
            server.on_w,
            server.off_w,
            server.switch_j,
            100.0 * server.uncertainty,
            self.scenario.proxy.power_w,
            electricity.price_per_kwh,
            electricity.currency,
            electricity.co2_g_per_kwh
        );
        if let Some(year) = &self.year {
            let _ = write!(terms, " Years are {}.", year.basis);
        }
        let _ = write!(text, "\n{}", wrapped(&terms));
        let _ = writeln!(
            text,
            "Yours differ: `--scenario FILE`. Charts, gaps, hours, crawlers: `--html report.html`."
        );
    }

    /// The scenario's policy.
    pub fn chosen(&self) -> Option<&PolicyFigures> {
        self.policies.get(&self.default_policy)
    }

    /// What it comes to, in two or three sentences. Figures are tied to their units by spaces that
    /// do not break.
    pub fn in_short(&self) -> String {
        let Some(chosen) = self.chosen() else { return String::new() };
        let mut text = self.saved_in_short(chosen);
        let wake = seconds_text(self.scenario.server.wake_time.as_secs_f64());
        let days = self.days();
        let (delayed, visits) = (chosen.delayed_visits as f64, chosen.visits as f64);
        // Writing to a String cannot fail.
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
        for unit in ["kWh", "Wh", "kg", "%", "s", &self.scenario.electricity.currency] {
            text = text.replace(&format!(" {unit} "), &format!("\u{a0}{unit} "));
        }
        text
    }

    /// Is it the promise that keeps the server awake, and not the traffic?
    fn kept_by_promise(&self, chosen: &PolicyFigures) -> bool {
        let promise = &self.scenario.sla;
        let few = 0.5 * promise.share * chosen.admitted as f64;
        promise.enabled && self.oracle.saving > 0.0 && chosen.delayed_requests as f64 <= few
    }

    fn saved_in_short(&self, chosen: &PolicyFigures) -> String {
        let policy = &self.default_policy;
        let saved_j = self.always_on_j - chosen.energy_j;
        let percent = format!("{:.0} %", 100.0 * chosen.saving);
        match &self.year {
            Some(year) if saved_j > 0.0 => format!(
                "With `{policy}` you would save {} kWh and {} {} a year ({} kg CO2e): {percent} of \
                 the {} kWh of a server that is always on, the proxy's own use counted in.",
                amount(year.saved_kwh),
                money(year.saved_cost),
                year.currency,
                amount(year.saved_co2_kg),
                amount(year.always_on_kwh),
            ),
            None if saved_j > 0.0 => format!(
                "With `{policy}` you would have saved {} Wh, {percent}, in {}: too short a time to \
                 speak of a year.",
                amount(1000.0 * saved_j / JOULES_PER_KWH),
                days_text(self.span_s),
            ),
            _ if self.kept_by_promise(chosen) => format!(
                "With `{policy}` you would save nothing: the promise leaves hardly any room for sleep, \
                 with so few requests of people and programs. See what `--no-sla` would save."
            ),
            _ => format!(
                "With `{policy}` you would save nothing: the proxy uses more than the server's sleep \
                 saves."
            ),
        }
    }
}

fn seconds_text(seconds: f64) -> String {
    format!("{seconds} s")
}

pub(super) fn ratio(some: u64, all: u64) -> f64 {
    some as f64 / all.max(1) as f64
}

/// A name of whatever origin on one line of a terminal that it does not command.
fn cut(name: &str) -> String {
    let mut short: String = name.chars().take(NAME).map(shown).collect();
    if name.chars().nth(NAME).is_some() {
        short.push('…');
    }
    short
}

/// Broken into lines.
pub(super) fn wrapped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    let mut column = 0;
    for word in text.split(' ') {
        let length = word.chars().count();
        if column > 0 {
            let breaks = column + 1 + length > 90;
            out.push(if breaks { '\n' } else { ' ' });
            column = if breaks { 0 } else { column + 1 };
        }
        out.push_str(word);
        column += length;
    }
    out.push('\n');
    out.replace('\u{a0}', " ")
}

/// What a rule would save, in a line.
fn would_save(what_if: &WhatIf) -> String {
    let rule = match what_if.rule {
        "cache" => "always in the cache",
        _ => "invited like crawlers",
    };
    format!(
        "{rule}: {:+.1} wake-ups, {:+.2} Wh a day",
        0.0 - what_if.wakeups_avoided_per_day,
        0.0 - what_if.saved_j_per_day / 3600.0
    )
}
