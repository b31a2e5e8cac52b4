//! Use of the server past the proxy: programs are asked, and what they answer keeps the server awake.

use std::net::SocketAddr;

use nightwatt_gateway::Config;
use nightwatt_gateway::config::InUseConfig;
use nightwatt_gateway::control::Order;
use serde_json::{Value, json};

use crate::client::get;
use crate::origin::{Act, Origin, Says, ok, status};
use crate::stage::{Stage, asleep, awake, settle, timeout, watched};

/// A probe of the program at this address.
fn probe(at: SocketAddr, lines: &str) -> InUseConfig {
    toml::from_str(&format!("url = \"http://{at}/media\"\n{lines}")).unwrap()
}

fn sleeps_soon(probes: Vec<InUseConfig>) -> impl FnOnce(&mut Config) {
    move |config| {
        config.site[0].in_use = probes;
        config.scenario.policy = timeout(60);
    }
}

fn says(json: &Value) -> Says {
    ok(&json.to_string()).field("Content-Type", "application/json; charset=utf-8")
}

/// What Jellyfin 10.10 answers to `GET /Sessions` for a browser that shows its home page, and a television with a film:
/// the names and shapes of its API's `SessionInfoDto`.
fn sessions(film: bool) -> Value {
    let session = |id: &str, client: &str| {
        json!({
            "PlayState": {
                "CanSeek": false, "IsPaused": false, "IsMuted": false, "RepeatMode": "RepeatNone",
                "PlaybackOrder": "Default"
            },
            "AdditionalUsers": [],
            "Capabilities": {
                "PlayableMediaTypes": ["Audio", "Video"], "SupportedCommands": ["Play", "Pause"],
                "SupportsMediaControl": true, "SupportsPersistentIdentifier": false
            },
            "RemoteEndPoint": "10.0.0.9",
            "PlayableMediaTypes": ["Audio", "Video"],
            "Id": id,
            "UserId": "5e2f6bd2d2f54c2ea6c2f7f2e7d0c0b1",
            "UserName": "ann",
            "Client": client,
            "LastActivityDate": "2026-11-23T20:15:00.0000000Z",
            "LastPlaybackCheckIn": "0001-01-01T00:00:00.0000000Z",
            "DeviceName": "Television",
            "DeviceId": "TW96aWxsYS81LjA",
            "ApplicationVersion": "10.10.3",
            "IsActive": true,
            "SupportsMediaControl": false,
            "SupportsRemoteControl": false,
            "NowPlayingQueue": [],
            "NowPlayingQueueFullItems": [],
            "HasCustomDeviceName": false,
            "ServerId": "f4a1d6f0a3a947d89e7a5a9a9ff8c1ab",
            "SupportedCommands": ["Play", "Pause"]
        })
    };
    let mut all = vec![session("a1", "Jellyfin Web"), session("b2", "Jellyfin Android TV")];
    if film {
        all[1]["PlayState"]["PositionTicks"] = json!(36_000_000_000_u64);
        all[1]["NowPlayingItem"] = json!({
            "Name": "Metropolis", "Id": "0fbd0b1a5c", "RunTimeTicks": 91_800_000_000_u64,
            "IsFolder": false, "Type": "Movie", "MediaType": "Video", "ProductionYear": 1927
        });
    }
    Value::Array(all)
}

/// A program with this script, which the site is asked about.
async fn program(stage: &mut Stage, lines: &str, answer: fn(bool) -> Says) -> Origin {
    let program = Origin::new(&stage.clock);
    script(&program, answer, true);
    program.up();
    let probes = vec![probe(program.address(), lines)];
    stage.reload(sleeps_soon(probes)).await.unwrap();
    program
}

fn script(program: &Origin, answer: fn(bool) -> Says, used: bool) {
    program.script(move |_| -> Vec<Act> { answer(used).acts() });
}

#[test]
fn a_film_that_jellyfin_plays_keeps_the_server_awake_to_its_end() {
    let token = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(token.path(), "0123abcd\n").unwrap();
    let lines = format!("preset = \"jellyfin\"\ntoken_file = \"{}\"", token.path().display());
    awake().play(async |stage| {
        let jellyfin = program(stage, &lines, |film| says(&sessions(film))).await;
        stage.at(7200).await;
        let status = stage.status();
        assert_eq!((status.state.as_str(), stage.commands()), ("awake", (0, 0)));
        let why = status.kept_awake_by.unwrap();
        assert_eq!(why, "use past the proxy: jellyfin (sessions with media: 1)");
        assert_eq!((status.in_use[0].state.as_str(), status.in_use[0].idle), ("in-use", 0));
        let asked = jellyfin.lines().len();
        // Once a minute, and first when it had served no client for 10 s.
        assert!((119..=121).contains(&asked), "{asked}");
        let metrics = stage.ask_admin(get("/metrics")).await.text().to_owned();
        let has = |line: &str| metrics.lines().any(|it| it == line);
        assert!(has("nightwatt_in_use{site=\"blog\",probe=\"jellyfin\"} 1"), "{metrics}");
        assert!(has("nightwatt_in_use_silent{site=\"blog\",probe=\"jellyfin\"} 0"), "{metrics}");
        script(&jellyfin, |film| says(&sessions(film)), false);
        stage.at(7400).await;
        assert_eq!((stage.state().as_str(), stage.commands()), ("asleep", (0, 1)));
        let asked = jellyfin.lines().len();
        stage.at(90_000).await;
        assert_eq!(jellyfin.lines().len(), asked, "nothing is sent to a server that sleeps");
        assert_eq!(stage.status().in_use[0].state, "asleep");
        let told = serde_json::to_string(&stage.running_status()).unwrap();
        assert!(!told.contains("0123abcd") && told.contains("jellyfin"), "{told}");
    });
}

