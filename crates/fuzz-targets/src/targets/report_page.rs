//! Pages and CSV of any text: nothing in it becomes markup, ends a script, or leaves its field.

use nightwatt_report::{
    Axis, Block, Chart, Column, Document, KeyFigure, Note, Origin, Scale, Section, Series,
    SeriesKind, Table, Text, without_query,
};

use crate::typed;

/// Runs the target on one input.
pub fn run(bytes: &[u8]) {
    let Some(text) = typed::<&str>(bytes) else { return };
    let words = || Text::from(text).strong(text).emphasis(text).code(text);
    let names = Axis::new(text, text, Scale::Category(vec![text.to_owned()]));
    let chart = Chart::new(text, names, Axis::new(text, text, Scale::FromZero))
        .description(text)
        .series(Series::new(text, SeriesKind::Bar).labelled(0.0, 1.0, text))
        .line_at_y(1.0, text);
    let columns = vec![Column::text(text), Column::number(text, text)];
    let table = Table::new(text, columns).row(vec![text.into(), text.into()]);
    let csv = table.to_csv();
    let blocks = vec![
        Block::Figures(vec![KeyFigure::new(text, text).note(text)]),
        chart.into(),
        Note::new(Origin::Counted, words()).into(),
        Block::Details { summary: text.to_owned(), blocks: vec![table.into(), words().into()] },
    ];
    let mut document = Document::new(text);
    document.sections.push(Section::new(text, blocks));
    let html = document.to_html();

    // The scripts and the style are ours; their ends are the only ones there are.
    assert_eq!(html.matches("<script").count(), 4);
    let before = html[..html.find("<script>").expect("scripts")].to_ascii_lowercase();
    assert_eq!(before.matches("</script").count(), 1, "that of the data");
    assert_eq!(before.matches("</style").count(), 1);
    let body = &html[html.find("<body>").expect("a body")..];
    let body = &body[..body.find("<script type=\"application/json\"").expect("data")];
    // Every quote and bracket in the body belongs to markup, of which there is always as much.
    assert_eq!(body.matches('<').count(), body.matches('>').count());
    assert_eq!(body.matches('"').count() % 2, 0);
    assert!(!body.contains('\''), "an apostrophe of the text is escaped");

    // Two records of two fields: an even number of quotes, and no formula at a field's beginning.
    assert!(csv.ends_with("\r\n") && csv.matches('"').count().is_multiple_of(2));
    let first = csv.strip_prefix('"').unwrap_or(&csv);
    assert!(!first.starts_with(['=', '+', '-', '@', '\t']), "{first:?}");
    assert!(!without_query(text).contains("?token="));
}
