//! `nightwatt analyze`: its figures on a log that can be reckoned by hand, what it writes, whom it
//! names, and what it says when it cannot.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;
use tempfile::TempDir;

use crate::harness::{nightwatt, shared_data, told};

/// Three visitors: at 0 s, 100 s and 1,000 s.
pub(crate) const THREE: &str = r#"198.51.100.7 - - [04/Mar/2024:12:00:00 +0000] "GET /a HTTP/1.1" 200 500 "-" "Mozilla/5.0 (X11) Firefox/115.0"
198.51.100.8 - - [04/Mar/2024:12:01:40 +0000] "GET /b?name=jane HTTP/1.1" 200 500 "-" "Mozilla/5.0 (X11) Firefox/115.0"
198.51.100.9 - - [04/Mar/2024:12:16:40 +0000] "GET /c HTTP/1.1" 200 500 "-" "Mozilla/5.0 (X11) Firefox/115.0"
"#;

/// Nothing but the time-out keeps the server awake, and nothing but the server answers.
pub(crate) const BARE: &str = r#"policy = "timeout 10s"
[server]
on_w = 40.0
off_w = 2.0
switch_j = 100.0
wake_time = "5s"
sleep_time = "5s"
min_on = "0"
quiet = "0"
[proxy]
power_w = 5.0
[sla]
enabled = false
[cache]
ttl = "0"
grace_asleep = "0"
warm_up = 0
"#;

pub(crate) struct Desk(TempDir);

impl Desk {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        fs::write(self.path(name), text).expect("the file is written");
        self.path(name)
    }

    /// What is said, without the folder's name.
    pub(crate) fn said(&self, args: &[&str]) -> String {
        let output = nightwatt(&[&["analyze"], args].concat());
        told(&output).replace(&self.0.path().display().to_string(), "DIR")
    }
}

