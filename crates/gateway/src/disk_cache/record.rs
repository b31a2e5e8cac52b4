//! The format of a segment: a header, then records, each with lengths, metadata, the body, and checksums over both.
//! Numbers are little-endian.
//!
//! ```text
//! segment  "nightwatt cache2"  number u64  salt u64  sum of these u64  zeros to the end of the page
//!          records..
//! record   sum u64  "nwr1"  kind u8  synced u24  meta length u32  body length u32  sum of the body u64
//!          meta  body
//! ```
//!
//! What is written and synced together is a batch. Each batch begins on a new page, so that no page that is on the disk
//! for certain is written again; the gap before it is filled with zeros. `synced` of a record is the offset at which
//! the previous batch ended: if not everything before it is whole, something was lost that had been on the disk.
//!
//! A record's first checksum covers the rest of its head and its metadata, seeded with the segment's salt and the
//! record's offset. So bytes that an older file left in the same blocks are no record, and neither are bytes of a body
//! that look like one.

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use nightwatt_httpcache::{Basis, Times, Timestamp};
use twox_hash::XxHash3_64;

/// Length of a segment's head. It has a page of its own.
pub const SEGMENT_HEAD: u64 = 40;

/// The size of a page: what the kernel writes at once.
pub const PAGE: u64 = 4096;

/// Maximum length of a segment: offsets within it have 24 bits.
pub const LONGEST_SEGMENT: u64 = 1 << 24;

/// Length of a record's head.
pub const HEAD: usize = 32;

/// Maximum length of the metadata.
pub const LONGEST_META: usize = 256 << 10;

const SEGMENT_MAGIC: &[u8; 16] = b"nightwatt cache2";

/// Magic of segments that earlier versions wrote.
const EARLIER_MAGIC: &[u8; 16] = b"nightwatt cache1";

/// Magic of a record, after its checksum.
pub(super) const MAGIC: &[u8; 4] = b"nwr1";

/// Offset of the magic in a record.
pub(super) const MAGIC_AT: usize = 8;

/// The head of a segment.
pub(super) fn segment_head(number: u64, salt: u64) -> [u8; SEGMENT_HEAD as usize] {
    let mut head = [0; SEGMENT_HEAD as usize];
    head[..16].copy_from_slice(SEGMENT_MAGIC);
    head[16..24].copy_from_slice(&number.to_le_bytes());
    head[24..32].copy_from_slice(&salt.to_le_bytes());
    let sum = XxHash3_64::oneshot(&head[..32]);
    head[32..].copy_from_slice(&sum.to_le_bytes());
    head
}

/// The salt of the segment with this number, if that is its header.
pub(super) fn salt_of(number: u64, head: &[u8; SEGMENT_HEAD as usize]) -> Option<u64> {
    let salt = u64::from_le_bytes(head[24..32].try_into().ok()?);
    (*head == segment_head(number, salt)).then_some(salt)
}

/// Whether an earlier version has written this segment. Its answers cannot be trusted: that version did not record who
/// had sent the request.
pub(super) fn is_earlier(head: &[u8; SEGMENT_HEAD as usize]) -> bool {
    head.starts_with(EARLIER_MAGIC)
}

/// The checksum of a body.
pub fn body_sum(body: &[u8]) -> u64 {
    XxHash3_64::oneshot(body)
}

/// What kind of record it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordKind {
    /// A stored answer with its body.
    Object,
    /// New fields of a stored answer, whose body is in an earlier record.
    Renewed,
    /// Forgets everything earlier with this name.
    Forget,
    /// What was written on a day.
    Day,
}

impl RecordKind {
    const ALL: [Self; 4] = [Self::Object, Self::Renewed, Self::Forget, Self::Day];

    const fn number(self) -> u8 {
        match self {
            Self::Object => 1,
            Self::Renewed => 2,
            Self::Forget => 3,
            Self::Day => 4,
        }
    }
}

/// The head of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Its kind.
    pub kind: RecordKind,
    /// Bytes of its meta.
    pub meta: u32,
    /// Bytes of its body.
    pub body: u32,
    /// The sum over the body.
    pub body_sum: u64,
    /// Everything before this offset of the segment was on the disk when the record was written.
    pub synced: u32,
    sum: u64,
}

