//! What keeps a client or a server from running at all, or from going on.

use std::io;
use std::net::SocketAddr;

use crate::fault::Fault;
use crate::wire::Status;

/// Why it did not start, or could not go on. What befalls a single connection is a [`Fault`].
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The name of the server has no address.
    #[error("cannot find the address of `{name}`; write HOST, HOST:PORT or [IPV6]:PORT")]
    Resolve {
        /// As given.
        name: String,
        /// What the resolver said.
        #[source]
        source: io::Error,
    },
    /// The server cannot listen there.
    #[error(
        "cannot listen on {address}; is another one running there? `--listen` takes another address"
    )]
    Listen {
        /// Where it was to listen.
        address: SocketAddr,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The system does not allow this many descriptors.
    #[error(
        "{wanted} connections need {needed} descriptors, and this system allows {allowed}; raise the \
         hard limit (`ulimit -Hn {needed}`, LimitNOFILE=), or use fewer `--connections`"
    )]
    Descriptors {
        /// Connections that were asked for.
        wanted: u64,
        /// Descriptors that they need, with our own.
        needed: u64,
        /// The hard limit.
        allowed: u64,
    },
    /// There are fewer ports than connections.
    #[error(
        "{wanted} connections need a local port each, and this system has {ports} for them; widen \
         net.ipv4.ip_local_port_range, or use fewer `--connections`"
    )]
    Ports {
        /// Connections that were asked for.
        wanted: u64,
        /// Ports of the local range.
        ports: u64,
    },
    /// This kernel does not have the congestion control that our side was to send with.
    #[error(
        "this kernel offers no congestion control `{wanted}` here, but: {offered}; root may use all that it \
         has, and `modprobe tcp_{wanted}` loads one that was built as a module"
    )]
    Congestion {
        /// As given.
        wanted: String,
        /// Those that it has ready.
        offered: String,
    },
    /// This kernel did not take an option of the socket.
    #[error("this kernel refused {option}; leave it out, or ask for less")]
    Option {
        /// The option, as on the command line.
        option: &'static str,
        /// What it said.
        #[source]
        source: io::Error,
    },
    /// A connection has too few bytes for the messages in it.
    #[error("{bytes} bytes are too few for a connection: {least} at least; use more `--segments`")]
    TooShort {
        /// Bytes that were asked for.
        bytes: u64,
        /// Bytes of the message that is in them.
        least: u64,
    },
    /// A connection has more bytes than can be counted.
    #[error("a connection of so many bytes cannot be counted; use fewer `--segments`")]
    TooLong,
    /// Connections failed in a way in which all others would fail as well, or one after another.
    #[error("{}", gave_up(*server, *failed, *fault, refusal))]
    GaveUp {
        /// The server.
        server: SocketAddr,
        /// How many failed.
        failed: u64,
        /// The fault that ended the run, or else that of the connection started last.
        fault: Fault,
        /// The text of the server's refusal.
        refusal: String,
    },
    /// The loop itself could not wait.
    #[error("cannot wait for connections (epoll)")]
    Epoll(#[source] io::Error),
    /// There is no randomness for the number of the session.
    #[error("the system gives no random number")]
    Random,
}

/// `2 connections to 127.0.0.1:5210 failed: the server refused (it has: reno); ask for what it has`.
fn gave_up(server: SocketAddr, failed: u64, fault: Fault, refusal: &str) -> String {
    let many =
        if failed == 1 { "the connection".to_owned() } else { format!("{failed} connections") };
    let printable = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
    let refusal: String = refusal.chars().map(printable).collect();
    let refusal = if refusal.is_empty() { refusal } else { format!(" ({refusal})") };
    format!("{many} to {server} failed: {fault}{refusal}; {}", advice(fault))
}

/// What to try next.
fn advice(fault: Fault) -> &'static str {
    match fault {
        Fault::Refused => "start `nightwatt tcp serve` there, or give its port (HOST:PORT)",
        Fault::Closed | Fault::Reset => "is `nightwatt tcp serve` still running there?",
        Fault::ConnectTimeout | Fault::Unreachable => "check address, route and firewall",
        Fault::Stalled => "a slower link needs a longer `--timeout`",
        Fault::Descriptors => "raise `ulimit -n`, or use fewer `--connections`",
        Fault::Ports => {
            "widen net.ipv4.ip_local_port_range, or wait a minute if other programs left connections \
             in TIME_WAIT (`ss -tan state time-wait`)"
        }
        Fault::NotNightwatt => "is this its port?",
        Fault::Version => "install the same nightwatt at both ends",
        Fault::Denied(Status::Full) => {
            "use fewer `--connections`, or give it more `--max-connections`"
        }
        Fault::Denied(_) => "ask for what it has",
        Fault::Corrupt | Fault::Count => "something between the two ends changes the stream",
        Fault::Option => "leave the option out, or ask for less",
        Fault::Cut => "let it run longer",
    }
}
