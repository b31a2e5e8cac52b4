//! One mirrored answer, less its body: as it lies in the store, and as the rules of the cache see it.

use http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, DATE, EXPIRES, PRAGMA,
    SET_COOKIE, VARY,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use nightwatt_httpcache::vary::Vary;
use nightwatt_httpcache::{
    Filler, NotStorable, RequestHead, ResponseDirectives, Rules, Stored, Times, Timestamp,
};
use serde::{Deserialize, Serialize};

use super::address::Address;

/// The SHA-256 of a body without content coding, in hexadecimal digits where it is text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BodyHash([u8; 32]);

impl BodyHash {
    /// Of a body.
    pub fn of(body: &[u8]) -> Self {
        use sha2::Digest;
        Self(sha2::Sha256::digest(body).into())
    }

    /// The bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// From 64 hexadecimal digits in lower case.
    pub fn parse(text: &str) -> Option<Self> {
        let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if text.len() != 64 || !text.bytes().all(is_hex) {
            return None;
        }
        let mut hash = [0; 32];
        for (byte, digits) in hash.iter_mut().zip(text.as_bytes().chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        }
        Some(Self(hash))
    }
}

impl std::fmt::Display for BodyHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl std::fmt::Debug for BodyHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}

impl From<BodyHash> for String {
    fn from(hash: BodyHash) -> Self {
        hash.to_string()
    }
}

impl TryFrom<String> for BodyHash {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| format!("{text:?} is no SHA-256"))
    }
}

/// A body by its hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BodyRef {
    /// Of the bytes without content coding.
    pub hash: BodyHash,
    /// How many these are.
    pub length: u64,
}

/// A field, as text in which each letter stands for one byte.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Field {
    /// In lower case.
    pub name: Box<str>,
    /// Bytes above 127 as the letters U+0080 to U+00FF.
    pub value: Box<str>,
}

impl Field {
    fn of(name: &HeaderName, value: &[u8]) -> Self {
        let value: String = value.iter().map(|byte| char::from(*byte)).collect();
        Self { name: name.as_str().into(), value: value.into_boxed_str() }
    }

    fn read(&self) -> Option<HeaderField> {
        let bytes: Option<Vec<u8>> =
            self.value.chars().map(|letter| u8::try_from(u32::from(letter)).ok()).collect();
        let name = HeaderName::from_bytes(self.name.as_bytes()).ok()?;
        Some(HeaderField { name, value: HeaderValue::from_bytes(&bytes?).ok()? })
    }
}

struct HeaderField {
    name: HeaderName,
    value: HeaderValue,
}

fn fields_of(headers: &HeaderMap) -> Vec<Field> {
    headers.iter().map(|(name, value)| Field::of(name, value.as_bytes())).collect()
}

fn headers_of(fields: &[Field]) -> HeaderMap {
    let fields = fields.iter().filter_map(Field::read);
    let mut headers = HeaderMap::new();
    for field in fields {
        headers.append(field.name, field.value);
    }
    headers
}

/// A mirrored answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// What it answers.
    pub address: Address,
    /// The status, as the server sent it.
    pub status: u16,
    /// The fields that the server sent, without cookies and without those of one connection.
    pub fields: Vec<Field>,
    /// The request fields that it was asked for with, of those that `Vary` names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub selecting: Vec<Field>,
    /// When it was asked for, in milliseconds since 1970.
    pub requested: u64,
    /// When it came in, or was last confirmed.
    pub received: u64,
    /// The body; `None` if it is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<BodyRef>,
    /// The server sent the body in a content coding that was undone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub was_coded: bool,
    /// The operator permits giving it although its server demands to be asked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overridden: bool,
    /// It is HTML: what a change of content is seen in first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_page: bool,
}

/// What an entry is made from.
#[derive(Clone, Copy, Debug)]
pub struct EntryParts<'a> {
    /// What was asked for.
    pub address: &'a Address,
    /// The fields that it was asked for with.
    pub asked: &'a HeaderMap,
    /// The status.
    pub status: StatusCode,
    /// The fields of the answer as they came in.
    pub headers: &'a HeaderMap,
    /// When.
    pub times: Times,
    /// The body without content coding.
    pub body: Option<BodyRef>,
    /// Whether a coding was undone.
    pub was_coded: bool,
    /// Whether the operator permits what the server does not.
    pub overridden: bool,
    /// Whether it is HTML.
    pub is_page: bool,
}

