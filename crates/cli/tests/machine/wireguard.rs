//! `WireGuard` in the kernel of a machine that truly suspends: a client's handshake wakes it.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};

use nightwatt_needs::{command, program, programs};
use serde_json::{Value, json};

use crate::guest::Guest;
use crate::proxy::Proxy;
use crate::sleep_and_wake::wol_and_ssh;

/// Where clients of the tunnel reach the proxy, and the proxy the guest.
const PORT: u16 = 51820;

/// The client's address in the tunnel, and the guest's.
const NEAR: &str = "10.9.0.1";
const FAR: &str = "10.9.0.2";

/// What a program printed, which has succeeded.
fn printed(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// Keys of a machine: the private one as `wg` writes it, and the public one.
fn keys() -> [String; 2] {
    let private = printed(&command("wg").arg("genkey").output().unwrap());
    let mut wg =
        command("wg").arg("pubkey").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    wg.stdin.take().unwrap().write_all(private.as_bytes()).unwrap();
    let public = printed(&wg.wait_with_output().unwrap());
    [private.trim().to_owned(), public.trim().to_owned()]
}

/// The client's device: no other process has one of this name.
fn device() -> String {
    format!("nwc{}", std::process::id())
}

/// Whether the kernel here can be the client.
fn kernel_can() -> bool {
    let device = device();
    let ip = |args: &[&str]| command("ip").args(args).output().is_ok_and(|it| it.status.success());
    ip(&["link", "add", &device, "type", "wireguard"]) && ip(&["link", "delete", &device])
}

/// A module of the guest's kernel and all that it needs, as `guest up --put` wants them. `--module` puts them under
/// `/lib`, which is a link in Debian's root.
fn module(kernel: &Path, name: &str) -> Vec<String> {
    let version = fs::read_to_string(kernel.join("version")).unwrap();
    let home = format!("lib/modules/{}", version.trim());
    let depends = fs::read_to_string(kernel.join(&home).join("modules.dep")).unwrap();
    let own = format!("/{name}.ko:");
    let line = depends.lines().find(|line| line.contains(&own)).unwrap();
    let files = line.split_whitespace().map(|file| file.trim_end_matches(':'));
    files.map(|file| format!("{}/{home}/{file}:/usr/{home}/{file}", kernel.display())).collect()
}

/// A guest with the module and `wg` in it.
fn guest_with_module(wg: &Path) -> Option<Guest> {
    let kernel = Guest::kernel()?;
    let mut put = module(&kernel, "wireguard");
    put.push(format!("{}:/usr/bin/wg", wg.display()));
    let put = put.iter().flat_map(|what| ["--put", what.as_str()]);
    let options: Vec<&str> = ["--root", "debian"].into_iter().chain(put).collect();
    Guest::up(&options)
}

/// Begins `WireGuard` in the guest's kernel.
fn start_in(guest: &Guest, settings: &str) {
    let modules = guest.exec(&format!(
        "depmod\nset -e\nmodprobe wireguard\nip link add wg0 type wireguard\n\
         cat >/run/wg0.conf <<'END'\n{settings}END\n\
         wg setconf wg0 /run/wg0.conf\nip address add {FAR}/24 dev wg0\nip link set wg0 up\n\
         cut -d ' ' -f 1 /proc/modules"
    ));
    assert!(modules.lines().any(|it| it == "wireguard"), "{modules}");
}

/// The other end of the tunnel, beside the proxy: in the kernel if it can, or `wireguard-go`.
struct Client<'a> {
    guest: &'a Guest,
    device: String,
    daemon: Option<Child>,
}

impl<'a> Client<'a> {
    fn start(guest: &'a Guest, in_kernel: bool, settings: &str) -> Self {
        let device = device();
        let mut client = Self { guest, device: device.clone(), daemon: None };
        if in_kernel {
            client.run("ip", &["link", "add", &device, "type", "wireguard"]);
        } else {
            // Of a process with the same number that was killed: `wg` removes it while the daemon replaces it.
            let _ = fs::remove_file(socket(&device));
            let mut daemon = guest.beside_proxy("wireguard-go");
            daemon.args(["--foreground", &device]).env("LOG_LEVEL", "error").stdin(Stdio::null());
            let daemon = client.daemon.insert(daemon.spawn().unwrap());
            while !socket(&device).exists() {
                assert!(daemon.try_wait().unwrap().is_none(), "wireguard-go has ended");
                std::thread::yield_now();
            }
        }
        let file = guest.path("client.conf");
        fs::write(&file, settings).unwrap();
        client.run("wg", &["setconf", &device, &file.display().to_string()]);
        client.run("ip", &["address", "add", &format!("{NEAR}/24"), "dev", &device]);
        client.run("ip", &["link", "set", &device, "up"]);
        client
    }

