//! The page.

use std::fmt::Write;

use crate::assets;
use crate::chart::Chart;
use crate::document::{Block, Document, KeyFigure, Note, Origin, Text, Tone};
use crate::escape;
use crate::figures::grouped;
use crate::table::{Align, Cell, Column, Table};

/// Sections from which on a page has a list of them.
const CONTENTS_FROM: usize = 4;

impl Document {
    /// The report as one HTML file that loads nothing: style, scripts and data are in it. The same
    /// document gives the same bytes.
    pub fn to_html(&self) -> String {
        page(self)
    }
}

fn page(document: &Document) -> String {
    let mut body = Body::default();
    let leads = has_leading_figures(document);
    for (index, section) in document.sections.iter().enumerate() {
        let _ = write!(body.html, "<section aria-labelledby=\"s{index}\"><h2 id=\"s{index}\">");
        escape::html(&section.title, &mut body.html);
        body.html.push_str("</h2>\n");
        body.blocks(&section.blocks);
        body.html.push_str("</section>\n");
        if leads && index == 0 {
            warnings(document, &mut body.html);
        }
    }
    let scripts = assets::scripts(!body.charts.is_empty());
    let mut out = head(document, &assets::policy(&scripts));
    contents(document, &mut out);
    out.push_str("<main>\n");
    if !leads {
        warnings(document, &mut out);
    }
    out.push_str(&body.html);
    out.push_str("</main>\n");
    if !document.generated.is_empty() {
        out.push_str("<footer><p>");
        escape::html(&document.generated, &mut out);
        out.push_str("</p></footer>\n");
    }
    out.push_str("<script type=\"application/json\" id=\"charts\">");
    let charts: Vec<_> = body.charts.iter().map(|chart| chart.data()).collect();
    out.push_str(&escape::json(&charts));
    out.push_str("</script>\n");
    for script in scripts {
        out.push_str("<script>");
        out.push_str(script);
        out.push_str("</script>\n");
    }
    out.push_str("</body>\n</html>\n");
    out
}

fn head(document: &Document, policy: &str) -> String {
    let mut out = String::from("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n");
    out.push_str("<meta charset=\"utf-8\">\n");
    // Before anything that could load or run.
    let _ = writeln!(out, "<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">");
    out.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    out.push_str("<meta name=\"color-scheme\" content=\"light dark\">\n");
    out.push_str("<meta name=\"referrer\" content=\"no-referrer\">\n");
    out.push_str("<link rel=\"icon\" href=\"data:,\">\n<title>");
    escape::html(&document.title, &mut out);
    out.push_str("</title>\n<style>");
    out.push_str(assets::STYLE);
    out.push_str("</style>\n</head>\n<body>\n<header>\n<h1>");
    escape::html(&document.title, &mut out);
    out.push_str("</h1>\n");
    if document.subtitle != Text::default() {
        out.push_str("<p>");
        text(&document.subtitle, &mut out);
        out.push_str("</p>\n");
    }
    if document.verdict != Text::default() {
        out.push_str("<p class=\"verdict\">");
        text(&document.verdict, &mut out);
        out.push_str("</p>\n");
    }
    if !document.careful.is_empty() {
        note(&Note::new(Origin::Caution, document.careful.as_str()), &mut out);
    }
    out.push_str("</header>\n");
    out
}

/// Whether the page begins with figures that are its verdict: they stand before the warnings.
fn has_leading_figures(document: &Document) -> bool {
    let first = document.sections.first().and_then(|section| section.blocks.first());
    document.verdict == Text::default() && matches!(first, Some(Block::Figures(_)))
}

fn warnings(document: &Document, out: &mut String) {
    for warning in &document.warnings {
        note(&Note::new(Origin::Caution, Text::marked(warning)), out);
    }
}

fn contents(document: &Document, out: &mut String) {
    if document.sections.len() < CONTENTS_FROM {
        return;
    }
    out.push_str("<nav aria-label=\"Contents\"><ul>");
    for (index, section) in document.sections.iter().enumerate() {
        let _ = write!(out, "<li><a href=\"#s{index}\">");
        escape::html(&section.title, out);
        out.push_str("</a></li>");
    }
    out.push_str("</ul></nav>\n");
}

/// What stands between head and foot, and the charts met on the way.
#[derive(Default)]
struct Body<'a> {
    html: String,
    charts: Vec<&'a Chart>,
}

impl<'a> Body<'a> {
    fn blocks(&mut self, blocks: &'a [Block]) {
        for block in blocks {
            self.block(block);
        }
    }

    fn block(&mut self, block: &'a Block) {
        let out = &mut self.html;
        match block {
            Block::Paragraph(words) => {
                out.push_str("<p>");
                text(words, out);
                out.push_str("</p>\n");
            }
            Block::List(items) => {
                out.push_str("<ul>");
                for item in items {
                    out.push_str("<li>");
                    text(item, out);
                    out.push_str("</li>");
                }
                out.push_str("</ul>\n");
            }
            Block::Figures(figures) => key_figures(figures, out),
            Block::Table(it) => table(it, out),
            Block::Note(it) => note(it, out),
            Block::Chart(it) => self.chart(it),
            Block::Details { summary, blocks } => {
                out.push_str("<details><summary>");
                escape::html(summary, out);
                out.push_str("</summary>\n");
                self.blocks(blocks);
                self.html.push_str("</details>\n");
            }
        }
    }