impl Head {
    /// Parses a head; only the metadata shows whether it is valid.
    pub fn read(bytes: &[u8; HEAD]) -> Option<Self> {
        let number = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|it| bytes[at + it]));
        let long = |at: usize| u64::from(number(at)) | (u64::from(number(at + 4)) << 32);
        let kind = RecordKind::ALL.into_iter().find(|kind| kind.number() == bytes[12])?;
        let (meta, body) = (number(16), number(20));
        let good = bytes[MAGIC_AT..12] == *MAGIC
            && meta as usize <= LONGEST_META
            && (kind == RecordKind::Object || body == 0);
        let synced = number(12) >> 8;
        good.then(|| Self { kind, meta, body, body_sum: long(24), synced, sum: long(0) })
    }

    /// Whether head and metadata are what was written at this offset of the segment. `bytes` are both.
    pub fn is_whole(&self, bytes: &[u8], salt: u64, at: u64) -> bool {
        bytes.len() == HEAD + self.meta as usize && sum(&bytes[8..], salt, at) == self.sum
    }

    /// Bytes of the whole record.
    pub const fn length(&self) -> u64 {
        HEAD as u64 + self.meta as u64 + self.body as u64
    }
}

fn sum(bytes: &[u8], salt: u64, at: u64) -> u64 {
    XxHash3_64::oneshot_with_seed(salt.wrapping_add(at), bytes)
}

/// Where a record is written.
pub struct RecordPlace {
    /// Of the segment.
    pub salt: u64,
    /// Offset in the segment.
    pub at: u64,
    /// The segment's bytes before this offset are on the disk.
    pub synced: u64,
}

/// Head and metadata of a record. The body, if there is one, follows.
pub(super) fn head_and_meta(
    kind: RecordKind,
    meta: &[u8],
    body_length: u32,
    body_sum: u64,
    place: &RecordPlace,
) -> Vec<u8> {
    let RecordPlace { salt, at, synced } = *place;
    debug_assert!(synced < LONGEST_SEGMENT, "a batch lies behind it");
    let mut bytes = Vec::with_capacity(HEAD + meta.len());
    bytes.extend([0; 8]);
    bytes.extend(MAGIC);
    bytes.push(kind.number());
    bytes.extend(&(synced as u32).to_le_bytes()[..3]);
    // Callers respect `LONGEST_META`.
    bytes.extend((meta.len() as u32).to_le_bytes());
    bytes.extend(body_length.to_le_bytes());
    bytes.extend(body_sum.to_le_bytes());
    bytes.extend(meta);
    let sum = sum(&bytes[8..], salt, at);
    bytes[..8].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// Where a body is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Body {
    /// In which segment.
    pub segment: u64,
    /// Its first byte.
    pub at: u64,
    /// Its length.
    pub length: u32,
    /// The sum over it.
    pub sum: u64,
}

/// What is stored of an answer besides its body.
#[derive(Debug, Clone, PartialEq)]
pub struct Meta {
    /// Site and key.
    pub name: Name,
    /// Its popularity.
    pub popularity: u64,
    /// When it was requested and received.
    pub times: Times,
    /// Its status.
    pub status: StatusCode,
    /// Why it may be shared.
    pub basis: Basis,
    /// The rules under which it was stored ([`sharing::fingerprint`](nightwatt_httpcache::sharing::fingerprint)).
    pub rules: u64,
    /// The request's fields that selected it.
    pub selecting: Vec<(HeaderName, Option<Vec<u8>>)>,
    /// Its fields.
    pub headers: HeaderMap,
}

/// Site and key as one text: `blog example.org/a`. No site has a space in its name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(Box<str>);

impl Name {
    /// The name of what a site has stored under a key.
    pub fn new(site: &str, key: &str) -> Self {
        Self(format!("{site} {key}").into())
    }

    /// Site and key as one text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The key, if the name belongs to this site.
    pub fn key_in(&self, site: &str) -> Option<&str> {
        self.0.strip_prefix(site)?.strip_prefix(' ')
    }
}

/// What was written on a day, as far as known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Day {
    /// Days since 1970 (UTC).
    pub day: i64,
    /// Bytes of the cache.
    pub cache: u64,
    /// Bytes of everything else.
    pub other: u64,
}

impl Day {
    /// Bytes in all.
    pub const fn spent(&self) -> u64 {
        self.cache.saturating_add(self.other)
    }
}

/// The content of a record.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// An answer whose body follows.
    Object(Meta),
    /// An answer whose body is stored there.
    Renewed(Meta, Body),
    /// Forgets everything with this name.
    Forget(Name),
    /// What was written on a day.
    Day(Day),
}

