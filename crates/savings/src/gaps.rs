//! Gaps between requests, and what sleeping in them with perfect knowledge would use.

use std::time::Duration;

use nightwatt_energy::time::Mono;
use nightwatt_policy::scenario::Scenario;
use serde::{Deserialize, Serialize};

/// Thresholds of the ideal saving, 0 to this many seconds.
pub(crate) const THRESHOLDS: usize = 60;

/// Bands of the histogram: gaps of no measurable length, then by half octaves from 1 ms up.
const BANDS: usize = 96;

/// The gaps of one sequence of requests, given in the order of time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gaps {
    last: Option<Mono>,
    requests: u64,
    lengths: GapLengths,
}

/// Gaps by length. All sums are whole numbers, so parts add up to the whole in any order and any grouping.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "StoredLengths", into = "StoredLengths")]
pub(crate) struct GapLengths {
    bands: [Band; BANDS],
    /// Gaps by whole seconds; what is longer than the largest threshold counts as that.
    by_second: [Band; THRESHOLDS + 1],
    longest: Duration,
}

/// The form in which they are stored.
#[derive(Serialize, Deserialize)]
struct StoredLengths {
    bands: Vec<Band>,
    by_second: Vec<Band>,
    longest: Duration,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Band {
    gaps: u64,
    time: Duration,
}

impl Band {
    fn add(&mut self, other: Self) {
        self.gaps += other.gaps;
        self.time = self.time.saturating_add(other.time);
    }
}

impl Default for GapLengths {
    fn default() -> Self {
        Self {
            bands: [Band::default(); BANDS],
            by_second: [Band::default(); THRESHOLDS + 1],
            longest: Duration::ZERO,
        }
    }
}

impl From<GapLengths> for StoredLengths {
    fn from(lengths: GapLengths) -> Self {
        let (bands, by_second) = (lengths.bands.to_vec(), lengths.by_second.to_vec());
        Self { bands, by_second, longest: lengths.longest }
    }
}

impl TryFrom<StoredLengths> for GapLengths {
    type Error = String;

    fn try_from(stored: StoredLengths) -> Result<Self, String> {
        let wrong =
            |_| format!("{BANDS} bands of gaps and {} of seconds are needed", THRESHOLDS + 1);
        Ok(Self {
            bands: stored.bands.try_into().map_err(wrong)?,
            by_second: stored.by_second.try_into().map_err(wrong)?,
            longest: stored.longest,
        })
    }
}

/// What there is to know of the gaps of one sequence.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GapFigures {
    /// Requests of the sequence.
    pub requests: u64,
    /// Gaps: one less.
    pub gaps: u64,
    /// Mean, s.
    pub mean_s: f64,
    /// Median, s: upper bound of its band, 41 % above the truth at most.
    pub p50_s: f64,
    /// 90th percentile, s; likewise.
    pub p90_s: f64,
    /// 99th percentile, s; likewise.
    pub p99_s: f64,
    /// Longest, s.
    pub longest_s: f64,
    /// Gaps by length. Bands without gaps are left out.
    pub histogram: Vec<GapBand>,
}

/// A band of the histogram.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct GapBand {
    /// Its shortest gap, s.
    pub from_s: f64,
    /// Where the next band begins, s.
    pub to_s: f64,
    /// Gaps in it.
    pub gaps: u64,
    /// Their sum, s.
    pub seconds: f64,
}

impl GapLengths {
    /// Adds this many gaps of one length.
    pub(crate) fn add(&mut self, gap: Duration, gaps: u64) {
        let time = gap.saturating_mul(u32::try_from(gaps).unwrap_or(u32::MAX));
        let band = Band { gaps, time };
        self.bands[band_of(gap)].add(band);
        let second = usize::try_from(gap.as_secs()).unwrap_or(usize::MAX);
        self.by_second[second.min(THRESHOLDS)].add(band);
        self.longest = self.longest.max(gap);
    }

    /// Adds another's gaps.
    pub(crate) fn merge(&mut self, other: &Self) {
        let bands = self.bands.iter_mut().chain(&mut self.by_second);
        for (band, more) in bands.zip(other.bands.iter().chain(&other.by_second)) {
            band.add(*more);
        }
        self.longest = self.longest.max(other.longest);
    }

    /// What there is to know of them.
    pub(crate) fn figures(&self, requests: u64) -> GapFigures {
        let gaps: u64 = self.bands.iter().map(|band| band.gaps).sum();
        let total: Duration = self.bands.iter().map(|band| band.time).sum();
        let longest_s = self.longest.as_secs_f64();
        let quantile = |share: f64| {
            let rank = (share * gaps as f64).ceil() as u64;
            let mut seen = 0;
            let band = self.bands.iter().position(|band| {
                seen += band.gaps;
                seen >= rank.max(1)
            });
            band.map_or(0.0, |band| begin_of(band + 1).min(longest_s))
        };
        let bands = self.bands.iter().enumerate().filter(|(_, band)| band.gaps > 0);
        GapFigures {
            requests,
            gaps,
            mean_s: if gaps == 0 { 0.0 } else { total.as_secs_f64() / gaps as f64 },
            p50_s: quantile(0.5),
            p90_s: quantile(0.9),
            p99_s: quantile(0.99),
            longest_s,
            histogram: bands
                .map(|(index, band)| GapBand {
                    from_s: begin_of(index),
                    to_s: begin_of(index + 1),
                    gaps: band.gaps,
                    seconds: band.time.as_secs_f64(),
                })
                .collect(),
        }
    }
}

