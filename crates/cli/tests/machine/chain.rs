//! A machine, and a service on it: each is put to sleep and woken by itself.

use crate::guest::Guest;
use crate::proxy::Proxy;
use crate::sleep_and_wake::{cycles, over_ssh};

/// The guest's web server.
const UNIT: &str = "nightwatt-vm-web.service";

fn service_on_machine(guest: &Guest) -> String {
    format!(
        r#"on = "metal"
[site.power.ssh]
{ssh}wake = "systemctl start {UNIT}"
sleep = "systemctl stop {UNIT}"

[[machine]]
name = "metal"
probe = "tcp {address}:22"
linger = "2s"
grace = "0"
[machine.power.wake.wol]
mac = "{mac}"
[machine.power.sleep.ssh]
{ssh}"#,
        ssh = over_ssh(guest),
        mac = guest.text("guest/mac"),
        address = guest.text("guest/address"),
    )
}

#[test]
#[ignore = "make test-vm: starts a guest, which takes a minute"]
fn a_service_stops_then_its_machine_suspends_and_a_request_wakes_machine_and_service() {
    let Some(guest) = Guest::up(&["--root", "debian"]) else {
        return;
    };
    let proxy = Proxy::serve(&guest, &service_on_machine(&guest));
    assert_eq!(proxy.get("/?cycle=0").0, 200, "{}", proxy.log());
    let cycles = cycles().min(5);
    for cycle in 1..=cycles {
        guest.wait("SUSPEND", cycle);
        let (status, took) = proxy.get(&format!("/?cycle={cycle}"));
        println!("cycle {cycle}: {status} after {:.2} s", took.as_secs_f64());
        assert_eq!(status, 200, "cycle {cycle}: {}", proxy.log());
    }
    // Another machine wakes it: it is up, and its service is as it was left.
    guest.wait("SUSPEND", cycles + 1);
    guest.send_magic();
    guest.wait("WAKEUP", cycles + 1);
    let state = guest.exec(&format!("systemctl is-active {UNIT} || true"));
    assert_eq!(state.trim(), "inactive", "it was stopped before its machine slept");
    assert_eq!(proxy.get("/?last").0, 200, "{}", proxy.log());
    let status = proxy.status();
    assert_eq!(status["failures"], 0, "{status}");
}
