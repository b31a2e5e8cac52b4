//! A unit of a real systemd, over `systemctl --host`.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use nightwatt_clock::Clock;
use nightwatt_power::systemd::{Config, Systemd};
use nightwatt_power::{Context, Controller, Observed};

use crate::guest::Guest;

/// The guest's web server.
const UNIT: &str = "nightwatt-vm-web.service";

/// A program in the guest's folder that does what the script says. Another process writes it: a file
/// that a child of another test inherited for writing could not be run.
fn script(guest: &Guest, name: &str, text: &str) -> PathBuf {
    let (source, program) = (guest.path("source"), guest.path(name));
    fs::write(&source, format!("#!/bin/sh\n{text}\n")).unwrap();
    let made = Command::new("install").args(["-D", "-m", "755"]).arg(source).arg(&program).status();
    assert!(made.unwrap().success());
    program
}

/// `systemctl` beside the proxy, whose ssh knows the guest.
fn systemctl(guest: &Guest) -> PathBuf {
    let ssh = format!(
        "exec /usr/bin/ssh -i {} -o UserKnownHostsFile={} -o BatchMode=yes \"$@\"",
        guest.text("ssh/identity"),
        guest.text("ssh/known_hosts")
    );
    let ssh = script(guest, "bin/ssh", &ssh);
    let (namespace, folder) = (guest.text("proxy/namespace"), ssh.parent().unwrap().display());
    let run = format!("exec ip netns exec {namespace} env PATH={folder}:$PATH systemctl \"$@\"");
    script(guest, "systemctl", &run)
}

fn unit(guest: &Guest, options: &str) -> Systemd {
    let context =
        Context { clock: Clock::real(), state_dir: guest.path("state"), site: "site".to_owned() };
    let text = format!(
        "host = \"root@{}\"\nprogram = \"{}\"\n{options}",
        guest.text("guest/address"),
        systemctl(guest).display(),
    );
    toml::from_str::<Config>(&text).unwrap().build(&context).unwrap()
}

/// Does the guest's web server answer within so many seconds?
fn answers(guest: &Guest, seconds: &str) -> bool {
    let url = format!("http://{}/", guest.text("guest/address"));
    let mut curl = guest.beside_proxy("curl");
    curl.args(["--silent", "--fail", "--output", "/dev/null", "--max-time", seconds, &url]);
    curl.status().unwrap().success()
}

#[test]
#[ignore = "make test-vm: starts a guest, which takes a minute"]
fn a_unit_is_stopped_and_started_and_frozen_and_thawed_on_another_machine() {
    let Some(guest) = Guest::up(&["--root", "debian"]) else { return };
    let stopping = unit(&guest, &format!("unit = \"{UNIT}\""));
    let freezing = unit(&guest, &format!("unit = \"{UNIT}\"\nsleep = \"freeze\""));
    let nobody = unit(&guest, "unit = \"nobody.service\"");
    let clock = Clock::real();
    let began = clock.now().mono;
    Clock::real().runtime().unwrap().block_on(async {
        // Started is started when it listens, and so with the unit.
        guest.exec("systemctl start ssh.service");
        assert!(answers(&guest, "60"));
        assert_eq!(stopping.state().await.unwrap(), Observed::Up);
        let units = [(&stopping, "stop", Observed::Down), (&freezing, "freeze", Observed::Frozen)];
        for (unit, how, asleep) in units {
            unit.sleep().await.unwrap();
            assert_eq!(unit.state().await.unwrap(), asleep, "{how}");
            assert!(!answers(&guest, "2"), "{how}");
            unit.wake().await.unwrap();
            assert!(answers(&guest, "60"), "{how}");
        }
        let error = nobody.wake().await.unwrap_err();
        assert!(error.to_string().ends_with("there is no such unit"), "{error}");
    });
    println!("{:.1} s", clock.now().mono.since(began).as_secs_f64());
}
