//! What `check` explains of services, magic packets, containers and proofs by DNS.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};

use serde_json::{Value, json};

use crate::check_front_door::{SITE, Written, part, says};

/// A machine that is woken by Wake-on-LAN.
const MACHINE: &str = r#"
[[machine]]
name = "box"
probe = "tcp 10.0.0.5:22"
power.wake.wol.mac = "52:54:00:12:34:56"
power.sleep.ssh = { host = "box", sleep = "true" }
"#;

/// TLS by certificates that an authority gives out after it has seen a record in DNS.
const TLS: &str = r#"
[tls]
listen = ["127.0.0.1:8443"]
certificate = [{ acme = ["blog.example", "*.blog.example"] }]
acme.terms_agreed = true
"#;

#[test]
fn proofs_by_dns_name_the_server_and_the_key_and_warn_of_a_key_that_all_can_read() {
    let by_key = "acme.dns = { server = \"192.0.2.1:53\", key_file = \"DIR/dns.key\" }\n";
    let written = Written::site(&format!("{TLS}{by_key}"));
    let rows = [
        "by TLS on 127.0.0.1:8443",
        "careful blog.example, *.blog.example (",
        "not got yet from its authority",
        "proofs records in DNS, by updates at 192.0.2.1:53 with the key night.example",
    ];
    says(&part(&written.page(), "listens on"), &rows);
    let said = written.json();
    let certificate = &said["tls"]["certificates"][0];
    assert_eq!(said["tls"]["listen"], json!(["127.0.0.1:8443"]));
    assert_eq!(certificate["names"], json!(["blog.example", "*.blog.example"]));
    assert_eq!(certificate["problem"], "not got yet from its authority");
    assert_eq!(certificate["until"], Value::Null, "what nightwatt makes itself is valid for ever");
    assert_eq!(said["careful"], json!([]));
    written.open_to("dns.key", 0o644);
    let file = format!("{}/dns.key", written.dir());
    let risk = format!(
        "everybody on this machine can read the key for updates of DNS in {file} (mode 644): `chmod 640 {file}`"
    );
    let said = written.json();
    assert_eq!(said["careful"], json!([risk]));
    let page = written.page();
    says(&part(&page, "listens on"), &[&format!("careful {risk}")]);
    let dns = json!({ "server": "192.0.2.1:53", "key": "night.example", "hook": null });
    assert_eq!(said["tls"]["acme_dns"], dns);
    assert!(!format!("{page}{said}").contains("c2VjcmV0"), "the secret is shown nowhere");

    let by_hook = "acme.dns = { hook = [\"/usr/local/bin/dns-hook\", \"--zone\", \"example\"] }\n";
    let written = Written::site(&format!("{TLS}{by_hook}"));
    let row = "proofs records in DNS, by /usr/local/bin/dns-hook --zone example";
    says(&part(&written.page(), "listens on"), &[row]);
    let hook = ["/usr/local/bin/dns-hook", "--zone", "example"];
    let dns = json!({ "server": null, "key": null, "hook": hook });
    assert_eq!(written.json()["tls"]["acme_dns"], dns);
    let without_wildcard = TLS.replace(", \"*.blog.example\"", "");
    assert_eq!(Written::site(&without_wildcard).json()["tls"]["acme_dns"], Value::Null);
}

#[test]
fn magic_packets_name_networks_servers_and_limits() {
    let table = r#"
[magic_packets]
listen = ["0.0.0.0:9"]
from = ["192.168.0.0/16"]
wakes = "4/h"
stay_awake = "10m"
"#;
    let written = Written::site(&format!("{MACHINE}{table}"));
    let words = "heard on 0.0.0.0:9 from 192.168.0.0/16; they wake box (52:54:00:12:34:56), each 4/h at most, for 10m \
                 at least";
    let page = written.page();
    says(&part(&page, "listens on"), &[&format!("magic packets {words}")]);
    assert_eq!(written.json()["magic_packets"], words);
    says(&part(&page, "machine box"), &["woken by wol: ", "sleeps by ssh: "]);
    assert_eq!(Written::site(MACHINE).json()["magic_packets"], Value::Null);
}

#[test]
fn magic_packets_that_wake_a_machine_need_no_site_and_no_address_for_http() {
    let written = Written::new(&format!("state_dir = \"DIR/state\"\n[magic_packets]\n{MACHINE}"));
    let page = written.page();
    says(&part(&page, &written.dir()), &["n.toml is good: 0 sites and magic packets for 1 server"]);
    says(&part(&page, "state"), &["they wake box (52:54:00:12:34:56)"]);
    assert_eq!(written.json()["listen"], json!([]));
}

