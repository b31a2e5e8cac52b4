//! What clients of the soak ask for.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::content::{Body, Pattern, echo, sum, tag};

/// Pages that everybody asks for.
const PAGES: u32 = 30;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RequestKind {
    /// What may come from the cache.
    Page,
    /// What must come from the origin.
    Miss,
    Head,
    Range,
    Conditional,
    Large,
    /// Changes something: must not be done twice.
    Post,
    /// May be done twice.
    Put,
    LargeUpload,
}

impl RequestKind {
    pub(super) const ALL: [Self; 9] = [
        Self::Page,
        Self::Miss,
        Self::Head,
        Self::Range,
        Self::Conditional,
        Self::Large,
        Self::Post,
        Self::Put,
        Self::LargeUpload,
    ];

    /// Is this a status that says that all went well?
    pub(super) const fn may_be(self, status: u16) -> bool {
        match self {
            Self::Range => status == 206,
            Self::Conditional => matches!(status, 200 | 304),
            _ => status == 200,
        }
    }

    /// Must not reach the origin's handler twice.
    pub(super) const fn happens_once(self) -> bool {
        matches!(self, Self::Post | Self::LargeUpload)
    }

    /// Must have reached the origin if it is answered well.
    pub(super) const fn acts(self) -> bool {
        matches!(self, Self::Post | Self::Put | Self::LargeUpload)
    }
}

/// A request, and what must come back if all goes well.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) kind: RequestKind,
    pub(super) bytes: Vec<u8>,
    /// Length and sum of its body.
    pub(super) body: (u64, u64),
    pub(super) expected: Body,
}

impl Request {
    pub(super) fn make(random: &mut ChaCha8Rng, id: &str) -> Self {
        let kind = match random.random_range(0..40) {
            0..10 => RequestKind::Page,
            10..18 => RequestKind::Miss,
            18..20 => RequestKind::Head,
            20..23 => RequestKind::Range,
            23..26 => RequestKind::Conditional,
            26 => RequestKind::Large,
            27..35 => RequestKind::Post,
            35..39 => RequestKind::Put,
            _ => RequestKind::LargeUpload,
        };
        if kind.acts() { Self::upload(random, kind, id) } else { Self::download(random, kind, id) }
    }

    fn download(random: &mut ChaCha8Rng, kind: RequestKind, id: &str) -> Self {
        let page = random.random_range(0..PAGES);
        let chunked = if random.random_range(0..2) == 0 { "miss" } else { "chunked" };
        let (target, size) = match kind {
            RequestKind::Page | RequestKind::Head | RequestKind::Conditional => {
                (format!("/hit/{}/{page}", page * 1000), page as usize * 1000)
            }
            // More than the buffers between origin and client hold.
            RequestKind::Large => (format!("/large/16000000/{id}"), 16_000_000),
            RequestKind::Range => (format!("/miss/20000/{id}"), 20_000),
            _ => (format!("/{chunked}/5000/{id}"), 5000),
        };
        let method = if kind == RequestKind::Head { "HEAD" } else { "GET" };
        let mut part = 0..size;
        let field = match kind {
            RequestKind::Range => {
                part.start = random.random_range(0..size);
                part.end = random.random_range(part.start..size) + 1;
                format!("Range: bytes={}-{}\r\n", part.start, part.end - 1)
            }
            RequestKind::Conditional => format!("If-None-Match: {}\r\n", tag(&target)),
            _ => String::new(),
        };
        let bytes = format!("{}{field}\r\n", head(method, &target, id)).into_bytes();
        let expected = Body::Pattern(Pattern::of(&target), part);
        Self { kind, bytes, body: (0, sum(b"")), expected }
    }

    fn upload(random: &mut ChaCha8Rng, kind: RequestKind, id: &str) -> Self {
        let method = if kind == RequestKind::Put { "PUT" } else { "POST" };
        let target = format!("/echo/{id}");
        // Without a body nothing but the method says that it must not be sent again.
        let length = match random.random_range(0..3) {
            0 => 0,
            _ if kind == RequestKind::LargeUpload => random.random_range(0..900_000),
            _ => random.random_range(0..4000),
        };
        let pattern = Pattern::of(id);
        let content: Vec<u8> = (0..length).map(|index| pattern.byte(index)).collect();
        let mut bytes = head(method, &target, id).into_bytes();
        if random.random_range(0..2) == 0 {
            bytes.extend(format!("Content-Length: {length}\r\n\r\n").bytes());
            bytes.extend(&content);
        } else {
            bytes.extend(b"Transfer-Encoding: chunked\r\n\r\n");
            for part in content.chunks(random.random_range(100..20_000)) {
                bytes.extend(format!("{:x}\r\n", part.len()).bytes());
                bytes.extend(part);
                bytes.extend(b"\r\n");
            }
            bytes.extend(b"0\r\n\r\n");
        }
        let body = (length as u64, sum(&content));
        let expected = Body::Text(echo(method, &target, body.0, body.1));
        Self { kind, bytes, body, expected }
    }
}

fn head(method: &str, target: &str, id: &str) -> String {
    format!(
        "{method} {target} HTTP/1.1\r\nHost: site.test\r\nUser-Agent: soak/1\r\nX-Request-Id: {id}\r\n"
    )
}
