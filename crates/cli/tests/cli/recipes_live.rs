//! Programs that docs/recipes.md has recipes for, behind nightwatt: asleep, woken, used, asleep again.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use nightwatt_needs::{command, free_udp_address, program, programs};
use serde_json::{Value, json};

use crate::client::{Reply, connect, head, send};
use crate::harness::{Gateway, House, NIGHTWATT, Plan, free_address, process, within};
use crate::mirror_live::wakeups;
use crate::web_stack::run;

/// A first start on a busy machine: Home Assistant installs what it misses.
const LONGEST: Duration = Duration::from_mins(10);

/// A program that waits, unlike a browser, which is shown the waiting page.
const PROGRAM: &str = "User-Agent: test-program/1\r\n";

/// The program itself, and beside it what the gateway probes, as a machine has a server of SSH; all end together.
const SERVER: &str = "exec >>DIR/server.log 2>&1
trap 'trap \"\" TERM; kill 0; wait; exit 0' TERM
OTHERS
PROGRAM &
wait
";

/// What wakes and sleeps in the place of a machine: the page has its reader replace `power`.
const PROCESS: &str = "power.process.command = [\"/bin/sh\", \"-c\", \"exec sh DIR/server\"]\n";

/// Times of a test, after a recipe that leaves them to nightwatt.
const QUICK: &str = "
[scenario]
policy = \"timeout 5s\"             # longer than between two requests of one visit

[scenario.server]
wake_time = \"500ms\"
sleep_time = \"100ms\"
min_on = \"0\"
quiet = \"100ms\"
";

/// What no configuration of a test may keep of the page: addresses of other machines, all addresses of this one, its
/// folders.
const OF_THE_PAGE: [&str; 4] = ["10.0.0.", "0.0.0.0", "52:54:", "/etc/"];

/// The configuration of a recipe, as docs/recipes.md has it. Each change has a name, the text of the page, and what is
/// in its place here.
fn recipe(title: &str, changes: &[[&str; 3]]) -> String {
    let page = include_str!("../../../../docs/recipes.md");
    let (_, rest) = page.split_once(&format!("\n## {title}\n")).unwrap();
    let (_, rest) = rest.split_once("```toml\n").unwrap();
    let (block, _) = rest.split_once("```").unwrap();
    let line = |start: &str| {
        let mut lines = block.split_inclusive('\n').filter(|it| it.starts_with(start));
        let line = lines.next().unwrap_or_else(|| panic!("no line {start:?} in {block}"));
        assert_eq!(lines.next(), None, "more than one line {start:?} in {block}");
        line
    };
    let controllers = [
        ["what wakes the machine", line("power.wake.wol = "), PROCESS],
        ["what puts it to sleep", line("power.sleep.agent = "), ""],
    ];
    let mut text = block.to_owned();
    for [what, from, to] in controllers.iter().chain(changes) {
        assert!(text.contains(from), "{what}: {from:?} is not in {text}");
        text = text.replace(from, to);
    }
    for part in OF_THE_PAGE {
        assert!(!text.contains(part), "{part:?} is left in {text}");
    }
    text
}

/// What `status --json` says of each site and each machine.
fn parts(gateway: &Gateway) -> Vec<Value> {
    let output = gateway.order(&["status", "--json"]);
    let status: Value = serde_json::from_slice(&output.stdout).unwrap();
    let lists = ["sites", "machines"].map(|it| status[it].as_array().cloned().unwrap_or_default());
    lists.concat()
}

/// What it says of the only machine, which is the last part.
fn machine(gateway: &Gateway) -> Value {
    parts(gateway).pop().unwrap()
}

/// A program that runs while its machine is on.
struct Service {
    house: House,
}

impl Service {
    /// `DIR` stands for its folder in all texts, and `ORIGIN` for the address that the gateway knows.
    fn build(program: &str, others: &str, site: &str, tables: &str) -> Self {
        let house = House::build(&Plan {
            power: process("exec sh DIR/server"),
            site: format!(
                "kind = \"app\"\nwatch = \"500ms\"\nwake_timeout = \"10m\"\nprobe = \"tcp ORIGIN\"\n{site}"
            ),
            tables: tables.to_owned(),
            // Longer than between two requests of one visit.
            policy: "timeout 5s".to_owned(),
        });
        let service = Self { house };
        service.write("server", &SERVER.replace("PROGRAM", program).replace("OTHERS", others));
        service
    }

