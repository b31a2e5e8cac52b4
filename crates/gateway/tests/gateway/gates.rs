//! The real proxies with a gate, in the configurations of docs/gates: a server that is a process sleeps
//! behind each of them.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_gateway::ledger_file::{self, Record};
use nightwatt_gateway::status::SiteStatus;
use nightwatt_gateway::{Config, Gateway, Options, Running};
use nightwatt_needs::{free_address, programs};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;

use crate::client::{BROWSER, CRAWLER};
use crate::stage::secs;

/// Whatever has not happened by then does not happen.
const DEADLINE: u64 = 60;

/// This is how long a request counts that was let through. The other proxy has a quarter of it to pass the request on, which
/// must be enough on a busy machine.
const QUIET: Duration = Duration::from_secs(4);

/// Between the parts of what takes long: thirty of them take longer than [`QUIET`]. The server's script has it, too.
const PAUSE: Duration = Duration::from_millis(200);

/// The server: echoes what is sent to it, sends `/slow` in thirty parts over six seconds, and is silent
/// for as long before `/late`. It ends when its folder is gone, however the test ended.
const SERVER: &str = r#"
import http.server, os, sys, threading, time
host, port, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
def guard():
    while os.path.isdir(folder):
        time.sleep(0.5)
    os._exit(0)
threading.Thread(target=guard, daemon=True).start()
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        slow = self.path == "/slow"
        if self.path == "/late":
            time.sleep(6)
        text = f"{self.command} {self.path} from {self.headers.get('X-Forwarded-For')}: ".encode() + body
        self.send_response(200)
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Length", str(30000 if slow else len(text)))
        self.end_headers()
        if not slow:
            self.wfile.write(text)
            return
        for part in range(30):
            self.wfile.write(b"x" * 1000)
            self.wfile.flush()
            time.sleep(0.2)
    do_GET = do_POST = do_PROPFIND = answer
    def log_message(self, *_):
        pass
http.server.ThreadingHTTPServer((host, port), Handler).serve_forever()
"#;

/// Looks again and again until there is something to see.
async fn eventually<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let clock = Clock::real();
    let deadline = clock.now().mono + secs(DEADLINE);
    loop {
        if let Some(seen) = look().await {
            return seen;
        }
        assert!(clock.now().mono < deadline, "not within {DEADLINE} s: {what}");
        clock.sleep(Duration::from_millis(20)).await;
    }
}

/// A program of another proxy; it ends with this.
struct Product(Child);

impl Drop for Product {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What the other proxy has logged is told if the test fails.
struct Shown(PathBuf);

impl Drop for Shown {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", fs::read_to_string(&self.0).unwrap_or_default());
        }
    }
}

/// Nightwatt, a server that sleeps, and another proxy in front of it.
struct Scene {
    running: Option<Running>,
    at: SocketAddr,
    product: Option<Product>,
    dir: tempfile::TempDir,
}

