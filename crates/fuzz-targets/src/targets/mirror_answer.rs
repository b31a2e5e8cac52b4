//! Admission to the mirror, and answers from it, under headers of any kind.
//!
//! An input is an answer, a request and a body, as in `seeds/mirror_answer`: a line with a status, fields, an
//! empty line, fields of the request, an empty line, the body.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use nightwatt_httpcache::{RequestHead, Rules, Times, Timestamp};
use nightwatt_mirror::coding::{Coding, Effort, pack, unpack};
use nightwatt_mirror::pure::address::Address;
use nightwatt_mirror::pure::admit::{AdmitRules, Answer, Before, Ended, Kept, Verdict, admit};
use nightwatt_mirror::pure::refresh::RefreshRules;
use nightwatt_mirror::pure::represent::{Question, Server, StoredBody};

const NOW: Timestamp = Timestamp::from_secs(1_780_000_000);

/// Runs the target on one input.
pub fn run(input: &[u8]) {
    let mut lines = input.split(|byte| *byte == b'\n');
    let status = lines.next().and_then(|line| StatusCode::from_bytes(line).ok());
    let headers = fields(lines.by_ref().take_while(|line| !line.is_empty()));
    let asked = fields(lines.by_ref().take_while(|line| !line.is_empty()));
    let body: Vec<&[u8]> = lines.collect();
    let answer = Answer {
        asked: HeaderMap::new(),
        status: status.unwrap_or_default(),
        headers,
        body: Bytes::from(body.join(&b'\n')),
        ended: Ended::Whole,
        times: Times::at(NOW),
    };
    let rules = AdmitRules::new(&Rules::default(), 100_000, vec!["/over*".to_owned()]);
    for path in ["/page", "/override"] {
        let address = Address::new(path).expect("it is one");
        let first = match admit(&address, &answer, &Before::default(), &rules) {
            Verdict::Again(first) => Some(first),
            verdict => {
                given(verdict, &asked, &rules);
                continue;
            }
        };
        let before = Before { entry: None, first };
        given(admit(&address, &answer, &before, &rules), &asked, &rules);
    }
}

fn fields<'a>(lines: impl Iterator<Item = &'a [u8]>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in lines {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let name = HeaderName::from_bytes(&line[..colon]);
        let value = HeaderValue::from_bytes(line[colon + 1..].trim_ascii());
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.append(name, value);
        }
    }
    headers
}

/// What is kept has no cookie, survives being stored, and is given whole or not at all.
fn given(verdict: Verdict, asked: &HeaderMap, rules: &AdmitRules) {
    let Verdict::Keep(kept) = verdict else { return };
    let Kept { entry, body, .. } = *kept;
    assert!(!entry.headers().contains_key(http::header::SET_COOKIE));
    let text = serde_json::to_string(&entry).expect("it can be written");
    assert_eq!(
        serde_json::from_str::<nightwatt_mirror::pure::entry::Entry>(&text).ok(),
        Some(entry.clone())
    );
    let bytes = pack(Coding::Brotli, &body, Effort::Answer).expect("memory can be written");
    let stored =
        StoredBody { coding: Coding::Brotli, bytes: bytes.into(), length: body.len() as u64 };
    let refresh = RefreshRules::default();
    for server in [Server::Asleep, Server::Awake] {
        let request = RequestHead {
            method: &Method::GET,
            authority: "example.org",
            path_and_query: entry.address.as_str(),
            headers: asked,
        };
        let question =
            Question { request, server, now: NOW, rules: &rules.cache, refresh: &refresh };
        let Ok(found) = question.may_have(&entry) else { continue };
        let Ok(answer) = question.answer(&entry, &found, &stored) else { continue };
        if answer.status != entry.status() {
            continue;
        }
        let own = Coding::of_answer(&entry.headers());
        let coding = Coding::of_answer(&answer.headers);
        let is_own = own != Some(Coding::Identity);
        let whole = if is_own {
            answer.body.to_vec()
        } else {
            unpack(coding.expect("it is one of ours"), &answer.body, 1 << 20).expect("it is whole")
        };
        assert_eq!(whole, body);
    }
}
