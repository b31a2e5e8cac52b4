use proptest::prelude::*;

use super::*;

/// What a connection makes of these bytes: the head and its framing, or why not.
fn read(bytes: &[u8]) -> Result<(String, String, Framing), Refusal> {
    let Scan::End(end) = scan(bytes, 0, 8192)? else { return Err(Refusal::TimedOut) };
    let mut room = no_fields();
    let head = Head::parse(&bytes[..end], &mut room, 100)?;
    Ok((head.method.to_owned(), head.target.to_owned(), head.framing()?))
}

fn with(fields: &str) -> Result<Framing, Refusal> {
    read(format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n").as_bytes()).map(|it| it.2)
}

#[test]
fn a_head_is_read_as_it_stands() {
    let bytes = b"GET /a?b=c HTTP/1.1\r\nHost: a\r\nEmpty:\r\nTabs:\t x\t \r\n\r\nrest";
    let Ok(Scan::End(end)) = scan(bytes, 0, 8192) else { panic!("no end") };
    assert_eq!(&bytes[end..], b"rest");
    let mut room = no_fields();
    let head = Head::parse(&bytes[..end], &mut room, 3).unwrap();
    assert_eq!((head.method, head.target, head.is_1_1), ("GET", "/a?b=c", true));
    let fields: Vec<_> = head.fields.iter().map(|field| (field.name, field.value)).collect();
    assert_eq!(fields, [("Host", &b"a"[..]), ("Empty", b""), ("Tabs", b"x")]);
    assert!(head.persists());
    let mut room = no_fields();
    let refused = Head::parse(&bytes[..end], &mut room, 2);
    assert_eq!(refused.unwrap_err(), Refusal::HeadTooLarge);
}

#[test]
fn lengths_are_digits_and_there_is_one() {
    assert_eq!(with("Content-Length: 5"), Ok(Framing::Length(5)));
    assert_eq!(with("Content-Length: 0"), Ok(Framing::None));
    assert_eq!(with("Content-Length: 0005"), Ok(Framing::Length(5)));
    assert_eq!(with("X: y"), Ok(Framing::None));
    for wrong in [
        "",
        "+5",
        "-5",
        "-0",
        "5,5",
        "5, 5",
        "0x5",
        "5 5",
        "5;",
        "５",
        "1e3",
        "5.0",
        "\"5\"",
        "99999999999999999999",
        "18446744073709551616",
    ] {
        let refused = with(&format!("Content-Length: {wrong}"));
        assert!(matches!(refused, Err(Refusal::Malformed(_))), "{wrong:?}: {refused:?}");
    }
    assert!(with("Content-Length: 5\r\nContent-Length: 5").is_err());
    assert!(with("Content-Length: 5\r\ncontent-length: 6").is_err());
}

#[test]
fn chunked_is_the_only_coding_and_stands_alone() {
    assert_eq!(with("Transfer-Encoding: chunked"), Ok(Framing::Chunked));
    assert_eq!(with("transfer-encoding: CHUNKED"), Ok(Framing::Chunked));
    for coding in [
        "gzip",
        "chunked, gzip",
        "gzip, chunked",
        "identity",
        "xchunked",
        "chunked;q=1",
        "",
        "\"chunked\"",
    ] {
        assert_eq!(with(&format!("Transfer-Encoding: {coding}")), Err(Refusal::Coding), "{coding}");
    }
    let twice = "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked";
    assert_eq!(with(twice), Err(Refusal::Coding));
    for both in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 5",
        "Transfer-Encoding: x\r\nContent-Length: 5",
    ] {
        assert!(matches!(with(both), Err(Refusal::Malformed(_))), "{both}");
    }
    let old = read(b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n");
    assert!(matches!(old, Err(Refusal::Malformed(_))));
}

#[test]
fn what_is_not_well_formed_is_refused() {
    for bytes in [
        &b"GET / HTTP/1.1\nHost: a\n\n"[..],
        b"GET / HTTP/1.1\r\nHost: a\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n\n",
        b"GET / HTTP/1.1\rHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n",
        b"GET / HTTP/1.1\r\n Host: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost : a\r\n\r\n",
        b"GET / HTTP/1.1\r\n: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\0b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHo\0st: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\x0bb\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\x7f\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: a\rb\r\n\r\n",
        b"GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1 \r\nHost: a\r\n\r\n",
        b"GET /\r\nHost: a\r\n\r\n",
        b"GET\r\n\r\n",
        b"G\tT / HTTP/1.1\r\n\r\n",
        b" GET / HTTP/1.1\r\n\r\n",
        b"\r\n\r\n",
        b"\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"\x16\x03\x01\x02\0\x01",
    ] {
        let refused = read(bytes);
        let shown = bytes.escape_ascii();
        assert!(matches!(refused, Err(Refusal::Malformed(_))), "{shown}: {refused:?}");
    }
    for version in [
        " HTTP/1.1",
        "HTTP/2.0",
        "HTTP/1.2",
        "HTTP/0.9",
        "http/1.1",
        "HTTP/1",
        "HTTP/1.10",
        "HTTP/01.1",
    ] {
        let refused = read(format!("GET / {version}\r\nHost: a\r\n\r\n").as_bytes());
        assert!(refused.is_err(), "{version}: {refused:?}");
    }
    assert!(read(b"\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n").is_ok(), "one empty line is allowed");
}

#[test]
fn heads_have_bounds() {
    let line = [b"GET /".as_slice(), &[b'a'; 9000]].concat();
    assert_eq!(scan(&line, 0, 8192), Err(Refusal::LineTooLong));
    let fields = [b"GET / HTTP/1.1\r\nA: ".as_slice(), &[b'a'; 9000]].concat();
    assert_eq!(scan(&fields, 0, 8192), Err(Refusal::HeadTooLarge));
    let whole = [&fields, b"\r\n\r\n".as_slice()].concat();
    assert_eq!(scan(&whole, 0, 8192), Err(Refusal::HeadTooLarge));
    assert_eq!(scan(&whole, 0, whole.len()), Ok(Scan::End(whole.len())));
}

#[test]
fn the_last_word_on_the_connection_is_found_in_lists() {
    let persists = |bytes: &[u8]| {
        let mut room = no_fields();
        Head::parse(bytes, &mut room, 10).unwrap().persists()
    };
    assert!(!persists(b"GET / HTTP/1.1\r\nConnection: a, Close\r\n\r\n"));
    assert!(!persists(b"GET / HTTP/1.1\r\nConnection: a\r\nConnection: close\r\n\r\n"));
    assert!(persists(b"GET / HTTP/1.1\r\nConnection: closed\r\n\r\n"));
    assert!(!persists(b"GET / HTTP/1.0\r\n\r\n"));
    assert!(persists(b"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n"));
}

proptest! {
    /// Bytes that come in pieces lead to the same as bytes that come at once.
    #[test]
    fn it_does_not_matter_where_the_bytes_are_cut(
        fields in proptest::collection::vec(("[A-Za-z-]{1,8}", "[ -~]{0,12}"), 0..6),
        bad in proptest::option::of((0_usize..200, any::<u8>())),
        cut in 1_usize..9,
    ) {
        let mut bytes = b"GET /x HTTP/1.1\r\n".to_vec();
        for (name, value) in &fields {
            bytes.extend(format!("{name}: {value}\r\n").bytes());
        }
        bytes.extend(b"\r\nGET /next HTTP/1.1\r\n\r\n");
        if let Some((at, byte)) = bad {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        let whole = scan(&bytes, 0, 8192);
        let (mut have, mut seen, mut found) = (0, 0, Ok(Scan::More));
        while found == Ok(Scan::More) && have < bytes.len() {
            have = (have + cut).min(bytes.len());
            found = scan(&bytes[..have], seen, 8192);
            seen = have;
        }
        prop_assert_eq!(found, whole);
    }

    #[test]
    fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = read(&bytes);
        let _ = parse_fields(&bytes, 10);
    }
}
