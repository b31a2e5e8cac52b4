//! Against a real `sshd`, with keys of its own.

use std::fs;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nightwatt_needs::programs;
use nightwatt_power::ssh::{Config, Ssh};
use nightwatt_power::{Controller, Error, Observed};

use crate::Rig;

/// A server that knows one user: us.
struct Sshd {
    child: Child,
    address: SocketAddr,
}

impl Sshd {
    fn start(rig: &Rig) -> Option<Self> {
        if !programs(&["sshd", "ssh", "ssh-keygen"]) {
            return None;
        }
        for name in ["host", "id"] {
            let mut keygen = Command::new("ssh-keygen");
            keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(rig.path(name));
            assert!(keygen.status().unwrap().success());
        }
        let address = nightwatt_needs::free_address();
        let (host, port) = (address.ip(), address.port());
        let host_key = fs::read_to_string(rig.path("host.pub")).unwrap();
        fs::write(rig.path("known"), format!("[{host}]:{port} {host_key}")).unwrap();
        fs::copy(rig.path("id.pub"), rig.path("authorized")).unwrap();
        // As root it wants this folder, which a package's unit makes.
        let _ = fs::create_dir_all("/run/sshd");
        let path = |name: &str| rig.path(name).display().to_string();
        let child = nightwatt_needs::command("sshd")
            .args(["-D", "-e", "-f", "/dev/null", "-h", &path("host"), "-p", &port.to_string()])
            .args([
                "-o",
                &format!("ListenAddress={host}"),
                "-o",
                "StrictModes=no",
                "-o",
                "PidFile=none",
            ])
            .args(["-o", "UsePAM=no", "-o", "PermitRootLogin=yes"])
            .arg("-o")
            .arg(format!("AuthorizedKeysFile={}", path("authorized")))
            .stderr(Stdio::from(fs::File::create(rig.path("sshd.log")).unwrap()))
            .spawn()
            .unwrap();
        Some(Self { child, address })
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn user() -> String {
    let output = Command::new("id").arg("-un").output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn config(rig: &Rig, sshd: &Sshd) -> Config {
    let text = format!(
        "host = \"{}@{}\"\nport = {}\nidentity = \"{}\"\nknown_hosts = \"{}\"\ntimeout = \"60s\"",
        user(),
        sshd.address.ip(),
        sshd.address.port(),
        rig.path("id").display(),
        rig.path("known").display()
    );
    toml::from_str(&text).unwrap()
}

/// Until it listens: nothing else says that it is ready.
fn ready(rig: &Rig, ssh: &Ssh) {
    for _ in 0..1200 {
        if rig.run(ssh.wake()).is_ok() {
            return;
        }
        rig.run(rig.clock.sleep(Duration::from_millis(50)));
    }
    panic!("{}", fs::read_to_string(rig.path("sshd.log")).unwrap());
}

#[test]
fn commands_run_there_and_their_ends_are_told_apart() {
    let rig = Rig::new();
    let Some(sshd) = Sshd::start(&rig) else { return };
    let note = rig.path("note").display().to_string();
    let mut config = config(&rig, &sshd);
    config.wake = Some("true".to_owned());
    ready(&rig, &config.build(&rig.context()).unwrap());
    config.sleep = format!("echo \"$SSH_CONNECTION\" > {note}");
    let ssh = config.build(&rig.context()).unwrap();
    rig.run(ssh.sleep()).unwrap();
    assert!(fs::read_to_string(&note).unwrap().starts_with("127.0.0.1 "), "it came by ssh");
    assert_eq!(rig.run(ssh.state()).unwrap(), Observed::Unknown, "nobody said how to ask");
    for (script, state) in [("true", Observed::Up), ("exit 3", Observed::Down)] {
        config.state = Some(script.to_owned());
        assert_eq!(rig.run(config.build(&rig.context()).unwrap().state()).unwrap(), state);
    }
    config.sleep = "echo no such state >&2; exit 1".to_owned();
    let error = rig.run(config.build(&rig.context()).unwrap().sleep()).unwrap_err();
    assert!(error.to_string().ends_with("its last words: no such state"), "{error}");
    // A machine that suspends takes the connection with it.
    config.sleep = "kill -KILL $PPID".to_owned();
    rig.run(config.build(&rig.context()).unwrap().sleep()).unwrap();
}

#[test]
fn what_ssh_complains_of_comes_with_its_cure() {
    let rig = Rig::new();
    let Some(sshd) = Sshd::start(&rig) else { return };
    let mut good = config(&rig, &sshd);
    good.wake = Some("true".to_owned());
    ready(&rig, &good.build(&rig.context()).unwrap());
    let refused = |config: Config| {
        let error = rig.run(config.build(&rig.context()).unwrap().wake()).unwrap_err();
        assert!(matches!(error, Error::Ssh { .. }) && error.retryable(), "{error}");
        error
    };
    let mut strange = good.clone();
    strange.known_hosts = Some(rig.path("nobody"));
    let error = refused(strange);
    assert!(error.hint().contains("ssh-keyscan"), "{error}: {}", error.hint());
    let mut other = good.clone();
    other.identity = Some(rig.path("host"));
    let error = refused(other);
    assert!(error.hint().contains("authorized_keys"), "{error}: {}", error.hint());
    drop(sshd);
    let error = refused(good);
    assert!(error.hint().contains("sshd runs there"), "{error}: {}", error.hint());
}
