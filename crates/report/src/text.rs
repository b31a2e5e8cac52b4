//! Reports for a terminal.

use std::fmt::Write as _;

use nightwatt_energy::display::shown;

use crate::document::{Block, Document, KeyFigure, Origin, Text, Tone};
use crate::figures::grouped;
use crate::table::{Align, Cell, Column, Table};

/// Columns of a terminal.
const WIDTH: usize = 80;
/// What rows of a table and what follows from a heading are moved in by.
const INDENT: usize = 2;
/// Between two columns of a table.
const GAP: usize = 2;
/// A column of text is not made narrower than this.
const NARROWEST: usize = 14;
/// Words of so many letters are not broken.
const LONGEST: usize = 26;

impl Document {
    /// The report for a terminal of 80 columns: the verdict first, then sections with their tables. Charts,
    /// details and what is marked so are left to the page.
    pub fn to_text(&self) -> String {
        let mut parts = Vec::new();
        let careful = match self.careful.as_str() {
            "" => String::new(),
            words => wrapped(&format!("{}: {words}", Origin::Caution.word()), INDENT),
        };
        if self.verdict != Text::default() {
            parts.push(wrapped(&self.verdict.to_plain(), 0) + &careful);
        }
        for section in self.sections.iter().filter(|section| !section.is_detail) {
            let text = blocks(&section.blocks, &section.title);
            if text.is_empty() {
                continue;
            }
            let heading = if section.title.is_empty() {
                String::new()
            } else {
                format!("{}\n", printable(&section.title))
            };
            parts.push(heading + &text);
        }
        parts.join("\n")
    }
}

impl Table {
    /// The table for a terminal: as wide as it needs to be, and where that is more than 80 columns, text is
    /// broken into lines, and columns that still have no room follow below.
    pub fn to_text(&self) -> String {
        let caption =
            if self.caption.is_empty() { String::new() } else { wrapped(&self.caption, 0) };
        caption + &body(self)
    }
}

impl Text {
    /// The words alone; code is between backticks.
    pub fn to_plain(&self) -> String {
        let word = |(tone, words): &(Tone, String)| match tone {
            Tone::Code | Tone::Path => format!("`{words}`"),
            Tone::Plain | Tone::Strong | Tone::Emphasis => words.clone(),
        };
        self.0.iter().map(word).collect()
    }
}

/// Lines of at most 80 columns, all but the first moved in. Spaces that do not break hold a figure and its
/// unit together.
pub fn wrapped(text: &str, indent: usize) -> String {
    let lines = broken(text, WIDTH - indent);
    let mut out = lines.join(&format!("\n{:indent$}", ""));
    out.push('\n');
    out
}

/// Words in lines of at most `width`; a word that is longer has a line of its own.
fn broken(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut length = 0;
    for word in text.split([' ', '\n']).filter(|word| !word.is_empty()) {
        let letters = word.chars().count();
        if length > 0 && length + 1 + letters > width {
            lines.push(std::mem::take(&mut line));
            length = 0;
        } else if length > 0 {
            line.push(' ');
            length += 1;
        }
        line.extend(word.chars().map(|it| if it == '\u{a0}' { ' ' } else { shown(it) }));
        length += letters;
    }
    lines.push(line);
    lines
}

/// Text of whatever origin on one line of a terminal that it does not command.
fn printable(text: &str) -> String {
    text.chars().map(shown).collect()
}

/// Blocks below a heading, which no table has to repeat.
fn blocks(blocks: &[Block], heading: &str) -> String {
    let texts: Vec<String> =
        blocks.iter().map(|it| block(it, heading)).filter(|text| !text.is_empty()).collect();
    let mut out = String::new();
    for (index, text) in texts.iter().enumerate() {
        // A table stands alone; lines of text stand together.
        let is_apart =
            text.lines().count() > 3 || (index > 0 && texts[index - 1].lines().count() > 3);
        if index > 0 && is_apart {
            out.push('\n');
        }
        out.push_str(text);
    }
    out
}

fn block(block: &Block, heading: &str) -> String {
    match block {
        Block::Paragraph(text) => wrapped(&text.to_plain(), 0),
        Block::List(items) => {
            let items = items.iter().map(|it| format!("- {}", wrapped(&it.to_plain(), 2)));
            items.collect::<Vec<_>>().concat()
        }
        Block::Figures(figures) => key_figures(figures),
        Block::Table(table) if table.rows.is_empty() => String::new(),
        Block::Table(table) if table.caption == heading => body(table),
        Block::Table(table) => table.to_text(),
        Block::Note(note) => {
            wrapped(&format!("{}: {}", note.origin.word(), note.text.to_plain()), INDENT)
        }
        Block::Chart(_) | Block::Details { .. } => String::new(),
    }
}

fn key_figures(figures: &[KeyFigure]) -> String {
    let table = Table::of("", figures)
        .text("", |it| it.label.as_str())
        .written("", "", |it| it.value.as_str())
        .text("", |it| it.note.as_str());
    body(&table.into())
}