    /// The same, with the configuration of a recipe.
    fn of_recipe(program: &str, others: &str, configuration: &str) -> Self {
        let service = Self::build(program, others, "", "");
        let configuration = format!("state_dir = \"DIR/state\"\n{configuration}");
        service.write("nightwatt.toml", &configuration);
        service
    }

    fn text(&self, text: &str) -> String {
        text.replace("DIR", &self.house.dir.path().display().to_string())
            .replace("NIGHTWATT", NIGHTWATT)
            .replace("ORIGIN", &self.house.origin.to_string())
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.house.path(name), self.text(text)).unwrap();
    }

    /// Waits until the gateway has put it to sleep, and nothing of it runs.
    fn off(&self, gateway: &Gateway) {
        let is_off = || {
            let is_asleep = parts(gateway).iter().all(|it| it["state"] == "asleep");
            (is_asleep && self.house.servers().is_empty()).then_some(())
        };
        within(LONGEST, "the service is off", is_off);
    }
}

/// Datagrams of Minetest (its `doc/`, and `src/network/mtp`): protocol, peer, channel, then what it is.
mod minetest {
    const PROTOCOL: [u8; 4] = 0x4f45_7403_u32.to_be_bytes();

    /// A client begins: a reliable datagram (3), number 65500, an original (1) without content.
    pub(super) fn hello() -> Vec<u8> {
        [&PROTOCOL[..], &[0, 0, 0, 3, 0xff, 0xdc, 1]].concat()
    }

    /// A client leaves: control (0), disconnect (3).
    pub(super) fn goodbye(peer: u16) -> Vec<u8> {
        [&PROTOCOL[..], &peer.to_be_bytes(), &[0, 0, 3]].concat()
    }

    /// The number that a server gives its new peer: reliable, control, set peer id (1).
    pub(super) fn peer_given(datagram: &[u8]) -> Option<u16> {
        let rest = datagram.strip_prefix(&PROTOCOL)?;
        match rest {
            [0, 1, _, 3, _, _, 0, 1, high, low] => Some(u16::from_be_bytes([*high, *low])),
            _ => None,
        }
    }
}

/// A client asks once a second, as the real one does.
fn join(game: SocketAddr) -> (UdpSocket, u16) {
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    client.connect(game).unwrap();
    let peer = within(LONGEST, "the game gives a number", || {
        // While nothing listens, an earlier datagram can be an error of this one.
        let _ = client.send(&minetest::hello());
        let mut bytes = [0; 2048];
        let length = client.recv(&mut bytes).ok()?;
        minetest::peer_given(&bytes[..length])
    });
    (client, peer)
}

#[test]
#[ignore = "installs programs: the lane `recipes`"]
fn a_player_of_minetest_wakes_the_game_and_it_sleeps_after_the_player_left() {
    let server = "/usr/lib/minetest/minetestserver";
    if !Path::new(server).exists() {
        println!("skipped: there is no {server} (the Debian package minetest-server)");
        return;
    }
    let (listen, game) = (free_udp_address().to_string(), free_udp_address());
    let configuration = recipe(
        "A game server by UDP",
        &[
            ["where players connect", "0.0.0.0:27015", &listen],
            ["the game", "10.0.0.5:27015", &game.to_string()],
            ["what is probed", "10.0.0.5:22", "ORIGIN"],
            ["a network of players", "192.168.0.0/16", "127.0.0.0/8"],
            ["how long one may be silent", "quiet = \"10m\"", "quiet = \"3s\""],
        ],
    );
    let service = Service::of_recipe(
        &format!(
            "HOME=DIR {server} --gameid minetest --world DIR/world --config DIR/game.conf --logfile '' --port {}",
            game.port()
        ),
        "NIGHTWATT origin --listen ORIGIN --ttl 0 >/dev/null &",
        &format!("listen = [\"127.0.0.1:0\"]\n{configuration}{QUICK}"),
    );
    service.write("game.conf", &format!("bind_address = {}\nserver_announce = false\n", game.ip()));
    let gateway = service.house.serve(&[]);
    service.off(&gateway);
    for players in 1..=2 {
        let (client, peer) = join(listen.parse().unwrap());
        assert!(peer >= 2, "0 is none, and 1 is the server: {peer}");
        assert_eq!(machine(&gateway)["state"], "awake");
        client.send(&minetest::goodbye(peer)).unwrap();
        service.off(&gateway);
        assert_eq!(machine(&gateway)["ledger"]["wakeups"], players);
    }
}

