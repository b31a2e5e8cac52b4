//! What one side of a connection sent.

use serde::Serialize;

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counts of what one side sent, as far as it was captured.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
        pub struct Counts {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counts {
            /// Those of another one, too.
            pub fn add(&mut self, other: &Self) {
                $(self.$name += other.$name;)*
            }
        }
    };
}

counts! {
    /// All packets.
    packets,
    /// Those with payload.
    data_packets,
    /// Segments of payload: a packet longer than the MSS (TSO) counts as what it will be on the wire.
    data_segments,
    /// Bytes of payload, with retransmits.
    bytes_sent,
    /// Bytes of payload, each once.
    bytes,
    /// Packets that were retransmits.
    retransmitted_packets,
    /// Segments that were retransmits: of data, SYN and FIN.
    retransmitted_segments,
    /// Bytes of payload in them.
    retransmitted_bytes,
    /// Segments among them that duplicate acknowledgements or SACK asked for (RFC 5681, RFC 6675).
    fast_segments,
    /// Those that came after silence of at least a retransmission time-out, and those that followed.
    timeout_segments,
    /// The last one sent, again, without either: tail loss probes (RFC 8985, 7).
    probe_segments,
    /// SYN and SYN-ACK.
    syn_segments,
    /// All others.
    unclear_segments,
    /// FIN without payload, sent again, whatever made it be.
    fin_segments,
    /// Times that retransmission began with a time-out.
    timeouts,
    /// Times that it began with duplicate acknowledgements.
    fast_recoveries,
    /// Segments that had been acknowledged before they were sent again.
    needless_segments,
    /// Packets that came late but were not sent again (RFC 4737, 3).
    reordered_packets,
    /// Bytes of payload in them.
    reordered_bytes,
    /// Gaps in sequence numbers.
    gaps,
    /// Bytes that the other side acknowledged and that were not captured.
    missed_bytes,
    /// Acknowledgements without payload.
    pure_acks,
    /// Those among them that repeat the one before (RFC 5681, 2).
    duplicate_acks,
    /// Packets with SACK blocks.
    sacks,
    /// Packets that report a duplicate (DSACK, RFC 2883).
    dsacks,
    /// Packets that say that there is no room.
    zero_windows,
    /// Keep-alives and probes of a closed window.
    keep_alives,
    /// FIN.
    fins,
    /// RST.
    resets,
}
