//! Pools of servers.

use serde_json::Value;

use crate::harness::{nightwatt, told};

#[test]
fn the_published_claims_are_set_beside_ours() {
    let output = nightwatt(&["fleet", "published", "--json", "--arrivals", "1000"]);
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    assert!(output.stderr.is_empty(), "no progress under --json: {}", told(&output));
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&said["schema"], &said["arrivals"]), (&1.into(), &1000.into()));
    let claims = said["claims"].as_array().unwrap();
    let ids: Vec<_> = claims.iter().map(|claim| claim["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["V1", "V2", "V3", "V4", "V5"]);
    // Ten Pis are not seven, however many requests are simulated.
    assert_eq!(claims[1]["verdict"], "differs");
    assert_eq!(claims[1]["figures"][2]["ours"], 10.0);
    assert_eq!(said["policies"].as_array().unwrap().len(), 160);

    let text = told(&nightwatt(&["fleet", "published", "--arrivals", "1000"]));
    for words in ["V2  differs", "published 275.0", "delayed-off 1m40s", "modelled"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let wrong = nightwatt(&["fleet", "published", "--arrivals", "10"]);
    assert_eq!(wrong.status.code(), Some(2), "{}", told(&wrong));
}
