//! Files for a machine that sleeps (T11 of the design): it is woken, gets them, and sleeps again.

use std::fs;

use nightwatt_gateway::ledger_file::{Record, WakeCause};
use serde_json::Value;

use crate::agent::{ALONE, guest_with_agent, start_agent, wol_and_agent};
use crate::proxy::Proxy;

const NIGHTWATT: &str = env!("CARGO_BIN_EXE_nightwatt");

/// The receiver waits in the guest, also while that sleeps.
const RECEIVE: &str = "systemd-run --quiet --unit receive nightwatt receive --listen 0.0.0.0:7000 \
    --ticket-file /run/ticket --json /var/tmp/backup; \
    until [ -s /run/ticket ]; do sleep 0.1; done; cat /run/ticket";

#[test]
#[ignore = "make test-vm: starts a guest, which takes a minute"]
fn a_guest_is_woken_for_files_and_asleep_again_with_one_bill_for_both_ends() {
    let Some(guest) = guest_with_agent(&[]) else { return };
    start_agent(&guest, ALONE);
    let proxy = Proxy::serve(&guest, &wol_and_agent(&guest));
    assert_eq!(proxy.get("/").0, 200, "{}", proxy.log());
    fs::write(guest.path("ticket"), guest.exec(RECEIVE)).unwrap();
    guest.wait("SUSPEND", 1);
    proxy.until("asleep");

    let content: Vec<u8> = (0..2_000_000_u32).map(|at| (at / 7) as u8).collect();
    fs::write(guest.path("file"), &content).unwrap();
    let sent = guest
        .beside_proxy(NIGHTWATT)
        .args(["send", "--quiet", "--json", "--to-site", "site", "-c"])
        .args([guest.path("nightwatt.toml"), "--ticket-file".into(), guest.path("ticket")])
        .arg(guest.path("file"))
        .arg(format!("tls://{}:7000", guest.text("guest/address")))
        .output()
        .unwrap();
    let complaint = String::from_utf8_lossy(&sent.stderr).into_owned();
    assert!(sent.status.success(), "{complaint}: {}", proxy.log());
    assert_eq!(guest.events(&["WAKEUP"]).len(), 1, "it was woken once");
    guest.wait("SUSPEND", 2);
    proxy.until("asleep");

    let bill: Value = serde_json::from_slice(&sent.stdout).unwrap();
    let [ours, theirs] = ["energy", "receiver"].map(|end| bill[end]["joules"].as_f64().unwrap());
    println!("woken, fed, asleep again: {ours:.1} J here and {theirs:.1} J there");
    assert!(ours > 0.0 && theirs > 0.0, "{bill}");
    let ledger = fs::read_to_string(guest.path("state/site.ledger.jsonl")).unwrap();
    let records = ledger.lines().map(|line| serde_json::from_str::<Record>(line).unwrap());
    let causes: Vec<WakeCause> = records.filter_map(|it| it.cause).collect();
    assert!(causes.contains(&WakeCause::Operator), "on the ledger: {causes:?}");

    // A request wakes it, so that it can be asked.
    assert_eq!(proxy.get("/").0, 200, "{}", proxy.log());
    let there = guest.exec("sha256sum </var/tmp/backup/file");
    let here = std::process::Command::new("sha256sum").arg(guest.path("file")).output().unwrap();
    let here = String::from_utf8_lossy(&here.stdout).into_owned();
    assert_eq!(there.split_whitespace().next(), here.split_whitespace().next());
}
