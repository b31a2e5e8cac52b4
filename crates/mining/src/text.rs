//! Mining for a terminal.

use std::fmt::Write as _;

use nightwatt_report::grouped;

use super::band::{BAND_GW, Band, EFFICIENCIES, Span};
use super::result::Mining;
use super::rules::RuleCheck;

const SECONDS_PER_YEAR: f64 = 365.25 * 86_400.0;

/// Spans that a line tells; the others are counted.
const SPANS: usize = 3;

impl Mining {
    /// The page in words.
    pub fn text(&self) -> String {
        let mut text = String::new();
        self.block(&mut text);
        self.network(&mut text);
        self.devices(&mut text);
        self.over_time(&mut text);
        text
    }

    fn block(&self, text: &mut String) {
        // Writing to a String cannot fail.
        let day = self.day.as_ref().map(|day| format!(", {day}")).unwrap_or_default();
        let _ = writeln!(text, "{}{day}\n", self.coin);
        let unit = self.hashes_word();
        let mut line = |what: &str, value: String| {
            let _ = writeln!(text, "  {what:<28} {value}");
        };
        line("difficulty", self.difficulty.clone());
        if let (Some(bits), Some(target)) = (self.bits, &self.target) {
            line("target", target.clone());
            // Those of a typed difficulty are no block's.
            let what =
                if self.bits_are_given { "compact bits" } else { "compact bits, not easier" };
            line(what, bits.to_string());
        }
        line("expected work", format!("{} {unit}", self.hashes));
        if let Some(exact) = &self.exact_hashes {
            line("exactly, 2^256/(target + 1)", format!("{exact} {unit}"));
        }
        line("at", format!("{} {unit}/s", self.hash_rate));
        let years = self.expected_s.parse::<f64>().unwrap_or(f64::NAN) / SECONDS_PER_YEAR;
        let years = if years >= 0.1 {
            format!("  ({} years of 365.25 days)", short(years))
        } else {
            String::new()
        };
        line("expected time", format!("{} s{years}", self.expected_s));
        if let Some(exact) = &self.exact_expected_s {
            line("exactly", format!("{exact} s"));
        }
    }

    fn network(&self, text: &mut String) {
        let unit = &self.hash_unit;
        let _ = writeln!(
            text,
            "\nThe network, at a block every {} s: {:.4e} {}/s",
            self.block_time_s,
            self.network_hash_rate,
            self.hashes_word()
        );
        for (mhash_j, gigawatts) in self.network_gw {
            let efficiency = grouped(mhash_j, 0);
            let _ = writeln!(text, "  {efficiency:>8} M{unit}/J {:>14} GW", short(gigawatts));
        }
    }

    fn devices(&self, text: &mut String) {
        let money = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), short);
        let _ = writeln!(
            text,
            "\nEnergy at {} {}/kWh; a block brings {} {} and {}, a coin is worth {} {}",
            self.per_kwh,
            self.currency,
            money(self.reward),
            self.symbol,
            self.fees.map_or_else(
                || "fees that are not known".to_owned(),
                |fees| format!("{} of fees", short(fees))
            ),
            money(self.per_coin),
            self.currency,
        );
        if self.devices.is_empty() {
            let _ = writeln!(
                text,
                "  No device of the table computes {}: `--devices FILE` takes yours \
                 (name,kind,mhash_s,watts,since).",
                self.algorithm.as_deref().unwrap_or("the hash of this coin"),
            );
            return;
        }
        let _ = writeln!(
            text,
            "  {:<22} {:>7} {:>10} {:>11} {:>11} {:>12} {:>11} {:>11} {:>10}",
            "device",
            "since",
            "Mhash/J",
            "s/block",
            "kWh/block",
            "cost/block",
            "cost/coin",
            "profit/day",
            "even/kWh"
        );
        for row in &self.devices {
            let it = &row.assessment;
            let since =
                row.device.since.as_ref().map_or_else(|| "–".to_owned(), ToString::to_string);
            let name: String =
                row.device.name.chars().take(22).map(nightwatt_energy::display::shown).collect();
            let _ = writeln!(
                text,
                "  {name:<22} {since:>7} {:>10} {:>11.4e} {:>11.4e} {:>12} {:>11} {:>11} {:>10}",
                short(row.mhash_j),
                it.seconds_per_block,
                it.joules_per_block / 3.6e6,
                short(it.cost_per_block),
                money(it.cost_per_coin),
                money(it.profit_per_day),
                money(it.break_even_per_kwh),
            );
        }
        if self.reward.is_none() {
            let _ = writeln!(
                text,
                "  What a coin costs needs the height of the block: `--height`, or a history."
            );
        }
        if self.per_coin.is_none() {
            let _ = writeln!(
                text,
                "  What mining brings needs the price of a coin: `--price`, or a history."
            );
        }
    }

    fn over_time(&self, text: &mut String) {
        if self.history.is_empty() {
            return;
        }
        self.years(text);
        for band in &self.bands {
            let _ = writeln!(text, "{}", band_line(band));
        }
        let paid = self.devices.iter().filter(|row| row.days_known > 0);
        for (index, row) in paid.enumerate() {
            if index == 0 {
                let _ = writeln!(
                    text,
                    "\nDays on which it brought more than its energy cost at {} {}/kWh, from when on it could be had:",
                    self.per_kwh, self.currency
                );
            }
            let _ = writeln!(
                text,
                "  {:<22} {:>5} of {:>5}  {}",
                row.device.name.chars().map(nightwatt_energy::display::shown).collect::<String>(),
                row.days_profitable,
                row.days_known,
                spans(&row.profitable_spans)
            );
        }
        if !self.gaps.is_empty() {
            let _ = writeln!(text, "\nMissing in the history, and not made up:");
        }
        for gap in &self.gaps {
            let days = if gap.days == 1 { "day" } else { "days" };
            let _ = writeln!(
                text,
                "  {:<10} {} to {}  ({} {days})",
                gap.what, gap.from, gap.to, gap.days
            );
        }
        if let Some(rules) = &self.rules {
            text.push_str(&rules_text(rules));
        }
        for it in &self.unread {
            let names = it.columns.join(", ");
            let names: String = names.chars().map(nightwatt_energy::display::shown).collect();
            let _ = writeln!(text, "\nColumns of {} that are not read: {names}", it.file);
        }
    }

    fn years(&self, text: &mut String) {
        text.push_str(
            "\nPower of the network [GW] at the end of each year, by efficiency [Mhash/J], and of the \
             devices of the time:\n",
        );
        let _ = write!(text, "  {:<10} {:>10}", "at", "hashes/s");
        for mhash_j in EFFICIENCIES {
            let _ = write!(text, " {:>10}", grouped(mhash_j, 0));
        }
        let _ = writeln!(text, " {:>7}  devices", "missing");
        for year in &self.years {
            let mut line = format!("  {:<10} {:>10.3e}", year.at, year.hash_rate);
            for gigawatts in year.power_gw {
                let _ = write!(line, " {:>10}", short(gigawatts));
            }
            let missing = if year.days_missing > 0 {
                format!("{} d", year.days_missing)
            } else {
                String::new()
            };
            let devices: Vec<String> = year
                .devices
                .iter()
                .map(|it| format!("{} {}", it.name, short(it.power_gw)))
                .collect();
            let _ = writeln!(text, "{line} {missing:>7}  {}", devices.join(", "));
        }
        text.push('\n');
    }
}

