//! What a report keeps to itself: who asked, and what stood in queries.

use std::net::IpAddr;

use nightwatt_report::{Addresses, without_query};
use nightwatt_traffic::reader::Sample;
use nightwatt_traffic::suspected_crawlers::Habit;

use super::result::Analysis;
use super::wakers::Waker;
use crate::warnings::excerpt;

impl Analysis {
    /// The same with clients as labels and URLs without their queries, wherever they stand; as it
    /// is, where addresses are to be shown.
    #[must_use]
    pub fn named_by(mut self, addresses: &Addresses) -> Self {
        if *addresses == Addresses::shown() {
            return self;
        }
        for waker in &mut self.wakers.clients {
            waker.name = addresses.client(&waker.name);
        }
        for waker in &mut self.wakers.resources {
            waker.name = addresses.in_text(&without_query(&waker.name));
        }
        join_equals(&mut self.wakers.resources);
        for suspect in &mut self.suspects {
            suspect.agent = agent(&suspect.agent, addresses);
            for habit in &mut suspect.habits {
                if let Habit::AsksSteadily { target, .. } = habit {
                    *target = addresses.in_text(&without_query(target));
                }
            }
        }
        let shown = self.malformed_samples.first().map(shown_and_hidden(addresses));
        for warning in &mut self.warnings {
            let hide = |text: &str| addresses.in_text(&without_queries(text));
            *warning = match shown.as_ref().and_then(|(shown, hidden)| {
                warning.strip_suffix(shown).map(|before| hide(before) + hidden)
            }) {
                Some(warning) => warning,
                None => hide(warning),
            };
        }
        for sample in self.malformed_samples.iter_mut().chain(&mut self.bad_request_samples) {
            hide_in_line(sample, addresses);
        }
        let methods = std::mem::take(&mut self.methods).into_iter();
        self.methods = methods.map(|(name, count)| (addresses.in_text(&name), count)).collect();
        self
    }
}

/// How a warning shows a line that was skipped, and how it may.
fn shown_and_hidden(addresses: &Addresses) -> impl Fn(&Sample) -> (String, String) + '_ {
    move |sample| {
        let mut hidden = Sample { excerpt: excerpt(sample), ..sample.clone() };
        let shown = format!("`{}`", hidden.excerpt);
        hide_in_line(&mut hidden, addresses);
        (shown, format!("`{}`", hidden.excerpt))
    }
}

/// URLs that differed in their queries alone are one line from here on.
fn join_equals(wakers: &mut Vec<Waker>) {
    let mut joined: Vec<(Waker, u32)> = Vec::new();
    for waker in wakers.drain(..) {
        match joined.iter_mut().find(|(other, _)| other.name == waker.name) {
            Some((other, times)) => {
                other.caused.wakeups += waker.caused.wakeups;
                other.caused.delayed_requests += waker.caused.delayed_requests;
                // A rule was tried for each by itself.
                other.what_if = None;
                *times += 1;
            }
            None => joined.push((waker, 1)),
        }
    }
    joined
        .sort_by_key(|(it, _)| std::cmp::Reverse((it.caused.wakeups, it.caused.delayed_requests)));
    wakers.extend(joined.into_iter().map(|(mut waker, times)| {
        if times > 1 {
            waker.name = format!("{} ({times} queries)", waker.name);
        }
        waker
    }));
}

/// A line that could not be read may hold anything anywhere: names, tokens, queries. Kept is what
/// shows its form: punctuation, times, methods, paths, statuses, and the keys of JSON.
fn hide_in_line(sample: &mut Sample, addresses: &Addresses) {
    let line = &sample.excerpt;
    let mut out = String::with_capacity(line.len());
    let mut rest = line.as_str();
    let is_border = |c: char| c.is_whitespace() || "\"'[]{}(),;<>`".contains(c);
    while !rest.is_empty() {
        let end = rest.find(is_border).unwrap_or(rest.len());
        let (mut word, after) = rest.split_at(end);
        // The value of a JSON key.
        if let Some(value) = word.strip_prefix(':').filter(|_| out.ends_with('"')) {
            out.push(':');
            word = value;
        }
        let is_client = out.is_empty() && (after.starts_with(" - ") || after.contains(" ["));
        out.push_str(&match word {
            _ if word.parse::<IpAddr>().is_ok() => addresses.client(word),
            _ if is_client && !word.is_empty() && word != "-" => addresses.client(word),
            _ if is_form(word) || after.starts_with("\":") => word.to_owned(),
            _ if word.starts_with('/') => addresses.in_text(&without_query(word)),
            _ => "…".to_owned(),
        });
        let border = after.chars().next().map_or(0, char::len_utf8);
        out.push_str(&after[..border]);
        rest = &after[border..];
    }
    sample.excerpt = out;
}

/// Does a word show the form of a line, and nothing of whom it is about?
fn is_form(word: &str) -> bool {
    const WORDS: [&str; 10] = [
        "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "CONNECT", "TRACE", "PROPFIND",
    ];
    let is_punctuation = word.chars().all(|c| c.is_ascii_punctuation());
    let is_status = word.len() <= 3 && word.bytes().all(|byte| byte.is_ascii_digit());
    is_punctuation
        || is_status
        || WORDS.contains(&word)
        || matches!(word.strip_prefix("HTTP/"), Some("1.0" | "1.1" | "2" | "2.0" | "3" | "3.0"))
        || is_time(word)
}

