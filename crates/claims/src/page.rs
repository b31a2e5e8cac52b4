//! The claims as a page, with ours beside theirs in pictures.

use nightwatt_report::{
    Axis, Block, Cell, Chart, Column, Document, KeyFigure, Kind, Note, Origin, Scale, Section,
    Series, Table, Text,
};

use super::{Answered, Figure, Reproduction, Verdict};

impl Reproduction {
    /// The report; `generated` says by what and when it was made.
    pub fn document(&self, generated: String) -> Document {
        let mut document = Document::new("Published claims, ours beside theirs");
        if let Some(log) = &self.log {
            document.subtitle = Text::from(format!("Claims about a log: {log}"));
        }
        document.generated = generated;
        document.sections.push(self.short());
        for it in &self.claims {
            document.sections.push(section(it));
        }
        document
    }

    fn short(&self) -> Section {
        let figures = Verdict::ALL.map(|verdict| {
            let of_it: Vec<&str> =
                self.claims.iter().filter(|it| it.verdict == verdict).map(|it| it.id).collect();
            KeyFigure::new(verdict.as_str(), of_it.len().to_string()).note(of_it.join(" "))
        });
        let columns =
            ["claim", "verdict", "kind", "what they say"].map(Column::text).into_iter().collect();
        let mut table = Table::new("All claims", columns);
        for it in &self.claims {
            table = table.row(vec![
                it.id.into(),
                it.verdict.as_str().into(),
                it.kind.as_str().into(),
                it.claim.as_str().into(),
            ]);
        }
        Section::new("In short", vec![Block::Figures(figures.into()), table.into()])
    }
}

fn section(it: &Answered) -> Section {
    let mut blocks: Vec<Block> =
        vec![Text::from(it.claim.as_str()).plain(". ").emphasis(it.source.as_str()).into()];
    if it.kind == "simulated" && it.verdict <= Verdict::Differs {
        blocks.push(Note::new(Origin::Modelled, it.why.as_str()).into());
    } else {
        blocks.push(Text::from(it.why.as_str()).into());
    }
    blocks.extend(charts(it).into_iter().map(Block::from));
    if !it.figures.is_empty() {
        blocks.push(table(it).into());
    }
    Section::new(format!("{}: {}", it.id, it.verdict.as_str()), blocks)
}

fn table(it: &Answered) -> Table {
    let columns = vec![
        Column::text("figure"),
        Column::text("ours"),
        Column::text("published"),
        Column::text("accepted"),
        Column::text("unit"),
        Column::text("verdict"),
    ];
    let mut table = Table::new(format!("{}, figure by figure", it.id), columns);
    for figure in &it.figures {
        table = table.row(vec![
            figure.what.as_str().into(),
            figure.ours_in_words().into(),
            figure.published_in_words().unwrap_or_default().into(),
            figure.accepted_in_words().map_or(Cell::Empty, Cell::from),
            figure.unit.into(),
            figure.agrees.map_or(Cell::Empty, |agrees| Verdict::of(agrees).as_str().into()),
        ]);
    }
    table
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
        let mut ours = Series::new("ours", Kind::Scatter);
        let mut theirs = Series::new("published", Kind::Scatter);
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
