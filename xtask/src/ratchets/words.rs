//! The closed list of words that we no longer write. Decisions already written are history, and exempt.

use regex::Regex;

use super::Place;
use crate::sources::{File, Source};

/// Exempt: history, the list of its titles, what others wrote, and this list.
const EXEMPT: [&str; 5] = [
    "docs/decisions/",
    "docs/SUMMARY.md",
    "web/vendor/",
    "fuzz/seeds/",
    "xtask/src/ratchets/words.rs",
];

/// Other files in which we write: scripts, settings, C. The rest is data.
const OTHERS: [&str; 14] = [
    "bt", "c", "conf", "css", "h", "html", "js", "lua", "mjs", "py", "service", "sh", "toml", "yml",
];

/// In prose. Of `so long as` the first two words are fine.
const PROSE: &str = r"(?i)\b(whoever|whomever|nobody|anew|mended|so\s+often|so\s+long(\s+as)?|the\s+(long|short)\s+way|(?-i:is\s+none)|(a|an|each|every|no|the)\s+give[\s-]up|the\s+books)\b";
/// In names, word by word: `is_none` is fine.
const NAMES: &str = r"(?i)\b(whoever|whomever|nobody|anew|mended|so often|so long|the (long|short) way|the books)\b";

/// Where the words are.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Names and literals of Rust, tests apart.
    pub(super) code: Vec<Place>,
    /// Comments of Rust.
    pub(super) comments: Vec<Place>,
    /// Markdown.
    pub(super) docs: Vec<Place>,
    /// Scripts and settings.
    pub(super) others: Vec<Place>,
}

pub(super) fn find(files: &[File], sources: &[Source]) -> Found {
    let prose = Regex::new(PROSE).expect("checked by a test");
    let names = Regex::new(NAMES).expect("checked by a test");
    let is_ours = |path: &str| !EXEMPT.iter().any(|exempt| path.starts_with(exempt));
    let mut found = Found::default();
    for source in sources.iter().filter(|source| is_ours(&source.path)) {
        let look = |words, text: &str| places(words, &source.path, text);
        found.comments.extend(look(&prose, &source.comments.replace(['/', '!', '*'], " ")));
        if !source.is_test {
            found.code.extend(look(&names, &source.code.replace('_', " ")));
            found.code.extend(look(&prose, &source.literals));
        }
    }
    for File { path, text } in files.iter().filter(|file| is_ours(&file.path)) {
        let name = path.rsplit('/').next().unwrap_or_default();
        match name.rsplit_once('.') {
            Some((_, "md")) => found.docs.extend(places(&prose, path, text)),
            Some((_, ending)) if !OTHERS.contains(&ending) => {}
            None if name != "Makefile" && !path.starts_with("tools/") => {}
            _ => found.others.extend(places(&prose, path, &text.replace('#', " "))),
        }
    }
    found
}

fn places(words: &Regex, path: &str, text: &str) -> Vec<Place> {
    let (mut line, mut counted) = (1, 0);
    let mut places = Vec::new();
    for word in words.find_iter(text) {
        line += text[counted..word.start()].matches('\n').count();
        counted = word.start();
        let shown = word.as_str().split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
        // `NoBody` is two words.
        let is_fine = word.as_str() == "NoBody" || shown == "so long as";
        let is_user = shown == "nobody" && is_user(text, word.range());
        if !is_user && !is_fine {
            places.push(Place { path: path.to_owned(), line, text: format!("`{shown}`") });
        }
    }
    places
}

/// The user `nobody` stands alone in quotes, or behind `=` or `-u`.
fn is_user(text: &str, range: std::ops::Range<usize>) -> bool {
    let before = text[..range.start].chars().next_back();
    let after = text[range.end..].chars().next();
    let is_option = text[..range.start].ends_with("-u ");
    is_option || before == Some('=') || before == after && matches!(before, Some('"' | '\'' | '`'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::sources;

    fn found(path: &str, text: &str) -> Found {
        let files = [File { path: path.to_owned(), text: text.to_owned() }];
        find(&files, &sources(&files))
    }

    fn words(places: &[Place]) -> Vec<(usize, &str)> {
        places.iter().map(|place| (place.line, place.text.as_str())).collect()
    }

    #[test]
    fn each_kind_of_text_has_its_words() {
        let rust = "\
/// Waits so
/// long, nobody knows.
fn so_often(nobody: bool) -> bool {
    say(\"Whoever asks, it is none\") && x.is_none()
}
#[test]
fn nobody_asks() {} // anew
";
        let found = found("crates/a/src/b.rs", rust);
        assert_eq!(words(&found.comments), [(1, "`so long`"), (2, "`nobody`"), (7, "`anew`")]);
        let code = [(3, "`so often`"), (3, "`nobody`"), (4, "`whoever`"), (4, "`is none`")];
        assert_eq!(words(&found.code), code);
    }

    #[test]
    fn documents_and_scripts_are_counted_and_history_is_not() {
        let text = "the short way, a give-up\n# It was\n# mended.\n";
        assert_eq!(found("docs/a.md", text).docs.len(), 3);
        assert_eq!(found("tools/nightly", text).others.len(), 3);
        assert_eq!(found("web/a.css", text).others.len(), 3);
        assert!(found("docs/decisions/0001-a.md", text).docs.is_empty());
        assert!(found("crates/a/tests/data/log.txt", text).others.is_empty());
    }

    #[test]
    fn the_user_and_the_conjunction_are_fine() {
        let text = "User=nobody, `nobody`, bonnie++ -u nobody, so long as it runs, somebody gives up the book\n";
        assert!(found("docs/a.md", text).docs.is_empty());
    }
}
