//! Wake-on-LAN: a magic packet to the network card of a sleeping machine.
//!
//! ```toml
//! [site.power.wake.wol]
//! mac = "52:54:00:12:34:56"         # or several, as ["...", "..."]
//! interface = "eth0"                # optional: all that have an IPv4 address
//! to = "255.255.255.255:9"          # optional: a broadcast address, a directed one, or the machine's
//! raw = false                       # optional: as an Ethernet frame (0x0842); needs CAP_NET_RAW
//! password = "00:11:22:33:44:55"    # optional: SecureOn, six bytes or four
//! ```
//!
//! The packet is six bytes of ones, the card's address sixteen times, and the password (AMD, "Magic Packet
//! Technology", 1995). It is not acknowledged and may get lost: it is sent twice at once, and again while
//! the server does not answer: every second ten times, then after 2, 4 and every 8 s.
//!
//! `to` the machine's own address reaches it beyond routers, if the last one still knows (or is told,
//! by a static entry) which card has that address.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_energy::time::Mono;
use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;
use pnet_datalink::{Channel, NetworkInterface};
use serde::{Deserialize, Deserializer};
use socket2::{Domain, Protocol, Socket, Type};
use tracing::debug;

use crate::facts::{Facts, Program};
use crate::{ConfigError, Context, Controller, Error, Observed, Work};

/// The discard service, the usual port.
const PORT: u16 = 9;

/// What the head of a frame says of a magic packet that is no IP.
const ETHERTYPE: [u8; 2] = [0x08, 0x42];

/// Number of copies sent at once: where one in a thousand is lost, both are lost in a million.
const AT_ONCE: u32 = 2;

/// While a client waits: the first pause between packets, and the number of packets with that pause.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const IN_A_ROW: u32 = 10;

/// Later there is another reason than a lost packet. Pauses grow up to this.
const LONGEST_PAUSE: Duration = Duration::from_secs(8);

/// The table `[site.power.wake.wol]`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Addresses of its network cards.
    #[serde(deserialize_with = "one_or_more")]
    pub mac: Vec<Mac>,
    /// The interface that sends; default: all with an IPv4 address.
    #[serde(default)]
    pub interface: Option<String>,
    /// Where to.
    #[serde(default = "everybody", deserialize_with = "address")]
    pub to: SocketAddr,
    /// As an Ethernet frame.
    #[serde(default)]
    pub raw: bool,
    /// The password of the card, if it has one.
    #[serde(default)]
    pub password: Option<Password>,
}

fn everybody() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::BROADCAST, PORT))
}

/// The address of a network card.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Mac(pub [u8; 6]);

impl std::fmt::Display for Mac {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.map(|byte| format!("{byte:02x}")).join(":"))
    }
}

impl TryFrom<String> for Mac {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let bytes = bytes(&text).and_then(|bytes| <[u8; 6]>::try_from(bytes).ok());
        // A group address (the first byte is odd) and the zero address belong to no single card.
        let bytes = bytes.filter(|bytes| bytes[0] & 1 == 0 && *bytes != [0; 6]);
        bytes.map(Self).ok_or_else(|| {
            format!("`{text}` is no address of a network card, as 52:54:00:12:34:56 is (`ip link`)")
        })
    }
}

/// What the network card wants to hear beside its address.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Password(Vec<u8>);

impl TryFrom<String> for Password {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let bytes = bytes(&text).filter(|bytes| matches!(bytes.len(), 4 | 6));
        // Whatever it is, it is not repeated.
        bytes.map(Self).ok_or_else(|| {
            "a SecureOn password is six bytes as 00:11:22:33:44:55, or four".to_owned()
        })
    }
}

impl std::fmt::Debug for Password {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Password(..)")
    }
}

/// Bytes as two digits each, between colons or dashes.
fn bytes(text: &str) -> Option<Vec<u8>> {
    let byte = |part: &str| {
        let is_byte = part.len() == 2 && part.bytes().all(|digit| digit.is_ascii_hexdigit());
        is_byte.then(|| u8::from_str_radix(part, 16).ok()).flatten()
    };
    text.split([':', '-']).map(byte).collect()
}

