//! What the kernel says of a connection (`TCP_INFO`), as far as this kernel says it.
//!
//! The structure has grown over the years, and its length says how far a kernel's goes: what lies
//! beyond is unknown, and so are values that stand for "none yet". Unknown is never 0.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

/// One figure of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
#[expect(missing_docs, reason = "their names, units and meanings stand in the table below")]
pub enum Figure {
    RetransmittedSegments,
    RetransmittedBytes,
    BytesSent,
    BytesAcked,
    BytesReceived,
    SegmentsOut,
    SegmentsIn,
    DataSegmentsOut,
    DataSegmentsIn,
    Delivered,
    DeliveredCe,
    DsackDuplicates,
    ReorderingSeen,
    OutOfOrder,
    Timeouts,
    BusyUs,
    ReceiveWindowLimitedUs,
    SendBufferLimitedUs,
    RttUs,
    RttVarianceUs,
    MinRttUs,
    ReceiverRttUs,
    RtoUs,
    CwndSegments,
    SsthreshSegments,
    Reordering,
    Lost,
    Unacked,
    SendMss,
    ReceiveMss,
    PathMtu,
    DeliveryRate,
    DeliveryRateAppLimited,
    PacingRate,
}

/// How figures of several connections go together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sort {
    /// They add up.
    Counter,
    /// They are a state at the end of each.
    Level,
}

/// Where a figure is, and what it is called.
struct Spec {
    figure: Figure,
    name: &'static str,
    sort: Sort,
    /// Within `struct tcp_info` (`linux/tcp.h`).
    offset: usize,
    size: usize,
    /// These values stand for an unknown figure.
    none: &'static [u64],
}

const fn spec(
    figure: Figure,
    name: &'static str,
    sort: Sort,
    offset: usize,
    size: usize,
    none: &'static [u64],
) -> Spec {
    Spec { figure, name, sort, offset, size, none }
}

use Figure as F;
use Sort::{Counter as C, Level as L};

/// Figures that there are.
pub const FIGURES: usize = 34;

const NO_32: u64 = u32::MAX as u64;
/// `TCP_INFINITE_SSTHRESH`: slow start has not ended.
const NO_SSTHRESH: u64 = 0x7fff_ffff;

const SPECS: [Spec; FIGURES] = [
    spec(F::RetransmittedSegments, "retransmitted_segments", C, 100, 4, &[]),
    spec(F::RetransmittedBytes, "retransmitted_bytes", C, 208, 8, &[]),
    spec(F::BytesSent, "bytes_sent", C, 200, 8, &[]),
    spec(F::BytesAcked, "bytes_acked", C, 120, 8, &[]),
    spec(F::BytesReceived, "bytes_received", C, 128, 8, &[]),
    spec(F::SegmentsOut, "segments_out", C, 136, 4, &[]),
    spec(F::SegmentsIn, "segments_in", C, 140, 4, &[]),
    spec(F::DataSegmentsOut, "data_segments_out", C, 156, 4, &[]),
    spec(F::DataSegmentsIn, "data_segments_in", C, 152, 4, &[]),
    spec(F::Delivered, "delivered", C, 192, 4, &[]),
    spec(F::DeliveredCe, "delivered_ce", C, 196, 4, &[]),
    spec(F::DsackDuplicates, "dsack_duplicates", C, 216, 4, &[]),
    spec(F::ReorderingSeen, "reordering_seen", C, 220, 4, &[]),
    spec(F::OutOfOrder, "out_of_order", C, 224, 4, &[]),
    spec(F::Timeouts, "timeouts", C, 240, 2, &[]),
    spec(F::BusyUs, "busy_us", C, 168, 8, &[]),
    spec(F::ReceiveWindowLimitedUs, "receive_window_limited_us", C, 176, 8, &[]),
    spec(F::SendBufferLimitedUs, "send_buffer_limited_us", C, 184, 8, &[]),
    spec(F::RttUs, "rtt_us", L, 68, 4, &[0]),
    spec(F::RttVarianceUs, "rtt_variance_us", L, 72, 4, &[]),
    spec(F::MinRttUs, "min_rtt_us", L, 148, 4, &[NO_32]),
    spec(F::ReceiverRttUs, "receiver_rtt_us", L, 92, 4, &[0]),
    spec(F::RtoUs, "rto_us", L, 8, 4, &[]),
    spec(F::CwndSegments, "cwnd_segments", L, 80, 4, &[]),
    spec(F::SsthreshSegments, "ssthresh_segments", L, 76, 4, &[NO_SSTHRESH, NO_32]),
    spec(F::Reordering, "reordering", L, 88, 4, &[]),
    spec(F::Lost, "lost", L, 32, 4, &[]),
    spec(F::Unacked, "unacked", L, 24, 4, &[]),
    spec(F::SendMss, "send_mss", L, 16, 4, &[0]),
    spec(F::ReceiveMss, "receive_mss", L, 20, 4, &[0]),
    spec(F::PathMtu, "path_mtu", L, 60, 4, &[0]),
    spec(F::DeliveryRate, "delivery_rate_bytes_s", L, 160, 8, &[0]),
    spec(F::DeliveryRateAppLimited, "delivery_rate_app_limited", C, 7, 1, &[]),
    spec(F::PacingRate, "pacing_rate_bytes_s", L, 104, 8, &[u64::MAX, NO_32]),
];

