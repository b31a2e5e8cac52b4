//! Outputs that are dressed, damaged, or nothing of the kind.

use nightwatt_workloads::custom::{
    Count, JsonPlan, JsonReader, Operation, Quantity, RegexPlan, RegexReader, Take, Value,
};
use nightwatt_workloads::{Outcome, Output, TOOLS, tool};
use proptest::prelude::*;

use crate::{Kept, testdata};

/// Every output that is kept, with the tool that made it.
fn all() -> Vec<(&'static str, String, Kept)> {
    let mut all = Vec::new();
    for tool in TOOLS {
        let folder = match tool.name {
            "bonnie++" => "bonnie".to_owned(),
            name => name.replace('-', "_"),
        };
        let Ok(entries) = std::fs::read_dir(testdata().join(&folder)) else { continue };
        let files = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> =
            files.map(|file| file.rsplit_once('.').unwrap().0.to_owned()).collect();
        names.sort();
        names.dedup();
        for name in names {
            let name = format!("{folder}/{name}");
            all.push((tool.name, name.clone(), Kept::of(&name)));
        }
    }
    assert!(all.len() > 60, "only {} outputs are kept", all.len());
    all
}

/// The same of all parts of an output.
fn changed(kept: &Kept, change: impl Fn(&str) -> String) -> Kept {
    Kept {
        stdout: change(&kept.stdout),
        stderr: change(&kept.stderr),
        files: kept.files.iter().map(|file| change(file)).collect(),
    }
}

#[test]
fn every_tool_has_a_name_a_line_and_an_example_of_its_own() {
    for (index, one) in TOOLS.iter().enumerate() {
        assert!(TOOLS[..index].iter().all(|other| other.name != one.name), "{}", one.name);
        let texts = [one.name, one.about, one.example, one.main];
        assert!(texts.iter().all(|text| !text.is_empty() && !text.contains('\n')), "{}", one.name);
    }
    let error = tool("ab").unwrap_err().to_string();
    assert!(error.contains("`pgbench`, `sysbench`"), "{error}");
}

#[test]
fn what_can_be_read_has_its_main_figure_or_says_why_not() {
    for (tool, name, kept) in all() {
        let Ok(outcome) = kept.read(tool) else { continue };
        let main = nightwatt_workloads::tool(tool).unwrap().main;
        assert!(outcome.figure(main).is_some() || !outcome.warnings.is_empty(), "{name}");
        let is_tidy = |name: &str| {
            name.bytes().all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'_')
        };
        assert!(outcome.figures.iter().all(|figure| is_tidy(&figure.name)), "{name}");
    }
}

#[test]
fn colours_and_other_ends_of_lines_change_nothing() {
    for (tool, name, kept) in all() {
        let Ok(plain) = kept.read(tool) else { continue };
        let other = changed(&kept, |text| text.replace('\n', "\r\n"));
        assert_eq!(other.read(tool).unwrap(), plain, "{name} with CRLF");
        let coloured = changed(&kept, |text| {
            text.replace(". ", ".\x1b[1;31m ").replace('\n', "\x1b[0m\n\x1b[K")
        });
        assert_eq!(coloured.read(tool).unwrap(), plain, "{name} in colour");
    }
}

#[test]
fn errors_in_the_output_change_nothing() {
    for (tool, name, kept) in all() {
        let Ok(plain) = kept.read(tool) else { continue };
        for stdout in
            [format!("{}{}", kept.stderr, kept.stdout), format!("{}{}", kept.stdout, kept.stderr)]
        {
            // As with `2>&1`. (What has no end at its last line, as oha's JSON, is all that there is.)
            let merged = Kept { stdout, stderr: String::new(), files: kept.files.clone() };
            assert_eq!(merged.read(tool).unwrap(), plain, "{name}");
        }
    }
}