pub(crate) fn json(args: &[&str]) -> Value {
    let output = nightwatt(&[&["analyze", "--json"], args].concat());
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

#[test]
fn a_scenario_with_its_header_is_that_of_a_configuration_without_the_rest() {
    let desk = Desk::new();
    let headed = format!("[scenario]\n{}", BARE.replace('[', "[scenario."));
    let (log, headed) = (desk.write("a.log", THREE), desk.write("headed.toml", headed));
    let bare = desk.write("bare.toml", BARE);
    let [with, without] = [headed, bare].map(|file| json(&[&log, "--scenario", &file]));
    assert_eq!(with["scenario"], without["scenario"]);
    assert_eq!(with["policies"], without["policies"]);
    let wrong = desk.write("wrong.toml", "[scenario.server]\non_w = -4\n");
    let said = desk.said(&[&log, "--scenario", &wrong]);
    assert!(said.contains("wrong.toml:2:1: `scenario.server.on_w`"), "{said}");
    let unknown = desk.write("unknown.toml", "[scenario.server]\nwatts = 4\n");
    let said = desk.said(&[&log, "--scenario", &unknown]);
    assert!(said.contains("unknown.toml is not a scenario\nDIR/unknown.toml:2:1"), "{said}");
}

#[test]
fn three_requests_come_to_what_one_reckons_by_hand() {
    let desk = Desk::new();
    let (log, bare) = (desk.write("a.log", THREE), desk.write("bare.toml", BARE));
    let analysis = json(&[&log, "--scenario", &bare]);
    let own = &analysis["policies"]["timeout 10s"];
    // Asleep from 10 s until woken at 105 s, and from 115 s on; the last second logged is 1,001 s,
    // in which the second wake-up is still under way. 20 s awake, 981 s asleep, two sleeps:
    // 40 x 20 + 2 x 981 + 2 x 100 + 5 x 1,001 = 7,967 J, of 40 x 1,001.
    let near = |value: &Value, expected: f64| {
        let value = value.as_f64().unwrap();
        assert!((value - expected).abs() < 1e-6, "{value} is not {expected}");
    };
    near(&own["energy_j"], 7967.0);
    near(&analysis["always_on_j"], 40_040.0);
    near(&own["saving"], 1.0 - 7967.0 / 40_040.0);
    assert_eq!((&own["delayed_requests"], &own["admitted"]), (&2.into(), &3.into()));
    assert_eq!((&own["delayed_visits"], &own["visits"]), (&2.into(), &3.into()));
    assert_eq!(analysis["span_s"], 1001.0);
    assert_eq!(analysis["year"], Value::Null, "less than a day says nothing of a year");
    // In both gaps, of 100 s and 900 s, it may sleep: 1,000 x (2 + 5) + 2 x 100.
    near(&analysis["ideal"]["60"]["all"], 7200.0);
    let text = desk.said(&[&log, "--scenario", &bare, "--show-addresses"]);
    insta::assert_snapshot!("analyze_three", text);
    for said in ["3 lines: 3 requests in 16.7 minutes", "2 of 3 visits would have waited 5 s"] {
        assert!(text.replace('\n', " ").contains(said), "{said}: {text}");
    }
}

/// Two pages, a search, and a path where nothing is.
const FIVE: &str = r#"198.51.100.7 - - [04/Mar/2024:12:00:00 +0000] "GET /a HTTP/1.1" 200 500 "-" "Mozilla/5.0 (X11) Firefox/115.0"
198.51.100.8 - - [04/Mar/2024:12:01:40 +0000] "GET /a HTTP/1.1" 200 500 "-" "Mozilla/5.0 (X11) Firefox/115.0"
198.51.100.9 - - [04/Mar/2024:12:16:40 +0000] "GET /b HTTP/1.1" 200 500 "-" "Mozilla/5.0 (X11) Firefox/115.0"
198.51.100.10 - - [04/Mar/2024:12:33:20 +0000] "GET /find?q=x HTTP/1.1" 200 500 "-" "Mozilla/5.0 (X11) Firefox/115.0"
198.51.100.11 - - [04/Mar/2024:12:50:00 +0000] "GET /c HTTP/1.1" 404 500 "-" "Mozilla/5.0 (X11) Firefox/115.0"
"#;

#[test]
fn a_mirror_spares_the_wake_ups_that_one_reckons_by_hand() {
    let desk = Desk::new();
    let (log, bare) = (desk.write("a.log", FIVE), desk.write("bare.toml", BARE));
    let analysis = json(&[&log, "--scenario", &bare]);
    let mirror = &analysis["mirror"];
    // Awake for 10 s at the start and after each request that wakes it; in the last second, 3,000 to 3,001 s, it
    // is still waking for `/c`, unless it is known that nothing is there. 5 W x 3,001 s of the proxy.
    let joules = |awake: f64, sleeps: f64| {
        40.0 * awake + 2.0 * (3001.0 - awake) + 100.0 * sleeps + 5.0 * 3001.0
    };
    for (run, energy, delayed, from_copies) in [
        (&analysis["policies"]["timeout 10s"], joules(40.0, 4.0), 4, 0),
        (&mirror["remembered"], joules(30.0, 3.0), 3, 1),
        (&mirror["crawled"], joules(20.0, 2.0), 2, 2),
        (&mirror["complete"], joules(20.0, 2.0), 1, 3),
    ] {
        let energy_j = run["energy_j"].as_f64().unwrap();
        assert!((energy_j - energy).abs() < 1e-6, "{energy_j} is not {energy}");
        assert_eq!((&run["delayed_requests"], &run["admitted"]), (&delayed.into(), &5.into()));
        assert_eq!(run["from_copies"], from_copies);
    }
    let limit = mirror["limit"]["energy_j"].as_f64().unwrap();
    assert!(limit < mirror["complete"]["energy_j"].as_f64().unwrap(), "{limit}");
    assert_eq!(analysis["without_sla"], Value::Null, "there is no SLA");
    let text = desk.said(&[&log, "--scenario", &bare, "--show-addresses"]);
    insta::assert_snapshot!("analyze_mirror", text);
}

#[test]
fn json_has_the_keys_that_programs_rely_on() {
    let desk = Desk::new();
    let analysis = json(&[&desk.write("a.log", THREE)]);
    for key in [
        "lines",
        "malformed",
        "bad_requests",
        "span_s",
        "requests",
        "crawler_share",
        "cache_share",
        "gaps",
        "ideal",
        "default_policy",
        "policies",
        "costs",
        "suspects",
        "wakers",
        "warnings",
        "holes",
    ] {
        assert!(!analysis[key].is_null(), "{key}");
    }
    assert_eq!(analysis["schema"], 1);
    for key in ["default", "grace"] {
        assert!(analysis["cache_share"][key].is_number(), "{key}");
    }
    let own = &analysis["policies"][analysis["default_policy"].as_str().unwrap()];
    for key in [
        "energy_j",
        "saving",
        "wakeups_per_day",
        "delayed_requests",
        "delayed_visits",
        "oracle_share",
    ] {
        for run in [own, &analysis["mirror"]["remembered"], &analysis["mirror"]["crawled"]] {
            assert!(run[key].is_number(), "{key}");
        }
    }
    for key in own.as_object().unwrap().keys() {
        for run in ["remembered", "crawled", "complete"] {
            assert!(analysis["mirror"][run].get(key).is_some(), "{key} of {run}");
        }
        assert!(analysis["without_sla"].get(key).is_some(), "{key}");
    }
    for price in ["0", "1000", "5000", "20000", "50000"] {
        for policy in ["learned", "window", "best_fixed", "oracle"] {
            assert!(analysis["costs"][price][policy].is_number(), "{policy} at {price}");
        }
    }
    let ideal = analysis["ideal"].as_object().unwrap();
    assert_eq!(ideal.len(), 61, "thresholds from 0 to 60 s");
}

/// What a page says and shows, scripts and styles left out.
fn shown(page: &str) -> String {
    let mut shown = String::new();
    let mut rest = page;
    while let Some(start) = rest.find("<script") {
        shown.push_str(&rest[..start]);
        rest = rest[start..].split_once("</script>").map_or("", |(_, after)| after);
    }
    shown + rest
}

#[test]
fn the_page_has_every_part_and_loads_nothing() {
    let desk = Desk::new();
    let (log, page) = (desk.write("a.log", THREE), desk.path("report.html"));
    let said = desk.said(&[&log, "--html", &page]);
    assert!(said.starts_with("exit status: 0"), "{said}");
    let page = shown(&fs::read_to_string(&page).unwrap());
    for part in [
        "In short",
        "Policies",
        "Who wakes the server",
        "Gaps, and what they are worth",
        "Hours",
        "Clients",
        "Answers",
        "The log",
        "What was taken for granted",
        "Today, with a mirror, and the oracle",
        "Saving against delayed visits",
        "Energy with perfect knowledge",
        "Modelled",
        "Assumed",
        "Counted",
        "best fixed",
        "electricity.price_per_kwh",
        "always on",
        "Requests per hour of the week",
        "Statuses",
    ] {
        assert!(page.contains(part), "{part}");
    }
    for attribute in ["src=\"", "href=\""] {
        for (at, _) in page.match_indices(attribute) {
            let value = &page[at + attribute.len()..];
            assert!(value.starts_with('#') || value.starts_with("data:"), "{}", &value[..40]);
        }
    }
    assert!(!page.contains("@import") && !page.contains("http-equiv=\"refresh\""));
}

/// Fields of a record of RFC 4180 without line breaks in fields.
fn fields(record: &str) -> usize {
    let mut quoted = false;
    let commas = record.chars().filter(|&c| {
        quoted ^= c == '"';
        c == ',' && !quoted
    });
    commas.count() + 1
}

#[test]
fn every_table_is_a_file_whose_rows_have_the_columns_of_its_heading() {
    let desk = Desk::new();
    let (log, folder) = (desk.write("a.log", THREE), desk.path("new/tables"));
    let said = desk.said(&[&log, "--csv", &folder]);
    assert!(said.starts_with("exit status: 0"), "{said}");
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let records: Vec<&str> = text.split_terminator("\r\n").collect();
        for record in &records {
            assert_eq!(fields(record), fields(records[0]), "{}: {record}", path.display());
        }
        names.insert(path.file_stem().unwrap().to_str().unwrap().to_owned());
    }
    // Spreadsheets link to these names: a new one may come, none may go.
    for name in
        "summary mirror policies frontier costs wakers-urls wakers-clients wakers-classes ideal gaps \
         gap-histogram hours-of-day hours-of-week classes crawlers suspects sizes methods statuses \
         logs holes bad-requests malformed assumptions"
            .split_whitespace()
    {
        assert!(names.contains(name), "{name}");
    }
    let policies = fs::read_to_string(Path::new(&folder).join("policies.csv")).unwrap();
    assert!(policies.starts_with("policy,saving [%],energy [kWh],± [kWh],"), "{policies}");
}

