use super::*;

/// A `ClientHello` by RFC 8446, 4.1.2, with these extensions, each a type and its data.
fn hello(extensions: &[(u16, &[u8])]) -> Vec<u8> {
    let mut all = Vec::new();
    for (kind, data) in extensions {
        all.extend(kind.to_be_bytes());
        all.extend((data.len() as u16).to_be_bytes());
        all.extend(*data);
    }
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.extend([0, 0, 2, 0x13, 0x01, 1, 0]);
    body.extend((all.len() as u16).to_be_bytes());
    body.extend(all);
    message(&body)
}

fn message(body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32).to_be_bytes();
    [&[1], &length[1..], body].concat()
}

fn record(part: &[u8]) -> Vec<u8> {
    [&[22, 3, 1], &(part.len() as u16).to_be_bytes()[..], part].concat()
}

/// RFC 6066, 3.
fn server_name_of(name: &str) -> Vec<u8> {
    let length = name.len() as u16;
    [&(length + 3).to_be_bytes()[..], &[0], &length.to_be_bytes(), name.as_bytes()].concat()
}

fn named(name: &str) -> Vec<u8> {
    hello(&[(43, &[2, 3, 4]), (0, &server_name_of(name))])
}

#[expect(clippy::unnecessary_wraps, reason = "what a reading is compared with")]
fn whole(name: Option<&str>) -> Result<Hello, HelloError> {
    Ok(Hello::Whole(name.map(str::to_owned)))
}

#[test]
fn the_name_is_read_in_lower_case_and_may_be_missing() {
    assert_eq!(read(&record(&named("Git.Example.ORG"))), whole(Some("git.example.org")));
    assert_eq!(read(&record(&hello(&[(43, &[2, 3, 4])]))), whole(None));
    let without_extensions = [&[3, 1][..], &[7; 32], &[0, 0, 2, 0, 10, 1, 0]].concat();
    assert_eq!(read(&record(&message(&without_extensions))), whole(None));
    assert!(Reader(&[]).byte().is_err());
}

#[test]
fn every_beginning_is_incomplete_and_every_cut_into_records_is_the_same() {
    let message = named("git.example.org");
    let one = record(&message);
    for end in 0..one.len() {
        assert_eq!(read(&one[..end]), Ok(Hello::Incomplete), "{end} bytes");
    }
    for cut in 1..message.len() {
        let two = [record(&message[..cut]), record(&message[cut..])].concat();
        assert_eq!(read(&two), whole(Some("git.example.org")), "cut at {cut}");
        for end in 0..two.len() {
            assert_eq!(read(&two[..end]), Ok(Hello::Incomplete), "cut at {cut}, {end} bytes");
        }
    }
    let early_data = [one, vec![23, 3, 3, 0, 1, 0]].concat();
    assert_eq!(read(&early_data), whole(Some("git.example.org")));
}

#[test]
fn what_is_not_tls_is_known_by_its_first_bytes() {
    for bytes in [&b"G"[..], b"SSH-2.0-OpenSSH", b"\x16\x02", b"\x80\x2e\x01", b"\x15\x03\x01"] {
        assert_eq!(read(bytes), Err(HelloError::NotTls), "{}", bytes.escape_ascii());
    }
}

#[test]
fn what_two_readers_may_read_differently_is_refused() {
    let name = server_name_of("a.example");
    let two_names = [&[0, 24, 0, 0, 9][..], b"a.example", &[0, 0, 9], b"b.example"].concat();
    let mut trailing = name.clone();
    trailing.push(0);
    let other_type = [&[0, 12, 1, 0, 9][..], b"a.example"].concat();
    for (what, message) in [
        ("two names", hello(&[(0, &two_names)])),
        ("two lists", hello(&[(0, &name), (0, &name)])),
        ("bytes behind the list", hello(&[(0, &trailing)])),
        ("another type of name", hello(&[(0, &other_type)])),
        ("no name in the list", hello(&[(0, &[0, 0])])),
        ("bytes behind the extensions", message(&[&named("a.example")[4..], &[0]].concat())),
        ("another message", [&[2][..], &named("a.example")[1..]].concat()),
        ("a second message", [named("a.example"), vec![1, 0, 0, 0]].concat()),
        ("no cipher suites", message(&[&[3, 3][..], &[7; 32], &[0, 0, 0, 1, 0]].concat())),
        ("half a cipher suite", message(&[&[3, 3][..], &[7; 32], &[0, 0, 1, 9, 1, 0]].concat())),
    ] {
        assert_eq!(read(&record(&message)), Err(HelloError::Malformed), "{what}");
    }
    for name in ["", ".", "a.example..", "a..b", "10.0.0.5", "a b", "a\0b", "ä.example", "[::1]"] {
        assert_eq!(read(&record(&named(name))), Err(HelloError::Malformed), "{name:?}");
    }
    assert_eq!(read(&[22, 3, 1, 0, 0]), Err(HelloError::Malformed), "an empty record");
}

#[test]
fn a_dot_at_the_end_is_left_out() {
    let name = Some("a.example".to_owned());
    assert_eq!(read(&record(&named("A.example."))), Ok(Hello::Whole(name)));
}

#[test]
fn there_is_an_end_to_what_is_waited_for() {
    assert_eq!(
        read(&[22, 3, 1, 0, 4, 1, 0x00, 0xff, 0xff]),
        Err(HelloError::TooLong),
        "64 KiB announced"
    );
    assert_eq!(read(&[22, 3, 1, 0xff, 0xff]), Err(HelloError::TooLong), "a record of 64 KiB");
    let message = named("git.example.org");
    let one_by_one: Vec<u8> = message.iter().flat_map(|byte| record(&[*byte])).collect();
    assert_eq!(read(&one_by_one), Err(HelloError::TooLong), "{} records", message.len());
}

#[test]
fn names_are_those_of_hosts() {
    let long = format!("{}.example", "a".repeat(63));
    for name in ["localhost", "a-b.c_d.example", "xn--nxasmq6b.example", "1.example", &long] {
        assert!(is_name(name), "{name}");
    }
    let label = format!("{}.example", "a".repeat(64));
    let all = vec!["a"; 128].join(".");
    for name in ["*", "a.*", "1.2", &label, &all] {
        assert!(!is_name(name), "{name}");
    }
}
