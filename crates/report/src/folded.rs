//! Lines for people, none wider than the terminal.

use nightwatt_energy::display::shown;

/// Lines that continue start below the second column if that is no further right than this.
const FURTHEST: usize = 40;

/// Lines that continue without a second column are moved in by this.
const INDENT: usize = 2;

/// What stays beside its figure.
const UNITS: [&str; 10] = ["%", "W", "J", "Wh", "kWh", "s", "ms", "kB", "MB", "Hz"];

/// The text with lines of at most `width` columns. Longer ones are broken between words, and go on below their second
/// column, which is behind two or more spaces. A path, an address and what is between backticks stay in one piece, even
/// where that is wider.
pub fn folded(text: &str, width: usize) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        if line.chars().count() <= width {
            out.push_str(line);
        } else {
            fold(line, width, &mut out);
        }
        out.push('\n');
    }
    if !text.ends_with('\n') {
        out.pop();
    }
    out
}

fn fold(line: &str, width: usize, out: &mut String) {
    let hang = second_column(line).filter(|hang| *hang <= FURTHEST.min(width / 2));
    let indent = line.len() - line.trim_start_matches(' ').len();
    let head = hang.unwrap_or(indent);
    let hang = hang.unwrap_or(indent + INDENT);
    let split = line.char_indices().nth(head).map_or(line.len(), |(at, _)| at);
    let (head_text, rest) = line.split_at(split);
    out.push_str(head_text);
    let mut column = head;
    for Piece { spaces, text } in pieces(rest) {
        let letters = text.chars().count();
        if column > head && column + spaces + letters > width {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', hang));
            column = hang;
        } else {
            out.extend(std::iter::repeat_n(' ', spaces));
            column += spaces;
        }
        out.extend(text.chars().map(shown));
        column += letters;
    }
}

/// Where the text begins that is behind the first two or more spaces, in columns.
fn second_column(line: &str) -> Option<usize> {
    let letters: Vec<char> = line.chars().collect();
    let first = letters.iter().position(|it| *it != ' ')?;
    let gap = first + letters[first..].windows(2).position(|pair| pair == [' ', ' '])?;
    Some(gap + letters[gap..].iter().position(|it| *it != ' ')?)
}

/// What is not broken.
struct Piece {
    /// Before it.
    spaces: usize,
    text: String,
}

impl Piece {
    fn ends_in_figure(&self) -> bool {
        let word = self.text.rsplit(' ').next().unwrap_or_default();
        word.trim_start_matches(['(', '±', '−', '-']).starts_with(|it: char| it.is_ascii_digit())
    }
}

fn is_unit(word: &str) -> bool {
    UNITS.contains(&word.trim_end_matches([',', '.', ':', ';', ')']))
}

/// Words, a figure with its unit, and what is between backticks or quotes.
fn pieces(text: &str) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    let mut quote = None;
    let mut spaces = 0;
    for word in text.split(' ') {
        if word.is_empty() {
            spaces += 1;
            continue;
        }
        let belongs = |last: &Piece| last.text == "±" || last.ends_in_figure() && is_unit(word);
        match pieces.last_mut().filter(|it| quote.is_some() || spaces == 1 && belongs(it)) {
            Some(last) => {
                last.text.extend(std::iter::repeat_n(' ', spaces));
                last.text.push_str(word);
            }
            None => pieces.push(Piece { spaces, text: word.to_owned() }),
        }
        quote = open_quote(quote, word);
        spaces = 1;
    }
    pieces
}

/// The quote that is open after a word. An apostrophe is not one.
fn open_quote(before: Option<char>, word: &str) -> Option<char> {
    let bare = word.trim_end_matches([',', '.', ':', ';', ')']);
    match before {
        Some('\'') => (!bare.ends_with('\'')).then_some('\''),
        Some(_) => word.matches('`').count().is_multiple_of(2).then_some('`'),
        None if word.matches('`').count() % 2 == 1 => Some('`'),
        None if word.starts_with('\'') && (bare == "'" || !bare.ends_with('\'')) => Some('\''),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_line_goes_on_below_its_second_column() {
        let line = "  cache        256 MB; only what the server marks";
        let lines = "  cache        256 MB; only what\n               the server marks";
        assert_eq!(folded(line, 34), lines);
        assert_eq!(folded(line, 80), line, "a line that fits stays as it is");
    }

    #[test]
    fn a_line_of_words_goes_on_two_columns_further_in() {
        assert_eq!(folded("    hint: one two three\n", 16), "    hint: one\n      two three\n");
    }

    #[test]
    fn code_and_paths_stay_whole() {
        let path = "/var/lib/nightwatt/control.sock";
        let text = folded(&format!("use {path} or `nightwatt init -c FILE`, then go on"), 20);
        assert!(text.lines().any(|line| line.trim() == path), "{text}");
        assert!(text.lines().any(|line| line.trim() == "`nightwatt init -c FILE`,"), "{text}");
        let text = folded("the meter's energy of 'make -j 2 all' (3 runs)", 20);
        assert_eq!(text, "the meter's energy\n  of 'make -j 2 all'\n  (3 runs)");
        assert_eq!(
            folded("a proxy draws about 5 W, a server 43", 21),
            "a proxy draws about\n  5 W, a server 43"
        );
    }

    #[test]
    fn columns_stay_apart_up_to_where_a_line_is_broken() {
        let text = folded("   12 J  rapl/package     3 W   ± 2.0 %, measured", 34);
        assert_eq!(text, "   12 J  rapl/package     3 W\n         ± 2.0 %, measured");
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_only_one_word_may_be_too_wide(
            words in prop::collection::vec("[a-zé]{1,30}", 1..40),
            width in 20_usize..90,
        ) {
            let text = folded(&words.join(" "), width);
            prop_assert_eq!(text.split_whitespace().collect::<Vec<_>>(), words);
            for line in text.lines() {
                let is_one = line.trim().split(' ').count() == 1;
                prop_assert!(line.chars().count() <= width || is_one, "{}", line);
            }
        }
    }
}
