//! Both directions of a connection, and where it was captured.

use std::net::SocketAddr;

use serde::Serialize;

use super::counts::Counts;
use super::flow::{Flow, RoundTrips};
use super::headers::{ACK, FIN, Packet, RST, SYN};

/// Two answers that both come within this time may come from the same machine, or from one beside it: which
/// of the two is nearer is chance. ns.
const NEAR_NS: i64 = 200_000;

/// Where packets were captured, as seen from the side that sent most of the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum At {
    /// Where data is sent from.
    Sender,
    /// Where it goes to.
    Receiver,
}

/// The side that ended a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Closed {
    /// The client's FIN came first.
    ClientFin,
    /// The server's did.
    ServerFin,
    /// The client reset it.
    ClientReset,
    /// The server did.
    ServerReset,
}

/// One side of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Side {
    /// What it sent.
    #[serde(flatten)]
    pub counts: Counts,
    /// From the point of capture to the other side and back.
    pub round_trips: RoundTrips,
}

/// A connection.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ConnectionRow {
    /// From 0, in the order of their first packets.
    pub number: u64,
    /// The side that opened it; where that was not captured, the side that sent the first packet.
    pub client: SocketAddr,
    /// The other side.
    pub server: SocketAddr,
    /// From the first packet of the capture to its first one, s.
    pub start_s: f64,
    /// From its first packet to its last, s.
    pub duration_s: f64,
    /// Was its SYN captured?
    pub from_its_start: bool,
    /// The side that ended it, if either did.
    pub closed: Option<Closed>,
    /// Where it was captured; `None` if that can't be determined.
    pub at: Option<At>,
    /// From SYN to the answer to SYN-ACK, s.
    pub initial_rtt_s: Option<f64>,
    /// Payload of a full segment.
    pub mss: u32,
    /// Is it known from the handshake?
    pub mss_known: bool,
    /// The client's side.
    pub from_client: Side,
    /// The server's side.
    pub from_server: Side,
}

impl ConnectionRow {
    /// The side that sent most of the data.
    pub fn data(&self) -> &Side {
        if self.client_sends() { &self.from_client } else { &self.from_server }
    }

    /// Is that the client's?
    pub fn client_sends(&self) -> bool {
        self.from_client.counts.bytes > self.from_server.counts.bytes
    }
}

/// The state of a connection while it is read.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) number: u64,
    client: SocketAddr,
    server: SocketAddr,
    first_ns: i64,
    last_ns: i64,
    /// The SYN's number, if there was one, and its time, unless it was sent more than once.
    syn: Option<u32>,
    syn_ns: Option<i64>,
    syn_ack_ns: Option<i64>,
    opened_ns: Option<i64>,
    closed: Option<Closed>,
    fins: [bool; 2],
    /// Of the client, and of the server.
    flows: [Flow; 2],
}

impl Connection {
    pub(crate) fn new(number: u64, packet: &Packet) -> Self {
        let is_answer = packet.has(SYN) && packet.has(ACK);
        let (client, server) =
            if is_answer { (packet.to, packet.from) } else { (packet.from, packet.to) };
        Self {
            number,
            client,
            server,
            first_ns: packet.time_ns,
            last_ns: packet.time_ns,
            syn: None,
            syn_ns: None,
            syn_ack_ns: None,
            opened_ns: None,
            closed: None,
            fins: [false; 2],
            flows: [Flow::default(), Flow::default()],
        }
    }

    /// Is this the SYN of another connection between the same two ports?
    pub(crate) fn is_followed_by(&self, packet: &Packet) -> bool {
        let opens = packet.has(SYN) && !packet.has(ACK | RST);
        opens && (self.client != packet.from || self.syn != Some(packet.seq))
    }

    /// Will nothing follow but what is sent again?
    pub(crate) fn is_over(&self) -> bool {
        self.fins == [true, true]
            || matches!(self.closed, Some(Closed::ClientReset | Closed::ServerReset))
    }

    pub(crate) fn take(&mut self, packet: &Packet) {
        let by_server = packet.from != self.client;
        self.last_ns = self.last_ns.max(packet.time_ns);
        self.handshake(packet, by_server);
        let (rtt_ns, mss) = (self.rtt_ns(), self.mss().0);
        let [client, server] = &mut self.flows;
        let (own, other) = if by_server { (server, client) } else { (client, server) };
        let (repeats, reports) = other.answer(packet, own.same_window(packet));
        // A keep-alive's answer repeats what was said, and means nothing by it.
        let closed = other.window_is_closed();
        own.send(packet, closed, rtt_ns, mss);
        own.note_answer(packet, repeats, reports);
        self.end(packet, by_server);
    }