#[test]
fn presets_ask_as_their_programs_want_it() {
    awake().play(async |stage| {
        let token = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(token.path(), "t0ken\n").unwrap();
        let lines = |preset: &str| {
            format!("preset = \"{preset}\"\ntoken_file = \"{}\"", token.path().display())
        };
        let plex = json!({"MediaContainer": {"size": 1, "Metadata": [{"title": "Metropolis"}]}});
        let tv = json!({"entity_id": "media_player.tv", "state": "playing", "attributes": {}});
        let home = lines("home-assistant") + "\nentity = \"media_player.tv\"\nequals = \"playing\"";
        for (lines, answer, target, field, value) in [
            (
                lines("jellyfin"),
                sessions(true),
                "/media/Sessions",
                "authorization",
                "MediaBrowser Token=\"t0ken\"",
            ),
            (lines("emby"), sessions(true), "/media/Sessions", "x-emby-token", "t0ken"),
            (lines("plex"), plex, "/media/status/sessions", "x-plex-token", "t0ken"),
            (home, tv, "/media/api/states/media_player.tv", "authorization", "Bearer t0ken"),
        ] {
            let program = Origin::new(&stage.clock);
            program.script(move |_| says(&answer).acts());
            program.up();
            let probes = vec![probe(program.address(), &lines)];
            stage.reload(sleeps_soon(probes)).await.unwrap();
            // One question: the first after 10 s, and then each a minute after the one before.
            stage.pass(std::time::Duration::from_secs(61)).await;
            assert_eq!(stage.status().in_use[0].used, 1, "{lines}");
            let seen = program.only();
            assert_eq!((seen.method.as_str(), seen.target.as_str()), ("GET", target));
            assert_eq!(seen.field(field), Some(value));
            assert_eq!(seen.field("accept"), Some("application/json"));
        }
    });
}

#[test]
fn a_program_that_does_not_answer_delays_sleep_for_ten_minutes() {
    for answer in [
        (|_| status(401, "")) as fn(bool) -> Says,
        |_| status(302, "").field("Location", "/login"),
        |_| ok("<html>"),
        |_| ok("{\"error\": 1}"),
    ] {
        awake().play(async |stage| {
            let _program = program(stage, "preset = \"plex\"", answer).await;
            stage.at(500).await;
            let status = stage.status();
            assert_eq!((status.state.as_str(), &*status.in_use[0].state), ("awake", "unknown"));
            let why = status.kept_awake_by.unwrap();
            assert!(why.starts_with("the probe of use `plex`, which has no answer: "), "{why}");
            stage.at(700).await;
            assert_eq!((stage.state().as_str(), stage.commands()), ("asleep", (0, 1)));
            let probe = &stage.status().in_use[0];
            assert_eq!((probe.used, probe.idle, probe.failed), (0, 0, 10), "a minute apart");
        });
    }
}

