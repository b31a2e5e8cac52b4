//! What a server knows of the connections of one session, as it tells the client at the end.
//!
//! Behind the answer follow one [`SessionReport`] and its records, all of fixed length.

use std::time::Duration;

use serde::Serialize;

use crate::fault::Fault;
use crate::info::{TcpInfo, TcpInfos};
use crate::usage::Usage;
use crate::wire::{NAME, Name, part};

/// One connection, as the server saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ServerRecord {
    /// Its number within the session; the client's record has the same.
    pub number: u32,
    /// What was wrong with it.
    pub fault: Option<Fault>,
    /// Bytes of payload, headers of this protocol with them.
    pub bytes: u64,
    /// From its acceptance to its end, ns.
    pub lasted_ns: u64,
    /// What the server's kernel said of it at its end.
    pub tcp: TcpInfo,
}

impl ServerRecord {
    /// Bytes of it on the wire.
    pub(crate) const BYTES: usize = 32 + TcpInfo::BYTES;
    /// One that has been forgotten since the report began.
    pub(crate) const GONE: u32 = u32::MAX;

    /// In the place of one that is gone.
    pub(crate) fn gone() -> Self {
        let tcp = TcpInfo::default();
        Self { number: Self::GONE, fault: None, bytes: 0, lasted_ns: 0, tcp }
    }

    pub(crate) fn to_wire(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&self.number.to_be_bytes());
        bytes[4] = self.fault.map_or(0, |fault| fault.code() as u8 + 1);
        bytes[8..16].copy_from_slice(&self.bytes.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.lasted_ns.to_be_bytes());
        self.tcp.to_wire(&mut bytes[32..]);
        bytes
    }

    fn from_wire(bytes: &[u8]) -> Self {
        Self {
            number: u32::from_be_bytes(part(bytes, 0)),
            fault: usize::from(part::<1>(bytes, 4)[0]).checked_sub(1).and_then(Fault::of),
            bytes: u64::from_be_bytes(part(bytes, 8)),
            lasted_ns: u64::from_be_bytes(part(bytes, 16)),
            tcp: TcpInfo::from_wire(bytes.get(32..).unwrap_or_default()),
        }
    }
}

/// All connections of a session, as the server saw them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Default)]
pub struct SessionReport {
    /// Connections whose request came.
    pub accepted: u64,
    /// Those that did what they were for.
    pub completed: u64,
    /// Those that did not.
    pub failed: u64,
    /// Those that had not ended when it was asked.
    pub open: u64,
    /// Bytes of payload of all.
    pub bytes: u64,
    /// What the server's process used between the first request and the last end.
    pub cpu: Usage,
    /// The congestion control of the last one.
    pub congestion: Name,
    /// What the server's kernel said of those that were completed.
    pub tcp: TcpInfos,
}

/// Numbers of the fixed part, 8 bytes each.
const NUMBERS: usize = 10;

impl SessionReport {
    /// Bytes of it on the wire, with the number of records.
    pub(crate) const BYTES: usize = NUMBERS * 8 + NAME + TcpInfos::BYTES;

    pub(crate) fn to_wire(self, records: u64) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let Usage { user, system, voluntary_switches, involuntary_switches } = self.cpu;
        let numbers: [u64; NUMBERS] = [
            records,
            self.accepted,
            self.completed,
            self.failed,
            self.open,
            self.bytes,
            ns(user),
            ns(system),
            voluntary_switches,
            involuntary_switches,
        ];
        for (slot, number) in bytes.chunks_exact_mut(8).zip(numbers) {
            slot.copy_from_slice(&number.to_be_bytes());
        }
        bytes[NUMBERS * 8..NUMBERS * 8 + NAME].copy_from_slice(&self.congestion.to_bytes());
        self.tcp.to_wire(&mut bytes[NUMBERS * 8 + NAME..]);
        bytes
    }

    fn from_wire(bytes: &[u8]) -> Option<(u64, Self)> {
        let number = |index: usize| u64::from_be_bytes(part(bytes, index * 8));
        let report = Self {
            accepted: number(1),
            completed: number(2),
            failed: number(3),
            open: number(4),
            bytes: number(5),
            cpu: Usage {
                user: Duration::from_nanos(number(6)),
                system: Duration::from_nanos(number(7)),
                voluntary_switches: number(8),
                involuntary_switches: number(9),
            },
            congestion: Name::from_bytes(part(bytes, NUMBERS * 8))?,
            tcp: TcpInfos::from_wire(bytes.get(NUMBERS * 8 + NAME..Self::BYTES)?),
        };
        Some((number(0), report))
    }
}

/// A session and its records, from what a server sent behind its answer; `None` if that makes no
/// sense.
pub fn read(bytes: &[u8]) -> Option<(SessionReport, Vec<ServerRecord>)> {
    let (count, report) = SessionReport::from_wire(bytes)?;
    let records = bytes.get(SessionReport::BYTES..)?;
    let each = records.chunks_exact(ServerRecord::BYTES);
    if each.len() as u64 != count || !each.remainder().is_empty() {
        return None;
    }
    let records = each.map(ServerRecord::from_wire);
    Some((report, records.filter(|record| record.number != ServerRecord::GONE).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::info::Figure;

    #[test]
    fn a_report_survives_the_wire_and_half_of_one_is_none() {
        let tcp = TcpInfo::default().with(Figure::RttUs, 41);
        let record =
            ServerRecord { number: 7, fault: Some(Fault::Reset), bytes: 14_600, lasted_ns: 9, tcp };
        let mut tcps = TcpInfos::default();
        tcps.add(&tcp);
        let report = SessionReport {
            accepted: 1,
            completed: 2,
            failed: 3,
            open: 4,
            bytes: 5,
            cpu: Usage {
                user: Duration::from_nanos(6),
                system: Duration::from_nanos(7),
                voluntary_switches: 8,
                involuntary_switches: 9,
            },
            congestion: Name::new("bbr").unwrap(),
            tcp: tcps,
        };
        let mut bytes = report.to_wire(2).to_vec();
        bytes.extend(record.to_wire());
        bytes.extend(ServerRecord { number: ServerRecord::GONE, fault: None, ..record }.to_wire());
        assert_eq!(read(&bytes), Some((report, vec![record])), "what is gone is left out");
        assert_eq!(read(&bytes[..bytes.len() - 1]), None);
        assert_eq!(read(&bytes[..SessionReport::BYTES]), None);
        assert_eq!(read(&[]), None);
    }
}
