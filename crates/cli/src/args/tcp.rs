//! `tcp`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Subcommand, ValueHint};
use nightwatt_tcp::wire::{MOST_BUSY_POLL, Name};

use super::tcp_lab::{TcpLabArgs, TcpLinkArgs};
use crate::written;

/// `tcp`.
#[derive(Debug, clap::Args)]
pub(crate) struct TcpArgs {
    /// What to do
    #[command(subcommand)]
    pub(crate) step: TcpStep,
}

/// What can be done with TCP connections.
#[derive(Debug, Subcommand)]
pub(crate) enum TcpStep {
    /// Count retransmits, reordering and more in a capture (pcap, pcapng)
    Check(TcpCheckArgs),
    /// Open connections to a `tcp serve`, and measure what they cost
    Fetch(Box<TcpFetchArgs>),
    /// Serve the connections of `tcp fetch`
    Serve(TcpServeArgs),
    /// Measure what connections cost over links of all kinds: lifetime, CPU time, wake-ups, energy
    #[command(after_help = super::tcp_lab::EXAMPLES)]
    Lab(Box<TcpLabArgs>),
    /// Compare settings that make connections cheaper: offloads, coalescing, pacing, buffers, busy polling
    #[command(after_help = super::tcp_helps::EXAMPLES)]
    Helps(Box<super::TcpHelpsArgs>),
    /// Measure what the CPUs spend time on while connections run: TCP, copies, cards, the scheduler, rest
    #[cfg(feature = "bpf")]
    #[command(after_help = super::tcp_where::EXAMPLES)]
    Where(Box<super::TcpWhereArgs>),
    /// Run the ends of a link of `lab`
    #[command(hide = true)]
    Link(TcpLinkArgs),
}

/// `tcp fetch`.
#[derive(Debug, clap::Args)]
pub(crate) struct TcpFetchArgs {
    /// Address of `nightwatt tcp serve`: `HOST`, `HOST:PORT`, `[IPV6]:PORT`
    #[arg(value_name = "HOST[:PORT]", value_hint = ValueHint::Hostname)]
    pub(crate) server: String,
    #[command(flatten, next_help_heading = "What")]
    pub(crate) what: TcpWhatArgs,
    #[command(flatten, next_help_heading = "How long")]
    pub(crate) until: TcpUntilArgs,
    #[command(flatten, next_help_heading = "How")]
    pub(crate) how: TcpHowArgs,
    #[command(flatten, next_help_heading = "Output")]
    pub(crate) found: TcpFoundArgs,
}

/// What is moved.
#[derive(Debug, clap::Args)]
pub(crate) struct TcpWhatArgs {
    /// Connections at once
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) connections: u32,
    /// Segments of each connection
    #[arg(short = 'm', long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) segments: u64,
    /// Bytes of a segment
    #[arg(long, value_name = "BYTES", default_value_t = 1460, value_parser = clap::value_parser!(u32).range(1..=65_535))]
    pub(crate) segment_bytes: u32,
    /// Send from the client, and let the server confirm what it received
    #[arg(long)]
    pub(crate) send: bool,
}

/// Until when.
#[derive(Debug, clap::Args)]
pub(crate) struct TcpUntilArgs {
    /// Open each connection once (the default)
    #[arg(long, conflicts_with_all = ["continuous", "time", "seconds", "count"])]
    pub(crate) once: bool,
    /// Replace each finished connection by a new one, until Ctrl-C
    #[arg(long)]
    pub(crate) continuous: bool,
    /// The same for this time; connections that are open at its end are cut off
    #[arg(short = 'd', long = "for", value_name = "TIME", value_parser = written::some_time)]
    pub(crate) time: Option<Duration>,
    /// The same for this many seconds
    #[arg(long, value_name = "N", conflicts_with = "time", value_parser = written::factor)]
    pub(crate) seconds: Option<f64>,
    /// The same until this many have been started
    #[arg(short = 'n', long, value_name = "TOTAL", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
}

/// How it is moved.
#[derive(Debug, clap::Args)]
pub(crate) struct TcpHowArgs {
    /// Congestion control of the sender, such as reno, cubic, vegas, bbr [default: its system's]
    #[arg(long, value_name = "NAME", value_parser = congestion)]
    pub(crate) congestion: Option<Name>,
    /// Highest rate of the sender, per second: `100Mbit`, `1Gbit`. Linux does not pace the first ten packets
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub(crate) pacing: Option<u64>,
    /// Send buffer of the sender: `64k`, in units of 1000 bytes
    #[arg(long, value_name = "BYTES", value_parser = size)]
    pub(crate) send_buffer: Option<u32>,
    /// Receive buffer of the receiver
    #[arg(long, value_name = "BYTES", value_parser = size)]
    pub(crate) receive_buffer: Option<u32>,
    /// Poll the device for this many microseconds before sleeping, on both sides; at most 10000
    #[arg(long, value_name = "US", value_parser = clap::value_parser!(u32).range(..=i64::from(MOST_BUSY_POLL)))]
    pub(crate) busy_poll: Option<u32>,
    /// Send small pieces immediately (`TCP_NODELAY`), on both sides
    #[arg(long)]
    pub(crate) nodelay: bool,
    /// Largest segment, including the headers of TCP's options
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(88..=32_767))]
    pub(crate) mss: Option<u16>,
    /// Compare every received byte with what was sent
    #[arg(long, conflicts_with = "discard")]
    pub(crate) verify: bool,
    /// Let the receiver's kernel drop the bytes, instead of copying them as programs do
    #[arg(long)]
    pub(crate) discard: bool,
    /// Longest time without progress on a connection
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = written::some_time)]
    pub(crate) timeout: Duration,
}