const APP_INI: &str = "RUN_MODE = prod
RUN_USER = root
I_AM_BEING_UNSAFE_RUNNING_AS_ROOT = true
WORK_PATH = DIR/gitea
[server]
HTTP_ADDR = @host@
HTTP_PORT = @port@
ROOT_URL = http://git.example.org/
START_SSH_SERVER = true
BUILTIN_SSH_SERVER_USER = git
SSH_LISTEN_HOST = @ssh_host@
SSH_LISTEN_PORT = @ssh_port@
OFFLINE_MODE = true
STATIC_ROOT_PATH = @share@
[database]
DB_TYPE = sqlite3
[security]
INSTALL_LOCK = true
SECRET_KEY = of-a-test
[log]
LEVEL = Warn
";

const USER: [&str; 2] = ["keeper", "a-pass-word-of-the-test"];

/// The two with a colon between them, in base64.
const LOGIN: &str = "a2VlcGVyOmEtcGFzcy13b3JkLW9mLXRoZS10ZXN0";

fn gitea(service: &Service, program: &Path) -> Command {
    let mut command = Command::new(program);
    command.arg("--config").arg(service.house.path("app.ini"));
    command.env("HOME", service.house.dir.path()).env("USER", "root");
    command
}

/// Where Git finds nightwatt, and how.
struct Git {
    /// `NAME:PORT:ADDRESS`, as curl has it: the recipe's site has a name that no server of names knows.
    resolve: String,
    /// The client of SSH with its options.
    ssh: String,
}

impl Git {
    fn new(service: &Service, gateway: &Gateway) -> Self {
        let (ip, port) = (gateway.address.ip(), gateway.address.port());
        // The first connection learns Gitea's key, and the next ones insist on it.
        let ssh = "ssh -F none -i DIR/key -o IdentitiesOnly=yes -o IdentityAgent=none -o BatchMode=yes \
                   -o StrictHostKeyChecking=accept-new -o UserKnownHostsFile=DIR/known_hosts \
                   -o LogLevel=ERROR";
        Self { resolve: format!("git.example.org:{port}:{ip}"), ssh: service.text(ssh) }
    }

    fn run(&self, folder: &Path, words: &[&str]) -> String {
        let resolve = format!("http.curloptResolve={}", self.resolve);
        let who = ["-c", "user.name=Keeper", "-c", "user.email=keeper@git.test", "-c", &resolve];
        let mut git = command("git");
        git.current_dir(folder).args(who).args(words);
        git.env("GIT_TERMINAL_PROMPT", "0").env("no_proxy", "*").env("GIT_SSH_COMMAND", &self.ssh);
        run(&mut git)
    }

    /// 16 MiB that do not compress, others for each number: a push in many chunks.
    fn commit(&self, folder: &Path, number: u64) {
        let noise: Vec<u8> = (number << 20..(number + 1) << 20).flat_map(noise_of).collect();
        fs::write(folder.join("noise"), &noise).unwrap();
        self.run(folder, &["add", "noise"]);
        self.run(folder, &["commit", "--quiet", "--message", "Noise"]);
    }

    /// Pushes what is `here` while the server is off, and clones it when the server is off again.
    fn push_and_clone(&self, service: &Service, gateway: &Gateway, here: &Path, url: &str) {
        self.run(here, &["push", "--quiet", url, "main"]);
        service.off(gateway);
        let there = service.house.path("there");
        let words = ["clone", "--quiet", url, &there.display().to_string()];
        self.run(service.house.dir.path(), &words);
        let noise = |folder: &Path| fs::read(folder.join("noise")).unwrap();
        assert!(noise(here) == noise(&there), "the clone from {url} has other bytes");
        let commit = ["rev-parse", "HEAD"];
        assert_eq!(self.run(here, &commit), self.run(&there, &commit));
        fs::remove_dir_all(there).unwrap();
        service.off(gateway);
    }
}

