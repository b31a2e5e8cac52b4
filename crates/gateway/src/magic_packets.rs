//! Magic packets of other machines in the local network: they wake a server through the proxy, which then knows that it
//! is to be awake, and sends the packet itself.
//!
//! ```text
//! socket -> wol::heard (is it one?) -> judge (pure: which server, may it?) -> the server's supervisor
//! ```

pub(crate) mod tally;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use nightwatt_policy::lifecycle::Phase;
use nightwatt_policy::manager::Order;
use nightwatt_power::wol::{self, Mac};
use socket2::{Domain, Protocol, Type};
use tokio::net::UdpSocket;
use tokio::task::JoinSet;

use self::tally::{MagicPackets, Outcome};
use crate::config::{MagicPacketsConfig, own};
use crate::gateway::Gateway;
use crate::live::Live;
use crate::supervisor::Supervisor;

/// A longer datagram is no magic packet.
const LONGEST: usize = 256;

/// A server, and the cards of it.
struct Card {
    wol: wol::Config,
    server: Arc<Supervisor>,
}

/// Which server a packet is for; else why it wakes none.
fn judge<'a>(
    config: &MagicPacketsConfig,
    cards: impl Iterator<Item = &'a wol::Config>,
    source: IpAddr,
    payload: &[u8],
) -> Result<(usize, Mac), Outcome> {
    if !config.hears(source) {
        return Err(Outcome::Network);
    }
    let heard = wol::heard(payload).ok_or(Outcome::Malformed)?;
    let mut why = Outcome::Unknown;
    for (index, card) in cards.enumerate().filter(|(_, card)| card.is_for(&heard)) {
        if card.accepts(&heard) {
            return Ok((index, heard.mac));
        }
        why = Outcome::Password;
    }
    Err(why)
}

/// Hears magic packets as long as the gateway runs.
pub(crate) async fn run(mut live: Live<Gateway>) {
    loop {
        let _listening = listen(&live.now());
        live.changed().await;
    }
}

/// Listens as configured, until the result is dropped. In shadow mode no server is woken.
fn listen(gateway: &Gateway) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    let state = &gateway.magic_packets;
    state.note(None);
    let Some(config) = &gateway.serving.config.magic_packets else { return tasks };
    if gateway.serving.observe {
        return tasks;
    }
    let cards = Arc::new(cards(gateway));
    for address in &config.listen {
        match bind(*address) {
            Ok(socket) => {
                let ear = Ear {
                    socket,
                    config: config.clone(),
                    cards: Arc::clone(&cards),
                    state: Arc::clone(state),
                };
                tasks.spawn(ear.hear());
            }
            Err(error) => {
                let hint = "ports below 1024 need root or CAP_NET_BIND_SERVICE; only one program may have the port";
                tracing::error!(%address, %error, hint, "magic packets are not heard at this address");
                state.note(Some(format!("not heard at {address}: {error}")));
            }
        }
    }
    tasks
}

/// The servers that packets can wake.
fn cards(gateway: &Gateway) -> Vec<Card> {
    let config = &gateway.serving.config;
    let found = |name: &str| gateway.supervisors().find(|it| it.name() == name);
    let card = |it: crate::config::PacketServer<'_>| {
        Some(Card { wol: it.wol.clone(), server: Arc::clone(found(it.name)?) })
    };
    config.packet_servers().filter_map(card).collect()
}

fn bind(address: SocketAddr) -> std::io::Result<UdpSocket> {
    let domain = Domain::for_address(address);
    let socket = socket2::Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_nonblocking(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.bind(&address.into())?;
    UdpSocket::from_std(socket.into())
}

/// A socket that is listened at.
struct Ear {
    socket: UdpSocket,
    config: MagicPacketsConfig,
    cards: Arc<Vec<Card>>,
    state: Arc<MagicPackets>,
}

impl Ear {
    async fn hear(self) {
        let mut buffer = [0; LONGEST];
        loop {
            // An error is that of an earlier datagram, or of this moment.
            let Ok((length, source)) = self.socket.recv_from(&mut buffer).await else {
                tokio::task::yield_now().await;
                continue;
            };
            let outcome = self.heard(source.ip(), &buffer[..length]);
            tracing::debug!(%source, outcome = outcome.as_str(), "a datagram at the port of magic packets");
            self.state.count(outcome);
        }
    }

    fn heard(&self, source: IpAddr, payload: &[u8]) -> Outcome {
        let cards = self.cards.iter().map(|it| &it.wol);
        let (index, mac) = match judge(&self.config, cards, source, payload) {
            Ok(found) => found,
            Err(why) => return why,
        };
        // What wakes a server is sent to all machines of the network, this one too.
        if own::is_here(source.to_canonical()) {
            return Outcome::Own;
        }
        let server = &self.cards[index].server;
        if matches!(server.phase_now(), Phase::Awake | Phase::Waking) {
            return Outcome::Awake;
        }
        if !self.state.admits(server.clock().now().mono, self.config.wakes, mac) {
            return Outcome::Rate;
        }
        tracing::info!(server = server.name(), %mac, %source, "a magic packet wakes a server");
        server.order(Order::WakeForPacket(self.config.stay_awake));
        Outcome::Woke
    }
}

#[cfg(test)]
mod tests {
    use nightwatt_energy::time::Mono;

    use super::*;

    fn wol(lines: &str) -> wol::Config {
        toml::from_str(lines).unwrap()
    }

    fn packet(mac: [u8; 6], password: &[u8]) -> Vec<u8> {
        [&[0xff; 6][..], &mac.repeat(16), password].concat()
    }

    #[test]
    fn a_packet_is_for_the_server_with_its_card_and_its_password() {
        let config: MagicPacketsConfig = toml::from_str("").unwrap();
        let cards = [
            wol("mac = [\"52:54:00:00:00:01\", \"52:54:00:00:00:02\"]"),
            wol("mac = \"52:54:00:00:00:03\"\npassword = \"01:02:03:04\""),
        ];
        let mac = |last| [0x52, 0x54, 0, 0, 0, last];
        for (source, payload, becomes) in [
            ("192.168.0.7", packet(mac(2), &[]), Ok(0)),
            ("192.168.0.7", packet(mac(1), &[1, 2, 3, 4]), Ok(0)),
            ("192.168.0.7", packet(mac(3), &[1, 2, 3, 4]), Ok(1)),
            ("192.168.0.7", packet(mac(3), &[]), Err(Outcome::Password)),
            ("192.168.0.7", packet(mac(4), &[]), Err(Outcome::Unknown)),
            ("192.168.0.7", b"hello".to_vec(), Err(Outcome::Malformed)),
            ("203.0.113.7", packet(mac(1), &[]), Err(Outcome::Network)),
        ] {
            let judged = judge(&config, cards.iter(), source.parse().unwrap(), &payload);
            assert_eq!(judged.map(|it| it.0), becomes, "{source} {payload:?}");
        }
    }

    #[test]
    fn a_server_is_woken_at_the_rate_of_the_configuration() {
        let (state, rate) = (MagicPackets::default(), "2/h".parse().unwrap());
        let mac = |last| Mac([0x52, 0x54, 0, 0, 0, last]);
        let admits = |at, last| state.admits(Mono::from_secs(at), rate, mac(last));
        assert!(admits(0, 1) && admits(0, 1) && !admits(0, 1), "two at once");
        assert!(admits(0, 2), "another server");
        assert!(!admits(1_799, 1) && admits(1_800, 1), "and one each half hour");
    }
}
