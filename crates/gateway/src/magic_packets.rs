//! Magic packets of other machines in the local network: they wake a server through the proxy, which then knows that it
//! is to be awake, and sends the packet itself.
//!
//! ```text
//! socket -> wol::heard (is it one?) -> judge (pure: which server, may it?) -> the server's supervisor
//! ```

pub(crate) mod tally;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use nightwatt_policy::lifecycle::Phase;
use nightwatt_policy::manager::Order;
use nightwatt_power::wol::{self, Mac};
use socket2::{Domain, Protocol, Type};
use tokio::net::UdpSocket;
use tokio::sync::watch;
use tokio::task::JoinSet;

use self::tally::{MagicPackets, Outcome};
use crate::config::{MagicPacketsConfig, own};
use crate::gateway::Gateway;
use crate::live::Live;
use crate::supervisor::Supervisor;

/// A longer datagram is no magic packet.
const LONGEST: usize = 256;

/// Time between two attempts to listen at an address that another program has, as a predecessor that this process
/// replaces.
const RETRY_EVERY: Duration = Duration::from_secs(10);

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
    let mut sockets = Sockets::default();
    loop {
        let gateway = live.now();
        let is_complete = sockets.turn_to(&gateway).await;
        let clock = gateway.serving.clock.clone();
        drop(gateway);
        tokio::select! {
            () = live.changed() => {}
            () = clock.sleep(RETRY_EVERY), if !is_complete => {}
        }
    }
}

/// What the present configuration does with packets.
struct Plan {
    config: MagicPacketsConfig,
    cards: Vec<Card>,
}

/// An open socket. Once it is dropped, it is closed.
struct Open {
    /// As configured, and the actual address.
    configured: SocketAddr,
    address: SocketAddr,
    plan: watch::Sender<Arc<Plan>>,
    task: JoinSet<()>,
}

/// The sockets that are open. Those at addresses that stay stay open during a reload.
#[derive(Default)]
struct Sockets {
    open: Vec<Open>,
    /// Why an address is not among them.
    problem: Option<String>,
}

impl Sockets {
    /// Listens as configured. In shadow mode no server is woken. Returns whether all addresses are open.
    async fn turn_to(&mut self, gateway: &Gateway) -> bool {
        let config = gateway.serving.config.magic_packets.as_ref();
        let config = config.filter(|_| !gateway.serving.observe);
        let wanted = config.map_or(&[][..], |it| &it.listen);
        for mut gone in self.open.extract_if(.., |it| !wanted.contains(&it.configured)) {
            // Closed when this returns.
            gone.task.shutdown().await;
        }
        let mut problems = Vec::new();
        if let Some(config) = config {
            let plan = Arc::new(Plan { config: config.clone(), cards: cards(gateway) });
            for it in &self.open {
                it.plan.send_replace(Arc::clone(&plan));
            }
            for address in wanted {
                if self.open.iter().any(|it| it.configured == *address) {
                    continue;
                }
                match open(*address, &plan, &gateway.magic_packets) {
                    Ok(socket) => self.open.push(socket),
                    Err(error) => problems.push(format!("not heard at {address}: {error}")),
                }
            }
        }
        let problem = (!problems.is_empty()).then(|| problems.join("; "));
        if let Some(problem) = problem.as_ref().filter(|_| problem != self.problem) {
            let hint = "ports below 1024 need root or CAP_NET_BIND_SERVICE; only one program may have the port";
            tracing::error!(
                problem,
                hint,
                "magic packets are not heard at every address: tried again"
            );
        }
        self.problem.clone_from(&problem);
        let addresses = self.open.iter().map(|it| it.address.to_string()).collect();
        gateway.magic_packets.note(addresses, problem);
        problems.is_empty()
    }
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

/// Listens at an address.
fn open(
    configured: SocketAddr,
    plan: &Arc<Plan>,
    state: &Arc<MagicPackets>,
) -> std::io::Result<Open> {
    let socket = bind(configured)?;
    let address = socket.local_addr()?;
    let (plan, present) = watch::channel(Arc::clone(plan));
    let ear = Ear { socket, plan: present, state: Arc::clone(state) };
    let mut task = JoinSet::new();
    task.spawn(ear.hear());
    Ok(Open { configured, address, plan, task })
}

/// A socket that is listened at.
struct Ear {
    socket: UdpSocket,
    plan: watch::Receiver<Arc<Plan>>,
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
            let plan = Arc::clone(&self.plan.borrow());
            let outcome = self.heard(&plan, source.ip(), &buffer[..length]);
            tracing::debug!(%source, outcome = outcome.as_str(), "a datagram at the port of magic packets");
            self.state.count(outcome);
        }
    }

    fn heard(&self, Plan { config, cards }: &Plan, source: IpAddr, payload: &[u8]) -> Outcome {
        let of_cards = cards.iter().map(|it| &it.wol);
        let (index, mac) = match judge(config, of_cards, source, payload) {
            Ok(found) => found,
            Err(why) => return why,
        };
        // What wakes a server is sent to all machines of the network, this one too.
        if own::is_here(source.to_canonical()) {
            return Outcome::Own;
        }
        let server = &cards[index].server;
        if matches!(server.phase_now(), Phase::Awake | Phase::Waking) {
            return Outcome::Awake;
        }
        if !self.state.admits(server.clock().now().mono, config.wakes, mac) {
            return Outcome::Rate;
        }
        tracing::info!(server = server.name(), %mac, %source, "a magic packet wakes a server");
        server.order(Order::WakeForPacket(config.stay_awake));
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
