//! What the answer of a program says about its use. The answer comes from another machine: nothing in it is trusted.

use nightwatt_host::text::brief;
use serde::Deserialize;
use serde_json::Value;

/// What it means if there is nothing at the place that a probe looks at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Missing {
    /// The probe has no answer: a mistake in its configuration must not cut off users.
    #[default]
    Unknown,
    /// The server is not in use.
    Idle,
}

/// How a value is compared.
#[derive(Debug, Clone, PartialEq)]
pub enum Test {
    /// A list, object or string that is not empty, a number that is not 0, or `true`.
    Something,
    /// A number above this one.
    Above(f64),
    /// This string, number or truth value.
    Equals(Value),
    /// A string that contains this one, or a list with it.
    Contains(String),
}

/// When a program is in use.
#[derive(Debug, Clone, PartialEq)]
pub enum Condition {
    /// A value in its answer passes a test.
    Value {
        /// Where (RFC 6901).
        pointer: String,
        /// The value is a list, and this is the place in its elements.
        each: Option<String>,
        /// How it is compared.
        test: Test,
        /// If there is nothing at `pointer`.
        missing: Missing,
        /// What that value is, for people.
        words: Option<String>,
    },
    /// Transmission checks, downloads or sends torrents.
    Torrents,
}

/// Whether a text is a JSON pointer: empty, or steps after `/`, with `~0` and `~1` as the only escapes.
pub(crate) fn is_pointer(text: &str) -> bool {
    let is_escaped = text.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
    (text.is_empty() || text.starts_with('/')) && is_escaped
}

impl Test {
    /// Whether a value passes; the error says what was expected.
    fn passes(&self, value: &Value) -> Result<bool, &'static str> {
        Ok(match self {
            Self::Something => match value {
                Value::Null => false,
                Value::Bool(is_true) => *is_true,
                Value::Number(number) => number.as_f64() != Some(0.0),
                Value::String(text) => !text.is_empty(),
                Value::Array(all) => !all.is_empty(),
                Value::Object(all) => !all.is_empty(),
            },
            // Plex and others write numbers as strings in some versions.
            Self::Above(limit) => number(value).ok_or("a number")? > *limit,
            Self::Equals(wanted) => match wanted.as_f64() {
                Some(wanted) => value.as_f64() == Some(wanted),
                None => value == wanted,
            },
            Self::Contains(part) => match value {
                Value::String(text) => text.contains(part),
                Value::Array(all) => all.iter().any(|it| it.as_str() == Some(part)),
                Value::Null => false,
                _ => return Err("a string or a list"),
            },
        })
    }
}

fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.trim().parse().ok())
}

/// A value for people, shortened.
fn shown(value: &Value) -> String {
    match value {
        Value::Array(all) => format!("a list of {}", all.len()),
        Value::Object(_) => "an object".to_owned(),
        other => brief(other.to_string().as_bytes()),
    }
}

impl Condition {
    /// What is in use according to an answer, for people; nothing if it is not in use. The error says why the answer
    /// makes no sense.
    pub fn judge(&self, body: &[u8]) -> Result<Option<String>, String> {
        let answer: Value = serde_json::from_slice(body)
            .map_err(|error| format!("`{}` is no JSON: {error}", brief(body)))?;
        match self {
            Self::Torrents => torrents(&answer),
            Self::Value { pointer, each, test, missing, words } => {
                let place = brief(pointer.as_bytes());
                let Some(value) = answer.pointer(pointer) else {
                    return match missing {
                        Missing::Idle => Ok(None),
                        Missing::Unknown => Err(format!(
                            "there is nothing at `{place}` in its answer; if it is idle then, set \
                             `missing = \"idle\"`"
                        )),
                    };
                };
                let of = |value: &Value| {
                    let passed = test.passes(value);
                    passed.map_err(|wanted| format!("{} instead of {wanted}", shown(value)))
                };
                let name = words.as_deref().unwrap_or("the value");
                let Some(each) = each else {
                    let is_named = words.is_some() || place.is_empty();
                    let at = if is_named { String::new() } else { format!(" at `{place}`") };
                    return Ok(of(value)?.then(|| format!("{name}{at}: {}", shown(value))));
                };
                let Value::Array(all) = value else {
                    return Err(format!("at `{place}` is {} instead of a list", shown(value)));
                };
                let mut count = 0;
                for element in all.iter().filter_map(|it| it.pointer(each)) {
                    count += usize::from(of(element)?);
                }
                let name = words.as_deref().unwrap_or("elements");
                Ok((count > 0).then(|| format!("{name}: {count}")))
            }
        }
    }
}

