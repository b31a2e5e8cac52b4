use super::*;

fn cleaned(text: &str) -> String {
    String::from_utf8_lossy(entry(text.as_bytes())).into_owned()
}

fn picked(chain: &str, from: ClientFrom) -> Option<String> {
    pick(chain.as_bytes(), from).map(|entry| String::from_utf8_lossy(entry).into_owned())
}

#[test]
fn ports_brackets_zones_and_quotes_are_no_part_of_an_address() {
    for (text, address) in [
        ("203.0.113.9", "203.0.113.9"),
        ("203.0.113.9:51008", "203.0.113.9"),
        ("2001:db8::1", "2001:db8::1"),
        ("2001:db8::1:443", "2001:db8::1:443"),
        ("2001:db8:0:0:0:0:0:1:443", "2001:db8:0:0:0:0:0:1"),
        ("[2001:db8::1]", "2001:db8::1"),
        ("[2001:db8::1]:443", "2001:db8::1"),
        ("\"[2001:db8::1]:443\"", "2001:db8::1"),
        ("[fe80::1%eth0]:443", "fe80::1"),
        ("fe80::1%25eth0", "fe80::1"),
        ("::ffff:203.0.113.9", "203.0.113.9"),
        ("[::FFFF:203.0.113.9]:80", "203.0.113.9"),
        ("::ffff:cb00:7109", "::ffff:cb00:7109"),
        ("(203.0.113.9)", "203.0.113.9"),
        ("for=203.0.113.9;proto=https", "203.0.113.9"),
        ("proto=https;For=\"[2001:db8::1]:4711\"", "2001:db8::1"),
        ("www.example.com:443", "www.example.com"),
        ("unix:", "unix"),
        ("-", "-"),
        ("", ""),
    ] {
        assert_eq!(cleaned(text), address, "{text}");
    }
}

#[test]
fn the_left_most_public_address_of_a_chain_is_the_client() {
    let public = |chain| picked(chain, ClientFrom::Public);
    for (chain, client) in [
        ("203.0.113.10, 10.0.0.5", "203.0.113.10"),
        ("10.0.0.5, 203.0.113.10, 198.51.100.1", "203.0.113.10"),
        ("192.168.1.2,172.16.0.1, 169.254.0.1,100.64.0.1, 127.0.0.1, 203.0.113.1", "203.0.113.1"),
        ("fd00::1, fe80::1, ::1, 2001:db8::9", "2001:db8::9"),
        ("10.0.0.5, 192.168.0.1", "10.0.0.5"),
        ("unknown, 10.0.0.5", "10.0.0.5"),
        ("-, 203.0.113.10:443", "203.0.113.10"),
        ("for=10.0.0.1, for=203.0.113.10;by=10.0.0.2", "203.0.113.10"),
        ("203.0.113.10", "203.0.113.10"),
        ("-", "-"),
    ] {
        assert_eq!(public(chain).as_deref(), Some(client), "{chain}");
    }
    assert_eq!(public("<script>, ;"), None);
    let chain = "10.0.0.1, 203.0.113.2, 198.51.100.3";
    for (from, client) in [
        ("first", "10.0.0.1"),
        ("last", "198.51.100.3"),
        ("2", "203.0.113.2"),
        ("9", "198.51.100.3"),
        ("public", "203.0.113.2"),
    ] {
        let from: ClientFrom = from.parse().unwrap();
        assert_eq!(picked(chain, from).as_deref(), Some(client), "{from}");
    }
    for wrong in ["0", "left", "", "-1", "256"] {
        assert!(wrong.parse::<ClientFrom>().is_err(), "{wrong}");
    }
}