impl Gaps {
    pub(crate) fn request(&mut self, at: Mono) {
        self.requests += 1;
        if let Some(last) = self.last.replace(at) {
            self.lengths.add(at.since(last), 1);
        }
    }

    pub(crate) fn figures(&self) -> GapFigures {
        self.lengths.figures(self.requests)
    }

    /// Energy with perfect knowledge, of a threshold up to [`THRESHOLDS`]: asleep in every gap at or above it,
    /// `E = T_on P_on + T_sleep P_off + N E_switch`, and the proxy all the time. None without gaps.
    pub(crate) fn ideal(&self, scenario: &Scenario, threshold: usize) -> Option<f64> {
        if self.requests < 2 {
            return None;
        }
        let states = scenario.power_states();
        let by_second = &self.lengths.by_second;
        let time =
            |bands: &[Band]| bands.iter().map(|band| band.time).sum::<Duration>().as_secs_f64();
        let all = time(by_second);
        let slept = &by_second[threshold..];
        let asleep = time(slept);
        let sleeps: u64 = slept.iter().map(|band| band.gaps).sum();
        let server = (all - asleep) * states.on.get()
            + asleep * states.off.get()
            + sleeps as f64 * states.switch.get();
        Some(server + all * scenario.proxy.power_w)
    }
}

/// The band of a gap. Logs know no less than milliseconds.
fn band_of(gap: Duration) -> usize {
    let millis = gap.as_secs().saturating_mul(1000).saturating_add(gap.subsec_millis().into());
    let Some(octave) = millis.checked_ilog2() else { return 0 };
    // The upper half begins at 2^octave x the root of 2.
    let upper_half = u128::from(millis).pow(2) >= 2 << (2 * octave);
    (2 * octave as usize + usize::from(upper_half) + 1).min(BANDS - 1)
}

fn begin_of(band: usize) -> f64 {
    if band == 0 { 0.0 } else { 0.001 * 2_f64.powf((band - 1) as f64 / 2.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gaps(seconds: &[u64]) -> Gaps {
        let mut gaps = Gaps::default();
        let mut at = 0;
        gaps.request(Mono::ZERO);
        for gap in seconds {
            at += gap;
            gaps.request(Mono::from_secs(at));
        }
        gaps
    }

    #[test]
    fn the_ideal_of_three_gaps_by_hand() {
        // Gaps of 0, 5 and 100 s. From 5 s on: asleep 105 s in two sleeps.
        let gaps = gaps(&[0, 5, 100]);
        let ideal = |threshold| gaps.ideal(&Scenario::default(), threshold).unwrap();
        let proxy = 105.0 * 5.0;
        assert!((ideal(5) - (105.0 * 1.6 + 2.0 * 170.7 + proxy)).abs() < 1e-6);
        assert!((ideal(6) - (5.0 * 43.3 + 100.0 * 1.6 + 170.7 + proxy)).abs() < 1e-6);
        assert!((ideal(60) - ideal(6)).abs() < 1e-6);
        assert!((ideal(0) - (ideal(5) + 170.7)).abs() < 1e-6, "a sleep of no length costs");
    }

    #[test]
    fn the_histogram_holds_every_gap_in_its_band() {
        let lengths = [0, 1, 1, 3, 59, 86_400, 63_072_000];
        let figures = gaps(&lengths).figures();
        assert_eq!((figures.requests, figures.gaps), (8, 7));
        assert_eq!(figures.histogram.iter().map(|band| band.gaps).sum::<u64>(), 7);
        for length in lengths {
            let length = length as f64;
            let holds = |band: &&GapBand| (band.from_s..band.to_s).contains(&length);
            assert_eq!(figures.histogram.iter().filter(holds).count(), 1, "{length}");
        }
        assert!((figures.longest_s - 63_072_000.0).abs() < 1e-6);
        assert!((3.0..4.3).contains(&figures.p50_s), "{}", figures.p50_s);
    }

    #[test]
    fn every_gap_lies_between_the_ends_of_its_band() {
        for millis in (1..4_000_000_u64).step_by(37).chain((0..60).map(|n| 1 << n)) {
            let band = band_of(Duration::from_millis(millis));
            let seconds = Duration::from_millis(millis).as_secs_f64() * (1.0 + 1e-12);
            assert!(begin_of(band) <= seconds, "{millis} ms in {band}");
            assert!(seconds < begin_of(band + 1) || band == BANDS - 1, "{millis} ms in {band}");
        }
        assert_eq!(band_of(Duration::from_micros(999)), 0);
        assert_eq!(band_of(Duration::MAX), BANDS - 1);
    }

    #[test]
    fn no_request_and_one_have_no_gap() {
        assert_eq!(Gaps::default().figures().gaps, 0);
        assert_eq!(gaps(&[]).figures().histogram, []);
        for none in [Gaps::default(), gaps(&[])] {
            assert_eq!(none.ideal(&Scenario::default(), 5), None, "not 0 J");
        }
        assert!(gaps(&[0]).ideal(&Scenario::default(), 5).is_some());
    }
}
