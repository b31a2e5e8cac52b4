//! Mining and the published claims, from the command line.

use serde_json::Value;

use crate::harness::{nightwatt, shared_data, told};

fn json(args: &[&str]) -> Value {
    let output = nightwatt(args);
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    assert!(output.stderr.is_empty(), "no progress under --json: {}", told(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn mining_without_options_gives_the_published_time_to_all_its_digits() {
    let output = nightwatt(&["mining"]);
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    // O'Dwyer 2017, section 6.2.1 (claim O8).
    assert!(told(&output).contains("7.16621792838594592768e14 s"), "{}", told(&output));
    assert_eq!(json(&["mining", "--json"])["expected_s"], "7.16621792838594592768e14");
}

#[test]
fn a_block_is_told_by_its_bits_and_a_device_pays_or_not() {
    // Block 838656: 6.25 BTC. At 70,000 each a day of 200 TH/s brings 14.1, by hand: 86400 x 2e14 /
    // 3.71036e23 x 6.25 x 70000 = 20.4 less 3.5 kW x 24 h x 0.10 = 8.4 is 12.0.
    let args = ["mining", "--json", "--bits", "17034219", "--height", "838656", "--price", "70000"];
    let said = json(&[&args[..], &["--device", "antminer s21"]].concat());
    let device = &said["devices"][0];
    let figure = |name: &str| device[name].as_f64().unwrap();
    assert!((figure("income_per_day") - 20.375).abs() < 0.01, "{device}");
    assert!((figure("profit_per_day") - 11.975).abs() < 0.01, "{device}");
    assert_eq!(device["profitable"], true);
    let even = figure("break_even_per_kwh").to_string();
    let at = |price: &str| {
        json(&[&args[..], &["--device", "antminer s21", "--price-kwh", price]].concat())
    };
    assert!(at(&even)["devices"][0]["profit_per_day"].as_f64().unwrap().abs() < 1e-6);
    assert_eq!(at("0.5")["devices"][0]["profitable"], false);
}

#[test]
fn a_history_becomes_a_page_with_five_charts() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (days, page) = (path("days.csv"), path("mining.html"));
    let text = "date,difficulty,price,fees,reward\n2016-04-01,1e11,400,0.5,25\n2016-04-02,1e11,410,0.5,25\n\
                2016-04-05,2e11,420,0.5,25\n";
    std::fs::write(&days, text).unwrap();
    let said = json(&["mining", "--json", "--history", &days, "--html", &page]);
    assert_eq!(said["gaps"][0]["days"], 2);
    assert_eq!((&said["day"], &said["difficulty"]), (&"2016-04-05".into(), &"200000000000".into()));
    let page = std::fs::read_to_string(page).unwrap();
    for chart in [
        "Difficulty",
        "Fees",
        "Exchange rate",
        "Cost of a coin against its price",
        "Power of the network",
    ] {
        assert!(page.contains(chart), "{chart}");
    }
    assert!(page.contains("nothing was made up"), "the gap is marked");
}

#[test]
fn nonsense_is_a_usage_error_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let bad = folder.path().join("bad.csv").display().to_string();
    std::fs::write(&bad, "date,price\n2016-04-01,NaN\n").unwrap();
    for (args, words) in [
        (&["--difficulty", "0"][..], "difficulty 0"),
        (&["--difficulty", "NaN"], "`NaN`"),
        (&["--difficulty", "-5"], "`-5`"),
        (&["--price-kwh", "-0.1"], "not be negative"),
        (&["--price", "nan"], "not below 0"),
        (&["--coin", "goldcoin"], "litecoin"),
        (&["--coin", "litecoin"], "the published example is bitcoin's"),
        (&["--bits", "1d80ffff"], "negative"),
        (&["--bits", "nothex"], "eight hexadecimal"),
        (&["--hash-rate", "0"], "never finds a block"),
        (&["--device", "abacus"], "--devices FILE"),
        (&["--date", "2016-04-01"], "--history"),
        (&["--history", &bad], "line 2 of"),
        (&["--history", "/nonexistent.csv"], "cannot read"),
        (&["--currency", "\u{1b}[2J"], "code"),
    ] {
        let output = nightwatt(&[&["mining"], args].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", told(&output));
        assert!(told(&output).contains(words), "{args:?}: {}", told(&output));
        assert!(output.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn a_report_that_cannot_be_written_takes_no_result_away() {
    for args in [&["mining"][..], &["reproduce", "O8"]] {
        let output = nightwatt(&[args, &["--html", "/nonexistent/page.html"]].concat());
        assert_eq!(output.status.code(), Some(1), "{}", told(&output));
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains("7.16621792838594592768e14"), "{said}");
        assert!(told(&output).contains("cannot write /nonexistent/page.html"), "{}", told(&output));
    }
}

#[test]
fn the_whole_real_history_keeps_the_rules() {
    let Some(data) = shared_data() else { return };
    let file = |name: &str| data.join("bitcoin").join(name).display().to_string();
    let (days, epochs) = (file("daily_2009_2020-07.csv"), file("difficulty_per_2016_blocks.csv"));
    let said = json(&["mining", "--json", "--history", &days, "--history", &epochs]);
    let rules = &said["rules"];
    assert_eq!(rules["difficulties"], rules["epochs"]);
    assert_eq!(rules["outside"], Value::Array(Vec::new()));
    assert!(said["years"].as_array().unwrap().len() >= 16);
}

#[test]
fn claims_are_answered_with_their_figures() {
    let said = json(&["reproduce", "--json", "O8", "O9", "B1"]);
    let verdicts: Vec<_> = said["claims"]
        .as_array()
        .unwrap()
        .iter()
        .map(|claim| (claim["id"].as_str().unwrap(), claim["verdict"].as_str().unwrap()))
        .collect();
    assert_eq!(verdicts, [("O8", "agrees"), ("O9", "differs"), ("B1", "not-checkable")]);
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("claims.html");
    let output = nightwatt(&["reproduce", "o10", "--html", &page.display().to_string()]);
    assert_eq!(
        output.status.code(),
        Some(0),
        "that a claim differs is no failure: {}",
        told(&output)
    );
    assert!(std::fs::read_to_string(page).unwrap().contains("O10: differs"));
    let both = json(&["reproduce", "--json", "o8,O1"]);
    assert_eq!(both["claims"].as_array().unwrap().len(), 2);
    // By hand: half a unit in the last digit of 4.09.
    assert_eq!(both["claims"][0]["figures"][0]["accepted"], serde_json::json!([4.085, 4.095]));
    let unknown = nightwatt(&["reproduce", "Z1"]);
    assert_eq!(unknown.status.code(), Some(2), "{}", told(&unknown));
    assert!(told(&unknown).contains("there is no claim `Z1`"), "{}", told(&unknown));
}
