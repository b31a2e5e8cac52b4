//! The fuzz targets: functions that take any bytes, and panic if what they check does not hold.
//!
//! The tests of this crate replay the seeds in `fuzz/seeds`. The program in `fuzz/` runs the same
//! functions under libFuzzer. See `docs/decisions/0034-fuzz-targets-are-functions.md`.

pub mod targets;

use arbitrary::{Arbitrary, Unstructured};

pub use self::targets::TARGETS;

/// One fuzz target.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// The name of its module, and of its folder in `fuzz/seeds`.
    pub name: &'static str,
    /// Runs it on one input.
    pub run: fn(&[u8]),
}

/// Returns the target of that name.
pub fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// Reads a structured input in the way of `libfuzzer_sys::fuzz_target!`, or returns nothing if there
/// are too few bytes.
fn typed<'a, T: Arbitrary<'a>>(bytes: &'a [u8]) -> Option<T> {
    if bytes.len() < T::size_hint(0).0 {
        return None;
    }
    T::arbitrary_take_rest(Unstructured::new(bytes)).ok()
}

#[cfg(test)]
mod replay;