#[test]
fn two_reports_in_one_output_are_refused() {
    for (tool, name, kept) in all() {
        if kept.read(tool).is_err() {
            continue;
        }
        let twice = changed(&kept, |text| format!("{text}\n{text}"));
        match (tool, twice.read(tool)) {
            // `-x` makes several lines, and a warning says so; and nothing twice is nothing.
            ("bonnie++", Ok(outcome)) => assert!(outcome.warnings.len() > 1, "{name}"),
            ("idle", result) => assert!(result.is_ok(), "{name}"),
            (_, Err(error)) => {
                assert!(error.to_string().contains("several reports"), "{name}: {error}");
            }
            (_, Ok(outcome)) => panic!("{name}: {outcome:?}"),
        }
    }
}

#[test]
fn decimal_commas_are_no_other_numbers() {
    for (tool, name, kept) in all() {
        let Ok(plain) = kept.read(tool) else { continue };
        let commas = changed(&kept, |text| {
            let mut signs: Vec<char> = text.chars().collect();
            for at in 1..signs.len().saturating_sub(1) {
                if signs[at] == '.'
                    && signs[at - 1].is_ascii_digit()
                    && signs[at + 1].is_ascii_digit()
                {
                    signs[at] = ',';
                }
            }
            signs.into_iter().collect()
        });
        // Only what has no fractions can be read then.
        if let Ok(outcome) = commas.read(tool) {
            assert_same(&outcome, &plain, 0.0, &format!("{name} with commas"));
        }
    }
}

/// Whatever the part says, the whole says too.
fn assert_same(part: &Outcome, whole: &Outcome, tolerance: f64, name: &str) {
    for figure in &part.figures {
        let Some(value) = whole.figure(&figure.name) else {
            panic!("{name}: there is no {} in the whole", figure.name)
        };
        let is_same = (figure.value - value).abs() <= tolerance * value.abs();
        assert!(is_same, "{name}: {} is {} and not {value}", figure.name, figure.value);
    }
    assert_eq!(part.operations, whole.operations, "{name}");
    assert_eq!(part.duration, whole.duration, "{name}");
    assert_eq!(part.errors, whole.errors, "{name}");
    let common = part.percentiles.iter().zip(&whole.percentiles);
    assert!(common.into_iter().all(|(one, other)| one == other), "{name}");
}

#[test]
fn an_output_that_was_cut_off_says_nothing_wrong() {
    for (tool, name, kept) in all() {
        let Ok(whole) = kept.read(tool) else { continue };
        // The table is rounded, and its CSV is not.
        let tolerance = if tool == "bonnie++" { 0.02 } else { 0.0 };
        for text in ["stdout", "stderr", "files"] {
            let full = match text {
                "stdout" => &kept.stdout,
                "stderr" => &kept.stderr,
                _ => match kept.files.first() {
                    Some(file) if tool == "stress-ng" => file,
                    _ => continue,
                },
            };
            // All of it for short ones; large JSON in steps.
            for end in (0..full.len()).step_by(1 + full.len() / 3000) {
                let Some(cut) = full.get(..end).map(str::to_owned) else { continue };
                let mut part = kept.clone();
                match text {
                    "stdout" => part.stdout = cut,
                    "stderr" => part.stderr = cut,
                    _ => part.files[0] = cut,
                }
                // Without the YAML the table is read, which is rounded: that is another test.
                if text == "files" && !part.files[0].contains("metrics:\n") {
                    continue;
                }
                let Ok(part) = part.read(tool) else { continue };
                // The sum of a first second looks like that of a run of one second, and nothing shows that
                // `time` was still to come.
                if matches!((name.as_str(), tool), ("iperf2/parallel", _) | (_, "idle")) {
                    continue;
                }
                assert_same(&part, &whole, tolerance, &format!("{name}, {text} up to {end}"));
            }
        }
    }
}