    fn handshake(&mut self, packet: &Packet, by_server: bool) {
        match (packet.has(SYN), packet.has(ACK), by_server) {
            (true, false, false) if self.syn.is_none() => {
                (self.syn, self.syn_ns) = (Some(packet.seq), Some(packet.time_ns));
            }
            (true, true, true) if self.syn_ack_ns.is_none() => {
                self.syn_ack_ns = Some(packet.time_ns);
            }
            // Which of several is answered can't be determined.
            (true, false, false) | (true, true, true) => self.syn_ns = None,
            (false, true, false) if self.syn_ack_ns.is_some() && self.opened_ns.is_none() => {
                self.opened_ns = Some(packet.time_ns);
            }
            _ => {}
        }
    }

    fn end(&mut self, packet: &Packet, by_server: bool) {
        if packet.has(FIN) {
            self.fins[usize::from(by_server)] = true;
        }
        let how = match (packet.has(RST), packet.has(FIN), by_server) {
            (true, _, false) => Closed::ClientReset,
            (true, _, true) => Closed::ServerReset,
            (_, true, false) => Closed::ClientFin,
            (_, true, true) => Closed::ServerFin,
            _ => return,
        };
        self.closed.get_or_insert(how);
    }

    /// The round trip of the handshake: from here to the one side and to the other, which makes one.
    fn rtt_ns(&self) -> Option<i64> {
        let ns = self.opened_ns? - self.syn_ns?;
        (ns >= 0).then_some(ns)
    }

    /// Payload of a full segment, and whether that is known.
    fn mss(&self) -> (u32, bool) {
        let [client, server] = &self.flows;
        let options = [client.mss_option, server.mss_option];
        // Timestamps take 12 bytes of each segment (RFC 6691: the option does not tell).
        let stamps = if client.stamps && server.stamps { 12 } else { 0 };
        match options.into_iter().flatten().min() {
            Some(mss) if mss > 12 => (u32::from(mss) - stamps, options.iter().all(Option::is_some)),
            _ => (if self.client.is_ipv4() { 1460 } else { 1440 } - stamps, false),
        }
    }

    /// Where it was captured: an answer comes at once from the side on which that was, if the other is not as near.
    fn at(&self) -> Option<At> {
        let [client, server] = &self.flows;
        let (data, client_sends) = if client.counts.bytes > server.counts.bytes {
            (client, true)
        } else {
            (server, false)
        };
        let to_server = self.syn_ack_ns.zip(self.syn_ns).map(|(answer, syn)| answer - syn);
        let to_client = self.opened_ns.zip(self.syn_ack_ns).map(|(answer, syn)| answer - syn);
        if let (Some(server), Some(client)) = (to_server, to_client)
            && server.max(client) >= NEAR_NS
        {
            let near_client = server > client.saturating_mul(4);
            let near_server = client > server.saturating_mul(4);
            if near_client || near_server {
                let at_sender = near_client == client_sends;
                return Some(if at_sender { At::Sender } else { At::Receiver });
            }
        }
        // Where data is sent from, what is lost is seen first, and then again.
        match (data.seen_twice, data.filled + data.counts.reordered_packets) {
            (0, 0) => None,
            (twice, filled) if twice > filled.saturating_mul(10) => Some(At::Sender),
            (twice, filled) if filled > twice => Some(At::Receiver),
            _ => None,
        }
    }

    /// The whole row; `given` is where it was captured, if the caller knows.
    pub(crate) fn row(mut self, begin_ns: i64, given: Option<At>) -> ConnectionRow {
        let at = given.or_else(|| self.at());
        let client_sends = self.flows[0].counts.bytes > self.flows[1].counts.bytes;
        let sender = usize::from(!client_sends);
        match at {
            Some(At::Sender) => self.flows[sender].is_of_the_sender(),
            Some(At::Receiver) => self.flows[1 - sender].is_of_the_sender(),
            None => {}
        }
        let (mss, mss_known) = self.mss();
        let side = |flow: &Flow| Side { counts: flow.counts, round_trips: flow.round_trips };
        ConnectionRow {
            number: self.number,
            client: self.client,
            server: self.server,
            start_s: self.first_ns.saturating_sub(begin_ns) as f64 * 1e-9,
            duration_s: (self.last_ns - self.first_ns) as f64 * 1e-9,
            from_its_start: self.syn.is_some(),
            closed: self.closed,
            at,
            initial_rtt_s: self.rtt_ns().map(|ns| ns as f64 * 1e-9),
            mss,
            mss_known,
            from_client: side(&self.flows[0]),
            from_server: side(&self.flows[1]),
        }
    }
}
