//! Sitemaps (sitemaps.org, with images and languages) and feeds (RSS 2.0, RSS 1.0, Atom).
//!
//! The pull parser (quick-xml) does not expand entities that a document declares, so no text grows.

use nightwatt_httpcache::Timestamp;
use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use super::{Found, LinkKind, dates};

/// Text of one element beyond this does not count.
const LONGEST_TEXT: usize = 8192;

/// Finds the links of a sitemap, an index of sitemaps, or a feed. XML of another kind has none.
pub fn links(text: &[u8]) -> Found {
    let text = String::from_utf8_lossy(text);
    let text = text.trim_start_matches('\u{feff}').trim_start();
    let mut reader = Reader::from_str(text);
    let config = reader.config_mut();
    config.check_end_names = false;
    config.allow_dangling_amp = true;
    let mut document = Reading::default();
    // What comes behind an error is lost, what came before it counts.
    while let Ok(event) = reader.read_event() {
        match event {
            Event::Start(tag) => document.start(&tag),
            Event::Empty(tag) => {
                document.start(&tag);
                document.end(tag.local_name().as_ref());
            }
            Event::End(tag) => document.end(tag.local_name().as_ref()),
            Event::Text(text) => document.text(&text.xml10_content()),
            Event::CData(text) => document.text(&text.xml10_content()),
            Event::GeneralRef(name) => document.reference(&name),
            Event::Eof => break,
            _ => {}
        }
    }
    document.flush();
    document.found
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Unknown,
    Sitemap,
    Index,
    Feed,
    /// Neither: nothing is looked for.
    Other,
}

/// One entry of a sitemap or a feed, as far as it has been read.
#[derive(Default)]
struct Entry {
    pages: Vec<(String, LinkKind)>,
    modified: Option<Timestamp>,
}

#[derive(Default)]
struct Reading {
    kind: Kind,
    found: Found,
    entry: Entry,
    /// Text of the innermost element.
    text: String,
    /// A `guid` that is not a link.
    is_no_link: bool,
}

impl Reading {
    fn start(&mut self, tag: &BytesStart<'_>) {
        let name = tag.local_name();
        let name: &str = name.as_ref();
        self.text.clear();
        if self.kind == Kind::Unknown {
            self.kind = match name {
                "urlset" => Kind::Sitemap,
                "sitemapindex" => Kind::Index,
                "rss" | "feed" | "RDF" => Kind::Feed,
                _ => Kind::Other,
            };
        }
        if matches!(name, "url" | "sitemap" | "item" | "entry") {
            self.flush();
        }
        match (self.kind, name) {
            (Kind::Feed | Kind::Sitemap, "link") => self.link_element(tag),
            (Kind::Feed, "enclosure" | "thumbnail" | "content") => {
                if let Some(url) = attribute(tag, "url").or_else(|| attribute(tag, "src")) {
                    self.push(&url, LinkKind::Part);
                }
            }
            (Kind::Feed, "guid") => {
                self.is_no_link = attribute(tag, "isPermaLink").is_some_and(|it| it == "false");
            }
            _ => {}
        }
    }

    /// `link` of Atom, and `xhtml:link` of sitemaps.
    fn link_element(&mut self, tag: &BytesStart<'_>) {
        let Some(reference) = attribute(tag, "href") else { return };
        let relation = attribute(tag, "rel").unwrap_or_default();
        match relation.as_str() {
            "" | "alternate" | "related" | "via" => self.push(&reference, LinkKind::Page),
            "enclosure" => self.push(&reference, LinkKind::Part),
            "self" | "next" | "first" | "last" | "previous" | "current" => {
                self.push(&reference, LinkKind::Feed);
            }
            _ => {}
        }
    }

    fn end(&mut self, name: &str) {
        let text = std::mem::take(&mut self.text);
        let text = text.trim();
        match (self.kind, name) {
            (Kind::Sitemap, "loc") => {
                let is_page = self.entry.pages.is_empty();
                self.push(text, if is_page { LinkKind::Page } else { LinkKind::Part });
            }
            (Kind::Index, "loc") => self.push(text, LinkKind::Sitemap),
            (Kind::Feed, "link") if !text.is_empty() => self.push(text, LinkKind::Page),
            (Kind::Feed, "url") if !text.is_empty() => self.push(text, LinkKind::Part),
            (Kind::Feed, "guid") if text.contains("://") && !self.is_no_link => {
                self.push(text, LinkKind::Page);
            }
            (_, "lastmod" | "updated" | "pubDate" | "date" | "modified") => {
                let read = dates::parse(text);
                self.entry.modified = self.entry.modified.max(read);
            }
            (_, "url" | "sitemap" | "item" | "entry") => self.flush(),
            _ => {}
        }
    }

    fn push(&mut self, reference: &str, kind: LinkKind) {
        // As many as one entry can have images (Google's extension of sitemaps).
        if self.entry.pages.len() < 1100 {
            self.entry.pages.push((reference.to_owned(), kind));
        }
    }

    /// The entry has been read: its date is that of its pages.
    fn flush(&mut self) {
        let entry = std::mem::take(&mut self.entry);
        for (reference, kind) in entry.pages {
            let modified = entry.modified.filter(|_| kind != LinkKind::Part);
            self.found.add_dated(&reference, kind, modified);
        }
    }

    fn text(&mut self, text: &str) {
        if self.text.len() + text.len() <= LONGEST_TEXT {
            self.text.push_str(text);
        }
    }

    /// `&amp;` and its kin; what a document declares itself is not expanded.
    fn reference(&mut self, name: &quick_xml::events::BytesRef<'_>) {
        if let Ok(Some(letter)) = name.resolve_char_ref() {
            return self.text(letter.encode_utf8(&mut [0; 4]));
        }
        let text: &str = name;
        self.text(match text {
            "amp" => "&",
            "lt" => "<",
            "gt" => ">",
            "quot" => "\"",
            "apos" => "'",
            _ => "",
        });
    }
}

fn attribute(tag: &BytesStart<'_>, name: &str) -> Option<String> {
    let mut attributes = tag.attributes();
    attributes.with_checks(false);
    let found = attributes.filter_map(Result::ok).find(|it| {
        let key: &str = it.key.local_name().into_inner();
        key == name
    })?;
    let value = found.normalized_value(quick_xml::XmlVersion::Implicit1_0).ok()?;
    (value.len() <= LONGEST_TEXT).then(|| value.into_owned())
}
