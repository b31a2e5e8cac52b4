//! What the fast path reads from a request, and which requests it leaves to the slow path.

use nightwatt_http1::{Field, Head};
use nightwatt_httpcache::{Rules, Sender};

use crate::accept::Accept;
use crate::client_facts;
use crate::request_rules::needs_slow_path;

/// The facts of a plain request.
pub(super) struct Plain<'b> {
    pub(super) authority: &'b str,
    pub(super) agent: Option<&'b str>,
    pub(super) referer: Option<&'b str>,
    pub(super) accepts_html: bool,
    /// The `Via` fields.
    pub(super) via: Option<&'b [u8]>,
    cookies: Option<&'b [u8]>,
    /// What its other fields reveal about its sender, by the list of names.
    sender: Sender,
}

/// Bytes of field names kept per connection: browsers send 200 to 300.
const MOST_KEPT: usize = 1024;

/// The field names of a connection's last plain request. Most clients send the same names again, so what follows from
/// names alone need not be computed again.
#[derive(Default)]
pub(super) struct LastNames {
    /// Each name is followed by a colon, which no name contains.
    names: Vec<u8>,
    /// What they reveal about the sender, except cookies.
    sender: Sender,
    /// Whether the server gets all of them unchanged, once that was computed.
    pub(super) are_unchanged: Option<bool>,
}

impl LastNames {
    fn are_of(&self, head: &Head<'_, '_>) -> bool {
        let mut rest = &self.names[..];
        for field in head.fields {
            let Some((name, more)) = rest.split_at_checked(field.name.len()) else { return false };
            let Some((b':', more)) = more.split_first() else { return false };
            if name != field.name.as_bytes() {
                return false;
            }
            rest = more;
        }
        rest.is_empty()
    }

    fn become_those_of(&mut self, head: &Head<'_, '_>, sender: Sender) {
        self.names.clear();
        let length: usize = head.fields.iter().map(|field| field.name.len() + 1).sum();
        // Connections are idle for long, and there are many.
        let kept = if length > MOST_KEPT { &[] } else { head.fields };
        for field in kept {
            self.names.extend_from_slice(field.name.as_bytes());
            self.names.push(b':');
        }
        self.sender = sender;
        self.are_unchanged = None;
    }
}

impl<'b> Plain<'b> {
    /// Nothing if an answer might depend on more than the cache key, the sender and `Vary`.
    pub(super) fn read(
        head: &Head<'_, 'b>,
        from_trusted_proxy: bool,
        last: &mut LastNames,
    ) -> Option<Self> {
        if head.method != "GET" {
            return None;
        }
        let is_known = last.are_of(head);
        let mut sender = if is_known { last.sender } else { Sender::ANONYMOUS };
        let plain = Self::of(head, |field| {
            let is = |name: &str| field.name.eq_ignore_ascii_case(name);
            if field.name.len() == 10 && is("connection") {
                // The fields that it names do not reach the server.
                return field.value.eq_ignore_ascii_case(b"keep-alive");
            }
            if is_known {
                return true;
            }
            if needs_slow_path(field.name) {
                return false;
            }
            // The answer must not depend on what the server does not get.
            let name = field.name.as_bytes();
            let Some(found) = Sender::of_name_passed_on(name, from_trusted_proxy) else {
                return false;
            };
            sender = sender.with(found);
            true
        });
        let plain = Self { sender, ..plain? };
        if !is_known {
            last.become_those_of(head, sender);
        }
        Some(plain)
    }

    /// The same for a request with the same field names as before.
    pub(super) fn again(head: &Head<'_, 'b>) -> Option<Self> {
        Self::of(head, |_| true)
    }

