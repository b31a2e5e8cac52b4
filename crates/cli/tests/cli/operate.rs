//! What keeps it running for years: reloads, restarts without a lost request, and what it tells systemd.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::time::Duration;

use nightwatt_policy::lifecycle::Change;
use rustix::process::Signal;

use crate::client::{connect, get, head, receive};
use crate::harness::{
    Gateway, House, NIGHTWATT, Plan, eventually, free_address, nightwatt, process, program, told,
};

/// A server that starts once there is a file `go`.
fn slow_to_wake() -> Plan {
    let script = "while [ ! -e DIR/go ]; do sleep 0.05; done; \
                  exec NIGHTWATT origin --listen ORIGIN --ttl 0 --record DIR/served.tsv";
    let site = "wake_timeout = \"60s\"\nwatch = \"500ms\"".to_owned();
    Plan { power: process(script), site, ..Plan::default() }
}

fn held(gateway: &Gateway, path: &str) -> std::net::TcpStream {
    let mut stream = connect(gateway.address).unwrap();
    stream.write_all(&head("GET", path, "")).unwrap();
    eventually("the request waits", || (gateway.status()["held"].as_u64() > Some(0)).then_some(()));
    stream
}

#[test]
fn a_configuration_that_cannot_be_used_changes_nothing_and_says_why() {
    let house = House::build(&Plan::default());
    let gateway = house.serve(&[]);
    house.reconfigure("policy = \"timeout 100ms\"", "policy = \"sometimes\"");
    let refused = gateway.order(&["reload"]);
    assert_eq!(refused.status.code(), Some(1));
    let said = told(&refused);
    assert!(said.contains("nightwatt.toml:") && said.contains("sometimes"), "{said}");
    assert_eq!(get(gateway.address, "/").unwrap().status, 200);
    let page = told(&gateway.order(&["status"]));
    assert!(page.contains("the configuration before still holds"), "{page}");
    gateway.signal(Signal::HUP);
    eventually("the log says why", || {
        let log = house.read("serve.log");
        (log.matches("the configuration was not taken").count() == 2).then_some(())
    });

    house.reconfigure("sometimes", "timeout 200ms");
    let taken = gateway.order(&["reload", "--json"]);
    let taken: serde_json::Value = serde_json::from_slice(&taken.stdout).unwrap();
    assert_eq!(taken["changed"], serde_json::json!(["site"]));
    assert_eq!(gateway.status()["policy"], "timeout 200ms");

    assert!(told(&gateway.order(&["reload"])).contains("reloaded: nothing changed"));
    house.reconfigure("\"127.0.0.1:0\"", "\"127.0.0.2:0\"");
    let moved = told(&gateway.order(&["reload"]));
    let wanted = "reloaded: listens on 127.0.0.2:0; no longer on 127.0.0.1:0";
    assert!(moved.contains(wanted), "{moved}");

    house.reconfigure("/state\"", "/elsewhere\"");
    let socket = house.path("state/control.sock").display().to_string();
    let fixed = told(&nightwatt(&["reload", "--socket", &socket]));
    assert!(fixed.contains("`state_dir`") && fixed.contains("stop this process"), "{fixed}");
    let unheard = told(&gateway.order(&["reload"]));
    assert!(unheard.contains("still at the old place, if `state_dir`"), "{unheard}");
    let unheard = told(&nightwatt(&["reload", "--socket", "/nowhere/control.sock"]));
    assert!(!unheard.contains("serve -c"), "that would start another one: {unheard}");
}

#[test]
fn who_waits_while_another_process_takes_over_is_answered_and_the_server_is_woken_once() {
    let house = House::build(&slow_to_wake());
    let mut old = house.serve(&[]);
    old.until("asleep");
    let waits = held(&old, "/waits");
    let new = house.serve(&["--replace"]);
    assert_eq!(new.address, old.address, "it has the same socket");
    let also = held(&new, "/also");
    std::fs::write(house.path("go"), "").unwrap();
    let reply = receive(waits).unwrap();
    assert_eq!((reply.status, reply.answer()), (200, "held"), "{}", reply.text());
    let also = receive(also).unwrap();
    assert_eq!((also.status, also.answer()), (200, "held"), "{}", also.text());
    assert_eq!(old.wait().0.code(), Some(0), "{}", house.read("serve.log"));
    new.until("asleep");
    let count = |change| house.ledger().iter().filter(|it| it.change == Some(change)).count();
    assert_eq!([count(Change::Waking), count(Change::Woke)], [1, 1]);
    assert_eq!(house.ledger().last().unwrap().memory.bill.wakeups, 1);
    let mut served = house.served();
    served.sort();
    assert_eq!(served, ["/also", "/waits"]);
}

