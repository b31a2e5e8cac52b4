//! `nightwatt analyze` on logs that are odd in some way, and at prices that differ by hour.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::analyze::{BARE, Desk, THREE, json};
use crate::harness::{nightwatt, shared_data, told};

/// Monday, 2024-03-04 00:00 UTC.
const MONDAY: i64 = 1_709_510_400;

/// A line of the moment, written in local time.
fn line(at: i64, utc_offset: i64, target: &str) -> String {
    let local = logged_time(at + utc_offset);
    let zone =
        format!("{}{:02}00", if utc_offset < 0 { '-' } else { '+' }, utc_offset.abs() / 3600);
    format!(
        "198.51.100.7 - - [{local} {zone}] \"GET {target} HTTP/1.1\" 200 500 \"-\" \"Mozilla/5.0 (X11) \
         Firefox/115.0\"\n"
    )
}

/// `04/Mar/2024:12:00:00`, by the calendar of 2022 to 2026.
fn logged_time(at: i64) -> String {
    const MONTHS: [(&str, i64); 12] = [
        ("Jan", 31),
        ("Feb", 28),
        ("Mar", 31),
        ("Apr", 30),
        ("May", 31),
        ("Jun", 30),
        ("Jul", 31),
        ("Aug", 31),
        ("Sep", 30),
        ("Oct", 31),
        ("Nov", 30),
        ("Dec", 31),
    ];
    // 2022-01-01 was day 18,993.
    let (mut day, mut year) = (at.div_euclid(86_400) - 18_993, 2022);
    while day >= 365 + i64::from(year == 2024) {
        day -= 365 + i64::from(year == 2024);
        year += 1;
    }
    let mut month = 0;
    while day >= MONTHS[month].1 + i64::from(year == 2024 && month == 1) {
        day -= MONTHS[month].1 + i64::from(year == 2024 && month == 1);
        month += 1;
    }
    let second = at.rem_euclid(86_400);
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!("{:02}/{}/{year}:{hour:02}:{minute:02}:{:02}", day + 1, MONTHS[month].0, second % 60)
}

#[test]
fn a_hole_of_two_years_is_told_in_every_form() {
    let desk = Desk::new();
    let two_years = 730 * 86_400;
    let hours = |from: i64| (0..72).map(move |hour| line(from + hour * 3600, 0, "/a"));
    let log: String = hours(MONDAY - two_years).chain(hours(MONDAY)).collect();
    let log = desk.write("a.log", log);
    let analysis = json(&[&log]);
    let after = (MONDAY - two_years + 71 * 3600) * 1000;
    assert_eq!(analysis["holes"].as_array().unwrap().len(), 1);
    let hole = &analysis["holes"][0];
    assert_eq!((&hole["after"], &hole["before"]), (&after.into(), &(MONDAY * 1000).into()));
    assert_eq!(hole["length_s"], ((two_years - 71 * 3600) as f64));
    let told = "the log has a hole: 727.0 days after 2022-03-07 23:00 UTC, 99 % of its span";
    assert!(analysis["warnings"][0].as_str().unwrap().starts_with(told), "{analysis}");
    let (page, folder) = (desk.path("a.html"), desk.path("csv"));
    let said = desk.said(&[&log, "--html", &page, "--csv", &folder]);
    assert!(said.contains(&format!("warning: {told}")), "{said}");
    assert!(said.contains("`--days 2` ends before the first hole"), "{said}");
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains(told) && page.contains("Holes: pauses that are absurd"));
    let table = fs::read_to_string(PathBuf::from(folder).join("holes.csv")).unwrap();
    assert!(table.ends_with("2022-03-07 23:00,2024-03-04 00:00,62816400\r\n"), "{table}");
}

/// A request an hour for three days from Monday on.
fn three_days() -> String {
    (0..72).map(|hour| line(MONDAY + hour * 3600, 0, "/a")).collect()
}

#[test]
fn a_line_of_another_century_is_left_out_and_named() {
    let desk = Desk::new();
    let plain = json(&[&desk.write("plain.log", three_days())]);
    let far = line(MONDAY, 0, "/a").replace("/2024:", "/2199:");
    let log = desk.write("a.log", three_days() + &far);
    let odd = json(&[&log]);
    assert_eq!((&odd["requests"], &odd["outside"]), (&72.into(), &1.into()));
    for key in ["from", "span_s", "hours", "policies", "holes"] {
        assert_eq!(odd[key], plain[key], "{key}");
    }
    let said = desk.said(&[&log]);
    let told = "warning: 1 line more than a year from all others is left out, as if the date were wrong \
                (2199-03-04 00:00 UTC)";
    assert!(said.contains(told), "{said}");
    // All of the log is later than now.
    let late = desk.write("late.log", three_days().replace("/2024:", "/2199:"));
    let said = desk.said(&[&late]);
    assert!(said.contains("the last request is of 2199-03-06 23:00 UTC, which is later"), "{said}");
    assert!(!desk.said(&[&desk.path("plain.log")]).contains("later than now"));
}

