//! JSON among what tools print.

mod doubled;

use serde_json::Value;

use crate::error::ReadError;
use crate::output::Output;
use crate::quote;

pub(crate) use doubled::Doubled;

/// How many of the names that are there instead an error lists.
const TOLD: usize = 8;

/// The JSON of an output: a whole text, or else the first object (or list of objects) that begins a
/// line, since programs put remarks before and after it. `None` where no line begins so.
///
/// A key that an object has twice with different values is an error: which value is meant can't be known.
pub(crate) fn document(output: &Output<'_>) -> Option<Result<Value, ReadError>> {
    let single = |doubled: Doubled| match doubled.keys.first() {
        None => Ok(doubled.value),
        Some(key) => Err(ReadError::Doubled { key: quote::short(key) }),
    };
    Some(document_with_doubles(output)?.and_then(single))
}

/// The same, where the tool writes keys twice: see [`Doubled`].
pub(crate) fn document_with_doubles(output: &Output<'_>) -> Option<Result<Doubled, ReadError>> {
    let is_data = |it: &Doubled| it.value.is_object() || it.value.is_array();
    let mut wrong = None;
    for text in output.texts() {
        if let Some(value) = serde_json::from_str(text).ok().filter(is_data) {
            return Some(Ok(value));
        }
        let mut begin = 0;
        for line in text.split_inclusive('\n') {
            let here = begin;
            begin += line.len();
            if !begins(line) {
                continue;
            }
            let rest = &text[here..];
            let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Doubled>();
            match values.next() {
                // Reports in between come before the last, and only that is of the whole run.
                Some(Ok(_)) if rest[values.byte_offset()..].lines().any(begins) => {
                    return Some(Err(ReadError::Several));
                }
                Some(Ok(value)) => return Some(Ok(value)),
                // What begins within a broken document is not what was looked for.
                Some(Err(source)) => {
                    wrong.get_or_insert(ReadError::Json { text: quote::short(rest), source });
                    break;
                }
                None => (),
            }
        }
    }
    wrong.map(Err)
}

/// Whether a line is the first one of an object or a list of objects, and not `[  5] local ..`.
fn begins(line: &str) -> bool {
    let line = line.trim();
    line.starts_with('{') || line.starts_with("[{") || line == "["
}

/// Whether an output is JSON, whole or not.
pub(crate) fn is_json(output: &Output<'_>) -> bool {
    output.texts().any(|text| text.lines().any(begins))
}

/// The finite number at a pointer (RFC 6901); a text that is a number counts.
pub(crate) fn number(value: &Value, pointer: &str) -> Result<f64, ReadError> {
    let found = at(value, pointer)?;
    match found {
        Value::Number(number) => number.as_f64().filter(|it| it.is_finite()),
        Value::String(text) => crate::number::number(pointer, text).ok(),
        _ => None,
    }
    .ok_or_else(|| ReadError::number(format!("`{pointer}`"), &describe(found)))
}

/// The whole number at a pointer; a number with a point whose fraction is 0 counts.
pub(crate) fn count(value: &Value, pointer: &str) -> Result<u64, ReadError> {
    if let Some(whole) = value.pointer(pointer).and_then(Value::as_u64) {
        return Ok(whole);
    }
    let number = number(value, pointer)?;
    // Up to 2^53 every whole number has its place.
    if number >= 0.0 && number.fract() == 0.0 && number <= 9e15 {
        Ok(number as u64)
    } else {
        Err(ReadError::number(format!("`{pointer}`, a whole number"), &number.to_string()))
    }
}

/// A whole number where there may be none.
pub(crate) fn count_or_none(value: &Value, pointer: &str) -> Result<u64, ReadError> {
    match value.pointer(pointer) {
        None | Some(Value::Null) => Ok(0),
        Some(_) => count(value, pointer),
    }
}

/// A number where there may be none: `null`, as where nothing was measured.
pub(crate) fn perhaps(value: &Value, pointer: &str) -> Result<Option<f64>, ReadError> {
    match value.pointer(pointer) {
        None | Some(Value::Null) => Ok(None),
        Some(_) => number(value, pointer).map(Some),
    }
}