/// Its files, its first user and a key of theirs; it has not run as a server yet.
fn prepare_gitea(service: &Service, program: &Path, ssh: SocketAddr) {
    let origin = service.house.origin;
    let sources = program.parent().unwrap().join("share").display().to_string();
    let settings = [
        ["@host@", &origin.ip().to_string()],
        ["@port@", &origin.port().to_string()],
        ["@ssh_host@", &ssh.ip().to_string()],
        ["@ssh_port@", &ssh.port().to_string()],
        ["@share@", &sources],
    ];
    let settings =
        settings.iter().fold(APP_INI.to_owned(), |text, [from, to]| text.replace(from, to));
    service.write("app.ini", &settings);
    run(gitea(service, program).arg("migrate"));
    let [name, password] = USER;
    let user = [
        "--username",
        name,
        "--password",
        password,
        "--email",
        "keeper@git.test",
        "--must-change-password=false",
    ];
    run(gitea(service, program).args(["admin", "user", "create"]).args(user));
    let key = ["-q", "-t", "ed25519", "-N", "", "-C", "keeper", "-f"];
    run(command("ssh-keygen").args(key).arg(service.house.path("key")));
}

/// A call of Gitea's interface that makes something.
fn make(gateway: &Gateway, path: &str, body: &Value) {
    let body = body.to_string();
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: git.example.org\r\nConnection: close\r\n{PROGRAM}\
         Authorization: Basic {LOGIN}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let made = send(gateway.address, request.as_bytes(), body.as_bytes()).unwrap();
    assert_eq!(made.status, 201, "{path}: {}", made.text());
}

#[test]
#[ignore = "installs programs: the lane `recipes`"]
fn git_pushes_and_clones_by_http_and_by_ssh_while_gitea_sleeps_in_between() {
    let Some(program) = program("gitea") else { return };
    if !programs(&["git", "ssh", "ssh-keygen"]) {
        return;
    }
    let (listen, ssh) = (free_address(), free_address());
    let configuration = recipe(
        "Forgejo",
        &[
            ["the front door", "0.0.0.0:80", "127.0.0.1:0"],
            ["the pages, which are probed too", "10.0.0.5:3000", "ORIGIN"],
            ["where Git connects by SSH", "0.0.0.0:2222", &listen.to_string()],
            ["the server of SSH", "10.0.0.5:22", &ssh.to_string()],
        ],
    );
    assert!(configuration.contains("wake_on = \"ssh\""), "{configuration}");
    let service = Service::of_recipe(
        &format!("HOME=DIR USER=root {} --config DIR/app.ini web", program.display()),
        "",
        &format!("{configuration}{QUICK}"),
    );
    prepare_gitea(&service, &program, ssh);
    let gateway = service.house.serve(&[]);
    service.off(&gateway);
    // The request that wakes it is the one that makes the repository.
    make(&gateway, "/api/v1/user/repos", &json!({"name": "notes", "default_branch": "main"}));
    let key = fs::read_to_string(service.house.path("key.pub")).unwrap();
    make(&gateway, "/api/v1/user/keys", &json!({"title": "test", "key": key.trim()}));
    service.off(&gateway);
    let git = Git::new(&service, &gateway);
    let here = service.house.path("here");
    fs::create_dir(&here).unwrap();
    git.run(&here, &["init", "--quiet", "--initial-branch", "main"]);
    let [name, password] = USER;
    let port = gateway.address.port();
    let url = format!("http://{name}:{password}@git.example.org:{port}/{name}/notes.git");
    git.commit(&here, 0);
    git.push_and_clone(&service, &gateway, &here, &url);
    assert_eq!(machine(&gateway)["ledger"]["wakeups"], 3, "the repository, the push, the clone");
    git.commit(&here, 1);
    git.push_and_clone(&service, &gateway, &here, &format!("ssh://git@{listen}/{name}/notes.git"));
    assert_eq!(machine(&gateway)["ledger"]["wakeups"], 5, "and both by SSH");
    assert_eq!(wakeups(&gateway), 3, "the site is woken by HTTP only");
}

