//! `nightwatt caliper --sample` on a program that knows what it does.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::harness::{can_probe, nightwatt, told};

/// So far from the mean a normal variable lies once in 10^6, on either side.
const ONCE_IN_A_MILLION: f64 = 4.9;

/// The program, with frame pointers, built for one test.
struct Bench(TempDir);

impl Bench {
    /// `None` if sampling is not allowed.
    fn new() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: only root may sample what everybody does");
            return None;
        }
        let bench = Self(tempfile::tempdir().unwrap());
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../probes/tests/programs/sections.c");
        let arguments = ["-O1", "-fno-omit-frame-pointer", "-pthread", source, "-o"];
        let built = Command::new("cc").args(arguments).arg(bench.path()).status();
        assert!(built.unwrap().success());
        Some(bench)
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("sections")
    }

    /// `PROGRAM:function`.
    fn at(&self, function: &str) -> String {
        format!("{}:{function}", self.path().display())
    }

    /// The report on a run of it.
    fn report(&self, options: &[&str], arguments: &[&str]) -> Value {
        let out = self.0.path().join("report.json");
        let (out_name, path) = (out.display().to_string(), self.path().display().to_string());
        let before = ["caliper", "--json", "-o", &out_name];
        let output = nightwatt(&[&before, options, &["--", &path], arguments].concat());
        assert!(output.status.success(), "{}", told(&output));
        serde_json::from_str(&fs::read_to_string(out).unwrap()).unwrap()
    }
}

fn figure(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("no {key} in {value}"))
}

/// A function's row.
fn row<'a>(report: &'a Value, name: &str) -> &'a Value {
    let rows = report["functions"].as_array().unwrap();
    rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("no {name}: {report}"))
}

/// Is what is `share` of `all` by other means found so by so many samples, as far as chance allows?
fn is_share(found: f64, samples: f64, share: f64) -> bool {
    println!("{found} found, {share} expected, {samples} samples");
    (found - share).abs() < ONCE_IN_A_MILLION * (share * (1.0 - share) / samples).sqrt()
}

#[test]
fn samples_find_what_probes_find() {
    if !can_probe() {
        return;
    }
    let Some(bench) = Bench::new() else { return };
    let (heavy, light) = (bench.at("heavy"), bench.at("light"));
    let functions = ["-f", &heavy, "-f", &light];
    let probed = bench.report(&functions, &["threads", "20"]);
    let sampled = bench.report(&[&["--sample"], &functions[..]].concat(), &["threads", "20"]);
    assert_eq!(
        (&sampled["method"], &sampled["functions"].as_array().unwrap().len()),
        (&"sampled".into(), &2)
    );
    let by_probes = |section: usize| figure(&probed["sections"][section], "on_cpu_s");
    let expected = by_probes(0) / (by_probes(0) + by_probes(1));
    let of = |function: &str, key: &str| figure(row(&sampled, function), key);
    let seen = of("heavy", "samples") + of("light", "samples");
    assert!(seen > 500.0, "{seen}");
    assert!(is_share(of("heavy", "samples") / seen, seen, expected));
    // So it is with energy. What a watt is worth changes little while this runs.
    let joules = |function: &str, key: &str| figure(&row(&sampled, function)["energy"][0], key);
    let found = joules("heavy", "joules") / (joules("heavy", "joules") + joules("light", "joules"));
    assert!((found - expected).abs() < 0.1, "{found} of {expected}");
    for function in ["heavy", "light"] {
        let bounds = joules(function, "low_j")..=joules(function, "high_j");
        assert!(bounds.contains(&joules(function, "joules")), "{function}: {bounds:?}");
    }
    // Wilson's interval is about 4 sqrt(p (1 - p) / n) wide.
    let counts = &sampled["samples"];
    let busy = figure(counts, "watched") + figure(counts, "others");
    let share = of("heavy", "samples") / busy;
    let wide = joules("heavy", "high_j") - joules("heavy", "low_j");
    let wide = wide / joules("heavy", "joules") * share;
    let expected = 4.0 * (share * (1.0 - share) / busy).sqrt();
    assert!(wide > 0.5 * expected && wide < 2.0 * expected, "{wide} {expected}");
}

#[test]
fn without_functions_the_profile_is_of_all_and_adds_up() {
    let Some(bench) = Bench::new() else { return };
    let folded = bench.0.path().join("folded").display().to_string();
    let report = bench.report(&["--sample=1999", "--folded", &folded], &["nested", "200"]);
    assert!((figure(&report, "period_s") - 1.0 / 1999.0).abs() < 1e-6);
    let channel = &report["channels"][0];
    let rows = report["functions"].as_array().unwrap();
    // Each sample is in one function alone.
    let alone: f64 = rows.iter().map(|row| figure(&row["energy"][0], "self_j")).sum();
    let expected = figure(channel, "sections_j");
    assert!((alone - expected).abs() < 1e-9 * expected, "{alone} of {expected} J");
    let parts = ["sections_j", "outside_j", "others_j", "idle_j"].map(|key| figure(channel, key));
    let (parts, joules) = (parts.iter().sum::<f64>(), figure(channel, "joules"));
    assert!((parts - joules).abs() < 1e-9 * joules, "{parts} of {joules} J");
    // The program calls everything, and stands in the kernel for most of it.
    let (outer, light) = (row(&report, "outer"), row(&report, "light"));
    let samples = figure(outer, "samples");
    assert!(is_share(figure(light, "samples") / samples, samples, 1.0 / 3.0));
    assert!(figure(row(&report, "main"), "samples") >= samples);
    assert!(rows.iter().any(|row| row["file"] == "[kernel]"), "{report}");
    let counts = &report["samples"];
    assert!(figure(counts, "whole_stacks") > 0.9 * figure(counts, "watched"), "{counts}");
    let text = fs::read_to_string(folded).unwrap();
    assert!(text.lines().any(|line| line.contains(";main;outer;light;")), "{text}");
    let sum: f64 =
        text.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()).sum();
    let expected = 1e6 * (expected + figure(channel, "outside_j"));
    // Each line is rounded to a microjoule.
    assert!((sum - expected).abs() < text.lines().count() as f64, "{sum} of {expected} uJ");
}

#[test]
fn what_samples_cannot_tell_is_refused_with_what_helps() {
    let Some(bench) = Bench::new() else { return };
    let path = bench.path().display().to_string();
    let (heavy, light) = (bench.at("heavy"), bench.at("light"));
    let inside = bench.at("0x10");
    for (options, says, helps) in [
        (vec!["--start", &heavy, "--end", &light], "samples show functions", "`--function`"),
        (vec!["-f", &inside], "in no function", "not stripped"),
    ] {
        let output = nightwatt(&[&["caliper", "--sample"], &options[..], &["--", &path]].concat());
        assert_eq!(output.status.code(), Some(125), "{}", told(&output));
        assert!(told(&output).contains(says) && told(&output).contains(helps), "{}", told(&output));
    }
    let output = nightwatt(&["caliper", "--sample=0", "--", &path]);
    assert_eq!(output.status.code(), Some(2), "{}", told(&output));
}

#[test]
fn a_sampled_table_says_that_it_is_one() {
    let Some(bench) = Bench::new() else { return };
    // Long enough for many samples.
    let script = format!("{} nested 100; exit 3", bench.path().display());
    let output = nightwatt(&["caliper", "--sample", "--", "sh", "-c", &script]);
    assert_eq!(output.status.code(), Some(3), "{}", told(&output));
    let text = told(&output);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("sampled: ") && words.contains("95 % of"), "{text}");
    assert!(words.contains("samplings"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.contains("the command ended with exit status 3"), "{text}");
}