const UNKNOWN: u64 = u64::MAX;

/// What the kernel said of one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpInfo([u64; FIGURES]);

impl Default for TcpInfo {
    /// Nothing is known.
    fn default() -> Self {
        Self([UNKNOWN; FIGURES])
    }
}

impl TcpInfo {
    /// Bytes of it on the wire.
    pub const BYTES: usize = FIGURES * 8;

    /// From what the kernel wrote: `struct tcp_info`, as far as this kernel's goes.
    pub fn from_kernel(written: &[u8]) -> Self {
        let mut info = Self::default();
        for spec in &SPECS {
            let Some(bytes) = written.get(spec.offset..spec.offset + spec.size) else { continue };
            let value = match *bytes {
                // The only one that is a bit: the first of a byte that it shares.
                [a] if cfg!(target_endian = "big") => u64::from(a >> 7),
                [a] => u64::from(a & 1),
                [a, b] => u64::from(u16::from_ne_bytes([a, b])),
                [a, b, c, d] => u64::from(u32::from_ne_bytes([a, b, c, d])),
                _ => bytes.try_into().map_or(UNKNOWN, u64::from_ne_bytes),
            };
            if !spec.none.contains(&value) {
                info.0[spec.figure as usize] = value;
            }
        }
        // A kernel without a sample of the round trip has no deviation of it either.
        if info.get(F::RttUs).is_none() {
            info.0[F::RttVarianceUs as usize] = UNKNOWN;
        }
        // In kernels without a rate to limit, the bit has no meaning.
        if info.get(F::DeliveryRate).is_none() {
            info.0[F::DeliveryRateAppLimited as usize] = UNKNOWN;
        }
        info
    }

    /// One figure, if it is known.
    pub const fn get(&self, figure: Figure) -> Option<u64> {
        match self.0[figure as usize] {
            UNKNOWN => None,
            value => Some(value),
        }
    }

    /// With one figure set by hand.
    #[must_use]
    pub const fn with(mut self, figure: Figure, value: u64) -> Self {
        self.0[figure as usize] = value;
        self
    }

    /// All figures with their names.
    pub fn figures(&self) -> impl Iterator<Item = (&'static str, Option<u64>)> + '_ {
        SPECS.iter().map(|spec| (spec.name, self.get(spec.figure)))
    }

    pub(crate) fn to_wire(self, bytes: &mut [u8]) {
        for (slot, value) in bytes.chunks_exact_mut(8).zip(self.0) {
            slot.copy_from_slice(&value.to_be_bytes());
        }
    }

    pub(crate) fn from_wire(bytes: &[u8]) -> Self {
        let mut info = Self::default();
        for (value, slot) in info.0.iter_mut().zip(bytes.chunks_exact(8)) {
            *value = u64::from_be_bytes(slot.try_into().unwrap_or([0xff; 8]));
        }
        info
    }
}

impl Serialize for TcpInfo {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.figures())
    }
}

/// One figure of several connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Several {
    /// Connections of which it is known.
    pub count: u64,
    /// Of all together.
    pub sum: u64,
    /// The least.
    pub least: u64,
    /// The most.
    pub most: u64,
}

impl Default for Several {
    fn default() -> Self {
        Self { count: 0, sum: 0, least: u64::MAX, most: 0 }
    }
}

impl Several {
    fn add(&mut self, value: u64) {
        self.count += 1;
        self.sum = self.sum.saturating_add(value);
        self.least = self.least.min(value);
        self.most = self.most.max(value);
    }

    /// Its mean; `None` without values.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }
}

/// What the kernel said of several connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpInfos([Several; FIGURES]);