/// Everything that `analyze` says of a log, in all forms.
fn everything(desk: &Desk, log: &str, options: &[&str]) -> String {
    let (page, folder) = (desk.path("all.html"), desk.path("all"));
    let mut all = desk.said(&[&[log, "--html", &page, "--csv", &folder], options].concat());
    assert!(all.starts_with("exit status: 0"), "{all}");
    all.push_str(&json(&[&[log], options].concat()).to_string());
    all.push_str(&fs::read_to_string(&page).unwrap());
    for entry in fs::read_dir(&folder).unwrap() {
        all.push_str(&fs::read_to_string(entry.unwrap().path()).unwrap());
    }
    all
}

#[test]
fn no_address_user_or_query_is_told_unless_asked_for() {
    let desk = Desk::new();
    let mut random = ChaCha8Rng::seed_from_u64(4);
    let (mut log, mut clients) = (String::new(), Vec::new());
    for number in 0..400_u32 {
        let mut byte = || random.random_range(1..=254_u8);
        let client = format!("{}.{}.{}.{}", byte(), byte(), byte(), byte());
        let (hour, minute) = (number / 60, number % 60);
        let time = format!("[04/Mar/2024:{hour:02}:{minute:02}:00 +0000]");
        let rest = match number % 4 {
            0 => format!(
                "{time} \"GET /p{number}?secret=jane{number} HTTP/1.1\" 200 5 \"-\" \"Mozilla/5.0 (X11)\""
            ),
            1 => format!(
                "{time} \"GET /whois/{client} HTTP/1.1\" 200 5 \"-\" \"Mozilla/5.0 ({client})\""
            ),
            2 => format!("{time} \"-\" 400 0 \"-\" \"-\""),
            _ => format!("no time at all for {client}, /x?secret=jane"),
        };
        let _ = writeln!(log, "{client} - jane {rest}");
        clients.push(client);
    }
    let log = desk.write("a.log", log);
    let hidden = everything(&desk, &log, &["--no-sla"]);
    for client in &clients {
        assert!(!hidden.contains(client.as_str()), "{client} is told");
    }
    assert!(!hidden.contains("jane"), "users and queries are left out");
    assert!(hidden.contains("client-") && hidden.contains("?…"));
    let shown = everything(&desk, &log, &["--no-sla", "--show-addresses"]);
    assert!(clients.iter().any(|client| shown.contains(client.as_str())));
    assert!(shown.contains("secret=jane"));
}

