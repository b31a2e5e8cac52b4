//! Against the agent of Net-SNMP, which plays power strips.

use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use nightwatt_energy::quantity::Watts;
use nightwatt_needs::program;

use crate::device::{line, open, poll, refused};

use super::*;

const CONFIG: &str = "
rocommunity stripes 127.0.0.1
createUser watch SHA-256 \"tell nobody\" AES \"nobody at all\"
rouser watch priv
createUser old SHA \"tell nobody\"
rouser old auth
override .1.3.6.1.4.1.318.1.1.12.1.16.0 integer 1234
override .1.3.6.1.4.1.318.1.1.26.4.3.1.5.1 integer 57
override .1.3.6.1.4.1.318.1.1.26.4.3.1.9.1 uinteger 8123
override .1.3.6.1.4.1.318.1.1.26.9.4.3.1.7.3 integer -1
override .1.3.6.1.4.1.13742.6.5.4.3.1.4.1.12.5 uinteger 885
override .1.3.6.1.4.1.13742.6.3.5.4.1.7.1.12.5 uinteger 1
override .1.3.6.1.4.1.99999.1.0 octet_str \"41.5\"
override .1.3.6.1.4.1.99999.2.0 counter 4294967290
override .1.3.6.1.4.1.99999.3.0 octet_str \"off\"
";

struct Agent {
    child: Child,
    port: u16,
    folder: tempfile::TempDir,
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An agent on a port of its own; `None` where the program is missing.
fn agent() -> Option<Agent> {
    let snmpd = program("snmpd")?;
    for _ in 0..10 {
        // A port that was free a moment ago. If another process takes it, the next attempt uses another port.
        let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("snmpd.conf"), CONFIG).unwrap();
        if let Some(child) = start(&snmpd, folder.path(), port) {
            return Some(Agent { child, port, folder });
        }
    }
    panic!("snmpd does not start");
}

/// Starts it, and waits until it listens; `None` if it ends instead.
fn start(snmpd: &Path, folder: &Path, port: u16) -> Option<Child> {
    let mut child = Command::new(snmpd)
        .args(["-f", "-r", "-Lo", "-C", "-c"])
        .arg(folder.join("snmpd.conf"))
        .args(["-I", "-smux", &format!("udp:127.0.0.1:{port}")])
        // It keeps a file of the same name there.
        .env("SNMP_PERSISTENT_DIR", folder.join("kept"))
        .env("MIBS", "")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while said.read_line(&mut line).unwrap() > 0 {
        if line.starts_with("NET-SNMP version") {
            // What else it says must not end it.
            std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
            return Some(child);
        }
        line.clear();
    }
    child.wait().unwrap();
    None
}

/// Opens and reads once; the error of either.
fn value(agent: &Agent, options: &str) -> Result<Reading, MeterError> {
    let mut meter = open(&format!("snmp=127.0.0.1:{},{options}", agent.port))?;
    poll(meter.as_mut()).map(|readings| readings[0].1)
}

#[test]
fn strips_are_read_by_version_2c() {
    let Some(agent) = agent() else { return };
    let community = line("stripes");
    let value = |options: &str| {
        value(&agent, &format!("{options},password-file={}", community.path().display()))
    };
    let watts = |watts: f64| Reading::Power(Watts(watts));
    assert_eq!(value("preset=apc-rpdu").unwrap(), watts(1234.0));
    // 57 x 0.01 kW.
    assert_eq!(value("preset=apc-rpdu2").unwrap(), watts(570.0));
    assert_eq!(value("preset=apc-rpdu2,scale=0.1").unwrap(), watts(57.0), "a strip that says W");
    assert_eq!(value("preset=apc-rpdu2,kind=energy").unwrap(), Reading::Counter(8123));
    let Reading::Power(Watts(outlet)) = value("preset=raritan-px2,outlet=12").unwrap() else {
        panic!("power is asked for");
    };
    assert!((outlet - 88.5).abs() < 1e-9, "885 with one digit behind the point: {outlet}");
    assert_eq!(value("oid=.1.3.6.1.4.1.99999.1.0").unwrap(), watts(41.5));

    let error = value("preset=apc-rpdu2,outlet=3").unwrap_err().to_string();
    assert!(error.contains("-1, by which strips say that they do not measure it"), "{error}");
    let error = value("oid=.1.3.6.1.4.1.99999.77.0").unwrap_err().to_string();
    assert!(error.contains(".1.3.6.1.4.1.99999.77.0: there is no such object"), "{error}");
    let error = value("oid=.1.3.6.1.4.1.99999.3.0").unwrap_err().to_string();
    assert!(error.contains("the text `off`"), "{error}");
}

