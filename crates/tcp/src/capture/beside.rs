//! A capture beside what the kernels said of the same connections (`TCP_INFO`, in the JSON of `fetch`).

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use super::connection::{At, ConnectionRow};

/// The part of `fetch`'s JSON that is compared.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Fetched {
    /// `fetch` or `send`.
    pub direction: String,
    /// Its connections.
    pub records: Vec<FetchedRecord>,
}

/// A connection of it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct FetchedRecord {
    /// From 0, in the order in which they were started.
    pub number: u64,
    /// The client's port.
    #[serde(default)]
    pub port: Option<u16>,
    /// Why it was not completed, if it was not.
    #[serde(default)]
    pub fault: Option<String>,
    /// What the client's kernel said.
    pub tcp: BTreeMap<String, Option<u64>>,
    /// What the server's said.
    pub server_tcp: Option<BTreeMap<String, Option<u64>>>,
}

/// A figure of both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Pair {
    /// By the capture.
    pub capture: u64,
    /// By the kernel; `None` if it did not tell.
    pub kernel: Option<u64>,
}

impl Pair {
    /// Unknown is not equal to anything, and does not differ either.
    fn differs(self) -> bool {
        self.kernel.is_some_and(|kernel| kernel != self.capture)
    }
}

/// A connection that is in both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Compared {
    /// Its number in `fetch`.
    pub number: u64,
    /// The client's port.
    pub port: u16,
    /// Where it was captured.
    pub at: Option<At>,
    /// Segments sent again; without the client's FIN.
    pub retransmitted_segments: Pair,
    /// Bytes of payload in them.
    pub retransmitted_bytes: Pair,
    /// Bytes of payload sent, with retransmits.
    pub bytes_sent: Pair,
    /// Segments of payload sent, with retransmits.
    pub data_segments: Pair,
    /// Bytes that the other side has received, each once, with the sign of the end; of completed ones.
    pub bytes_received: Pair,
    /// Is all that both know the same, and something known? What was sent is not compared where it was captured
    /// at the receiver.
    pub equal: bool,
}

impl Compared {
    /// What the sender's kernel says the same of, or not.
    fn pairs(&self) -> impl Iterator<Item = Pair> {
        let again = [self.retransmitted_segments, self.retransmitted_bytes];
        let sent = [self.bytes_sent, self.data_segments];
        // What was lost on its way to the receiver was sent, and is not in a capture there.
        let is_seen = self.at != Some(At::Receiver);
        again.into_iter().chain(sent.into_iter().filter(move |_| is_seen))
    }

    /// Does the sender's kernel tell nothing of it?
    pub fn is_unknown(&self) -> bool {
        self.pairs().all(|pair| pair.kernel.is_none())
    }
}

/// All of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Beside {
    /// Those that are in both.
    pub connections: Vec<Compared>,
    /// How many of these are equal in all figures that the kernel tells.
    pub equal: u64,
    /// Those of which the kernel tells nothing, such as the sender's figures if the server wasn't asked
    /// (`fetch --client-only`).
    pub unknown: u64,
    /// Those of `fetch` that were not in the capture (or not among its rows).
    pub only_fetched: u64,
    /// Those of the capture that were not in `fetch` (or not among its records).
    pub only_captured: u64,
}

impl Beside {
    /// How many differ in something.
    pub fn differing(&self) -> u64 {
        self.connections.len() as u64 - self.equal - self.unknown
    }
}

/// Puts connections side by side: by the client's port, and where that was used more than once, in turn.
pub fn beside(rows: &[ConnectionRow], fetched: &Fetched) -> Beside {
    let mut by_port: HashMap<u16, Vec<&ConnectionRow>> = HashMap::new();
    for row in rows.iter().rev() {
        by_port.entry(row.client.port()).or_default().push(row);
    }
    let mut records: Vec<&FetchedRecord> = fetched.records.iter().collect();
    records.sort_unstable_by_key(|record| record.number);
    let mut all = Beside {
        connections: Vec::new(),
        equal: 0,
        unknown: 0,
        only_fetched: 0,
        only_captured: rows.len() as u64,
    };
    for record in records {
        let row = record.port.and_then(|port| by_port.get_mut(&port)?.pop());
        let Some(row) = row else {
            all.only_fetched += 1;
            continue;
        };
        let compared = compare(row, record, fetched.direction == "send");
        all.only_captured -= 1;
        all.equal += u64::from(compared.equal);
        all.unknown += u64::from(compared.is_unknown());
        all.connections.push(compared);
    }
    all
}

fn compare(row: &ConnectionRow, record: &FetchedRecord, client_sends: bool) -> Compared {
    let ends = [Some(&record.tcp), record.server_tcp.as_ref()];
    let (counts, [receiver, sender]) = if client_sends {
        (&row.from_client.counts, [ends[1], ends[0]])
    } else {
        (&row.from_server.counts, ends)
    };
    let figure = |of: Option<&BTreeMap<String, Option<u64>>>, name: &str| {
        of.and_then(|figures| figures.get(name).copied().flatten())
    };
    let pair = |capture: u64, name: &str| Pair { capture, kernel: figure(sender, name) };
    // A client reads its kernel's figures before it closes, so a FIN that it had to repeat is in none of them;
    // a server reads them when its own FIN has been acknowledged, and there it is.
    let unreported = if client_sends { counts.fin_segments } else { 0 };
    // Bytes in flight when it was cut off have gone past the capture, and reached no program.
    let arrived = figure(receiver, "bytes_received").filter(|_| record.fault.is_none());
    let mut compared = Compared {
        number: record.number,
        port: row.client.port(),
        at: row.at,
        retransmitted_segments: pair(
            counts.retransmitted_segments - unreported,
            "retransmitted_segments",
        ),
        retransmitted_bytes: pair(counts.retransmitted_bytes, "retransmitted_bytes"),
        bytes_sent: pair(counts.bytes_sent, "bytes_sent"),
        data_segments: pair(counts.data_segments, "data_segments_out"),
        bytes_received: Pair { capture: counts.bytes + counts.fins.min(1), kernel: arrived },
        equal: false,
    };
    let differs = compared.pairs().chain([compared.bytes_received]).any(Pair::differs);
    compared.equal = !compared.is_unknown() && !differs;
    compared
}