/// Sixteen bytes that look random (`SplitMix64`).
fn noise_of(number: u64) -> [u8; 16] {
    let mix = |n: u64| {
        let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        n ^ (n >> 31)
    };
    let step = 0x9e37_79b9_7f4a_7c15_u64;
    let (one, two) =
        (mix(number.wrapping_mul(2).wrapping_mul(step)), mix((2 * number + 1).wrapping_mul(step)));
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&one.to_le_bytes());
    bytes[8..].copy_from_slice(&two.to_le_bytes());
    bytes
}

const HOME_ASSISTANT: &str = "homeassistant:
  name: Test
  internal_url: http://home.test
  external_url: http://home.test
http:
  server_host: HOST
  server_port: PORT
  use_x_forwarded_for: true
  trusted_proxies: [127.0.0.0/8]
api:
input_boolean:
  television:
";

/// A call of Home Assistant's interface.
fn call(to: SocketAddr, path: &str, token: Option<&str>, body: &Value) -> Reply {
    let login = token.map_or_else(String::new, |it| format!("Authorization: Bearer {it}\r\n"));
    let body = body.to_string();
    let fields = format!(
        "{PROGRAM}{login}Content-Type: application/json\r\nContent-Length: {}\r\n",
        body.len()
    );
    let reply = send(to, &head("POST", path, &fields), body.as_bytes()).unwrap();
    assert!(matches!(reply.status, 200 | 201), "{path}: {} {}", reply.status, reply.text());
    reply
}

fn parsed(reply: &Reply) -> Value {
    serde_json::from_str(&reply.text()).unwrap()
}

/// The first user, and a token of theirs, as the pages of the first start make them.
fn first_user(to: SocketAddr) -> String {
    let client = "http://home.test/";
    let user = json!({
        "client_id": client, "name": "Keeper", "username": USER[0], "password": USER[1], "language": "en",
    });
    let made = parsed(&call(to, "/api/onboarding/users", None, &user));
    let code = made["auth_code"].as_str().unwrap();
    let form = format!("grant_type=authorization_code&client_id={client}&code={code}");
    let kind = "application/x-www-form-urlencoded";
    let fields = format!("{PROGRAM}Content-Type: {kind}\r\nContent-Length: {}\r\n", form.len());
    let token = send(to, &head("POST", "/auth/token", &fields), form.as_bytes()).unwrap();
    assert_eq!(token.status, 200, "{}", token.text());
    parsed(&token)["access_token"].as_str().unwrap().to_owned()
}

#[test]
#[ignore = "installs programs: the lane `recipes`"]
fn home_assistant_is_served_and_an_entity_that_is_on_keeps_it_awake() {
    let Some(hass) = program("hass") else { return };
    let service = Service::build(
        &format!("HOME=DIR {} --config DIR/home", hass.display()),
        "",
        "[[site.in_use]]\npreset = \"home-assistant\"\nentity = \"input_boolean.television\"\n\
         token_file = \"DIR/token\"\nevery = \"1s\"\nunknown_for = \"1h\"\n",
        "",
    );
    let origin = service.house.origin;
    fs::create_dir(service.house.path("home")).unwrap();
    let settings = HOME_ASSISTANT.replace("HOST", &origin.ip().to_string());
    service.write("home/configuration.yaml", &settings.replace("PORT", &origin.port().to_string()));
    // It is read again at each question, but a file must be there from the start.
    fs::write(service.house.path("token"), "none yet\n").unwrap();
    let gateway = service.house.serve(&[]);
    service.off(&gateway);
    // Until there is a token its answers make no sense, which counts as use.
    let ready = || send(gateway.address, &head("GET", "/api/onboarding", PROGRAM), &[]).ok();
    within(LONGEST, "its first page", || ready().filter(|it| it.status == 200).map(drop));
    let token = first_user(gateway.address);
    fs::write(service.house.path("token"), format!("{token}\n")).unwrap();
    let entity = json!({"entity_id": "input_boolean.television"});
    call(gateway.address, "/api/services/input_boolean/turn_on", Some(&token), &entity);
    let probe = |state: &str| {
        let probed = || gateway.status()["in_use"][0].clone();
        within(LONGEST, state, || Some(probed()).filter(|it| it["state"] == state))
    };
    let seen = probe("in-use");
    assert_eq!(seen["reason"], "the state of input_boolean.television: \"on\"", "{seen}");
    // The policy alone would let it sleep after 5 s.
    let asked = gateway.status()["in_use"][0]["used"].as_u64().unwrap();
    within(LONGEST, "ten more answers", || {
        let status = gateway.status();
        assert_eq!(status["state"], "awake");
        (status["in_use"][0]["used"].as_u64()? > asked + 10).then_some(())
    });
    // Past the proxy, as a remote control does it.
    call(origin, "/api/services/input_boolean/turn_off", Some(&token), &entity);
    service.off(&gateway);
    assert_eq!(wakeups(&gateway), 1);
}