#[test]
fn what_is_under_way_in_the_old_process_keeps_the_server_awake_in_the_new_one() {
    let house = House::build(&Plan::by_file());
    let answers = house.held_answers();
    let mut old = house.serve(&[]);
    let mut stream = connect(old.address).unwrap();
    stream.write_all(&head("GET", "/slow", "")).unwrap();
    eventually("the server works on it", || {
        (old.status()["in_flight"].as_u64() > Some(0)).then_some(())
    });
    let new = house.serve(&["--replace"]);
    eventually("the new process knows of it", || {
        (new.status()["in_flight"].as_u64() > Some(0)).then_some(())
    });
    assert_eq!(new.status()["state"], "awake", "it was told, and need not look");
    answers.send(()).unwrap();
    let reply = receive(stream).unwrap();
    assert_eq!(reply.status, 200);
    assert_eq!(old.wait().0.code(), Some(0), "{}", house.read("serve.log"));
    new.until("asleep");
}

#[test]
fn a_process_that_cannot_take_over_leaves_everything_as_it_was() {
    let house = House::build(&Plan::default());
    let old = house.serve(&[]);
    assert_eq!(get(old.address, "/before").unwrap().status, 200);
    // Nothing tells of this before the old one has let go.
    let config = house.read("nightwatt.toml");
    let broken =
        config.replace("[site.power", "waiting_page_file = \"/nowhere/page.html\"\n[site.power");
    std::fs::write(house.path("broken.toml"), broken).unwrap();
    let path = house.path("broken.toml").display().to_string();
    let failed = program().args(["serve", "--replace", "-c", &path]).output().unwrap();
    assert_eq!(failed.status.code(), Some(1), "{}", told(&failed));
    assert!(told(&failed).contains("/nowhere/page.html"), "{}", told(&failed));
    assert_eq!(get(old.address, "/after").unwrap().status, 200);
    old.until("asleep");
    let (ended, _) = old.stop();
    assert_eq!(ended.code(), Some(0), "{}", house.read("serve.log"));
    assert_eq!(house.served(), ["/before", "/after"]);
    assert!(house.ledger().len() > 2);
}

#[test]
fn what_is_only_passed_through_is_named_as_it_starts() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("nightwatt.toml");
    let config = format!(
        "state_dir = {:?}\n\
         [[machine]]\nname = \"metal\"\nprobe = \"controller\"\n[machine.power.simulated]\n\
         [[tcp]]\nname = \"ssh\"\non = \"metal\"\nlisten = [\"127.0.0.1:0\"]\norigin = \"127.0.0.1:22\"\n",
        dir.path().join("state")
    );
    std::fs::write(&file, config).unwrap();
    let mut child =
        program().arg("serve").arg("-c").arg(&file).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let port = line.trim_end().strip_prefix("passing through ssh on 127.0.0.1:");
    assert!(port.is_some_and(|port| port.parse::<u16>().is_ok_and(|port| port > 0)), "{line}");
}

#[test]
fn systemd_is_told_when_it_is_ready_reloads_is_well_and_stops() {
    let house = House::build(&Plan::default());
    let manager = UnixDatagram::bind(house.path("notify")).unwrap();
    manager.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    let hears = |wanted: &str| {
        let mut line = [0; 512];
        loop {
            let length =
                manager.recv(&mut line).unwrap_or_else(|error| panic!("{wanted}: {error}"));
            let said = std::str::from_utf8(&line[..length]).unwrap();
            if said.lines().any(|it| it == wanted) {
                return said.to_owned();
            }
        }
    };
    let mut program = program();
    // A socket holds ten messages, and what finds it full is lost: that needs 20 s without a reader.
    program.env("NOTIFY_SOCKET", house.path("notify")).env("WATCHDOG_USEC", "4000000");
    let gateway = house.serve_by(program, &[]);
    hears("READY=1");
    hears("WATCHDOG=1");
    gateway.signal(Signal::HUP);
    assert!(hears("RELOADING=1").contains("MONOTONIC_USEC="));
    hears("READY=1");
    gateway.signal(Signal::TERM);
    hears("STOPPING=1");
}