fn one_or_more<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Mac>, D::Error> {
    struct OneOrMore;

    impl<'de> serde::de::Visitor<'de> for OneOrMore {
        type Value = Vec<Mac>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an address of a network card, or a list of them")
        }

        fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Vec<Mac>, E> {
            Mac::try_from(text.to_owned()).map(|mac| vec![mac]).map_err(E::custom)
        }

        fn visit_seq<A: serde::de::SeqAccess<'de>>(
            self,
            mut list: A,
        ) -> Result<Vec<Mac>, A::Error> {
            let mut all = Vec::new();
            while let Some(mac) = list.next_element()? {
                all.push(mac);
            }
            if all.is_empty() {
                return Err(serde::de::Error::custom("there is no address: whom is it to wake?"));
            }
            Ok(all)
        }
    }

    deserializer.deserialize_any(OneOrMore)
}

fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    let text = String::deserialize(deserializer)?;
    let with_port = text.parse::<SocketAddr>().ok();
    let address = with_port.or_else(|| Some(SocketAddr::new(text.parse().ok()?, PORT)));
    address.ok_or_else(|| {
        serde::de::Error::custom(format!(
            "`{text}` is no address, with or without a port, as 10.0.0.255:9 is; names are not looked \
             up, since what resolves them may sleep too"
        ))
    })
}

impl Config {
    pub(crate) fn facts(&self) -> Facts<'_> {
        let program = Some(Program { name: "ip", package: "iproute2" });
        let machine = self.mac.iter().map(Mac::to_string).collect();
        let is_open = self.raw && self.interface.is_none();
        let fault = is_open.then(|| "`raw` frames go through one `interface`: say which".into());
        Facts { program, is_mute: true, machine, fault, ..Facts::default() }
    }

    /// The controller so configured.
    pub fn build(&self, context: &Context) -> Result<Wol, ConfigError> {
        let packets = self.mac.iter().map(|mac| packet(*mac, self.password.as_ref())).collect();
        let pause = Mutex::new(Pause::default());
        Ok(Wol { config: self.clone(), packets, clock: context.clock.clone(), pause })
    }
}

/// The synchronisation of a magic packet, and how often the card's address follows.
const SYNC: [u8; 6] = [0xff; 6];
const TIMES: usize = 16;

/// A magic packet that another machine has sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heard<'a> {
    /// The card that is to wake its machine.
    pub mac: Mac,
    /// The password behind: four bytes, six, or none.
    pub password: &'a [u8],
}

/// Reads the payload of a magic packet; nothing if it is not one. What programs send has nothing before it, and behind
/// it nothing but a password.
pub fn heard(payload: &[u8]) -> Option<Heard<'_>> {
    let rest = payload.strip_prefix(&SYNC)?;
    let (addresses, password) = rest.split_at_checked(6 * TIMES)?;
    let mac: [u8; 6] = *addresses.first_chunk()?;
    let is_repeated = addresses.chunks_exact(6).all(|it| it == mac);
    let is_whole = matches!(password.len(), 0 | 4 | 6);
    (is_repeated && is_whole).then_some(Heard { mac: Mac(mac), password })
}

impl Config {
    /// Whether a packet is for one of its cards.
    pub fn is_for(&self, heard: &Heard<'_>) -> bool {
        self.mac.contains(&heard.mac)
    }

    /// Whether the packet has the password that the card wants, if it wants one.
    pub fn accepts(&self, heard: &Heard<'_>) -> bool {
        self.password.as_ref().is_none_or(|password| password.0 == heard.password)
    }
}

/// What the card listens for.
fn packet(mac: Mac, password: Option<&Password>) -> Vec<u8> {
    let mut packet = SYNC.to_vec();
    packet.extend(mac.0.repeat(TIMES));
    packet.extend(password.iter().flat_map(|password| &password.0));
    packet
}

