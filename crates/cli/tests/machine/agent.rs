//! A machine with an agent, which suspends by its order.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;

use crate::guest::Guest;
use crate::proxy::Proxy;
use crate::sleep_and_wake::cycles;

const NIGHTWATT: &str = env!("CARGO_BIN_EXE_nightwatt");

/// A guest with the program, the agent's units and a key in it.
pub(crate) fn guest_with_agent(options: &[&str]) -> Option<Guest> {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("nightwatt");
    // With its symbols it would not fit.
    let stripped = Command::new("strip").arg("-o").arg(&program).arg(NIGHTWATT).status().unwrap();
    assert!(stripped.success());
    let key = dir.path().join("agent.key");
    let made = Command::new(NIGHTWATT).args(["agent", "key", "-o"]).arg(&key).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let units = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/systemd");
    let put = [
        format!("{}:/usr/bin/nightwatt", program.display()),
        format!("{}:/etc/nightwatt/agent.key", key.display()),
        format!("{units}/nightwatt-agent.service:/etc/systemd/system/nightwatt-agent.service"),
        format!(
            "{units}/nightwatt-agent-sleep.service:/etc/systemd/system/nightwatt-agent-sleep.service"
        ),
    ];
    let put = put.iter().flat_map(|what| ["--put", what.as_str()]);
    let options: Vec<&str> =
        ["--root", "debian"].into_iter().chain(put).chain(options.iter().copied()).collect();
    let guest = Guest::up(&options)?;
    std::fs::copy(key, guest.path("agent.key")).unwrap();
    Some(guest)
}

/// Starts the agent with these tables behind the usual ones.
pub(crate) fn start_agent(guest: &Guest, more: &str) {
    let config = format!(
        r#"listen = ["0.0.0.0"]
[[proxy]]
name = "porch"
key = "/etc/nightwatt/agent.key"
announce = "{proxy}"
{more}
"#,
        proxy = guest.text("proxy/address"),
    );
    let script = format!(
        "cat >/etc/nightwatt/agent.toml <<'END'\n{config}END\n\
         systemctl daemon-reload; systemctl enable --quiet nightwatt-agent-sleep.service; \
         systemctl reset-failed; systemctl restart nightwatt-agent.service; \
         systemctl is-active nightwatt-agent.service || journalctl -u nightwatt-agent"
    );
    let said = guest.exec(&script);
    assert_eq!(said.trim(), "active", "{said}");
}

/// What wakes it and puts it to sleep.
pub(crate) fn wol_and_agent(guest: &Guest) -> String {
    format!(
        r#"[site.power.wake.wol]
mac = "{mac}"
[site.power.sleep.agent]
address = "{address}"
key = "{key}"
listen = "0.0.0.0"
"#,
        mac = guest.text("guest/mac"),
        address = guest.text("guest/address"),
        key = guest.path("agent.key").display(),
    )
}

/// No job of Debian's own keeps the guest awake or wakes it.
pub(crate) const ALONE: &str = "[alarm]\ntimers = []\ncron = false\n";

/// The agent's record: its events by name, each with when it came, ms.
pub(crate) fn record(guest: &Guest) -> BTreeMap<String, Vec<(f64, Value)>> {
    let text = guest.exec("cat /var/lib/nightwatt-agent/states.jsonl");
    let mut events: BTreeMap<String, Vec<(f64, Value)>> = BTreeMap::new();
    for line in text.lines() {
        let entry: Value = serde_json::from_str(line).unwrap();
        let at = entry["at_ms"].as_f64().unwrap();
        events.entry(entry["event"].as_str().unwrap().to_owned()).or_default().push((at, entry));
    }
    events
}

/// A state's begin and end by the proxy's ledger: when each of these changes came, ms.
fn changes(guest: &Guest, name: &str) -> Vec<f64> {
    let journal = std::fs::read_to_string(guest.path("state/site.ledger.jsonl")).unwrap();
    let records = journal.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    records.filter(|it| it["change"] == name).map(|it| it["at"].as_f64().unwrap()).collect()
}

#[test]
#[ignore = "make test-vm: starts a guest, which takes a minute"]
fn a_guest_suspends_by_its_agent_and_nothing_of_ours_disturbs_it() {
    let Some(guest) = guest_with_agent(&["--drop", "0.5", "--seed", "11"]) else { return };
    start_agent(&guest, ALONE);
    let proxy = Proxy::serve(&guest, &wol_and_agent(&guest));
    assert_eq!(proxy.get("/?cycle=0").0, 200, "{}", proxy.log());
    let cycles = cycles();
    for cycle in 1..=cycles {
        guest.wait("SUSPEND", cycle);
        let crawler = proxy.get_as("/?crawler", "Mozilla/5.0 (compatible; Googlebot/2.1)");
        assert_eq!(crawler.0, 503, "crawlers wake nobody");
        // It has said good-bye: by now the proxy knows, or is about to.
        proxy.until("asleep");
        let (status, took) = proxy.get(&format!("/?cycle={cycle}"));
        println!("cycle {cycle}: {status} after {:.2} s", took.as_secs_f64());
        assert_eq!(status, 200, "cycle {cycle}: {}", proxy.log());
    }
    let woke = guest.events(&["WAKEUP"]).len();
    assert_eq!(woke, cycles, "only requests wake it");

    // From SUSPEND to the first magic packet there is not a frame for it.
    let mut asleep = false;
    for event in guest.events(&["SUSPEND", "WAKEUP", "magic", "frame"]) {
        match event["event"].as_str().unwrap() {
            "SUSPEND" => asleep = true,
            "frame" if asleep => assert_ne!(event["for_guest"], true, "{event}: {}", proxy.log()),
            _ => asleep = false,
        }
    }

    // Its own record, with the proxy's ledger beside it.
    let own = record(&guest);
    let slept = own["resumed"].iter().map(|(_, it)| it["slept_s"].as_f64().unwrap());
    println!("slept, by its kernel: {:.1?}", slept.collect::<Vec<_>>());
    let (fell, woke) = (changes(&guest, "fell-asleep"), changes(&guest, "woke"));
    let ends = own["suspending"].iter().zip(&own["resumed"]).zip(fell.iter().zip(&woke));
    assert_eq!(ends.len(), cycles, "{own:#?}");
    for (((down, _), (up, _)), (fell, woke)) in ends {
        let (theirs, ours) = ((up - down) / 1000.0, (woke - fell) / 1000.0);
        println!("asleep for {theirs:.3} s by its own record, {ours:.3} s by the ledger");
        assert!((theirs - ours).abs() <= 1.0, "{}", proxy.log());
    }
    assert_eq!(proxy.status()["failures"], 0);
}
