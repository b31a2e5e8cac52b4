//! A real podman, which speaks both APIs, its own and Docker's, with a container of busybox; and peers
//! that speak otherwise.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use nightwatt_needs::{program, static_program};
use nightwatt_power::engine::Engine;
use nightwatt_power::{Controller, Error, Observed, docker, podman};

use crate::Rig;
use crate::daemon::{Daemon, is_root, output};

/// Podman with all that it keeps in the rig's folder.
struct Podman<'a> {
    rig: &'a Rig,
    socket: PathBuf,
    daemon: Daemon,
}

impl<'a> Podman<'a> {
    /// With a container `web` that was never started.
    fn start(rig: &'a Rig) -> Option<Self> {
        program("podman")?;
        program("runc")?;
        let busybox = static_program("busybox")?;
        if !is_root() {
            return None;
        }
        let socket = rig.path("api.sock");
        let mut service = podman_of(rig);
        service.args(["system", "service", "--time", "0"]);
        service.arg(format!("unix://{}", socket.display()));
        let daemon = Daemon::start(rig, &mut service);
        let mut podman = Self { rig, socket, daemon };
        let root = rig.path("root");
        fs::create_dir(&root).unwrap();
        fs::copy(busybox, root.join("busybox")).unwrap();
        let image = rig.path("image.tar");
        output(Command::new("tar").arg("-C").arg(&root).arg("-cf").arg(&image).arg("."));
        output(podman_of(rig).arg("import").arg(&image).arg("local/web:1"));
        let limits = ["--ulimit", "nofile=1000:1000", "--ulimit", "nproc=1000:1000"];
        let mut create = podman_of(rig);
        create.args(["create", "--name", "web", "--network", "none"]).args(limits);
        output(create.args(["local/web:1", "/busybox", "sleep", "100000"]));
        let probe = docker_of(rig, &podman.socket.display().to_string(), "container = \"web\"");
        podman.daemon.ready(rig, || rig.run(probe.state()).ok());
        Some(podman)
    }

    fn state(&self) -> String {
        let mut inspect = podman_of(self.rig);
        let said = output(inspect.args(["inspect", "--format", "{{.State.Status}}", "web"]));
        said.trim().to_owned()
    }
}

impl Drop for Podman<'_> {
    fn drop(&mut self) {
        // What runs in it would outlive its daemon, and hold its mounts.
        let _ = podman_of(self.rig).args(["rm", "--force", "--time", "0", "--all"]).output();
        let _ = Command::new("umount").arg(self.rig.path("storage/overlay")).output();
    }
}

fn podman_of(rig: &Rig) -> Command {
    let mut command = Command::new("podman");
    for (option, folder) in [("--root", "storage"), ("--runroot", "run"), ("--tmpdir", "tmp")] {
        command.arg(option).arg(rig.path(folder));
    }
    command.args(["--runtime", "runc", "--cgroup-manager", "cgroupfs", "--storage-driver", "vfs"]);
    command
}

fn docker_of(rig: &Rig, socket: &str, options: &str) -> impl Controller + use<> {
    let text = format!("socket = \"{socket}\"\n{options}");
    toml::from_str::<docker::Config>(&text).unwrap().build(&rig.context()).unwrap()
}

fn libpod_of(rig: &Rig, socket: &str, options: &str) -> impl Controller + use<> {
    let text = format!("socket = \"{socket}\"\n{options}");
    toml::from_str::<podman::Config>(&text).unwrap().build(&rig.context()).unwrap()
}

