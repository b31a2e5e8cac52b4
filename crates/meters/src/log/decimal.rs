//! Numbers as files write them: with points or commas before fractions, and perhaps the other between
//! thousands.

use std::borrow::Cow;

use serde::Deserialize;

/// How a file writes decimal fractions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Decimal {
    /// `20.5`.
    Point,
    /// `20,5`.
    Comma,
}

impl Decimal {
    const fn other(self) -> Self {
        match self {
            Self::Point => Self::Comma,
            Self::Comma => Self::Point,
        }
    }

    const fn sign(self) -> char {
        match self {
            Self::Point => '.',
            Self::Comma => ',',
        }
    }
}

/// A finite number, and its decimal separator if that can be determined. `1,234.5` and `1.234,5` are
/// understood; so is `1.234` in a file with decimal commas (`known`).
pub fn number(text: &str, known: Option<Decimal>) -> Option<(f64, Option<Decimal>)> {
    let text = text.trim();
    let find = |sign| text.bytes().rposition(|byte| byte == sign);
    let (point, comma) = (find(b'.'), find(b','));
    if let Some(known) = known
        && let Some(whole) = whole_in_groups(text, known.other().sign())
    {
        return Some((whole, Some(known)));
    }
    let (plain, seen) = match (point, comma) {
        (None, None) => (Cow::Borrowed(text), None),
        (Some(_), None) => (Cow::Borrowed(text), Some(Decimal::Point)),
        (None, Some(_)) => (Cow::Owned(text.replace(',', ".")), Some(Decimal::Comma)),
        (Some(point), Some(comma)) if point > comma => {
            (Cow::Owned(without_groups(text, ',', '.')?), Some(Decimal::Point))
        }
        _ => (Cow::Owned(without_groups(text, '.', ',')?.replace(',', ".")), Some(Decimal::Comma)),
    };
    if known.is_some() && seen.is_some() && known != seen {
        return None;
    }
    let number = plain.parse().ok().filter(|number: &f64| number.is_finite())?;
    Some((number, seen))
}

/// `1,234,567` with commas between thousands.
fn whole_in_groups(text: &str, group: char) -> Option<f64> {
    are_groups(text, group).then(|| text.replace(group, "").parse().ok()).flatten()
}

/// Whether a text is a whole number with separators before each three digits, and with one of them at
/// least.
fn are_groups(text: &str, group: char) -> bool {
    // Hardly any number has them.
    if !text.contains(group) {
        return false;
    }
    let mut groups = text.trim_start_matches(['-', '+']).split(group);
    let first = groups.next().unwrap_or_default();
    (1..=3).contains(&first.len())
        && !first.starts_with('0')
        && is_digits(first)
        && groups.all(|group| group.len() == 3 && is_digits(group))
}

/// `1,234,567.8` without the commas, which must stand before three digits each.
fn without_groups(text: &str, group: char, decimal: char) -> Option<String> {
    let (whole, fraction) = text.split_once(decimal)?;
    let mut groups = whole.split(group);
    let first = groups.next()?.trim_start_matches(['-', '+']);
    let fits = (1..=3).contains(&first.len())
        && is_digits(first)
        && groups.all(|group| group.len() == 3 && is_digits(group))
        && is_digits(fraction);
    fits.then(|| text.replace(group, ""))
}

fn is_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

/// What the cells of a file show of how it writes fractions.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is seen by itself")]
pub struct Shown {
    /// Cells that can only be read in one way.
    point: bool,
    comma: bool,
    /// Cells as `1.234` and `1,234`: with three digits behind their only separator.
    maybe_point: Option<String>,
    maybe_comma: Option<String>,
    /// Whole numbers below 1000, and others.
    has_small: bool,
    has_large: bool,
}

impl Shown {
    /// Takes in a cell.
    pub fn take(&mut self, cell: &str) {
        let cell = cell.trim();
        if number(cell, None).is_none() && !are_groups(cell, '.') && !are_groups(cell, ',') {
            return;
        }
        let [points, commas] = ['.', ','].map(|sign| cell.matches(sign).count());
        let last = cell.rfind(['.', ',']).map(|at| &cell[at..=at]);
        match (points, commas) {
            (0, 0) if cell.len() <= 3 => self.has_small = true,
            (0, 0) => self.has_large = true,
            (0, 1) if are_groups(cell, ',') => {
                self.maybe_comma.get_or_insert_with(|| cell.to_owned());
            }
            (1, 0) if are_groups(cell, '.') => {
                self.maybe_point.get_or_insert_with(|| cell.to_owned());
            }
            // Between thousands, as several of them are.
            (0, 2..) => self.point = true,
            (2.., 0) => self.comma = true,
            _ if last == Some(".") => self.point = true,
            _ => self.comma = true,
        }
    }

