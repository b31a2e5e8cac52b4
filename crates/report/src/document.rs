//! What a report is made of, except for tables and charts.

use nightwatt_energy::energy::{Energy, Provenance};

use crate::chart::Chart;
use crate::table::Table;

/// A report.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Document {
    /// The heading, and the title of the window.
    pub title: String,
    /// Below the heading; may be empty.
    pub subtitle: Text,
    /// What it comes to, in one to three sentences: what stands first. May be empty.
    pub verdict: Text,
    /// What makes the verdict doubtful: stands below it. May be empty.
    pub careful: String,
    /// What to beware of: on a terminal the program itself writes them, to stderr.
    pub warnings: Vec<String>,
    /// By what and when it was made, at the foot: a pure crate cannot know. May be empty.
    pub generated: String,
    /// In the order in which they are shown.
    pub sections: Vec<Section>,
}

impl Document {
    /// An empty report of this title.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), ..Self::default() }
    }

    /// The same with these sections; those without blocks are left out.
    #[must_use]
    pub fn sections(mut self, sections: impl IntoIterator<Item = Section>) -> Self {
        self.sections.extend(sections.into_iter().filter(|section| !section.blocks.is_empty()));
        self
    }

    /// All tables, also those inside of details, in the order of the page: for CSV.
    pub fn tables(&self) -> Vec<&Table> {
        let mut tables = Vec::new();
        for section in &self.sections {
            collect(&section.blocks, &mut tables);
        }
        tables
    }
}

fn collect<'a>(blocks: &'a [Block], tables: &mut Vec<&'a Table>) {
    for block in blocks {
        match block {
            Block::Table(table) => tables.push(table),
            Block::Details { blocks, .. } => collect(blocks, tables),
            Block::Paragraph(_)
            | Block::List(_)
            | Block::Figures(_)
            | Block::Chart(_)
            | Block::Note(_) => {}
        }
    }
}

/// A part of a report under its own heading.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Section {
    /// The heading.
    pub title: String,
    /// What is below it.
    pub blocks: Vec<Block>,
    /// Left to the page.
    pub is_detail: bool,
}

impl Section {
    /// A section with these blocks.
    pub fn new(title: impl Into<String>, blocks: Vec<Block>) -> Self {
        Self { title: title.into(), blocks, is_detail: false }
    }

    /// A section with a table, and without one that has no rows.
    pub fn of_table(title: impl Into<String>, table: Table) -> Self {
        let is_filled = !table.rows.is_empty();
        Self::new(title, is_filled.then(|| table.into()).into_iter().collect())
    }

    /// A section of charts, for the page.
    pub fn of_charts(title: impl Into<String>, charts: impl IntoIterator<Item = Chart>) -> Self {
        Self::new(title, charts.into_iter().map(Block::from).collect())
    }

    /// The same for the page alone.
    #[must_use]
    pub fn detail(mut self) -> Self {
        self.is_detail = true;
        self
    }
}

/// One thing below another.
#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    /// Text.
    Paragraph(Text),
    /// Texts, each with a bullet.
    List(Vec<Text>),
    /// The few numbers that matter, in large type.
    Figures(Vec<KeyFigure>),
    /// Rows and columns.
    Table(Table),
    /// A picture of numbers.
    Chart(Chart),
    /// Where figures come from, and how sure they are.
    Note(Note),
    /// What only some want to read: shown on demand.
    Details {
        /// What is shown of it.
        summary: String,
        /// What is hidden at first.
        blocks: Vec<Block>,
    },
}

macro_rules! into_block {
    ($($from:ident => $variant:ident),*) => {$(
        impl From<$from> for Block {
            fn from(it: $from) -> Self {
                Self::$variant(it)
            }
        }
    )*};
}

into_block!(Text => Paragraph, Table => Table, Chart => Chart, Note => Note);

/// Text with emphasis. Never markup: what is in it is shown as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Text(pub(crate) Vec<(Tone, String)>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Strong,
    Emphasis,
    Code,
    Path,
}

impl Text {
    /// Adds plain text.
    #[must_use]
    pub fn plain(self, text: impl Into<String>) -> Self {
        self.with(Tone::Plain, text)
    }

    /// Adds what matters most.
    #[must_use]
    pub fn strong(self, text: impl Into<String>) -> Self {
        self.with(Tone::Strong, text)
    }

    /// Adds text with stress.
    #[must_use]
    pub fn emphasis(self, text: impl Into<String>) -> Self {
        self.with(Tone::Emphasis, text)
    }

