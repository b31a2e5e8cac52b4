//! Mining as a page.

use nightwatt_report::{Block, Document, KeyFigure, Note, Origin, Section, Text};

use super::result::Mining;
use super::text::short;

impl Mining {
    /// The report; `generated` says by what and when it was made.
    pub fn document(&self, generated: String) -> Document {
        let mut document = Document::new(format!("Mining {}", self.coin));
        let day = self.day.as_ref().map(|day| format!(", of {day}")).unwrap_or_default();
        document.subtitle = Text::from(format!("Difficulty {}{day}", self.difficulty));
        document.generated = generated;
        let mut sections = vec![self.block_section()];
        if !self.history.is_empty() {
            let charts = self.charts().into_iter().map(Block::from).collect();
            sections.push(Section::new("Over the years", charts));
            let mut blocks = vec![Block::from(self.years_table())];
            if !self.bands.is_empty() {
                blocks.push(self.bands_table().into());
            }
            sections.push(Section::new("The network", blocks));
        }
        sections.push(Section::new("Devices", vec![self.devices_table().into()]));
        if !self.gaps.is_empty() {
            let note = Note::new(
                Origin::Caution,
                "days that the history lacks are left out of tables and charts: nothing was made up for \
                 them.",
            );
            sections.push(Section::new("Gaps", vec![note.into(), self.gaps_table().into()]));
        }
        document.sections = sections;
        document
    }

    fn block_section(&self) -> Section {
        let number = |digits: &str| short(digits.parse().unwrap_or(f64::NAN));
        let unit = self.hashes_word();
        // All digits in small type: in large type they have no room.
        let all = |digits: &str, exact: &Option<String>| match exact {
            Some(exact) => format!("{digits}; exactly {exact}"),
            None => digits.to_owned(),
        };
        let figures = vec![
            KeyFigure::new("Expected work of a block", format!("{} {unit}", number(&self.hashes)))
                .note(all(&self.hashes, &self.exact_hashes)),
            KeyFigure::new(
                format!("Expected time at {} {unit}/s", self.hash_rate),
                format!("{} s", number(&self.expected_s)),
            )
            .note(all(&self.expected_s, &self.exact_expected_s)),
            KeyFigure::new(
                "The whole network",
                format!("{} {}/s", short(self.network_hash_rate), self.hashes_word()),
            )
            .note(format!("a block every {} s", self.block_time_s)),
        ];
        let bounds = format!(
            "at {} {}/kWh. Energy of the devices alone: no cooling, no pool's fees, nothing for the device.",
            self.per_kwh, self.currency
        );
        Section::new(
            "A block",
            vec![Block::Figures(figures), Note::new(Origin::Modelled, bounds).into()],
        )
    }
}
