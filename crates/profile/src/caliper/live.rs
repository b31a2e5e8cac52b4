//! What sections do now, while the program runs.

use std::time::Duration;

use nightwatt_energy::quantity::{Joules, Watts};
use nightwatt_energy::sections::{Tree, Usage};
use nightwatt_energy::time::Mono;
use nightwatt_energy::uncertainty::Accuracy;
use nightwatt_probes::Calls;
use nightwatt_report::{Table, figures};

use crate::cells::end_of;
use crate::text::{NAME, seconds};

/// Between two tables.
pub(super) const RENEWED_EVERY: Duration = Duration::from_secs(1);

/// What sections did since the last look, and since the beginning.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveReport {
    /// Since the beginning, s.
    pub elapsed_s: f64,
    /// Whose joules.
    pub channel: Option<LiveChannel>,
    /// Each section, in the order in which they were asked for.
    pub sections: Vec<LiveSection>,
}

/// The channel whose energy is shown.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveChannel {
    /// Its number among the channels of all meters.
    pub place: usize,
    /// Meter and channel.
    pub name: String,
    /// How far it may be off, at 95 %.
    pub accuracy: Accuracy,
}

/// One section.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveSection {
    /// Function, or first and last place.
    pub name: String,
    /// Calls that have ended so far.
    pub calls: u64,
    /// Calls that ended a second, since the last look.
    pub calls_per_s: f64,
    /// CPU time since the last look, of one CPU's: 2 is two of them.
    pub cpus: f64,
    /// Mean wall-clock time of those that ended since the last look, s.
    pub mean_s: Option<f64>,
    /// Power between the last two readings of the meter, W.
    pub watts: Option<f64>,
    /// Energy so far, J; none before the meter has told of any.
    pub joules: Option<f64>,
}

/// All that is seen at one look.
pub(super) struct LiveSnapshot<'a> {
    pub(super) now: Mono,
    pub(super) calls: Vec<Calls>,
    pub(super) tree: &'a Tree,
    pub(super) usage: &'a Usage,
    /// The same at the last reading of the meter.
    pub(super) told: &'a Usage,
    /// By node, of the channel that is shown.
    pub(super) joules: &'a [Joules],
    /// The time that these cover.
    pub(super) covered: Duration,
}

/// What was seen at the last look.
pub(super) struct Live {
    names: Vec<String>,
    channel: Option<LiveChannel>,
    begin: Mono,
    before: Mono,
    covered: Duration,
    sections: Vec<PreviousReport>,
}

#[derive(Clone, Copy, Default)]
struct PreviousReport {
    calls: u64,
    length: Duration,
    on_cpu: Duration,
    joules: f64,
    watts: Option<f64>,
}

impl Live {
    pub(super) fn new(names: Vec<String>, channel: Option<LiveChannel>, begin: Mono) -> Self {
        let sections = vec![PreviousReport::default(); names.len()];
        Self { names, channel, begin, before: begin, covered: Duration::ZERO, sections }
    }

    /// How many sections there are.
    pub(super) fn sections(&self) -> usize {
        self.names.len()
    }

    /// When the next table is due.
    pub(super) fn due(&self) -> Mono {
        self.before + RENEWED_EVERY
    }

    /// The table after a look.
    pub(super) fn report(&mut self, look: &LiveSnapshot<'_>) -> LiveReport {
        let elapsed = look.now.since(self.before).as_secs_f64().max(1e-9);
        let between = look.covered.saturating_sub(self.covered);
        let mut rows = Vec::new();
        for (number, (name, before)) in self.names.iter().zip(&mut self.sections).enumerate() {
            let Some(calls) = look.calls.get(number) else { continue };
            let on_cpu: Duration = look.tree.inclusive(number, &look.usage.nodes);
            let joules = look.tree.inclusive(number, look.joules).get();
            // Meters may speak less often than we do.
            if !between.is_zero() {
                before.watts = Some((joules - before.joules) / between.as_secs_f64());
                before.joules = joules;
            }
            let ended = calls.ended.saturating_sub(before.calls);
            let length = calls.length.saturating_sub(before.length).as_secs_f64();
            // What has run only since the last reading is in no joules yet.
            let told: Duration = look.tree.inclusive(number, &look.told.nodes);
            let is_told = self.channel.is_some()
                && !look.covered.is_zero()
                && (!told.is_zero() || on_cpu.is_zero());
            rows.push(LiveSection {
                name: name.clone(),
                calls: calls.ended,
                calls_per_s: ended as f64 / elapsed,
                cpus: on_cpu.saturating_sub(before.on_cpu).as_secs_f64() / elapsed,
                mean_s: (ended > 0).then(|| length / ended as f64),
                watts: before.watts.filter(|_| is_told),
                joules: is_told.then_some(joules),
            });
            (before.calls, before.length, before.on_cpu) = (calls.ended, calls.length, on_cpu);
        }
        (self.before, self.covered) = (look.now, look.covered);
        LiveReport {
            elapsed_s: look.now.since(self.begin).as_secs_f64(),
            channel: self.channel.clone(),
            sections: rows,
        }
    }
}

