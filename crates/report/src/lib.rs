//! Reports as data, and what is made of them: text for a terminal, one HTML file that needs nothing else, and
//! CSV. A subject says what there is to show; how it looks is decided here.
//!
//! Pure: a [`Document`] comes in, text goes out; the same document gives the same bytes. Anything in it may
//! come from a log, and so from any client: all text is escaped, and the page's Content-Security-Policy
//! forbids it to run anything but its own scripts or to load anything at all.
//!
//! ```
//! use nightwatt_report::{Document, Section, Table, Text};
//!
//! let answers = [("hit", 61.25), ("miss", 38.75)];
//! let table = Table::of("Answers", &answers).text("answer", |it| it.0).number("share", "%", 1, |it| it.1);
//! let table = Table::from(table);
//! let mut document = Document::new("A week of example.org");
//! document.generated = "nightwatt 0.1.0, 2026-11-21".to_owned();
//! let text = Text::from("Most of it came ").strong("from the cache");
//! document.sections.push(Section::new("Cache", vec![text.into(), table.clone().into()]));
//! assert!(document.to_html().contains("61.2"));
//! assert_eq!(table.to_csv(), "answer,share [%]\r\nhit,61.25\r\nmiss,38.75\r\n");
//! assert!(document.to_text().ends_with("  answer  share [%]\n  hit          61.2\n  miss         38.8\n"));
//! ```

mod anonymise;
mod assets;
mod chart;
pub mod csv;
mod document;
mod escape;
pub mod exposition;
pub mod figures;
mod folded;
mod html;
mod rows;
mod table;
mod text;

pub use anonymise::{Addresses, KEY_BYTES, without_query};
pub use chart::{Axis, Chart, Point, Reference, Scale, Series, SeriesKind};
pub use document::{Block, Document, KeyFigure, Note, Origin, Section, Text};
pub use escape::escaped;
pub use figures::grouped;
pub use folded::folded;
pub use rows::{Figure, Rows};
pub use table::{Align, Cell, Column, Table};
pub use text::wrapped;
