//! One direction of a link. Pure: frames and times in, frames and times out.

use std::collections::VecDeque;
use std::time::Duration;

use nightwatt_energy::time::Mono;
use serde::{Deserialize, Serialize};

/// What happens to frames on their way.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinkEmulation {
    /// Each frame leaves exactly this long after it arrived (or after it has passed the bottleneck).
    pub delay: Duration,
    /// The rate of the bottleneck; `None` where something else limits the rate.
    pub bits_per_second: Option<f64>,
    /// Bytes that may wait before the bottleneck; frames beyond that are dropped.
    pub queue: u64,
    /// The share that is lost at random.
    pub loss: f64,
    /// Of what is lost.
    pub seed: u64,
}

/// What has happened to frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Came in.
    pub frames: u64,
    /// Were lost at random.
    pub lost: u64,
    /// Found the queue full.
    pub dropped: u64,
    /// Have left.
    pub left: u64,
    /// What they were late by, together, in nanoseconds.
    pub late_ns: u64,
    /// What the latest was late by, in nanoseconds.
    pub latest_ns: u64,
}

/// Frames on their way.
#[derive(Debug)]
pub struct Line {
    way: LinkEmulation,
    /// The bottleneck works on what came so far until then.
    busy_until: Mono,
    chance: u64,
    waiting: VecDeque<(Mono, Vec<u8>)>,
    /// Buffers that are used again.
    spare: Vec<Vec<u8>>,
    counts: Counts,
}

impl Line {
    /// An empty one.
    pub fn new(way: LinkEmulation) -> Self {
        let (waiting, spare) = (VecDeque::new(), Vec::new());
        Self {
            way,
            busy_until: Mono(Duration::ZERO),
            chance: way.seed,
            waiting,
            spare,
            counts: Counts::default(),
        }
    }

    /// What has happened so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// A frame comes.
    pub fn offer(&mut self, now: Mono, frame: &[u8]) {
        self.counts.frames += 1;
        if self.way.loss > 0.0 && self.draw() < self.way.loss {
            self.counts.lost += 1;
            return;
        }
        let mut passed = now;
        if let Some(rate) = self.way.bits_per_second {
            let begins = self.busy_until.max(now);
            let waits = begins.since(now).as_secs_f64() * rate / 8.0;
            if waits + frame.len() as f64 > self.way.queue as f64 {
                self.counts.dropped += 1;
                return;
            }
            passed = begins + Duration::from_secs_f64(8.0 * frame.len() as f64 / rate);
            self.busy_until = passed;
        }
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(frame);
        self.waiting.push_back((passed + self.way.delay, buffer));
    }

    /// When the next one leaves.
    pub fn due(&self) -> Option<Mono> {
        self.waiting.front().map(|(due, _)| *due)
    }

    /// Hands the next frame that is due to `send`; returns false if no frame is due.
    pub fn depart(&mut self, now: Mono, send: impl FnOnce(&[u8])) -> bool {
        let Some((due, frame)) = self.waiting.pop_front_if(|(due, _)| *due <= now) else {
            return false;
        };
        let late = u64::try_from(now.since(due).as_nanos()).unwrap_or(u64::MAX);
        self.counts.left += 1;
        self.counts.late_ns += late;
        self.counts.latest_ns = self.counts.latest_ns.max(late);
        send(&frame);
        self.spare.push(frame);
        true
    }

    /// From 0 to 1: `SplitMix64` (Steele, Lea and Flood 2014).
    fn draw(&mut self) -> f64 {
        self.chance = self.chance.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.chance;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        (z >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAY: LinkEmulation = LinkEmulation {
        delay: Duration::ZERO,
        bits_per_second: None,
        queue: 0,
        loss: 0.0,
        seed: 1,
    };

    fn at(micros: u64) -> Mono {
        Mono(Duration::from_micros(micros))
    }

    #[test]
    fn each_frame_leaves_exactly_its_delay_after_it_came_and_in_order() {
        let mut line = Line::new(LinkEmulation { delay: Duration::from_millis(5), ..WAY });
        line.offer(at(0), b"one");
        line.offer(at(7), b"two");
        assert_eq!(line.due(), Some(at(5000)));
        assert!(!line.depart(at(4999), |_| panic!("too early")));
        assert!(line.depart(at(5000), |frame| assert_eq!(frame, b"one")));
        assert_eq!(line.due(), Some(at(5007)));
        assert!(line.depart(at(5010), |frame| assert_eq!(frame, b"two")));
        assert_eq!((line.due(), line.counts().latest_ns), (None, 3000));
    }

    #[test]
    fn a_bottleneck_spaces_frames_as_the_wire_would_and_drops_what_its_queue_cannot_hold() {
        // 1250 bytes at 10 Mbit/s take 1 ms.
        let way = LinkEmulation {
            bits_per_second: Some(10e6),
            queue: 2500,
            delay: Duration::from_millis(3),
            ..WAY
        };
        let mut line = Line::new(way);
        for _ in 0..3 {
            line.offer(at(0), &[0; 1250]);
        }
        let mut due = Vec::new();
        while let Some(next) = line.due() {
            due.push(next);
            line.depart(next, |_| ());
        }
        assert_eq!(due, [at(4000), at(5000)], "1 ms each, and then 3 ms");
        assert_eq!(line.counts().dropped, 1);
        line.offer(at(9000), &[0; 1250]);
        assert_eq!(line.due(), Some(at(13_000)), "it was idle meanwhile");
    }

    #[test]
    fn so_many_are_lost_as_are_to_be() {
        let mut line = Line::new(LinkEmulation { loss: 0.005, ..WAY });
        for _ in 0..1_000_000 {
            line.offer(at(0), &[]);
            line.depart(at(0), |_| ());
        }
        // Five standard deviations of a binomial: sqrt(1e6 x 0.005 x 0.995) = 70.5.
        let lost = line.counts().lost;
        assert!(lost.abs_diff(5000) < 353, "seed 1: {lost}");
        assert_eq!(line.counts().left + lost, 1_000_000);
    }
}
