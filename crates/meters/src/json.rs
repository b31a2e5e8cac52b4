//! Numbers in JSON that devices answer.

use std::fmt::Write;

use nightwatt_host::text::quote;
use serde_json::Value;

/// Maximum number of existing names listed in the error about a missing one.
const MOST_NAMES: usize = 8;

/// Parses JSON. The error quotes the beginning of text that is not JSON.
pub(crate) fn parse(text: &[u8]) -> Result<Value, String> {
    serde_json::from_slice(text).map_err(|error| format!("{} is no JSON: {error}", quote(text)))
}

/// The finite number at a pointer (RFC 6901); a text that is a number counts. The error says what is
/// there instead.
pub(crate) fn number(value: &Value, pointer: &str) -> Result<f64, String> {
    let found = value.pointer(pointer).ok_or_else(|| missing(value, pointer))?;
    let number = match found {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    let place = if pointer.is_empty() { "the whole" } else { pointer };
    number
        .filter(|number| f64::is_finite(*number))
        .ok_or_else(|| format!("`{place}` is no number but {}", describe(found)))
}

/// Where a pointer leaves the value, and where it could go on from there.
fn missing(value: &Value, pointer: &str) -> String {
    if !pointer.is_empty() && !pointer.starts_with('/') {
        return format!("a JSON pointer begins with `/`: `/{pointer}`?");
    }
    let ends = pointer.match_indices('/').map(|(at, _)| at).chain([pointer.len()]);
    let prefixes = ends.map(|end| &pointer[..end]);
    let (reached, there) = prefixes
        .map_while(|prefix| Some((prefix, value.pointer(prefix)?)))
        .last()
        .unwrap_or(("", value));
    let reached = if reached.is_empty() { "the whole" } else { reached };
    format!("there is no `{pointer}`: `{reached}` is {}", describe(there))
}

/// What a value is, in a few words.
fn describe(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(truth) => truth.to_string(),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) => format!("the text {}", quote(text.as_bytes())),
        Value::Array(items) => format!("a list of {}, from `/0`", items.len()),
        Value::Object(fields) if fields.is_empty() => "empty".to_owned(),
        Value::Object(fields) => {
            let mut names = String::from("an object with");
            for name in fields.keys().take(MOST_NAMES) {
                let escaped = name.replace('~', "~0").replace('/', "~1");
                let _ = write!(names, " {}", quote(format!("/{escaped}").as_bytes()));
            }
            if fields.len() > MOST_NAMES {
                let _ = write!(names, " and {} more", fields.len() - MOST_NAMES);
            }
            names
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_found_by_the_pointers_of_rfc_6901() {
        // The document and the pointers of RFC 6901, section 5.
        let value = json!({
            "foo": ["bar", "7.5"], "": 0, "a/b": 1, "c%d": 2, "e^f": 3, "g|h": 4, "i\\j": 5,
            "k\"l": 6, " ": 7, "m~n": 8
        });
        let pointers = [
            ("/foo/1", 7.5),
            ("/", 0.0),
            ("/a~1b", 1.0),
            ("/c%d", 2.0),
            ("/e^f", 3.0),
            ("/g|h", 4.0),
            ("/i\\j", 5.0),
            ("/k\"l", 6.0),
            ("/ ", 7.0),
            ("/m~0n", 8.0),
        ];
        for (pointer, expected) in pointers {
            assert_eq!(number(&value, pointer), Ok(expected), "{pointer}");
        }
        assert_eq!(number(&json!(41.5), ""), Ok(41.5), "the whole document");
    }

    #[test]
    fn a_wrong_pointer_is_told_what_is_there_instead() {
        let value =
            json!({"apower": 5.5, "aenergy": {"total": 7.0, "by/minute": [1, 2]}, "on": true});
        let error = |pointer| number(&value, pointer).unwrap_err();
        let wrong = error("/aenergy/sum");
        assert!(wrong.contains("`/aenergy` is an object with"), "{wrong}");
        assert!(wrong.contains("`/total`") && wrong.contains("`/by~1minute`"), "{wrong}");
        assert!(error("/aenergy/by~1minute/2").contains("a list of 2"));
        assert!(error("/power").contains("`/apower`"));
        assert!(error("apower").contains("begins with `/`: `/apower`"));
        assert!(error("/on").contains("no number but true"));
        assert!(error("/aenergy").contains("`/total`"));
        assert!(number(&json!({"p": null}), "/p").unwrap_err().contains("null"));
        assert!(number(&json!({"p": "NaN"}), "/p").is_err());
        assert!(number(&json!({"p": "inf"}), "/p").is_err());
    }

    #[test]
    fn what_is_no_json_is_quoted_in_short() {
        let error = parse(&[b'<'; 5000]).unwrap_err();
        assert!(error.starts_with("`<<<<") && error.len() < 200, "{error}");
        assert!(parse(b"\x1b[31m").unwrap_err().contains("\\x1b"), "nothing reaches the terminal");
        let wide: serde_json::Map<_, _> = (0..500).map(|n| (n.to_string(), json!(n))).collect();
        let error = number(&Value::Object(wide), "/x").unwrap_err();
        assert!(error.contains("and 492 more") && error.len() < 500, "{error}");
    }
}