#[test]
fn the_time_and_the_sla_are_chosen_on_the_command_line() {
    let desk = Desk::new();
    let log = desk.write("a.log", three_days());
    let tuesday = json(&[&log, "--from", "2024-03-05", "--until", "2024-03-06T00:00"]);
    assert_eq!((&tuesday["requests"], &tuesday["outside"]), (&24.into(), &48.into()));
    assert_eq!(tuesday["from"], (MONDAY + 86_400) * 1000);
    let sla = |text: &str| json(&[&log, "--sla", text])["scenario"]["sla"].clone();
    assert_eq!((&sla("3")["visits_per_day"], &sla("3")["enabled"]), (&3.into(), &true.into()));
    assert_eq!(sla("1m30s")["longest_wait"], "1m30s");
    assert_eq!(sla("any")["enabled"], false);
    assert_eq!(sla("tenth")["share"], 0.1);
    for (args, why) in [
        (["--from", "2024-03-06", "--until", "2024-03-05"], "there is no time between `--from`"),
        (["--from", "yesterday", "--days", "1"], "`yesterday` is not a date: write 2026-03-01"),
        (["--sla", "100%", "--days", "1"], "`100%` is not an answer: write visits a day (3)"),
    ] {
        let said = desk.said(&[&[&*log][..], &args[..]].concat());
        assert!(said.starts_with("exit status: 2") && said.contains(why), "{said}");
    }
    let said = desk.said(&[&log, "--until", "2024-03-01"]);
    assert!(said.contains("0 without one, 72 of another time"), "{said}");
}

#[test]
fn a_log_that_is_given_twice_or_has_no_line_is_named() {
    let desk = Desk::new();
    let (log, blank) = (desk.write("a.log", three_days()), desk.write("blank.log", "\n\n"));
    let said = desk.said(&[&log, &log]);
    assert!(said.contains("warning: two logs seem to be the same"), "{said}");
    assert!(said.contains("144 lines: 144 requests"), "{said}");
    let said = desk.said(&[&blank]);
    assert!(said.starts_with("exit status: 1"), "{said}");
    assert!(said.contains("blank.log holds no request: all its lines are empty"), "{said}");
    assert!(said.contains("name an access log") && !said.contains("--log-format"), "{said}");
}

#[test]
fn no_real_log_has_a_hole() {
    let Some(data) = shared_data() else { return };
    for log in
        ["yuvi_in_nginx_2012-03", "erddap_nginx_2024", "secrepo_2018-12-15", "elastic_apache_2015"]
    {
        let path = data.join(format!("logs/{log}.log.gz")).display().to_string();
        let analysis = json(&[&path]);
        assert_eq!(analysis["holes"], Value::Array(Vec::new()), "{log}");
    }
}

#[test]
fn hours_are_those_that_stand_in_the_lines_when_clocks_change() {
    let desk = Desk::new();
    // In Berlin clocks went back on Sunday, 2023-10-29; a visitor comes at half past noon each day,
    // two weeks before and two weeks after.
    let change = 1_698_541_200;
    let noon = |day: i64| {
        let utc_offset = if day < 14 { 7200 } else { 3600 };
        let midnight = (change + 7200) / 86_400 * 86_400 + (day - 14) * 86_400;
        line(midnight + 45_000 - utc_offset, utc_offset, &format!("/{day}"))
    };
    let analysis = json(&[&desk.write("a.log", (0..28).map(noon).collect::<String>())]);
    let hours = &analysis["hours"];
    for hour in 0..24 {
        let mean = hours["of_day"][hour]["mean"].as_f64().unwrap();
        let expected = f64::from(u8::from(hour == 12));
        assert!((mean - expected).abs() < 1e-12, "{hour}: {mean}");
    }
    for hour in 0..168 {
        let busy = hours["of_week"][hour]["mean"].as_f64().unwrap() > 0.0;
        assert_eq!(busy, hour % 24 == 12, "{hour}");
    }
}