    /// Adds what a machine said or is told: names of files, lines of a log, commands.
    #[must_use]
    pub fn code(self, text: impl Into<String>) -> Self {
        self.with(Tone::Code, text)
    }

    /// Plain text in which what stands between backticks is code.
    pub fn marked(text: &str) -> Self {
        let tone = |index| if index % 2 == 1 { Tone::Code } else { Tone::Plain };
        text.split('`')
            .enumerate()
            .fold(Self::default(), |it, (index, part)| it.with(tone(index), part))
    }

    /// Adds a link to a file or folder that lies beside the page: `runs/0001/`.
    #[must_use]
    pub fn beside(self, path: impl Into<String>) -> Self {
        self.with(Tone::Path, path)
    }

    fn with(mut self, tone: Tone, text: impl Into<String>) -> Self {
        self.0.push((tone, text.into()));
        self
    }
}

impl<T: Into<String>> From<T> for Text {
    fn from(text: T) -> Self {
        Self::default().plain(text)
    }
}

/// A number in large type: `0.09 kWh`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyFigure {
    /// What it is: `Saved in a year`.
    pub label: String,
    /// The number with its unit, ready for people.
    pub value: String,
    /// What has to be said beside it: its interval, or what it is compared with. May be empty.
    pub note: String,
}

impl KeyFigure {
    /// A figure without a note.
    pub fn new(label: impl Into<String>, value: impl Into<String>) -> Self {
        Self { label: label.into(), value: value.into(), note: String::new() }
    }

    /// The same with a note.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }
}

/// What has to be known about figures before one believes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Of which kind the origin is.
    pub origin: Origin,
    /// By what, and how surely.
    pub text: Text,
}

/// Where figures come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// From a meter.
    Measured,
    /// From a model.
    Modelled,
    /// A guess, to be replaced by the reader's own figure.
    Assumed,
    /// Counted in a log: as true as the log.
    Counted,
    /// Not an origin: something to beware of.
    Caution,
}

impl Origin {
    /// As the page says it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Measured => "Measured",
            Self::Modelled => "Modelled",
            Self::Assumed => "Assumed",
            Self::Counted => "Counted",
            Self::Caution => "Careful",
        }
    }
}

impl Note {
    /// A note of this kind.
    pub fn new(origin: Origin, text: impl Into<Text>) -> Self {
        Self { origin, text: text.into() }
    }

    /// What an energy figure says of itself: `Modelled by …, ± 5.0 % (95 %)`.
    pub fn of_energy(energy: &Energy) -> Self {
        let (origin, by) = match &energy.provenance {
            Provenance::Measured { meter } => (Origin::Measured, meter.clone()),
            Provenance::Modelled { model } => (Origin::Modelled, model.clone()),
            // A part is a model's, and so is the whole.
            Provenance::Mixed { meter, model, measured_share } => {
                let share = measured_share * 100.0;
                (Origin::Modelled, format!("{model}, except {share:.1} % measured by {meter}"))
            }
        };
        let share = energy.uncertainty.get() / energy.joules.get().abs();
        let surely = if share.is_finite() {
            format!(", ± {:.1} % (95 %)", share * 100.0)
        } else {
            format!(", ± {:.1} J (95 %)", energy.uncertainty.get())
        };
        Self::new(origin, Text::from("by ").plain(by).plain(surely))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nightwatt_energy::quantity::Joules;

    #[test]
    fn a_note_says_what_the_energy_says_of_itself() {
        let energy = Energy::modelled(Joules(200.0), 0.05, "power states");
        let note = Note::of_energy(&energy);
        assert_eq!(note.origin, Origin::Modelled);
        let said = |note: &Note| -> String {
            note.text.0.iter().map(|(_, words)| words.as_str()).collect()
        };
        assert_eq!(said(&note), "by power states, ± 5.0 % (95 %)");
        let nothing = Note::of_energy(&Energy::modelled(Joules::ZERO, 0.05, "none"));
        assert_eq!(said(&nothing), "by none, ± 0.0 J (95 %)");
    }

    #[test]
    fn tables_are_found_in_details_too() {
        let table = |caption: &str| Table::new(caption, Vec::new());
        let hidden = Block::Details { summary: "more".to_owned(), blocks: vec![table("b").into()] };
        let mut document = Document::new("t");
        document.sections.push(Section::new("s", vec![table("a").into(), hidden]));
        document.sections.push(Section::new("u", vec![table("c").into()]));
        let captions: Vec<_> = document.tables().iter().map(|it| it.caption.as_str()).collect();
        assert_eq!(captions, ["a", "b", "c"]);
    }
}
