//! `Accept`: the form in which a client wants the proxy's own answers.

/// How much a client prefers pages and JSON: 0 means not at all (RFC 9110, 12.4.2).
///
/// Only types that it names count. A client that accepts anything (`*/*`, `text/*`) is not a browser that opens a page:
/// browsers name `text/html`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Accept {
    html: f32,
    json: f32,
}

impl Accept {
    /// The text of a field's value, if it is ASCII.
    pub(crate) fn text(value: &[u8]) -> Option<&str> {
        std::str::from_utf8(value).ok().filter(|_| value.is_ascii())
    }

    pub(crate) fn read(text: &str) -> Self {
        let mut accept = Self::default();
        for range in text.split(',') {
            let mut parts = range.split(';').map(str::trim);
            let kind = parts.next().unwrap_or_default();
            let wanted = if kind.eq_ignore_ascii_case("text/html") {
                &mut accept.html
            } else if is_json(kind) {
                &mut accept.json
            } else {
                continue;
            };
            *wanted = wanted.max(weight(parts));
        }
        accept
    }

    /// Pages, with no other form preferred.
    pub(crate) fn html(self) -> bool {
        self.html > 0.0 && self.html >= self.json
    }

    /// Whether the client prefers a page, as a browser that opens one does: it prefers no other form as much, except
    /// other forms of HTML, unless it names XHTML as well. (All browsers name XHTML when they open a page, and images
    /// with the same weight. Java's own client names pages and images, feed readers prefer feeds, and scripts name
    /// `*/*` with the same weight.)
    pub(crate) fn opens_page(text: &str) -> bool {
        // Shortcut: most values begin like this, or contain no `html`.
        if text.starts_with("text/html,application/xhtml+xml,") {
            return true;
        }
        let html = Self::read(text).html;
        if html == 0.0 {
            return false;
        }
        let (mut most, mut names_xhtml) = (0.0_f32, false);
        for range in text.split(',') {
            let mut parts = range.split(';').map(str::trim);
            let kind = parts.next().unwrap_or_default();
            let is_xhtml = kind.eq_ignore_ascii_case("application/xhtml+xml");
            names_xhtml |= is_xhtml;
            if !is_xhtml && !kind.is_empty() && !kind.eq_ignore_ascii_case("text/html") {
                most = most.max(weight(parts));
            }
        }
        html > most || names_xhtml && html >= most
    }

    /// JSON rather than a page.
    pub(crate) fn json(self) -> bool {
        self.json > self.html
    }

    /// JSON, where there are no pages.
    pub(crate) fn json_at_all(self) -> bool {
        self.json > 0.0
    }
}

fn is_json(kind: &str) -> bool {
    let ends = |suffix: &[u8]| {
        let from = kind.len().checked_sub(suffix.len());
        from.is_some_and(|from| kind.as_bytes()[from..].eq_ignore_ascii_case(suffix))
    };
    ends(b"/json") || ends(b"+json")
}

/// A weight that cannot be parsed counts as absent.
fn weight<'a>(mut parameters: impl Iterator<Item = &'a str>) -> f32 {
    let told = parameters.find_map(|it| it.strip_prefix("q=").or_else(|| it.strip_prefix("Q=")));
    let told = told.and_then(|it| it.parse().ok());
    told.filter(|it| (0.0..=1.0).contains(it)).unwrap_or(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_wants_pages_most_opens_one() {
        for (text, opens) in [
            // Firefox, Safari, Chrome, Internet Explorer, Lynx.
            ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", true),
            (
                "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8",
                true,
            ),
            ("text/html, application/xhtml+xml, */*", true),
            ("text/html, text/plain, text/css, application/xhtml+xml, */*;q=0.01", true),
            ("text/html", true),
            ("text/html, */*;q=0.8", true),
            ("TEXT/HTML;q=0.9,application/xml;q=0.5", true),
            // Java, feed readers, jQuery, programs.
            ("text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2", false),
            ("application/rss+xml, application/atom+xml;q=0.9, text/html;q=0.8, */*;q=0.7", false),
            ("application/atom+xml, application/xhtml+xml, text/html;q=0.8", false),
            ("application/rss+xml, text/html", false),
            ("text/html, */*", false),
            ("application/json, text/html", false),
            ("text/html;q=0, */*", false),
            ("*/*", false),
            ("image/avif,image/webp,*/*", false),
            ("", false),
        ] {
            assert_eq!(Accept::opens_page(text), opens, "{text}");
        }
    }

    #[test]
    fn what_is_wanted_most_is_given_and_what_is_not_wanted_is_not() {
        let page = "a page";
        for (text, form) in [
            ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", page),
            ("TEXT/HTML ; level=1 ; q=0.1", page),
            ("application/json, text/html", page),
            ("application/json;q=0.9, text/html", page),
            ("text/html;q=0, text/html;q=1", page),
            ("text/html;q=nonsense", page),
            ("application/json", "JSON"),
            ("application/problem+json", "JSON"),
            ("Application/JSON;q=0.1, text/html;q=0", "JSON"),
            ("application/json, text/html;q=0.5", "JSON"),
            ("text/html;q=0", "text"),
            ("text/html;q=0.000, */*", "text"),
            ("text/html; q=0, application/json; Q=0.0", "text"),
            ("*/*", "text"),
            ("text/htmlx, application/jsonp, json", "text"),
            ("", "text"),
            (";;,,q=1,é", "text"),
        ] {
            let accept = Accept::read(text);
            let given = match (accept.html(), accept.json()) {
                (true, false) => page,
                (false, true) => "JSON",
                (false, false) => "text",
                (true, true) => "both",
            };
            assert_eq!(given, form, "{text}");
        }
    }
}
