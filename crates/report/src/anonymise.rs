//! Clients' addresses in reports.
//!
//! An address is personal data where it can be traced to a person (GDPR, recital 30; Court of Justice of the
//! EU, C-582/14, *Breyer*). A report is made to be passed on, and it doesn't need the address: only which
//! requests came from the same client, and roughly from where. So reports anonymise unless their reader asks
//! for addresses:
//!
//! * **A label**: 40 bits of SHA-256 over a random key and the address. Within a report the same client has
//!   the same label. The key is drawn for the report, given to [`Addresses::anonymised`] and forgotten; so a
//!   label can't be found by trying all addresses, and labels of two reports have nothing to do with each
//!   other. Without a key (a bare hash) four billion tries would undo it. Of *n* clients two share a label
//!   with a chance of about n^2 / 2^41: 5 in 10 million for a thousand.
//! * **The network**: of IPv4 the first 24 bits, of IPv6 the first 32. Enough for an operator to recognise a
//!   provider or a crawler's home; the smallest IPv4 network that is routed by itself, and of IPv6 what a
//!   provider gets (a /48 is one customer's: RFC 6177). An operator who must not reveal even that shows
//!   [`Addresses::label`] only.
//!
//! A limit remains: a reader who has the log, or knows which client came when, can recognise a client by its
//! requests. For such a reader the report is pseudonymous, and no key changes that.

// Addresses are plain values, and `core` has them without sockets.
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use sha2::{Digest, Sha256};

/// Bytes of the key that labels are made with.
pub const KEY_BYTES: usize = 32;

/// How clients' addresses are shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Addresses {
    /// None: as they are.
    key: Option<[u8; KEY_BYTES]>,
}

impl std::fmt::Debug for Addresses {
    /// Without the key: a log with the key in it undoes what the key is for.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.key.is_some() { "Addresses(anonymised)" } else { "Addresses(shown)" })
    }
}

impl Addresses {
    /// As they are. Only where the reader asked for it.
    pub const fn shown() -> Self {
        Self { key: None }
    }

    /// Shows labels instead of addresses. The key comes from the operating system's random numbers, is drawn
    /// again for each report, and is written nowhere.
    pub const fn anonymised(key: [u8; KEY_BYTES]) -> Self {
        Self { key: Some(key) }
    }

    /// A client as reports name it: `client-3n7q0d5k (203.0.113.0/24)`, or `203.0.113.9`.
    pub fn name(&self, address: IpAddr) -> String {
        match self.key {
            None => address.to_canonical().to_string(),
            Some(_) => format!("{} ({})", self.label(address), network(address)),
        }
    }

    /// The name without the network: `client-3n7q0d5k`, or `203.0.113.9`.
    pub fn label(&self, address: IpAddr) -> String {
        let address = address.to_canonical();
        let Some(key) = self.key else { return address.to_string() };
        let bytes = match address {
            IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
            IpAddr::V6(v6) => v6.octets(),
        };
        // Key and address have fixed lengths, and most of the hash is kept back: nothing can be
        // appended to it, so this needs no HMAC.
        label_of(Sha256::new().chain_update(key).chain_update(bytes))
    }

    /// A client by whatever a log calls it. Of a name that is no address (some servers log names of
    /// hosts) only the label is shown: a host's name is a customer's more often than not. `-` says
    /// that there is nothing to hide.
    pub fn client(&self, name: &str) -> String {
        if let Ok(address) = name.parse() {
            return self.name(address);
        }
        match self.key {
            Some(key) if name != "-" => label_of(
                Sha256::new().chain_update(key).chain_update(b"name").chain_update(name.as_bytes()),
            ),
            _ => name.to_owned(),
        }
    }

