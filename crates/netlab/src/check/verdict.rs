//! Decides what is right about a link and what is not. Pure.
//!
//! - **Rate**: within 5 % of what is wanted, either way.
//! - **Round trip**: within 5 % of the extra delay, or half a millisecond if that is more: a machine may
//!   need that time to wake a process up twice.
//! - **Loss**: the packets are as many as lose 1,600 of them. The 99.9 % interval of the share that was
//!   seen (Wilson's) must reach into ± 5 % of what is wanted. A link that is right is so refused once in a
//!   thousand times; one that is off by a fifth is refused 98 times in a hundred. Where none are to be
//!   lost, none may be; one alone may be an accident, so as many are sent once more, and no other may be.

use std::time::Duration;

use serde::Serialize;

use crate::link::FULL_FRAME;
use crate::scenario::Scenario;

/// What may be off.
const SHARE: f64 = 0.05;

/// Seconds that two processes may take to be woken up.
const WAKING: f64 = 0.5e-3;

/// With this many losses their share is known to ± 2.5 % (one standard deviation).
const LOSSES: f64 = 1600.0;

/// Time for the packets that are counted.
const LONGEST: f64 = 5.0;

/// Number of packets for a link without loss.
const LEAST: u64 = 5000;

/// The normal quantile of a 99.9 % interval.
const Z: f64 = 3.2905;

/// Many cards count a frame with its checksum (4 bytes: e1000e), and with the tag of its VLAN (4 bytes) where
/// they take that off themselves. What cards join is longer by a packet's payload.
const LONGEST_FRAME: f64 = FULL_FRAME + 4.0 + 4.0;

/// Packets that were lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Loss {
    /// All of them.
    pub sent: u64,
    /// Those that did not come.
    pub lost: u64,
}

impl Loss {
    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { sent: self.sent + other.sent, lost: self.lost + other.lost }
    }

    /// The share that was lost.
    pub fn share(self) -> f64 {
        self.lost as f64 / (self.sent as f64).max(1.0)
    }

    /// Wilson's 99.9 % interval of the share that is lost.
    pub fn interval(self) -> (f64, f64) {
        let (n, p) = ((self.sent as f64).max(1.0), self.share());
        let squared = Z * Z / n;
        let middle = (p + squared / 2.0) / (1.0 + squared);
        let half = Z / (1.0 + squared) * (p * (1.0 - p) / n + squared / (4.0 * n)).sqrt();
        // Of none that were lost both are the same, but for what rounding leaves.
        ((middle - half).max(0.0), middle + half)
    }
}

/// The number of packets needed to measure a loss, if this many can be sent in a second.
pub(super) fn packets(loss: f64, per_second: f64) -> u64 {
    let most = (per_second * LONGEST) as u64;
    let wanted = if loss > 0.0 { (LOSSES / loss) as u64 } else { 0 };
    // If that takes too long, the measurement is less precise; the interval says how much.
    wanted.max(LEAST.min(most)).min(most.max(1))
}

/// What was found of a link, bit by bit.
#[derive(Debug)]
pub(crate) struct Verdict {
    wanted_rate: f64,
    wanted_loss: f64,
    wanted_delay: Duration,
    complaints: Vec<String>,
}

impl Verdict {
    /// Nothing so far.
    pub(crate) fn new(scenario: &Scenario) -> Self {
        Self {
            wanted_rate: scenario.bits_per_second,
            wanted_loss: scenario.loss,
            wanted_delay: scenario.delay,
            complaints: Vec::new(),
        }
    }

    /// What is not as it should be.
    pub(crate) fn complaints(self) -> Vec<String> {
        self.complaints
    }

    /// Enough, or too much: another try would find no less.
    pub(super) fn is_rate_settled(&self, found: f64) -> bool {
        found >= (1.0 - SHARE) * self.wanted_rate
    }

    fn is_rate(&self, found: f64) -> bool {
        (found - self.wanted_rate).abs() <= SHARE * self.wanted_rate
    }

    pub(super) fn rate(&mut self, direction: &str, found: f64) {
        if !self.is_rate(found) {
            self.complaints.push(format!(
                "{:.4} Mbit/s {direction}, and {} are wanted",
                found / 1e6,
                self.wanted_rate / 1e6
            ));
        }
    }

    /// Counts of bytes are those of the wire only where each packet is a frame of its own.
    pub(super) fn frames(&mut self, direction: &str, bytes: f64) {
        if bytes > LONGEST_FRAME {
            self.complaints.push(format!(
                "frames of {bytes:.0} bytes {direction}: a card that joins packets counts their headers once, so \
                 the rate is not known (`ethtool -K CARD tx-udp-segmentation off`)"
            ));
        }
    }