#[test]
fn odd_lines_change_nothing_but_their_counts() {
    let desk = Desk::new();
    let bare = desk.write("bare.toml", BARE);
    let plain = json(&[&desk.write("plain.log", THREE), "--scenario", &bare]);
    let lines: Vec<&str> = THREE.lines().collect();
    let unsorted = format!("{}\n{}\n{}\n", lines[2], lines[0], lines[1]);
    let long = format!("{}\n{THREE}", "x".repeat(1 << 20));
    let rubbish = format!("one\n\ntwo {{}}\n{THREE}");
    for (name, log, malformed, behind) in
        [("unsorted", unsorted, 0, 1), ("long", long, 1, 0), ("rubbish", rubbish, 3, 0)]
    {
        let odd = json(&[&desk.write(name, log), "--scenario", &bare]);
        for key in ["requests", "span_s", "hours", "gaps", "policies", "costs"] {
            assert_eq!(odd[key], plain[key], "{name}: {key}");
        }
        assert_eq!((&odd["malformed"], &odd["unsorted"]), (&malformed.into(), &behind.into()));
    }
}

#[test]
fn one_line_is_a_second_of_which_little_can_be_said() {
    let desk = Desk::new();
    let one = json(&[&desk.write("one.log", line(MONDAY, 0, "/a").trim_end())]);
    assert_eq!(
        (&one["lines"], &one["requests"], &one["span_s"]),
        (&1.into(), &1.into(), &1.0.into())
    );
    assert_eq!((&one["year"], &one["holes"]), (&Value::Null, &Value::Array(Vec::new())));
    for sequence in ["all", "without_crawlers", "behind_cache", "both"] {
        assert_eq!(one["ideal"]["5"][sequence], Value::Null, "one request has no gap");
    }
    for (name, policy) in one["policies"].as_object().unwrap() {
        let unknown = [&policy["delayed_share_after_first_day"], &policy["oracle_share"]];
        assert_eq!(unknown, [&Value::Null; 2], "{name}: one day, in which nothing can be saved");
    }
    let (page, folder) = (desk.path("one.html"), desk.path("csv"));
    let said = desk.said(&[&desk.path("one.log"), "--html", &page, "--csv", &folder]);
    assert!(said.starts_with("exit status: 0") && !said.contains("NaN"), "{said}");
    assert!(said.contains("\n1 line: 1 request in "), "{said}");
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("1 line: 1 request in "), "{page}");
    let ideal = fs::read_to_string(PathBuf::from(folder).join("ideal.csv")).unwrap();
    assert!(ideal.contains("\r\n5,,,,,43.3\r\n"), "{ideal}");
}

#[test]
fn a_byte_order_mark_costs_no_line() {
    let desk = Desk::new();
    let marked = json(&[&desk.write("a.log", format!("\u{feff}{THREE}"))]);
    let counts = ["lines", "requests", "malformed"].map(|key| marked[key].as_u64());
    assert_eq!(counts, [3, 3, 0].map(Some));
}

#[test]
fn reports_of_one_log_are_equal_as_text_with_addresses() {
    let desk = Desk::new();
    let log: String =
        (0..3_000).map(|n| line(MONDAY + n * 61, 0, &format!("/{}", n * n % 40))).collect();
    let log = desk.write("a.log", log);
    let run =
        |options: &[&str]| nightwatt(&[&["analyze", "--json", &log], options].concat()).stdout;
    assert_eq!(run(&["--show-addresses"]), run(&["--show-addresses"]));
    assert_ne!(run(&[]), run(&[]), "labels are drawn anew");
}

#[test]
fn what_is_likely_wrong_is_named() {
    let desk = Desk::new();
    let log = desk.write("a.log", THREE);
    let folder = PathBuf::from(&log).parent().unwrap().display().to_string();
    for command in ["analyze", "published"] {
        let said = |args: &[&str]| told(&nightwatt(&[&[command], args].concat()));
        let of_folder = said(&[&format!("{folder}/")]);
        let wanted =
            format!("log {folder} is a folder: name the logs in it, as in `{folder}/*.log`");
        assert!(of_folder.contains(&wanted), "{of_folder}");
        let of_wrong = said(&[&log, "--format", "caddy"]);
        assert!(of_wrong.contains("3 lines, 3 malformed"), "{of_wrong}");
        assert!(of_wrong.contains("hint: `--format` is the likely cause"), "{of_wrong}");
        let one = said(&[&desk.write("one", "rubbish\n"), "--format", "combined"]);
        assert!(one.contains("holds no request: 1 line, 1 malformed"), "{one}");
        assert!(!one.contains("--log`"), "there is no such option here: {one}");
        // Some lines can be read: that is not said of all.
        let json = r#"{"ts":1709510400.0,"request":{"remote_ip":"198.51.100.7","method":"GET","uri":"/","proto":"HTTP/1.1","headers":{}},"status":200,"size":5}"#;
        let mixed = desk.write("mixed.log", format!("{}{json}\n", THREE.repeat(10)));
        let warned = said(&[&mixed, "--format", "caddy"]);
        let wanted = "30 of 31 lines are not in the format `caddy`: `--format` is the likely cause";
        assert!(warned.contains(wanted), "{warned}");
        assert!(!said(&[&mixed]).contains("--format"), "told by its lines");
    }
}

