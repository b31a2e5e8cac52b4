//! The claims as a report, with ours beside theirs in pictures.

use nightwatt_report::{
    Axis, Block, Chart, Document, KeyFigure, Note, Origin, Scale, Section, Series, SeriesKind,
    Table, Text,
};

use super::{Answered, Figure, Reproduction, Verdict};

impl Reproduction {
    /// The report for a terminal.
    pub fn text(&self) -> String {
        self.document(String::new()).to_text()
    }

    /// The report; `generated` says by what and when it was made.
    pub fn document(&self, generated: String) -> Document {
        let mut document = Document::new("Published claims, ours beside theirs");
        let counts =
            Verdict::ALL.map(|verdict| format!("{} {}", self.ids(verdict).len(), verdict.as_str()));
        let claims = match self.claims.len() {
            1 => "1 claim".to_owned(),
            count => format!("{count} claims"),
        };
        let log = self.log.as_ref().map(|log| format!(" Log: {log}.")).unwrap_or_default();
        document.verdict = Text::from(format!("{claims}: {}.{log}", counts.join(", ")));
        document.generated = generated;
        let figures = Verdict::ALL.map(|verdict| {
            let ids = self.ids(verdict);
            KeyFigure::new(verdict.as_str(), ids.len().to_string()).note(ids.join(" "))
        });
        let all = Table::of("", &self.claims)
            .text("claim", |it| it.id)
            .text("verdict", |it| it.verdict.as_str())
            .text("kind", |it| it.kind.as_str())
            .text("what they say", |it| it.claim.as_str())
            .text("who", |it| it.source.as_str());
        let notes: Vec<Text> = self.notes.iter().map(|note| Text::marked(note)).collect();
        let notes = (!notes.is_empty()).then_some(Block::List(notes));
        document
            .sections([
                Section::new("In short", vec![Block::Figures(figures.into())]),
                Section::new("All claims", vec![all.into()]).detail(),
            ])
            .sections(self.claims.iter().map(section))
            .sections([Section::new("Notes", notes.into_iter().collect())])
    }

    fn ids(&self, verdict: Verdict) -> Vec<&str> {
        self.claims.iter().filter(|it| it.verdict == verdict).map(|it| it.id).collect()
    }
}

fn section(it: &Answered) -> Section {
    let mut blocks: Vec<Block> = vec![Text::from(format!("{}.", it.claim)).into()];
    blocks.extend(charts(it).into_iter().map(Block::from));
    if !it.figures.is_empty() {
        blocks.push(Figure::table(&it.figures).into());
    }
    let why = Text::marked(&it.why);
    let is_modelled = it.kind == "simulated" && it.verdict <= Verdict::Differs;
    blocks.push(if is_modelled { Note::new(Origin::Modelled, why).into() } else { why.into() });
    Section::new(format!("{}: {}", it.id, it.verdict.as_str()), blocks)
}

/// A chart for each unit: ours as points, theirs with what they span.
fn charts(it: &Answered) -> Vec<Chart> {
    let mut units: Vec<&'static str> = Vec::new();
    // What is only counted needs no picture.
    let drawn = |figure: &&Figure| figure.published.is_some() && !figure.unit.is_empty();
    for figure in it.figures.iter().filter(drawn) {
        if !units.contains(&figure.unit) {
            units.push(figure.unit);
        }
    }
    let chart = |unit: &'static str| {
        let figures: Vec<&Figure> = it.figures.iter().filter(|it| it.unit == unit).collect();
        let names = figures.iter().map(|figure| figure.what.clone()).collect();
        let values = figures.iter().flat_map(|it| [Some(it.ours), it.published.map(|it| it.0)]);
        let values: Vec<f64> = values.flatten().filter(|it| it.is_finite()).collect();
        let most = values.iter().copied().fold(0.0, f64::max);
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        // What spans more than two powers of ten is drawn by ratio.
        let scale = if least > 0.0 && most / least > 100.0 { Scale::Log } else { Scale::FromZero };
        let title = format!("{}: ours beside theirs [{unit}]", it.id);
        let mut ours = Series::new("ours", SeriesKind::Scatter);
        let mut theirs = Series::new("published", SeriesKind::Scatter);
        for (place, figure) in figures.iter().enumerate() {
            ours = ours.between(place as f64, figure.ours, None);
            let Some((from, to)) = figure.published else { continue };
            let to = if to.is_finite() { to } else { from };
            let whiskers = (from < to).then_some((from, to));
            theirs = theirs.between(place as f64, f64::midpoint(from, to), whiskers);
        }
        Chart::new(title, Axis::new("", "", Scale::Category(names)), Axis::new("", unit, scale))
            .description(
                "Ours as computed or measured here, theirs as printed; whiskers are printed spans.",
            )
            .series(ours)
            .series(theirs)
    };
    units.into_iter().map(chart).collect()
}