/// Output.
#[derive(Debug, clap::Args)]
pub(crate) struct TcpFoundArgs {
    /// Keep records of the first N connections that end
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(0..=10_000_000))]
    pub(crate) records: u32,
    /// Write these records as CSV, one per row
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) csv: Option<PathBuf>,
    /// Do not ask the server for its figures at the end
    #[arg(long)]
    pub(crate) client_only: bool,
    /// Print one JSON object, and no progress
    #[arg(long)]
    pub(crate) json: bool,
}

/// `tcp serve`.
#[derive(Debug, clap::Args)]
pub(crate) struct TcpServeArgs {
    /// Address to listen on; `[::]:5210` for every address of this machine, port 0 for any free port
    #[arg(short, long, value_name = "ADDRESS", default_value = "127.0.0.1:5210")]
    pub(crate) listen: SocketAddr,
    /// Most connections at once; more are refused
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) max_connections: u32,
    /// Longest time for a client's request
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = written::some_time)]
    pub(crate) request_timeout: Duration,
    /// Longest time without progress on a connection
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = written::some_time)]
    pub(crate) idle_timeout: Duration,
    /// Keep N records of connections, the first of each session, for clients that request them
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(0..=10_000_000))]
    pub(crate) records: u32,
    /// Print JSON, one object per line
    #[arg(long)]
    pub(crate) json: bool,
}

fn congestion(text: &str) -> Result<Name, String> {
    let name = Name::new(text).filter(|name| !name.is_none());
    name.ok_or_else(|| "write the kernel's name for it, as in `cubic` or `bbr`".to_owned())
}

/// `100Mbit` as bytes a second.
fn rate(text: &str) -> Result<u64, String> {
    let wrong = || "write bits a second, as in `100Mbit` or `2.5Gbit`".to_owned();
    let number = text.strip_suffix("bit").ok_or_else(wrong)?;
    let (number, unit) = scaled(number);
    let bits = number.parse::<f64>().ok().map(|number| number * unit).ok_or_else(wrong)?;
    if (8.0..1e15).contains(&bits) { Ok((bits / 8.0) as u64) } else { Err(wrong()) }
}

/// `64k` as bytes.
fn size(text: &str) -> Result<u32, String> {
    let wrong = || "write bytes, as in `64k` or `4M`, less than 2G".to_owned();
    let (number, unit) = scaled(text);
    let bytes = number.parse::<f64>().ok().map(|number| number * unit).ok_or_else(wrong)?;
    if (1.0..2e9).contains(&bytes) { Ok(bytes as u32) } else { Err(wrong()) }
}

fn scaled(text: &str) -> (&str, f64) {
    let units = [("k", 1e3), ("M", 1e6), ("G", 1e9)];
    let found = units.iter().find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, *scale)));
    found.unwrap_or((text, 1.0))
}

pub(super) const EXAMPLES: &str = "Examples:
  nightwatt tcp serve --listen '[::]:5210'                        # on one machine
  nightwatt tcp fetch server.lan -c 100 -m 10 --for 1m            # on another: 100 at once
  nightwatt tcp fetch server.lan -c 1 -m 10000 -n 200 --json      # 200 lifetimes, one by one
  nightwatt tcp fetch server.lan -c 100 -m 10000 --congestion bbr --csv connections.csv
  nightwatt tcp fetch server.lan --send -m 10000 --pacing 100Mbit --verify

Use it only with servers of your own. docs/tcp.md explains each figure and the protocol.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_in_bits_and_sizes_in_bytes() {
        assert_eq!(rate("100Mbit"), Ok(12_500_000));
        assert_eq!(rate("2.5Gbit"), Ok(312_500_000));
        assert_eq!(rate("8bit"), Ok(1));
        assert!(rate("100M").is_err() && rate("-1kbit").is_err() && rate("bit").is_err());
        assert_eq!(size("64k"), Ok(64_000));
        assert_eq!(size("1460"), Ok(1460));
        assert!(size("2G").is_err() && size("0").is_err() && size("k").is_err());
    }
}

/// `tcp check`.
#[derive(Debug, clap::Args)]
pub(crate) struct TcpCheckArgs {
    /// Capture that `tcpdump -w` or `dumpcap` wrote; `-` for stdin
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) capture: PathBuf,
    /// Where it was captured: at the side that sends most, or at the other. Needed where handshakes do not show
    /// it, as between sides within 200 µs of each other (one machine, one switch)
    #[arg(long, value_name = "SIDE")]
    pub(crate) at: Option<CaptureAt>,
    /// Compare with the kernels' figures in the JSON of `tcp fetch`
    #[arg(long, value_name = "FETCH.json", value_hint = ValueHint::FilePath)]
    pub(crate) beside: Option<PathBuf>,
    /// Connections that are listed one by one; the sums and `--beside` include all
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) rows: usize,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// A side of a connection.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum CaptureAt {
    /// At the side that sends
    Sender,
    /// At the side that receives
    Receiver,
}
