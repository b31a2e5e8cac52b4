//! One direction of a connection: what one side sends, and what the other says of it.

use std::collections::VecDeque;

use serde::Serialize;

use super::counts::Counts;
use super::headers::{ACK, FIN, Packet, RST, SYN};
use super::holes::{Hole, Holes, SendOrder, unwrap};

/// The shortest time-out of Linux, and of FreeBSD and Windows within a factor of two, ns. RFC 6298 asks for 1
/// s, but no system follows it.
const LEAST_RTO_NS: i64 = 200_000_000;
/// Where nothing is known of the round trip: RFC 6298, 2.1.
const FIRST_RTO_NS: i64 = 1_000_000_000;
/// A packet that is late by less than this has been overtaken; Wireshark's figure where it knows no round trip.
const LATE_NS: i64 = 3_000_000;
/// Packets whose acknowledgement is awaited.
const AWAITED: usize = 4096;
/// Retransmits whose first copy may still come.
const EARLIER: usize = 512;

/// Round trips from the point of capture to the receiver and back.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct RoundTrips {
    /// How many were seen.
    pub samples: u64,
    /// The shortest, s.
    pub min_s: Option<f64>,
    /// Mean, s.
    pub mean_s: Option<f64>,
    /// The longest, s.
    pub max_s: Option<f64>,
}

impl RoundTrips {
    /// One more, or those of another one.
    pub(crate) fn add(&mut self, other: &Self) {
        let Some(mean) = other.mean_s else { return };
        let (old, new) = (self.samples as f64, other.samples as f64);
        self.mean_s = Some((self.mean_s.unwrap_or(0.0) * old + mean * new) / (old + new));
        self.samples += other.samples;
        self.min_s = self.min_s.into_iter().chain(other.min_s).reduce(f64::min);
        self.max_s = self.max_s.into_iter().chain(other.max_s).reduce(f64::max);
    }
}

/// A packet that has not been acknowledged.
#[derive(Debug, Clone, Copy)]
struct Awaited {
    end: i64,
    sent_ns: i64,
    stamp: Option<u32>,
    /// When it was sent again, with which timestamp.
    again: Option<(i64, Option<u32>)>,
}

/// A retransmit that came before its first copy, if that comes at all.
#[derive(Debug, Clone, Copy)]
struct Earlier {
    from: i64,
    to: i64,
    order: SendOrder,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    Fast,
    TimeOut,
    Probe,
    Syn,
    Unclear,
}

/// The state of one direction.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    /// What this side sent.
    pub(crate) counts: Counts,
    /// Of its data.
    pub(crate) round_trips: RoundTrips,
    /// What this side takes, by its SYN.
    pub(crate) mss_option: Option<u16>,
    pub(crate) largest: u32,
    pub(crate) stamps: bool,
    /// Retransmits whose first copy was captured, too.
    pub(crate) seen_twice: u64,
    /// And those that filled a gap.
    pub(crate) filled: u64,
    /// Segments that are `reordered` if they were captured behind the place where they were reordered.
    late_segments: u64,
    started: bool,
    next: i64,
    holes: Holes,
    last_sent_ns: i64,
    window: Option<u16>,
    // What the other side says.
    acknowledged: Option<i64>,
    acknowledged_ns: i64,
    sacked: Option<i64>,
    duplicates: u64,
    awaited: VecDeque<Awaited>,
    earlier: VecDeque<Earlier>,
    smooth_ns: Option<(f64, f64)>,
    recovery: Option<(Why, i64)>,
    last_id: Option<u16>,
    ids_up: u32,
    ids_down: u32,
}

impl Flow {
    /// Is the other side's window known to be closed?
    pub(crate) fn window_is_closed(&self) -> bool {
        self.window == Some(0)
    }

