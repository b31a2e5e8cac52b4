//! The waiting page for browsers.

use std::time::Duration;

use http::Response;

use crate::answers;
use crate::body::Answer;
use crate::config::WaitingTexts;

/// The page, unless the operator has an own one.
const PAGE: &str = include_str!("assets/waiting.html");

/// Filled in when the page is sent.
const SECONDS: &str = "{{seconds}}";
const MINUTES: &str = "{{minutes}}";

/// A page with its texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WaitingPage {
    /// For a server that is being woken.
    waking: String,
    /// For one that does not wake.
    failed: String,
}

impl WaitingPage {
    /// The built-in page, or the operator's own.
    pub(crate) fn new(own: Option<&str>, texts: &WaitingTexts) -> Self {
        let WaitingTexts { lang, title, heading, text, left, longer, note, failed, style } = texts;
        let words = [
            ("lang", lang),
            ("title", title),
            ("heading", heading),
            ("text", text),
            ("left", left),
            ("longer", longer),
            ("note", note),
            ("failed", failed),
        ];
        let escaped = words.map(|(name, words)| (name, nightwatt_report::escaped(words)));
        let value = |name: &str| {
            let word = escaped.iter().find(|(known, _)| *known == name);
            word.map(|(_, word)| word.as_str()).or((name == "style").then_some(style))
        };
        let page = own.unwrap_or(PAGE);
        let failed = nightwatt_report::escaped(failed).replace("{minutes}", MINUTES);
        let instead = |name: &str| match name {
            "text" => Some(failed.as_str()),
            "state" => Some("failed"),
            _ => value(name),
        };
        let waking =
            filled(page, |name| if name == "state" { Some("waking") } else { value(name) });
        Self { waking, failed: filled(page, instead) }
    }

    /// `expected` is the usual time to wake.
    pub(crate) fn answer(&self, expected: Duration) -> Response<Answer> {
        let seconds = answers::seconds(expected).max(1);
        answers::waiting(self.waking.replace(SECONDS, &seconds.to_string()), seconds)
    }

    /// The server does not wake, and is not tried again for this long.
    pub(crate) fn failed(&self, after: Duration) -> Response<Answer> {
        let seconds = answers::seconds(after).max(1);
        let page = self.failed.replace(SECONDS, &seconds.to_string());
        answers::waiting(page.replace(MINUTES, &seconds.div_ceil(60).to_string()), seconds)
    }
}

/// Replaces each `{{name}}` by its value, in one pass, so that a value that contains a name is not replaced again;
/// unknown names stay.
fn filled<'a>(template: &str, value: impl Fn(&str) -> Option<&'a str>) -> String {
    let mut page = String::with_capacity(template.len() + 1024);
    let mut rest = template;
    while let Some(at) = rest.find("{{") {
        let (before, from) = rest.split_at(at);
        page.push_str(before);
        let name = from[2..].find("}}").map(|end| &from[2..2 + end]);
        if let Some((name, value)) = name.and_then(|name| Some((name, value(name)?))) {
            page.push_str(value);
            rest = &from[name.len() + 4..];
        } else {
            page.push_str("{{");
            rest = &from[2..];
        }
    }
    page + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_replaced_once_and_have_no_markup() {
        let texts = WaitingTexts {
            heading: "<b>{{note}} & \"more\"".to_owned(),
            style: ":root { --accent: teal }".to_owned(),
            ..WaitingTexts::default()
        };
        let own = "{{heading}}|{{style}}|{{seconds}}|{{what}}|{{ {{lang}}";
        let page = WaitingPage::new(Some(own), &texts).waking;
        let said = "&lt;b&gt;{{note}} &amp; &quot;more&quot;|:root { --accent: teal }|{{seconds}}|{{what}}|{{ en";
        assert_eq!(page, said);
    }

    #[test]
    fn the_page_has_all_its_words_and_asks_nobody_else() {
        let pages = WaitingPage::new(None, &WaitingTexts::default());
        let failed = pages.failed.replace(SECONDS, "").replace(MINUTES, "");
        assert_eq!(failed.matches("{{").count(), 0, "{failed}");
        let page = pages.waking;
        assert_eq!(page.replace(SECONDS, "").matches("{{").count(), 0, "{page}");
        let WaitingTexts { title, heading, text, note, .. } = WaitingTexts::default();
        for words in [title, heading, text, note] {
            assert!(page.contains(&words), "{words}");
        }
        assert!(!page.contains("http:") && !page.contains("https:") && !page.contains("src="));
    }
}
