//! `cargo xtask sentences`: how long the sentences of the documentation are.
//!
//! Code, tables, headings, decisions (history) and the changelog do not count. A heading of a list that ends with a
//! colon is a sentence, and so is each item.

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The mean may not be longer.
#[cfg(test)]
const LONGEST_MEAN: f64 = 18.0;

/// A sentence of more words is long.
const LONG: usize = 35;

/// Not more than this share of the sentences may be long.
#[cfg(test)]
const MOST_LONG: f64 = 0.05;

/// The sentences of a file, in words.
struct Lengths {
    path: String,
    words: Vec<usize>,
}

impl Lengths {
    fn long(&self) -> usize {
        self.words.iter().filter(|words| **words > LONG).count()
    }

    fn mean(&self) -> f64 {
        self.words.iter().sum::<usize>() as f64 / self.words.len().max(1) as f64
    }
}

/// Prints the figures of each file and of all below a folder: the repository, or a checkout of an earlier state.
pub(crate) fn run(root: &Path) -> Result<(), Box<dyn Error>> {
    let files = read(root)?;
    let mut text = String::new();
    for file in &files {
        let (count, mean, long) = (file.words.len(), file.mean(), file.long());
        let _ = writeln!(text, "{count:>6} {mean:>6.1} {long:>5}  {}", file.path);
    }
    let all = all(files);
    let share = 100.0 * all.long() as f64 / all.words.len().max(1) as f64;
    println!("  sentences, mean words, over {LONG}\n{text}");
    println!(
        "{} sentences: {:.1} words in the mean, {share:.1} % over {LONG}",
        all.words.len(),
        all.mean()
    );
    Ok(())
}

fn all(files: Vec<Lengths>) -> Lengths {
    let words = files.into_iter().flat_map(|file| file.words).collect();
    Lengths { path: String::new(), words }
}

fn read(root: &Path) -> std::io::Result<Vec<Lengths>> {
    let mut paths: Vec<PathBuf> = Vec::new();
    find(&root.join("docs"), &mut paths)?;
    paths.extend(
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md"].map(|it| root.join(it)),
    );
    paths.sort();
    let mut files = Vec::new();
    for path in paths.into_iter().filter(|path| path.exists()) {
        let words = sentences(&std::fs::read_to_string(&path)?);
        let path = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        files.push(Lengths { path, words });
    }
    Ok(files)
}

/// Pages below a folder, decisions apart.
fn find(folder: &Path, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() && !path.ends_with("decisions") {
            find(&path, found)?;
        } else if path.extension().is_some_and(|it| it == "md") && !path.ends_with("SUMMARY.md") {
            found.push(path);
        }
    }
    Ok(())
}

/// The sentences of a page, in words.
fn sentences(page: &str) -> Vec<usize> {
    let (mut paragraphs, mut is_code) = (vec![String::new()], false);
    for line in page.lines() {
        let trimmed = line.trim_start();
        is_code ^= trimmed.starts_with("```");
        let is_apart = is_code
            || trimmed.is_empty()
            || ["```", "|", "#", "<", "!["].iter().any(|mark| trimmed.starts_with(mark));
        let item = item(trimmed);
        if is_apart || item.is_some() {
            paragraphs.push(String::new());
        }
        if let Some(last) = paragraphs.last_mut().filter(|_| !is_apart) {
            last.push_str(item.unwrap_or(trimmed));
            last.push(' ');
        }
    }
    paragraphs.iter().flat_map(|paragraph| lengths(&plain(paragraph))).collect()
}

/// The text of an item of a list.
fn item(line: &str) -> Option<&str> {
    let number = line.trim_start_matches(|it: char| it.is_ascii_digit());
    let numbered = number.strip_prefix(". ").filter(|_| number.len() < line.len());
    line.strip_prefix("- ").or_else(|| line.strip_prefix("* ")).or(numbered)
}

/// Text with a word for each piece of code, and without the addresses of links.
fn plain(text: &str) -> String {
    let pieces = text.split('`').enumerate();
    let text: String = pieces.map(|(at, piece)| if at % 2 == 0 { piece } else { "code" }).collect();
    let mut parts = text.split("](");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain.push_str(part.split_once(')').map_or("", |(_, rest)| rest));
    }
    plain.replace(['*', '[', ']'], "")
}

/// The words of each sentence of a paragraph.
fn lengths(paragraph: &str) -> Vec<usize> {
    let (mut lengths, mut words) = (Vec::new(), 0);
    let mut all = paragraph.split_whitespace().peekable();
    while let Some(word) = all.next() {
        words += usize::from(word.contains(char::is_alphanumeric));
        let ends = word.trim_end_matches(['"', '”', ')']).ends_with(['.', '!', '?']);
        let begins =
            |next: &&str| next.trim_start_matches(['"', '“', '(']).starts_with(char::is_uppercase);
        if all.peek().is_none_or(|next| ends && (begins(next) || *next == "code")) {
            lengths.push(words);
            words = 0;
        }
    }
    // A single word is a label.
    lengths.retain(|words| *words > 1);
    lengths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_counted_in_words() {
        let page = "# No heading\n\nOne two `a b c` four. And five\nmore words here, e.g. this.\n\n\
            - An item of\n  five words\n1. Two words\n\n```text\nno code. Here.\n```\n| no | table. |\n\
            [A link](https://example.org/a b) has four. Label\n";
        assert_eq!(sentences(page), [4, 7, 5, 2, 4]);
    }

    #[test]
    fn the_documentation_is_written_in_short_sentences() {
        let all = all(read(&crate::manifest_dir().join("..")).unwrap());
        assert!(all.words.len() > 3000, "{}", all.words.len());
        let share = all.long() as f64 / all.words.len() as f64;
        assert!(all.mean() <= LONGEST_MEAN && share <= MOST_LONG, "{} words, {share}", all.mean());
    }
}