    /// A packet of this side. `closed`: the other side has no room. `rtt_ns`: that of the handshake.
    /// `mss`: payload of a full segment.
    pub(crate) fn send(&mut self, packet: &Packet, closed: bool, rtt_ns: Option<i64>, mss: u32) {
        self.counts.packets += 1;
        self.largest = self.largest.max(packet.payload);
        self.counts.fins += u64::from(packet.has(FIN));
        self.counts.resets += u64::from(packet.has(RST));
        if packet.has(RST) {
            // Its number may be anything, and nothing follows it.
            return;
        }
        if packet.has(SYN) {
            self.mss_option = packet.options.mss;
        }
        self.stamps |= packet.options.stamp.is_some();
        let units =
            i64::from(packet.payload) + i64::from(packet.has(SYN)) + i64::from(packet.has(FIN));
        if !self.started {
            self.started = true;
            self.next = i64::from(packet.seq);
        }
        let seq = unwrap(packet.seq, self.next);
        let plain = !packet.has(SYN | FIN);
        let is_probe = packet.payload == 1 && closed && seq == self.next;
        if plain && (packet.payload <= 1 && seq == self.next - 1 || is_probe) {
            self.counts.keep_alives += 1;
            return;
        }
        if units == 0 {
            return;
        }
        let segments = u64::from(packet.payload.div_ceil(mss.max(1))).max(1);
        if packet.payload > 0 {
            self.counts.data_packets += 1;
            self.counts.data_segments += segments;
            self.counts.bytes_sent += u64::from(packet.payload);
        }
        self.data(packet, seq, seq + units, rtt_ns, mss);
        self.last_sent_ns = packet.time_ns;
    }

    fn data(&mut self, packet: &Packet, seq: i64, end: i64, rtt_ns: Option<i64>, mss: u32) {
        let payload = i64::from(packet.payload);
        let stamp = packet.options.stamp.map(|stamp| stamp.0);
        let before = self.next;
        let identified = self.identified(packet, seq == before);
        if seq > before {
            self.counts.gaps += 1;
            let order = SendOrder { stamp, id: packet.id };
            let hole = Hole { from: before, to: seq, opened_ns: packet.time_ns, order };
            self.counts.missed_bytes += self.holes.open(hole);
        }
        if end > before {
            self.await_(Awaited { end, sent_ns: packet.time_ns, stamp, again: None });
            self.next = end;
        }
        if seq >= before {
            self.counts.bytes += payload as u64;
            return;
        }
        // A part of it is not new.
        let old = end.min(before) - seq;
        let beyond = (end - before).max(0);
        let (filled, hole) = self.holes.fill(seq, seq + old);
        self.counts.bytes += (filled + beyond as u64).min(payload as u64);
        let old_payload = payload.min(old) as u64;
        let segments = old_payload.div_ceil(u64::from(mss.max(1))).max(1);
        let why = self.why(packet, seq, end, rtt_ns);
        let is_late = match hole {
            Some(hole) => filled == old as u64 && overtaken(&hole, packet, identified, rtt_ns),
            None => self.is_first_copy(seq, end, SendOrder { stamp, id: identified }),
        };
        if is_late && !packet.has(SYN) {
            self.counts.reordered_packets += 1;
            self.counts.reordered_bytes += old_payload;
            self.late_segments += segments;
            return;
        }
        if hole.is_some() {
            self.filled += 1;
            if self.earlier.len() == EARLIER {
                self.earlier.pop_front();
            }
            self.earlier.push_back(Earlier {
                from: seq,
                to: end,
                order: SendOrder { stamp, id: identified },
            });
        } else {
            self.seen_twice += 1;
        }
        self.counts.fin_segments += u64::from(packet.has(FIN) && packet.payload == 0);
        self.retransmit(seq, end, why, segments, old_payload);
        self.mark(seq, end, packet.time_ns, stamp);
    }

    /// Whether a retransmit that was captured before it but sent after it has brought all of it already, so
    /// that this is the first copy, come last. Without timestamps and identifications that grow, this can't be
    /// known.
    fn is_first_copy(&mut self, seq: i64, end: i64, order: SendOrder) -> bool {
        let is_it = |it: &Earlier| {
            it.from <= seq && end <= it.to && order.is_before(it.order) == Some(true)
        };
        let found = self.earlier.iter().position(is_it);
        found.and_then(|place| self.earlier.remove(place)).is_some()
    }

