//! Pools of servers.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::harness::{NIGHTWATT, nightwatt, shared_data, told};

fn json(args: &[&str]) -> Value {
    let output = nightwatt(args);
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    let silent = said.lines().all(|line| line.starts_with("warning: "));
    assert!(silent, "no progress under --json: {}", told(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The plan that the documentation shows.
fn example() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples/fleet.toml");
    path.display().to_string()
}

#[test]
fn the_plan_of_the_documentation_is_simulated_and_written_in_every_form() {
    let folder = tempfile::tempdir().unwrap();
    let (page, tables) = (folder.path().join("f.html"), folder.path().join("tables"));
    let (html, csv) = (page.display().to_string(), tables.display().to_string());
    let short = ["--requests", "1000", "--replications", "2"];
    let plan = example();
    let args = [&["fleet", &plan, "--json", "--html", &html, "--csv", &csv][..], &short].concat();
    let said = json(&args);
    assert_eq!((&said["schema"], &said["provenance"]), (&1.into(), &"modelled".into()));
    let rows = said["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2 * 5 * (1 + 1 + 10 + 5));
    assert_eq!(rows.iter().filter(|row| row["cheapest"] == true).count(), 2 * 5);
    let page = std::fs::read_to_string(page).unwrap();
    for chart in ["Pareto front", "tower server, 50 ms", "Energy against transitions"] {
        assert!(page.contains(chart), "{chart}");
    }
    let table = std::fs::read_to_string(tables.join("policies.csv")).unwrap();
    assert_eq!(table.lines().count(), 1 + rows.len());
    assert!(tables.join("servers.csv").exists() && tables.join("response-times.csv").exists());
    let text = told(&nightwatt(&[&["fleet", &plan][..], &short].concat()));
    for words in [
        "always-on 10",
        "is the cheapest in 2 of 10 cases",
        "Raspberry Pi; poisson at 300.0 requests/s",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn the_number_of_processors_does_not_change_the_result() {
    let plan = example();
    let args = ["fleet", &plan, "--json", "--requests", "500", "--replications", "2"];
    let all = nightwatt(&args);
    let bound = Command::new("taskset").args(["-c", "0", NIGHTWATT]).args(args).output();
    match bound {
        Ok(bound) if bound.status.success() => assert_eq!(all.stdout, bound.stdout),
        _ => println!("skipped: there is no taskset"),
    }
}

#[test]
fn one_kind_of_server_needs_no_plan() {
    let said = json(&[
        "fleet",
        "--rate",
        "300,600",
        "--servers",
        "8",
        "--policy",
        "always-on 2..3",
        "--policy",
        "predictive",
        "--requests",
        "2000",
        "--json",
        "--switch-on",
        "0",
    ]);
    let policies: Vec<_> = said["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["policy"].as_str().unwrap())
        .collect();
    assert_eq!(policies, ["always-on 2", "always-on 3", "predictive"].repeat(2));
    let wrong = nightwatt(&["fleet", "--rate", "300", "--policy", "sometimes"]);
    assert_eq!(wrong.status.code(), Some(2), "{}", told(&wrong));
    assert!(told(&wrong).contains("`sometimes` is not a fleet policy"), "{}", told(&wrong));
    let nothing = nightwatt(&["fleet"]);
    assert_eq!(nothing.status.code(), Some(2), "{}", told(&nothing));
    assert!(told(&nothing).contains("nothing arrives"), "{}", told(&nothing));
}

#[test]
fn a_mistake_in_a_plan_is_shown_where_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plan.toml");
    let good = std::fs::read_to_string(example()).unwrap();
    std::fs::write(&path, good.replace("\"baseline\"", "\"base line\"")).unwrap();
    let wrong = nightwatt(&["fleet", &path.display().to_string()]);
    let said = told(&wrong);
    assert_eq!(wrong.status.code(), Some(2), "{said}");
    assert!(said.contains("plan.toml:12:3: `base line` is not a fleet policy"), "{said}");
}

#[test]
fn what_would_be_ignored_is_refused_with_what_to_do() {
    let plan = example();
    let said = |args: &[&str]| {
        let output = nightwatt(&[&["fleet"], args].concat());
        assert_eq!(output.status.code(), Some(2), "{}", told(&output));
        told(&output)
    };
    let beside = [
        ["--rate", "300", "rates"],
        ["--servers", "5", "servers"],
        ["--policy", "baseline", "policies"],
        ["--service-rate", "5", "service_rate"],
        ["--service", "exponential", "service"],
        ["--off", "1", "off_w"],
        ["--idle", "1", "idle_w"],
        ["--busy", "1", "busy_w"],
        ["--switch-j", "1", "switch_j"],
        ["--switch-on", "1s", "switch_on"],
        ["--answer-within", "1s", "sla"],
        ["--refused", "0.5", "refused"],
        ["--transition-price", "1", "transition_price_j"],
        ["--line", "1", "line"],
        ["--copies", "2", "copies"],
        ["--days", "2", "days"],
    ];
    for [option, value, key] in beside {
        let said = said(&[&plan, option, value]);
        assert!(said.contains(&format!("`{option}` beside a plan would be ignored")), "{said}");
        assert!(said.contains(&format!("hint: write `{key}` into ")), "{said}");
    }
    let both = said(&["size", &plan, "--plan", &plan, "--answer-within", "1s", "--idle", "1"]);
    assert!(both.contains("`--idle`, `--answer-within` beside a plan"), "{both}");

    let folder = tempfile::tempdir().unwrap();
    let counts = folder.path().join("counts");
    std::fs::write(&counts, "3 ".repeat(100)).unwrap();
    let counts = counts.display().to_string();
    let whole = said(&["--log", &counts, "--requests", "50"]);
    assert!(whole.contains("`--requests` does not apply: a log is played whole"), "{whole}");
    assert!(whole.contains("`--days N`"), "{whole}");
    let no_log = said(&["--rate", "300", "--copies", "2"]);
    assert!(no_log.contains("`--copies` needs a log, and none is given"), "{no_log}");
    for option in ["--replications", "--requests"] {
        let none = said(&["--rate", "300", option, "0"]);
        assert!(none.contains(option) && none.contains("0 is not in 1.."), "{none}");
    }
}

#[test]
fn a_wrong_value_is_told_by_the_option_that_it_came_from() {
    for (option, value, why) in [
        ("--rate", "300,600,300", "the rate 300 is there twice"),
        ("--refused", "2", "a share lies between 0 and 1"),
        ("--idle", "NaN", "watts and joules are 0 or more"),
        ("--switch-j", "inf", "watts and joules are 0 or more"),
        ("--transition-price", "inf", "a price is 0 or more"),
        ("--servers", "0", "choose 1 to 100000"),
        ("--policy", "sometimes", "`sometimes` is not a fleet policy"),
        ("--service", "empirical /no/such/file", "cannot read /no/such/file"),
    ] {
        let rate: &[&str] = if option == "--rate" { &[] } else { &["--rate", "300"] };
        let output = nightwatt(&[&["fleet", option, value], rate].concat());
        let said = told(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(&format!("error: `{option}`: {why}")), "{option}: {said}");
        assert!(!said.contains("server.0") && !said.contains("arrivals.0"), "{said}");
    }
    // If no server can respond in time, the cause may be either option.
    let late = told(&nightwatt(&["fleet", "--rate", "300", "--answer-within", "1ms"]));
    assert!(late.contains("`--answer-within`, `--service-rate`: a response within 1ms"), "{late}");
}

#[test]
fn a_service_rate_is_fitted_to_points_of_a_file_and_of_options() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("points.csv");
    std::fs::write(&file, "rate,response [ms]\n0,10\n50,15\n").unwrap();
    let file = file.display().to_string();
    let said = json(&["fleet", "fit", &file, "--answer-within", "25ms", "--json"]);
    let rate = said["service_rate"].as_f64().unwrap();
    assert!((rate - 100.0).abs() < 1e-3, "{rate}");
    assert_eq!((&said["sla"]["places"], &said["schema"]), (&2.into(), &1.into()));
    let args = ["fleet", "fit", "--point", "200=10ms", "--answer-within", "10ms"];
    let text = told(&nightwatt(&args));
    for words in ["service rate 261.8/s", "at most 2 at a time", "warning: one point"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let old = told(&nightwatt(&["fleet", "fit", "--point", "200=10ms", "--sla", "10ms"]));
    assert!(old.contains("note: `--sla` of `fleet` is now `--answer-within`"), "{old}");
    assert!(old.contains("at most 2 at a time"), "{old}");
    std::fs::write(&file, "200,10\n").unwrap();
    let wrong = nightwatt(&["fleet", "fit", &file]);
    assert_eq!(wrong.status.code(), Some(2), "{}", told(&wrong));
    assert!(told(&wrong).contains("line 1 has a time without a unit"), "{}", told(&wrong));
}

#[test]
fn a_pool_is_sized_for_a_log() {
    let folder = tempfile::tempdir().unwrap();
    let counts = folder.path().join("counts");
    // Half an hour of 10 requests a second and half an hour of none, four times.
    let hour = ["10 ".repeat(1800), "0 ".repeat(1800)].concat();
    std::fs::write(&counts, hour.repeat(4)).unwrap();
    let counts = counts.display().to_string();
    let size = ["fleet", "size", &counts, "--answer-within", "500ms"];
    let args = [&size[..], &["--service-rate", "4", "--switch-on", "1s"]].concat();
    let said = json(&[&args[..], &["--json"]].concat());
    let kind = &said["kinds"][0];
    // 10 a second fill two and a half of them, each with two places.
    let servers = kind["servers"].as_u64().unwrap();
    assert!((3..=8).contains(&servers), "{kind}");
    assert!(kind["refused_all_on"].as_f64().unwrap() <= 0.005, "{kind}");
    assert!(kind["refused"].as_f64().unwrap() <= 0.01, "{kind}");
    let (ours, all_on) = (&kind["kwh_per_year"], &kind["kwh_per_year_all_on"]);
    assert!(ours.as_f64().unwrap() < 0.8 * all_on.as_f64().unwrap(), "{kind}");
    let text = told(&nightwatt(&args));
    assert!(text.contains("Take 4 servers, switched by") && text.contains("EUR"), "{text}");
    let flowing = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let assumes = "which assumes 1.8 W idle and 2.2 W busy (not measured)";
    assert!(flowing.contains(assumes), "{text}");
    assert!(text.contains("warning: 4.0 hours are little to extrapolate a year from"), "{text}");
    // The first requests come while the servers start, so that any policy refuses some of them.
    let hopeless = nightwatt(&[&args[..], &["--refused", "0"]].concat());
    let said = told(&hopeless);
    assert_eq!(hopeless.status.code(), Some(0), "{said}");
    assert!(
        said.contains("No policy that was tried keeps what is refused or late at 0 %: "),
        "{said}"
    );
    assert!(said.contains("none keeps the limit") && !said.contains("Take "), "{said}");
    let said = json(&[&args[..], &["--refused", "0", "--json"]].concat());
    let kind = &said["kinds"][0];
    assert_eq!((&kind["policy"], &kind["refused_all_on"]), (&Value::Null, &0.0.into()), "{kind}");
    let rows = said["simulated"]["rows"].as_array().unwrap();
    assert!(rows.iter().all(|row| row["refused"]["mean"].as_f64() > Some(0.0)), "{rows:?}");
    // 4/s each: 16,384 of them answer 65,536 a second.
    std::fs::write(&counts, "100000 100000").unwrap();
    let hopeless = nightwatt(&args);
    let said = told(&hopeless);
    assert_eq!(hopeless.status.code(), Some(1), "{said}");
    assert!(
        said.contains("even 16384 of server refuse") && said.contains("hint: take faster"),
        "{said}"
    );
    if let Some(data) = shared_data() {
        let nasa = data.join("logs/nasa_requests_per_second.txt.gz").display().to_string();
        let said =
            json(&["fleet", "size", &nasa, "--days", "1", "--json", "--service-rate", "100"]);
        assert_eq!(said["requests"], 64_715, "the first day of July 1995");
    }
}

/// Every other line is cut off: the pool is sized for the rest, and the skipped lines are counted with the first of them.
#[test]
fn lines_that_a_pool_was_not_sized_for_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("access.log").display().to_string();
    let line = |second: u32| {
        let time = format!("10/Nov/2022:00:{:02}:{:02} +0000", second / 60, second % 60);
        format!("203.0.113.9 - - [{time}] \"GET / HTTP/1.1\" 200 1 \"-\" \"curl/8.5\"\n")
    };
    let text: String = (0..600).map(|second| line(second) + "203.0.113.9 - - [cut\n").collect();
    std::fs::write(&log, text).unwrap();
    let args = ["fleet", "size", &log, "--answer-within", "500ms", "--service-rate", "4"];
    for form in [&[][..], &["--json"]] {
        let output = nightwatt(&[&args[..], form].concat());
        assert_eq!(output.status.code(), Some(0), "{}", told(&output));
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("600 of 1200 lines could not be read and were skipped"), "{said}");
        assert!(said.contains("line 2 of") && said.contains("203.0.113.9 - - [cut"), "{said}");
    }
}

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
    for words in ["V2: differs", "275 (272.25 to 277.75)", "delayed-off 1m40s", "modelled"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let wrong = nightwatt(&["fleet", "published", "--arrivals", "10"]);
    assert_eq!(wrong.status.code(), Some(2), "{}", told(&wrong));
}
