//! Whom a sleep may delay, in a person's words.

use std::fmt::Write;
use std::time::Duration;

use nightwatt_energy::duration_text;
use nightwatt_policy::scenario::SlaRule;

use super::KindChoice;

/// As many visitors as come.
const ANY: &str = "any";

/// A tenth of the requests within a day.
const TENTH: &str = "tenth";

/// What a kind of site has without an SLA in its file.
pub(super) const fn proposed(kind: KindChoice) -> &'static str {
    match kind {
        KindChoice::App => ANY,
        KindChoice::Pages | KindChoice::Unsure => TENTH,
    }
}

/// Reads an answer, and returns the lines of `[scenario.sla]`; none if the kind has that SLA anyhow.
pub(super) fn read(text: &str, kind: KindChoice) -> Result<String, String> {
    if text == proposed(kind) {
        return Ok(String::new());
    }
    let lines = match text {
        ANY => "enabled = false\n".to_owned(),
        TENTH => "share = 0.1\n".to_owned(),
        _ => forms(text)?,
    };
    Ok(format!("[scenario.sla]            # whom a sleep may delay\n{lines}\n"))
}

/// The SLA of an answer, for commands that take one as an option.
pub(crate) fn rule(text: &str) -> Result<SlaRule, String> {
    match text {
        ANY => Ok(SlaRule { enabled: false, ..SlaRule::default() }),
        TENTH => Ok(SlaRule::default().with_share(0.1)),
        _ => toml::from_str(&forms(text)?).map_err(|error| error.to_string()),
    }
}

/// A number of visits a day, a longest wait, or both.
fn forms(text: &str) -> Result<String, String> {
    let wrong = || {
        format!(
            "`{text}` is not an answer: write visits a day (3), a longest wait (10s), both (3 10s), {TENTH} or {ANY}"
        )
    };
    let (mut visits, mut longest) = (None::<u32>, None::<Duration>);
    for word in text.split([' ', ',']).filter(|word| !word.is_empty()) {
        let again = if let Ok(number) = word.parse() {
            visits.replace(number).is_some()
        } else {
            longest.replace(duration_text::parse(word).map_err(|_| wrong())?).is_some()
        };
        if again {
            return Err(wrong());
        }
    }
    let mut lines = String::new();
    if visits == Some(0) {
        return Err("with 0 visits a day the server never sleeps: write 1 or more".to_owned());
    }
    if longest.is_some_and(|longest| longest.is_zero() || longest > Duration::from_hours(24)) {
        return Err(format!("the longest wait in `{text}` must be longer than 0 and at most 24h"));
    }
    if let Some(visits) = visits {
        let _ = writeln!(lines, "visits_per_day = {visits}");
    }
    if let Some(longest) = longest {
        let _ = writeln!(lines, "longest_wait = \"{}\"", duration_text::format(longest));
    }
    if lines.is_empty() { Err(wrong()) } else { Ok(lines) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_becomes_the_forms_of_an_sla() {
        let lines = |text: &str, kind| {
            let toml = read(text, kind).unwrap();
            toml.lines().skip(1).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("|")
        };
        let app = KindChoice::App;
        assert_eq!(lines("3", app), "visits_per_day = 3");
        assert_eq!(lines("10s", app), "longest_wait = \"10s\"");
        assert_eq!(lines("1m30s, 3", app), "visits_per_day = 3|longest_wait = \"1m30s\"");
        assert_eq!((lines("any", app).as_str(), lines("tenth", app).as_str()), ("", "share = 0.1"));
        let pages = KindChoice::Pages;
        assert_eq!(
            (lines("any", pages).as_str(), lines("tenth", pages).as_str()),
            ("enabled = false", "")
        );
        assert!(!rule("any").unwrap().enabled);
        assert_eq!(rule("tenth").unwrap(), SlaRule::default());
        let both = rule("3 10s").unwrap();
        assert_eq!((both.enabled, both.share, both.visits_per_day), (true, None, Some(3)));
        assert_eq!(both.longest_wait, Some(Duration::from_secs(10)));
        for wrong in ["", "3 4", "many", "0", "25h"] {
            assert!(rule(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "3 4", "many", "-1", "10s 5s", "0", "0s", "25h"] {
            assert!(read(wrong, app).is_err(), "{wrong}");
        }
    }
}
