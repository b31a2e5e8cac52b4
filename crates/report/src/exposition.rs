//! The text format of Prometheus, version 0.0.4.

use std::fmt::{Display, Write};

use nightwatt_energy::display;

/// What kind of metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// Only grows, until the proxy restarts.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts by size.
    Histogram,
}

impl MetricKind {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// A metric: all its samples have these labels, in this order.
#[derive(Debug, Clone, Copy)]
pub struct Family {
    /// Its name, with the unit.
    pub name: &'static str,
    /// What kind of metric.
    pub kind: MetricKind,
    /// Names of the labels.
    pub labels: &'static [&'static str],
    /// What it means: one sentence, in `docs/metrics.md` too.
    pub help: &'static str,
}

/// What is being written.
#[derive(Debug, Default)]
pub struct Exposition(String);

/// The samples of one family.
pub struct Samples<'a> {
    family: &'a Family,
    text: &'a mut String,
}

impl Exposition {
    /// Writes a family with its samples.
    pub fn family(&mut self, family: Family, samples: impl FnOnce(&mut Samples<'_>)) {
        let Family { name, kind, help, .. } = family;
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {}", kind.as_str());
        samples(&mut Samples { family: &family, text: &mut self.0 });
    }

    /// A family with a single sample.
    pub fn single(&mut self, family: Family, value: impl Display) {
        self.family(family, |samples| samples.add(&[], value));
    }

    /// The page.
    pub fn into_text(self) -> String {
        self.0
    }
}

impl Samples<'_> {
    /// One sample, with the values of the family's labels. Figures must be finite.
    pub fn add(&mut self, labels: &[&str], value: impl Display) {
        self.line("", labels, None, value);
    }

    /// A state set: 1 for the value that holds, 0 for all others. The state is the last label.
    pub fn states<'s>(
        &mut self,
        labels: &[&'s str],
        all: impl IntoIterator<Item = &'s str>,
        holds: &str,
    ) {
        for state in all {
            let labels: Vec<&str> = labels.iter().copied().chain([state]).collect();
            self.add(&labels, u8::from(state == holds));
        }
    }

    /// A histogram: upper bounds in seconds with the counts between them, the count beyond the last
    /// one, and the sum.
    pub fn histogram(&mut self, labels: &[&str], histogram: &Counts) {
        let mut below = 0;
        for (bound, count) in &histogram.buckets {
            below += count;
            self.line("_bucket", labels, Some(&bound.to_string()), below);
        }
        let all = below + histogram.beyond;
        self.line("_bucket", labels, Some("+Inf"), all);
        self.line("_sum", labels, None, histogram.sum);
        self.line("_count", labels, None, all);
    }

    fn line(&mut self, suffix: &str, labels: &[&str], le: Option<&str>, value: impl Display) {
        let Family { name, labels: names, .. } = self.family;
        debug_assert_eq!(names.len(), labels.len(), "labels of {name}");
        let _ = write!(self.text, "{name}{suffix}");
        let pairs =
            names.iter().copied().zip(labels.iter().copied()).chain(le.map(|le| ("le", le)));
        for (index, (name, value)) in pairs.enumerate() {
            let open = if index == 0 { '{' } else { ',' };
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            // People look at the page in terminals, too.
            let value = value.replace(display::steers, "\u{fffd}");
            let _ = write!(self.text, "{open}{name}=\"{value}\"");
        }
        let close = if names.is_empty() && le.is_none() { "" } else { "}" };
        let _ = writeln!(self.text, "{close} {value}");
    }
}

/// What a histogram holds.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Counts {
    /// Upper bounds and the counts between them.
    pub buckets: Vec<(f64, u64)>,
    /// How many lie beyond the last bound.
    pub beyond: u64,
    /// Sum of all values.
    pub sum: f64,
}

impl Counts {
    /// Both together; their bounds are the same.
    #[must_use]
    pub fn plus(mut self, other: Self) -> Self {
        for ((_, count), (_, more)) in self.buckets.iter_mut().zip(other.buckets) {
            *count += more;
        }
        self.beyond += other.beyond;
        self.sum += other.sum;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_as_prometheus_specifies_it() {
        let mut page = Exposition::default();
        let requests = Family {
            name: "requests_total",
            kind: MetricKind::Counter,
            labels: &["site", "answer"],
            help: "Requests.\nA second \\ line",
        };
        page.family(requests, |samples| samples.add(&["a\"b\\c\nd", "cache"], 7));
        let up = Family { name: "up", kind: MetricKind::Gauge, labels: &[], help: "Up." };
        page.single(up, 0.5);
        let state =
            Family { name: "state", kind: MetricKind::Gauge, labels: &["is"], help: "State." };
        page.family(state, |samples| samples.states(&[], ["on", "off"], "off"));
        let counts = Counts { buckets: vec![(0.1, 2), (1.0, 0), (5.0, 3)], beyond: 1, sum: 12.25 };
        let delay =
            Family { name: "d_seconds", kind: MetricKind::Histogram, labels: &["a"], help: "D." };
        page.family(delay, |samples| samples.histogram(&["x"], &counts));
        // Written by hand, by https://prometheus.io/docs/instrumenting/exposition_formats/.
        let expected = r#"# HELP requests_total Requests.\nA second \\ line
# TYPE requests_total counter
requests_total{site="a\"b\\c\nd",answer="cache"} 7
# HELP up Up.
# TYPE up gauge
up 0.5
# HELP state State.
# TYPE state gauge
state{is="on"} 0
state{is="off"} 1
# HELP d_seconds D.
# TYPE d_seconds histogram
d_seconds_bucket{a="x",le="0.1"} 2
d_seconds_bucket{a="x",le="1"} 2
d_seconds_bucket{a="x",le="5"} 5
d_seconds_bucket{a="x",le="+Inf"} 6
d_seconds_sum{a="x"} 12.25
d_seconds_count{a="x"} 6
"#;
        assert_eq!(page.into_text(), expected);
    }
}
