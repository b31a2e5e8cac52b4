//! Against mosquitto.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use nightwatt_energy::quantity::Watts;
use nightwatt_needs::program;

use crate::device::{Identity, line, open, poll, refused};

use super::*;

struct Broker {
    child: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A broker with those lines in its configuration, `FOLDER` standing for a folder of its own; `None`
/// where the program is missing.
fn broker(config: &str, files: &[(&str, &str)]) -> Option<Broker> {
    let mosquitto = program("mosquitto")?;
    for _ in 0..10 {
        // A port that was free a moment ago. If another process takes it, the next attempt uses another port.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().display().to_string();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let config = config.replace("FOLDER", &place);
        let path = folder.path().join("mosquitto.conf");
        // Started as root, it would switch to a user who may not read the folder.
        let config = format!("user root\nlistener {port} 127.0.0.1\n{config}\n");
        std::fs::write(&path, config).unwrap();
        let mut child = Command::new(&mosquitto)
            .arg("-c")
            .arg(path)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while said.read_line(&mut line).unwrap() > 0 {
            if line.contains("running") {
                // What else it says must not end it.
                std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
                return Some(Broker { child, port, _folder: folder });
            }
        }
        child.wait().unwrap();
        assert!(line.contains("Address already in use"), "{line}");
    }
    panic!("mosquitto does not start");
}

/// Publishes by hand, by the packets of the standard.
struct Publisher(TcpStream);

impl Publisher {
    fn to(port: u16) -> Self {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.write_all(b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x00\x00\x01p").unwrap();
        let mut answer = [0; 4];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(answer, [0x20, 2, 0, 0]);
        Self(stream)
    }

    fn say(&mut self, retained: bool, payload: &str) {
        let length = u8::try_from(payload.len() + 3).unwrap();
        self.0.write_all(&[0x30 | u8::from(retained), length, 0, 1, b't']).unwrap();
        self.0.write_all(payload.as_bytes()).unwrap();
        // The broker answers a ping when it is done with what came before.
        self.0.write_all(&packet::PING).unwrap();
        let mut pong = [0; 2];
        self.0.read_exact(&mut pong).unwrap();
        assert_eq!(pong, [0xd0, 0]);
    }
}

fn watts(watts: f64) -> Vec<(String, Reading)> {
    vec![("power".to_owned(), Reading::Power(Watts(watts)))]
}

#[test]
fn what_is_published_is_heard_and_what_is_old_is_not() {
    let Some(broker) = broker("allow_anonymous true", &[]) else { return };
    let mut publisher = Publisher::to(broker.port);
    publisher.say(true, r#"{"ENERGY":{"Power":[1]}}"#);
    let text = format!(
        "mqtt=127.0.0.1:{},topic=t,pointer=/ENERGY/Power/0,scale=0.1,about=1s",
        broker.port
    );
    let mut meter = open(&text).unwrap();
    assert_eq!(meter.pace(), Pace::Pushed { about: Duration::from_secs(1) });
    publisher.say(false, r#"{"ENERGY":{"Power":["415"]}}"#);
    assert_eq!(poll(meter.as_mut()).unwrap(), watts(41.5));
    publisher.say(false, "offline");
    let error = poll(meter.as_mut()).unwrap_err().to_string();
    assert!(error.contains("topic `t`: `offline` is no JSON"), "{error}");
    publisher.say(false, r#"{"ENERGY":{"Power":[120]}}"#);
    assert_eq!(poll(meter.as_mut()).unwrap(), watts(12.0));
}

#[test]
fn a_broker_that_goes_away_is_noticed() {
    let Some(broker) = broker("allow_anonymous true", &[]) else { return };
    let mut meter = open(&format!("mqtt=mqtt://127.0.0.1:{},topic=t", broker.port)).unwrap();
    drop(broker);
    let error = poll(meter.as_mut()).unwrap_err().to_string();
    assert!(error.contains("cannot hear the broker"), "{error}");
}

#[test]
fn names_and_rights_are_told_apart() {
    let Some(hashing) = program("mosquitto_passwd") else { return };
    let folder = tempfile::tempdir().unwrap();
    let hashed = folder.path().join("users");
    let made = Command::new(hashing)
        .args(["-b", "-c"])
        .arg(&hashed)
        .args(["watch", "tell nobody"])
        .stderr(Stdio::null())
        .status();
    assert!(made.unwrap().success());
    let users = std::fs::read_to_string(hashed).unwrap();
    let config = "allow_anonymous false\npassword_file FOLDER/users";
    let Some(broker) = broker(config, &[("users", &users)]) else { return };
    let password = line("tell nobody");
    let place = format!("mqtt=127.0.0.1:{},topic=t", broker.port);
    open(&format!("{place},user=watch,password-file={}", password.path().display())).unwrap();
    let wrong = line("tell everybody");
    let wrong = format!("{place},user=watch,password-file={}", wrong.path().display());
    for text in [place, wrong] {
        let error = refused(&text);
        assert!(error.hint().unwrap().contains("password-file"), "{error}");
        assert!(!format!("{error:?}").contains("everybody"), "{error:?}");
    }
}

#[test]
fn with_tls_the_broker_has_to_be_the_one_that_is_trusted() {
    let (Some(identity), Some(other)) = (Identity::self_signed(), Identity::self_signed()) else {
        return;
    };
    let read = |path: &std::path::Path| std::fs::read_to_string(path).unwrap();
    let files = [("c.pem", read(&identity.certificate)), ("k.pem", read(&identity.key))];
    let files = files.each_ref().map(|(name, text)| (*name, text.as_str()));
    let config = "allow_anonymous true\ncertfile FOLDER/c.pem\nkeyfile FOLDER/k.pem";
    let Some(broker) = broker(config, &files) else { return };
    let text = |ca: &Identity| {
        let ca = ca.certificate.display();
        format!("mqtt=mqtts://127.0.0.1:{},topic=t,ca={ca}", broker.port)
    };
    let mut meter = open(&text(&identity)).unwrap();
    // No message arrives: the turn ends by itself.
    let stop = Stop::new().unwrap();
    let turn = Turn { stop: &stop, until: monotonic() };
    meter.read(&turn, &mut Readings::default()).unwrap();
    let error = refused(&text(&other)).to_string();
    assert!(error.contains("certificate"), "{error}");
}

#[test]
fn what_is_no_broker_costs_no_memory() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let garbage = [0x30, 0xff, 0xff, 0xff, 0x7f];
        while stream.write_all(&garbage).is_ok() {}
    });
    let error = refused(&format!("mqtt=127.0.0.1:{port},topic=t")).to_string();
    assert!(error.contains("which no meter has to say"), "{error}");
    assert!(refused("mqtt=h").to_string().contains("topic=plug/power"));
    assert!(refused("mqtt=h,topic=a/#").to_string().contains("one topic"));
    assert!(refused("mqtt=http://h,topic=t").to_string().contains("mqtts://"));
}
