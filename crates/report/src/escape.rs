//! Text of unknown origin, made harmless where it goes: into HTML, and into a script's data.

use serde::Serialize;

/// For text and quoted attributes of HTML. Control characters, which HTML forbids and terminals
/// obey, are shown as the pictures that Unicode has for them (U+2400 ..).
pub(crate) fn html(text: &str, out: &mut String) {
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(' '),
            '\0'..='\x1f' => {
                out.push(char::from_u32(0x2400 + u32::from(character)).unwrap_or('\u{fffd}'));
            }
            '\x7f' => out.push('\u{2421}'),
            '\u{80}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            _ => out.push(character),
        }
    }
}

/// Text as it may stand in HTML, in quoted attributes too.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    html(text, &mut out);
    out
}

/// JSON for `<script type="application/json">`: nothing in it can end the element or begin a
/// comment, since `<`, `>` and `&` are written as `\u003c` and so on. It is still JSON.
pub(crate) fn json(value: &impl Serialize) -> String {
    // Only maps with keys that are no strings and failing writers fail; this crate has neither.
    let plain = serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned());
    let mut out = String::with_capacity(plain.len());
    for character in plain.chars() {
        match character {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            _ => out.push(character),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    fn html(text: &str) -> String {
        let mut out = String::new();
        super::html(text, &mut out);
        out
    }

    #[test]
    fn marks_and_control_characters_are_shown_and_not_obeyed() {
        assert_eq!(html("<a b='c' d=\"e\">&"), "&lt;a b=&#39;c&#39; d=&quot;e&quot;&gt;&amp;");
        assert_eq!(html("a\0b\x1b[31m\u{9b}"), "a␀b␛[31m\u{fffd}");
    }

    proptest! {
        #[test]
        fn what_is_escaped_has_no_markup_and_reads_the_same(text in "\\PC*") {
            let escaped = html(&text);
            let marks = ['<', '>', '"', '\''];
            prop_assert!(!escaped.contains(marks));
            let back = escaped
                .replace("&lt;", "<")
                .replace("&gt;", ">")
                .replace("&quot;", "\"")
                .replace("&#39;", "'")
                .replace("&amp;", "&");
            prop_assert_eq!(back, text);
        }

        #[test]
        fn data_for_scripts_reads_the_same_and_never_ends_them(text in any::<String>()) {
            let escaped = super::json(&text);
            let marks = ['<', '>', '&', '\u{2028}', '\u{2029}'];
            prop_assert!(!escaped.contains(marks));
            prop_assert_eq!(serde_json::from_str::<String>(&escaped).unwrap(), text);
        }
    }
}