#[test]
fn counters_know_where_they_wrap_and_what_a_count_is() {
    let Some(agent) = agent() else { return };
    let community = line("stripes");
    let meter = open(&format!(
        "snmp=127.0.0.1:{},oid=.1.3.6.1.4.1.99999.2.0,unit=Wh,scale=0.1,password-file={}",
        agent.port,
        community.path().display()
    ));
    let mut meter = meter.unwrap();
    let counter = meter.channels()[0].counter.unwrap();
    assert_eq!((counter.range, counter.joules_per_count), (Some(1 << 32), 360.0));
    assert_eq!(poll(meter.as_mut()).unwrap()[0].1, Reading::Counter(4_294_967_290));
}

#[test]
fn users_of_version_3_are_known_by_their_passwords() {
    let Some(agent) = agent() else { return };
    let (password, privacy) = (line("tell nobody"), line("nobody at all"));
    let (password, privacy) = (password.path().display(), privacy.path().display());
    let both = format!("password-file={password},privacy-file={privacy}");
    let value = |options: &str| value(&agent, &format!("preset=apc-rpdu,{options}"));
    let watts = Reading::Power(Watts(1234.0));
    assert_eq!(value(&format!("user=watch,auth=sha256,{both}")).unwrap(), watts);
    let old = format!("user=old,auth=sha1,privacy=none,password-file={password}");
    assert_eq!(value(&old).unwrap(), watts);
    for wrong in [
        format!("user=watch,auth=sha256,password-file={password}"),
        format!("user=watch,auth=sha512,{both}"),
        format!("user=nobody,auth=sha256,{both}"),
    ] {
        let error = value(&wrong).unwrap_err();
        assert!(matches!(error, MeterError::Denied { .. } | MeterError::Io { .. }), "{error}");
        assert!(!format!("{error:?}").contains("nobody at all"), "{error:?}");
    }
}

#[test]
fn an_agent_that_is_restarted_is_read_again() {
    let Some(mut agent) = agent() else { return };
    let password = line("tell nobody");
    let options = format!(
        "preset=apc-rpdu,user=old,auth=sha1,privacy=none,password-file={}",
        password.path().display()
    );
    let mut meter = open(&format!("snmp=127.0.0.1:{},{options}", agent.port)).unwrap();
    poll(meter.as_mut()).unwrap();
    agent.child.kill().unwrap();
    agent.child.wait().unwrap();
    let error = poll(meter.as_mut()).unwrap_err();
    assert!(matches!(error, MeterError::Io { .. }), "{error}");
    // It counts its starts: keys and clock are agreed on again.
    let snmpd = program("snmpd").unwrap();
    let Some(child) = start(&snmpd, agent.folder.path(), agent.port) else {
        println!("skipped: somebody else has taken port {}", agent.port);
        return;
    };
    agent.child = child;
    poll(meter.as_mut()).unwrap();
}

#[test]
fn what_cannot_work_is_refused_before_anything_is_sent() {
    let error = |options: &str| refused(&format!("snmp=127.0.0.1:9,{options}")).to_string();
    assert!(error("oid=power").contains("`power` is no OID"));
    assert!(error("oid=.1.3.6.1,user=me").contains("password-file="));
    assert!(error("oid=.1.3.6.1,auth=sha1").contains("user=NAME"));
    let short = line("short");
    let options = format!("oid=.1.3.6.1,user=me,password-file={}", short.path().display());
    assert!(error(&options).contains("eight characters"));
    assert!(error(&format!("{options},auth=sha3")).contains("`sha256`"));
}