impl Content {
    /// The kind and the metadata to write. Nothing if they would be too long to be read again.
    pub fn write(&self) -> Option<(RecordKind, Vec<u8>)> {
        let mut out = Vec::new();
        let kind = match self {
            Self::Object(meta) => {
                write_meta(&mut out, meta)?;
                RecordKind::Object
            }
            Self::Renewed(meta, body) => {
                for number in [body.segment, body.at, u64::from(body.length), body.sum] {
                    out.extend(number.to_le_bytes());
                }
                write_meta(&mut out, meta)?;
                RecordKind::Renewed
            }
            Self::Forget(name) => {
                put(&mut out, name.as_str().as_bytes())?;
                RecordKind::Forget
            }
            Self::Day(day) => {
                out.extend(day.day.to_le_bytes());
                out.extend(day.cache.to_le_bytes());
                out.extend(day.other.to_le_bytes());
                RecordKind::Day
            }
        };
        (out.len() <= LONGEST_META).then_some((kind, out))
    }

    /// Parses what [`Content::write`] wrote; nothing if it is anything else.
    pub fn read(kind: RecordKind, meta: &[u8]) -> Option<Self> {
        Self::read_of(kind, meta, false)
    }

    /// The same, also for metadata of an earlier version, which did not record why an answer may be shared.
    pub(super) fn read_of(kind: RecordKind, meta: &[u8], is_earlier: bool) -> Option<Self> {
        let mut rest = Rest(meta);
        let said = match kind {
            RecordKind::Object => Self::Object(rest.meta(is_earlier)?),
            RecordKind::Renewed => {
                let (segment, at) = (rest.long()?, rest.long()?);
                let (length, sum) = (u32::try_from(rest.long()?).ok()?, rest.long()?);
                Self::Renewed(rest.meta(is_earlier)?, Body { segment, at, length, sum })
            }
            RecordKind::Forget => Self::Forget(rest.name()?),
            RecordKind::Day => {
                let day = i64::from_le_bytes(rest.take(8)?.try_into().ok()?);
                Self::Day(Day { day, cache: rest.long()?, other: rest.long()? })
            }
        };
        rest.0.is_empty().then_some(said)
    }
}

/// Identifies a variant of a resource, by the request fields that selected it.
pub fn variant<'a>(selecting: impl Iterator<Item = (&'a HeaderName, Option<&'a [u8]>)>) -> u64 {
    let mut text = Vec::new();
    for (name, value) in selecting {
        text.extend(name.as_str().as_bytes());
        text.push(if value.is_some() { b':' } else { 0 });
        text.extend(value.unwrap_or_default());
        text.push(b'\n');
    }
    XxHash3_64::oneshot(&text)
}

impl Meta {
    /// See [`variant`].
    pub fn variant(&self) -> u64 {
        variant(self.selecting.iter().map(|(name, value)| (name, value.as_deref())))
    }
}

fn put(out: &mut Vec<u8>, bytes: &[u8]) -> Option<()> {
    out.extend(u32::try_from(bytes.len()).ok()?.to_le_bytes());
    out.extend(bytes);
    Some(())
}

fn write_meta(out: &mut Vec<u8>, meta: &Meta) -> Option<()> {
    put(out, meta.name.as_str().as_bytes())?;
    for number in [
        meta.popularity,
        meta.times.requested.as_millis(),
        meta.times.received.as_millis(),
        u64::from(meta.status.as_u16()),
        u64::from(meta.basis.number()),
        meta.rules,
        meta.selecting.len() as u64,
    ] {
        out.extend(number.to_le_bytes());
    }
    for (name, value) in &meta.selecting {
        put(out, name.as_str().as_bytes())?;
        out.push(u8::from(value.is_some()));
        put(out, value.as_deref().unwrap_or_default())?;
    }
    out.extend((meta.headers.len() as u64).to_le_bytes());
    for (name, value) in &meta.headers {
        put(out, name.as_str().as_bytes())?;
        put(out, value.as_bytes())?;
    }
    Some(())
}

