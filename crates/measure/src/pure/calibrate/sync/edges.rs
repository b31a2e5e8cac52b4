//! Edges of a noisy analogue channel.

use super::SyncError;

/// Bins of the histogram that the levels are found from.
const BINS: usize = 256;

/// Two thresholds: the line counts as high once it has reached the upper one, and as low once it has
/// reached the lower one. Noise in between toggles nothing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hysteresis {
    /// Lower threshold, in the unit of the channel.
    pub low: f64,
    /// Upper threshold.
    pub high: f64,
}

impl Hysteresis {
    /// From the two levels of the line: thresholds at a quarter of the way from the middle to either.
    pub const fn between(low_level: f64, high_level: f64) -> Self {
        let (middle, quarter) = (0.5 * (low_level + high_level), 0.125 * (high_level - low_level));
        Self { low: middle - quarter, high: middle + quarter }
    }

    /// Finds the two levels in a log that fits into memory; see [`LevelHistogram::hysteresis`].
    pub fn of(levels: &[f64]) -> Result<Self, SyncError> {
        let mut range = LevelRange::default();
        for &level in levels {
            range.push(level);
        }
        let mut histogram = range.histogram()?;
        for &level in levels {
            histogram.push(level);
        }
        histogram.hysteresis()
    }

    /// The two levels that it lies between.
    pub fn levels(&self) -> (f64, f64) {
        let half = 2.0 * (self.high - self.low);
        (self.middle() - half, self.middle() + half)
    }

    fn middle(&self) -> f64 {
        0.5 * (self.low + self.high)
    }
}

/// Smallest and largest level of a log: the first of two passes to its [`Hysteresis`], for logs larger
/// than memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LevelRange {
    least: f64,
    most: f64,
}

impl Default for LevelRange {
    fn default() -> Self {
        Self { least: f64::INFINITY, most: f64::NEG_INFINITY }
    }
}

impl LevelRange {
    /// Takes a level; ignores one that is not finite.
    pub const fn push(&mut self, level: f64) {
        if level.is_finite() {
            self.least = self.least.min(level);
            self.most = self.most.max(level);
        }
    }

    /// Begins the second pass; an error if all levels are the same.
    pub fn histogram(&self) -> Result<LevelHistogram, SyncError> {
        let span = self.most - self.least;
        if span > 0.0 && span.is_finite() {
            Ok(LevelHistogram { least: self.least, span, bins: vec![Bin::default(); BINS] })
        } else {
            Err(SyncError::Flat { span: 0.0 })
        }
    }
}

/// How often each level comes: the second pass.
#[derive(Debug, Clone)]
pub struct LevelHistogram {
    least: f64,
    span: f64,
    bins: Vec<Bin>,
}

impl LevelHistogram {
    /// Takes a level of those that the range was made of.
    pub fn push(&mut self, level: f64) {
        if level.is_finite() {
            let bin = ((level - self.least) / self.span * BINS as f64) as usize;
            self.bins[bin.min(BINS - 1)].add(level - self.least);
        }
    }

    /// The two levels of the line: the split of the histogram into two classes that differ most
    /// (N. Otsu, *A threshold selection method from gray-level histograms*, IEEE Trans. SMC, 1979).
    ///
    /// A channel whose classes lie within five of their standard deviations (halves of one bell
    /// curve lie within 2.7) has no two levels.
    pub fn hysteresis(&self) -> Result<Hysteresis, SyncError> {
        let flat = SyncError::Flat { span: self.span };
        let all = self.bins.iter().fold(Bin::default(), Bin::plus);
        let mut below = Bin::default();
        let mut best: Option<(f64, Bin, Bin)> = None;
        for bin in &self.bins[..BINS - 1] {
            below = below.plus(bin);
            let above = all.minus(&below);
            if below.count == 0.0 || above.count == 0.0 {
                continue;
            }
            let apart = below.count * above.count * (above.mean() - below.mean()).powi(2);
            if best.is_none_or(|(most, ..)| apart > most) {
                best = Some((apart, below, above));
            }
        }
        let Some((_, below, above)) = best else { return Err(flat) };
        let variance = (below.scatter() + above.scatter()) / all.count;
        let (low, high) = (below.mean(), above.mean());
        if high - low < 5.0 * variance.max(0.0).sqrt() {
            return Err(flat);
        }
        Ok(Hysteresis::between(self.least + low, self.least + high))
    }
}

/// Sums over some levels.
#[derive(Debug, Clone, Copy, Default)]
struct Bin {
    count: f64,
    sum: f64,
    squares: f64,
}

impl Bin {
    fn add(&mut self, level: f64) {
        self.count += 1.0;
        self.sum += level;
        self.squares += level * level;
    }

    fn plus(self, other: &Self) -> Self {
        let (count, sum) = (self.count + other.count, self.sum + other.sum);
        Self { count, sum, squares: self.squares + other.squares }
    }