    fn retransmit(&mut self, seq: i64, end: i64, why: Why, segments: u64, bytes: u64) {
        let counts = &mut self.counts;
        counts.retransmitted_packets += 1;
        counts.retransmitted_segments += segments;
        counts.retransmitted_bytes += bytes;
        if self.acknowledged.is_some_and(|to| end <= to) {
            counts.needless_segments += segments;
        }
        let known = self.recovery.filter(|(_, point)| seq < *point);
        match why {
            Why::Syn => counts.syn_segments += segments,
            Why::TimeOut => counts.timeout_segments += segments,
            Why::Fast => counts.fast_segments += segments,
            Why::Probe => counts.probe_segments += segments,
            Why::Unclear => counts.unclear_segments += segments,
        }
        match (why, known) {
            // That of a retransmitted SYN is a time-out as well, each time.
            (Why::Syn, _) => counts.timeouts += 1,
            (Why::TimeOut, Some((Why::TimeOut, _))) | (Why::Fast, Some((Why::Fast, _))) => {}
            (Why::TimeOut, _) => self.recovery = Some((why, self.next)),
            (Why::Fast, _) => {
                counts.fast_recoveries += 1;
                self.recovery = Some((why, self.next));
            }
            _ => {}
        }
    }

    /// The packet's identification, if those of packets in order grow, as Linux's do within a connection.
    fn identified(&mut self, packet: &Packet, in_order: bool) -> Option<u16> {
        let id = packet.id?;
        if in_order && let Some(last) = self.last_id.replace(id) {
            match id.wrapping_sub(last).cast_signed() {
                1.. => self.ids_up += 1,
                _ => self.ids_down += 1,
            }
        }
        (self.ids_up >= 4 && self.ids_up > 8 * self.ids_down).then_some(id)
    }

    /// What made the sender send it again.
    fn why(&mut self, packet: &Packet, seq: i64, end: i64, rtt_ns: Option<i64>) -> Why {
        if packet.has(SYN) {
            return Why::Syn;
        }
        let quiet_since = self.last_sent_ns.max(self.acknowledged_ns);
        if packet.time_ns - quiet_since >= self.time_out(rtt_ns) {
            self.counts.timeouts += 1;
            self.recovery = None;
            return Why::TimeOut;
        }
        let known = self.recovery.filter(|(_, point)| seq < *point).map(|(why, _)| why);
        let is_requested = self.sacked.is_some_and(|sacked| sacked > seq) || self.duplicates >= 3;
        match known {
            Some(why) => why,
            None if is_requested => Why::Fast,
            None if end == self.next => Why::Probe,
            None => Why::Unclear,
        }
    }

    /// RFC 6298 with Linux's bound, by round trips as seen from here and that of the handshake.
    fn time_out(&self, rtt_ns: Option<i64>) -> i64 {
        let seen = self.smooth_ns.map(|(mean, deviation)| (mean + 4.0 * deviation) as i64);
        seen.into_iter().chain(rtt_ns).max().map_or(FIRST_RTO_NS, |ns| ns.max(LEAST_RTO_NS))
    }

    fn await_(&mut self, packet: Awaited) {
        if self.awaited.len() == AWAITED {
            self.awaited.pop_front();
        }
        self.awaited.push_back(packet);
    }

    fn mark(&mut self, seq: i64, end: i64, time_ns: i64, stamp: Option<u32>) {
        let from = self.awaited.partition_point(|packet| packet.end <= seq);
        for packet in self.awaited.range_mut(from..) {
            packet.again = Some((time_ns, stamp));
            if packet.end >= end {
                break;
            }
        }
    }

    /// What a packet of the other side says of this one's data. True if it repeats the acknowledgement before;
    /// and whether it reports a duplicate.
    pub(crate) fn answer(&mut self, packet: &Packet, same_window: bool) -> (bool, bool) {
        if !packet.has(ACK) || packet.has(RST) {
            return (false, false);
        }
        if !self.started {
            self.started = true;
            self.next = i64::from(packet.ack);
        }
        let ack = unwrap(packet.ack, self.acknowledged.unwrap_or(self.next));
        let reports = self.selective(packet, ack);
        let Some(before) = self.acknowledged.replace(ack) else {
            self.advance(packet, ack);
            return (false, reports);
        };
        if ack > before {
            self.advance(packet, ack);
            return (false, reports);
        }
        self.acknowledged = Some(before);
        let pure = packet.payload == 0 && !packet.has(SYN | FIN) && packet.window != 0;
        // RFC 5681, 2: without data, of the same number and window, and something is on its way.
        let repeats = pure && same_window && ack == before && self.next > ack;
        self.duplicates += u64::from(repeats);
        (repeats, reports)
    }

