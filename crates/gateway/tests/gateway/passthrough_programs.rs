//! Real programs through a sleeping machine: ssh, git, TLS.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use nightwatt_gateway::Config;
use nightwatt_power::simulated::Simulated;
use socket2::{Domain, Socket, Type};
use tokio::net::TcpListener;

use crate::stage::{Setup, Stage, asleep};

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
    if !nightwatt_needs::programs(&["sshd", "ssh", "ssh-keygen"]) {
        return;
    }
    // As root it wants this folder, which a package's unit makes.
    if std::fs::create_dir_all("/run/sshd").is_err() {
        println!("skipped: there is no folder /run/sshd, and only root can make it");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    ssh_files(dir.path());
    let (listener, origin) = port();
    let table = format!(
        "[[tcp]]\nname = \"ssh\"\nlisten = [\"127.0.0.1:0\"]\non = \"blog\"\norigin = \"{origin}\"\n"
    );
    services(asleep().real(), table).play(async |stage| {
        let config = dir.path().join("sshd_config");
        inetd(listener, stage.power.clone(), move || {
            let mut sshd = nightwatt_needs::command("sshd");
            sshd.arg("-i").arg("-f").arg(&config);
            sshd
        });
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
    let table = format!(
        "[[tcp]]\nname = \"git\"\nlisten = [\"127.0.0.1:0\"]\non = \"blog\"\norigin = \"{origin}\"\n"
    );
    services(asleep().real(), table).play(async |stage| {
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