    /// Short enough, or too short: another try would find none that is longer.
    pub(super) fn is_round_trip_settled(&self, found: f64) -> bool {
        self.is_round_trip(found) || found < self.wanted_delay.as_secs_f64()
    }

    fn is_round_trip(&self, found: f64) -> bool {
        let wanted = self.wanted_delay.as_secs_f64();
        (found - wanted).abs() <= (SHARE * wanted).max(WAKING)
    }

    pub(super) fn round_trip(&mut self, found: Option<f64>) {
        let wanted = 1e3 * self.wanted_delay.as_secs_f64();
        match found.filter(|found| found.is_finite()) {
            Some(found) if self.is_round_trip(found) => {}
            Some(found) => self.complaints.push(format!(
                "round trips of {:.3} ms (the median), and {wanted} ms are wanted",
                1e3 * found
            )),
            None => self.complaints.push("nothing comes back".to_owned()),
        }
    }

    /// One was lost where none are to be, which may be an accident: then as many are sent once more.
    pub(super) fn is_stray(&self, found: Loss) -> bool {
        self.wanted_loss <= 0.0 && found.lost == 1
    }

    fn is_loss(&self, found: Loss) -> bool {
        if self.wanted_loss <= 0.0 {
            return found.lost <= 1;
        }
        let (low, high) = found.interval();
        low <= (1.0 + SHARE) * self.wanted_loss && high >= (1.0 - SHARE) * self.wanted_loss
    }

    /// Is the share known within 5 % of what is wanted? By the 95 % interval of a count, 1.96 of its square
    /// root; where none are to be lost, that is what is counted.
    pub(super) fn is_loss_known(&self, found: Loss) -> bool {
        let half = 1.96 * (found.lost as f64).sqrt() / (found.sent as f64).max(1.0);
        self.wanted_loss <= 0.0 || (found.lost > 0 && half <= SHARE * self.wanted_loss)
    }

