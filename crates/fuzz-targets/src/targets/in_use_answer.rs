//! What a program answers that is asked whether it is in use: any bytes are use, no use, or an error that is short and
//! safe to print.

use nightwatt_gateway::in_use::judge::{Condition, Missing, Test};

/// Runs the target on one input: a line with pointers, and the answer.
pub fn run(input: &[u8]) {
    let end = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    let (line, body) = input.split_at(end);
    let line = String::from_utf8_lossy(line);
    let (pointer, each) = line.split_once(' ').unwrap_or((&line, ""));
    let each = (!each.is_empty()).then(|| each.to_owned());
    for test in [
        Test::Something,
        Test::Above(0.0),
        Test::Equals("on".into()),
        Test::Equals(1.into()),
        Test::Contains("play".to_owned()),
    ] {
        let (pointer, each) = (pointer.to_owned(), each.clone());
        let missing = Missing::Unknown;
        check_message(Condition::Value { pointer, each, test, missing, words: None }.judge(body));
    }
    check_message(Condition::Torrents.judge(body));
}

fn check_message(result: Result<Option<String>, String>) {
    let (Ok(Some(text)) | Err(text)) = result else { return };
    assert!(!text.is_empty() && text.len() < 4_000, "{text}");
    assert!(!text.contains(|c: char| c.is_control()), "{text:?}");
}
