//! Real programs through a sleeping machine: ssh, git, TLS.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use nightwatt_gateway::Config;
use nightwatt_power::simulated::Simulated;
use socket2::{Domain, Socket, Type};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};

use crate::passthrough::outcome;
use crate::stage::{Setup, Stage, asleep, secs, timeout, watched};

/// `[[tcp]]` and `[[udp]]` tables on the only site.
pub(crate) fn services(setup: Setup, tables: String) -> Setup {
    setup.with(move |config| {
        let text = format!(
            "listen = [\"127.0.0.1:0\"]\n[[site]]\nname = \"blog\"\norigin = \"http://a:1\"\n\
             power.simulated = {{}}\n{tables}"
        );
        let parsed = Config::parse(&text, "test").unwrap_or_else(|error| panic!("{error}"));
        (config.tcp, config.udp) = (parsed.tcp, parsed.udp);
    })
}

/// A port for a service, listened at from now on: connections wait until they are served.
pub(crate) fn port() -> (std::net::TcpListener, SocketAddr) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// A port of this address (an unspecified one: of all addresses) at which nothing listens. While the socket is kept,
/// only a program gets it that asks for it and sets `SO_REUSEADDR`, as the gateway and other servers do.
pub(crate) fn kept_port(ip: impl Into<IpAddr>) -> (Socket, u16) {
    let at = SocketAddr::new(ip.into(), 0);
    let socket = Socket::new(Domain::for_address(at), Type::STREAM, None).unwrap();
    if at.is_ipv6() {
        // Of both families.
        socket.set_only_v6(false).unwrap();
    }
    socket.set_reuse_address(true).unwrap();
    socket.bind(&at.into()).unwrap();
    let port = socket.local_addr().unwrap().as_socket().unwrap().port();
    (socket, port)
}

/// Whether there is such a program; prints why the test is skipped if not.
pub(crate) fn has(program: &str) -> bool {
    nightwatt_needs::program(program).is_some()
}

/// Runs a program to its end beside the gateway, which runs on this thread.
pub(crate) async fn run(mut command: Command) -> Output {
    command.stdin(Stdio::null());
    let ran = tokio::task::spawn_blocking(move || command.output().unwrap());
    ran.await.unwrap()
}

#[track_caller]
pub(crate) fn succeeded(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{said}");
    text
}

/// Serves every connection by a program of its own, as inetd does; the machine must be awake.
fn inetd(
    listener: std::net::TcpListener,
    power: Simulated,
    command: impl Fn() -> Command + Send + 'static,
) {
    let listener = TcpListener::from_std(listener).unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            assert!(power.is_up(), "somebody connects to a server that sleeps");
            let stream = stream.into_std().unwrap();
            stream.set_nonblocking(false).unwrap();
            let twin = stream.try_clone().unwrap();
            let mut command = command();
            command.stdin(Stdio::from(OwnedFd::from(stream)));
            command.stdout(Stdio::from(OwnedFd::from(twin))).stderr(Stdio::null());
            let mut child = command.spawn().unwrap();
            tokio::task::spawn_blocking(move || child.wait());
        }
    });
}

fn tool(program: &str, args: &[&str]) {
    let output = Command::new(program).args(args).output().unwrap();
    succeeded(&output);
}

/// A folder with the files for `sshd` and `ssh`. None if they are not here, or `sshd` cannot run.
fn ssh_folder() -> Option<tempfile::TempDir> {
    if !nightwatt_needs::programs(&["sshd", "ssh", "ssh-keygen"]) {
        return None;
    }
    // As root it wants this folder, which a package's unit makes.
    if std::fs::create_dir_all("/run/sshd").is_err() {
        println!("skipped: there is no folder /run/sshd, and only root can make it");
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    ssh_files(dir.path());
    Some(dir)
}

/// Serves each connection by an `sshd` with the files of this folder; the machine must be awake.
fn serve_ssh(listener: std::net::TcpListener, power: Simulated, dir: &Path) {
    let config = dir.join("sshd_config");
    inetd(listener, power, move || {
        let mut sshd = nightwatt_needs::command("sshd");
        sshd.arg("-i").arg("-f").arg(&config);
        sshd
    });
}

/// A service of this name at this address, with these lines besides.
fn table(name: &str, origin: SocketAddr, lines: &str) -> String {
    format!(
        "[[tcp]]\nname = \"{name}\"\nlisten = [\"127.0.0.1:0\"]\non = \"blog\"\n\
         origin = \"{origin}\"\n{lines}\n"
    )
}

/// Keys and configuration of an sshd that lets this user in.
fn ssh_files(dir: &Path) {
    let path = |name: &str| dir.join(name).display().to_string();
    for key in ["host", "user"] {
        tool("ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-f", &path(key)]);
    }
    std::fs::copy(dir.join("user.pub"), dir.join("authorized")).unwrap();
    let text = format!(
        "HostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nUsePAM no\nPidFile none\n\
         PermitRootLogin yes\nPasswordAuthentication no\n",
        path("host"),
        path("authorized")
    );
    std::fs::write(dir.join("sshd_config"), text).unwrap();
}

