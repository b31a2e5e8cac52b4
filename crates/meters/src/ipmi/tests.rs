//! `ipmi_sim` of `OpenIPMI` knows no DCMI, so a power reading comes from a program that prints what
//! ipmitool 1.8.19 prints; what lies before it (session, password, a controller without DCMI) is
//! tested with the real `ipmitool` against `ipmi_sim`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Child;

use nightwatt_needs::program;

use crate::device::{line, open, poll, refused};
use crate::fixture::Fixture;

use super::*;

const ACTIVE: &str = "
    Instantaneous power reading:                   220 Watts
    Minimum during sampling period:                 18 Watts
    Maximum during sampling period:                285 Watts
    Average power reading over sample period:      190 Watts
    IPMI timestamp:                           Thu Jan  1 00:00:00 1970
    Sampling period:                          00000001 Seconds.
    Power reading state is:                   activated

";

/// A program that does that, and where.
fn stub(script: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("source"), folder.path().join("stub"));
    std::fs::write(&source, format!("#!/bin/sh\n{script}\n")).unwrap();
    // Another process writes it: a file that a child of another test inherited for writing could
    // not be run.
    let made = Command::new("install").args(["-m", "755"]).arg(source).arg(&program).status();
    assert!(made.unwrap().success());
    (folder, program)
}

#[test]
fn the_password_is_in_the_environment_and_not_among_the_arguments() {
    let (folder, program) = stub(&format!(
        "echo \"$0 $*\" > \"$(dirname \"$0\")/arguments\"\n\
         [ \"$IPMI_PASSWORD\" = 'tell nobody' ] || exit 1\ncat <<'END'\n{ACTIVE}END"
    ));
    let password = line("tell nobody");
    let text = format!(
        "ipmi=10.0.0.9,user=watch,password-file={},program={}",
        password.path().display(),
        program.display()
    );
    let mut meter = open(&text).unwrap();
    let expected = [("system".to_owned(), Reading::Power(Watts(220.0)))];
    assert_eq!(poll(meter.as_mut()).unwrap(), expected);
    let arguments = std::fs::read_to_string(folder.path().join("arguments")).unwrap();
    let expected = "-I lanplus -H 10.0.0.9 -U watch -E -N 1 -R 3 dcmi power reading";
    assert!(arguments.trim().ends_with(expected), "{arguments}");
}

#[test]
fn a_program_that_hangs_or_talks_without_end_is_ended() {
    let (_folder, program) = stub("exec sleep 1000");
    let ipmi = Ipmi {
        channels: Vec::new(),
        meter: "bmc".to_owned(),
        program: program.display().to_string(),
        arguments: Vec::new(),
        password: None,
    };
    let stop = Stop::new().unwrap();
    let error = ipmi.read_power(&stop, monotonic() + Duration::from_millis(50)).unwrap_err();
    assert!(matches!(error, MeterError::Silent { .. }), "{error}");
    let (_folder, program) = stub("exec yes");
    let error = refused(&format!("ipmi,program={}", program.display())).to_string();
    assert!(error.contains("more than a meter has to say"), "{error}");
    stop.stop();
    assert!(ipmi.read_power(&stop, Mono::NEVER).is_err(), "it does not wait when it is to end");
}

#[test]
fn a_machine_without_a_controller_says_so_and_so_does_one_without_the_program() {
    let host = Fixture::of(&[]).host;
    let Presence::Absent(why) = probe(&host) else { panic!("{:?}", probe(&host)) };
    assert!(why.contains("no /dev/ipmi0"), "{why}");
    assert!(refused("ipmi=10.0.0.9").to_string().contains("password-file=FILE"));
    assert!(refused("ipmi,user=x").to_string().contains("`ipmi=HOST`"));
    let error = refused("ipmi,program=/nowhere/ipmitool").to_string();
    assert!(error.contains("cannot run `/nowhere/ipmitool`"), "{error}");
}

/// A controller in a process of its own.
struct Simulated {
    child: Child,
    address: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Drop for Simulated {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn simulated() -> Option<Simulated> {
    let (simulator, _) = (program("ipmi_sim")?, program(PROGRAM)?);
    let folder = tempfile::tempdir().unwrap();
    let address = nightwatt_needs::free_udp_address();
    let (host, port) = (address.ip(), address.port());
    let config = format!(
        "name \"bmc\"\nset_working_mc 0x20\nstartlan 1\naddr {host} {port}\n\
         priv_limit admin\nallowed_auths_admin none md2 md5 straight\n\
         guid a123456789abcdefa123456789abcdef\nendlan\n\
         user 2 true \"watch\" \"tellnobody\" admin 10 none md2 md5 straight\n"
    );
    std::fs::write(folder.path().join("lan.conf"), config).unwrap();
    let commands = "mc_setbmc 0x20\nmc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02 persist_sdr\n\
                    mc_enable 0x20\n";
    std::fs::write(folder.path().join("commands"), commands).unwrap();
    let child = Command::new(simulator)
        .arg("-c")
        .arg(folder.path().join("lan.conf"))
        .arg("-f")
        .arg(folder.path().join("commands"))
        .arg("-s")
        .arg(folder.path())
        .arg("-n")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    Some(Simulated { child, address, _folder: folder })
}

#[test]
fn a_controller_without_dcmi_and_a_wrong_password_are_told_apart() {
    let Some(simulated) = simulated() else { return };
    let refused = |password: &str| {
        let file = line(password);
        let (file, host) = (file.path().display(), simulated.address.ip());
        let port = simulated.address.port();
        let options = format!("port={port},user=watch,cipher=3,password-file={file}");
        refused(&format!("ipmi={host},{options}")).to_string()
    };
    // It takes a moment to begin.
    let until = monotonic() + Duration::from_mins(1);
    let error = loop {
        let error = refused("tellnobody");
        if !error.contains("Unable to establish") || monotonic() > until {
            break error;
        }
    };
    assert!(error.contains("does not know DCMI"), "{error}");
    let error = refused("telleverybody");
    assert!(error.contains("the password its own?") && !error.contains("everybody"), "{error}");
}
