//! Host and port, as `Host` fields, request targets and the configuration name them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A host, and a port if one is named. Stricter than RFC 3986: a name has only the characters of DNS names, since
/// different servers parse the other allowed characters differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Authority<'a> {
    /// A name, an IPv4 address, or an IPv6 address in brackets.
    pub(crate) host: &'a str,
    pub(crate) port: Option<u16>,
}

impl<'a> Authority<'a> {
    /// Parses `host` or `host:port`; nothing if it is anything else.
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        let end = if text.starts_with('[') { text.find(']')? + 1 } else { name_length(text) };
        let (host, rest) = text.split_at(end);
        let valid = match host.strip_prefix('[').and_then(|it| it.strip_suffix(']')) {
            Some(address) => address.parse::<Ipv6Addr>().is_ok(),
            None => !host.is_empty(),
        };
        let port = match rest.strip_prefix(':') {
            // An empty port means the default port (RFC 3986, 3.2.3).
            Some("") => None,
            Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
                Some(port.parse().ok()?)
            }
            None if rest.is_empty() => None,
            _ => return None,
        };
        valid.then_some(Self { host, port })
    }

    /// Whether it is a number that some programs read as an IPv4 address, but not written as one (`127.1`, `0x7f000001`,
    /// `127.0.0.01`): which site it is for, and where it leads, would depend on who reads it.
    pub(crate) fn is_misspelt_address(&self) -> bool {
        let host = self.host.strip_suffix('.').unwrap_or(self.host);
        let last = host.rsplit('.').next().unwrap_or_default();
        // The rule of browsers (WHATWG URL, "ends in a number").
        let is_number = match last.strip_prefix("0x").or_else(|| last.strip_prefix("0X")) {
            Some(digits) => digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
            None => !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit()),
        };
        is_number && host.parse::<Ipv4Addr>().is_err()
    }

    /// Whether the text that this was read from is as [`nightwatt_httpcache::normal_authority`] writes it, and the host
    /// needs no further look. (IPv6 addresses have several spellings.)
    pub(crate) fn is_normal(&self, text: &str, secure: bool) -> bool {
        let default = if secure { 443 } else { 80 };
        !self.host.starts_with('[')
            && !self.is_misspelt_address()
            && !self.host.bytes().any(|byte| byte.is_ascii_uppercase())
            && !self.host.ends_with('.')
            && self.port != Some(default)
            && !text.ends_with(':')
    }
}

/// The host that a text names, in the form by which sites are looked up: lower case, without port, and without the
/// final dot of a fully qualified name. An IPv6 address is the same in all spellings.
pub(crate) fn host_name(text: &str) -> String {
    let host = Authority::parse(text).map_or(text, |it| it.host);
    let bracketed = host.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    if let Some(address) = bracketed.and_then(|it| it.parse::<Ipv6Addr>().ok()) {
        return match address.to_canonical() {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => format!("[{address}]"),
        };
    }
    host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase()
}

/// How many bytes from the start may be a name or an IPv4 address.
fn name_length(text: &str) -> usize {
    let of_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    text.bytes().take_while(|byte| of_name(*byte)).count()
}

/// Whether this is a host name allowed in TLS: labels of letters, digits, `-` and `_`, no dot at the end, and no
/// address.
pub fn is_name(name: &str) -> bool {
    let label = |label: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        (1..=63).contains(&label.len()) && label.bytes().all(plain)
    };
    let is_number = |label: &str| label.bytes().all(|byte| byte.is_ascii_digit());
    name.len() <= 253
        && name.split('.').all(label)
        && !name.rsplit('.').next().is_some_and(is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_may_have_a_port() {
        for (text, host, port) in [
            ("blog", "blog", None),
            ("WWW.Blog_1.example.", "WWW.Blog_1.example.", None),
            ("blog:8080", "blog", Some(8080)),
            ("blog:", "blog", None),
            ("10.0.0.5:080", "10.0.0.5", Some(80)),
            ("[fd00::5]", "[fd00::5]", None),
            ("[fd00::5]:443", "[fd00::5]", Some(443)),
        ] {
            assert_eq!(Authority::parse(text), Some(Authority { host, port }), "{text}");
        }
    }

    #[test]
    fn an_ipv6_address_is_the_same_in_all_spellings() {
        for (text, name) in [
            ("[::1]", "[::1]"),
            ("[0:0:0:0:0:0:0:1]:8080", "[::1]"),
            ("[::0001]", "[::1]"),
            ("[FD00::5]", "[fd00::5]"),
            ("[::ffff:127.0.0.1]", "127.0.0.1"),
            ("[::ffff:7f00:1]", "127.0.0.1"),
            ("127.0.0.1.", "127.0.0.1"),
            ("Blog.:80", "blog"),
        ] {
            assert_eq!(host_name(text), name, "{text}");
        }
    }

    /// Hosts of the WHATWG's URL tests (`urltestdata.json`) that are IPv4 addresses or fail to be, and names.
    #[test]
    fn numbers_that_are_no_dotted_quads_are_misspelt() {
        for (text, is_misspelt) in [
            ("127.0.0.1", false),
            ("192.168.1.2.", false),
            ("blog", false),
            ("blog.example", false),
            ("10.example", false),
            ("0xexample", false),
            ("a.b.0xg", false),
            ("[::1]", false),
            ("127.1", true),
            ("127.000.000.001", true),
            ("127.0.0.01", true),
            ("2130706433", true),
            ("0x7f.0.0.1", true),
            ("0x7f000001", true),
            ("0X7F000001", true),
            ("0x", true),
            ("foo.0x4", true),
            ("foo.09", true),
            ("1.2.3.4.5", true),
            ("256.0.0.1", true),
            ("blog.1", true),
            ("0", true),
        ] {
            let authority = Authority::parse(text).unwrap();
            assert_eq!(authority.is_misspelt_address(), is_misspelt, "{text}");
            assert!(!is_misspelt || !authority.is_normal(text, false), "{text}");
        }
    }

    #[test]
    fn anything_else_is_no_host() {
        for text in [
            "",
            ":80",
            "blog:+80",
            "blog:65536",
            "blog:port",
            "blog:80:81",
            "user@blog",
            "blog/x",
            "blog?x",
            "blog,shop",
            "blog shop",
            "bl%6fg",
            "blög",
            "[fd00::5",
            "fd00::5",
            "[blog]",
            "[]",
            "[fd00::5]x",
            "[fd00::5%eth0]",
        ] {
            assert_eq!(Authority::parse(text), None, "{text}");
        }
    }
}
