//! What goes wrong between a proxy and a machine that truly sleeps, and the state that it ends in.

use crate::agent::{ALONE, guest_with_agent, record, start_agent, wol_and_agent};
use crate::guest::Guest;
use crate::proxy::Proxy;

/// Sleeps and wake-ups that the guest has had.
fn counts(guest: &Guest) -> (usize, usize) {
    (guest.events(&["SUSPEND"]).len(), guest.events(&["WAKEUP"]).len())
}

#[test]
#[ignore = "make test-vm: starts a guest, which takes a minute"]
fn whatever_fails_it_ends_in_the_right_state() {
    let Some(guest) = guest_with_agent(&[]) else { return };
    start_agent(&guest, ALONE);
    let power = wol_and_agent(&guest);
    let proxy = Proxy::serve(&guest, &power);

    // The agent is killed: nothing puts the machine to sleep, and it serves. systemd starts the
    // agent again.
    guest.exec("systemctl kill --signal KILL nightwatt-agent; systemctl stop nightwatt-agent");
    assert_eq!(proxy.get("/?agent-dead").0, 200);
    proxy.until_change("stayed-awake", 1);
    assert_eq!(counts(&guest), (0, 0));
    assert_eq!(proxy.get("/?agent-still-dead").0, 200);
    drop(proxy);
    guest.exec("systemctl start nightwatt-agent");

    // The network is cut while it falls asleep: its good-bye is lost, and the proxy finds out by asking.
    let proxy = Proxy::serve(&guest, &power);
    proxy.until_change("falling-asleep", 1);
    guest.link("down");
    guest.wait("SUSPEND", 1);
    proxy.until("asleep");
    guest.link("up");
    assert_eq!(proxy.get("/?cut").0, 200, "{}", proxy.log());
    assert_eq!(counts(&guest), (1, 1));

    // The proxy is killed while the machine wakes, and started again.
    guest.wait("SUSPEND", 2);
    proxy.until("asleep");
    guest.link("down");
    let asked = proxy.ask_and_leave("/?restart");
    proxy.until("waking");
    drop(proxy);
    drop(asked);
    guest.link("up");
    let proxy = Proxy::serve(&guest, &power);
    assert_eq!(proxy.get("/?restarted").0, 200, "{}", proxy.log());
    assert_eq!(counts(&guest), (2, 2));

    // Another machine wakes it: the agent reports that, and the proxy needs no probe.
    guest.wait("SUSPEND", 3);
    proxy.until("asleep");
    guest.send_magic();
    proxy.until_change("woken-by-others", 1);
    assert_eq!(proxy.status()["state"], "awake");
    let kept = proxy.status()["kept_awake_by"].clone();
    assert!(kept.as_str().is_some_and(|it| it.contains("did not cause")), "grace: {kept}");
    drop(proxy);

    // The proxy dies for good while the machine sleeps: the dead man's switch wakes it, and it stays awake.
    let short = "[alarm]\ntimers = []\ncron = false\ndead_man = \"20s\"\ngrace = \"5s\"\n";
    start_agent(&guest, short);
    let proxy = Proxy::serve(&guest, &power);
    guest.wait("SUSPEND", 4);
    drop(proxy);
    guest.wait("WAKEUP", 4);
    guest.exec("for i in $(seq 40); do grep -q alone /var/lib/nightwatt-agent/states.jsonl && break; sleep 1; done");
    let own = record(&guest);
    let times = |name| own.get(name).map_or(0, Vec::len);
    assert_eq!((times("dead_man"), times("alone")), (1, 1), "{own:#?}");
    assert_eq!(counts(&guest), (4, 4));
    // A proxy comes back: all is as before.
    let proxy = Proxy::serve(&guest, &power);
    assert_eq!(proxy.get("/?back").0, 200);
    guest.wait("SUSPEND", 5);
    assert_eq!(record_after_wake(&guest, &proxy), 1);
}

/// How often a proxy was found again, by the record of the machine, which is woken for it.
fn record_after_wake(guest: &Guest, proxy: &Proxy<'_>) -> usize {
    assert_eq!(proxy.get("/?record").0, 200, "{}", proxy.log());
    record(guest).get("proxy_found").map_or(0, Vec::len)
}