fn ssh(dir: &Path, stage: &Stage, command: &str) -> Command {
    let mut ssh = Command::new("ssh");
    let port = stage.tcp_addresses()[0].port().to_string();
    ssh.args(["-F", "none", "-p", &port, "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no"])
        .args(["-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR", "-i"])
        .arg(dir.join("user"))
        .args(["127.0.0.1", command]);
    ssh
}

#[test]
fn ssh_wakes_a_sleeping_machine_and_gets_through() {
    let Some(dir) = ssh_folder() else { return };
    let (listener, origin) = port();
    services(asleep().real(), table("ssh", origin, "")).play(async |stage| {
        serve_ssh(listener, stage.power.clone(), dir.path());
        assert_eq!((stage.state().as_str(), stage.commands()), ("asleep", (0, 0)));
        let said =
            run(ssh(dir.path(), stage, "echo it is awake; head -c 300000 /dev/zero | wc -c")).await;
        assert_eq!(succeeded(&said), "it is awake\n300000\n");
        assert_eq!((stage.state().as_str(), stage.commands()), ("awake", (1, 0)));
        stage
            .until("the end of the connection", |_| {
                stage.services()[0].outcomes.get("passed") == Some(&1)
            })
            .await;
        // The wake-up has a cause with a name.
        let causes = format!("{:?}", stage.journal());
        assert!(causes.contains("TCP ssh"), "{causes}");
    });
}

/// `curl`, which asks only this address.
fn curl(url: &str, args: &[&str]) -> Command {
    let mut curl = Command::new("curl");
    curl.args(["-sS", "--noproxy", "*"]).args(args).arg(url);
    curl
}

/// Runs a client that is no client of the service: its connection is reset.
async fn is_reset(stage: &Stage, client: Command) {
    let before = outcome(stage, "no-wake");
    let said = run(client).await;
    let text = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(!said.status.success() && text.contains("reset by"), "{text}");
    stage.until("the end of a client", |_| outcome(stage, "no-wake") == before + 1).await;
}

/// A scan for open ports connects, and leaves. It is over when this returns.
async fn scan(stage: &Stage) {
    let before = outcome(stage, "left");
    drop(TcpStream::connect(stage.tcp_addresses()[0]).await.unwrap());
    stage.until("the end of a scan", |_| outcome(stage, "left") == before + 1).await;
}

/// `ssh-keyscan`, which says nothing before the server has.
fn keyscan(stage: &Stage) -> Command {
    let mut keyscan = Command::new("ssh-keyscan");
    let port = stage.tcp_addresses()[0].port().to_string();
    keyscan.args(["-T", "60", "-t", "ed25519", "-p", &port, "127.0.0.1"]);
    keyscan
}

#[test]
fn the_ssh_client_wakes_on_ssh_and_a_scan_and_clients_of_http_and_tls_do_not() {
    if !nightwatt_needs::programs(&["curl", "ssh-keyscan"]) {
        return;
    }
    let Some(dir) = ssh_folder() else { return };
    let (listener, origin) = port();
    let setup = asleep().real().with(|config| config.scenario.policy = timeout(3600));
    services(setup, table("ssh", origin, "wake_on = \"ssh\"")).play(async |stage| {
        serve_ssh(listener, stage.power.clone(), dir.path());
        scan(stage).await;
        let at = stage.tcp_addresses()[0];
        is_reset(stage, curl(&format!("http://{at}/"), &[])).await;
        is_reset(stage, curl(&format!("https://{at}/"), &["-k"])).await;
        assert_eq!((stage.state().as_str(), stage.commands()), ("asleep", (0, 0)));
        let said = run(ssh(dir.path(), stage, "echo it is awake")).await;
        assert_eq!(succeeded(&said), "it is awake\n");
        assert_eq!((stage.state().as_str(), stage.commands()), ("awake", (1, 0)));
        stage.until("the end of the log-in", |_| outcome(stage, "passed") == 1).await;
        let causes = format!("{:?}", stage.journal());
        assert!(causes.contains("TCP ssh"), "{causes}");
        // While the server is awake, its clients may wait for what it says.
        let said = succeeded(&run(keyscan(stage)).await);
        let key = std::fs::read_to_string(dir.path().join("host.pub")).unwrap();
        let key = key.split(' ').nth(1).unwrap();
        assert!(said.contains(key), "{said}");
    });
}

