//! What the waiting page says, and how it looks.

use serde::Deserialize;

use super::{Wrong, wrong};

/// The words of the waiting page. Each may be replaced, and an own page (`waiting_page_file`) may use them by
/// their names, as `{{heading}}`.
#[derive(Debug, Clone, Deserialize, PartialEq, Eq)]
#[serde(default, deny_unknown_fields)]
pub struct WaitingTexts {
    /// In which language they are: `en`, `pt-BR`.
    pub lang: String,
    /// Of the window.
    pub title: String,
    /// Of the page.
    pub heading: String,
    /// What goes on.
    pub text: String,
    /// How long still; `{seconds}` is replaced.
    pub left: String,
    /// Where waking takes longer than it does as a rule.
    pub longer: String,
    /// What the reader need not do.
    pub note: String,
    /// If the server does not wake up; `{minutes}` is replaced.
    pub failed: String,
    /// CSS, behind the page's own: `:root { --accent: teal }`.
    pub style: String,
}

impl Default for WaitingTexts {
    fn default() -> Self {
        let text = str::to_owned;
        Self {
            lang: text("en"),
            title: text("One moment: the server is waking up"),
            heading: text("One moment"),
            text: text("This server was asleep to save energy. It is waking up for you."),
            left: text("About {seconds} s left"),
            longer: text("A little longer than usual"),
            note: text("The page you asked for opens by itself."),
            failed: text(
                "The server does not wake up. It will be tried again in {minutes} min; you need not stay.",
            ),
            style: String::new(),
        }
    }
}

impl WaitingTexts {
    pub(super) fn check(&self) -> Result<(), Wrong> {
        let is_tag = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if self.lang.is_empty() || !self.lang.bytes().all(is_tag) {
            let text = format!("`{}` is no language: write `en`, or `pt-BR`", self.lang);
            return wrong("waiting_texts.lang", text);
        }
        if self.style.contains('<') {
            return wrong("waiting_texts.style", "CSS cannot hold a `<`: it would end the style");
        }
        Ok(())
    }
}