    /// A chart: a canvas that stays hidden until a script has drawn on it, and the same numbers as
    /// a table, which is open until then.
    fn chart(&mut self, chart: &'a Chart) {
        let index = self.charts.len();
        self.charts.push(chart);
        let out = &mut self.html;
        let _ = write!(out, "<figure class=\"chart\" id=\"chart{index}\"><figcaption><b>");
        escape::html(&chart.title, out);
        out.push_str("</b>");
        if !chart.description.is_empty() {
            out.push_str("<span>");
            escape::html(&chart.description, out);
            out.push_str("</span>");
        }
        out.push_str(
            "</figcaption>\n<div class=\"plot\"><canvas role=\"img\" aria-label=\"Chart: ",
        );
        escape::html(&chart.title, out);
        if !chart.description.is_empty() {
            out.push_str(". ");
            escape::html(&chart.description, out);
        }
        out.push_str("\"></canvas></div>\n");
        let left_out = chart.left_out();
        if left_out > 0 {
            let points = if left_out == 1 { "point has" } else { "points have" };
            let left_out = grouped(left_out as f64, 0);
            let _ = writeln!(
                out,
                "<p class=\"fine\">{left_out} {points} no place on these axes (on a scale of ratios \
                 there is no 0); the table has all.</p>"
            );
        }
        out.push_str("<details class=\"data\" open><summary>The numbers of this chart</summary>\n");
        let (numbers, total) = chart.table();
        if numbers.rows.len() < total {
            let (shown, total) = (grouped(numbers.rows.len() as f64, 0), grouped(total as f64, 0));
            let _ = writeln!(
                out,
                "<p class=\"fine\">{shown} of {total} points, evenly chosen; the chart has all.</p>"
            );
        }
        table(&Table { caption: String::new(), ..numbers }, out);
        out.push_str("</details></figure>\n");
    }
}

fn text(text: &Text, out: &mut String) {
    for (tone, words) in &text.0 {
        let (open, close) = match tone {
            Tone::Plain => ("", ""),
            Tone::Strong => ("<strong>", "</strong>"),
            Tone::Emphasis => ("<em>", "</em>"),
            Tone::Code => ("<code>", "</code>"),
            Tone::Path => {
                // A word before a colon would be a scheme: `./` makes a path of whatever follows.
                out.push_str("<a href=\"./");
                escape::html(words, out);
                ("\">", "</a>")
            }
        };
        out.push_str(open);
        escape::html(words, out);
        out.push_str(close);
    }
}

fn key_figures(figures: &[KeyFigure], out: &mut String) {
    out.push_str("<dl class=\"figures\">");
    for figure in figures {
        out.push_str("<div><dt>");
        escape::html(&figure.label, out);
        out.push_str("</dt><dd><b>");
        escape::html(&figure.value, out);
        out.push_str("</b>");
        if !figure.note.is_empty() {
            out.push_str("<span>");
            escape::html(&figure.note, out);
            out.push_str("</span>");
        }
        out.push_str("</dd></div>");
    }
    out.push_str("</dl>\n");
}

fn note(note: &Note, out: &mut String) {
    let word = note.origin.word();
    let _ = write!(out, "<p class=\"note {}\"><b>{word}</b> ", word.to_ascii_lowercase());
    text(&note.text, out);
    out.push_str("</p>\n");
}

fn table(table: &Table, out: &mut String) {
    // Without a mouse a reader can scroll only a region that can have the focus; it then needs a name.
    out.push_str("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Table");
    if !table.caption.is_empty() {
        out.push_str(": ");
        escape::html(&table.caption, out);
    }
    out.push_str("\"><table>");
    if !table.caption.is_empty() {
        out.push_str("<caption>");
        escape::html(&table.caption, out);
        out.push_str("</caption>");
    }
    out.push_str("<thead><tr>");
    for column in &table.columns {
        let _ = write!(out, "<th scope=\"col\"{}>", class(column));
        escape::html(&column.title, out);
        if !column.unit.is_empty() {
            out.push_str(" <small>");
            escape::html(&column.unit, out);
            out.push_str("</small>");
        }
        out.push_str("</th>");
    }
    out.push_str("</tr></thead>\n<tbody>");
    for row in &table.rows {
        out.push_str("<tr>");
        for (index, column) in table.columns.iter().enumerate() {
            cell(row.get(index).unwrap_or(&Cell::Empty), column, out);
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
}

const fn class(column: &Column) -> &'static str {
    match column.align {
        Align::Left => "",
        Align::Right => " class=\"n\"",
    }
}

/// The darkest of the classes `heat-0` to `heat-8` of the style sheet.
const SHADES: f64 = 8.0;

fn cell(cell: &Cell, column: &Column, out: &mut String) {
    let class = class(column);
    match cell {
        Cell::Text(words) => {
            let _ = write!(out, "<td{class}>");
            escape::html(words, out);
        }
        // The value for sorting: what is shown is rounded, and grouped by commas.
        Cell::Number { value, decimals } if value.is_finite() => {
            let _ = write!(out, "<td{class} data-v=\"{value}\">{}", grouped(*value, *decimals));
        }
        Cell::Shaded { value, decimals, shade } if value.is_finite() => {
            // A page may have no styles of its own, so each shade is a class.
            let shade = (shade.clamp(0.0, 1.0) * SHADES).round();
            let text = grouped(*value, *decimals);
            let _ = write!(out, "<td class=\"n heat-{shade}\" data-v=\"{value}\">{text}");
        }
        Cell::Number { .. } | Cell::Shaded { .. } | Cell::Empty => {
            let _ = write!(out, "<td{class}>–");
        }
    }
    out.push_str("</td>");
}