    /// Runs a program there; what it printed.
    fn run(&self, program: &str, args: &[&str]) -> String {
        printed(&self.guest.beside_proxy(program).args(args).output().unwrap())
    }

    /// Pings through the tunnel, once a second, until an answer comes; how often.
    fn ping(&self) -> usize {
        let said = self.run("ping", &["-c", "1", "-w", "120", FAR]);
        let sent = said.lines().find(|line| line.contains("packets transmitted")).unwrap();
        sent.split(' ').next().and_then(|it| it.parse().ok()).unwrap()
    }

    /// When its last handshake was completed, in seconds since 1970; 0 before the first.
    fn handshake(&self) -> u64 {
        let said = self.run("wg", &["show", &self.device, "latest-handshakes"]);
        said.split_whitespace().nth(1).and_then(|it| it.parse().ok()).unwrap()
    }
}

impl Drop for Client<'_> {
    /// The kernel's device goes with its namespace.
    fn drop(&mut self) {
        if let Some(daemon) = &mut self.daemon {
            let _ = daemon.kill();
            let _ = daemon.wait();
            let _ = fs::remove_file(socket(&self.device));
        }
    }
}

/// Where `wireguard-go` listens for `wg`.
fn socket(device: &str) -> PathBuf {
    format!("/var/run/wireguard/{device}.sock").into()
}

/// The service before the guest. The guest confirms the last packet of a client ten seconds later: if it slept by then,
/// the client would begin a handshake, which would wake it.
fn service(guest: &Guest, public: &str) -> String {
    format!(
        r#"
[[udp]]
name = "vpn"
listen = ["0.0.0.0:{PORT}"]
on = "site"
origin = "{address}:{PORT}"
wake_on = "wireguard"
wireguard_key = "{public}"
quiet = "15s"
"#,
        address = guest.text("guest/address"),
    )
}

#[test]
#[ignore = "make test-vm: starts a guest, which takes a minute"]
fn a_handshake_wakes_a_guest_with_wireguard_in_its_kernel_and_it_sleeps_again_after_the_session() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: a network namespace needs root");
        return;
    }
    let in_kernel = kernel_can();
    if !programs(&["ip", "ping", "curl"]) || !(in_kernel || programs(&["wireguard-go"])) {
        return;
    }
    let Some(wg) = program("wg") else { return };
    let Some(guest) = guest_with_module(&wg) else { return };
    let ([own_key, own_public], [guest_key, guest_public]) = (keys(), keys());
    let settings = format!(
        "[Interface]\nPrivateKey = {guest_key}\nListenPort = {PORT}\n[Peer]\nPublicKey = {own_public}\n\
         AllowedIPs = {NEAR}/32\n"
    );
    start_in(&guest, &settings);
    let tables = wol_and_ssh(&guest) + &service(&guest, &guest_public);
    let proxy = Proxy::serve(&guest, &tables);
    let settings = format!(
        "[Interface]\nPrivateKey = {own_key}\n[Peer]\nPublicKey = {guest_public}\nAllowedIPs = {FAR}/32\n\
         Endpoint = {}:{PORT}\n",
        guest.text("proxy/uplink_address")
    );
    let client = Client::start(&guest, in_kernel, &settings);
    let mut last = 0;
    for cycle in 1..=2 {
        guest.wait("SUSPEND", cycle);
        proxy.until("asleep");
        assert_eq!(client.handshake(), last, "no handshake without traffic in the tunnel");
        let pings = client.ping();
        let page = client.run("curl", &["--silent", "--max-time", "60", &format!("http://{FAR}/")]);
        assert!(page.contains("The guest is awake."), "{page}");
        let handshake = client.handshake();
        println!("cycle {cycle}: answered after {pings} pings, handshake at {handshake}");
        assert!(handshake > last, "cycle {cycle}: a new handshake");
        last = handshake;
        check(&proxy.datagrams(), cycle);
    }
    guest.wait("SUSPEND", 3);
    assert_eq!(guest.events(&["WAKEUP"]).len(), 2, "only handshakes wake it: {}", proxy.log());
    let status = proxy.status();
    assert_eq!(status["failures"], 0, "{status}");
}

/// What the proxy counts once the tunnel has been answered in this cycle.
fn check(service: &Value, cycle: usize) {
    assert_eq!(service["sessions"], 1, "the client's port is the same: {service}");
    assert_eq!((&service["active"], &service["waited"]), (&json!(1), &json!(cycle)), "{service}");
    let dropped = service["dropped"]["no-wake"].as_u64();
    if cycle == 1 {
        assert_eq!(dropped, None, "a client without a tunnel begins with a handshake: {service}");
    } else {
        // What it sends through the tunnel of before wakes nothing; 15 s later it begins a handshake.
        assert!(dropped.is_some_and(|it| it > 0), "{service}");
    }
}
