//! Readers of one's own, from plans as people write them.

use std::time::Duration;

use nightwatt_workloads::custom::{JsonReader, RegexReader};
use nightwatt_workloads::{Output, ReadError};

use crate::{assert_figures, ms};

fn by_regex(plan: &str) -> Result<RegexReader, ReadError> {
    RegexReader::new(toml::from_str(plan).unwrap_or_else(|error| panic!("{error}")))
}

fn by_json(plan: &str) -> Result<JsonReader, ReadError> {
    JsonReader::new(toml::from_str(plan).unwrap_or_else(|error| panic!("{error}")))
}

fn why<T>(result: Result<T, ReadError>) -> String {
    result.map(|_| ()).unwrap_err().to_string()
}

const REPORT: &str = "working.. 10 pages\npage took 15 ms\npage took 20.5 ms\nworking.. 20 pages\n\
    done: 20 pages in 0.5 min, 1.5 MB/s, temperature -3.5\n";

#[test]
fn named_groups_become_figures() {
    let reader = by_regex(
        r#"
        patterns = ['done: (?<pages>\d+) pages in (?<time>[\d.]+) min, (?<rate>[\d.]+) MB/s, temperature (?<degrees>\S+)', 'took (?<took>[\d.]+) ms']
        main = "rate"
        figures.rate = { unit = "MB/s", better = "higher" }
        operations = { from = "pages", what = "pages" }
        duration = { from = "time", unit = "min" }
        responses = { from = "took", unit = "ms" }
        "#,
    )
    .unwrap();
    assert_eq!(reader.main(), Some("rate"));
    let outcome = reader.read(&Output::of(REPORT)).unwrap();
    assert_figures(&outcome, &[("rate", 1.5e6, "B/s"), ("degrees", -3.5, "1")]);
    let operations = outcome.operations.as_ref().unwrap();
    assert_eq!((operations.count, operations.what.as_ref()), (20, "pages"));
    assert_eq!(outcome.duration, Some(Duration::from_secs(30)));
    assert_eq!(outcome.responses, [Duration::from_millis(15), Duration::from_micros(20_500)]);
    assert!(outcome.warnings[0].starts_with("2 response times are listed of 20"));
    // Neither colours nor other ends of lines are in the way.
    let dressed = REPORT.replace("1.5", "\x1b[31m1.5\x1b[0m").replace('\n', "\r\n");
    assert_eq!(reader.read(&Output::of(&dressed)).unwrap(), outcome);
}

#[test]
fn a_unit_may_come_from_the_output() {
    let plan = r#"
        patterns = ['(?<rate>[\d.]+) (?<unit>\S+)$']
        figures.rate = { unit_from = "unit", better = "higher" }
        "#;
    let reader = by_regex(plan).unwrap();
    let rate = |text: &str| reader.read(&Output::of(text)).map(|it| it.figures[0].value);
    assert!((rate("942 Mbits/sec\n").unwrap() - 942e6).abs() < 1.0);
    assert!((rate("1.1 Gbits/sec\n").unwrap() - 1.1e9).abs() < 1.0);
    assert!(why(rate("7 knots\n")).contains("`knots`, which is no unit known"));
}

#[test]
fn several_matches_are_an_error_unless_the_plan_says_which() {
    let plan = r"patterns = ['(?<pages>\d+) pages$']";
    let error = why(by_regex(plan).unwrap().read(&Output::of(REPORT)));
    assert!(error.contains("matches 2 times") && error.contains("`take = \"last\"`"), "{error}");
    for (take, wanted) in [("first", 10.0), ("last", 20.0)] {
        let reader = by_regex(&format!("{plan}\ntake = \"{take}\"")).unwrap();
        assert_figures(&reader.read(&Output::of(REPORT)).unwrap(), &[("pages", wanted, "1")]);
    }
}

#[test]
fn errors_may_be_told_only_where_there_are_some() {
    let plan = r#"
        patterns = ['done: (?<pages>\d+)', 'errors: (?<errors>\d+)']
        operations = { from = "pages", what = "pages" }
        errors = { from = "errors", otherwise = 0 }
        "#;
    let read = |plan: &str, text: &str| by_regex(plan).unwrap().read(&Output::of(text));
    assert_eq!(read(plan, REPORT).unwrap().errors, 0);
    assert_eq!(read(plan, &format!("{REPORT}errors: 3\n")).unwrap().errors, 3);
    let strict = plan.replace(", otherwise = 0", "");
    assert!(why(read(&strict, REPORT)).contains("matches 0 times"));
    assert!(
        why(read(plan, &format!("{REPORT}errors: 3\nerrors: 4\n"))).contains("matches 2 times")
    );
    assert!(why(read(plan, "done: 0\n")).contains("no operation"));
}