/// Whether a web socket opens, and Home Assistant asks in it for a token.
fn web_socket(to: SocketAddr) -> Option<()> {
    let mut stream = connect(to).ok()?;
    let request = format!(
        "GET /api/websocket HTTP/1.1\r\nHost: home.example.org\r\nConnection: Upgrade\r\n\
         Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{PROGRAM}\r\n"
    );
    stream.write_all(request.as_bytes()).ok()?;
    let (mut said, mut part) = (String::new(), [0; 4096]);
    while !said.contains("auth_required") {
        let read = stream.read(&mut part).ok().filter(|it| *it > 0)?;
        said.push_str(&String::from_utf8_lossy(&part[..read]));
    }
    said.starts_with("HTTP/1.1 101 ").then_some(())
}

/// The status of an answer to a client of another network than the recipe allows.
fn stranger(to: SocketAddr) -> String {
    let words = ["-sS", "--noproxy", "*", "--interface", "127.0.0.2", "-o", "/dev/null"];
    let mut curl = command("curl");
    curl.args(words).args(["-w", "%{http_code}", "-H", "Host: home.example.org"]);
    run(curl.arg(format!("http://{to}/")))
}

#[test]
#[ignore = "installs programs: the lane `recipes`"]
fn home_assistant_with_its_recipe_serves_its_network_and_stays_awake() {
    let Some(hass) = program("hass") else { return };
    if !programs(&["curl"]) {
        return;
    }
    let configuration = recipe(
        "Home Assistant",
        &[
            ["the front door", "0.0.0.0:80", "127.0.0.1:0"],
            ["Home Assistant", "10.0.0.6:8123", "ORIGIN"],
            ["the network at home", "192.168.0.0/16", "127.0.0.1/32"],
        ],
    );
    let program = format!("HOME=DIR {} --config DIR/home", hass.display());
    let service = Service::of_recipe(&program, "", &configuration);
    let origin = service.house.origin;
    fs::create_dir(service.house.path("home")).unwrap();
    let settings = HOME_ASSISTANT.replace("HOST", &origin.ip().to_string());
    service.write("home/configuration.yaml", &settings.replace("PORT", &origin.port().to_string()));
    let gateway = service.house.serve(&[]);
    service.off(&gateway);
    assert_eq!(stranger(gateway.address), "403");
    assert_eq!(gateway.status()["state"], "asleep", "a stranger wakes nothing");
    let request = format!(
        "GET /api/onboarding HTTP/1.1\r\nHost: home.example.org\r\nConnection: close\r\n{PROGRAM}\r\n"
    );
    // It refuses what comes from a proxy that it does not trust.
    let ready = || send(gateway.address, request.as_bytes(), &[]).ok();
    within(LONGEST, "its first page", || ready().filter(|it| it.status == 200).map(drop));
    within(LONGEST, "a web socket", || web_socket(gateway.address));
    assert_eq!(stranger(gateway.address), "403");
    let status = gateway.status();
    assert_eq!((&status["state"], &status["policy"]), (&json!("awake"), &json!("always-on")));
    assert_eq!(status["ledger"]["sleeps"], 0, "{status}");
    // It never sleeps by itself; this ends it in good order.
    assert!(gateway.order(&["sleep"]).status.success());
    service.off(&gateway);
}
