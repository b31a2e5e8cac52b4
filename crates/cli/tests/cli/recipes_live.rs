//! Programs that docs/recipes.md has recipes for, behind nightwatt: asleep, woken, used, asleep again.

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use nightwatt_needs::{command, free_udp_address, program};
use serde_json::{Value, json};

use crate::client::{Reply, head, send};
use crate::harness::{Gateway, House, NIGHTWATT, Plan, process, within};
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

/// The lines of a table of a recipe, with other values in the place of its own.
fn recipe(title: &str, table: &str, changes: &[[&str; 2]]) -> String {
    let page = include_str!("../../../../docs/recipes.md");
    let (_, rest) = page.split_once(&format!("\n## {title}\n")).unwrap();
    let (_, rest) = rest.split_once(&format!("\n[[{table}]]\n")).unwrap();
    let (block, _) = rest.split_once("```").unwrap();
    changes.iter().fold(block.to_owned(), |block, [from, to]| {
        assert!(block.contains(from), "{from:?} is not in {block}");
        block.replace(from, to)
    })
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
            (gateway.status()["state"] == "asleep" && self.house.servers().is_empty()).then_some(())
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
    let table = recipe(
        "A game server by UDP",
        "udp",
        &[
            ["0.0.0.0:27015", &listen],
            ["\"box\"", "\"site\""],
            ["10.0.0.5:27015", &game.to_string()],
            ["192.168.0.0/16", "127.0.0.0/8"],
            ["quiet = \"10m\"", "quiet = \"3s\""],
        ],
    );
    let service = Service::build(
        &format!(
            "HOME=DIR {server} --gameid minetest --world DIR/world --config DIR/game.conf --logfile '' --port {}",
            game.port()
        ),
        "NIGHTWATT origin --listen ORIGIN --ttl 0 >/dev/null &",
        "",
        &format!("[[udp]]\n{table}"),
    );
    service.write("game.conf", &format!("bind_address = {}\nserver_announce = false\n", game.ip()));
    let gateway = service.house.serve(&[]);
    service.off(&gateway);
    for players in 1..=2 {
        let (client, peer) = join(listen.parse().unwrap());
        assert!(peer >= 2, "0 is none, and 1 is the server: {peer}");
        assert_eq!(gateway.status()["state"], "awake");
        client.send(&minetest::goodbye(peer)).unwrap();
        service.off(&gateway);
        assert_eq!(wakeups(&gateway), players);
    }
}

const APP_INI: &str = "RUN_MODE = prod
RUN_USER = root
I_AM_BEING_UNSAFE_RUNNING_AS_ROOT = true
WORK_PATH = DIR/gitea
[server]
HTTP_ADDR = @host@
HTTP_PORT = @port@
ROOT_URL = http://git.test/
DISABLE_SSH = true
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

fn git(folder: &Path, words: &[&str]) -> String {
    let who = ["-c", "user.name=Keeper", "-c", "user.email=keeper@git.test"];
    run(command("git").current_dir(folder).args(who).args(words).env("GIT_TERMINAL_PROMPT", "0"))
}

#[test]
#[ignore = "installs programs: the lane `recipes`"]
fn git_pushes_to_and_clones_from_a_gitea_that_sleeps_in_between() {
    let Some(program) = program("gitea") else { return };
    let service = Service::build(
        &format!("HOME=DIR USER=root {} --config DIR/app.ini web", program.display()),
        "",
        "compression.enabled = true\nlimits.origin_timeout = \"10m\"\n",
        "",
    );
    let origin = service.house.origin;
    let settings = APP_INI.replace("@host@", &origin.ip().to_string());
    let settings = settings.replace("@port@", &origin.port().to_string());
    let sources = program.parent().unwrap().join("share");
    service.write("app.ini", &settings.replace("@share@", &sources.display().to_string()));
    run(gitea(&service, &program).arg("migrate"));
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
    run(gitea(&service, &program).args(["admin", "user", "create"]).args(user));
    let gateway = service.house.serve(&[]);
    service.off(&gateway);
    // The request that wakes it is the one that makes the repository.
    let body = json!({"name": "notes", "default_branch": "main"}).to_string();
    let fields = format!(
        "{PROGRAM}Authorization: Basic {LOGIN}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n",
        body.len()
    );
    let made = send(gateway.address, &head("POST", "/api/v1/user/repos", &fields), body.as_bytes());
    let made = made.unwrap();
    assert_eq!(made.status, 201, "{}", made.text());
    service.off(&gateway);
    let (here, there) = (service.house.path("here"), service.house.path("there"));
    fs::create_dir(&here).unwrap();
    let url = format!("http://{name}:{password}@{}/{name}/notes.git", gateway.address);
    // 16 MiB that do not compress: a push in many chunks.
    let noise: Vec<u8> = (0..1 << 20).flat_map(|n: u64| noise_of(n)).collect();
    fs::write(here.join("noise"), &noise).unwrap();
    git(&here, &["init", "--quiet", "--initial-branch", "main"]);
    git(&here, &["add", "noise"]);
    git(&here, &["commit", "--quiet", "--message", "Noise"]);
    git(&here, &["push", "--quiet", &url, "main"]);
    service.off(&gateway);
    git(service.house.dir.path(), &["clone", "--quiet", &url, &there.display().to_string()]);
    assert!(fs::read(there.join("noise")).unwrap() == noise, "the clone has other bytes");
    assert_eq!(git(&here, &["rev-parse", "HEAD"]), git(&there, &["rev-parse", "HEAD"]));
    service.off(&gateway);
    assert_eq!(wakeups(&gateway), 3, "for the repository, the push and the clone");
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