    fn advance(&mut self, packet: &Packet, ack: i64) {
        self.duplicates = 0;
        self.acknowledged_ns = packet.time_ns;
        self.counts.missed_bytes += self.holes.acknowledged(ack);
        if ack > self.next {
            self.counts.missed_bytes += (ack - self.next) as u64;
            self.next = ack;
        }
        self.sacked = self.sacked.filter(|sacked| *sacked > ack);
        self.recovery = self.recovery.filter(|(_, point)| ack < *point);
        let mut last = None;
        while let Some(awaited) = self.awaited.front().filter(|awaited| awaited.end <= ack) {
            last = Some(*awaited);
            self.awaited.pop_front();
        }
        let echo = packet.options.stamp.map(|stamp| stamp.1);
        let sent = last.and_then(|last| match (last.again, echo) {
            (None, _) => Some(last.sent_ns),
            // Which copy it answers is known from the timestamp, or not at all (RFC 7323, Karn).
            (Some((again, Some(stamp))), Some(echo)) if Some(stamp) != last.stamp => {
                Some(if echo == stamp { again } else { last.sent_ns })
            }
            _ => None,
        });
        if let Some(ns) = sent.map(|sent| packet.time_ns - sent).filter(|ns| *ns >= 0) {
            self.sample(ns as f64);
        }
    }

    fn sample(&mut self, ns: f64) {
        let s = Some(ns * 1e-9);
        self.round_trips.add(&RoundTrips { samples: 1, min_s: s, mean_s: s, max_s: s });
        self.smooth_ns = Some(match self.smooth_ns {
            None => (ns, ns / 2.0),
            Some((mean, deviation)) => {
                (0.875 * mean + 0.125 * ns, 0.75 * deviation + 0.25 * (mean - ns).abs())
            }
        });
    }

    /// Notes selective acknowledgements; true if they report a duplicate (RFC 2883, 4).
    fn selective(&mut self, packet: &Packet, ack: i64) -> bool {
        let blocks = &packet.options.sack[..packet.options.sacks];
        let places = |block: &(u32, u32)| (unwrap(block.0, ack), unwrap(block.1, ack));
        let Some(first) = blocks.first().map(places) else { return false };
        let within = blocks.get(1).map(places).is_some_and(|b| b.0 <= first.0 && first.1 <= b.1);
        let reports = first.1 <= ack || within;
        let top = blocks.iter().map(|block| places(block).1).max();
        self.sacked = self.sacked.into_iter().chain(top).max().filter(|sacked| *sacked > ack);
        reports
    }

    /// What this side's packet says as an answer.
    pub(crate) fn note_answer(&mut self, packet: &Packet, repeats: bool, reports: bool) {
        let counts = &mut self.counts;
        let pure = packet.payload == 0 && packet.has(ACK) && !packet.has(SYN | FIN | RST);
        counts.pure_acks += u64::from(pure);
        counts.duplicate_acks += u64::from(repeats);
        counts.sacks += u64::from(packet.options.sacks > 0);
        counts.dsacks += u64::from(reports);
        counts.zero_windows += u64::from(packet.window == 0 && !packet.has(SYN | FIN | RST));
        if !packet.has(RST) {
            self.window = Some(packet.window);
        }
    }

    pub(crate) fn same_window(&self, packet: &Packet) -> bool {
        self.window == Some(packet.window)
    }

    /// Before they leave, packets do not overtake each other: what is late was sent late.
    pub(crate) fn is_of_the_sender(&mut self) {
        let counts = &mut self.counts;
        counts.retransmitted_packets += counts.reordered_packets;
        counts.retransmitted_bytes += counts.reordered_bytes;
        counts.retransmitted_segments += self.late_segments;
        counts.unclear_segments += self.late_segments;
        counts.reordered_packets = 0;
        counts.reordered_bytes = 0;
        self.late_segments = 0;
    }
}

/// Was what fills a hole sent before what lies behind it? Its timestamp says so (RFC 7323); if that is as old,
/// its identification (Jaiswal et al., "Measurement and Classification of Out-of-Sequence Packets in a Tier-1 IP
/// Backbone", 2007); if it has none, how late it comes: it cannot have been sent again before a round trip has
/// passed, which is Wireshark's rule as well.
fn overtaken(hole: &Hole, packet: &Packet, id: Option<u16>, rtt_ns: Option<i64>) -> bool {
    let own = SendOrder { stamp: packet.options.stamp.map(|stamp| stamp.0), id };
    if let Some(is_before) = own.is_before(hole.order) {
        return is_before;
    }
    packet.time_ns - hole.opened_ns < rtt_ns.unwrap_or(LATE_NS)
}
