//! The comparison for a terminal.

use std::fmt::Write as _;

use nightwatt_energy::quantity::JOULES_PER_KWH;

use super::result::{Comparison, Configuration, Figure};

/// Columns of the longest bar.
const BAR: f64 = 40.0;

/// Delays of the distribution that are told, s.
const TOLD: [f64; 10] = [0.001, 0.005, 0.01, 0.05, 0.1, 1.0, 2.0, 5.0, 7.0, 10.0];

impl Comparison {
    /// The table, the energy as bars, and the distribution of delays.
    pub fn text(&self) -> String {
        let mut text = format!(
            "{} requests in {:.1} days, {:.1} % of crawlers ({}); policy `{}`\n\n",
            self.requests,
            self.span_s / 86_400.0,
            100.0 * self.crawler_share,
            self.rule(),
            self.policy,
        );
        self.table(&mut text);
        self.bars(&mut text);
        self.distribution(&mut text);
        let shares = (100.0 * self.cache_share(1), 100.0 * self.cache_share(2));
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "\nAnswered by the cache: {:.1} %, with an hour of grace {:.1} %. Delays and energy are \
             modelled; their log was another one.",
            shares.0, shares.1
        );
        text
    }

    /// Who counts as a crawler, in words.
    pub(super) const fn rule(&self) -> &'static str {
        match self.crawlers {
            super::Crawlers::Published => "by the nine published strings",
            super::Crawlers::Classifier => "by nightwatt's classifier",
        }
    }

    fn table(&self, text: &mut String) {
        line(text, "", self.configurations.iter().map(|it| it.name.to_owned()));
        for (name, cells) in self.rows() {
            line(text, name, cells.into_iter().map(Figure::text));
        }
        let percent = |share: f64| format!("{:.1} %", 100.0 * share);
        let each = self.configurations.iter();
        line(text, "wake-ups", each.clone().map(|it| it.wakeups.to_string()));
        line(text, "within 50 ms", each.clone().map(|it| percent(it.within_50ms_share)));
        line(text, "energy saved", each.map(|it| percent(it.saving)));
    }

    fn bars(&self, text: &mut String) {
        text.push_str("\nEnergy of server and proxy [kWh], modelled:\n");
        let most = self.configurations.iter().map(|it| it.energy_j).fold(0.0, f64::max);
        for it in &self.configurations {
            let bar = bar(BAR * it.energy_j / most.max(f64::MIN_POSITIVE));
            let _ = writeln!(text, "{:<18} {:>9.3} {bar}", it.name, it.energy_j / JOULES_PER_KWH);
        }
    }

    fn distribution(&self, text: &mut String) {
        text.push_str("\nShare of the answers within [%]:\n");
        line(text, "delay [s]", self.configurations.iter().map(|it| it.name.to_owned()));
        for delay_s in TOLD {
            let share = |it: &Configuration| {
                let at = it.delays.iter().find(|at| at.delay_s >= delay_s * (1.0 - 1e-9));
                at.map_or_else(String::new, |at| format!("{:.2}", 100.0 * at.share))
            };
            line(text, &delay_s.to_string(), self.configurations.iter().map(share));
        }
    }
}

fn line(text: &mut String, name: &str, cells: impl IntoIterator<Item = String>) {
    let _ = write!(text, "{name:<20}");
    for cell in cells {
        let _ = write!(text, " {cell:>17}");
    }
    text.push('\n');
}

/// Eighths of a column are told as well.
fn bar(columns: f64) -> String {
    const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    let whole = columns.max(0.0).floor();
    let part = EIGHTHS[((columns.max(0.0) - whole) * 8.0) as usize % 8];
    format!("{}{part}", "█".repeat(whole as usize)).trim_end().to_owned()
}
