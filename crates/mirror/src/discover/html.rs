//! Links in HTML, by the tokenizer of the HTML standard (html5gum).

use std::convert::Infallible;

use html5gum::emitters::callback::{Callback, CallbackEmitter, CallbackEvent};
use html5gum::{Span, Tokenizer};

use super::{Found, LinkKind, css, is_random};

/// A longer attribute value is ignored. A `srcset` has several references.
const LONGEST_VALUE: usize = 64 << 10;

/// More text of style sheets and `noscript` elements in one page does not count.
const LONGEST_TEXT: usize = 4 << 20;

/// Finds the links of a page.
pub fn links(page: &[u8]) -> Found {
    let mut found = Found::default();
    read(page, &mut found, 0);
    found
}

/// Documents in attributes of documents are read this deep.
const DEEPEST: u8 = 2;

fn read(page: &[u8], found: &mut Found, depth: u8) {
    let mut without_scripts = Vec::new();
    let reader = PageReader {
        found,
        without_scripts: &mut without_scripts,
        depth,
        name: Vec::new(),
        attributes: Vec::new(),
        is_open: false,
        value_for: None,
        inside: Inside::Page,
        left: LONGEST_TEXT,
    };
    let mut emitter = CallbackEmitter::new(reader);
    emitter.naively_switch_states(true);
    // Neither the callback nor a slice of bytes fails.
    let _ = Tokenizer::new_with_emitter(page, emitter).finish();
    // A browser with scripts sees this as text. We run no scripts: for us it is part of the page.
    if !without_scripts.is_empty() && depth < DEEPEST {
        read(&without_scripts, found, depth + 1);
    }
}

/// The element whose text is being read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Inside {
    Page,
    Style,
    NoScript,
}

struct Attribute {
    name: Vec<u8>,
    value: Vec<u8>,
}

/// Takes what the tokenizer finds, and keeps references.
struct PageReader<'a> {
    found: &'a mut Found,
    /// Text of `noscript` elements.
    without_scripts: &'a mut Vec<u8>,
    depth: u8,
    /// Of the tag that is being read.
    name: Vec<u8>,
    attributes: Vec<Attribute>,
    is_open: bool,
    /// The attribute to which the next value belongs.
    value_for: Option<usize>,
    inside: Inside,
    /// Bytes of text that may still be kept.
    left: usize,
}

impl Callback<Infallible, ()> for PageReader<'_> {
    fn handle_event(&mut self, event: CallbackEvent<'_>, _: Span<()>) -> Option<Infallible> {
        match event {
            CallbackEvent::OpenStartTag { name } => {
                self.name.clear();
                self.name.extend_from_slice(name);
                self.attributes.clear();
                self.is_open = true;
            }
            CallbackEvent::AttributeName { name } => self.begin_attribute(name),
            CallbackEvent::AttributeValue { value } => {
                if let Some(attribute) =
                    self.value_for.take().and_then(|at| self.attributes.get_mut(at))
                    && value.len() <= LONGEST_VALUE
                {
                    attribute.value.extend_from_slice(value);
                }
            }
            CallbackEvent::CloseStartTag { .. } => {
                self.is_open = false;
                self.inside = match self.name.as_slice() {
                    b"style" => Inside::Style,
                    b"noscript" => Inside::NoScript,
                    _ => Inside::Page,
                };
                let tag = TagView {
                    name: &self.name,
                    attributes: &self.attributes,
                    found: self.found,
                    depth: self.depth,
                };
                tag.read();
            }
            CallbackEvent::EndTag { .. } => {
                self.is_open = false;
                self.inside = Inside::Page;
            }
            CallbackEvent::String { value } => self.text(value),
            _ => {}
        }
        None
    }
}

impl PageReader<'_> {
    /// Of two attributes of one name the first counts; of an end tag none does.
    fn begin_attribute(&mut self, name: &[u8]) {
        self.value_for = None;
        let is_known = self.attributes.iter().any(|it| it.name == name);
        if self.is_open && !is_known && WANTED.contains(&name) {
            self.value_for = Some(self.attributes.len());
            self.attributes.push(Attribute { name: name.to_vec(), value: Vec::new() });
        }
    }

    fn text(&mut self, text: &[u8]) {
        let text = &text[..text.len().min(self.left)];
        match self.inside {
            Inside::Page => return,
            Inside::Style => self.found.extend(css::links(text)),
            Inside::NoScript => self.without_scripts.extend_from_slice(text),
        }
        self.left -= text.len();
    }
}

/// Attributes that are looked at.
const WANTED: [&[u8]; 24] = [
    b"href",
    b"src",
    b"rel",
    b"type",
    b"srcset",
    b"imagesrcset",
    b"data-src",
    b"data-srcset",
    b"style",
    b"name",
    b"content",
    b"property",
    b"http-equiv",
    b"nonce",
    b"poster",
    b"data",
    b"action",
    b"background",
    b"xlink:href",
    b"longdesc",
    b"srcdoc",
    b"value",
    b"as",
    b"formaction",
];

