//! As much of HTTP/1.1 as it takes to learn the status of a page.

use std::io;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::OWN_MARK;

/// No status line is longer.
const LINE_LIMIT: usize = 1024;

/// Bytes of an answer that are searched.
const ANSWER_LIMIT: usize = 64 * 1024;

/// An `http://` or `https://` address.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct HttpUrl {
    pub(super) by_tls: bool,
    /// `HOST` or `HOST:PORT`, as written: what goes into the `Host` header.
    authority: String,
    /// Path and query.
    path: String,
}

impl std::fmt::Display for HttpUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let scheme = if self.by_tls { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority, self.path)
    }
}

impl FromStr for HttpUrl {
    type Err = String;

    fn from_str(url: &str) -> Result<Self, String> {
        let wrong = |why: &str| Err(format!("cannot probe `{url}`: {why}"));
        let (plain, by_tls) = (url.strip_prefix("http://"), url.strip_prefix("https://"));
        let Some(rest) = plain.or(by_tls) else {
            return wrong("write it as `http://HOST[:PORT][/PATH]`, or with `https`");
        };
        let by_tls = by_tls.is_some();
        let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let path = path.split('#').next().unwrap_or_default();
        if authority.is_empty() || authority.contains('@') {
            return wrong("between `//` and the path there must be HOST or HOST:PORT");
        }
        if !url.bytes().all(|byte| byte.is_ascii_graphic()) {
            return wrong("write spaces and what is not ASCII as %XX");
        }
        let slash = if path.starts_with('/') { "" } else { "/" };
        let url = Self { by_tls, authority: authority.to_owned(), path: format!("{slash}{path}") };
        super::check_address(&url.address())?;
        Ok(url)
    }
}

impl TryFrom<String> for HttpUrl {
    type Error = String;

    fn try_from(url: String) -> Result<Self, String> {
        url.parse()
    }
}

impl HttpUrl {
    /// Where to connect to.
    pub(super) fn address(&self) -> String {
        let name_end = self.authority.rfind(']').unwrap_or(0);
        if self.authority[name_end..].contains(':') {
            self.authority.clone()
        } else {
            format!("{}:{}", self.authority, if self.by_tls { 443 } else { 80 })
        }
    }

    /// The name or address alone.
    pub(super) fn host(&self) -> String {
        let address = self.address();
        let host = address.rsplit_once(':').map_or(&*address, |(host, _)| host);
        host.trim_start_matches('[').trim_end_matches(']').to_owned()
    }
}

/// One status, `404`, or a range of them, `"200-399"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatusRange {
    first: u16,
    last: u16,
}

impl StatusRange {
    /// Is this status in the range?
    pub const fn contains(self, status: u16) -> bool {
        self.first <= status && status <= self.last
    }

    fn new(first: u16, last: u16) -> Option<Self> {
        (100 <= first && first <= last && last <= 599).then_some(Self { first, last })
    }
}

impl FromStr for StatusRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let number = |text: &str| text.trim().parse().ok();
        number(first)
            .zip(number(last))
            .and_then(|(first, last)| Self::new(first, last))
            .ok_or_else(|| format!("`{text}` is not a status or a range, as 404 or \"200-399\""))
    }
}

impl<'de> Deserialize<'de> for StatusRange {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "expected a status as 404, or a range as \"200-399\"")]
        enum NumberOrText {
            Number(u16),
            Text(String),
        }
        let text = match NumberOrText::deserialize(deserializer)? {
            NumberOrText::Number(number) => number.to_string(),
            NumberOrText::Text(text) => text,
        };
        text.parse().map_err(D::Error::custom)
    }
}

/// What the page answers.
pub(super) struct ProbeAnswer {
    pub(super) status: u16,
    /// The text that was looked for is in it.
    pub(super) contains: bool,
}

fn contains(bytes: &[u8], text: &str) -> bool {
    text.is_empty() || bytes.windows(text.len()).any(|part| part == text.as_bytes())
}

