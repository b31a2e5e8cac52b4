//! Links: what a page, a style sheet, a feed, a sitemap or a manifest leads to.
//!
//! Parsers of hostile text. They take bytes and return references as they stand there; [`Site::resolve`]
//! makes addresses of them. Whatever comes in, they end, and what they return is bounded ([`MOST_LINKS`]).
//!
//! [`Site::resolve`]: crate::pure::address::Site::resolve

pub mod css;
pub mod dates;
pub mod header;
pub mod html;
pub mod manifest;
pub mod xml;

use std::collections::HashSet;
use std::io::Read;

use http::HeaderMap;
use http::header::CONTENT_TYPE;
use nightwatt_httpcache::Timestamp;

/// More links of one document do not count.
pub const MOST_LINKS: usize = 20_000;

/// A longer reference is no link.
pub const LONGEST_REFERENCE: usize = 8192;

/// Packed sitemaps are unpacked to this many bytes (the protocol allows 50 MB).
pub const LONGEST_SITEMAP: u64 = 50 << 20;

/// What a reference is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LinkKind {
    /// Part of the page: an image, a style sheet, a script.
    Part,
    /// Another page.
    Page,
    /// A feed of the site.
    Feed,
    /// A sitemap, or a file of an index of sitemaps.
    Sitemap,
    /// It is linked, and is not to be followed: `nofollow`, or the target of a form.
    NotFollowed,
}

/// A reference that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// As it stands there, without white space around it.
    pub reference: String,
    /// What it is for.
    pub kind: LinkKind,
    /// When its target last changed, as a sitemap or a feed says.
    pub modified: Option<Timestamp>,
}

/// What was found in a document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "independent findings")]
pub struct Found {
    /// References, each once for each kind.
    pub links: Vec<Link>,
    /// `<base href>`: what the references are relative to, if not to the document itself.
    pub base: Option<String>,
    /// The document has more links than count.
    pub is_cut: bool,
    /// A nonce of a Content-Security-Policy stands in the page.
    pub has_nonce: bool,
    /// A form has a token against forged requests.
    pub has_form_token: bool,
    /// A form has a hidden field with a random value, which may be for one visitor.
    pub has_random_field: bool,
    seen: HashSet<(LinkKind, String)>,
    all_not_followed: bool,
}

impl Found {
    /// Adds a reference.
    fn add(&mut self, reference: &str, kind: LinkKind) {
        self.add_dated(reference, kind, None);
    }

    fn add_dated(&mut self, reference: &str, kind: LinkKind, modified: Option<Timestamp>) {
        let reference = reference.trim_matches(|letter: char| letter <= ' ');
        let leads_elsewhere = !reference.is_empty() && !reference.starts_with('#');
        if !leads_elsewhere || reference.len() > LONGEST_REFERENCE || is_data(reference) {
            return;
        }
        if self.links.len() >= MOST_LINKS {
            self.is_cut = true;
            return;
        }
        if self.seen.insert((kind, reference.to_owned())) {
            self.links.push(Link { reference: reference.to_owned(), kind, modified });
        }
    }

    /// Takes over what was found in a part of the document.
    fn extend(&mut self, part: Self) {
        for link in part.links {
            self.add_dated(&link.reference, link.kind, link.modified);
        }
        self.is_cut |= part.is_cut;
    }

    /// Notes that no link of the document is to be followed. Its parts are not links.
    fn follow_none(&mut self) {
        self.all_not_followed = true;
    }

    /// What was found, with what holds for the document as a whole.
    fn finished(mut self) -> Self {
        if self.all_not_followed {
            for link in self.links.iter_mut().filter(|link| link.kind != LinkKind::Part) {
                link.kind = LinkKind::NotFollowed;
            }
        }
        self.seen = HashSet::new();
        self
    }
}

/// Whether a value looks as if it was drawn for one visitor: long, one word, with letters and digits.
pub(crate) fn is_random(value: &str) -> bool {
    let of_word = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=_-.%".contains(&byte);
    value.len() >= 12
        && value.bytes().all(of_word)
        && value.bytes().any(|byte| byte.is_ascii_digit())
        && value.bytes().any(|byte| byte.is_ascii_alphabetic())
}

fn is_data(reference: &str) -> bool {
    reference.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("data:"))
}

/// What kind of document an answer is, as far as links are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Document {
    /// HTML, XHTML included.
    Html,
    /// A style sheet, or an image with one (SVG is read as HTML, which has the same references).
    Css,
    /// A feed or a sitemap, or XML of another kind.
    Xml,
    /// A packed sitemap.
    PackedXml,
    /// A manifest of a web application.
    Manifest,
    /// Nothing in which links are looked for.
    Other,
}

impl Document {
    /// The kind that `Content-Type` names, and of some that it does not know, the ending of the path.
    pub fn of(headers: &HeaderMap, path: &str) -> Self {
        let kind = content_type(headers);
        let ends = |ending: &str| path.to_ascii_lowercase().ends_with(ending);
        match kind.as_str() {
            "text/html" | "application/xhtml+xml" | "image/svg+xml" => Self::Html,
            "text/css" => Self::Css,
            "application/manifest+json" => Self::Manifest,
            "application/json" if ends(".webmanifest") || ends("manifest.json") => Self::Manifest,
            "application/gzip" | "application/x-gzip" | "application/octet-stream"
                if ends(".xml.gz") =>
            {
                Self::PackedXml
            }
            "text/xml" | "application/xml" => Self::Xml,
            kind if kind.ends_with("+xml") => Self::Xml,
            _ => Self::Other,
        }
    }
}

/// The media type of an answer in lower case, without parameters.
pub(crate) fn content_type(headers: &HeaderMap) -> String {
    let value = headers.get(CONTENT_TYPE).map_or(&b""[..], |value| value.as_bytes());
    let kind = value.split(|byte| *byte == b';').next().unwrap_or_default();
    String::from_utf8_lossy(kind.trim_ascii()).to_ascii_lowercase()
}

/// Finds the links of an answer: in its body, without a content coding, and in its `Link` fields.
pub fn discover(headers: &HeaderMap, path: &str, body: &[u8]) -> Found {
    let mut found = match Document::of(headers, path) {
        Document::Html => html::links(body),
        Document::Css => css::links(body),
        Document::Xml => xml::links(body),
        Document::PackedXml => packed(body),
        Document::Manifest => manifest::links(body),
        Document::Other => Found::default(),
    };
    header::add_links(headers, &mut found);
    if header::has_nofollow(headers) {
        found.follow_none();
    }
    found.finished()
}

/// A gzipped sitemap: what of it can be unpacked, up to a bound.
fn packed(body: &[u8]) -> Found {
    let mut text = Vec::new();
    let unpacked = flate2::read::MultiGzDecoder::new(body).take(LONGEST_SITEMAP);
    // What came before an error counts.
    let _ = { unpacked }.read_to_end(&mut text);
    xml::links(&text)
}

#[cfg(test)]
mod tests;
