//! Reports as data, and what is made of them: one HTML file that needs nothing else, and CSV.
//!
//! Pure: a [`Document`] comes in, text goes out; the same document gives the same bytes. Anything in it may
//! come from a log, and so from any client: all text is escaped, and the page's Content-Security-Policy
//! forbids it to run anything but its own scripts or to load anything at all.
//!
//! ```
//! use nightwatt_report::{Block, Column, Document, Section, Table, Text};
//!
//! let table = Table::new("Answers", vec![Column::text("answer"), Column::number("share", "%")])
//!     .row(vec!["hit".into(), nightwatt_report::Cell::number(61.25, 1)]);
//! let mut document = Document::new("A week of example.org");
//! document.generated = "nightwatt 0.1.0, 2026-11-21".to_owned();
//! let text = Text::from("Most of it came ").strong("from the cache");
//! document.sections.push(Section::new("Cache", vec![text.into(), table.clone().into()]));
//! assert!(document.to_html().contains("61.2"));
//! assert_eq!(table.to_csv(), "answer,share [%]\r\nhit,61.25\r\n");
//! ```

mod anonymise;
mod assets;
mod chart;
mod document;
mod escape;
pub mod exposition;
mod figures;
mod html;
mod table;

pub use anonymise::{Addresses, KEY_BYTES, without_query};
pub use chart::{Axis, Chart, Kind, Point, Reference, Scale, Series};
pub use document::{Block, Document, KeyFigure, Note, Origin, Section, Text};
pub use escape::escaped;
pub use figures::grouped;
pub use table::{Align, Cell, Column, Table};
