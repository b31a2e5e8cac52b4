//! The server as a neighbour on the wire: how not to disturb it while it sleeps, and how to notice,
//! without asking, that it does not sleep any more.
//!
//! **Not to disturb it.** A kernel that has spoken to a neighbour checks for a while that it is still
//! there: it sends ARP requests or neighbour solicitations, and some cards wake the machine for those. So
//! before a server is put to sleep, its entry in the table of neighbours is made permanent; when it is
//! awake, the entry becomes a common one again (its card may be replaced some day). Our entries carry a
//! mark, so that a proxy that has restarted can tell them from an administrator's.
//!
//! **To notice.** A machine that wakes broadcasts: it asks for addresses and announces its own. A packet
//! socket whose filter passes frames from its card alone hears that. The filter excludes what cards send
//! for a machine that sleeps (answers to ARP and to neighbour solicitations).
//!
//! Both use `ip` of iproute2 and need the capabilities `CAP_NET_ADMIN` and `CAP_NET_RAW`. Without them the
//! proxy relies on its other ways to notice a wake-up, and logs one warning. A server behind a router is
//! not a neighbour: nothing is done, and the only packets of ours that can wake it are those that are sent
//! to it.

use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use nightwatt_clock::Clock;
use serde::Deserialize;
use socket2::{Domain, Protocol, SockFilter, Socket, Type};
use tokio::net::UdpSocket;
use tokio::process::Command;
use tracing::{debug, warn};

use crate::helper;

/// `ip` does its work at once; what takes longer hangs.
const LIMIT: Duration = Duration::from_secs(5);

/// The protocol number (`NDA_PROTOCOL` of rtnetlink) that marks our entries: no other known program uses it.
const OURS: &str = "78";

/// `RTPROT_KERNEL`: not made by a program. An entry that an administrator makes permanent later is not
/// taken for ours.
const THE_KERNELS: &str = "kernel";

/// How often a server without an entry is looked up again; the question goes to this kernel only.
const BETWEEN_LOOK_UPS: Duration = Duration::from_mins(1);

/// Every protocol, in network byte order: `htons(ETH_P_ALL)`.
const ALL_PROTOCOLS: i32 = 0x0300;

/// A server, as the network next to this machine knows it.
#[derive(Debug)]
pub struct Neighbour {
    /// Name or address.
    host: String,
    clock: Clock,
    /// What the kernel knew when it was asked last.
    entry: Mutex<Option<Entry>>,
    warned: AtomicBool,
}

/// A line of the table of neighbours.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    address: IpAddr,
    interface: String,
    card: [u8; 6],
    hold: Option<Hold>,
}

/// By whom an entry was made permanent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hold {
    /// By us, or by an earlier run.
    Ours,
    /// By the administrator of this machine: not ours to change.
    Theirs,
}

/// What `ip -json neigh show` prints of an entry.
#[derive(Debug, Deserialize)]
struct Shown {
    dst: IpAddr,
    dev: String,
    lladdr: Option<String>,
    #[serde(default)]
    state: Vec<String>,
    protocol: Option<String>,
}

impl Neighbour {
    /// Describes the server with this name or address. Sends nothing yet.
    pub fn new(host: impl Into<String>, clock: Clock) -> Self {
        let host = host.into();
        Self { host, clock, entry: Mutex::default(), warned: AtomicBool::new(false) }
    }

    /// Sees to it that the kernel asks nothing of the server any more. Call it while it is awake.
    pub async fn leave_in_peace(&self) {
        let found = match self.look_up().await {
            Ok(found) => found,
            Err(reason) => return self.warn(&reason),
        };
        debug!(host = self.host, ?found, "the neighbour that falls asleep");
        if let Some(entry) = found.filter(|entry| entry.hold.is_none())
            && let Err(reason) = self.change(&entry, "permanent", OURS).await
        {
            self.warn(&reason);
        }
    }

    /// Makes its entry a common one again.
    pub async fn release(&self) {
        // Looks up the entry again: it may be that of an earlier run.
        let found = self.look_up().await.unwrap_or_default();
        if let Some(entry) = found.filter(|entry| entry.hold == Some(Hold::Ours))
            && let Err(reason) = self.change(&entry, "stale", THE_KERNELS).await
        {
            debug!(host = self.host, reason, "its entry stays permanent");
        }
    }

    /// Ends with the next frame that the server sends, if it can be heard at all.
    pub async fn stirred(&self) {
        let mut known = self.entry().clone();
        // After a restart of this machine the kernel knows of it when it has spoken to us.
        let entry = loop {
            match known {
                Some(entry) => break entry,
                None => known = self.look_up().await.unwrap_or_default(),
            }
            if known.is_none() {
                self.clock.sleep(BETWEEN_LOOK_UPS).await;
            }
        };
        if let Err(error) = frame_from(entry.card).await {
            self.warn(&format!("cannot listen for its frames: {error}"));
            return std::future::pending().await;
        }
        debug!(host = self.host, "it stirs");
    }

    fn entry(&self) -> std::sync::MutexGuard<'_, Option<Entry>> {
        self.entry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn warn(&self, reason: &str) {
        if !self.warned.swap(true, Ordering::Relaxed) {
            warn!(
                host = self.host,
                reason,
                hint = "the proxy needs `ip` (package iproute2) and the capabilities CAP_NET_ADMIN and \
                        CAP_NET_RAW for this; without, let the card wake for magic packets only \
                        (`ethtool -s DEVICE wol g`)",
                "the kernel may ask for a neighbour that sleeps, and its waking may go unnoticed"
            );
        }
    }