#[test]
fn a_service_of_datagrams_says_what_wakes_its_server_and_what_it_holds() {
    let services = r#"
[limits]
hold = "40s"

[[udp]]
name = "vpn"
listen = ["127.0.0.1:51820"]
on = "box"
origin = "10.0.0.5:51820"
allow = ["10.0.0.0/8"]
deny = ["10.6.0.0/16"]
wake_on = "wireguard"
wireguard_key = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
strangers = "3/h"
quiet = "2m"
idle_timeout = "4m"
sessions = 64
sessions_per_client = 4
held = 16
held_bytes = 8192

[[udp]]
name = "game"
listen = ["127.0.0.1:30000"]
on = "blog"
origin = ":30001"
keep_awake = "datagrams"
"#;
    let written = Written::site(&format!("{MACHINE}{services}"));
    let page = written.page();
    says(&part(&page, &written.dir()), &["n.toml is good: 1 site and 2 services by UDP"]);
    let handshake =
        "the first message of a WireGuard handshake of a client that knows the server's public key";
    let wakes = format!("wakes on {handshake}");
    let rows = [
        "listens on 127.0.0.1:51820 origin 10.0.0.5:51820 clients 10.0.0.0/8, but not 10.6.0.0/16",
        "wakes the machine box",
        &wakes,
        "strangers wake it 3/h at most, all together",
        "keeps awake until the service has sent nothing to a client for 2m",
        "forgotten 4m after a session's last datagram",
        "at once 64 sessions, 4 of one client",
        "held 16 datagrams, 8.2 kB at most, while it wakes; for 40s at most",
    ];
    says(&part(&page, "udp vpn"), &rows);
    let rows = [
        "origin port 30001 of the server of blog clients all wakes the server of the site blog",
        "wakes on any datagram",
        "keeps awake until nothing has come through a session for 5m",
    ];
    says(&part(&page, "udp game"), &rows);
    let vpn = json!({
        "name": "vpn",
        "listen": ["127.0.0.1:51820"],
        "on": "box",
        "origin": "10.0.0.5:51820",
        "clients": "10.0.0.0/8, but not 10.6.0.0/16",
        "wakes_on": handshake,
        "strangers": "3/h",
        "keeps_awake": "until the service has sent nothing to a client for 2m",
        "idle_timeout_s": 240.0,
        "sessions": 64,
        "sessions_per_client": 4,
        "held": 16,
        "held_bytes": 8192,
        "hold_s": 40.0,
    });
    let said = written.json();
    assert_eq!(said["udp"][0], vpn);
    assert_eq!(said["udp"][1]["wakes_on"], "any datagram");
    let any_key = services.replace("wireguard_key", "# wireguard_key");
    let said = Written::site(&format!("{MACHINE}{any_key}")).json();
    assert_eq!(said["udp"][0]["wakes_on"], "the first message of a WireGuard handshake");
}

#[test]
fn each_greeting_that_wakes_a_server_is_explained() {
    let service = "\n[[tcp]]\nname = \"shell\"\nlisten = [\"127.0.0.1:2222\"]\non = \"blog\"\norigin = \":22\"\n";
    for (greeting, words) in [
        ("first-byte", "the first byte of a client"),
        ("tls", "a ClientHello of TLS, and nothing else"),
        ("ssh", "the version of an SSH client, and nothing else"),
        ("rdp", "a connection request of RDP, and nothing else"),
        ("minecraft", "a player who joins; lists of servers get an answer from here"),
    ] {
        let written = Written::site(&format!("{service}wake_on = \"{greeting}\"\n"));
        let row = format!("wakes the server of the site blog wakes on {words} keeps awake");
        says(&part(&written.page(), "tcp shell"), &[&row]);
        assert_eq!(written.json()["tcp"][0]["wakes_on"], words);
    }
    let written = Written::site(service);
    let page = written.page();
    let all = written.json();
    let tcp = &all["tcp"][0];
    assert_eq!((&tcp["wakes_on"], &tcp["clients"]), (&json!("any connection"), &json!("all")));
    assert_eq!(tcp["keeps_awake"], "until nothing has come through a connection for 5m");
    assert_eq!(tcp["asleep"], "connections are reset as the server begins to fall asleep");
    assert_eq!((&tcp["hold_s"], tcp["idle_timeout_s"].is_f64()), (&json!(120.0), true));
    let said = part(&page, "tcp shell");
    assert!(!said.contains("wakes on"), "each connection wakes it: {said}");
    let rows = [
        "origin port 22 of the server of blog clients all wakes the server of the site blog",
        "keeps awake until nothing has come through a connection for 5m",
        "asleep connections are reset as the server begins to fall asleep",
        "held 128 connections at once while it wakes, for 2m at most",
    ];
    says(&said, &rows);
}