    /// Passes the fields that are not kept to `other`; nothing if that rejects one.
    fn of(head: &Head<'_, 'b>, mut other: impl FnMut(&Field<'b>) -> bool) -> Option<Self> {
        let [mut host, mut agent, mut referer, mut accept, mut cookies, mut via] = [None; 6];
        for field in head.fields {
            let is = |name: &str| field.name.eq_ignore_ascii_case(name);
            let known = match field.name.len() {
                3 if is("via") => &mut via,
                4 if is("host") => &mut host,
                6 if is("accept") => &mut accept,
                6 if is("cookie") => &mut cookies,
                7 if is("referer") => &mut referer,
                10 if is("user-agent") => &mut agent,
                _ if other(field) => continue,
                _ => return None,
            };
            if known.replace(field.value).is_some() {
                return None;
            }
        }
        let text = |value: Option<&'b [u8]>| value.map(std::str::from_utf8).transpose().ok();
        let (authority, agent, referer) = (text(host)??, text(agent)?, text(referer)?);
        let accepts_html = accept.and_then(Accept::text).is_some_and(Accept::opens_page);
        let sender = Sender::ANONYMOUS;
        Some(Self { authority, agent, referer, accepts_html, via, cookies, sender })
    }

    /// The credentials of the request.
    pub(super) fn credential(&self, head: &Head<'_, '_>) -> Option<u64> {
        if self.sender.is_anonymous() {
            return None;
        }
        client_facts::credential(head.fields.iter().map(|field| (field.name, field.value)))
    }

    /// What the request reveals about its sender, by the rules of its site.
    pub(super) fn sender(&self, head: &Head<'_, '_>, rules: &Rules) -> Sender {
        let mut sender = self.sender;
        if !sender.is_anonymous() && !rules.harmless_headers.is_empty() {
            let named = head.fields.iter().filter(|it| !it.name.eq_ignore_ascii_case("cookie"));
            let counting = named.filter(|it| !rules.is_harmless_header(it.name.as_bytes()));
            sender = counting.fold(Sender::ANONYMOUS, |sender, field| {
                sender.with(Sender::of_name(field.name.as_bytes()))
            });
        }
        match self.cookies {
            Some(cookies) => sender.with(Sender::of_cookies(cookies, &rules.cookies)),
            None => sender,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NAMES: [&str; 14] = [
        "Host",
        "host",
        "Accept",
        "Cookie",
        "Connection",
        "User-Agent",
        "Sec-Fetch-Dest",
        "Accept-Language",
        "Authorization",
        "X-Unknown",
        "X-Unknown2",
        "HX-Request",
        "Range",
        "X-Forwarded-For",
    ];

    fn field() -> impl Strategy<Value = (&'static str, &'static str)> {
        (proptest::sample::select(&NAMES[..]), proptest::sample::select(&["a", "keep-alive"][..]))
    }

    /// The comparable part of the result.
    fn read(fields: &[(&'static str, &'static str)], last: &mut LastNames) -> Option<String> {
        let fields: Vec<Field<'_>> =
            fields.iter().map(|(name, value)| Field { name, value: value.as_bytes() }).collect();
        let head = Head { method: "GET", target: "/", is_1_1: true, fields: &fields };
        let plain = Plain::read(&head, false, last)?;
        let Plain { authority, agent, referer, accepts_html, via, cookies, sender } = plain;
        Some(format!(
            "{authority} {agent:?} {referer:?} {accepts_html} {via:?} {cookies:?} {sender:?}"
        ))
    }

    proptest! {
        #[test]
        fn earlier_requests_of_a_connection_change_nothing(
            heads in proptest::collection::vec(
                (proptest::collection::vec(field(), 0..4), 1..3_usize),
                1..6,
            ),
        ) {
            let mut last = LastNames::default();
            for (mut fields, times) in heads {
                fields.insert(0, ("Host", "a"));
                for _ in 0..times {
                    let alone = read(&fields, &mut LastNames::default());
                    prop_assert_eq!(read(&fields, &mut last), alone);
                }
            }
        }
    }

    #[test]
    fn names_are_told_apart_by_where_they_end() {
        let mut last = LastNames::default();
        let fields = [("Host", "a"), ("DNT", "1"), ("Accept-Language", "de")];
        assert!(read(&fields, &mut last).is_some());
        let is_known = |names: &[&str], last: &LastNames| {
            let fields: Vec<Field<'_>> =
                names.iter().map(|name| Field { name, value: b"1" }).collect();
            last.are_of(&Head { method: "GET", target: "/", is_1_1: true, fields: &fields })
        };
        assert!(is_known(&["Host", "DNT", "Accept-Language"], &last));
        for names in [
            &["Host", "DNT"][..],
            &["Host", "DNT", "Accept-Languag"],
            &["Host", "DNT", "Accept-Languages"],
            &["Host", "DNT", "Accept-Language", "X"],
            &["Host", "DNT", "Accept-Languagf"],
            &["Hos", "tDNT", "Accept-Language"],
            &["Host", "Accept-Language", "DNT"],
        ] {
            assert!(!is_known(names, &last), "{names:?}");
        }
        // More than is kept.
        let long: &str = "x".repeat(MOST_KEPT).leak();
        assert!(read(&[("Host", "a"), (long, "1")], &mut last).is_some());
        assert!(last.names.is_empty());
    }
}