impl LiveReport {
    /// A row for each section.
    pub fn text(&self) -> String {
        let channel = self.channel.as_ref();
        let by = channel.map_or_else(String::new, |channel| format!(", by {}", channel.name));
        let accuracy = channel.map_or(Accuracy::relative(0.0), |channel| channel.accuracy);
        let elapsed = Duration::from_secs_f64(self.elapsed_s);
        let power = |it: f64| figures::rounded(it, Some(accuracy.at(Watts(it)).get()));
        let energy = |it: f64| figures::rounded(it, Some(accuracy.of(Joules(it), elapsed).get()));
        let dash = || "–".to_owned();
        let table = Table::of("", &self.sections)
            .text("section", |it| end_of(&it.name, NAME))
            .count("calls", |it| it.calls)
            .number("calls/s", "", 0, |it| it.calls_per_s)
            .number("on CPU", "%", 1, |it| 100.0 * it.cpus)
            .written("mean", "", |it| it.mean_s.map_or_else(dash, seconds))
            .written("power", "W", |it| it.watts.map_or_else(dash, power))
            .written("energy", "J", |it| it.joules.map_or_else(dash, energy));
        let table = Table::from(table).to_text();
        format!("\n Sections after {:.0} s{by}:\n\n{table}", self.elapsed_s)
    }
}

#[cfg(test)]
mod tests {
    use nightwatt_energy::sections::Node;

    use super::*;

    fn at(ms: u64) -> Mono {
        Mono(Duration::from_millis(ms))
    }

    #[test]
    fn a_look_tells_what_was_since_the_last_one_and_watts_between_readings() {
        let mut tree = Tree::default();
        // `outer`, and `inner` in it.
        tree.insert(1, Node { parent: 0, section: 0 });
        tree.insert(2, Node { parent: 1, section: 1 });
        let names = ["outer", "inner"].map(str::to_owned).to_vec();
        let channel = LiveChannel {
            place: 0,
            name: "plug/power".to_owned(),
            accuracy: Accuracy::relative(0.5),
        };
        let mut live = Live::new(names, Some(channel), at(1000));
        let mut told = Usage::default();
        let mut look = |now, ended, cpu: [u64; 3], joules: [f64; 3], covered| {
            let calls = Calls {
                ended,
                length: Duration::from_millis(10) * ended as u32,
                ..Calls::default()
            };
            let nodes = cpu.map(Duration::from_millis).to_vec();
            let usage = Usage { nodes, ..Usage::default() };
            if covered > 10 {
                told.clone_from(&usage);
            }
            live.report(&LiveSnapshot {
                now: at(now),
                calls: vec![calls.clone(), calls],
                tree: &tree,
                usage: &usage,
                told: &told,
                joules: &joules.map(Joules),
                covered: Duration::from_millis(covered),
            })
        };
        let report = look(1500, 10, [0, 100, 100], [0.0; 3], 0);
        let first = &report.sections[0];
        assert_eq!((first.watts, first.joules), (None, None), "no meter has told of any time yet");
        let report = look(1600, 10, [0, 100, 100], [0.0; 3], 10);
        let first = &report.sections[0];
        assert_eq!((first.watts, first.joules), (None, None), "nor of any in which it ran");
        look(2000, 50, [0, 200, 300], [0.0, 1.0, 2.0], 1000);
        // 100 more in 2 s; the inner one ran for 1 s of them, both for 3 s; a reading after 1 s.
        let report = look(4000, 150, [9, 2200, 1300], [0.0, 2.0, 5.0], 2000);
        let [outer, inner] = report.sections.as_slice() else { panic!("{report:?}") };
        assert_eq!((outer.calls, outer.calls_per_s, outer.mean_s), (150, 50.0, Some(0.01)));
        assert_eq!((outer.cpus, inner.cpus), (1.5, 0.5));
        assert_eq!((outer.watts, inner.watts), (Some(4.0), Some(3.0)));
        assert_eq!((outer.joules, inner.joules), (Some(7.0), Some(5.0)));
        // No call, no reading: the last power is the newest that is known.
        let report = look(5000, 150, [9, 2200, 1300], [0.0, 2.0, 5.0], 2000);
        let outer = &report.sections[0];
        assert_eq!((outer.calls_per_s, outer.mean_s, outer.watts), (0.0, None, Some(4.0)));
        let text = report.text();
        let row: Vec<&str> =
            text.lines().find(|it| it.contains(" outer  ")).unwrap().split_whitespace().collect();
        assert_eq!(
            row[row.len() - 2..],
            ["4.0", "7"],
            "by a meter that may be off by half: {text}"
        );
    }
}