/// What is at a pointer. The error says where it left the value, and where it could go on.
pub(crate) fn at<'a>(value: &'a Value, pointer: &str) -> Result<&'a Value, ReadError> {
    if let Some(found) = value.pointer(pointer) {
        return Ok(found);
    }
    let ends = pointer.match_indices('/').map(|(at, _)| at).chain([pointer.len()]);
    let (reached, there) = ends
        .map_while(|end| Some((&pointer[..end], value.pointer(&pointer[..end])?)))
        .last()
        .unwrap_or(("", value));
    let reached = if reached.is_empty() { "the whole" } else { reached };
    let why =
        format!("there is no `{}`: `{reached}` is {}", quote::short(pointer), describe(there));
    Err(ReadError::Pointer { why })
}

/// What a value is, in a few words.
pub(crate) fn describe(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(truth) => truth.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => format!("\"{}\"", quote::short(text)),
        Value::Array(items) => format!("a list of {}, from `/0`", items.len()),
        Value::Object(fields) => {
            let names = fields.keys().take(TOLD);
            let names: Vec<_> =
                names.map(|name| name.replace('~', "~0").replace('/', "~1")).collect();
            let more = if fields.len() > TOLD { ", .." } else { "" };
            format!("an object with `/{}`{more}", quote::short(&names.join("`, `/")))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn first(text: &str) -> Option<Result<Value, ReadError>> {
        document(&Output::of(text))
    }

    #[test]
    fn json_is_found_among_remarks() {
        let found = first("fio: a remark\n{\"a\": 1}\nbye {\n").unwrap().unwrap();
        assert_eq!(found, json!({"a": 1}));
        let found = first("[  5] local\n[1]\n{\"a\": 1}\n").unwrap().unwrap();
        assert_eq!(found, json!({"a": 1}), "a remark in brackets is not taken for data");
        assert_eq!(first(" [1, 2]\n").unwrap().unwrap(), json!([1, 2]));
        assert!(first("7\n").is_none());
        assert!(first("nothing\n").is_none());
        assert!(matches!(first("{\"a\": 1}\n{\"a\": 2}\n"), Some(Err(ReadError::Several))));
        assert!(matches!(first("{\"a\": [1, 2"), Some(Err(ReadError::Json { .. }))));
        // What is whole within what is not is not taken for it.
        assert!(first("{\n\"a\":\n{\"b\": 1}\n").unwrap().is_err());
        let output = Output { stdout: "done\n", stderr: "", files: &["{\"b\": 2}"] };
        assert_eq!(document(&output).unwrap().unwrap(), json!({"b": 2}));
    }

    #[test]
    fn keys_that_are_there_twice_are_refused_unless_they_say_the_same() {
        let found = first("{\"a\": {\"b\": 1, \"c\": [{\"d\": 2, \"d\": 2}], \"b\": 1}}").unwrap();
        assert_eq!(found.unwrap(), json!({"a": {"b": 1, "c": [{"d": 2}]}}));
        let error = first("x\n{\"a\": [{\"b\": 1, \"b\": 2}]}\n").unwrap().unwrap_err().to_string();
        assert!(error.contains("`/a/0/b`"), "{error}");
        let text = "{\"b\": 1, \"b\": 2, \"b\": 3}";
        let doubled = document_with_doubles(&Output::of(text)).unwrap().unwrap();
        assert_eq!(doubled.value, json!({"b": 1, "b#2": 2, "b#3": 3}));
    }

    #[test]
    fn whole_numbers_are_whole() {
        let value = json!({"a": 3, "b": 3.0, "c": 3.5, "d": -3, "e": "3", "f": 1e300, "g": null});
        for (pointer, wanted) in [("/a", 3), ("/b", 3), ("/e", 3)] {
            assert_eq!(count(&value, pointer).unwrap(), wanted);
        }
        for pointer in ["/c", "/d", "/f", "/g"] {
            assert!(count(&value, pointer).is_err(), "{pointer}");
        }
        assert_eq!(count_or_none(&value, "/g").unwrap(), 0);
        assert_eq!(count_or_none(&value, "/h").unwrap(), 0);
        assert_eq!(perhaps(&value, "/g").unwrap(), None);
    }

    #[test]
    fn a_wrong_pointer_is_told_what_is_there_instead() {
        let value = json!({"run": {"total": 7.0, "by/minute": [1, 2]}, "on": true, "nan": "nan"});
        let error = |pointer| number(&value, pointer).unwrap_err().to_string();
        assert!(error("/run/sum").contains("`/run` is an object with `/by~1minute`, `/total`"));
        assert!(error("/run/by~1minute/2").contains("a list of 2"));
        assert!(error("run").contains("there is no `run`"));
        assert!(error("/on").contains("`true` is no finite number"));
        assert!(error("/nan").contains("is no finite number"));
    }
}
