//! Mining as a report.

use nightwatt_energy::display::shown;
use nightwatt_report::{Block, Document, Note, Origin, Section, Text};

use super::result::Mining;
use super::rules::RuleCheck;
use super::tables::{short, unread_columns};

const SECONDS_PER_YEAR: f64 = 365.25 * 86_400.0;

/// Rows of each kind of mistake that are told.
const TOLD: usize = 3;

impl Mining {
    /// The report for a terminal.
    pub fn text(&self) -> String {
        self.document(String::new()).to_text()
    }

    /// The report; `generated` says by what and when it was made.
    pub fn document(&self, generated: String) -> Document {
        let mut document = Document::new(format!("Mining {}", self.coin));
        let day = self.day.as_ref().map(|day| format!(", of {day}")).unwrap_or_default();
        document.subtitle = Text::from(format!("Difficulty {}{day}", self.difficulty));
        let years = self.expected_s.parse::<f64>().unwrap_or(f64::NAN) / SECONDS_PER_YEAR;
        let years = if years >= 0.1 {
            format!(" ({} years of 365.25 days)", short(years))
        } else {
            String::new()
        };
        document.verdict = Text::from(format!(
            "A block of {}{day} takes {} s{years} at {} {}/s.",
            self.coin,
            self.expected_s,
            self.hash_rate,
            self.hashes_word()
        ));
        document.generated = generated;
        let has_history = !self.history.is_empty();
        let charts = if has_history { self.charts() } else { Vec::new() };
        let mut history = Vec::new();
        if has_history {
            history.push(self.years_table().into());
            history.extend((!self.bands.is_empty()).then(|| self.bands_table().into()));
            history.push(self.profitable_table().into());
        }
        document.sections([
            Section::new("A block", vec![self.block_table().into()]),
            Section::new("The network", vec![self.network_table().into()]),
            Section::of_charts("Over the years", charts),
            Section::new("The network over the years", history),
            Section::new("Devices", self.devices_blocks()),
            Section::new("Gaps", self.gaps_blocks()),
            Section::new("By the rules", self.rules.as_ref().map(rules_blocks).unwrap_or_default()),
            Section::new(
                "Not read",
                self.unread.iter().map(|it| unread_columns(it).into()).collect(),
            ),
        ])
    }

    fn devices_blocks(&self) -> Vec<Block> {
        let money = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), short);
        let (currency, symbol) = (&self.currency, &self.symbol);
        let fees = self.fees.map_or_else(
            || "fees that are not known".to_owned(),
            |fees| format!("{} of fees", short(fees)),
        );
        let worth = self.per_coin.map_or_else(
            || "the price of a coin is not known".to_owned(),
            |price| format!("a coin is worth {} {currency}", short(price)),
        );
        let terms = format!(
            "Energy at {} {currency}/kWh; a block brings {} {symbol} and {fees}, {worth}.",
            self.per_kwh,
            money(self.reward),
        );
        let mut blocks = vec![Text::from(terms).into()];
        if self.devices.is_empty() {
            let text = format!(
                "No device of the table computes {}: `--devices FILE` takes yours (name,kind,mhash_s,watts,since).",
                self.algorithm.as_deref().unwrap_or("the hash of this coin"),
            );
            blocks.push(Text::marked(&text).into());
            return blocks;
        }
        blocks.push(self.devices_table().into());
        let bounds =
            "Energy of the devices alone: no cooling, no pool's fees, nothing for the device.";
        blocks.push(Note::new(Origin::Modelled, bounds).into());
        for (known, missing) in [
            (
                self.reward,
                "What a coin costs needs the height of the block: `--height`, or a history.",
            ),
            (
                self.per_coin,
                "What mining brings needs the price of a coin: `--price`, or a history.",
            ),
        ] {
            blocks.extend(known.is_none().then(|| Text::marked(missing).into()));
        }
        blocks
    }

    fn gaps_blocks(&self) -> Vec<Block> {
        if self.gaps.is_empty() {
            return Vec::new();
        }
        let note = "days that the history lacks are left out of tables and charts: nothing was made up for \
                    them.";
        vec![Note::new(Origin::Caution, note).into(), self.gaps_table().into()]
    }
}

fn rules_blocks(rules: &RuleCheck) -> Vec<Block> {
    let mut lines = vec![
        format!(
            "Over {} epochs, {} difficulties follow from their bits to the last digit shown, {} do not.",
            rules.epochs,
            rules.difficulties,
            rules.wrong_difficulties.len()
        ),
        format!(
            "{} rewards follow from their heights, {} do not.",
            rules.rewards,
            rules.wrong_rewards.len()
        ),
        format!(
            "{} changes of the target fit the time that their epoch took, {} do not; {} were bounded by the \
             rule, {} left it the easiest; of {} the times are estimated.",
            rules.within,
            rules.outside.len(),
            rules.bounded.len(),
            rules.easiest.len(),
            rules.untimed.len()
        ),
    ];
    if let (Some(least), Some(most)) = (rules.least_excess_s, rules.most_excess_s) {
        lines.push(format!(
            "From an epoch's last block to the next one's first: {least:.0} to {most:.0} s."
        ));
    }
    let wrong = rules.wrong_difficulties.iter().take(TOLD);
    lines.extend(wrong.map(|(height, shown, ours)| {
        format!("Block {height}: difficulty {shown} is shown, its bits say {ours}.")
    }));
    lines.extend(rules.outside.iter().take(TOLD).map(|it| {
        let (height, implied_s) = (it.height, it.implied_s);
        let blocks_s = it.between_first_blocks_s;
        format!("Block {height}: the change says {implied_s:.0} s, the blocks {blocks_s} s.")
    }));
    let rewards = rules.wrong_rewards.iter().take(TOLD);
    lines.extend(rewards.map(|height| format!("Block {height}: its reward is another one.")));
    let lines = lines.iter().map(|line| Text::from(line.chars().map(shown).collect::<String>()));
    vec![Block::List(lines.collect())]
}
