use nightwatt_report::{
    Axis, Block, Chart, Column, Document, KeyFigure, Note, Origin, Scale, Section, Series,
    SeriesKind, Table, Text,
};
use proptest::prelude::*;

use crate::sample;

/// The same text wherever a document takes text.
fn everywhere(text: &str) -> Document {
    let words = || Text::from(text).strong(text).emphasis(text).code(text).beside(text);
    let axis = || Axis::new(text, text, Scale::Category(vec![text.to_owned()]));
    let chart = Chart::new(text, axis(), Axis::new(text, text, Scale::FromZero))
        .description(text)
        .series(Series::new(text, SeriesKind::Bar).labelled(0.0, 1.0, text))
        .line_at_y(1.0, text);
    let columns = vec![Column::text(text), Column::number(text, text)];
    let table = Table::new(text, columns).row(vec![text.into(), text.into()]);
    let mut document = Document::new(text);
    document.subtitle = words();
    text.clone_into(&mut document.generated);
    let blocks = vec![
        words().into(),
        Block::List(vec![words()]),
        Block::Figures(vec![KeyFigure::new(text, text).note(text)]),
        chart.into(),
        Note::new(Origin::Measured, words()).into(),
        Block::Details { summary: text.to_owned(), blocks: vec![table.into()] },
    ];
    document.sections = (0..4).map(|_| Section::new(text, blocks.clone())).collect();
    document
}

/// Names of all elements in the order of the page, as a tokeniser sees them that knows of HTML only
/// that scripts and styles end with their end tag. (Charts' data is data: its text is left out.)
fn elements(html: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut rest = html;
    while let Some(start) = rest.find('<') {
        rest = &rest[start + 1..];
        let end = rest.find([' ', '>']).unwrap();
        let name = rest[..end].to_owned();
        rest = &rest[rest.find('>').unwrap() + 1..];
        if name == "script" || name == "style" {
            rest = &rest[rest.find(&format!("</{name}")).unwrap()..];
        }
        names.push(name);
    }
    names
}

/// Names of all attributes and the whole text of the page's own markup.
fn attributes(html: &str) -> Vec<&str> {
    html.split_whitespace().filter_map(|word| word.split_once("=\"").map(|it| it.0)).collect()
}

/// The part in which a document's text is.
fn body(html: &str) -> &str {
    let start = html.find("<body>").unwrap();
    &html[start..html.find("<script type=\"application/json\"").unwrap()]
}

const HOSTILE: [&str; 10] = [
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "\" onmouseover=\"alert(1)",
    "' onfocus='alert(1)' autofocus='",
    "<img src=x onerror=alert(1)>",
    "</title></style></textarea><svg onload=alert(1)>",
    "&lt;script&gt;&#0;&NotAnEntity;",
    "javascript:alert(1)",
    "\u{202e}txt.exe\u{2028}\u{2029}\0\u{1b}[2J",
    "]]><?php echo 1 ?>{{7*7}}${7*7}`",
];

#[test]
fn no_text_becomes_markup() {
    let harmless = elements(&everywhere("text").to_html());
    for text in HOSTILE {
        let html = everywhere(text).to_html();
        assert_eq!(elements(&html), harmless, "{text}");
        for name in attributes(body(&html)) {
            assert!(!name.starts_with("on") && name != "style" && name != "src", "{name}: {text}");
        }
    }
}

#[test]
fn charts_data_is_read_back_as_it_was() {
    for text in HOSTILE {
        let html = everywhere(text).to_html();
        let start = html.find("id=\"charts\">").unwrap() + "id=\"charts\">".len();
        let island = &html[start..start + html[start..].find("</script>").unwrap()];
        let data: serde_json::Value = serde_json::from_str(island).unwrap();
        assert_eq!(data.as_array().unwrap().len(), 4);
        assert_eq!(data[0]["title"], text);
        assert_eq!(data[0]["series"][0]["points"][0]["label"], text);
        assert_eq!(data[0]["x"]["names"][0], text);
    }
}