#[test]
fn services_at_one_address_are_told_apart_and_share_the_limit_of_requests() {
    let written = Written::site(
        r#"
[[tcp]]
name = "git"
listen = ["127.0.0.1:2222"]
on = "blog"
origin = ":22"
sni = ["*.git.example"]
allow = ["10.0.0.0/8", "fd00::/8"]
deny = ["10.6.0.0/16"]
keep_awake = "connection"
asleep = "keep"
held = 3000

[[tcp]]
name = "rest"
listen = ["127.0.0.1:2222"]
on = "blog"
origin = ":25"
"#,
    );
    let page = written.page();
    let rows = [
        "names *.git.example, as TLS asks for them",
        "clients 10.0.0.0/8, fd00::/8, but not 10.6.0.0/16",
        "keeps awake as long as a connection is open",
        "asleep connections stay open, and wake the server with the client's next byte",
        "held 1,024 connections at once while it wakes (`limits.held`, which requests share; `held` is 3000)",
    ];
    says(&part(&page, "tcp git"), &rows);
    says(&part(&page, "tcp rest"), &["names whatever no other service there has"]);
    let said = written.json();
    assert_eq!((&said["tcp"][0]["held"], &said["tcp"][1]["held"]), (&json!(1024), &json!(128)));
    assert_eq!(said["tcp"][0]["sni"], json!(["*.git.example"]));
    assert_eq!(said["tcp"][0]["clients"], "10.0.0.0/8, fd00::/8, but not 10.6.0.0/16");
}

#[test]
fn a_gate_says_for_how_long_it_holds_and_what_it_lets_through_counts() {
    let gate = "\n[gate]\nlisten = [\"127.0.0.1:9181\"]\nquiet = \"90s\"\nhold = \"15s\"\n";
    let written = Written::site(gate);
    let row = "gate 127.0.0.1:9181 (for other proxies; holds 15s at most, what it lets through counts 1m30s after its \
               last byte)";
    says(&part(&written.page(), "listens on"), &[row]);
    let told = json!({ "listen": ["127.0.0.1:9181"], "hold_s": 15.0, "quiet_s": 90.0 });
    assert_eq!(written.json()["gate"], told);
    let by_limit = gate.replace("hold = \"15s\"", "[limits]\nhold = \"40s\"");
    assert_eq!(Written::site(&by_limit).json()["gate"]["hold_s"], json!(40.0));
}

#[test]
fn containers_are_unknown_while_their_daemon_is_not_there() {
    let written = Written::site("\n[containers]\npodman = \"DIR/podman.sock\"\n");
    let daemon = format!("podman at {}/podman.sock", written.dir());
    let said = part(&written.page(), "listens on");
    says(&said, &[&format!("containers those of {daemon} with labels become sites")]);
    says(&said, &[&format!("careful no containers are known: cannot reach {daemon}")]);
    let said = written.json();
    let containers = &said["containers"];
    assert_eq!((&containers["up"], &containers["containers"]), (&json!(false), &json!([])));
    assert_eq!(containers["daemon"], json!(daemon));
    assert_eq!(containers["problem"], json!(format!("cannot reach {daemon}")));
    assert_eq!(Written::new(SITE).json()["containers"], Value::Null);
}

/// Two containers: the port of the second is no number.
const CONTAINERS: [(&str, &str); 2] = [("wiki", "80"), ("shop", "eighty")];

/// A daemon that has these; returns its address.
fn daemon() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || listener.incoming().map_while(Result::ok).for_each(answer));
    format!("tcp://{address}")
}

/// Answers one question: for the list, or for one container.
fn answer(mut stream: TcpStream) {
    let lines = BufReader::new(&stream).lines().map_while(Result::ok);
    let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
    let Some(line) = head.first() else { return };
    let found = CONTAINERS.iter().find(|(name, _)| line.contains(&format!("/{name}/")));
    let body = match found {
        None => json!(CONTAINERS.map(|(name, _)| json!({
            "Id": name,
            "Names": [format!("/{name}")],
            "Labels": { "nightwatt.enable": "true" },
        }))),
        Some((name, port)) => json!({
            "Name": format!("/{name}"),
            "Created": "2026-11-23T20:15:00Z",
            "State": { "Status": "exited" },
            "Config": { "Labels": {
                "nightwatt.enable": "true",
                "nightwatt.hosts": format!("{name}.lan"),
                "nightwatt.port": port,
                "nightwatt.address": "127.0.0.1",
            } },
            "HostConfig": { "PortBindings": null },
        }),
    };
    let body = body.to_string();
    let length = body.len();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    // The client may be gone.
    let _ = stream.write_all(format!("{head}{body}").as_bytes());
}

#[test]
fn each_container_has_a_site_or_the_label_that_is_wrong() {
    let daemon = daemon();
    let written = Written::site(&format!("\n[containers]\ndocker = \"{daemon}\"\n"));
    let why = "label nightwatt.port, value `eighty`: write a port from 1 to 65535";
    let said = part(&written.page(), "listens on");
    says(&said, &[&format!("containers those of docker at {daemon} with labels become sites")]);
    says(&said, &["container wiki: a site for wiki.lan"]);
    says(&said, &[&format!("careful the container shop gets no site: {why}")]);
    assert!(!said.contains("no containers are known"), "{said}");
    let said = written.json();
    let containers = &said["containers"];
    assert_eq!(containers["up"], json!(true));
    let list = json!([
        { "name": "shop", "outcome": "wrong-label", "hosts": ["shop.lan"], "why": why },
        { "name": "wiki", "outcome": "site", "hosts": ["wiki.lan"] },
    ]);
    assert_eq!(containers["containers"], list);
}