/// A start tag with its attributes.
struct TagView<'a> {
    name: &'a [u8],
    attributes: &'a [Attribute],
    found: &'a mut Found,
    depth: u8,
}

impl TagView<'_> {
    fn get(&self, name: &str) -> Option<String> {
        let attribute = self.attributes.iter().find(|it| it.name == name.as_bytes())?;
        Some(String::from_utf8_lossy(&attribute.value).into_owned())
    }

    /// In lower case.
    fn word(&self, name: &str) -> String {
        self.get(name).unwrap_or_default().trim().to_ascii_lowercase()
    }

    fn add(&mut self, attribute: &str, kind: LinkKind) {
        if let Some(reference) = self.get(attribute) {
            self.found.add(&reference, kind);
        }
    }

    fn add_parts(&mut self, attributes: &[&str]) {
        for attribute in attributes {
            self.add(attribute, LinkKind::Part);
        }
    }

    fn add_srcset(&mut self, attribute: &str) {
        if let Some(list) = self.get(attribute) {
            for reference in candidates(&list) {
                self.found.add(reference, LinkKind::Part);
            }
        }
    }

    fn read(mut self) {
        if self.attributes.is_empty() {
            return;
        }
        if let Some(style) = self.get("style") {
            self.found.extend(css::links(style.as_bytes()));
        }
        self.found.has_nonce |= self.get("nonce").is_some_and(|nonce| !nonce.trim().is_empty());
        self.add("background", LinkKind::Part);
        match self.name {
            b"a" | b"area" => self.anchor(),
            b"link" => self.link(),
            b"img" | b"source" | b"video" | b"audio" | b"track" | b"embed" => {
                self.add_parts(&["src", "data-src", "poster"]);
                self.add_srcset("srcset");
                self.add_srcset("data-srcset");
                self.add("longdesc", LinkKind::Page);
            }
            b"script" => self.add_parts(&["src"]),
            b"iframe" | b"frame" => {
                self.add("src", LinkKind::Page);
                self.add("data-src", LinkKind::Page);
                if let Some(page) = self.get("srcdoc").filter(|_| self.depth < DEEPEST) {
                    read(page.as_bytes(), self.found, self.depth + 1);
                }
            }
            b"object" => self.add("data", LinkKind::Part),
            b"image" | b"use" | b"feimage" => self.add_parts(&["href", "xlink:href"]),
            b"input" => self.input(),
            b"button" => self.add("formaction", LinkKind::NotFollowed),
            b"form" => self.add("action", LinkKind::NotFollowed),
            b"meta" => self.meta(),
            b"base" if self.found.base.is_none() => {
                self.found.base = self.get("href").map(|base| base.trim().to_owned());
            }
            _ => {}
        }
    }

    fn anchor(&mut self) {
        let rel = self.word("rel");
        let is_followed = !rel.split_ascii_whitespace().any(|word| word == "nofollow");
        let kind = if is_followed { LinkKind::Page } else { LinkKind::NotFollowed };
        self.add("href", kind);
        self.add("xlink:href", kind);
    }

    fn link(&mut self) {
        let (rel, media) = (self.word("rel"), self.word("type"));
        if let Some(kind) = kind_of_relation(&rel, &media) {
            self.add("href", kind);
            self.add_srcset("imagesrcset");
        }
    }

    fn input(&mut self) {
        if self.word("type") == "image" {
            self.add("src", LinkKind::Part);
        }
        self.add("formaction", LinkKind::NotFollowed);
        // A field without a value is filled in by a script, or by nothing.
        let has_value = self.get("value").is_some_and(|value| !value.is_empty());
        self.found.has_form_token |= has_value && is_form_token(&self.word("name"));
        let is_hidden = self.word("type") == "hidden";
        self.found.has_random_field |=
            is_hidden && self.get("value").is_some_and(|value| is_random(&value));
    }

    fn meta(&mut self) {
        let content = self.get("content").unwrap_or_default();
        let (name, property) = (self.word("name"), self.word("property"));
        if matches!(name.as_str(), "robots" | "nightwatt")
            && has_word(&content, &["nofollow", "none"])
        {
            self.found.follow_none();
        }
        self.found.has_form_token |= !content.is_empty() && is_form_token(&name);
        if matches!(property.as_str(), "og:image" | "og:video" | "og:audio")
            || matches!(name.as_str(), "twitter:image" | "msapplication-tileimage")
        {
            self.found.add(&content, LinkKind::Part);
        }
        match self.word("http-equiv").as_str() {
            "refresh" => {
                if let Some(target) = refresh_target(&content) {
                    self.found.add(target, LinkKind::Page);
                }
            }
            "content-security-policy" => self.found.has_nonce |= has_nonce(content.as_bytes()),
            _ => {}
        }
    }
}