/// The controller; see the [module](self).
#[derive(Debug)]
pub struct Wol {
    config: Config,
    packets: Vec<Vec<u8>>,
    clock: Clock,
    pause: Mutex<Pause>,
}

/// When the packet is sent again.
#[derive(Debug)]
struct Pause {
    next: Mono,
    gap: Duration,
    sent: u32,
}

impl Default for Pause {
    /// No packet is due.
    fn default() -> Self {
        Self { next: Mono::NEVER, gap: FIRST_PAUSE, sent: 0 }
    }
}

impl Pause {
    /// It was sent for the first time.
    fn begin(&mut self, now: Mono) {
        *self = Self { next: now + FIRST_PAUSE, ..Self::default() };
    }

    /// Is it time to send it again?
    fn is_over(&mut self, now: Mono) -> bool {
        let over = now >= self.next;
        if over {
            self.sent += 1;
            if self.sent >= IN_A_ROW {
                self.gap = (self.gap * 2).min(LONGEST_PAUSE);
            }
            self.next = now + self.gap;
        }
        over
    }
}

impl Wol {
    fn pause(&self) -> std::sync::MutexGuard<'_, Pause> {
        self.pause.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send(&self) -> Result<(), Error> {
        if self.config.raw { self.send_raw() } else { self.send_by_udp() }
    }

    /// Through every interface: one that takes it is enough.
    fn send_by_udp(&self) -> Result<(), Error> {
        let to = self.config.to;
        let everywhere = self.config.interface.is_none() && to.ip() == Ipv4Addr::BROADCAST;
        let interfaces = match &self.config.interface {
            Some(name) => vec![Some(name.clone())],
            None if everywhere => {
                let attempt = "list the network interfaces".to_owned();
                let found = interfaces_with_ipv4();
                let found = found.map_err(|source| Error::System { attempt, source })?;
                // None is up: the kernel says so best.
                if found.is_empty() { vec![None] } else { found.into_iter().map(Some).collect() }
            }
            None => vec![None],
        };
        let mut last = Ok(());
        let mut sent = false;
        for interface in interfaces {
            for packet in &self.packets {
                match send_udp(interface.as_deref(), to, packet) {
                    Ok(()) => sent = true,
                    Err(source) => {
                        let through = interface
                            .as_ref()
                            .map(|name| format!(" through {name}"))
                            .unwrap_or_default();
                        let attempt = format!("send a magic packet to {to}{through}");
                        last = Err(Error::System { attempt, source });
                    }
                }
            }
        }
        debug!(%to, sent, "magic packets");
        if sent { Ok(()) } else { last }
    }

    fn send_raw(&self) -> Result<(), Error> {
        let name = self.config.interface.as_deref().unwrap_or_default();
        let failed = |source| {
            let attempt = format!("send an Ethernet frame through `{name}`");
            Error::System { attempt, source }
        };
        let absent = || io::Error::new(io::ErrorKind::NotFound, "there is no such interface");
        let interfaces = pnet_datalink::interfaces();
        let interface = interfaces.iter().find(|interface| interface.name == name);
        let interface = interface.ok_or_else(absent).map_err(failed)?;
        let mut frames = self.packets.iter().zip(&self.config.mac);
        let sent = frames.try_for_each(|(packet, mac)| send_frame(interface, *mac, packet));
        sent.map_err(failed)
    }
}

/// Names of interfaces that are up, can broadcast and have an IPv4 address; without the loopback.
fn interfaces_with_ipv4() -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for interface in getifaddrs()? {
        let flags = interface.flags;
        let has_ipv4 = interface.address.is_some_and(|it| it.as_sockaddr_in().is_some());
        let can = flags.contains(InterfaceFlags::IFF_UP | InterfaceFlags::IFF_BROADCAST)
            && !flags.contains(InterfaceFlags::IFF_LOOPBACK);
        if has_ipv4 && can && !names.contains(&interface.interface_name) {
            names.push(interface.interface_name);
        }
    }
    Ok(names)
}