/// What came back, as text.
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Scene {
    fn set(clock: &Clock) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let at = free_address();
        fs::write(dir.path().join("server.py"), SERVER).unwrap();
        let (folder, (host, port)) = (dir.path().display(), (at.ip(), at.port()));
        let quiet = QUIET.as_secs();
        let text = format!(
            r#"
            state_dir = "{folder}/state"
            [gate]
            listen = ["127.0.0.1:0"]
            quiet = "{quiet}s"
            [scenario]
            policy = "timeout 100ms"
            sla.enabled = false
            [scenario.server]
            min_on = "0"
            quiet = "100ms"
            [[site]]
            name = "blog"
            origin = "http://{at}"
            watch = "500ms"
            [site.power.process]
            command = ["python3", "{folder}/server.py", "{host}", "{port}", "{folder}"]
            "#
        );
        let config = Config::parse(&text, "test").unwrap_or_else(|error| panic!("{error}"));
        let options = Options { durable: false, ..Options::default() };
        let running = Gateway::start(config, clock.clone(), options).unwrap();
        Self { running: Some(running), at, product: None, dir }
    }

    fn running(&self) -> &Running {
        self.running.as_ref().expect("nightwatt runs")
    }

    fn status(&self) -> SiteStatus {
        self.running().gateway.status().sites.remove(0)
    }

    async fn is(&self, state: &str) {
        eventually(state, async || (self.status().state == state).then_some(())).await;
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A file of the documentation, with the addresses of this scene in it.
    fn file(&self, name: &str, changes: &[(&str, &str)]) -> PathBuf {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/gates");
        let mut text = fs::read_to_string(docs.join(name)).unwrap();
        let gate = self.running().gate_addresses[0];
        let (host, port) = (self.at.ip().to_string(), format!("\"{}\"", self.at.port()));
        let own = [
            ("10.0.0.5:8080", self.at.to_string()),
            ("127.0.0.1:9181", gate.to_string()),
            ("10.0.0.5", host),
            ("\"8080\"", port),
            ("\"9181\"", format!("\"{}\"", gate.port())),
        ];
        let own = own.iter().map(|(from, to)| (*from, to.as_str()));
        for (from, to) in changes.iter().copied().chain(own) {
            text = text.replace(from, to);
        }
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// Starts the other proxy; it takes connections at `at` when this returns. Should this process be
    /// killed, it is too.
    async fn start(&mut self, mut command: Command, at: SocketAddr) {
        let log = fs::File::create(self.path("product.log")).unwrap();
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let mut product = Product(command.spawn().unwrap());
        eventually("the other proxy to listen", async || {
            let log = || fs::read_to_string(self.path("product.log")).unwrap_or_default();
            if let Ok(Some(status)) = product.0.try_wait() {
                panic!("it ended with {status}:\n{}", log());
            }
            std::net::TcpStream::connect(at).ok()
        })
        .await;
        self.product = Some(product);
    }

    fn wakes(&self) -> Vec<String> {
        let records = ledger_file::read(&self.path("state/blog.ledger.jsonl")).unwrap_or_default();
        let wakes = records.iter().filter_map(|record: &Record| record.cause.as_ref());
        wakes.map(|cause| format!("{cause:?}")).collect()
    }
}

/// A request from 127.0.0.5, on a connection of its own.
async fn ask(at: SocketAddr, line: &str, fields: &[(&str, &str)], body: &str) -> Answer {
    ask_slowly(at, line, fields, &[body]).await
}

/// The same with a body in parts, and a pause before each but the first.
async fn ask_slowly(at: SocketAddr, line: &str, fields: &[(&str, &str)], parts: &[&str]) -> Answer {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.5:0".parse().unwrap()).unwrap();
    let mut stream = socket.connect(at).await.unwrap();
    let mut head = format!("{line} HTTP/1.1\r\nHost: blog.example.org\r\nConnection: close\r\n");
    for (name, value) in fields {
        head.extend([name, ": ", value, "\r\n"]);
    }
    let length: usize = parts.iter().map(|part| part.len()).sum();
    if length > 0 {
        head.extend(["Content-Length: ", &length.to_string(), "\r\n"]);
    }
    stream.write_all(format!("{head}\r\n{}", parts[0]).as_bytes()).await.unwrap();
    for part in &parts[1..] {
        Clock::real().sleep(PAUSE).await;
        if stream.write_all(part.as_bytes()).await.is_err() {
            // It has answered already.
            break;
        }
    }
    let mut bytes = Vec::new();
    let reading = stream.read_to_end(&mut bytes);
    let _ = Clock::real().timeout(secs(DEADLINE), reading).await.expect("an answer").unwrap();
    let text = String::from_utf8_lossy(&bytes);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|it| it.parse().ok()).expect("a status");
    let is_chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    let body = if is_chunked { unchunked(body) } else { body.to_owned() };
    Answer { status, head: head.to_ascii_lowercase(), body }
}

fn unchunked(mut text: &str) -> String {
    let mut body = String::new();
    while let Some((size, rest)) = text.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap();
        if size == 0 {
            break;
        }
        body += &rest[..size];
        text = &rest[size + 2..];
    }
    body
}

const READS: (&str, &str) = ("Accept", "text/html,*/*;q=0.8");