fn band_line(band: &Band) -> String {
    format!(
        "{} to {} GW at {} Mhash/J, difficulty {:.3e} to {:.3e}: {}",
        BAND_GW.0,
        BAND_GW.1,
        grouped(band.mhash_j, 0),
        band.difficulties.0,
        band.difficulties.1,
        spans(&band.spans)
    )
}

/// `from until until, from on and 3 more times`.
pub fn spans(spans: &[Span]) -> String {
    let told = spans.iter().take(SPANS).map(|span| match &span.until {
        Some(until) => format!("{} until {until}", span.from),
        None => format!("{} on", span.from),
    });
    let mut text = told.collect::<Vec<_>>().join(", ");
    if text.is_empty() {
        "never".clone_into(&mut text);
    }
    if spans.len() > SPANS {
        let more = spans.len() - SPANS;
        let _ = write!(text, " and {more} more {}", if more == 1 { "time" } else { "times" });
    }
    text
}

fn rules_text(rules: &RuleCheck) -> String {
    let mut text = format!(
        "\nBy the rules, over {} epochs:\n  {} difficulties follow from their bits to the last digit shown, \
         {} do not\n  {} rewards follow from their heights, {} do not\n  {} changes of the target fit the \
         time that their epoch took, {} do not; {} were bounded by the rule, {} left it the easiest",
        rules.epochs,
        rules.difficulties,
        rules.wrong_difficulties.len(),
        rules.rewards,
        rules.wrong_rewards.len(),
        rules.within,
        rules.outside.len(),
        rules.bounded.len(),
        rules.easiest.len(),
    );
    if !rules.untimed.is_empty() {
        let _ = write!(text, "; of {} the times are estimated", rules.untimed.len());
    }
    if let (Some(least), Some(most)) = (rules.least_excess_s, rules.most_excess_s) {
        let _ = write!(
            text,
            "\n  from an epoch's last block to the next one's first: {least:.0} to {most:.0} s"
        );
    }
    for (height, shown, ours) in rules.wrong_difficulties.iter().take(SPANS) {
        let _ =
            write!(text, "\n  block {height}: difficulty {shown} is shown, its bits say {ours}");
    }
    for it in rules.outside.iter().take(SPANS) {
        let _ = write!(
            text,
            "\n  block {}: the change says {:.0} s, the blocks {} s",
            it.height, it.implied_s, it.between_first_blocks_s
        );
    }
    for height in rules.wrong_rewards.iter().take(SPANS) {
        let _ = write!(text, "\n  block {height}: its reward is another one");
    }
    text.push('\n');
    text
}

/// Four digits that count; the very large and the very small by their power of ten.
pub(super) fn short(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 {
        return "0".to_owned();
    }
    if !(1e-4..1e9).contains(&size) {
        return format!("{value:.3e}");
    }
    let decimals = (3.0 - size.log10().floor()).clamp(0.0, 8.0) as usize;
    let text = grouped(value, decimals);
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}