/// A program that answers that many questions once all of them are there, and later ones at once. If they do not come
/// within a time it refuses all.
fn at_once(count: usize) -> SocketAddr {
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, asked) = std::sync::mpsc::channel();
    std::thread::spawn(move || listener.incoming().try_for_each(|it| sender.send(it.unwrap())));
    std::thread::spawn(move || {
        let late = std::time::Duration::from_secs(20);
        let first: Vec<_> = (0..count).map_while(|_| asked.recv_timeout(late).ok()).collect();
        let status = if first.len() == count { "200 OK" } else { "500 Too few" };
        for mut stream in first.into_iter().chain(asked) {
            let _ = stream.read(&mut [0; 4096]);
            let answer =
                format!("HTTP/1.1 {status}\r\nContent-Length: 1\r\nConnection: close\r\n\r\n1");
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    address
}

#[test]
fn the_probes_of_a_site_are_asked_at_the_same_time() {
    awake().play(async |stage| {
        let program = at_once(3);
        let probes = ["a", "b", "c"].map(|name| probe(program, &format!("name = \"{name}\"")));
        stage.reload(sleeps_soon(probes.to_vec())).await.unwrap();
        stage.at(40).await;
        let seen = stage.status().in_use;
        let seen: Vec<_> = seen.iter().map(|it| (it.used, it.failed)).collect();
        assert_eq!(seen, [(1, 0); 3]);
    });
}

#[test]
fn an_operator_and_a_client_are_not_held_up_by_probes() {
    awake().play(async |stage| {
        let _plex =
            program(stage, "preset = \"plex\"", |_| says(&json!({"MediaContainer": {"size": 2}})))
                .await;
        stage.at(300).await;
        assert_eq!(stage.ask(get("/a")).await.answer(), "server");
        stage.order(Order::Sleep { site: None }).await;
        stage.at(310).await;
        assert_eq!((stage.state().as_str(), stage.commands()), ("asleep", (0, 1)));
        assert_eq!(stage.ask(get("/b")).await.answer(), "held");
        stage.at(4000).await;
        assert_eq!((stage.state().as_str(), stage.commands()), ("awake", (1, 1)));
    });
}

#[test]
fn a_reload_takes_probes_away_and_a_missing_token_refuses_it() {
    asleep().play(async |stage| {
        let at: SocketAddr = "127.0.0.1:9".parse().unwrap();
        let lines = "preset = \"plex\"\ntoken_file = \"/nowhere/token\"";
        let said = stage.reload(sleeps_soon(vec![probe(at, lines)])).await.unwrap_err().to_string();
        assert!(said.contains("the probe `plex` cannot be asked"), "{said}");
        assert!(said.contains("/nowhere/token"), "{said}");
        stage.reload(sleeps_soon(vec![probe(at, "preset = \"plex\"")])).await.unwrap();
        assert_eq!(stage.ask(get("/a")).await.answer(), "held");
        stage.pass(std::time::Duration::from_mins(5)).await;
        assert_eq!(stage.commands(), (1, 0), "nothing answers there: in use for ten minutes");
        stage.reload(sleeps_soon(Vec::new())).await.unwrap();
        stage.pass(std::time::Duration::from_mins(1)).await;
        assert_eq!(stage.commands(), (1, 1));
    });
}

/// transmission-daemon, which no peer can reach.
struct Transmission {
    child: std::process::Child,
    address: SocketAddr,
    _dir: tempfile::TempDir,
}

impl Transmission {
    fn start() -> Option<Self> {
        let program = nightwatt_needs::program("transmission-daemon")?;
        let dir = tempfile::tempdir().unwrap();
        let address = nightwatt_needs::free_address();
        let child = std::process::Command::new(program)
            .args(["--foreground", "--no-dht", "--no-lpd", "--no-portmap", "--no-auth", "--utp"])
            .args(["--rpc-bind-address", &address.ip().to_string()])
            .args(["--port", &address.port().to_string()])
            .args(["--allowed", "127.*.*.*", "--bind-address-ipv4", "127.0.0.1"])
            .arg("--config-dir")
            .arg(dir.path())
            .arg("--download-dir")
            .arg(dir.path())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        Some(Self { child, address, _dir: dir })
    }

    /// Calls a method of its remote procedure call, as its own programs do.
    async fn call(&self, method: &str, arguments: Value) -> Value {
        use nightwatt_host::http::{Ask, Client, Server};
        let server = Server::new(self.address.to_string().parse().unwrap(), None);
        let mut client = Client::new(server, 1 << 20);
        let body = json!({"method": method, "arguments": arguments}).to_string();
        let mut ask = Ask::get("/transmission/rpc");
        (ask.method, ask.body) = (http::Method::POST, body.into());
        let refused = client.ask(&ask).await.unwrap();
        let name = http::HeaderName::from_static("x-transmission-session-id");
        let session = [(name.clone(), refused.headers[&name].clone())];
        let answer = client.ask(&Ask { headers: &session, ..ask }).await.unwrap();
        let answer: Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(answer["result"], "success", "{answer}");
        answer
    }
}

impl Drop for Transmission {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn transmission_keeps_the_server_awake_while_it_downloads() {
    let Some(mut transmission) = Transmission::start() else { return };
    awake().real().play(async |stage| {
        let listens = async {
            while tokio::net::TcpStream::connect(transmission.address).await.is_err() {
                let ended = transmission.child.try_wait().unwrap();
                assert_eq!(ended, None, "transmission-daemon has ended");
                settle(&stage.clock).await;
            }
        };
        watched("transmission-daemon to listen", listens).await;
        let lines = "preset = \"transmission\"\nevery = \"1s\"";
        let mut transmission_probe = probe(transmission.address, lines);
        transmission_probe.url =
            toml::from_str::<InUseConfig>(&format!("url = \"http://{}\"", transmission.address))
                .unwrap()
                .url;
        // Of a magnet link nothing is known but its name: it is downloaded until a peer comes, and none does.
        let magnet = "magnet:?xt=urn:btih:c12fe1c06bba254a9dc9f519b335aa7c1367a88a&dn=nothing";
        transmission.call("torrent-add", json!({"filename": magnet})).await;
        stage.reload(sleeps_soon(vec![transmission_probe])).await.unwrap();
        stage.until("a torrent", |it| it.in_use[0].state == "in-use").await;
        let probe = stage.status().in_use.remove(0);
        assert_eq!((probe.reason.as_deref(), probe.failed), (Some("torrents: 1"), 0));
        transmission.call("torrent-stop", json!({})).await;
        stage.until("no torrent", |it| it.in_use[0].state == "idle").await;
        assert_eq!(stage.status().in_use[0].failed, 0, "each question repeats the session's id");
    });
}