#[test]
fn a_silent_connection_and_ssh_keyscan_do_not_wake_on_ssh() {
    if !nightwatt_needs::programs(&["ssh-keyscan"]) {
        return;
    }
    let (listener, origin) = port();
    // They would never speak: this only ends them sooner.
    let setup = asleep().real().with(|config| config.limits.header_timeout = secs(1));
    services(setup, table("ssh", origin, "wake_on = \"ssh\"")).play(async |stage| {
        let mut silent = TcpStream::connect(stage.tcp_addresses()[0]).await.unwrap();
        let said = run(keyscan(stage)).await;
        assert_eq!(String::from_utf8_lossy(&said.stdout), "", "it gets no key");
        let mut rest = Vec::new();
        let end = watched("the end of a silent connection", silent.read_to_end(&mut rest)).await;
        assert_eq!(end.unwrap_err().kind(), ErrorKind::ConnectionReset);
        stage.until("the end of both", |_| outcome(stage, "silent") == 2).await;
        assert_eq!((stage.state().as_str(), stage.commands()), ("asleep", (0, 0)));
        let comes = listener.accept().map(|(_, from)| from);
        assert_eq!(comes.unwrap_err().kind(), ErrorKind::WouldBlock, "the service hears of none");
    });
}

#[test]
fn git_clones_from_a_sleeping_machine() {
    if !has("git") {
        return;
    }
    if !Path::new("/usr/lib/git-core/git-daemon").exists() {
        println!("skipped: this git comes without `git daemon`");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let work = dir.path().join("work");
    let path = work.display().to_string();
    tool("git", &["init", "-q", &path]);
    std::fs::write(work.join("file"), "content\n".repeat(50_000)).unwrap();
    let by = ["-c", "user.name=a", "-c", "user.email=a@example.org"];
    tool("git", &[&["-C", &path][..], &by, &["add", "file"]].concat());
    tool("git", &[&["-C", &path][..], &by, &["commit", "-q", "-m", "one"]].concat());
    let (listener, origin) = port();
    services(asleep().real(), table("git", origin, "")).play(async |stage| {
        let base = dir.path().display().to_string();
        inetd(listener, stage.power.clone(), move || {
            let mut daemon = Command::new("git");
            daemon.args(["daemon", "--inetd", "--export-all", &format!("--base-path={base}")]);
            daemon
        });
        let mut clone = Command::new("git");
        let url = format!("git://{}/work", stage.tcp_addresses()[0]);
        clone.args(["clone", "-q", &url]).arg(dir.path().join("clone"));
        succeeded(&run(clone).await);
        let file = std::fs::read(dir.path().join("clone/file")).unwrap();
        assert_eq!(file.len(), 400_000);
        assert_eq!(stage.commands(), (1, 0));
    });
}

/// An `openssl s_server` with a certificate of this name.
struct TlsServer {
    child: std::process::Child,
    port: u16,
}

impl TlsServer {
    fn start(dir: &Path, name: &str) -> Self {
        let path = |end: &str| dir.join(format!("{name}.{end}")).display().to_string();
        let (key, certificate, subject) = (path("key"), path("pem"), format!("/CN={name}"));
        tool(
            "openssl",
            &[
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:P-256",
                "-nodes",
                "-days",
                "1",
                "-subj",
                &subject,
                "-keyout",
                &key,
                "-out",
                &certificate,
            ],
        );
        let mut child = Command::new("openssl")
            .args([
                "s_server",
                "-accept",
                "127.0.0.1:0",
                "-www",
                "-key",
                &key,
                "-cert",
                &certificate,
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // It says where: `ACCEPT 127.0.0.1:38291`.
        let mut said = std::io::BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.starts_with("ACCEPT") {
            line.clear();
            let length = std::io::BufRead::read_line(&mut said, &mut line).unwrap();
            assert!(length > 0, "openssl s_server ended");
        }
        let port = line.trim().rsplit(':').next().and_then(|port| port.parse().ok());
        let port = port.unwrap_or_else(|| panic!("no port: {line}"));
        // It may go on saying things.
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        Self { child, port }
    }
}

impl Drop for TlsServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn s_client(at: SocketAddr, args: &[&str]) -> Command {
    let mut client = Command::new("openssl");
    client.args(["s_client", "-connect", &at.to_string()]).args(args);
    client
}

#[test]
fn names_in_tls_lead_to_the_server_whose_certificate_has_them() {
    if !has("openssl") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let servers = ["one.example.org", "other.example.net", "default.example"];
    let servers = Arc::new(servers.map(|name| TlsServer::start(dir.path(), name)));
    let sni = [r#"["one.example.org"]"#, r#"["*.example.net"]"#, "[]"];
    let table = |(at, sni): (usize, &str)| {
        format!(
            "[[tcp]]\nname = \"tls-{at}\"\nlisten = [\"127.0.0.1:0\"]\non = \"blog\"\n\
             origin = \"127.0.0.1:{}\"\nsni = {sni}\n",
            servers[at].port
        )
    };
    let tables: String = sni.into_iter().enumerate().map(table).collect();
    services(asleep().real(), tables).play(async |stage| {
        let [at] = *stage.tcp_addresses() else { panic!("one port for all") };
        for (args, name) in [
            (&["-servername", "one.example.org"][..], "one.example.org"),
            (&["-servername", "ONE.example.org"], "one.example.org"),
            (&["-servername", "www.example.net", "-tls1_2"], "other.example.net"),
            (&["-servername", "a.www.example.net"], "default.example"),
            (&["-noservername"], "default.example"),
        ] {
            let said = run(s_client(at, args)).await;
            let said = String::from_utf8_lossy(&said.stdout).into_owned();
            assert!(
                said.contains(&format!("CN = {name}")) || said.contains(&format!("CN={name}")),
                "{args:?}: {said}"
            );
        }
        assert_eq!(stage.commands(), (1, 0), "the first one woke it");
        let open = stage.services().iter().map(|it| it.outcomes.values().sum::<u64>()).sum::<u64>();
        assert!(open <= 5, "{open}");
    });
}

#[test]
fn a_name_that_nobody_has_gets_an_alert_that_says_so_and_wakes_nobody() {
    if !has("openssl") {
        return;
    }
    let table = "[[tcp]]\nname = \"tls\"\nlisten = [\"127.0.0.1:0\"]\non = \"blog\"\n\
                 origin = \"127.0.0.1:1\"\nsni = [\"one.example.org\"]\n";
    services(asleep().real(), table.to_owned()).play(async |stage| {
        let at = stage.tcp_addresses()[0];
        for args in [&["-servername", "other.example.org"][..], &["-noservername"]] {
            let said = run(s_client(at, args)).await;
            assert!(!said.status.success());
            let said = String::from_utf8_lossy(&said.stderr).into_owned();
            // OpenSSL's name for alert 112.
            assert!(said.contains("unrecognized name"), "{said}");
        }
        assert_eq!(stage.commands(), (0, 0));
    });
}

#[test]
fn clients_of_tls_wake_on_tls_and_a_scan_and_clients_of_http_and_ssh_do_not() {
    if !nightwatt_needs::programs(&["curl", "openssl", "ssh"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let name = "one.example.org";
    let server = TlsServer::start(dir.path(), name);
    let origin = SocketAddr::from(([127, 0, 0, 1], server.port));
    let certificate = dir.path().join(format!("{name}.pem")).display().to_string();
    for is_curl in [true, false] {
        let setup = asleep().real().with(|config| config.scenario.policy = timeout(3600));
        services(setup, table("tls", origin, "wake_on = \"tls\"")).play(async |stage| {
            let at = stage.tcp_addresses()[0];
            scan(stage).await;
            is_reset(stage, curl(&format!("http://{at}/"), &[])).await;
            is_reset(stage, ssh(dir.path(), stage, "true")).await;
            assert_eq!((stage.state().as_str(), stage.commands()), ("asleep", (0, 0)));
            if is_curl {
                let place = format!("{name}:{}:127.0.0.1", at.port());
                let url = format!("https://{name}:{}/", at.port());
                let args = ["--cacert", &certificate, "--resolve", &place];
                let page = succeeded(&run(curl(&url, &args)).await);
                assert!(page.contains("Ciphers supported in s_server binary"), "{page}");
            } else {
                // An older one, which asks for no name.
                let said = run(s_client(at, &["-noservername", "-tls1_2"])).await;
                let said = String::from_utf8_lossy(&said.stdout).into_owned();
                assert!(said.contains(name), "{said}");
            }
            assert_eq!((stage.state().as_str(), stage.commands()), ("awake", (1, 0)));
        });
    }
}