#[test]
fn the_client_is_the_word_before_ident_and_user() {
    for (front, client) in [
        ("203.0.113.10 - bob ", "203.0.113.10"),
        ("203.0.113.10 - Bob B. Builder ", "203.0.113.10"),
        ("Nov 10 12:11:55 10.10.1.13 nginx: 203.0.113.10 - - ", "203.0.113.10"),
        ("Nov 10 12:11:55 198.51.100.1 nginx: 203.0.113.10 - - ", "203.0.113.10"),
        ("web1 nginx: 192.168.0.7 - - ", "192.168.0.7"),
        ("10.0.0.5 (203.0.113.10) - - ", "203.0.113.10"),
        ("203.0.113.10 - 172.31.0.100 - - ", "203.0.113.10"),
        ("192.168.0.7 - 172.31.0.100 - - ", "192.168.0.7"),
        ("203.0.113.10, 10.0.0.5 - - ", "203.0.113.10"),
        ("\"203.0.113.10, 10.0.0.5\" - - ", "203.0.113.10"),
        ("203.0.113.10, 10.0.0.5 10.0.0.9 - bob ", "203.0.113.10"),
        ("- 203.0.113.10 - - ", "203.0.113.10"),
        ("- - - ", "-"),
        ("www.example.com:443 203.0.113.10 - - ", "203.0.113.10"),
        ("192.0.2.1:443 203.0.113.10 - - ", "203.0.113.10"),
        ("www.example.com:443 host-9.isp.example.net - - ", "host-9.isp.example.net"),
        ("blog:80 laptop - - ", "laptop"),
        ("blog: laptop - - ", "laptop"),
        ("host.example id Ann [x] B ", "host.example"),
        ("host.example id - ", "host.example"),
        ("192.168.1.23 172.18.0.2 - - ", "192.168.1.23"),
        ("192.168.1.23, 172.18.0.3 172.18.0.2 - - ", "192.168.1.23"),
        ("172.18.0.2 192.168.1.23, 172.18.0.3 - - ", "192.168.1.23"),
        ("172.18.0.2 (192.168.1.23) - - ", "192.168.1.23"),
        ("- 192.168.1.23 172.18.0.2 - - ", "192.168.1.23"),
        ("10.0.0.1:443 192.168.1.23 - - ", "192.168.1.23"),
        ("198.51.100.80:443 192.168.1.23 - - ", "192.168.1.23"),
        ("192.168.1.23:50123 - - ", "192.168.1.23"),
        ("Nov 10 12:11:55 10.10.1.13 nginx: 192.168.0.7 - - ", "192.168.0.7"),
        ("198.51.100.80:443 host10.isp.example - - ", "host10.isp.example"),
        ("[2001:db8::80]:443 host10.isp.example - - ", "host10.isp.example"),
        ("Nov 10 12:11:55 web1 nginx pc-10 - - ", "pc-10"),
        ("Nov 10 12:11:55 10.10.1.13 nginx host10.isp.example - - ", "host10.isp.example"),
        ("nas pc-10 - - ", "pc-10"),
        ("www.example.com host10.isp.example - Alice Smith ", "host10.isp.example"),
        ("203.0.113.10 www.example.com - - ", "203.0.113.10"),
        ("192.168.1.23 nas - - ", "192.168.1.23"),
        ("host.example - Ann B ", "host.example"),
        ("203.0.113.10 - [203.0.113.10] - - ", "203.0.113.10"),
    ] {
        let found = in_front(front.as_bytes(), ClientFrom::Public);
        assert_eq!(found.map(String::from_utf8_lossy).as_deref(), Some(client), "{front}");
    }
    for none in ["[info] - - ", "12:11:55 - - ", "1668038400 - - ", ""] {
        assert_eq!(in_front(none.as_bytes(), ClientFrom::Public), None, "{none}");
    }
}

#[test]
fn a_chain_without_a_public_address_yields_only_to_another_end_on_the_internet() {
    for (peer, chain, client) in [
        ("172.18.0.2", "192.168.1.23", "192.168.1.23"),
        ("172.18.0.2", "192.168.1.23, 172.18.0.3", "192.168.1.23"),
        ("unix:", "192.168.1.23", "192.168.1.23"),
        ("-", "192.168.1.23", "192.168.1.23"),
        ("fe80::2", "fd00::17", "fd00::17"),
        ("203.0.113.9", "192.168.1.23", "203.0.113.9"),
        ("dsl-9.example.net", "192.168.1.23", "dsl-9.example.net"),
        ("172.18.0.2", "203.0.113.10, 172.18.0.3", "203.0.113.10"),
        ("203.0.113.9", "198.51.100.7", "198.51.100.7"),
        ("172.18.0.2", "unknown", "172.18.0.2"),
        ("172.18.0.2", "-", "172.18.0.2"),
    ] {
        let found = of(peer.as_bytes(), chain.as_bytes(), ClientFrom::Public);
        assert_eq!(found.map(String::from_utf8_lossy).as_deref(), Some(client), "{peer} {chain}");
    }
}
