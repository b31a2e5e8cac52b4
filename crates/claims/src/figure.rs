//! Published figures with ours beside them.

use std::ops::RangeInclusive;

use nightwatt_report::{Table, grouped};
use serde::Serialize;

/// What comes of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Within the tolerance.
    Agrees,
    /// Outside of it.
    Differs,
    /// Nothing that could be compared: not here, or not at all.
    NotCheckable,
}

impl Verdict {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Agrees, Self::Differs, Self::NotCheckable];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Agrees => "agrees",
            Self::Differs => "differs",
            Self::NotCheckable => "not checkable",
        }
    }

    pub(crate) const fn of(agrees: bool) -> Self {
        if agrees { Self::Agrees } else { Self::Differs }
    }
}

/// One figure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// Of what.
    pub what: String,
    /// Ours.
    pub ours: f64,
    /// Theirs, from and to; nothing where none was printed. Without an upper bound `to` is infinite,
    /// which JSON has as `null`.
    pub published: Option<(f64, f64)>,
    /// What agrees with it, from and to: theirs with the tolerance, which was written down beforehand.
    pub accepted: Option<(f64, f64)>,
    /// Unit of both.
    pub unit: &'static str,
    /// Does ours lie within? Nothing where none was printed.
    pub agrees: Option<bool>,
    /// Ours and theirs with all their digits, where these are compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digits: Option<(String, String)>,
}

impl Figure {
    /// Ours beside a published one; the tolerance is a share of it.
    pub(crate) fn beside(
        what: impl Into<String>,
        ours: f64,
        published: RangeInclusive<f64>,
        tolerance: f64,
        unit: &'static str,
    ) -> Self {
        let (from, to) = (published.start(), published.end());
        let accepted = from * (1.0 - tolerance)..=to * (1.0 + tolerance);
        Self::accepting(what, ours, published, accepted, unit)
    }

    /// Ours beside a published one, in whose own unit the tolerance is.
    pub(crate) fn within(
        what: impl Into<String>,
        ours: f64,
        published: RangeInclusive<f64>,
        within: f64,
        unit: &'static str,
    ) -> Self {
        let accepted = published.start() - within..=published.end() + within;
        Self::accepting(what, ours, published, accepted, unit)
    }

    /// Ours beside a published one, with all that agrees with it.
    pub(crate) fn accepting(
        what: impl Into<String>,
        ours: f64,
        published: RangeInclusive<f64>,
        accepted: RangeInclusive<f64>,
        unit: &'static str,
    ) -> Self {
        let agrees = Some(accepted.contains(&ours));
        let (published, accepted) = (Some(published.into_inner()), Some(accepted.into_inner()));
        let what = what.into();
        Self { what, ours, published, accepted, unit, agrees, digits: None }
    }

    /// Ours beside a published one, digit by digit.
    pub(crate) fn digit_by_digit(
        what: impl Into<String>,
        ours: String,
        published: &str,
        unit: &'static str,
    ) -> Self {
        let number = |text: &str| text.parse().unwrap_or(f64::NAN);
        let (value, theirs) = (number(&ours), number(published));
        let agrees = Some(ours == published);
        let digits = Some((ours, published.to_owned()));
        let published = Some((theirs, theirs));
        let accepted = published;
        Self { what: what.into(), ours: value, published, accepted, unit, agrees, digits }
    }

    /// Ours alone, for the picture.
    pub(crate) fn alone(what: impl Into<String>, ours: f64, unit: &'static str) -> Self {
        let (published, accepted, agrees, digits) = (None, None, None, None);
        Self { what: what.into(), ours, published, accepted, unit, agrees, digits }
    }

    /// Ours beside theirs.
    pub(crate) fn table(figures: &[Self]) -> Table {
        Table::of("", figures)
            .text("figure", Self::what_in_words)
            .written("ours", "", Self::ours_in_words)
            .text("published (accepted)", |it| it.published_and_accepted().unwrap_or_default())
            .text("verdict", |it| it.agrees.map_or("", |agrees| Verdict::of(agrees).as_str()))
            .into()
    }

    /// What it is; with the unit, if ours is too long for one.
    fn what_in_words(&self) -> String {
        match &self.digits {
            Some(_) => format!("{} [{}]", self.what, self.unit),
            None => self.what.clone(),
        }
    }

    /// Ours with its unit, and as many digits as count; what is counted has none behind the point.
    fn ours_in_words(&self) -> String {
        let ours = match &self.digits {
            Some((ours, _)) => ours.clone(),
            None if ["", "servers"].contains(&self.unit) && self.ours.fract() == 0.0 => {
                grouped(self.ours, 0)
            }
            None => shown(self.ours),
        };
        let has_unit = !self.unit.is_empty() && self.digits.is_none();
        if has_unit { format!("{ours} {}", self.unit) } else { ours }
    }

    /// Theirs, and behind it in parentheses what agrees with it.
    fn published_and_accepted(&self) -> Option<String> {
        let accepted = self.accepted_in_words().map(|it| format!(" ({it})"));
        Some(self.published_in_words()? + &accepted.unwrap_or_default())
    }

