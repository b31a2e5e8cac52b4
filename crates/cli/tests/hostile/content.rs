//! What the origins of these tests answer. The answer depends only on the request, so the client
//! knows what must come back.
//!
//! | target | answer |
//! |---|---|
//! | `/hit/SIZE/..` | may be kept for two seconds, has an ETag, knows ranges |
//! | `/miss/SIZE/..` | never kept, knows ranges |
//! | `/chunked/SIZE/..` | never kept, in chunks |
//! | `/large/SIZE/..` | never kept, and may be larger |
//! | anything else | method, target, length and sum of the body |

use std::fmt::Write as _;
use std::io::Write;

use crate::strict::Head;

/// No answer is larger, whatever is asked for; but for `/large/`.
pub(crate) const LARGEST: usize = 4 << 20;
const LARGEST_LARGE: usize = 32 << 20;

/// Parts in which bodies are written.
const PART: usize = 16 * 1024;

/// An answer, worked out and not yet written.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body: Body,
    chunked: bool,
    fields: String,
    head_only: bool,
}

/// The bytes of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Body {
    Text(String),
    /// These bytes of the pattern of a target.
    Pattern(Pattern, std::ops::Range<usize>),
}

impl Body {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Pattern(_, range) => range.len(),
        }
    }

    /// Are these its bytes from `from` on?
    pub(crate) fn has_at(&self, from: usize, bytes: &[u8]) -> bool {
        match self {
            Self::Text(text) => text.as_bytes().get(from..from + bytes.len()) == Some(bytes),
            Self::Pattern(pattern, range) => {
                from + bytes.len() <= range.len()
                    && bytes
                        .iter()
                        .enumerate()
                        .all(|(index, byte)| pattern.byte(range.start + from + index) == *byte)
            }
        }
    }

    fn part(&self, range: std::ops::Range<usize>) -> Vec<u8> {
        match self {
            Self::Text(text) => text.as_bytes()[range].to_vec(),
            Self::Pattern(pattern, whole) => {
                range.map(|index| pattern.byte(whole.start + index)).collect()
            }
        }
    }
}

/// Bytes without end that tell both their target and their place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pattern([u8; 8]);

impl Pattern {
    pub(crate) fn of(target: &str) -> Self {
        Self(sum(target.as_bytes()).to_le_bytes())
    }

    pub(crate) fn byte(self, index: usize) -> u8 {
        self.0[index % 8].wrapping_add((index / 8) as u8).wrapping_add((index / 2048) as u8)
    }
}

/// FNV-1a: tells bodies apart that were not made to be confused.
pub(crate) fn sum(bytes: &[u8]) -> u64 {
    more(SUM, bytes)
}

/// The sum of nothing.
pub(crate) const SUM: u64 = 0xcbf2_9ce4_8422_2325;

/// The sum of what `sum` is of, and these bytes.
pub(crate) fn more(sum: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(sum, |sum, &byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The `ETag` of a target that has one.
pub(crate) fn tag(target: &str) -> String {
    format!("\"{:016x}\"", sum(target.as_bytes()))
}

/// How long the answer to such a target is; nothing if that is text.
fn size(target: &str, kind: &str) -> Option<usize> {
    let size = target.strip_prefix(kind)?.split('/').next()?.parse().ok();
    let most = if kind == "/large/" { LARGEST_LARGE } else { LARGEST };
    size.filter(|size| *size <= most)
}

/// What a request is to be answered, whose body had this length and this sum.
pub(crate) fn reply(head: &Head, (length, sum): (u64, u64)) -> Reply {
    let Head { method, target, .. } = head;
    let head_only = method == "HEAD";
    let kinds = [("/hit/", false), ("/miss/", false), ("/chunked/", true), ("/large/", false)];
    let sized = kinds.iter().find_map(|(kind, chunked)| Some((kind, chunked, size(target, kind)?)));
    let Some((kind, chunked, size)) = sized.filter(|_| matches!(&**method, "GET" | "HEAD")) else {
        let body = Body::Text(echo(method, target, length, sum));
        let fields = "Cache-Control: no-store\r\n".to_owned();
        return Reply { status: 200, body, chunked: false, fields, head_only };
    };
    let whole = Body::Pattern(Pattern::of(target), 0..size);
    let mut fields = "Cache-Control: no-store\r\n".to_owned();
    if *kind == "/hit/" {
        let tag = tag(target);
        fields = format!("Cache-Control: max-age=2\r\nETag: {tag}\r\n");
        if head.only("if-none-match") == Some(&tag) {
            let body = Body::Text(String::new());
            return Reply { status: 304, body, chunked: false, fields, head_only };
        }
    }
    let range = head.only("range").filter(|_| method == "GET" && !chunked);
    let Some(range) = range.and_then(|range| part_of(range, size)) else {
        return Reply { status: 200, body: whole, chunked: *chunked, fields, head_only };
    };
    let last = range.end - 1;
    let _ = write!(fields, "Content-Range: bytes {}-{last}/{size}\r\n", range.start);
    let body = Body::Pattern(Pattern::of(target), range);
    Reply { status: 206, body, chunked: false, fields, head_only }
}

/// What is answered to a target of no special kind.
pub(crate) fn echo(method: &str, target: &str, length: u64, sum: u64) -> String {
    format!("{method} {target} {length} {sum:016x}\n")
}

/// `bytes=FIRST-LAST` of so many.
fn part_of(range: &str, size: usize) -> Option<std::ops::Range<usize>> {
    let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
    let (first, last) = (first.parse().ok()?, last.parse::<usize>().ok()?);
    (first <= last && last < size).then_some(first..last + 1)
}

impl Reply {
    pub(crate) fn write(&self, to: &mut impl Write) -> std::io::Result<()> {
        let framing = match (self.status, self.chunked) {
            (304, _) => String::new(),
            (_, true) => "Transfer-Encoding: chunked\r\n".to_owned(),
            _ => format!("Content-Length: {}\r\n", self.body.len()),
        };
        let (status, fields) = (self.status, &self.fields);
        let head = format!("HTTP/1.1 {status} Whatever\r\n{fields}{framing}\r\n");
        let mut bytes = head.into_bytes();
        if self.head_only || self.status == 304 {
            return to.write_all(&bytes);
        }
        let length = self.body.len();
        for from in (0..length).step_by(PART) {
            let part = self.body.part(from..length.min(from + PART));
            if self.chunked {
                bytes.extend(format!("{:x}\r\n", part.len()).bytes());
            }
            bytes.extend(part);
            if self.chunked {
                bytes.extend(b"\r\n");
            }
            to.write_all(&bytes)?;
            bytes.clear();
        }
        if self.chunked {
            bytes.extend(b"0\r\n\r\n");
        }
        to.write_all(&bytes)
    }
}