    /// Text with each address in it as [`Addresses::name`] has it; all of it, where addresses are
    /// shown. What merely looks like one, as some numbers of versions do, goes too.
    pub fn in_text(&self, text: &str) -> String {
        if self.key.is_none() {
            return text.to_owned();
        }
        let may_be = |c: char| c.is_ascii_hexdigit() || c == '.' || c == ':';
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        let mut before = None;
        while let Some(start) = rest.find(may_be) {
            let (plain, from) = rest.split_at(start);
            let (run, after) = from.split_at(from.find(|c| !may_be(c)).unwrap_or(from.len()));
            out.push_str(plain);
            // A word around it: `Foo::Bar` is no address.
            let in_word = plain.chars().next_back().or(before).is_some_and(char::is_alphanumeric)
                || after.chars().next().is_some_and(char::is_alphanumeric);
            let whole = run.trim_end_matches(['.', ':']);
            match whole.parse::<Ipv6Addr>() {
                Ok(v6) if !in_word && whole.len() > 3 => {
                    out.push_str(&self.name(v6.into()));
                    out.push_str(&run[whole.len()..]);
                }
                _ => self.v4_in(run, &mut out),
            }
            (before, rest) = (run.chars().next_back(), after);
        }
        out + rest
    }

    /// Appends text, addresses of IPv4 replaced.
    fn v4_in(&self, text: &str, out: &mut String) {
        let may_be = |c: char| c.is_ascii_digit() || c == '.';
        let mut rest = text;
        while let Some(start) = rest.find(may_be) {
            let (plain, from) = rest.split_at(start);
            let (run, after) = from.split_at(from.find(|c| !may_be(c)).unwrap_or(from.len()));
            out.push_str(plain);
            let core = run.trim_matches('.');
            match core.parse::<Ipv4Addr>() {
                Ok(v4) => out.push_str(&run.replace(core, &self.name(v4.into()))),
                Err(_) => out.push_str(run),
            }
            rest = after;
        }
        out.push_str(rest);
    }
}

/// A label out of a hash.
fn label_of(hash: Sha256) -> String {
    let hash = hash.finalize();
    let bits = hash.iter().take(5).fold(0_u64, |bits, byte| bits << 8 | u64::from(*byte));
    // Crockford's base 32: no letter that looks like a digit.
    let digits = b"0123456789abcdefghjkmnpqrstvwxyz";
    let mut name = "client-".to_owned();
    for place in (0..8).rev() {
        name.push(char::from(digits[(bits >> (5 * place) & 31) as usize]));
    }
    name
}

/// The network of an address: its first 24 (IPv4) or 32 bits (IPv6).
fn network(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(v4) => format!("{}/24", Ipv4Addr::from(u32::from(v4) & !0xff)),
        IpAddr::V6(v6) => format!("{}/32", Ipv6Addr::from(u128::from(v6) >> 96 << 96)),
    }
}