/// What is so with each of them.
async fn story(scene: &Scene, at: SocketAddr) {
    scene.is("asleep").await;
    let crawler = ask(at, "GET /page", &[("User-Agent", CRAWLER)], "").await;
    assert_eq!(crawler.status, 503, "{}", crawler.head);
    assert!(crawler.head.contains("retry-after: "), "{}", crawler.head);
    assert_eq!((scene.status().state.as_str(), scene.wakes()), ("asleep", vec![]));

    // What a client says of itself is not what the gate is told.
    let forged = [
        ("User-Agent", BROWSER),
        READS,
        ("X-Forwarded-For", "198.51.100.7"),
        ("X-Forwarded-Method", "DELETE"),
        ("X-Forwarded-Uri", "/forged"),
        ("X-Forwarded-Host", "forged.example.org"),
        ("Nightwatt", "go"),
        ("Nightwatt-Refusal", "icon"),
    ];
    let page = ask(at, "GET /page?x=1&y=%20", &forged, "").await;
    assert_eq!(page.status, 503, "{}\n{}", page.head, page.body);
    assert!(page.body.contains("It is waking up for you"), "{}\n{}", page.head, page.body);
    for field in ["retry-after: ", "cache-control: no-store", "content-type: text/html"] {
        assert!(page.head.contains(field), "{field} in {}", page.head);
    }
    let state = ask(at, "GET /.nightwatt/state", &[], "").await;
    assert!(state.status == 200 && state.body.contains("\"state\""), "{}", state.body);
    // Not that it is awake: that may be over before it is looked for.
    eventually("a wake-up", async || (!scene.wakes().is_empty()).then_some(())).await;
    let cause = scene.wakes().concat();
    assert!(cause.contains("GET /page?x=1&y=%20") && cause.contains("127.0.0.5"), "{cause}");

    scene.is("asleep").await;
    let program = [("User-Agent", "curl/8")];
    let held = ask(at, "POST /api", &program, "precious").await;
    assert_eq!(held.status, 200, "{}\n{}", held.head, held.body);
    assert!(held.body.starts_with("POST /api from "), "{}", held.body);
    assert!(held.body.ends_with(": precious"), "{}", held.body);
    let cause = scene.wakes().pop().unwrap();
    assert!(cause.contains("POST /api") && cause.contains("127.0.0.5"), "{cause}");

    // It goes on for six seconds, which is longer than the gate waits: but bytes move.
    let (wakes, slow) = (scene.wakes().len(), ask(at, "GET /slow", &program, "").await);
    assert_eq!((slow.status, slow.body.len()), (200, 30_000), "{}", slow.head);
    assert!(scene.wakes().len() <= wakes + 1, "it did not sleep under it");

    // As long an upload, and a server that says nothing for as long.
    scene.is("asleep").await;
    let wakes = scene.wakes().len();
    let part = "0123456789".repeat(800);
    let slow = ask_slowly(at, "POST /upload", &program, &[&*part; 30]).await;
    assert_eq!(slow.status, 200, "{}\n{}", slow.head, slow.body);
    assert!(slow.body.ends_with(&part.repeat(30)), "{} bytes", slow.body.len());
    Clock::real().sleep(Duration::from_millis(50)).await;
    let late = ask(at, "GET /late", &program, "").await;
    assert!(late.status == 200 && late.body.starts_with("GET /late"), "{}", late.head);
    assert!(scene.wakes().len() <= wakes + 2, "it did not sleep under them");

    // A method that not every proxy knows.
    scene.is("asleep").await;
    let other = ask(at, "PROPFIND /dav", &program, "").await;
    assert_eq!(other.status, 200, "{}\n{}", other.head, other.body);
    assert!(scene.wakes().pop().unwrap().contains("PROPFIND /dav"));

    // Bytes that are no text.
    let raw = ask(at, "GET /gr\u{fc}n", &program, "").await;
    assert!([200, 400, 500].contains(&raw.status), "{}", raw.head);
    scene.is("asleep").await;
}

/// When nightwatt is not there nothing passes, though the server is up.
async fn closed(mut scene: Scene, at: SocketAddr) {
    scene.running.take().unwrap().stop().await;
    let mut server = bound("python3");
    let (host, port) = (scene.at.ip().to_string(), scene.at.port().to_string());
    server.arg(scene.path("server.py")).args([&host, &port]).arg(scene.dir.path());
    let _server = Product(server.spawn().unwrap());
    eventually("the server", async || std::net::TcpStream::connect(scene.at).ok()).await;
    for line in [
        "GET /page",
        "POST /api",
        "PROPFIND /dav",
        "GET /.nightwatt/../secret",
        "GET /.nightwatt/%2e%2e/secret",
        "GET //page",
    ] {
        let got = ask(at, line, &[("User-Agent", "curl/8")], "").await;
        assert!(got.status >= 400, "{line}: {}\n{}", got.head, got.body);
    }
}