#[test]
fn a_process_that_stands_still_is_not_called_well() {
    let house = House::build(&Plan::default());
    let manager = UnixDatagram::bind(house.path("notify")).unwrap();
    let mut program = program();
    program.env("NOTIFY_SOCKET", house.path("notify")).env("WATCHDOG_USEC", "200000");
    let gateway = house.serve_by(program, &[]);
    gateway.signal(Signal::STOP);
    let pid = gateway.pid();
    // Each of its threads: one may be sending while the first stands already.
    eventually("it stands still", || {
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        let stat = |it: std::fs::DirEntry| std::fs::read_to_string(it.path().join("stat"));
        let stands = |it| stat(it).is_ok_and(|it| it.contains(") T "));
        threads.map(Result::unwrap).all(stands).then_some(())
    });
    let mut line = [0; 512];
    manager.set_nonblocking(true).unwrap();
    while manager.recv(&mut line).is_ok() {}
    manager.set_nonblocking(false).unwrap();
    manager.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    assert!(manager.recv(&mut line).is_err(), "nobody speaks for it");
}

#[test]
fn sockets_that_systemd_opened_are_served_and_known_by_their_addresses() {
    let house = House::build(&Plan::default());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    house.reconfigure("127.0.0.1:0", &address.to_string());
    // As systemd has it: descriptor 3, for this process id.
    let mut shell = Command::new("/bin/sh");
    let script = "exec 3<&0 0</dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$@\"";
    shell.args(["-c", script, "sh", NIGHTWATT]).env_remove("RUST_LOG");
    shell.stdin(Stdio::from(OwnedFd::from(listener)));
    // Who comes before it runs waits in the kernel.
    let early = std::thread::spawn(move || get(address, "/early").unwrap().status);
    let gateway = house.serve_by(shell, &[]);
    assert_eq!(gateway.address, address);
    assert_eq!(early.join().unwrap(), 200);
}

#[test]
fn the_units_are_as_systemd_wants_them() {
    let Some(analyze) = nightwatt_needs::program("systemd-analyze") else { return };
    let units = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/systemd");
    let unit = |name: &str| format!("{units}/{name}");
    let checked = Command::new(analyze)
        .args(["verify", "--man=no", &unit("nightwatt.service"), &unit("nightwatt.socket")])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&checked.stderr).into_owned();
    // Where the program is not installed it says so, and nothing else.
    let wrong: Vec<&str> = said
        .lines()
        .filter(|line| line.contains("nightwatt.") && !line.contains("is not executable"))
        .collect();
    assert!(wrong.is_empty(), "{said}");
}

#[test]
fn a_second_process_with_the_same_configuration_is_refused_with_the_way_out() {
    let house = House::build(&Plan::default());
    house.reconfigure("127.0.0.1:0", &free_address().to_string());
    let _gateway = house.serve(&[]);
    let config = house.path("nightwatt.toml").display().to_string();
    let said = told(&nightwatt(&["serve", "-c", &config, "--log-level", "off"]));
    let wanted = "error: nightwatt already runs with this configuration\n\
                  hint: `nightwatt status` shows it; `--replace` takes its place";
    assert!(said.contains(wanted), "{said}");
}

#[test]
fn what_is_left_behind_is_named_at_the_end() {
    let stay = Plan { policy: "always-on".to_owned(), ..Plan::default() };
    let house = House::build(&stay);
    let gateway = house.serve(&[]);
    gateway.until("asleep");
    gateway.stop();
    let log = house.read("serve.log");
    assert!(log.contains("site is asleep and stays so: `nightwatt wake` before"), "{log}");

    let gateway = house.serve(&[]);
    gateway.order(&["wake", "--wait"]);
    gateway.stop();
    let log = house.read("serve.log");
    assert!(log.contains("site is awake, and its process runs on"), "{log}");
}