/// Readers of one's own that look for much.
fn custom() -> (RegexReader, JsonReader) {
    let patterns = vec![
        r"(?<number>[-+.,\w]+)\s*(?<unit>[A-Za-z/]+)".to_owned(),
        r"(?<count>\d+) ".to_owned(),
        r"=(?<time>\S*)".to_owned(),
    ];
    let better = nightwatt_workloads::Better::Neither;
    let value = |from: &str| Value { from: from.to_owned(), unit: "ms".to_owned() };
    let quantity = |from: &str, unit_from: Option<&str>| Quantity {
        from: Some(from.to_owned()),
        unit: None,
        unit_from: unit_from.map(str::to_owned),
        better,
        optional: false,
    };
    let regex = RegexPlan {
        patterns,
        take: Take::Last,
        figures: [("a".to_owned(), quantity("number", Some("unit")))].into(),
        main: None,
        operations: Some(Operation { from: "count".to_owned(), what: "things".to_owned() }),
        duration: Some(value("time")),
        errors: None,
        responses: Some(value("time")),
    };
    let json = JsonPlan {
        figures: [("a".to_owned(), quantity("/0", None))].into(),
        main: None,
        operations: Some(Operation { from: "/1".to_owned(), what: "things".to_owned() }),
        duration: Some(value("/2")),
        errors: Some(Count { from: "/3".to_owned(), otherwise: Some(0) }),
        responses: Some(value("/4")),
    };
    (RegexReader::new(regex).unwrap(), JsonReader::new(json).unwrap())
}

fn all_readers(text: &str) {
    let (regex, json) = custom();
    for output in [
        Output::of(text),
        Output { stdout: "", stderr: text, files: &[] },
        Output { stdout: "a\n", stderr: "", files: &[text] },
    ] {
        for tool in TOOLS {
            check(tool.read(&output));
        }
        check(regex.read(&output));
        check(json.read(&output));
    }
}

/// Figures are finite, and errors can be printed.
fn check(result: Result<Outcome, nightwatt_workloads::ReadError>) {
    match result {
        Ok(outcome) => {
            assert!(outcome.figures.iter().all(|figure| figure.value.is_finite()));
            assert!(outcome.operations.is_none_or(|it| it.count > 0));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Pieces of real outputs, and what breaks parsers.
fn pieces() -> impl Strategy<Value = String> {
    let lines: Vec<String> = all()
        .into_iter()
        .flat_map(|(_, _, kept)| {
            [kept.stdout, kept.stderr].concat().lines().map(str::to_owned).collect::<Vec<_>>()
        })
        .collect();
    let odd =
        ["", "nan", "-inf", "1e999", "99999999999999999999", "(", "[SUM]", "\x1b[", "ä=", "{", "["];
    let odd = prop::sample::select(odd.map(str::to_owned).to_vec());
    let piece = prop_oneof![4 => prop::sample::select(lines), 1 => odd, 1 => any::<String>()];
    prop::collection::vec((piece, any::<bool>()), 0..30).prop_map(|pieces| {
        let ended = pieces.into_iter().map(|(piece, ends)| piece + if ends { "\n" } else { "" });
        ended.collect()
    })
}

proptest! {
    #[test]
    fn no_reader_panics_on_any_text(text in any::<String>()) {
        all_readers(&text);
    }

    #[test]
    fn no_reader_panics_on_real_lines_in_the_wrong_order(text in pieces()) {
        all_readers(&text);
    }

    #[test]
    fn no_reader_panics_on_numbers_that_were_changed(
        index in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        other in "[-0-9a-zA-Z.,:/\\[\\]{}() \n%+]{0,8}",
    ) {
        let all = all();
        let (_, _, kept) = index.get(&all);
        let text = if kept.stdout.is_empty() { &kept.stderr } else { &kept.stdout };
        let mut place = at.index(text.len());
        while !text.is_char_boundary(place) {
            place -= 1;
        }
        all_readers(&format!("{}{other}{}", &text[..place], text.get(place + 1..).unwrap_or("")));
    }
}