    /// How the file writes fractions; none where it has none, or both. A cell that can be read in two
    /// ways is an error, if nothing else shows which is meant.
    pub fn decimal(&self, delimiter: char) -> Result<Option<Decimal>, &str> {
        match (self.point, self.comma) {
            (true, true) => return Ok(None),
            (true, false) => return Ok(Some(Decimal::Point)),
            (false, true) => return Ok(Some(Decimal::Comma)),
            (false, false) => {}
        }
        // Who separates thousands does so in all numbers from 1000 on, and below writes none.
        let may_be_groups = !self.has_large;
        match (&self.maybe_point, &self.maybe_comma) {
            (Some(cell), Some(_)) => Err(cell.as_str()),
            (None, None) => Ok(None),
            (Some(cell), None) if may_be_groups && self.has_small && delimiter == ';' => {
                Err(cell.as_str())
            }
            (Some(_), None) => Ok(Some(Decimal::Point)),
            // Where fractions have commas, cells stand between semicolons.
            (None, Some(cell)) if may_be_groups && (self.has_small || delimiter != ';') => {
                Err(cell.as_str())
            }
            (None, Some(_)) => Ok(Some(Decimal::Comma)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POINT: Option<Decimal> = Some(Decimal::Point);
    const COMMA: Option<Decimal> = Some(Decimal::Comma);

    #[test]
    fn numbers_have_points_or_commas_and_never_both_in_one_file() {
        for (text, known, expected) in [
            ("20", COMMA, Some((20.0, None))),
            ("20,5", None, Some((20.5, COMMA))),
            ("20.5", None, Some((20.5, POINT))),
            ("20.5", COMMA, None),
            ("1,234.5", None, Some((1234.5, POINT))),
            ("1.234,5", COMMA, Some((1234.5, COMMA))),
            ("1,23,4.5", None, None),
            ("1,234,567", None, None),
            ("nan", None, None),
            ("1,234,567", POINT, Some((1_234_567.0, POINT))),
            ("1.234", COMMA, Some((1234.0, COMMA))),
            ("1,234", POINT, Some((1234.0, POINT))),
            ("0,234", POINT, None),
        ] {
            assert_eq!(number(text, known), expected, "{text}");
        }
    }

    #[test]
    fn a_file_shows_how_it_writes_fractions() {
        let decimal = |cells: &[&str], delimiter| {
            let mut shown = Shown::default();
            for cell in cells {
                shown.take(cell);
            }
            shown.decimal(delimiter).map_err(str::to_owned)
        };
        for (cells, delimiter, expected) in [
            // Thousands before the first fraction.
            (&["1.234", "987,5"][..], ';', Ok(COMMA)),
            (&["1,234", "987.5"], ',', Ok(POINT)),
            (&["1.234.567", "987"], ';', Ok(COMMA)),
            (&["0,125", "1,234"], ';', Ok(COMMA)),
            // Three digits of fraction in each.
            (&["61.238", "7.250"], ',', Ok(POINT)),
            (&["61.238", "7.250"], ';', Ok(POINT)),
            (&["61,238", "7,250"], ';', Ok(COMMA)),
            (&["61,238", "1250"], ';', Ok(COMMA)),
            (&["61", "7"], ';', Ok(None)),
            (&["61.5", "7,5"], ';', Ok(None)),
            // 1,234 watts or 1.234 watts?
            (&["1.234", "987"], ';', Err("1.234")),
            (&["1,234", "987"], ';', Err("1,234")),
            (&["1,234", "1,301"], ',', Err("1,234")),
            (&["1.234", "1,301"], ';', Err("1.234")),
            (&["unavailable", "-"], ';', Ok(None)),
        ] {
            assert_eq!(decimal(cells, delimiter), expected.map_err(str::to_owned), "{cells:?}");
        }
    }
}
