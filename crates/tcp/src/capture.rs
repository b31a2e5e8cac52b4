//! What a capture of packets says of TCP connections: a check that asks no kernel.
//!
//! [`CaptureFile`] reads packets, [`packet()`] their headers, and [`Table`] counts by connection. What is counted
//! how, and by which rule a late packet is a retransmit or was overtaken, is in `docs/tcp-check.md`.

mod beside;
mod connection;
mod counts;
mod file;
mod flow;
mod headers;
mod holes;
mod report;
mod table;

use std::io;

pub use beside::{Beside, Compared, Fetched, Pair, beside};
pub use connection::{At, Closed, ConnectionRow, Side};
pub use counts::Counts;
pub use file::{CaptureFile, FileEnd, Frame};
pub use flow::RoundTrips;
pub use headers::{ACK, FIN, FrameKind, Packet, RST, SYN, TcpOptions, packet};
pub use report::{CaptureReport, Packets, capture_text, check, check_while};
pub use table::{Table, Totals};

/// Why a capture cannot be read at all.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// It begins like neither format.
    #[error(
        "this is neither pcap nor pcapng; capture with `tcpdump -w FILE`, and unpack what is packed"
    )]
    NoCapture,
    /// The system did not give its bytes.
    #[error("cannot read the capture; is the file all there?")]
    Read(#[source] io::Error),
}