#[test]
fn a_container_is_started_paused_and_stopped_in_both_dialects() {
    let rig = Rig::new();
    let Some(podman) = Podman::start(&rig) else { return };
    let socket = podman.socket.display().to_string();
    let build = |dialect: &str, options: &str| -> Box<dyn Controller> {
        let options = format!("container = \"web\"\n{options}");
        match dialect {
            "docker" => Box::new(docker_of(&rig, &socket, &options)),
            _ => Box::new(libpod_of(&rig, &socket, &options)),
        }
    };
    let address = docker::Address::Unix(podman.socket.clone());
    let engine = Engine::new("podman", address, nightwatt_clock::Clock::real());
    for dialect in ["docker", "podman"] {
        let pausing = build(dialect, "sleep = \"pause\"");
        // Its only process does not know SIGTERM: it is killed.
        let stopping = build(dialect, "stop_timeout = \"0\"");
        rig.run(async {
            assert_eq!(stopping.state().await.unwrap(), Observed::Down, "{dialect}");
            stopping.sleep().await.unwrap();
            stopping.wake().await.unwrap();
            stopping.wake().await.unwrap();
            assert_eq!(
                (stopping.state().await.unwrap(), podman.state().as_str()),
                (Observed::Up, "running")
            );
            let usage = engine.usage("web").await.unwrap();
            assert!(usage.cpu_ns > 0, "to start it needed some: {usage:?}");
            pausing.sleep().await.unwrap();
            pausing.sleep().await.unwrap();
            assert_eq!(
                (pausing.state().await.unwrap(), podman.state().as_str()),
                (Observed::Frozen, "paused")
            );
            stopping.sleep().await.unwrap();
            pausing.wake().await.unwrap();
            assert_eq!(podman.state(), "running");
            stopping.sleep().await.unwrap();
            assert_eq!(
                (stopping.state().await.unwrap(), podman.state().as_str()),
                (Observed::Down, "exited")
            );
        });
    }
    let nobody = "container = \"nobody\"";
    let by_docker = rig.run(docker_of(&rig, &socket, nobody).wake()).unwrap_err();
    let by_podman = rig.run(libpod_of(&rig, &socket, nobody).sleep()).unwrap_err();
    for (error, command) in [(by_docker, "docker ps --all"), (by_podman, "podman ps --all")] {
        assert!(error.to_string().contains("(status 404)"), "{error}");
        assert!(error.hint().contains(command), "{error}: {}", error.hint());
    }
}

#[test]
fn a_daemon_that_is_not_there_is_told_with_what_starts_it() {
    let rig = Rig::new();
    let socket = rig.path("nothing").display().to_string();
    let error = rig.run(docker_of(&rig, &socket, "container = \"web\"").wake()).unwrap_err();
    assert_eq!(error.to_string(), format!("cannot reach Docker at {socket}"));
    assert!(error.hint().contains("systemctl start docker"));
    let error = rig.run(libpod_of(&rig, &socket, "container = \"web\"").wake()).unwrap_err();
    assert!(error.hint().contains("podman.socket"), "{error}");
    let tcp = libpod_of(&rig, "tcp://127.0.0.1:1", "container = \"web\"");
    let error = rig.run(tcp.state()).unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }) && error.retryable(), "{error}");
}

/// Answers one client with these bytes, and waits until it has disconnected.
fn peer(path: &Path, words: Vec<u8>) {
    let listener = UnixListener::bind(path).unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 4096]);
        // The client may disconnect once it has read enough.
        let _ = stream.write_all(&words);
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    });
}

#[test]
fn whoever_speaks_otherwise_is_not_believed_and_not_listened_to_for_ever() {
    let rig = Rig::new();
    let ok = "HTTP/1.1 200 OK\r\nContent-Length: ";
    let refused = |name: &str, words: String, options: &str| {
        let path = rig.path(name);
        peer(&path, words.into_bytes());
        let options = format!("container = \"web\"\n{options}");
        rig.run(docker_of(&rig, &path.display().to_string(), &options).state()).unwrap_err()
    };
    for (name, words, says) in [
        ("ssh", "SSH-2.0-OpenSSH_9.2\r\n\r\n".to_owned(), "no HTTP/1.1"),
        ("page", format!("{ok}6\r\n\r\n<html>"), "`<html>` describes no container"),
        (
            "endless",
            format!("{ok}{}\r\n\r\n{}", 9 << 20, "x".repeat(9 << 20)),
            "more than 1024 KiB",
        ),
        ("head", format!("HTTP/1.1 200 OK\r\nX: {}", "y".repeat(9 << 20)), "no HTTP/1.1"),
        (
            "odd",
            format!("{ok}27\r\n\r\n{{\"State\":{{\"Status\":\"well\"}}}}"),
            "`well` is no state",
        ),
    ] {
        let error = refused(name, words, "");
        assert!(matches!(error, Error::Nonsense { .. }), "{name}: {error:?}");
        let text = error.to_string();
        assert!(text.contains(says) && text.len() < 800, "{name}: {text}");
    }
    let error = refused("silent", String::new(), "timeout = \"50ms\"");
    assert!(matches!(error, Error::Silent { .. }), "{error}");
    let no = "{\"message\":\"forbidden by\\u001b administrator\"}";
    let head = format!("HTTP/1.1 403 Forbidden\r\nContent-Length: {}\r\n\r\n", no.len());
    let error = refused("no", format!("{head}{no}"), "");
    assert!(
        error.to_string().ends_with("forbidden by\u{fffd} administrator (status 403)"),
        "{error}"
    );
    assert!(error.hint().contains("socket proxy"), "{error}");
}
