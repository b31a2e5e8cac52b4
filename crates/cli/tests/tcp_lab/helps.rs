//! `nightwatt tcp helps` as it is.

use std::fs;

use rustix::process::Signal;
use serde_json::Value;

use super::{Rig, finished, number};

/// Pairs differ in nothing but the change, and what else a busy machine does is no CPU time of ours: there is
/// three times as much of it without the change. Where both means are known to a half, so is the direction: by five pairs,
/// and seven on a busy machine. One pair that something else disturbs leaves six without a verdict, so there may be more.
#[test]
fn joining_segments_takes_less_cpu_time_and_virtual_cards_refuse_to_coalesce_and_to_be_polled() {
    let Some(rig) = Rig::new() else { return };
    let page = rig.folder.path().join("helps.html");
    let (output, pid) = finished(rig.command(&[
        "tcp",
        "helps",
        "tso+gso+gro,coalescing,busy-poll",
        "--quick",
        "--longest",
        "1s",
        "--most",
        "16",
        "--precision",
        "0.5",
        "-m",
        "model",
        "--json",
        "--html",
        &page.display().to_string(),
    ]));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{}: {said}", output.status);
    rig.nothing_is_left(pid, "after its end");
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    let link = &result["links"][0];
    assert_eq!(link["changes"].as_array().unwrap().len(), 1);
    let change = &link["changes"][0];
    // Runs are as they say: frames of one segment without, larger ones with it.
    let without = number(change, "/figures/frames/without");
    assert!(without >= 10_000.0, "a frame for each segment at least: {without}");
    assert!(number(change, "/figures/frames/with") < 0.5 * without);
    for (place, on) in [(0, false), (1, true)] {
        for end in 0..2 {
            let features = &change["cards"][place][end]["features"];
            for feature in ["tso", "gso", "gro"] {
                assert_eq!(features[feature], on, "{features}");
            }
        }
    }
    let cpu = &change["figures"]["cpu"];
    // Sixteen at most: with fewer it ends where the interval is narrow enough. Each is of two runs.
    let pairs = number(cpu, "/pairs") as usize;
    assert!((3..=16).contains(&pairs), "{cpu}");
    assert_eq!(change["runs"].as_array().unwrap().len(), 2 * pairs, "{change}");
    assert!(number(cpu, "/high") < 0.0, "the direction, by its interval: {cpu}");
    assert_eq!(cpu["verdict"], "less", "{cpu}");
    assert_eq!(result["energy_is_modelled"], true, "never as if it were measured");
    let refused = &link["refused"][0];
    assert_eq!(refused["change"], "coalescing=50");
    let why = refused["refusals"][0]["why"].as_str().unwrap();
    assert!(why.starts_with("veth: ") && why.contains("not supported"), "{why}");
    let refused = &link["refused"][1];
    assert_eq!(refused["change"], "busy-poll=50");
    let why = refused["refusals"][0]["why"].as_str().unwrap();
    // Linux before 6.9 has no such epoll.
    assert!(why.contains("veth: what comes") || why.contains("--busy-poll"), "{why}");
    assert!(fs::read_to_string(&page).unwrap().contains("Saved by it: CPU of both sides"));

    let results = rig.folder.path().join("helps.json");
    fs::write(&results, &output.stdout).unwrap();
    let results = results.display().to_string();
    let (output, _) = finished(rig.command(&["reproduce", "B2", "--results", &results]));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    // Its lines are broken where they are full.
    let words: Vec<&str> = said.split_whitespace().collect();
    assert!(words.join(" ").contains("direction of their claim is seen"), "{said}");
}

#[test]
fn what_helps_nothing_that_is_known_is_refused_before_anything_is_made() {
    let Some(rig) = Rig::new() else { return };
    let (output, _) = finished(rig.command(&["tcp", "helps", "lro"]));
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("`lro`") && said.contains("tso, gso, gro"), "{said}");
}

#[test]
fn interrupted_or_killed_between_pairs_nothing_is_left() {
    let Some(rig) = Rig::new() else { return };
    let helps = || rig.command(&["tcp", "helps", "tso+gso+gro", "--quick", "-m", "model"]);
    rig.is_ended(helps(), Signal::INT);
    rig.is_ended(helps(), Signal::KILL);
}
