//! `[site.compression]`: which answers of the server are compressed on their way to clients.

use serde::Deserialize;

use super::{Wrong, wrong};

/// How answers are compressed that the server sends plain.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CompressionConfig {
    /// Whether any are.
    pub enabled: bool,
    /// Shorter answers are not.
    pub min_bytes: u64,
    /// Types that are compressed, instead of those that are known to shrink: `["text/*", "application/json"]`.
    pub types: Option<Vec<String>>,
    /// Also pages that may hold a secret of the client: see docs/compression.md before.
    pub personal: bool,
}

impl Default for CompressionConfig {
    fn default() -> Self {
        Self { enabled: false, min_bytes: 1024, types: None, personal: false }
    }
}

impl CompressionConfig {
    pub(super) fn check(&self) -> Result<(), Wrong> {
        let default = Self { enabled: self.enabled, ..Self::default() };
        if !self.enabled && *self != default {
            let text = "the table has no effect: add `enabled = true`";
            return wrong("compression", text);
        }
        let Some(types) = &self.types else { return Ok(()) };
        let is_token = |part: &str| {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte);
            !part.is_empty() && part.bytes().all(plain)
        };
        let is_type = |text: &str| {
            let parts = text.split_once('/');
            parts.is_some_and(|(kind, rest)| is_token(kind) && (rest == "*" || is_token(rest)))
        };
        match types.iter().find(|text| !is_type(text)) {
            Some(text) => {
                let why = format!("`{text}` is no media type: write `text/html`, or `text/*`");
                wrong("compression.types", why)
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;

    fn parse(lines: &str) -> Result<Config, String> {
        let text = format!(
            "listen = [\"127.0.0.1:0\"]\n[[site]]\nname = \"blog\"\norigin = \"http://127.0.0.1:1\"\n\
             power.simulated = {{}}\n[site.compression]\n{lines}\n"
        );
        Config::parse(&text, "test.toml").map_err(|error| error.to_string())
    }

    #[test]
    fn what_has_no_effect_or_no_meaning_is_refused() {
        for (lines, why) in [
            ("min_bytes = 10", "no effect"),
            ("enabled = true\ntypes = [\"html\"]", "no media type"),
            ("enabled = true\ntypes = [\"*/*\"]", "no media type"),
            ("enabled = true\ntypes = [\"text/a b\"]", "no media type"),
            ("enabled = true\nlevel = 3", "unknown key"),
        ] {
            let said = parse(lines).unwrap_err();
            assert!(said.contains(why), "{lines}: {said}");
        }
        assert!(parse("enabled = true\ntypes = [\"text/*\", \"application/ld+json\"]").is_ok());
    }
}