/// Asks for the page: its status, and whether this text is in it.
pub(super) async fn ask(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    url: &HttpUrl,
    text: &str,
) -> io::Result<ProbeAnswer> {
    let HttpUrl { authority, path, .. } = url;
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: nightwatt-probe\r\n\
         Via: 1.1 nightwatt ({})\r\nAccept: */*\r\nConnection: close\r\n\r\n",
        OWN_MARK.as_str()
    );
    stream.write_all(request.as_bytes()).await?;
    let mut bytes = Vec::new();
    let limit = if text.is_empty() { LINE_LIMIT } else { ANSWER_LIMIT };
    let mut answer = stream.take(limit as u64);
    // No longer than it takes: some servers keep the connection whatever is asked of them.
    while !bytes.contains(&b'\n') || !contains(&bytes, text) {
        if answer.read_buf(&mut bytes).await? == 0 {
            break;
        }
    }
    match parse_status_line(&bytes) {
        Some(status) => Ok(ProbeAnswer { status, contains: contains(&bytes, text) }),
        // A port forwarder accepts the connection, and closes it if nothing listens behind it.
        None if bytes.is_empty() => {
            Err(io::Error::other("it closed the connection without an answer"))
        }
        None => Err(io::Error::other(NoHttp(bytes[..bytes.len().min(40)].to_vec()))),
    }
}

/// The first bytes of an answer that is not HTTP/1.
#[derive(Debug, thiserror::Error)]
#[error("its answer is not HTTP/1: {:?}", String::from_utf8_lossy(.0))]
pub(super) struct NoHttp(Vec<u8>);

fn parse_status_line(bytes: &[u8]) -> Option<u16> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let line = std::str::from_utf8(bytes.get(..end)?.trim_ascii_end()).ok()?;
    let (version, rest) = line.split_once(' ')?;
    let code = rest.split(' ').next()?;
    let known = matches!(version, "HTTP/1.0" | "HTTP/1.1");
    let status = code.parse().ok().filter(|status| (100..=599).contains(status))?;
    (known && code.len() == 3).then_some(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_where_to_connect_and_what_to_ask() {
        let parts = |url: &str| {
            url.parse::<HttpUrl>().map(|url| (url.address(), url.authority.clone(), url.path))
        };
        let told = |address: &str, host: &str, path: &str| {
            Ok((address.to_owned(), host.to_owned(), path.to_owned()))
        };
        assert_eq!(parts("http://web"), told("web:80", "web", "/"));
        assert_eq!(parts("http://web:8080/a?b#c"), told("web:8080", "web:8080", "/a?b"));
        assert_eq!(parts("http://web?b"), told("web:80", "web", "/?b"));
        assert_eq!(parts("http://[::1]/x"), told("[::1]:80", "[::1]", "/x"));
        assert_eq!(parts("http://[::1]:81"), told("[::1]:81", "[::1]:81", "/"));
        assert_eq!(parts("https://web/"), told("web:443", "web", "/"));
        assert_eq!(parts("https://[::1]:81"), told("[::1]:81", "[::1]:81", "/"));
        for wrong in ["ftp://web/", "web", "http://", "http://u:p@web/", "http://web/a b"] {
            assert!(parts(wrong).unwrap_err().contains(wrong), "{wrong}");
        }
        assert!(parts("http://web:port/").is_err());
    }

    #[test]
    fn only_a_whole_status_line_of_http_1_counts() {
        assert_eq!(parse_status_line(b"HTTP/1.1 200 OK\r\nServer: x"), Some(200));
        assert_eq!(parse_status_line(b"HTTP/1.0 404\n"), Some(404));
        for wrong in [
            &b"HTTP/1.1 200 OK"[..],
            b"HTTP/2 200 OK\r\n",
            b"HTTP/1.1 20 OK\r\n",
            b"HTTP/1.1 999 OK\r\n",
            b"HTTP/1.1 +20 OK\r\n",
            b"SSH-2.0-OpenSSH_9.2p1\r\n",
            b"\xff\xff\n",
            b"\n",
        ] {
            assert_eq!(parse_status_line(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn ranges_are_inclusive_and_sane() {
        let range: StatusRange = "200-399".parse().unwrap();
        assert!(range.contains(200) && range.contains(399) && !range.contains(400));
        assert!("404".parse::<StatusRange>().unwrap().contains(404));
        for wrong in ["", "abc", "399-200", "99", "600", "200-"] {
            assert!(wrong.parse::<StatusRange>().is_err(), "{wrong}");
        }
    }
}