    /// Asks the kernel, and remembers what it knows.
    async fn look_up(&self) -> Result<Option<Entry>, String> {
        let found = tokio::net::lookup_host((self.host.as_str(), 0)).await;
        let addresses = found.map_err(|error| format!("{}: {error}", self.host))?;
        for address in addresses.map(|it| it.ip()).filter(|it| !it.is_loopback()) {
            let text = self.ip(&["-json", "neigh", "show", "to", &address.to_string()]).await?;
            if let Some(entry) = read(&text)? {
                *self.entry() = Some(entry.clone());
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }

    async fn change(&self, entry: &Entry, state: &str, whose: &str) -> Result<(), String> {
        let address = entry.address.to_string();
        let card = entry.card.map(|byte| format!("{byte:02x}")).join(":");
        let what = ["neigh", "replace", &address, "lladdr", &card];
        let how = ["dev", &entry.interface, "nud", state, "protocol", whose];
        self.ip(&[&what[..], &how].concat()).await.map(|_| ())
    }

    async fn ip(&self, arguments: &[&str]) -> Result<String, String> {
        let told = format!("ip {}", arguments.join(" "));
        let mut ip = Command::new("ip");
        ip.args(arguments);
        let done = helper::run(&self.clock, LIMIT, ip, &told).await;
        let (status, output) = done.map_err(|error| error.to_string())?;
        if status.success() { Ok(output) } else { Err(format!("`{told}` failed: {output}")) }
    }
}

/// Reads what `ip -json neigh show` printed; it prints nothing at all for none.
fn read(text: &str) -> Result<Option<Entry>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let shown: Vec<Shown> = serde_json::from_str(text)
        .map_err(|error| format!("this `ip` does not speak JSON ({error})"))?;
    Ok(shown.into_iter().find_map(|shown| {
        let card = ethernet(shown.lladdr.as_deref()?)?;
        let is_permanent = shown.state.iter().any(|state| state == "PERMANENT");
        let is_marked = shown.protocol.as_deref() == Some(OURS);
        let hold = is_permanent.then_some(if is_marked { Hold::Ours } else { Hold::Theirs });
        Some(Entry { address: shown.dst, interface: shown.dev, card, hold })
    }))
}

fn ethernet(text: &str) -> Option<[u8; 6]> {
    let bytes: Option<Vec<u8>> =
        text.split(':').map(|byte| u8::from_str_radix(byte, 16).ok()).collect();
    bytes?.try_into().ok()
}

/// Waits for a frame of this card that only a machine that is awake sends.
async fn frame_from(card: [u8; 6]) -> io::Result<()> {
    let socket = Socket::new(Domain::PACKET, Type::RAW, Some(Protocol::from(ALL_PROTOCOLS)))?;
    socket.set_nonblocking(true)?;
    socket.attach_filter(&filter(card))?;
    // To the runtime it is a socket for datagrams as any other.
    let socket: std::net::UdpSocket = socket.into();
    let mut frame = [0; 1];
    // Drops what arrived before the filter was in place. `try_recv` of the runtime does not: it reads
    // nothing before the runtime has seen that the socket is readable.
    while socket.recv(&mut frame).is_ok() {}
    UdpSocket::from_std(socket)?.recv(&mut frame).await.map(|_| ())
}

/// Passes frames from this card, except ARP answers and neighbour advertisements.
fn filter(card: [u8; 6]) -> [SockFilter; 15] {
    // Opcodes of classic BPF (linux/filter.h): loads from absolute offsets, jumps, end.
    const WORD: u16 = 0x20;
    const HALF: u16 = 0x28;
    const BYTE: u16 = 0x30;
    const EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    let [first, second, rest @ ..] = card;
    let load = |size, at| SockFilter::new(size, 0, 0, at);
    // Jumps count the instructions passed over. The last but one drops the frame, the last takes it.
    let equal = |what, yes, no| SockFilter::new(EQUAL, yes, no, what);
    [
        load(WORD, 8),
        equal(u32::from_be_bytes(rest), 0, 11),
        load(HALF, 6),
        equal(u16::from_be_bytes([first, second]).into(), 0, 9),
        load(HALF, 12),
        equal(0x0806, 0, 2), // ARP …
        load(HALF, 20),
        equal(2, 5, 6),      // … that answers
        equal(0x86dd, 0, 5), // IPv6 …
        load(BYTE, 20),
        equal(58, 0, 3), // … ICMP …
        load(BYTE, 54),
        equal(136, 0, 1), // … that advertises
        SockFilter::new(RETURN, 0, 0, 0),
        SockFilter::new(RETURN, 0, 0, u32::from(u16::MAX)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ip_prints_is_understood() {
        // Printed by iproute2 6.1.
        let text = r#"[{"dst":"10.9.0.2","dev":"veth0","lladdr":"52:54:00:12:34:56","state":["REACHABLE"]}]"#;
        let entry = read(text).unwrap().unwrap();
        assert_eq!(entry.card, [0x52, 0x54, 0, 0x12, 0x34, 0x56]);
        assert_eq!((entry.interface.as_str(), entry.hold), ("veth0", None));
        assert_eq!(read("").unwrap(), None);
        let failed = r#"[{"dst":"10.9.0.3","dev":"veth0","state":["FAILED"]}]"#;
        assert_eq!(read(failed).unwrap(), None);
        let theirs = text.replace("REACHABLE", "PERMANENT");
        assert_eq!(read(&theirs).unwrap().unwrap().hold, Some(Hold::Theirs));
        let ours = theirs.replace("]}", r#"],"protocol":"78"}"#);
        assert_eq!(read(&ours).unwrap().unwrap().hold, Some(Hold::Ours));
        assert!(read("10.9.0.2 dev veth0").is_err());
    }
}