/// What a `rel` makes of a reference; `None` if it leads to no document of the site.
pub(super) fn kind_of_relation(rel: &str, media: &str) -> Option<LinkKind> {
    /// Addresses that people do not visit: other servers, short forms, interfaces of programs.
    const NO_DOCUMENTS: [&str; 9] = [
        "dns-prefetch",
        "preconnect",
        "shortlink",
        "edituri",
        "pingback",
        "wlwmanifest",
        "https://api.w.org/",
        "webmention",
        "edit",
    ];
    let has = |word: &str| rel.split_ascii_whitespace().any(|it| it.eq_ignore_ascii_case(word));
    if rel.is_empty() || NO_DOCUMENTS.iter().any(|word| has(word)) {
        return None;
    }
    if has("nofollow") {
        return Some(LinkKind::NotFollowed);
    }
    if has("sitemap") {
        return Some(LinkKind::Sitemap);
    }
    if has("alternate") {
        return match media {
            "application/rss+xml" | "application/atom+xml" => Some(LinkKind::Feed),
            "" | "text/html" | "application/xhtml+xml" | "text/css" => Some(LinkKind::Page),
            _ => None,
        };
    }
    let is_page = [
        "next",
        "prev",
        "previous",
        "canonical",
        "author",
        "license",
        "help",
        "first",
        "last",
        "index",
        "up",
        "contents",
        "start",
        "bookmark",
        "search-results",
    ];
    let is_page = is_page.iter().any(|word| has(word));
    Some(if is_page { LinkKind::Page } else { LinkKind::Part })
}

/// The references of a `srcset` (HTML, 4.8.4.2.1): each followed by a width or a density.
fn candidates(list: &str) -> impl Iterator<Item = &str> {
    let mut rest = list;
    std::iter::from_fn(move || {
        rest =
            rest.trim_start_matches(|letter: char| letter.is_ascii_whitespace() || letter == ',');
        if rest.is_empty() {
            return None;
        }
        let end = rest.find(|letter: char| letter.is_ascii_whitespace()).unwrap_or(rest.len());
        let (reference, behind) = rest.split_at(end);
        let bare = reference.trim_end_matches(',');
        rest = if bare.len() < reference.len() { behind } else { behind_descriptor(behind) };
        Some(bare)
    })
}

/// What follows the next comma that is not in parentheses.
fn behind_descriptor(text: &str) -> &str {
    let mut depth = 0_usize;
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => return &text[at + 1..],
            _ => {}
        }
    }
    ""
}

/// The target of `5; url=page.html` (HTML, 4.2.5.3).
pub(super) fn refresh_target(content: &str) -> Option<&str> {
    let rest = content.trim_start().trim_start_matches(|it: char| it.is_ascii_digit() || it == '.');
    let rest = rest.trim_start().strip_prefix([';', ','])?.trim_start();
    let rest = match rest.get(..3).filter(|start| start.eq_ignore_ascii_case("url")) {
        Some(_) => rest[3..].trim_start().strip_prefix('=')?.trim_start(),
        None => rest,
    };
    match rest.chars().next()? {
        quote @ ('"' | '\'') => rest[1..].split(quote).next(),
        _ => Some(rest),
    }
}

/// Whether a list of words has one of these, in any case.
pub(super) fn has_word(list: &str, words: &[&str]) -> bool {
    let mut listed = list.split([',', ' ', ':', ';']).map(str::trim);
    listed.any(|word| words.iter().any(|it| it.eq_ignore_ascii_case(word)))
}

/// Whether a Content-Security-Policy has a nonce.
pub(crate) fn has_nonce(policy: &[u8]) -> bool {
    policy.windows(7).any(|part| part.eq_ignore_ascii_case(b"'nonce-"))
}

/// Names of fields that prove that a form came from the site's own page, in lower case.
fn is_form_token(name: &str) -> bool {
    const NAMES: [&str; 9] = [
        "_token",
        "_wpnonce",
        "authenticity_token",
        "__requestverificationtoken",
        "wpedittoken",
        "form_token",
        "form_build_id",
        "sectok",
        "anticsrf",
    ];
    // `contact[_token]`, as frameworks name the fields of a form.
    let inner = name.strip_suffix(']').and_then(|name| name.rsplit_once('[')).map(|(_, it)| it);
    let name = inner.unwrap_or(name);
    let bare = name.trim_start_matches(['_', '-']);
    NAMES.contains(&name) || bare.starts_with("csrf") || bare.starts_with("xsrf")
}
