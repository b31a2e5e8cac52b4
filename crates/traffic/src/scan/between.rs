//! A part of all time.

use nightwatt_energy::time::Wall;

/// A part of all time: requests outside are counted, and not given to the consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Between {
    /// The first moment of it.
    pub from: Wall,
    /// The first moment after it.
    pub until: Wall,
}

impl Default for Between {
    /// All time.
    fn default() -> Self {
        Self { from: Wall(i64::MIN), until: Wall(i64::MAX) }
    }
}

impl Between {
    /// Whether a moment is in it.
    pub const fn has(self, at: Wall) -> bool {
        self.from.0 <= at.0 && at.0 < self.until.0
    }
}