/// A request's target without what stands behind its `?`, which may be a name, an address or a
/// token: `/reset?token=1` is `/reset?…`.
pub fn without_query(target: &str) -> String {
    match target.split_once('?') {
        None | Some((_, "")) => target.to_owned(),
        Some((path, _)) => format!("{path}?…"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn named(key: u8, address: &str) -> String {
        Addresses::anonymised([key; KEY_BYTES]).name(address.parse().unwrap())
    }

    #[test]
    fn a_client_keeps_its_label_in_a_report_and_loses_it_in_the_next() {
        assert_eq!(named(1, "203.0.113.9"), named(1, "203.0.113.9"));
        assert_eq!(named(1, "203.0.113.9"), named(1, "::ffff:203.0.113.9"));
        assert_ne!(named(1, "203.0.113.9"), named(2, "203.0.113.9"));
        assert_ne!(named(1, "203.0.113.9"), named(1, "203.0.113.8"));
    }

    #[test]
    fn a_label_is_the_keyed_hash_in_base_32() {
        // By Python's hashlib: 32 zero bytes and the 16 of ::ffff:203.0.113.9 hash to cb7ad67cda…,
        // in fives 11001 01101 11101 01101 01100 11111 00110 11010: s d x d c z 6 t.
        assert_eq!(named(0, "203.0.113.9"), "client-sdxdcz6t (203.0.113.0/24)");
    }

    #[test]
    fn who_asks_gets_addresses() {
        let shown = Addresses::shown();
        assert_eq!(shown.name("::ffff:203.0.113.9".parse().unwrap()), "203.0.113.9");
        assert_eq!(shown.label("2001:db8::1".parse().unwrap()), "2001:db8::1");
    }

    #[test]
    fn the_key_is_not_printed() {
        let addresses = Addresses::anonymised([77; KEY_BYTES]);
        assert_eq!(format!("{addresses:?}"), "Addresses(anonymised)");
    }

    #[test]
    fn a_hundred_thousand_clients_have_as_many_labels_but_for_the_stated_chance() {
        // (1e5)^2 / 2^41 = 0.0045 shared labels are to be expected; two or more have a chance of
        // about 1e-5. The key is fixed, so this passes always or never.
        let addresses = Addresses::anonymised([5; KEY_BYTES]);
        let labels: HashSet<String> = (0..100_000_u32)
            .map(|index| addresses.label(Ipv4Addr::from(0xcb00_0000 + index).into()))
            .collect();
        assert!(labels.len() >= 99_999, "{}", labels.len());
    }

    #[test]
    fn addresses_are_found_in_text_and_other_numbers_left_alone() {
        let addresses = Addresses::anonymised([0; KEY_BYTES]);
        let client = "client-sdxdcz6t (203.0.113.0/24)";
        for (text, hidden) in [
            ("203.0.113.9 - - [x]", format!("{client} - - [x]")),
            ("\"ip\":\"203.0.113.9\",", format!("\"ip\":\"{client}\",")),
            ("GET http://203.0.113.9:80/a.", format!("GET http://{client}:80/a.")),
            ("from 203.0.113.9.", format!("from {client}.")),
            ("::ffff:203.0.113.9", client.to_owned()),
            ("[04/Mar/2012:01:02:03 +0000]", "[04/Mar/2012:01:02:03 +0000]".to_owned()),
            ("Foo::Bar 1.2.3 300.1.1.1 ä", "Foo::Bar 1.2.3 300.1.1.1 ä".to_owned()),
        ] {
            assert_eq!(addresses.in_text(text), hidden);
            assert_eq!(Addresses::shown().in_text(text), text);
        }
        assert!(!addresses.in_text("by 2001:db8:1:2::9, late").contains("1:2::9"));
    }

    #[test]
    fn hosts_that_are_logged_by_name_get_labels_too() {
        let addresses = Addresses::anonymised([1; KEY_BYTES]);
        let label = addresses.client("dsl-9.example.net");
        assert!(label.starts_with("client-") && label.len() == "client-".len() + 8, "{label}");
        assert_ne!(label, addresses.client("dsl-8.example.net"));
        assert_eq!(addresses.client("203.0.113.9"), named(1, "203.0.113.9"));
        assert_eq!(addresses.client("-"), "-");
        assert_eq!(Addresses::shown().client("dsl-9.example.net"), "dsl-9.example.net");
    }

    #[test]
    fn queries_are_left_out() {
        assert_eq!(without_query("/reset?token=1"), "/reset?…");
        assert_eq!(without_query("/reset"), "/reset");
        assert_eq!(without_query("/?"), "/?");
    }

    proptest! {
        #[test]
        fn hosts_of_a_network_differ_in_the_label_alone(
            key in any::<[u8; KEY_BYTES]>(), net in any::<u32>(), one: u8, other: u8,
        ) {
            let addresses = Addresses::anonymised(key);
            let at = |host: u8| addresses.name(Ipv4Addr::from(net & !0xff | u32::from(host)).into());
            let (first, second) = (at(one), at(other));
            prop_assert_eq!(first == second, one == other);
            prop_assert_eq!(first.split_once(' ').unwrap().1, second.split_once(' ').unwrap().1);
        }

        #[test]
        fn the_host_part_of_ipv6_is_not_shown(address in any::<u128>(), key in any::<[u8; 32]>()) {
            // Not an IPv4 address in disguise.
            prop_assume!(address >> 96 != 0);
            let name = Addresses::anonymised(key).name(Ipv6Addr::from(address).into());
            let (label, network) = name.split_once(" (").unwrap();
            prop_assert_eq!(label.len(), "client-".len() + 8);
            let network: Ipv6Addr = network.strip_suffix("/32)").unwrap().parse().unwrap();
            prop_assert_eq!(u128::from(network), address & !((1_u128 << 96) - 1));
        }
    }
}