#[test]
fn a_plan_that_cannot_work_is_refused_before_anything_runs() {
    for (plan, said) in [
        ("patterns = ['(?<a']", "cannot be used"),
        ("patterns = ['(?<a>.)', '(?<a>.)']", "two patterns have a group `a`"),
        (r"patterns = ['(\d+)']", "it reads nothing"),
        ("patterns = ['(?<a>.)']\nfigures.b = {}", "no pattern has a group `(?<b>..)`"),
        ("patterns = ['(?<a>.)(?<b>.)']", "say which of the figures"),
        ("patterns = ['(?<a>.)']\nmain = 'b'", "which is not one of the figures"),
        ("patterns = ['(?<a>.)']\nduration = { from = 'a', unit = 'eons' }", "no unit known"),
        ("patterns = ['(?<a>.)']\nfigures.a = { unit = 'KB/s' }", "may be 1000 or 1024"),
    ] {
        let error = why(by_regex(plan));
        assert!(error.contains(said), "{plan}: {error}");
    }
    for (plan, said) in [
        ("figures.a = {}", "has no pointer"),
        ("figures.a = { from = 'a/b' }", "begins with `/`: `/a/b`?"),
        ("", "it reads nothing"),
    ] {
        let error = why(by_json(plan));
        assert!(error.contains(said), "{plan}: {error}");
    }
}

#[test]
fn what_matches_and_is_no_number_is_an_error() {
    let reader = by_regex(
        r"patterns = ['rate (?<rate>\S+)(?<rest> x)?']
        main = 'rate'",
    )
    .unwrap();
    for text in ["rate nan\n", "rate inf\n", "rate 1,5\n", "rate 1e999\n", "rate -\n", "rate 5\n"] {
        assert!(why(reader.read(&Output::of(text))).contains("no finite number"), "{text}");
    }
    let error = why(reader.read(&Output::of("ready\n")));
    assert!(error.contains("matches 0 times") && error.contains("words are `ready`"), "{error}");
    assert!(why(reader.read(&Output::of(" \n"))).contains("it printed nothing"));
}

const JSON: &str = r#"starting
{"run": {"pages": 20, "seconds": "30", "rate/s": 0.7, "unit": "GB/s", "times": [1.5, 2]}, "bad": null}
bye
"#;

#[test]
fn pointers_into_json() {
    let reader = by_json(
        r#"
        main = "rate"
        figures.rate = { from = "/run/rate~1s", unit_from = "/run/unit", better = "higher" }
        figures.first = { from = "/run/times/0", unit = "frames" }
        operations = { from = "/run/pages", what = "pages" }
        duration = { from = "/run/seconds", unit = "s" }
        errors = { from = "/run/failed", otherwise = 0 }
        responses = { from = "/run/times", unit = "ms" }
        "#,
    )
    .unwrap();
    let outcome = reader.read(&Output::of(JSON)).unwrap();
    assert_figures(&outcome, &[("rate", 0.7e9, "B/s"), ("first", 1.5, "frames")]);
    assert_eq!(outcome.duration, Some(Duration::from_secs(30)));
    assert_eq!(outcome.responses, [ms(1.5), ms(2.0)].map(Duration::from_secs_f64));
    assert_eq!(outcome.errors, 0);
    assert_eq!(outcome.per_second(), Some(20.0 / 30.0));
    // The same in a file that it wrote.
    let output = Output { stdout: "done\n", stderr: "", files: &[JSON] };
    assert_eq!(reader.read(&output).unwrap(), outcome);
}

#[test]
fn an_optional_figure_that_a_run_does_not_have_is_left_out() {
    let plan = r#"
        main = "pages"
        figures.pages = { from = "/run/pages" }
        figures.absent = { from = "/run/wake_ups/mean", optional = true }
        figures.unknown = { from = "/bad", optional = true }
        figures.first = { from = "/run/times/0", optional = true }
        "#;
    let outcome = by_json(plan).unwrap().read(&Output::of(JSON)).unwrap();
    assert_figures(&outcome, &[("first", 1.5, "1"), ("pages", 20.0, "1")]);
    let strict = plan.replace("/mean\", optional = true", "/mean\"");
    assert!(why(by_json(&strict).unwrap().read(&Output::of(JSON))).contains("wake_ups"));
    // What is there and is no number is an error all the same.
    let wrong = plan.replace("/run/times/0", "/run/unit");
    assert!(why(by_json(&wrong).unwrap().read(&Output::of(JSON))).contains("no finite number"));
    let main = plan.replace("\"/run/pages\"", "\"/run/pages\", optional = true");
    assert!(why(by_json(&main)).contains("`pages` is the `main` figure"));
    let plan = "patterns = ['done: (?<pages>\\d+)', 'lost: (?<lost>\\d+)']\nmain = 'pages'";
    let read = |plan: &str| by_regex(plan).unwrap().read(&Output::of(REPORT));
    assert!(why(read(plan)).contains("matches 0 times"));
    let outcome = read(&format!("{plan}\nfigures.lost = {{ optional = true }}")).unwrap();
    assert_eq!(outcome.figures.len(), 1, "{outcome:?}");
}

#[test]
fn pointers_that_find_nothing_say_what_is_there() {
    let read = |from: &str, text: &str| {
        by_json(&format!("figures.a = {{ from = '{from}' }}")).unwrap().read(&Output::of(text))
    };
    let error = why(read("/run/page", JSON));
    assert!(
        error.contains("there is no `/run/page`: `/run` is an object with `/pages`"),
        "{error}"
    );
    assert!(why(read("/bad", JSON)).contains("`null` is no finite number"));
    assert!(why(read("/run/times", JSON)).contains("a list of 2"));
    assert!(why(read("/a", "{\"a\": 1")).contains("no JSON could be read"));
    assert!(why(read("/a", "nothing\n")).contains("no JSON in the output"));
}
