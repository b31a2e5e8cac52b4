//! QMP with a real QEMU whose guest has no operating system, and with peers that speak otherwise. A
//! guest that suspends and one that powers off: `make test-vm`.

use std::io::Write;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use nightwatt_needs::program;
use nightwatt_power::qemu::{Config, Qemu};
use nightwatt_power::{Controller, Error, Observed};

use crate::Rig;
use crate::daemon::Daemon;

fn build(rig: &Rig, monitor: &str, options: &str) -> Qemu {
    let text = format!("monitor = \"{monitor}\"\n{options}");
    toml::from_str::<Config>(&text).unwrap().build(&rig.context()).unwrap()
}

/// A machine that does not run yet, with the monitors.
fn machine(rig: &Rig, monitors: &[String]) -> Option<Daemon> {
    let program = program("qemu-system-x86_64")?;
    let mut qemu = Command::new(program);
    qemu.args(["-S", "-nodefaults", "-display", "none", "-machine", "pc", "-m", "16"]);
    for monitor in monitors {
        qemu.args(["-qmp", &format!("{monitor},server=on,wait=off")]);
    }
    Some(Daemon::start(rig, &mut qemu))
}

#[test]
fn a_real_machine_goes_on_and_stands_still() {
    let rig = Rig::new();
    let socket = rig.path("qmp");
    let address = nightwatt_needs::free_address();
    let monitors = [format!("unix:{}", socket.display()), format!("tcp:{address}")];
    let Some(mut machine) = machine(&rig, &monitors) else { return };
    let by_socket = build(&rig, &socket.display().to_string(), "");
    let by_tcp = build(&rig, &format!("tcp:{address}"), "");
    machine.ready(&rig, || rig.run(by_socket.state()).ok());
    rig.run(async {
        for guest in [&by_socket, &by_tcp] {
            assert_eq!(guest.state().await.unwrap(), Observed::Down);
            guest.sleep().await.unwrap();
            guest.wake().await.unwrap();
            guest.wake().await.unwrap();
            assert_eq!(by_tcp.state().await.unwrap(), Observed::Up);
            guest.sleep().await.unwrap();
            assert_eq!(by_socket.state().await.unwrap(), Observed::Down);
        }
        // It has no operating system that would obey; the command is all.
        by_tcp.wake().await.unwrap();
        let path = socket.display().to_string();
        build(&rig, &path, "sleep = \"powerdown\"").sleep().await.unwrap();
        assert_eq!(by_tcp.state().await.unwrap(), Observed::Up);
    });
}

#[test]
fn another_client_at_the_monitor_and_no_qemu_are_told_apart() {
    let rig = Rig::new();
    let socket = rig.path("qmp");
    let path = socket.display().to_string();
    let Some(mut machine) = machine(&rig, &[format!("unix:{path}")]) else { return };
    let guest = build(&rig, &path, "");
    machine.ready(&rig, || rig.run(guest.state()).ok());
    let other = std::os::unix::net::UnixStream::connect(&socket).unwrap();
    let impatient = build(&rig, &path, "timeout = \"100ms\"");
    let error = rig.run(impatient.wake()).unwrap_err();
    assert!(matches!(error, Error::Silent { .. }), "{error}");
    assert!(error.hint().contains("one client at a time") && error.retryable());
    drop(other);
    drop(machine);
    let error = rig.run(guest.wake()).unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    assert_eq!(error.to_string(), format!("cannot reach QEMU at {path}"));
    assert!(error.hint().contains("server=on,wait=off"), "{}", error.hint());
}

/// Sends these bytes to one client, and waits until it has disconnected.
fn peer(path: &Path, words: Vec<u8>) {
    let listener = UnixListener::bind(path).unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        // The client may disconnect once it has read enough.
        let _ = stream.write_all(&words);
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    });
}

#[test]
fn whoever_speaks_otherwise_is_not_believed_and_not_listened_to_for_ever() {
    let rig = Rig::new();
    let greeting = "{\"QMP\": {}}\r\n";
    let (event, done) = ("{\"event\": \"RESET\"}\n", "{\"return\": {}}\n");
    for (name, words, says) in [
        ("ssh", "SSH-2.0-OpenSSH_9.2\r\n".to_owned(), "`SSH-2.0-OpenSSH_9.2` is no message"),
        ("endless", "{".repeat(1 << 20), "is no message of QMP"),
        ("rude", done.to_owned(), "no greeting comes first"),
        ("chatty", format!("{greeting}{}", event.repeat(2000)), "nothing but events"),
        ("twice", greeting.repeat(2), "another greeting"),
        ("vague", format!("{greeting}{done}{done}"), "`` is no state of a guest"),
        (
            "odd",
            format!("{greeting}{done}{{\"return\": {{\"status\": \"\\u001b[2Jfine\"}}}}\n"),
            "`\u{fffd}[2Jfine` is no state",
        ),
    ] {
        let path = rig.path(name);
        peer(&path, words.into_bytes());
        let error = rig.run(build(&rig, &path.display().to_string(), "").state()).unwrap_err();
        assert!(matches!(error, Error::Nonsense { .. }), "{name}: {error:?}");
        let text = error.to_string();
        assert!(text.contains(says) && text.len() < 600, "{name}: {text}");
    }
    let path = rig.path("no");
    let no = "{\"error\": {\"class\": \"CommandNotFound\", \"desc\": \"never\"}}\n";
    peer(&path, format!("{greeting}{done}{no}").into_bytes());
    let error = rig.run(build(&rig, &path.display().to_string(), "").state()).unwrap_err();
    assert!(error.to_string().ends_with("refuses to query-status: never"), "{error}");
}
