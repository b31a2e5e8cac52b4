//! Datagrams between three machines: client, proxy and server, each in a network namespace of its own. The test starts
//! itself again in the proxy's.

use std::fs::File;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nightwatt_needs::{command, path, programs};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::datagrams::{Peer, dropped, echo, outcome, status, with_echo};
use crate::passthrough_programs::{run, services, succeeded};
use crate::stage::{Setup, Stage, asleep, awake, settle};

const WITHIN: &str = "NIGHTWATT_GATEWAY_NAMESPACE";

/// Whether this is the proxy's namespace. If not, the test is run there, and it is over here.
fn within(test: &str, tools: &[&str]) -> bool {
    within_at(&format!("datagrams_namespaces::{test}"), tools)
}

/// The same for a test of another module.
pub(crate) fn within_at(test: &str, tools: &[&str]) -> bool {
    if std::env::var_os(WITHIN).is_some() {
        return true;
    }
    if !rustix::process::geteuid().is_root() {
        println!("skipped: a network namespace needs root");
        return false;
    }
    if !programs(&["ip"]) || !programs(tools) {
        return false;
    }
    let output = Command::new("unshare")
        .args(["--net", "--"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(WITHIN, "1")
        .env("PATH", path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if said.contains("skipped:") {
        print!("{said}");
    }
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    false
}

pub(crate) fn ip(line: &str) {
    succeeded(&command("ip").args(line.split(' ')).output().unwrap());
}

/// A machine at the other end of a cable.
pub(crate) struct Other {
    keeper: Child,
    children: Vec<Child>,
}

impl Drop for Other {
    fn drop(&mut self) {
        for child in self.children.iter_mut().chain([&mut self.keeper]) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Other {
    /// A machine called `name` in networks with this number: it has the address 2, the proxy 1.
    pub(crate) fn new(name: &str, network: u8) -> Self {
        let keeper = Command::new("unshare")
            .args(["--net", "sleep", "600"])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let it = Self { keeper, children: Vec::new() };
        let own = std::fs::read_link("/proc/self/ns/net").unwrap();
        let is_apart = || std::fs::read_link(it.namespace()).is_ok_and(|other| other != own);
        while !is_apart() {
            std::thread::yield_now();
        }
        ip(&format!("link add {name} type veth peer name eth0 netns {}", it.keeper.id()));
        for (at, here) in [(None, 1), (Some(&it), 2)] {
            let device = if at.is_none() { name } else { "eth0" };
            for address in
                [format!("10.7.{network}.{here}/24"), format!("fd07:{network}::{here}/64 nodad")]
            {
                it.ip_at(at.is_some(), &format!("addr add {address} dev {device}"));
            }
            it.ip_at(at.is_some(), &format!("link set {device} up"));
        }
        it.ip_at(true, "link set lo up");
        it
    }

    fn namespace(&self) -> String {
        format!("/proc/{}/ns/net", self.keeper.id())
    }

    /// A program on this machine.
    pub(crate) fn at(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.namespace())).arg(program).env("PATH", path());
        command
    }

    pub(crate) fn ip_at(&self, there: bool, line: &str) {
        if there {
            succeeded(&self.at("ip").args(line.split(' ')).output().unwrap());
        } else {
            ip(line);
        }
    }

    /// The result of `work` on this machine.
    fn within<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let namespace = File::open(self.namespace()).unwrap();
        let there = std::thread::spawn(move || {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            work()
        });
        there.join().unwrap()
    }

    pub(crate) fn socket(&self, address: &str) -> UdpSocket {
        let address: IpAddr = address.parse().unwrap();
        let socket = self.within(move || UdpSocket::bind((address, 0)).unwrap());
        socket.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
        socket
    }
}

/// A server that is woken at once, in real time.
fn server(table: &str) -> Setup {
    services(asleep().real(), format!("[[udp]]\nname = \"it\"\non = \"blog\"\n{table}\n"))
}

/// Waits for it, no longer than a minute.
async fn eventually(what: &str, stage: &Stage, so: impl Fn() -> bool) {
    for _ in 0..1200 {
        if so() {
            return;
        }
        stage.clock.sleep(Duration::from_millis(50)).await;
    }
    panic!("{what}: {:?}", status(stage));
}

/// What comes to a socket beside the gateway, which runs on this thread.
async fn heard(socket: &UdpSocket) -> (Vec<u8>, SocketAddr) {
    let socket = socket.try_clone().unwrap();
    let comes = tokio::task::spawn_blocking(move || {
        let mut bytes = vec![0; 65_535];
        let (length, from) = socket.recv_from(&mut bytes).expect("a datagram");
        bytes.truncate(length);
        (bytes, from)
    });
    comes.await.unwrap()
}

#[test]
fn a_datagram_wakes_the_server_of_an_echo_and_the_answer_comes_from_the_address_that_was_asked() {
    if !within(
        "a_datagram_wakes_the_server_of_an_echo_and_the_answer_comes_from_the_address_that_was_asked",
        &[],
    ) {
        return;
    }
    ip("link set lo up");
    let (client, far) = (Other::new("client", 1), Other::new("server", 2));
    for (version, own, origin, any) in [
        ("10.7.1.2", "10.7.1.1", "10.7.2.2", "0.0.0.0"),
        ("fd07:1::2", "fd07:1::1", "fd07:2::2", "[::]"),
        // IPv4 at a socket for both.
        ("10.7.1.2", "10.7.1.1", "fd07:2::2", "[::]"),
    ] {
        let service = far.socket(origin);
        let at = service.local_addr().unwrap();
        let table = format!("listen = [\"{any}:0\"]\norigin = \"{at}\"");
        server(&table).play(async |stage| {
            let socket = client.socket(version);
            let to = SocketAddr::new(own.parse().unwrap(), stage.running().udp_addresses[0].port());
            socket.connect(to).unwrap();
            assert_eq!(stage.state(), "asleep");
            // One is longer than the cable takes at once.
            for said in [b"hello".to_vec(), vec![7; 4000]] {
                socket.send(&said).unwrap();
                let (bytes, from) = heard(&service).await;
                assert_eq!(bytes, said);
                service.send_to(&said, from).unwrap();
                assert_eq!(heard(&socket).await.0, said, "only what comes from {to}");
            }
            assert_eq!(stage.commands().0, 1);
            let it = status(stage);
            assert_eq!((it.sessions, it.received, it.sent), (1, 2, 2), "{it:?}");
        });
    }
}

/// Keys of a machine: the private one as `wg` writes it, and the public one.
fn keys() -> [String; 2] {
    let private = succeeded(&command("wg").arg("genkey").output().unwrap());
    let mut wg =
        command("wg").arg("pubkey").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut wg.stdin.take().unwrap(), private.as_bytes()).unwrap();
    let public = succeeded(&wg.wait_with_output().unwrap());
    [private.trim().to_owned(), public.trim().to_owned()]
}

impl Other {
    /// `WireGuard` on this machine, by a device of this name; `address` within the tunnel.
    fn wireguard(&mut self, device: &str, address: &str, settings: &str, dir: &std::path::Path) {
        let socket = format!("/var/run/wireguard/{device}.sock");
        // Of a process with the same number that was killed: `wg` removes it while the daemon replaces it.
        let _ = std::fs::remove_file(&socket);
        let mut daemon = self.at("wireguard-go");
        daemon.args(["--foreground", device]).env("LOG_LEVEL", "error").stdin(Stdio::null());
        self.children.push(daemon.spawn().unwrap());
        let is_there =
            || self.at("ip").args(["link", "show", device]).output().unwrap().status.success();
        while !is_there() || !std::path::Path::new(&socket).exists() {
            std::thread::yield_now();
        }
        let file = dir.join(device);
        std::fs::write(&file, settings).unwrap();
        succeeded(&self.at("wg").args(["setconf", device]).arg(&file).output().unwrap());
        self.ip_at(true, &format!("addr add {address} dev {device}"));
        self.ip_at(true, &format!("link set {device} up"));
    }
}

#[test]
fn a_wireguard_client_that_knows_the_server_wakes_it_and_others_do_not() {
    let test = "a_wireguard_client_that_knows_the_server_wakes_it_and_others_do_not";
    if !within(test, &["wireguard-go", "wg", "ping"]) {
        return;
    }
    if !std::path::Path::new("/dev/net/tun").exists() {
        println!("skipped: there is no /dev/net/tun");
        return;
    }
    ip("link set lo up");
    let (mut client, mut far) = (Other::new("client", 1), Other::new("server", 2));
    let dir = tempfile::tempdir().unwrap();
    let ([client_key, client_public], [server_key, server_public]) = (keys(), keys());
    let (near_device, far_device) =
        (format!("nwc{}", std::process::id()), format!("nws{}", std::process::id()));
    let settings = format!(
        "[Interface]\nPrivateKey = {server_key}\nListenPort = 51820\n[Peer]\nPublicKey = {client_public}\n\
         AllowedIPs = 10.9.0.1/32\n"
    );
    far.wireguard(&far_device, "10.9.0.2/24", &settings, dir.path());
    let table = format!(
        "listen = [\"0.0.0.0:0\"]\norigin = \"10.7.2.2:51820\"\nwake_on = \"wireguard\"\nwireguard_key = \"{server_public}\""
    );
    server(&table).play(async |stage| {
        let port = stage.running().udp_addresses[0].port();
        // A stranger whose handshake has the right form, but is for another server.
        let stranger = client.socket("10.7.1.2");
        let message = [[1, 0, 0, 0].as_slice(), &[7; 144]].concat();
        stranger.send_to(&message, ("10.7.1.1", port)).unwrap();
        eventually("the stranger's message is dropped", stage, || {
            status(stage).dropped.get("no-wake") == Some(&1)
        })
        .await;
        assert_eq!((stage.state().as_str(), stage.commands()), ("asleep", (0, 0)));
        let settings = format!(
            "[Interface]\nPrivateKey = {client_key}\n[Peer]\nPublicKey = {server_public}\n\
             AllowedIPs = 10.9.0.2/32\nEndpoint = 10.7.1.1:{port}\n"
        );
        client.wireguard(&near_device, "10.9.0.1/24", &settings, dir.path());
        let mut ping = client.at("ping");
        ping.args(["-c", "3", "-i", "0.2", "-W", "20", "10.9.0.2"]);
        let said = succeeded(&run(ping).await);
        assert!(said.contains("3 received"), "{said}");
        assert_eq!(stage.commands().0, 1);
        let it = status(stage);
        assert_eq!((it.sessions, it.active), (1, 1), "{it:?}");
        assert!(it.sent >= 4, "the handshake's answer and three of ping: {it:?}");
    });
}

/// Ports of this namespace for programs that ask for any.
fn only_ports(first: u16, last: u16) {
    std::fs::write("/proc/sys/net/ipv4/ip_local_port_range", format!("{first} {last}")).unwrap();
}

#[test]
fn a_late_answer_to_an_old_session_does_not_reach_the_client_of_a_new_one() {
    let test = "a_late_answer_to_an_old_session_does_not_reach_the_client_of_a_new_one";
    if !within(test, &[]) {
        return;
    }
    ip("link set lo up");
    let (setup, socket) = with_echo(awake(), "");
    setup.play(async |stage| {
        let heard = echo(socket.try_clone().unwrap());
        // Two ports are there for sessions: the clients have others.
        only_ports(40_000, 40_001);
        let mut clients = Vec::new();
        for port in 50_001..50_005 {
            let to = stage.running().udp_addresses[0];
            let client = tokio::net::UdpSocket::bind(("127.0.0.1", port)).await.unwrap();
            client.connect(to).await.unwrap();
            clients.push(Peer(client));
        }
        let exhausted = || outcome(stage, "exhausted");
        clients[0].say(stage, b"-slow").await;
        let old = heard.lock().unwrap()[0].0;
        stage.at(31).await;
        assert_eq!(outcome(stage, "unanswered"), 1, "the first session is over");
        clients[1].say(stage, b"one").await;
        assert_eq!(clients[1].hears(stage).await, b"one");
        let new = heard.lock().unwrap()[1].0;
        assert_ne!(new.port(), old.port());
        // The only port that is left belonged to the first session: this client gets no port.
        clients[2].say(stage, b"two").await;
        assert_eq!((exhausted(), heard.lock().unwrap().len()), (1, 2));
        socket.send_to(b"for the first client", old).unwrap();
        settle(&stage.clock).await;
        for client in &clients {
            let got = client.0.try_recv(&mut [0; 64]);
            assert!(got.is_err(), "an answer for another client: {got:?}");
        }
        // Two minutes after the first session.
        stage.at(149).await;
        clients[2].say(stage, b"-two").await;
        assert_eq!(exhausted(), 2);
        stage.at(152).await;
        clients[3].say(stage, b"three").await;
        assert_eq!(clients[3].hears(stage).await, b"three");
        assert_eq!(heard.lock().unwrap()[2].0.port(), old.port());
    });
}

#[test]
fn a_broadcast_wakes_no_server() {
    if !within("a_broadcast_wakes_no_server", &[]) {
        return;
    }
    ip("link set lo up");
    let other = Other::new("client", 1);
    let (setup, _socket) = with_echo(asleep(), "listen = [\"0.0.0.0:0\"]");
    setup.real().play(async |stage| {
        let port = stage.running().udp_addresses[0].port();
        let socket = other.socket("10.7.1.2");
        socket.set_broadcast(true).unwrap();
        for (number, to) in ["10.7.1.255", "255.255.255.255"].into_iter().enumerate() {
            socket.send_to(b"all", (to, port)).unwrap();
            let all = u64::try_from(number).unwrap() + 1;
            eventually("a broadcast", stage, || dropped(stage, "network") == all).await;
        }
        assert_eq!((status(stage).sessions, stage.state().as_str()), (0, "asleep"));
        socket.send_to(b"one", ("10.7.1.1", port)).unwrap();
        eventually("a datagram", stage, || status(stage).sessions == 1).await;
    });
}