impl Default for TcpInfos {
    fn default() -> Self {
        Self([Several::default(); FIGURES])
    }
}

impl TcpInfos {
    /// Bytes of it on the wire.
    pub const BYTES: usize = FIGURES * 32;

    /// One more connection.
    pub fn add(&mut self, info: &TcpInfo) {
        for spec in &SPECS {
            if let Some(value) = info.get(spec.figure) {
                self.0[spec.figure as usize].add(value);
            }
        }
    }

    /// One figure.
    pub const fn get(&self, figure: Figure) -> &Several {
        &self.0[figure as usize]
    }

    pub(crate) fn to_wire(self, bytes: &mut [u8]) {
        let numbers = self.0.iter().flat_map(|one| [one.count, one.sum, one.least, one.most]);
        for (slot, value) in bytes.chunks_exact_mut(8).zip(numbers) {
            slot.copy_from_slice(&value.to_be_bytes());
        }
    }

    pub(crate) fn from_wire(bytes: &[u8]) -> Self {
        let mut infos = Self::default();
        for (one, slot) in infos.0.iter_mut().zip(bytes.chunks_exact(32)) {
            let number = |at: usize| u64::from_be_bytes(crate::wire::part(slot, at));
            *one =
                Several { count: number(0), sum: number(8), least: number(16), most: number(24) };
        }
        infos
    }
}

