//! A machine that truly suspends, woken by magic packets.

use crate::guest::Guest;
use crate::proxy::Proxy;

/// How often it sleeps and wakes: `MACHINE_CYCLES`.
pub(crate) fn cycles() -> usize {
    std::env::var("MACHINE_CYCLES").ok().and_then(|text| text.parse().ok()).unwrap_or(3)
}

/// How the guest is reached by ssh: the keys of a table.
pub(crate) fn over_ssh(guest: &Guest) -> String {
    format!(
        "host = \"root@{}\"\nidentity = \"{}\"\nknown_hosts = \"{}\"\n",
        guest.text("guest/address"),
        guest.text("ssh/identity"),
        guest.text("ssh/known_hosts"),
    )
}

/// What wakes it and puts it to sleep.
pub(crate) fn wol_and_ssh(guest: &Guest) -> String {
    let (mac, ssh) = (guest.text("guest/mac"), over_ssh(guest));
    format!("[site.power.wake.wol]\nmac = \"{mac}\"\n[site.power.sleep.ssh]\n{ssh}")
}

#[test]
#[ignore = "make test-vm: starts a guest, which takes a minute"]
fn a_guest_suspends_by_ssh_and_wakes_by_magic_packet_and_no_request_is_lost() {
    // Half of the magic packets are lost.
    let Some(guest) = Guest::up(&["--root", "debian", "--drop", "0.5", "--seed", "7"]) else {
        return;
    };
    let proxy = Proxy::serve(&guest, &wol_and_ssh(&guest));
    assert_eq!(proxy.get("/?cycle=0").0, 200, "{}", proxy.log());
    let cycles = cycles();
    for cycle in 1..=cycles {
        guest.wait("SUSPEND", cycle);
        // Only the server can answer a target that was not requested before.
        let (status, took) = proxy.get(&format!("/?cycle={cycle}"));
        println!("cycle {cycle}: {status} after {:.2} s", took.as_secs_f64());
        assert_eq!(status, 200, "cycle {cycle}: {}", proxy.log());
    }
    // It may have fallen asleep once more since.
    let [slept, woke] = ["SUSPEND", "WAKEUP"].map(|name| guest.events(&[name]).len());
    assert_eq!(woke, cycles, "only requests wake it");
    assert!(slept == cycles || slept == cycles + 1, "{slept}");
    // Before a request comes, the sleeping machine gets no packets except the probe that finds it asleep.
    let spoken_to = guest.events(&["frame"]);
    let spoken_to = spoken_to.iter().filter(|frame| frame["for_guest"] == true).count();
    println!("{spoken_to} frames for the guest while it slept");
    let magic = guest.events(&["magic"]);
    let lost = magic.iter().filter(|packet| packet["dropped"] == true).count();
    println!("{} magic packets, {lost} of them lost", magic.len());
    let status = proxy.status();
    // The first may have been one too: its web server was not up yet.
    let wakeups = status["ledger"]["wakeups"].as_u64().unwrap();
    assert!((cycles..=cycles + 1).contains(&usize::try_from(wakeups).unwrap()), "{status}");
    assert_eq!(status["failures"], 0, "{status}");
}