/// `04/Mar/2012:01:02:03`, `2012-03-04`, `01:02:03`, `2012-03-04T01:02:03Z`, `+0100`.
fn is_time(word: &str) -> bool {
    let form: String = word
        .chars()
        .map(|c| match c {
            '0'..='9' => '9',
            'A'..='Z' | 'a'..='z' => 'a',
            other => other,
        })
        .collect();
    matches!(
        form.as_str(),
        "99/aaa/9999:99:99:99"
            | "9999-99-99"
            | "99:99:99"
            | "+9999"
            | "-9999"
            | "9999-99-99a99:99:99"
            | "9999-99-99a99:99:99a"
            | "9999-99-99a99:99:99+99:99"
            | "9999-99-99a99:99:99-99:99"
    )
}

/// Text with the queries of all URLs in it left out.
fn without_queries(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('?') {
        let (before, query) = rest.split_at(at + 1);
        let ends = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '<' | '>' | '`' | '\\');
        let end = query.find(ends).unwrap_or(query.len());
        out.push_str(before);
        if end > 0 {
            out.push('…');
        }
        rest = &query[end..];
    }
    out + rest
}

/// An agent that names an address. Numbers of versions, which may look the same, stand behind a
/// slash: `Chrome/4.0.249.89`.
fn agent(agent: &str, addresses: &Addresses) -> String {
    let is_border = |c: char| c.is_whitespace() || matches!(c, '(' | ')' | ';' | ',' | '[' | ']');
    let words = agent.split_inclusive(is_border);
    words
        .map(|word| {
            let core = word.trim_end_matches(is_border);
            let is_address = core.parse::<std::net::IpAddr>().is_ok();
            if is_address { word.replace(core, &addresses.client(core)) } else { word.to_owned() }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use nightwatt_report::KEY_BYTES;
    use nightwatt_traffic::record::Reason;

    use super::*;
    use crate::analyze::Caused;

    fn hidden(line: &str) -> String {
        let mut sample = Sample {
            file: "a.log".to_owned(),
            line: 1,
            reason: Reason::NoHttp,
            excerpt: line.to_owned(),
        };
        hide_in_line(&mut sample, &Addresses::anonymised([0; KEY_BYTES]));
        sample.excerpt
    }

    #[test]
    fn lines_lose_client_user_and_query() {
        // The label is that of report::anonymise's own test.
        let line = "203.0.113.9 - jane [04/Mar/2012:01:02:03 +0000] \"GET /a?token=1 FOO\" 400 0";
        let label = "client-sdxdcz6t (203.0.113.0/24)";
        let expected = format!("{label} - … [04/Mar/2012:01:02:03 +0000] \"GET /a?… …\" 400 0");
        assert_eq!(hidden(line), expected);
        assert!(
            !hidden("dsl-9.example.net - - [04/Mar/2012:01:02:03 +0000] \"\"").contains("dsl-9")
        );
        assert_eq!(hidden("203.0.113.9 - jane no time"), format!("{label} - … … …"));
        assert_eq!(hidden("{\"ip\":\"203.0.113.9\"}"), format!("{{\"ip\":\"{label}\"}}"));
    }

    #[test]
    fn nothing_that_could_name_somebody_is_left_of_any_format() {
        let lines = [
            "198.51.100.7 - Jane Secretname [04/Mar/2012:01:02:03 +0000] \"\\x16\\x03SECRET\" 400 0",
            "2012-03-04 01:02:03 10.0.0.1 GET /w1 token=SECRETQ 443 CORP\\janesecret 198.51.100.7 - 200",
            "{\"user_id\":\"janesecret\",\"Authorization\":[\"Bearer SECRETTOKEN\"],\"status\":200}",
            "{\"ClientUsername\":\"janesecret\",\"ClientHost\":\"198.51.100.7\"}",
        ];
        for line in lines {
            let told = hidden(line);
            let lower = told.to_lowercase();
            for secret in ["secret", "jane", "token", "198.51.100.7", "10.0.0.1"] {
                assert!(!lower.contains(secret), "{secret} in {told}");
            }
        }
        assert_eq!(
            hidden("{\"status\":200,\"uri\":\"/a/b?c=d\"}"),
            "{\"status\":200,\"uri\":\"/a/b?…\"}"
        );
    }

    #[test]
    fn agents_keep_their_versions_and_lose_addresses() {
        let addresses = Addresses::anonymised([0; KEY_BYTES]);
        let told = agent("Mozilla/5.0 (X11; 203.0.113.9) Chrome/4.0.249.89", &addresses);
        let label = "client-sdxdcz6t (203.0.113.0/24)";
        assert_eq!(told, format!("Mozilla/5.0 (X11; {label}) Chrome/4.0.249.89"));
    }

    #[test]
    fn addresses_that_differ_in_the_query_alone_are_added_up() {
        let waker = |name: &str, wakeups| Waker {
            name: name.to_owned(),
            caused: Caused { wakeups, delayed_requests: 2 * wakeups },
            what_if: None,
        };
        let mut wakers = vec![waker("/b", 5), waker("/a?…", 4), waker("/a?…", 3)];
        join_equals(&mut wakers);
        assert_eq!(wakers, [waker("/a?… (2 queries)", 7), waker("/b", 5)]);
    }
}