/// Bytes still to parse.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }

    fn long(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_le_bytes)
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let length = u32::from_le_bytes(self.take(4)?.try_into().ok()?);
        self.take(usize::try_from(length).ok()?)
    }

    fn name(&mut self) -> Option<Name> {
        let text = std::str::from_utf8(self.text()?).ok()?;
        text.contains(' ').then(|| Name(text.into()))
    }

    fn meta(&mut self, is_earlier: bool) -> Option<Meta> {
        let name = self.name()?;
        let popularity = self.long()?;
        let [requested, received] = [self.long()?, self.long()?].map(Timestamp::from_millis);
        let status = StatusCode::from_u16(u16::try_from(self.long()?).ok()?).ok()?;
        let (basis, rules) = if is_earlier {
            (Basis::Marked, 0)
        } else {
            (Basis::of_number(u8::try_from(self.long()?).ok()?)?, self.long()?)
        };
        let mut selecting = Vec::new();
        for _ in 0..self.long()? {
            let name = HeaderName::from_bytes(self.text()?).ok()?;
            let is_there = self.take(1)? == [1];
            let value = self.text()?;
            selecting.push((name, is_there.then(|| value.to_owned())));
        }
        let mut headers = HeaderMap::new();
        for _ in 0..self.long()? {
            let name = HeaderName::from_bytes(self.text()?).ok()?;
            let value = HeaderValue::from_bytes(self.text()?).ok()?;
            // A map cannot hold more: such metadata was never written.
            headers.try_append(name, value).ok()?;
        }
        Some(Meta {
            name,
            popularity,
            times: Times { requested, received },
            status,
            basis,
            rules,
            selecting,
            headers,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn meta() -> Meta {
        let mut headers = HeaderMap::new();
        headers.append("cache-control", HeaderValue::from_static("max-age=60"));
        headers.append("x-bytes", HeaderValue::from_bytes(b"\xfc").unwrap());
        headers.append("x-bytes", HeaderValue::from_static(""));
        let times = Times {
            requested: Timestamp::from_millis(1_767_225_600_123),
            received: Timestamp::from_millis(1_767_225_600_456),
        };
        let selecting = vec![
            (HeaderName::from_static("accept"), Some(b"text/html".to_vec())),
            (HeaderName::from_static("dnt"), None),
        ];
        let status = StatusCode::NOT_FOUND;
        Meta {
            name: Name::new("blog", "a/b?c d"),
            popularity: 7,
            times,
            status,
            basis: Basis::OwnRequest,
            rules: 9,
            selecting,
            headers,
        }
    }

    fn all() -> [Content; 4] {
        let body = Body { segment: 3, at: 1 << 40, length: 5, sum: u64::MAX };
        let day = Day { day: 20_780, cache: 1, other: 2 };
        let forget = Content::Forget(Name::new("blog", "a/"));
        [Content::Object(meta()), Content::Renewed(meta(), body), forget, Content::Day(day)]
    }

    #[test]
    fn what_was_written_is_read_again_and_no_other_way() {
        for said in all() {
            let (kind, bytes) = said.write().unwrap();
            assert_eq!(Content::read(kind, &bytes), Some(said.clone()));
            for cut in 0..bytes.len() {
                assert_eq!(Content::read(kind, &bytes[..cut]), None, "{said:?} cut at {cut}");
            }
            assert_eq!(Content::read(kind, &[&bytes[..], b"x"].concat()), None);
        }
    }

    #[test]
    fn a_record_is_one_at_its_own_place_in_its_own_segment_only() {
        let (kind, meta) = all()[0].write().unwrap();
        let place = RecordPlace { salt: 42, at: 1000, synced: 0xfe_dcba };
        let bytes = head_and_meta(kind, &meta, 5, body_sum(b"hello"), &place);
        let head = Head::read(bytes[..HEAD].try_into().unwrap()).unwrap();
        assert_eq!((head.kind, head.meta as usize, head.body), (RecordKind::Object, meta.len(), 5));
        assert_eq!(head.synced, 0xfe_dcba);
        assert!(head.is_whole(&bytes, 42, 1000));
        assert!(!head.is_whole(&bytes, 42, 1001) && !head.is_whole(&bytes, 43, 1000));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 4;
            let head = Head::read(damaged[..HEAD].try_into().unwrap());
            assert!(!head.is_some_and(|it| it.is_whole(&damaged, 42, 1000)), "byte {at}");
        }
    }

    #[test]
    fn a_segment_is_known_by_its_number() {
        let head = segment_head(7, 99);
        assert_eq!(salt_of(7, &head), Some(99));
        assert_eq!(salt_of(8, &head), None);
    }

    #[test]
    fn a_site_is_not_taken_for_another_whose_name_begins_so() {
        let name = Name::new("blog", "a/b");
        assert_eq!(name.key_in("blog"), Some("a/b"));
        assert_eq!((name.key_in("blo"), name.key_in("blogs")), (None, None));
    }

    #[test]
    fn what_is_too_long_is_not_written() {
        let mut long = meta();
        let value = HeaderValue::from_bytes(&vec![b'x'; LONGEST_META]).unwrap();
        long.headers.append("x-long", value);
        assert_eq!(Content::Object(long).write(), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            for kind in RecordKind::ALL {
                if let Some(said) = Content::read(kind, &bytes) {
                    prop_assert!(said.write().is_some());
                }
            }
        }
    }
}