impl Serialize for TcpInfos {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Form {
            connections: u64,
            #[serde(skip_serializing_if = "Option::is_none")]
            sum: Option<u64>,
            mean: Option<f64>,
            min: u64,
            max: u64,
        }
        let mut map = serializer.serialize_map(None)?;
        for spec in &SPECS {
            let one = self.0[spec.figure as usize];
            let form = (one.count > 0).then(|| Form {
                connections: one.count,
                sum: (spec.sort == Sort::Counter).then_some(one.sum),
                mean: one.mean(),
                min: one.least,
                max: one.most,
            });
            map.serialize_entry(spec.name, &form)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_has_one_line_in_the_table_and_stands_in_its_own_place() {
        for (index, spec) in SPECS.iter().enumerate() {
            assert_eq!(spec.figure as usize, index, "{}", spec.name);
            assert_eq!(spec.offset % spec.size, 0, "{}", spec.name);
        }
    }

    #[test]
    fn offsets_are_those_of_the_kernels_header() {
        // Of `struct tcp_info` in the system's own linux/tcp.h: fields in their order, without padding.
        let Ok(header) = std::fs::read_to_string("/usr/include/linux/tcp.h") else {
            println!("skipped: no /usr/include/linux/tcp.h (linux-libc-dev)");
            return;
        };
        let body = header.split("struct tcp_info {").nth(1).unwrap().split("\n};").next().unwrap();
        let mut places = std::collections::HashMap::new();
        // The first line of bit fields; comments may stand anywhere.
        let mut at: usize = 0;
        for line in body.lines().map(str::trim) {
            let mut words = line.split_whitespace();
            let size = match words.next() {
                Some("__u8") => 1,
                Some("__u16") => 2,
                Some("__u32") => 4,
                Some("__u64") => 8,
                _ => continue,
            };
            let name = words.next().unwrap_or_default().split([';', ',', ':']).next().unwrap();
            at = at.next_multiple_of(size);
            places.insert(name.to_owned(), (at, size));
            at += size;
        }
        let told = |name: &str, kernel: &str| {
            let spec = SPECS.iter().find(|spec| spec.name == name).unwrap();
            let Some(place) = places.get(kernel) else { return };
            assert_eq!((spec.offset, spec.size), *place, "{name}");
        };
        for (name, kernel) in [
            ("retransmitted_segments", "tcpi_total_retrans"),
            ("retransmitted_bytes", "tcpi_bytes_retrans"),
            ("bytes_sent", "tcpi_bytes_sent"),
            ("bytes_acked", "tcpi_bytes_acked"),
            ("bytes_received", "tcpi_bytes_received"),
            ("segments_out", "tcpi_segs_out"),
            ("segments_in", "tcpi_segs_in"),
            ("data_segments_out", "tcpi_data_segs_out"),
            ("data_segments_in", "tcpi_data_segs_in"),
            ("delivered", "tcpi_delivered"),
            ("delivered_ce", "tcpi_delivered_ce"),
            ("dsack_duplicates", "tcpi_dsack_dups"),
            ("reordering_seen", "tcpi_reord_seen"),
            ("out_of_order", "tcpi_rcv_ooopack"),
            ("timeouts", "tcpi_total_rto"),
            ("busy_us", "tcpi_busy_time"),
            ("receive_window_limited_us", "tcpi_rwnd_limited"),
            ("send_buffer_limited_us", "tcpi_sndbuf_limited"),
            ("rtt_us", "tcpi_rtt"),
            ("rtt_variance_us", "tcpi_rttvar"),
            ("min_rtt_us", "tcpi_min_rtt"),
            ("receiver_rtt_us", "tcpi_rcv_rtt"),
            ("rto_us", "tcpi_rto"),
            ("cwnd_segments", "tcpi_snd_cwnd"),
            ("ssthresh_segments", "tcpi_snd_ssthresh"),
            ("reordering", "tcpi_reordering"),
            ("lost", "tcpi_lost"),
            ("unacked", "tcpi_unacked"),
            ("send_mss", "tcpi_snd_mss"),
            ("receive_mss", "tcpi_rcv_mss"),
            ("path_mtu", "tcpi_pmtu"),
            ("delivery_rate_bytes_s", "tcpi_delivery_rate"),
            ("delivery_rate_app_limited", "tcpi_delivery_rate_app_limited"),
            ("pacing_rate_bytes_s", "tcpi_pacing_rate"),
        ] {
            told(name, kernel);
        }
    }

    #[test]
    fn what_an_older_kernel_does_not_tell_is_unknown_and_not_zero() {
        // Linux 4.9 ends with delivery_rate, at 168 bytes; here every byte of it is 1.
        let info = TcpInfo::from_kernel(&[1; 168]);
        assert_eq!(info.get(Figure::RetransmittedSegments), Some(0x0101_0101));
        assert_eq!(info.get(Figure::DeliveryRate), Some(0x0101_0101_0101_0101));
        assert_eq!(info.get(Figure::BusyUs), None);
        assert_eq!(info.get(Figure::RetransmittedBytes), None);
        assert!(TcpInfo::from_kernel(&[]).figures().all(|(_, value)| value.is_none()));
        // Part of a field is no field.
        assert_eq!(TcpInfo::from_kernel(&[0; 103]).get(Figure::RetransmittedSegments), None);
        let text = serde_json::to_string(&TcpInfo::from_kernel(&[0; 104])).unwrap();
        assert!(
            text.contains(r#""retransmitted_segments":0,"retransmitted_bytes":null"#),
            "{text}"
        );
    }

    #[test]
    fn what_stands_for_none_is_none() {
        let mut kernel = [0; 248];
        kernel[76..80].copy_from_slice(&0x7fff_ffff_u32.to_ne_bytes());
        kernel[148..152].copy_from_slice(&u32::MAX.to_ne_bytes());
        let info = TcpInfo::from_kernel(&kernel);
        for figure in
            [F::SsthreshSegments, F::MinRttUs, F::RttUs, F::RttVarianceUs, F::DeliveryRate]
        {
            assert_eq!(info.get(figure), None, "{figure:?}");
        }
        assert_eq!(info.get(F::RetransmittedBytes), Some(0));
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn whom_the_delivery_rate_was_limited_by_is_one_bit() {
        // Beside it are those of fast open.
        let told = |byte, rate: u64| {
            let mut kernel = [0; 248];
            kernel[7] = byte;
            kernel[160..168].copy_from_slice(&rate.to_ne_bytes());
            TcpInfo::from_kernel(&kernel).get(F::DeliveryRateAppLimited)
        };
        assert_eq!((told(0b111, 9), told(0b110, 9)), (Some(1), Some(0)));
        assert_eq!(told(0b1, 0), None, "nothing was delivered yet");
    }

    #[test]
    fn figures_of_several_connections_survive_the_wire() {
        let one = TcpInfo::default().with(F::RttUs, 30).with(F::RetransmittedSegments, 2);
        let other = TcpInfo::default().with(F::RttUs, 50);
        let mut infos = TcpInfos::default();
        infos.add(&one);
        infos.add(&other);
        let mut bytes = [0; TcpInfos::BYTES];
        infos.to_wire(&mut bytes);
        let back = TcpInfos::from_wire(&bytes);
        assert_eq!(back, infos);
        assert_eq!(back.get(F::RttUs).mean(), Some(40.0));
        assert_eq!(back.get(F::RetransmittedSegments).count, 1, "the other did not tell");
        let mut bytes = [0; TcpInfo::BYTES];
        one.to_wire(&mut bytes);
        assert_eq!(TcpInfo::from_wire(&bytes), one);
    }
}