#[test]
fn of_the_march_log_no_address_is_told() {
    let Some(data) = shared_data() else { return };
    let desk = Desk::new();
    let log = data.join("logs/yuvi_in_nginx_2012-03.log.gz").display().to_string();
    let all = everything(&desk, &log, &[]);
    // Whatever has the form of an address is the network of a label; what it names ends with 0.
    let is_part = |c: char| c.is_ascii_digit() || c == '.';
    for word in all.split(|c| !is_part(c)) {
        let Ok(address) = word.trim_matches('.').parse::<std::net::Ipv4Addr>() else { continue };
        assert_eq!(address.octets()[3], 0, "{word}");
    }
}

#[test]
fn whatever_goes_wrong_is_said_with_what_to_do() {
    let desk = Desk::new();
    let log = desk.write("a.log", THREE);
    let missing = desk.said(&[&log, &desk.path("none.log")]);
    assert!(missing.contains("3 lines: 3 requests"), "the other is analysed: {missing}");
    assert!(missing.contains("warning: cannot open log DIR/none.log"), "{missing}");
    insta::assert_snapshot!("analyze_no_log", desk.said(&[&desk.path("none.log")]));
    insta::assert_snapshot!("analyze_empty_log", desk.said(&[&desk.write("empty.log", "")]));
    let garbage: Vec<u8> = (0..4096_u32).map(|it| (it * 197 % 251) as u8).collect();
    let said = desk.said(&[&desk.write("garbage.log", garbage)]);
    assert!(said.starts_with("exit status: 1") && said.contains("is not text"), "{said}");
    insta::assert_snapshot!("analyze_bad_format", desk.said(&[&log, "--format", "common-lisp"]));
    let nowhere = desk.path("no/such/folder/r.html");
    insta::assert_snapshot!("analyze_bad_html", desk.said(&[&log, "--html", &nowhere]));
    insta::assert_snapshot!("analyze_bad_csv", desk.said(&[&log, "--csv", &log]));
}

#[test]
fn a_report_never_takes_the_place_of_its_log() {
    let desk = Desk::new();
    let log = desk.write("a.log", THREE);
    insta::assert_snapshot!("analyze_html_is_log", desk.said(&[&log, "--html", &log]));
    assert_eq!(fs::read_to_string(&log).unwrap(), THREE);
}

#[test]
fn an_earlier_report_outlives_a_failed_analysis() {
    let desk = Desk::new();
    let (old, new) = (desk.write("old.html", "old"), desk.path("new.html"));
    let none = desk.path("none.log");
    for page in [&old, &new] {
        assert!(desk.said(&[&none, "--html", page]).starts_with("exit status: 2"));
    }
    assert_eq!(fs::read_to_string(&old).unwrap(), "old");
    assert!(!Path::new(&new).exists(), "no empty report is left behind");
}