/// A column as a terminal has it.
struct Shown {
    heading: String,
    cells: Vec<String>,
    align: Align,
    width: usize,
}

fn columns(table: &Table) -> Vec<Shown> {
    let most = table.most.unwrap_or(usize::MAX);
    let column = |(index, column): (usize, &Column)| {
        let cells: Vec<String> =
            table.rows.iter().take(most).map(|row| cell(row.get(index))).collect();
        let is_empty = cells.iter().all(|it| it.is_empty() || it == "–");
        let heading = printable(&column.heading());
        (!(column.is_detail || (is_empty && index > 0))).then(|| {
            let width = cells.iter().map(|it| it.chars().count()).max().unwrap_or(0);
            Shown { heading, cells, align: column.align, width }
        })
    };
    table.columns.iter().enumerate().filter_map(column).collect()
}

fn cell(cell: Option<&Cell>) -> String {
    match cell {
        Some(Cell::Text(text)) => printable(text),
        Some(Cell::Number { value, decimals } | Cell::Shaded { value, decimals, .. }) => {
            grouped(*value, *decimals)
        }
        Some(Cell::Empty) | None => "–".to_owned(),
    }
}

/// Headings and rows.
fn body(table: &Table) -> String {
    let mut columns = columns(table);
    fit(&mut columns);
    let mut out = String::new();
    let mut from = 1.min(columns.len());
    // What has no room beside the others follows below, each part with the first column.
    loop {
        let mut room = WIDTH.saturating_sub(INDENT + columns.first().map_or(0, |it| it.width));
        let mut to = from;
        while let Some(next) = columns.get_mut(to) {
            let left = room.saturating_sub(GAP);
            if next.align == Align::Left && next.width > left && left >= 2 * NARROWEST {
                next.width = left;
            }
            if to > from && next.width > left {
                break;
            }
            room = left.saturating_sub(next.width);
            to += 1;
        }
        if !out.is_empty() {
            out.push('\n');
        }
        part(columns.iter().take(1).chain(&columns[from..to]), &mut out);
        from = to;
        if from >= columns.len() {
            break;
        }
    }
    let more = table.rows.len().saturating_sub(table.most.unwrap_or(usize::MAX));
    if more > 0 {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{:INDENT$}… and {more} more", "");
    }
    out
}

/// Makes the table fit: headings break into two lines, then into words, then text into lines, the widest column
/// first. If all that is not enough, columns follow below, and headings have two lines.
fn fit(columns: &mut [Shown]) {
    let room = WIDTH.saturating_sub(INDENT + GAP * columns.len().saturating_sub(1));
    let widths = |columns: &[Shown], lines, of: fn(&Shown) -> usize| -> Vec<usize> {
        columns.iter().map(|it| of(it).max(width_in(&it.heading, lines))).collect()
    };
    for (lines, can_break) in
        [(1, false), (2, false), (usize::MAX, false), (2, true), (usize::MAX, true)]
    {
        let mut chosen = widths(columns, lines, |it| it.width);
        let least = widths(columns, lines, if can_break { Shown::least } else { |it| it.width });
        if least.iter().sum::<usize>() > room {
            continue;
        }
        while chosen.iter().sum::<usize>() > room {
            let widest = (0..chosen.len()).filter(|at| chosen[*at] > least[*at]);
            let Some(widest) = widest.max_by_key(|at| chosen[*at]) else { break };
            chosen[widest] -= 1;
        }
        columns.iter_mut().zip(chosen).for_each(|(it, width)| it.width = width);
        return;
    }
    let chosen = widths(columns, 2, |it| it.width);
    let first = chosen.first().map_or(0, |width| (*width).min(WIDTH / 2));
    for (index, (it, width)) in columns.iter_mut().zip(chosen).enumerate() {
        it.width = if index == 0 { first } else { width.min(WIDTH - INDENT - GAP - first) };
    }
}

impl Shown {
    /// The width below which it cannot be read: numbers are not broken, and of text only long words are.
    fn least(&self) -> usize {
        if self.align == Align::Right {
            return self.width;
        }
        let words = self.cells.iter().flat_map(|cell| cell.split(' '));
        let words = words.map(|word| word.chars().count()).filter(|word| *word <= LONGEST);
        words.max().unwrap_or(0).max(self.width.min(NARROWEST))
    }
}

/// The width that a heading needs in this many lines, or with each word in a line of its own.
fn width_in(heading: &str, lines: usize) -> usize {
    let longest = heading.split(' ').map(|word| word.chars().count()).max().unwrap_or(0);
    let whole = heading.chars().count();
    (longest..whole).find(|width| broken(heading, *width).len() <= lines).unwrap_or(whole)
}

