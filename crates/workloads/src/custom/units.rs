//! Units that plans name.

use std::borrow::Cow;

use crate::error::ReadError;
use crate::number::{BITS, BYTES, DECIMAL, factor, time_unit};
use crate::outcome::unit;

type Unit = (Cow<'static, str>, f64);

/// The unit that figures have here, and what the given one is in it. A unit that isn't known here is the
/// plan's own, and stays.
pub(super) fn of_a_plan(name: &str) -> Result<Unit, ReadError> {
    // K is 1024 to some and 1000 to others.
    let base = name.strip_suffix("/s").unwrap_or(name);
    if let Some(rest) = base.strip_prefix('K').filter(|rest| BYTES.contains(rest)) {
        let why = format!("`{name}` may be 1000 or 1024: say `k{rest}` or `Ki{rest}`");
        return Err(ReadError::Plan { why });
    }
    Ok(find(name).unwrap_or_else(|| (Cow::Owned(name.to_owned()), 1.0)))
}

/// A unit that an output names; an error if it isn't known here.
pub(super) fn known(what: &str, name: &str) -> Result<Unit, ReadError> {
    let name = name.trim();
    let ambiguous = name.starts_with('K') && !name.starts_with("Ki");
    find(name).filter(|_| !ambiguous).ok_or_else(|| ReadError::unit(what, name))
}

fn find(name: &str) -> Option<Unit> {
    if let Ok(factor) = time_unit("", name) {
        return Some((Cow::Borrowed(unit::SECONDS), factor));
    }
    if ["%", "1", "1/s", "Hz"].contains(&name) {
        return Some((Cow::Owned(name.to_owned()), 1.0));
    }
    // `MFLOPS` is a rate by its last letter.
    if let Some(factor) = factor(name, &["FLOPS", "FLOP/s"], DECIMAL) {
        return Some((Cow::Borrowed(unit::FLOPS), factor));
    }
    let rate = name.strip_suffix("/s").or_else(|| name.strip_suffix("/sec"));
    let base = rate.unwrap_or(name);
    for (names, amount, per_second) in
        [(BYTES, unit::BYTES, unit::BYTES_PER_SECOND), (BITS, "bit", unit::BITS_PER_SECOND)]
    {
        if let Some(factor) = factor(base, names, DECIMAL) {
            return Some((Cow::Borrowed(if rate.is_some() { per_second } else { amount }), factor));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_that_are_known_are_brought_to_one() {
        for (name, base, factor) in [
            ("ms", "s", 1e-3),
            ("MiB/s", "B/s", 1_048_576.0),
            ("MB/s", "B/s", 1e6),
            ("Gbits/sec", "bit/s", 1e9),
            ("kB", "B", 1e3),
            ("GFLOPS", "FLOP/s", 1e9),
            ("%", "%", 1.0),
            ("frames/s", "frames/s", 1.0),
        ] {
            let (unit, found) = of_a_plan(name).unwrap();
            assert!(unit == base && (found - factor).abs() < factor * 1e-12, "{name}");
        }
        assert!(matches!(of_a_plan("KB/s"), Err(ReadError::Plan { .. })));
        assert!(matches!(known("it", "frames/s"), Err(ReadError::Unit { .. })));
        assert!(matches!(known("it", "KB"), Err(ReadError::Unit { .. })));
    }
}