/// Transmission's `tr_torrent_activity`: 1 and 2 are checks, 3 and 4 downloads, queued or under way. One that is only
/// offered to others (6) counts while others take it.
fn torrents(answer: &Value) -> Result<Option<String>, String> {
    let result = answer.get("result").and_then(Value::as_str);
    let all = answer.pointer("/arguments/torrents").and_then(Value::as_array);
    let Some(all) = all.filter(|_| result == Some("success")) else {
        let why = result.map_or_else(|| shown(answer), |it| brief(it.as_bytes()));
        return Err(format!("Transmission answered `{why}` instead of a list of torrents"));
    };
    let of = |torrent: &Value, key: &str| torrent.get(key).and_then(Value::as_u64).unwrap_or(0);
    let is_active = |it: &&Value| matches!(of(it, "status"), 1..=4) || of(it, "rateUpload") > 0;
    let count = all.iter().filter(is_active).count();
    Ok((count > 0).then(|| format!("torrents: {count}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(pointer: &str, each: Option<&str>, test: Test) -> Condition {
        let (pointer, each) = (pointer.to_owned(), each.map(str::to_owned));
        Condition::Value { pointer, each, test, missing: Missing::Unknown, words: None }
    }

    fn is_used(condition: &Condition, body: &str) -> bool {
        condition.judge(body.as_bytes()).unwrap().is_some()
    }

    /// The examples of RFC 6901, section 5.
    const RFC: &str = r#"{"foo": ["bar", "baz"], "": 0, "a/b": 1, "c%d": 2, "e^f": 3, "g|h": 4, "i\\j": 5,
        "k\"l": 6, " ": 7, "m~n": 8}"#;

    #[test]
    fn pointers_are_those_of_rfc_6901() {
        for (pointer, wanted) in [
            ("/foo/0", Value::from("bar")),
            ("/a~1b", 1.into()),
            ("/c%d", 2.into()),
            ("/e^f", 3.into()),
            ("/g|h", 4.into()),
            ("/i\\j", 5.into()),
            ("/k\"l", 6.into()),
            ("/ ", 7.into()),
            ("/m~0n", 8.into()),
            ("/", 0.into()),
        ] {
            assert!(is_pointer(pointer));
            assert!(is_used(&value(pointer, None, Test::Equals(wanted)), RFC), "{pointer}");
        }
        assert!(is_used(&value("", None, Test::Something), RFC));
        for wrong in ["foo", "/~", "/~2", "/a~"] {
            assert!(!is_pointer(wrong), "{wrong}");
        }
        let missing = value("/nothing", None, Test::Something).judge(RFC.as_bytes());
        assert!(missing.unwrap_err().contains("nothing at `/nothing`"));
    }

    #[test]
    fn each_test_has_values_that_pass_and_others() {
        let something = value("/v", None, Test::Something);
        for (json, passes) in [
            ("[1]", true),
            ("[]", false),
            ("{}", false),
            ("{\"a\":0}", true),
            ("true", true),
            ("false", false),
            ("null", false),
            ("0", false),
            ("0.0", false),
            ("-1", true),
            ("\"\"", false),
            ("\"x\"", true),
        ] {
            assert_eq!(is_used(&something, &format!("{{\"v\":{json}}}")), passes, "{json}");
        }
        let above = value("/v", None, Test::Above(2.0));
        assert!(is_used(&above, "{\"v\":3}") && is_used(&above, "{\"v\":\"2.5\"}"));
        assert!(!is_used(&above, "{\"v\":2}"));
        assert!(above.judge(b"{\"v\":[]}").unwrap_err().contains("instead of a number"));
        let contains = value("/v", None, Test::Contains("play".into()));
        assert!(
            is_used(&contains, "{\"v\":\"playing\"}") && is_used(&contains, "{\"v\":[\"play\"]}")
        );
        assert!(!is_used(&contains, "{\"v\":[\"playing\"]}"));
        let equals = value("/v", None, Test::Equals(Value::from(1)));
        assert!(is_used(&equals, "{\"v\":1.0}") && !is_used(&equals, "{\"v\":\"1\"}"));
    }

    #[test]
    fn of_a_list_one_element_is_enough_and_those_without_the_place_do_not_count() {
        let each = value("/all", Some("/now"), Test::Something);
        assert!(!is_used(&each, r#"{"all": []}"#));
        assert!(!is_used(&each, r#"{"all": [{}, {"now": null}]}"#));
        let two = each.judge(br#"{"all": [{"now": 1}, {}, {"now": {"a": 1}}]}"#).unwrap();
        assert_eq!(two.as_deref(), Some("elements: 2"));
        assert!(each.judge(b"{\"all\": {}}").unwrap_err().contains("instead of a list"));
    }

    #[test]
    fn what_is_no_answer_is_an_error_and_never_idle() {
        for body in ["", "<html>", "[", "nul", "{\"a\":1}"] {
            assert!(value("/v", None, Test::Something).judge(body.as_bytes()).is_err(), "{body}");
            assert!(Condition::Torrents.judge(body.as_bytes()).is_err(), "{body}");
        }
        let deep = "[".repeat(100_000);
        assert!(value("", None, Test::Something).judge(deep.as_bytes()).is_err());
    }

    #[test]
    fn torrents_that_only_wait_for_takers_do_not_count() {
        let of = |torrents: &str| {
            let body = format!(r#"{{"arguments":{{"torrents":[{torrents}]}},"result":"success"}}"#);
            Condition::Torrents.judge(body.as_bytes()).unwrap()
        };
        assert_eq!(of(""), None);
        assert_eq!(of(r#"{"status":6,"rateUpload":0},{"status":0,"rateUpload":0}"#), None);
        let both = r#"{"status":6,"rateUpload":12000},{"status":4,"rateUpload":0}"#;
        assert_eq!(of(both).as_deref(), Some("torrents: 2"));
        let failed = Condition::Torrents.judge(br#"{"result":"no such method","arguments":{}}"#);
        assert!(failed.unwrap_err().contains("no such method"));
    }
}