/// One part of a table: its headings, then its rows.
fn part<'a>(columns: impl Iterator<Item = &'a Shown>, out: &mut String) {
    let columns: Vec<&Shown> = columns.collect();
    let headings: Vec<_> = columns.iter().map(|it| lines(&it.heading, it.width)).collect();
    let height = headings.iter().map(Vec::len).max().unwrap_or(0);
    if columns.iter().any(|it| !it.heading.is_empty()) {
        for line in 0..height {
            // Headings stand on their rows.
            let place = |it: &Vec<String>| (line + it.len()).checked_sub(height);
            let cells = headings.iter().map(|it| place(it).map_or("", |place| it[place].as_str()));
            row(&columns, cells, out);
        }
    }
    for index in 0..columns.first().map_or(0, |it| it.cells.len()) {
        let cells: Vec<_> = columns.iter().map(|it| lines(&it.cells[index], it.width)).collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or(0);
        for line in 0..height {
            row(&columns, cells.iter().map(|it| it.get(line).map_or("", String::as_str)), out);
        }
    }
}

/// A cell in lines that fit; words without a space are broken where the line ends.
fn lines(text: &str, width: usize) -> Vec<String> {
    let mut out = Vec::new();
    for line in broken(text, width.max(1)) {
        let letters: Vec<char> = line.chars().collect();
        match letters.chunks(width.max(1)) {
            chunks if chunks.len() > 1 => out.extend(chunks.map(|it| it.iter().collect())),
            _ => out.push(line),
        }
    }
    out
}

fn row<'a>(columns: &[&Shown], cells: impl Iterator<Item = &'a str>, out: &mut String) {
    let mut line = " ".repeat(INDENT);
    for (index, (column, cell)) in columns.iter().zip(cells).enumerate() {
        if index > 0 {
            line.push_str(&" ".repeat(GAP));
        }
        let width = column.width;
        // Writing to a String cannot fail.
        let _ = match column.align {
            Align::Left => write!(line, "{cell:<width$}"),
            Align::Right => write!(line, "{cell:>width$}"),
        };
    }
    out.push_str(line.trim_end());
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Axis, Chart, Note, Origin, Scale, Section};

    fn policies() -> Table {
        Table::of("Policies", &[("learned", 48.52, 1_234_u64), ("window", -3.0, 7)])
            .text("policy", |it| it.0)
            .number("saving", "%", 1, |it| it.1)
            .count("delayed requests", |it| it.2)
            .into()
    }

    #[test]
    fn numbers_stand_below_each_other_and_text_begins_below_its_heading() {
        let text = "Policies\n  \
                    policy   saving [%]  delayed requests\n  \
                    learned        48.5             1,234\n  \
                    window         −3.0                 7\n";
        assert_eq!(policies().to_text(), text);
    }

    #[test]
    fn what_is_for_the_page_is_left_to_it() {
        let mut document = Document::new("t");
        document.verdict = Text::from("It saves ").strong("48 %").plain(" with ").code("learned");
        let axis = || Axis::new("x", "", Scale::FromZero);
        let hidden = Block::Details { summary: "s".to_owned(), blocks: vec![policies().into()] };
        let mut table = policies();
        (table.most, table.columns[2].is_detail) = (Some(1), true);
        let note = Note::new(Origin::Modelled, "by watts");
        let blocks =
            vec![Chart::new("c", axis(), axis()).into(), hidden, table.into(), note.into()];
        document.sections = vec![
            Section::new("In short", blocks),
            Section::new("Every run", vec![policies().into()]).detail(),
            Section::new("Charts", vec![Chart::new("c", axis(), axis()).into()]),
        ];
        let text = "It saves 48 % with `learned`\n\nIn short\nPolicies\n  policy   saving [%]\n  \
                    learned        48.5\n  … and 1 more\n\nModelled: by watts\n";
        assert_eq!(document.to_text(), text);
    }

    #[test]
    fn a_table_without_room_breaks_text_and_then_goes_on_below() {
        let long = "word ".repeat(30);
        let table = Table::of("", [1_i64, 2]).text("why", |_| long.as_str()).count("n", |it| it);
        let text = Table::from(table).to_text();
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert_eq!(text.matches("word").count(), 60);
        let mut wide = Table::of("", [1_i64]).text("name", |_| "a");
        for number in 0..12 {
            wide = wide.number(format!("number-{number}"), "J", 0, |it| it * 100_000_000);
        }
        let text = Table::from(wide).to_text();
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert_eq!(text.matches("name").count(), 3, "{text}");
        assert_eq!(text.matches("100,000,000").count(), 12, "{text}");
    }

    proptest! {
        #[test]
        fn no_text_steers_a_terminal_and_no_cell_is_lost(
            cells in proptest::collection::vec("\\PC{0,30}|[a-z \u{1b}\n]{0,120}", 1..6),
        ) {
            let columns = cells.iter().map(|_| Column::text("")).collect();
            let row = cells.iter().map(|it| it.as_str().into()).collect();
            let text = Table::new("", columns).row(row).to_text();
            let is_steered = text.contains(char::from(27));
            prop_assert!(!is_steered);
            let letters = |text: &str| text.chars().filter(char::is_ascii_lowercase).count();
            prop_assert!(letters(&text) >= cells.iter().map(|it| letters(it)).sum::<usize>());
        }
    }
}