/// Plays the story with a proxy; `command` starts it at an address.
fn beside(program: &str, command: impl FnOnce(&Scene, SocketAddr) -> Command) {
    if !programs(&[program, "python3"]) {
        return;
    }
    let clock = Clock::real();
    clock.runtime().unwrap().block_on(async {
        let mut scene = Scene::set(&clock);
        let at = free_address();
        let run = command(&scene, at);
        scene.start(run, at).await;
        let _log = Shown(scene.path("product.log"));
        // Traefik listens before it has read what is behind it.
        eventually("the way to the gate", async || {
            (ask(at, "GET /.nightwatt/state", &[], "").await.status == 200).then_some(())
        })
        .await;
        story(&scene, at).await;
        closed(scene, at).await;
    });
}

/// A program that is killed when this thread ends, however that comes.
fn bound(program: &str) -> Command {
    let mut command = Command::new("setpriv");
    let program = nightwatt_needs::command(program);
    command.args(["--pdeathsig", "KILL"]).arg(program.get_program()).process_group(0);
    command
}

#[test]
fn nginx_asks_by_auth_request() {
    beside("nginx", |scene, at| {
        let site = scene.file("nginx.conf", &[("listen 80;", &format!("listen {at};"))]);
        let dir = scene.dir.path().display();
        let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|what| format!("{what}_temp_path {dir}/{what};\n"))
            .concat();
        let text = format!(
            "daemon off; master_process off; pid {dir}/nginx.pid; error_log stderr;\nevents {{}}\n\
             http {{\naccess_log off;\n{temporary}include {};\n}}\n",
            site.display()
        );
        fs::write(scene.path("main.conf"), text).unwrap();
        let mut nginx = bound("nginx");
        nginx.arg("-e").arg("stderr").arg("-c").arg(scene.path("main.conf"));
        nginx
    });
}

#[test]
fn caddy_asks_by_forward_auth() {
    beside("caddy", |scene, at| {
        let file = scene.file("Caddyfile", &[("http://blog.example.org", &format!("http://{at}"))]);
        let text = fs::read_to_string(&file).unwrap();
        let ours = at.to_string();
        let text = text.replacen(
            &format!("http://{ours} {{"),
            &format!("http://:{} {{\n\tbind {}", at.port(), at.ip()),
            1,
        );
        fs::write(&file, format!("{{\n\tadmin off\n\tauto_https off\n}}\n{text}")).unwrap();
        let mut caddy = bound("caddy");
        caddy.args(["run", "--adapter", "caddyfile", "--config"]).arg(file);
        caddy.env("HOME", scene.dir.path()).env_remove("XDG_DATA_HOME");
        caddy
    });
}

#[test]
fn traefik_asks_by_forward_auth() {
    let found = std::env::var("TRAEFIK");
    if found.is_err() && !programs(&["traefik"]) {
        eprintln!("`TRAEFIK=$(tools/traefik)` fetches it");
        return;
    }
    let program = found.unwrap_or_else(|_| "traefik".to_owned());
    beside(&program, |scene, at| {
        let file = scene.file("traefik.yml", &[]).display().to_string();
        // An entry point that does not take off what a client says of itself: the gate's part has to do it.
        let web = format!("address: {at}\n    forwardedHeaders:\n      insecure: true");
        let changes = [("/etc/traefik/blog.yml", &*file), ("address: :80", &web)];
        let start = scene.file("traefik-start.yml", &changes);
        // It would ask its makers.
        let quiet = "global:\n  checkNewVersion: false\n";
        fs::write(&start, fs::read_to_string(&start).unwrap() + quiet).unwrap();
        let mut traefik = bound(&program);
        traefik.arg(format!("--configFile={}", start.display()));
        traefik
    });
}

#[test]
fn varnish_asks_before_it_fetches() {
    beside("varnishd", |scene, at| {
        let file = scene.file("varnish.vcl", &[]);
        let mut varnish = bound("varnishd");
        varnish.args(["-F", "-j", "none", "-s", "malloc,16m", "-a", &at.to_string(), "-n"]);
        varnish.arg(scene.path("varnish")).arg("-f").arg(file);
        varnish
    });
}

#[test]
fn haproxy_asks_by_a_script() {
    beside("haproxy", |scene, at| {
        let script = scene.file("haproxy.lua", &[]).display().to_string();
        let changes =
            [("/etc/haproxy/nightwatt.lua", &*script), ("bind :80", &format!("bind {at}"))];
        let file = scene.file("haproxy.cfg", &changes);
        let mut haproxy = bound("haproxy");
        haproxy.arg("-db").arg("-f").arg(file);
        haproxy
    });
}