/// A visitor comes every four seconds from midnight to six, on two days; nothing else uses energy.
fn nights() -> (String, String) {
    let mut log = String::new();
    for day in 0..2 {
        for at in (0..6 * 3600).step_by(4) {
            log.push_str(&line(MONDAY + day * 86_400 + at, 0, &format!("/{at}")));
        }
    }
    let bare = BARE
        .replace("off_w = 2.0", "off_w = 0.0")
        .replace("switch_j = 100.0", "switch_j = 0.0")
        .replace("power_w = 5.0", "power_w = 0.0");
    (log, bare)
}

fn scenario(bare: &str, prices: &str) -> String {
    let mut scenario = bare.to_owned();
    let _ = write!(scenario, "[electricity]\nprice_per_kwh = {prices}\n");
    scenario
}

#[test]
fn who_is_awake_in_cheap_hours_only_pays_the_cheap_price() {
    let desk = Desk::new();
    let (log, bare) = nights();
    let log = desk.write("a.log", log);
    let list: Vec<&str> = (0..24).map(|hour| if hour < 7 { "0.1" } else { "0.5" }).collect();
    let prices = desk.write("s.toml", scenario(&bare, &format!("[{}]", list.join(", "))));
    let analysis = json(&[&log, "--scenario", &prices]);
    let near = |value: &Value, expected: f64| {
        let value = value.as_f64().unwrap();
        assert!((value - expected).abs() < 1e-9, "{value} is not {expected}");
    };
    let own = &analysis["policies"]["timeout 10s"];
    let kwh = own["energy_j"].as_f64().unwrap() / 3.6e6;
    // Twelve hours at 40 W and some seconds of time-out.
    assert!((kwh - 0.48).abs() < 0.001, "{kwh}");
    near(&own["bill"], 0.1 * kwh);
    // 7 + 6 hours of 40 W at 0.1 and 17 at 0.5, less the last three seconds.
    let always_on = 0.04 * (0.1 * (13.0 - 3.0 / 3600.0) + 0.5 * 17.0);
    near(&analysis["always_on_bill"], always_on);
    near(&analysis["policies"]["always-on"]["bill"], always_on);
    // A policy that knows the future is awake then too.
    let oracle = &analysis["oracle"];
    near(&oracle["bill"], 0.1 * oracle["energy_j"].as_f64().unwrap() / 3.6e6);
    let year = &analysis["year"];
    let worth = (always_on - 0.1 * kwh) * year["factor"].as_f64().unwrap();
    near(&year["saved_cost"], worth);

    // All forms say so.
    let (page, folder) = (desk.path("a.html"), desk.path("csv"));
    let said = desk.said(&[&log, "--scenario", &prices, "--html", &page, "--csv", &folder]);
    assert!(worth > 10.0, "{worth} is shown without cents");
    let worth = format!("{worth:.0}");
    let row = said.lines().find(|row| row.starts_with("  timeout 10s (yours)")).unwrap();
    assert!(row.split_whitespace().any(|figure| figure == worth), "{worth}: {row}");
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("0.1 to 0.5 by hour of the day EUR/kWh"), "{said}");
    assert!(said.contains(&format!("{worth} EUR a year")), "{worth}: {said}");
    assert!(!said.contains("the mean of these prices"), "{said}");
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains(&worth) && page.contains("counts at the price of that hour"));
    let table = fs::read_to_string(PathBuf::from(folder).join("policies.csv")).unwrap();
    let row = table.lines().find(|row| row.starts_with("timeout 10s (yours)")).unwrap();
    let told: f64 = row.rsplit(',').next().unwrap().parse().unwrap();
    assert!((told - year["saved_cost"].as_f64().unwrap()).abs() < 1e-9, "{row}");
}

#[test]
fn one_price_168_times_is_that_price() {
    let desk = Desk::new();
    let (log, bare) = nights();
    let log = desk.write("a.log", log);
    let flat = desk.write("flat.toml", scenario(&bare, "0.3"));
    let list = desk.write("list.toml", scenario(&bare, &format!("{:?}", [0.3; 168])));
    let (flat, list) = (json(&[&log, "--scenario", &flat]), json(&[&log, "--scenario", &list]));
    for key in ["policies", "oracle", "always_on_bill", "year"] {
        assert_eq!(flat[key], list[key], "{key}");
    }
    assert!(flat["policies"]["timeout 10s"]["bill"].as_f64() > Some(0.0));
}