    fn minus(self, other: &Self) -> Self {
        let (count, sum) = (self.count - other.count, self.sum - other.sum);
        Self { count, sum, squares: self.squares - other.squares }
    }

    fn mean(&self) -> f64 {
        self.sum / self.count
    }

    /// Sum of squared differences from the mean.
    fn scatter(&self) -> f64 {
        self.squares - self.sum * self.mean()
    }
}

/// A toggle as the DAQ saw it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Edge {
    /// Where the line crossed the middle between its levels, in samples, interpolated; a toggle
    /// between two samples thus lies half-way between them.
    pub position: f64,
    /// Up or down.
    pub rising: bool,
}

/// Finds edges sample by sample, for logs larger than memory.
#[derive(Debug, Clone)]
pub struct EdgeDetector {
    hysteresis: Hysteresis,
    /// Unknown until a sample lies beyond a threshold: the first level is no edge.
    high: Option<bool>,
    next: u64,
    previous: f64,
    crossing: f64,
}

impl EdgeDetector {
    /// Before the first sample.
    pub const fn new(hysteresis: Hysteresis) -> Self {
        Self { hysteresis, high: None, next: 0, previous: f64::NAN, crossing: 0.0 }
    }

    /// Takes the next sample. One that is not finite counts, and says nothing.
    pub fn push(&mut self, level: f64) -> Option<Edge> {
        let index = self.next as f64;
        self.next += 1;
        if !level.is_finite() {
            self.previous = f64::NAN;
            return None;
        }
        let middle = self.hysteresis.middle();
        if self.previous.is_nan() {
            self.crossing = index - 0.5;
        } else if (self.previous < middle) != (level < middle) {
            self.crossing = index - (level - middle) / (level - self.previous);
        }
        self.previous = level;
        let high = if level >= self.hysteresis.high {
            true
        } else if level <= self.hysteresis.low {
            false
        } else {
            return None;
        };
        let toggled = self.high.is_some_and(|before| before != high);
        self.high = Some(high);
        toggled.then_some(Edge { position: self.crossing, rising: high })
    }
}

/// All edges of a channel.
pub fn find_edges(levels: &[f64], hysteresis: Hysteresis) -> Vec<Edge> {
    let mut detector = EdgeDetector::new(hysteresis);
    levels.iter().filter_map(|&level| detector.push(level)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges(levels: &[f64]) -> Vec<(f64, bool)> {
        let hysteresis = Hysteresis::between(0.0, 4.0);
        find_edges(levels, hysteresis).iter().map(|edge| (edge.position, edge.rising)).collect()
    }

    #[test]
    fn the_first_level_is_no_edge_high_or_low() {
        assert_eq!(edges(&[4.0, 4.0, 4.0]), []);
        assert_eq!(edges(&[0.0, 0.0, 0.0]), []);
        // Nor one in between, from which the line goes to a level.
        assert_eq!(edges(&[2.0, 2.0, 4.0, 4.0]), []);
    }

    #[test]
    fn a_toggle_lies_half_way_between_samples_and_a_slope_where_it_crosses() {
        assert_eq!(edges(&[0.0, 0.0, 4.0, 4.0, 0.0]), [(1.5, true), (3.5, false)]);
        assert_eq!(edges(&[0.0, 0.5, 1.5, 3.5, 4.0]), [(2.25, true)]);
    }

    #[test]
    fn noise_between_the_thresholds_toggles_nothing() {
        assert_eq!(edges(&[0.0, 2.2, 1.8, 2.3, 0.0, 2.4, 1.0]), []);
        // Up for good at the last crossing: between 1.8 and 3.8 a tenth of the way.
        assert_eq!(edges(&[0.0, 2.2, 1.8, 3.8]), [(2.1, true)]);
    }

    #[test]
    fn samples_that_are_missing_keep_their_place() {
        let found = edges(&[0.0, f64::NAN, f64::NAN, 4.0, 4.0, 0.0]);
        assert_eq!(found, [(2.5, true), (4.5, false)]);
    }

    #[test]
    fn levels_are_found_though_one_is_rare() {
        let mut levels = vec![0.2; 990];
        levels.extend([3.2; 10]);
        let found = Hysteresis::of(&levels).unwrap();
        assert!((found.middle() - 1.7).abs() < 1e-9, "{found:?}");
        assert!((found.high - found.low - 0.75).abs() < 1e-9);
    }

    #[test]
    fn a_line_that_never_toggles_is_flat() {
        assert_eq!(Hysteresis::of(&[1.0; 100]), Err(SyncError::Flat { span: 0.0 }));
        assert!(Hysteresis::of(&[]).is_err());
        // A triangle-shaped noise, the sum of two evenly spread figures.
        let noise = |i: u32| f64::from(i % 17) + f64::from(i % 19);
        let levels: Vec<f64> = (0..17 * 19).map(noise).collect();
        assert!(matches!(Hysteresis::of(&levels), Err(SyncError::Flat { .. })));
    }
}