#[test]
fn haproxy_lets_nothing_through_when_its_script_fails() {
    if !programs(&["haproxy", "python3"]) {
        return;
    }
    let clock = Clock::real();
    clock.runtime().unwrap().block_on(async {
        let mut scene = Scene::set(&clock);
        let at = free_address();
        let begin = "local has =";
        let fails = [(begin, &*format!("error(\"whatever\")\n  {begin}"))];
        let script = scene.file("haproxy.lua", &fails).display().to_string();
        let changes =
            [("/etc/haproxy/nightwatt.lua", &*script), ("bind :80", &format!("bind {at}"))];
        let file = scene.file("haproxy.cfg", &changes);
        let mut haproxy = bound("haproxy");
        haproxy.arg("-db").arg("-f").arg(file);
        scene.start(haproxy, at).await;
        let got = ask(at, "GET /page", &[("User-Agent", "curl/8")], "").await;
        assert_eq!(got.status, 503, "{}", got.head);
        closed(scene, at).await;
    });
}

/// No proxy, but what one would do: a request is let through, and others that may not keep the server
/// awake go there by a connection that is kept.
#[test]
fn guests_on_connections_that_are_kept_do_not_keep_the_server_awake() {
    if !programs(&["python3"]) {
        return;
    }
    let clock = Clock::real();
    clock.runtime().unwrap().block_on(async {
        let scene = Scene::set(&clock);
        scene.is("asleep").await;
        let gate = scene.running().gate_addresses[0];
        let asks = [
            ("User-Agent", "curl/8"),
            ("X-Forwarded-Method", "GET"),
            ("X-Forwarded-Uri", "/"),
            ("X-Forwarded-For", "203.0.113.9"),
            ("X-Forwarded-Host", "blog.example.org"),
        ];
        assert_eq!(ask(gate, "GET /ask", &asks, "").await.status, 204);
        let mut kept = tokio::net::TcpStream::connect(scene.at).await.unwrap();
        let guest = async {
            loop {
                // Twice within the quiet time.
                let sent = kept.write_all(b"GET /feed HTTP/1.1\r\nHost: a\r\n\r\n").await;
                let got = kept.read(&mut [0; 4096]).await;
                if sent.is_err() || !got.is_ok_and(|length| length > 0) {
                    // It went to sleep.
                    return;
                }
                clock.sleep(QUIET * 12 / 25).await;
            }
        };
        let mut guest = std::pin::pin!(guest);
        tokio::select! {
            () = &mut guest => {}
            () = scene.is("asleep") => {}
        }
        scene.is("asleep").await;
    });
}

#[test]
fn apache_asks_by_a_script() {
    let modules = Path::new("/usr/lib/apache2/modules");
    if !modules.join("mod_lua.so").exists()
        || !Path::new("/usr/share/lua/5.3/socket/http.lua").exists()
    {
        println!(
            "skipped: there is no Apache with mod_lua and LuaSocket (Debian: apache2-bin lua-socket)"
        );
        return;
    }
    beside("apache2", |scene, at| {
        let script = scene.file("apache.lua", &[]).display().to_string();
        let changes = [
            ("/etc/apache2/nightwatt.lua", &*script),
            ("<VirtualHost *:80>", &format!("<VirtualHost {at}>")),
        ];
        let site = scene.file("apache.conf", &changes);
        let load: String = ["mpm_event", "authz_core", "proxy", "proxy_http", "lua"]
            .map(|name| format!("LoadModule {name}_module {}/mod_{name}.so\n", modules.display()))
            .concat();
        let dir = scene.dir.path().display();
        let text = format!(
            "{load}ServerRoot {dir}\nPidFile {dir}/apache.pid\nDefaultRuntimeDir {dir}\nListen {at}\n\
             ServerName localhost\nErrorLog /dev/stderr\nInclude {}\n",
            site.display()
        );
        fs::write(scene.path("main.conf"), text).unwrap();
        let mut apache = bound("apache2");
        apache.arg("-X").arg("-f").arg(scene.path("main.conf"));
        apache
    });
}

/// What people copy is what was tested.
#[test]
fn the_page_shows_the_very_files() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let page = fs::read_to_string(docs.join("gates.md")).unwrap();
    let mut files: Vec<_> =
        fs::read_dir(docs.join("gates")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert_eq!(files.len(), 9);
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        assert!(page.contains(&format!("\n{text}```")), "docs/gates.md lacks {}", file.display());
    }
}