    pub(super) fn loss(&mut self, direction: &str, found: Loss) {
        if !self.is_loss(found) {
            let (low, high) = found.interval();
            self.complaints.push(format!(
                "{} of {} packets lost {direction}: {:.3} % ({:.3} to {:.3} %), and {} % are wanted",
                found.lost,
                found.sent,
                100.0 * found.share(),
                100.0 * low,
                100.0 * high,
                100.0 * self.wanted_loss
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use nightwatt_energy::stats::distribution::binomial_upper_tail;

    use super::*;

    fn verdict(loss: f64, delay_ms: u64) -> Verdict {
        Verdict::new(&Scenario {
            name: "x".to_owned(),
            bits_per_second: 10e6,
            loss,
            delay: Duration::from_millis(delay_ms),
        })
    }

    #[test]
    fn rates_and_round_trips_pass_within_five_per_cent() {
        let it = verdict(0.0, 10);
        assert!(it.is_rate(9.51e6) && it.is_rate(10.49e6));
        assert!(!it.is_rate(9.4e6) && !it.is_rate(10.6e6) && !it.is_rate(100e6));
        assert!(!it.is_rate_settled(9.4e6) && it.is_rate_settled(9.51e6));
        assert!(it.is_rate_settled(100e6), "another try would find no less");
        assert!(it.is_round_trip(0.0104) && !it.is_round_trip(0.0094) && !it.is_round_trip(0.011));
        // A relay that delays each direction by the whole delay is found out, and one that does not delay.
        assert!(!it.is_round_trip(0.020) && !it.is_round_trip(0.0003));
        let none = verdict(0.0, 0);
        assert!(it.is_round_trip_settled(0.0003) && !it.is_round_trip_settled(0.011));
        assert!(none.is_round_trip(0.0003) && !none.is_round_trip(0.001));
    }

    #[test]
    fn a_loss_is_known_by_sixteen_hundred_losses_and_not_by_three() {
        let it = verdict(0.005, 0);
        // 1.96 / sqrt(1600) is 4.9 %.
        assert!(it.is_loss_known(Loss { sent: 320_000, lost: 1600 }));
        assert!(!it.is_loss_known(Loss { sent: 35_000, lost: 175 }));
        assert!(!it.is_loss_known(Loss { sent: 600, lost: 0 }), "nothing is known of nothing");
        assert!(verdict(0.0, 0).is_loss_known(Loss { sent: 5000, lost: 0 }));
    }

    #[test]
    fn frames_of_several_packets_are_told() {
        let mut it = verdict(0.0, 0);
        it.frames("there", 1514.0);
        // As an e1000e counts it, with the frame's checksum; and with a tag of a VLAN besides.
        it.frames("there", 1518.0);
        it.frames("there", 1522.0);
        assert!(it.complaints.is_empty(), "{:?}", it.complaints);
        // A hundredth of all is two packets with the headers of one.
        it.frames("back", 0.99 * 1514.0 + 0.01 * (1514.0 + 1472.0));
        // 44 packets of 1472 bytes with the headers of one.
        it.frames("there", 64_810.0);
        let said = it.complaints();
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[0].contains("1529 bytes back"), "{said:?}");
        assert!(said[1].contains("64810 bytes there"), "{said:?}");
    }

    #[test]
    fn wilsons_interval_ends_where_the_share_is_just_as_far_off_as_its_own_error() {
        // By Wilson's definition its ends are the p with |seen - p| = z sqrt(p (1 - p) / n).
        let (low, high) = Loss { sent: 40_000, lost: 200 }.interval();
        for p in [low, high] {
            let (off, error) = ((0.005 - p).abs(), (p * (1.0 - p) / 40_000.0_f64).sqrt());
            assert!((off / error - 3.2905).abs() < 1e-6, "{p}: {}", off / error);
        }
        assert!(low < 0.005 && 0.005 < high);
        let below = (1..10_000).find(|sent| Loss { sent: *sent, lost: 0 }.interval().0 < 0.0);
        assert_eq!(below, None, "no share is below 0");
    }

    #[test]
    fn a_right_loss_is_hardly_ever_refused_and_a_wrong_one_nearly_always() {
        let it = verdict(0.005, 0);
        let sent = packets(0.005, 80_000.0);
        assert_eq!(sent, 320_000);
        let passes = |lost| it.is_loss(Loss { sent, lost });
        let low = (0..5000).find(|lost| passes(*lost)).unwrap();
        let high = (low..5000).find(|lost| !passes(*lost)).unwrap();
        // The probability of so many losses is the binomial's own.
        let refused =
            |p| 1.0 - binomial_upper_tail(low, sent, p) + binomial_upper_tail(high, sent, p);
        assert!(refused(0.005) < 1e-3, "{}", refused(0.005));
        assert!(refused(0.006) > 0.98 && refused(0.004) > 0.98, "{}", refused(0.006));
        assert!(refused(0.0075) > 0.999_99);
    }

    #[test]
    fn where_none_are_to_be_lost_one_is_an_accident_and_two_are_none() {
        let (none, some) = (verdict(0.0, 0), verdict(0.005, 0));
        let of = |lost| Loss { sent: 5000, lost };
        assert!(!none.is_stray(of(0)) && none.is_stray(of(1)) && !none.is_stray(of(2)));
        assert!(!some.is_stray(of(1)), "losses are wanted there, and counted as they are");
        assert!(none.is_loss(of(0)) && none.is_loss(of(1).and(of(0))));
        assert!(!none.is_loss(of(2)) && !none.is_loss(of(1).and(of(1))));
        assert_eq!(of(1).and(of(0)), Loss { sent: 10_000, lost: 1 }, "all of them are told");
    }

    #[test]
    fn as_many_packets_are_counted_as_can_be_in_a_few_seconds() {
        assert_eq!(packets(0.0, 7000.0), 5000);
        assert_eq!(packets(0.0, 10.0), 50, "of a link so slow that it takes long");
        assert_eq!(packets(0.5, 80_000.0), 5000, "half of these is more than enough");
        assert_eq!(packets(0.0005, 7000.0), 35_000, "five seconds");
    }

    #[test]
    fn complaints_say_what_was_seen_and_what_is_wanted() {
        let mut it = verdict(0.005, 10);
        it.rate("there", 8e6);
        it.round_trip(Some(0.020));
        it.round_trip(None);
        it.loss("back", Loss { sent: 320_000, lost: 16_000 });
        it.loss("back", Loss { sent: 320_000, lost: 1600 });
        let said = it.complaints();
        assert_eq!(said.len(), 4, "{said:?}");
        assert!(said[0].contains("8.0000 Mbit/s there") && said[0].contains("10"), "{said:?}");
        assert!(said[1].contains("20.000 ms") && said[3].contains("16000 of 320000"), "{said:?}");
    }
}