impl Entry {
    /// Makes an entry, if the rules of sharing permit storing it.
    pub fn new(parts: &EntryParts<'_>, rules: &Rules) -> Result<Self, NotStorable> {
        let mut headers = parts.headers.clone();
        nightwatt_httpcache::fields::strip_hop_by_hop(&mut headers);
        headers.remove(SET_COOKIE);
        headers.remove("set-cookie2");
        // `private="X"` and `no-cache="X"` let the rest be stored without the field.
        for name in ResponseDirectives::parse(&headers).withheld {
            headers.remove(name);
        }
        if parts.was_coded {
            headers.remove(CONTENT_ENCODING);
            headers.remove(CONTENT_LENGTH);
        }
        let Vary::On(names) = Vary::parse(&headers) else { return Err(NotStorable::VaryAny) };
        let selecting = names.iter().filter_map(|name| {
            let value = parts.asked.get(name)?;
            (*name != ACCEPT_ENCODING).then(|| Field::of(name, value.as_bytes()))
        });
        let entry = Self {
            address: parts.address.clone(),
            status: parts.status.as_u16(),
            fields: fields_of(&headers),
            selecting: selecting.collect(),
            requested: parts.times.requested.as_millis(),
            received: parts.times.received.as_millis(),
            body: parts.body,
            was_coded: parts.was_coded,
            overridden: parts.overridden,
            is_page: parts.is_page,
        };
        entry.stored(rules)?;
        Ok(entry)
    }

    /// The status.
    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// When it came in, or was last confirmed.
    pub const fn confirmed(&self) -> Timestamp {
        Timestamp::from_millis(self.received)
    }

    /// The fields that the server sent.
    pub fn headers(&self) -> HeaderMap {
        headers_of(&self.fields)
    }

    /// Whether it says that there is nothing here, or that it is elsewhere.
    pub fn is_negative(&self) -> bool {
        self.status().is_client_error() || self.status().is_redirection()
    }

    /// The request fields that it was chosen by.
    pub fn asked(&self) -> HeaderMap {
        headers_of(&self.selecting)
    }

    /// As the rules of the cache see it. The coding is ours to choose or to refuse, so neither it nor `Vary`
    /// speaks of it; what the operator overrides is not there.
    pub fn stored(&self, rules: &Rules) -> Result<Stored, NotStorable> {
        let mut headers = self.headers();
        drop_from_vary(&mut headers);
        headers.remove(CONTENT_ENCODING);
        if self.overridden {
            headers.remove(CACHE_CONTROL);
            headers.remove(EXPIRES);
            headers.remove(PRAGMA);
        }
        // Where the server says nothing of freshness, its clock does not count: the age is that of the copy.
        if ![CACHE_CONTROL, EXPIRES, PRAGMA].iter().any(|name| headers.contains_key(name)) {
            headers.remove(DATE);
        }
        let asked = self.asked();
        let request = RequestHead {
            method: &Method::GET,
            authority: "mirror",
            path_and_query: self.address.as_str(),
            headers: &asked,
        };
        let times = Times {
            requested: Timestamp::from_millis(self.requested),
            received: Timestamp::from_millis(self.received),
        };
        let status = judged_status(self.status());
        Stored::new(&request, Filler::Proxy, status, &headers, times, rules)
    }

    /// Bytes of memory, roughly.
    pub fn weight(&self) -> usize {
        let fields = self.fields.iter().chain(&self.selecting);
        200 + self.address.as_str().len()
            + fields.map(|it| it.name.len() + it.value.len() + 32).sum::<usize>()
    }
}

/// Redirects of all kinds are remembered as long as pages: the rules look at their lasting kin.
fn judged_status(status: StatusCode) -> StatusCode {
    match status {
        StatusCode::FOUND | StatusCode::SEE_OTHER => StatusCode::MOVED_PERMANENTLY,
        StatusCode::TEMPORARY_REDIRECT => StatusCode::PERMANENT_REDIRECT,
        other => other,
    }
}

fn drop_from_vary(headers: &mut HeaderMap) {
    if !headers.contains_key(VARY) {
        return;
    }
    let Vary::On(names) = Vary::parse(headers) else { return };
    headers.remove(VARY);
    for name in names.iter().filter(|name| **name != ACCEPT_ENCODING) {
        headers.append(VARY, HeaderValue::from(name.clone()));
    }
}