    /// Theirs as it was printed, with no more digits than that.
    fn published_in_words(&self) -> Option<String> {
        if let Some((_, published)) = &self.digits {
            return Some(published.clone());
        }
        self.published.map(|(from, to)| span(from, to))
    }

    /// What agrees with it, where that is more than it says itself.
    fn accepted_in_words(&self) -> Option<String> {
        if self.digits.is_some() {
            return Some("every digit".to_owned());
        }
        let accepted = self.accepted.filter(|it| Some(*it) != self.published)?;
        // Of "up to so much" only the upper end means anything.
        let is_bound = self.published.is_some_and(|(from, to)| from == 0.0 && to > 0.0);
        let least = if is_bound { 0.0 } else { brief(accepted.0) };
        Some(span(least, brief(accepted.1)))
    }
}

/// One figure, or from one to another.
fn span(from: f64, to: f64) -> String {
    let (low, high) = (as_written(from), as_written(to));
    match () {
        () if to.is_infinite() => format!("{low} or more"),
        () if low == high => low,
        // Nothing of what is measured is below 0.
        () if from == 0.0 => format!("{high} or less"),
        () => format!("{low} to {high}"),
    }
}

/// All the digits that a number was written with.
fn as_written(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        return grouped(value, 0);
    }
    value.to_string()
}

/// Five digits that count: a bound of two roundings has no end of them.
fn brief(value: f64) -> f64 {
    let size = value.abs();
    if size == 0.0 || !size.is_finite() || size >= 1e5 {
        return value;
    }
    let scale = 10_f64.powi(4 - size.log10().floor() as i32);
    let text = format!("{:.12}", (value * scale).round() / scale);
    text.parse().unwrap_or(value)
}

/// Two digits behind the point, one of what is large, three that count of what is below 1.
pub(crate) fn shown(value: f64) -> String {
    let size = value.abs();
    if size > 0.0 && size < 1.0 {
        let decimals = (2.0 - size.log10().floor()).clamp(2.0, 12.0) as usize;
        return format!("{value:.decimals$}");
    }
    if size >= 100.0 && value.fract() == 0.0 {
        return grouped(value, 0);
    }
    let digits = if size >= 100.0 { 1 } else { 2 };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(it: &Figure) -> [String; 2] {
        [it.ours_in_words(), it.published_and_accepted().unwrap_or_default()]
    }

    #[test]
    fn theirs_has_the_digits_that_were_printed_and_no_more() {
        let it = |from, to| Figure::within("it", 1.0, from..=to, 0.0, "W");
        for (from, to, text, agrees) in [
            (0.31, 0.31, "0.31", false),
            (17.3, 17.3, "17.3", false),
            (0.1, 10.0, "0.1 to 10", true),
            (0.0, 60.0, "60 or less", true),
            (1.0, f64::INFINITY, "1 or more", true),
            (165_603.0, 165_603.0, "165,603", false),
        ] {
            assert_eq!(words(&it(from, to)), ["1.00 W", text]);
            assert_eq!(it(from, to).agrees, Some(agrees), "{text}");
        }
    }

    #[test]
    fn what_agrees_is_told_so_that_a_verdict_can_be_made_again() {
        // By hand: 60 to 70 within 5 is 55 to 75, and no share of 70.
        let it = Figure::within("saved", 55.5, 60.0..=70.0, 5.0, "%");
        assert_eq!(words(&it), ["55.50 %", "60 to 70 (55 to 75)"]);
        assert_eq!((it.accepted, it.agrees), (Some((55.0, 75.0)), Some(true)));
        let it = Figure::within("saved", 54.9, 60.0..=70.0, 5.0, "%");
        assert_eq!(it.agrees, Some(false));
        // 4.09 + 0.005 is no double: its digits are no reader's business.
        let it = Figure::within("pause", 4.0935, 4.09..=4.09, 0.005, "s");
        assert_eq!(words(&it), ["4.09 s", "4.09 (4.085 to 4.095)"]);
        let it = Figure::within("days", 30.6, 0.0..=0.0, 1.5, "days");
        assert_eq!(words(&it), ["30.60 days", "0 (-1.5 to 1.5)"]);
        let it = Figure::within("delay", 6.0, 0.0..=9.0, 5.0, "ms");
        assert_eq!(words(&it), ["6.00 ms", "9 or less (14 or less)"]);
        let it = Figure::beside("power", 275.6, 275.0..=275.0, 0.01, "W");
        assert_eq!(words(&it), ["275.6 W", "275 (272.25 to 277.75)"]);
        let it = Figure::digit_by_digit("time", "7.25e3".to_owned(), "7.25e3", "s");
        assert_eq!(words(&it), ["7.25e3", "7.25e3 (every digit)"]);
        assert_eq!(it.what_in_words(), "time [s]");
    }

    #[test]
    fn what_is_counted_has_no_digits_behind_the_point_and_nothing_no_unit() {
        let text = |count, unit| Figure::alone("it", count, unit).ours_in_words();
        assert_eq!([text(1.0, ""), text(0.0, "")], ["1", "0"]);
        assert_eq!([text(10.0, "servers"), text(10.0, "s")], ["10 servers", "10.00 s"]);
    }
}
