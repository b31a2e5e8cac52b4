//! What tools print, of any bytes: whatever is read has finite figures and operations, and errors can
//! be told. The first byte says where it is printed.

use std::sync::LazyLock;

use nightwatt_workloads::custom::{
    Count, JsonPlan, JsonReader, Operation, Quantity, RegexPlan, RegexReader, Take, Value,
};
use nightwatt_workloads::{Better, Outcome, Output, ReadError, TOOLS};

static REGEX: LazyLock<RegexReader> = LazyLock::new(|| {
    let plan = RegexPlan {
        patterns: vec![
            r"(?<number>[-+.,\w]+)\s*(?<unit>[A-Za-z/]+)".to_owned(),
            r"(?<count>\d+) ".to_owned(),
            r"=(?<time>\S*)".to_owned(),
        ],
        take: Take::Last,
        figures: [("a".to_owned(), quantity("number", Some("unit")))].into(),
        main: None,
        operations: Some(operation("count")),
        duration: Some(value("time")),
        errors: None,
        responses: Some(value("time")),
    };
    RegexReader::new(plan).expect("ours")
});

static JSON: LazyLock<JsonReader> = LazyLock::new(|| {
    let plan = JsonPlan {
        figures: [("a".to_owned(), quantity("/0", None))].into(),
        main: None,
        operations: Some(operation("/1")),
        duration: Some(value("/2")),
        errors: Some(Count { from: "/3".to_owned(), otherwise: Some(0) }),
        responses: Some(value("/4")),
    };
    JsonReader::new(plan).expect("ours")
});

fn quantity(from: &str, unit_from: Option<&str>) -> Quantity {
    let unit_from = unit_from.map(str::to_owned);
    Quantity {
        from: Some(from.to_owned()),
        unit: None,
        unit_from,
        better: Better::Neither,
        optional: false,
    }
}

fn operation(from: &str) -> Operation {
    Operation { from: from.to_owned(), what: "things".to_owned() }
}

fn value(from: &str) -> Value {
    Value { from: from.to_owned(), unit: "ms".to_owned() }
}

fn check(read: Result<Outcome, ReadError>) {
    match read {
        Ok(outcome) => {
            assert!(outcome.figures.iter().all(|figure| figure.value.is_finite()));
            assert!(outcome.operations.as_ref().is_none_or(|it| it.count > 0));
            let _ = outcome.per_second();
            let _ = outcome.answered_within(std::time::Duration::from_secs(10));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Runs the target on one input.
pub fn run(input: &[u8]) {
    let Some((&place, bytes)) = input.split_first() else { return };
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let files = [text];
    let output = match place % 3 {
        0 => Output::of(text),
        1 => Output { stdout: "", stderr: text, files: &[] },
        _ => Output { stdout: text, stderr: "", files: &files },
    };
    for tool in TOOLS {
        check(tool.read(&output));
    }
    check(REGEX.read(&output));
    check(JSON.read(&output));
    // A plan is a person's, and may be anything as well.
    let plan = RegexPlan { patterns: vec![text.to_owned()], ..RegexPlan::default() };
    if let Ok(reader) = RegexReader::new(plan) {
        check(reader.read(&output));
    }
}