#[test]
fn the_page_loads_nothing_and_allows_nothing_but_its_own() {
    let html = sample::document().to_html();
    let policy = html.split("Content-Security-Policy\" content=\"").nth(1).unwrap();
    let policy = policy.split('"').next().unwrap();
    assert!(policy.starts_with("default-src 'none'; script-src 'sha256-"));
    for loose in ["unsafe", "http", "*", "nonce", "blob:"] {
        assert!(!policy.contains(loose), "{loose}");
    }
    // Three scripts and one style, each by its hash; a policy says so before anything could load.
    assert_eq!(policy.matches("'sha256-").count(), 4);
    assert_eq!(html.matches("<script>").count(), 3);
    let first = html.find("<meta http-equiv").unwrap();
    assert!(first < html.find("<link").unwrap() && first < html.find("<style").unwrap());
    let markup = format!("{}{}", &html[..html.find("<style>").unwrap()], body(&html));
    for load in [" src=", " srcset=", " style=", "http://", "https://", "@import", "url("] {
        assert!(!markup.contains(load), "{load}");
    }
    for target in markup.split("href=\"").skip(1) {
        assert!(target.starts_with('#') || target.starts_with("data:,\""), "{target:.40}");
    }
}

#[test]
fn a_link_leads_to_what_lies_beside_the_page_whatever_it_is_called() {
    for (path, target) in [
        ("runs/0001/", "./runs/0001/"),
        ("javascript:alert(1)", "./javascript:alert(1)"),
        ("a\"b", "./a&quot;b"),
    ] {
        let mut document = Document::new("links");
        document.sections.push(Section::new("s", vec![Text::default().beside(path).into()]));
        let html = document.to_html();
        assert!(html.contains(&format!("<a href=\"{target}\">")), "{path}");
    }
}

#[test]
fn a_page_without_charts_has_no_library() {
    let mut document = Document::new("short");
    document.sections.push(Section::new("s", vec![Text::from("words").into()]));
    let html = document.to_html();
    assert!(html.len() < 20_000 && !html.contains("Chart.js"), "{} bytes", html.len());
}

#[test]
fn the_same_document_gives_the_same_bytes() {
    assert_eq!(sample::document().to_html(), sample::document().to_html());
}

#[test]
fn without_scripts_every_chart_is_a_table() {
    let html = sample::document().to_html();
    assert_eq!(html.matches("<canvas role=\"img\" aria-label=\"Chart: ").count(), sample::CHARTS);
    assert_eq!(html.matches("<details class=\"data\" open>").count(), sample::CHARTS);
    assert!(html.contains("<td>always-on</td>"), "also the point that a log axis leaves out");
    assert!(html.contains("1 point has no place on these axes"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn whatever_the_text_the_elements_are_the_same(text in any::<String>()) {
        // One character at least: what is empty is left out, heading and all.
        let found = elements(&everywhere(&format!("x{text}")).to_html());
        prop_assert_eq!(found, elements(&everywhere("x").to_html()));
    }
}

#[test]
fn words_between_backticks_in_a_warning_are_code() {
    let mut document = Document::new("title");
    document.warnings =
        vec!["the clock was changed: `--fresh` starts over, <as> before".to_owned()];
    let page = document.to_html();
    assert!(page.contains(": <code>--fresh</code> starts over, &lt;as&gt; before"), "{page}");
}

#[test]
fn what_was_found_stands_before_warnings() {
    let mut document = Document::new("title");
    document.warnings = vec!["the machine was busy".to_owned()];
    let figures = vec![KeyFigure::new("podman", "cannot tell")];
    document.sections = vec![Section::new("In short", vec![Block::Figures(figures)])];
    let place = |document: &Document, words: &str| document.to_html().find(words).unwrap();
    assert!(place(&document, "cannot tell") < place(&document, "the machine was busy"));
    document.verdict = Text::from("It saves 48 %.");
    assert!(place(&document, "It saves 48 %.") < place(&document, "the machine was busy"));
    assert!(place(&document, "the machine was busy") < place(&document, "cannot tell"));
}