fn send_udp(interface: Option<&str>, to: SocketAddr, packet: &[u8]) -> io::Result<()> {
    let socket = Socket::new(Domain::for_address(to), Type::DGRAM, Some(Protocol::UDP))?;
    if let Some(name) = interface {
        socket.bind_device(Some(name.as_bytes()))?;
    }
    if to.is_ipv4() {
        socket.set_broadcast(true)?;
    }
    let sent = UdpSocket::from(socket).send_to(packet, to)?;
    if sent == packet.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

fn send_frame(interface: &NetworkInterface, to: Mac, packet: &[u8]) -> io::Result<()> {
    let ours = interface.mac.map_or([0; 6], |mac| mac.octets());
    let frame: Vec<u8> = [&to.0[..], &ours, &ETHERTYPE, packet].concat();
    let config = pnet_datalink::Config { promiscuous: false, ..pnet_datalink::Config::default() };
    let Channel::Ethernet(mut sender, _) = pnet_datalink::channel(interface, config)? else {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "it carries no Ethernet frames"));
    };
    sender.send_to(&frame, None).unwrap_or_else(|| Err(io::ErrorKind::WriteZero.into()))
}

impl Controller for Wol {
    fn wake(&self) -> Work<'_, ()> {
        Box::pin(async {
            self.pause().begin(self.clock.now().mono);
            (0..AT_ONCE).try_for_each(|_| self.send())
        })
    }

    /// `wol` cannot, and no configuration lets it.
    fn sleep(&self) -> Work<'_, ()> {
        let source = io::ErrorKind::Unsupported.into();
        let attempt = "put a server to sleep by Wake-on-LAN".to_owned();
        Box::pin(std::future::ready(Err(Error::System { attempt, source })))
    }

    fn state(&self) -> Work<'_, Observed> {
        Box::pin(std::future::ready(Ok(Observed::Unknown)))
    }

    fn remind(&self) -> Work<'_, ()> {
        Box::pin(async {
            if self.pause().is_over(self.clock.now().mono) { self.send() } else { Ok(()) }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_is_heard_and_what_is_cut_or_changed_is_not() {
        let mac = Mac([0x52, 0x54, 0, 0x12, 0x34, 0x56]);
        let password = Password::try_from("00:11:22:33:44:55".to_owned()).unwrap();
        let (plain, secret) = (packet(mac, None), packet(mac, Some(&password)));
        assert_eq!((plain.len(), secret.len()), (102, 108));
        assert_eq!(heard(&plain), Some(Heard { mac, password: &[] }));
        assert_eq!(
            heard(&secret),
            Some(Heard { mac, password: &[0, 0x11, 0x22, 0x33, 0x44, 0x55] })
        );
        for length in (0..108).filter(|length| ![102, 106].contains(length)) {
            assert_eq!(heard(&secret[..length]), None, "{length}");
        }
        for at in 0..102 {
            let mut changed = plain.clone();
            changed[at] ^= 1;
            assert_eq!(heard(&changed), None, "{at}");
        }
        let config: Config =
            toml::from_str("mac = \"52:54:00:12:34:56\"\npassword = \"00:11:22:33:44:55\"")
                .unwrap();
        let [plain, secret] = [&plain, &secret].map(|it| heard(it).unwrap());
        assert!(config.is_for(&plain) && !config.accepts(&plain) && config.accepts(&secret));
    }

    #[test]
    fn it_is_sent_again_every_second_and_later_after_longer_pauses() {
        let mut pause = Pause::default();
        assert!(!pause.is_over(Mono::from_secs(1000)), "nobody is to wake");
        pause.begin(Mono::from_secs(100));
        let seconds = (100..140).filter(|second| pause.is_over(Mono::from_secs(*second)));
        assert_eq!(
            seconds.collect::<Vec<_>>(),
            [101, 102, 103, 104, 105, 106, 107, 108, 109, 110, 112, 116, 124, 132]
        );
        pause.begin(Mono::from_secs(200));
        assert!(pause.is_over(Mono::from_secs(201)), "the next time it begins anew");
    }
}
