use bytes::BytesMut;
use http::HeaderValue;
use proptest::prelude::*;

use super::*;
use crate::answer_head::parse;

/// Head and framing of the answer to a GET.
fn framing(head: &str) -> Result<(String, bool), BadAnswer> {
    framing_of(&Method::GET, head)
}

fn framing_of(method: &Method, head: &str) -> Result<(String, bool), BadAnswer> {
    let mut buffer = BytesMut::from(head.as_bytes());
    let head = parse(&mut buffer)?.expect("a whole head");
    let (framing, persists) = head.framing(method)?;
    let framing = match framing {
        Framing::Nothing => "nothing".to_owned(),
        Framing::Length(length) => length.to_string(),
        Framing::Chunked(_) => "chunked".to_owned(),
        Framing::Close => "close".to_owned(),
    };
    Ok((framing, persists))
}

macro_rules! is {
    ($framing:literal, $persists:literal) => {
        Ok(($framing.to_owned(), $persists))
    };
}

#[test]
fn the_end_of_a_body_is_told_as_rfc_9112_says() {
    let told = |fields: &str| framing(&format!("HTTP/1.1 200 OK\r\n{fields}\r\n"));
    assert_eq!(told("Content-Length: 5\r\n"), is!("5", true));
    assert_eq!(told("Content-Length: 0\r\n"), is!("nothing", true));
    assert_eq!(told("Transfer-Encoding: Chunked\r\n"), is!("chunked", true));
    assert_eq!(told(""), is!("close", false));
    assert_eq!(told("Content-Length: 5\r\nConnection: x, Close\r\n"), is!("5", false));
    // Proxies that repeat a length have not made it another one.
    assert_eq!(told("Content-Length: 5, 5\r\nContent-Length: 5\r\n"), is!("5", true));
    let old = |fields: &str| framing(&format!("HTTP/1.0 200 OK\r\n{fields}\r\n"));
    assert_eq!(old("Content-Length: 5\r\n"), is!("5", false));
    assert_eq!(old("Content-Length: 5\r\nConnection: keep-alive\r\n"), is!("5", true));
    assert_eq!(old(""), is!("close", false));
}

#[test]
fn some_answers_have_no_body_whatever_they_say() {
    for status in ["204 No Content", "304 Not Modified"] {
        let head = format!("HTTP/1.1 {status}\r\nContent-Length: 5\r\n\r\n");
        assert_eq!(framing(&head), is!("nothing", true), "{status}");
    }
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
    assert_eq!(framing_of(&Method::HEAD, head), is!("nothing", true));
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(framing_of(&Method::HEAD, head), is!("nothing", true));
    assert_eq!(framing("HTTP/1.1 101 Switching Protocols\r\n\r\n"), is!("nothing", false));
}

/// RFC 2616, 4.4: a body ends as it would without the field.
#[test]
fn the_coding_that_changes_nothing_is_passed_over() {
    for version in ["1.0", "1.1"] {
        let answer = |fields: &str| {
            framing(&format!(
                "HTTP/{version} 200 OK\r\nTransfer-Encoding: Identity\r\n{fields}\r\n"
            ))
        };
        assert_eq!(
            answer("Content-Length: 5\r\n"),
            framing(&format!("HTTP/{version} 200 OK\r\nContent-Length: 5\r\n\r\n"))
        );
        assert_eq!(answer(""), is!("close", false));
    }
    let chunked =
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(framing(chunked), is!("chunked", true));
}

#[test]
fn what_could_be_read_in_two_ways_is_no_answer_or_the_last_one() {
    let both = "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n";
    assert_eq!(framing(&format!("HTTP/1.1 200 OK\r\n{both}\r\n")), is!("chunked", false));
    for (version, fields) in [
        ("1.1", "Content-Length: 5\r\nContent-Length: 6\r\n"),
        ("1.1", "Content-Length: 5, 6\r\n"),
        ("1.1", "Content-Length: \r\n"),
        ("1.1", "Content-Length: +5\r\n"),
        ("1.1", "Content-Length: 5;\r\n"),
        ("1.1", "Content-Length: 99999999999999999999\r\n"),
        ("1.1", "Transfer-Encoding: gzip, chunked\r\n"),
        ("1.1", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
        ("1.1", "Transfer-Encoding: identity, chunked\r\n"),
        ("1.0", "Transfer-Encoding: chunked\r\n"),
    ] {
        let told = framing(&format!("HTTP/{version} 200 OK\r\n{fields}\r\n"));
        assert!(told.is_err(), "{version} {fields:?}: {told:?}");
    }
}

#[test]
fn lines_may_end_as_servers_end_them_and_what_follows_is_left() {
    for head in [
        "HTTP/1.1 200 OK\r\nA: b\r\n\r\n",
        "HTTP/1.1 200 OK\nA: b\n\n",
        "HTTP/1.1 200 \r\nA:b \r\n\n",
    ] {
        let mut buffer = BytesMut::from(format!("{head}rest").as_bytes());
        let read = parse(&mut buffer).unwrap().unwrap();
        assert_eq!(
            (read.status, &read.headers["a"]),
            (StatusCode::OK, &"b".parse().unwrap()),
            "{head:?}"
        );
        assert_eq!(buffer, "rest", "{head:?}");
    }
}

/// RFC 9112, 4, 5.1 and 5.2: of servers a proxy takes what it refuses from clients, and passes it on well-formed.
#[test]
fn what_servers_write_carelessly_is_understood() {
    for (head, value) in [
        ("HTTP/1.1 200 OK\r\nA : b\r\n\r\n", "b"),
        ("HTTP/1.1 200 OK\r\nA\t: b\r\n\r\n", "b"),
        ("HTTP/1.1 200 OK\r\nA:b\r\n  c\r\n\r\n", "b    c"),
        ("HTTP/1.1 200 OK\nA: b\n\tc\n\n", "b \tc"),
        ("HTTP/1.1 200 OK\r\nA: b\r\n \r\nB: c\r\n\r\n", "b"),
        ("HTTP/1.1 200\r\nA: b\r\n\r\n", "b"),
        ("HTTP/1.1 200 \r\nA: b\r\n\r\n", "b"),
        ("HTTP/1.1  200  OK\r\nA: b\r\n\r\n", "b"),
    ] {
        let read = parse(&mut BytesMut::from(head)).expect(head).expect(head);
        assert_eq!(read.headers["a"].as_bytes(), value.as_bytes(), "{head:?}");
        assert_eq!(read.status, StatusCode::OK, "{head:?}");
    }
    let told = |fields: &str| framing(&format!("HTTP/1.1 200 OK\r\n{fields}\r\n"));
    assert_eq!(told("Content-Length : 5\r\n"), is!("5", true));
    assert_eq!(told("Content-Length:\r\n 5\r\n"), is!("5", true));
    assert_eq!(told("Transfer-Encoding : chunked\r\n"), is!("chunked", true));
    assert_eq!(told("Transfer-Encoding:\r\n chunked\r\n"), is!("chunked", true));
    // What goes on in the next line is no field of its own.
    assert_eq!(told("A: b\r\n Content-Length: 5\r\n"), is!("close", false));
    for wrong in ["A b: c\r\n", ": c\r\n", "A\r\n", "A: b\rc\r\n", "A: b\0\r\n", " A: b\r\n"] {
        assert!(told(wrong).is_err(), "{wrong:?}");
    }
}

#[test]
fn what_cannot_become_an_answer_is_not_waited_for() {
    for start in [
        "SSH-2.0-OpenSSH_9.2\r\n",
        "\u{16}\u{3}",
        "HTTP/2.0 200 OK\r\n",
        "HTTP/1.1 2x",
        "HTTP/1.1 200 OK\r\n folded",
    ] {
        assert!(parse(&mut BytesMut::from(start)).is_err(), "{start:?}");
    }
    let long = format!("HTTP/1.1 200 OK\r\nA: {}", "b".repeat(LONGEST_HEAD));
    assert!(parse(&mut BytesMut::from(&*long)).is_err());
    assert!(parse(&mut BytesMut::from(&*format!("{long}\r\n\r\n"))).is_err());
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(MOST_FIELDS + 1));
    assert!(parse(&mut BytesMut::from(&*many)).is_err());
}

proptest! {
    /// Wherever a head is cut, it is not taken for whole, and no error, before its end has come.
    #[test]
    fn a_head_that_comes_in_parts_is_waited_for(
        fields in proptest::collection::vec(("[A-Za-z0-9-]{1,12}", "[ -~]{0,20}"), 0..8),
        cut in any::<proptest::sample::Index>(),
        ends in proptest::sample::select(vec!["\r\n", "\n"]),
    ) {
        let lines: Vec<_> = fields.iter().map(|(name, value)| format!("{name}: {value}{ends}")).collect();
        let fields = lines.concat();
        let head = format!("HTTP/1.1 200 Fine{ends}{fields}{ends}");
        let cut = cut.index(head.len());
        prop_assert!(parse(&mut BytesMut::from(&head[..cut])).unwrap().is_none());
        let mut buffer = BytesMut::from(&*head);
        let whole = parse(&mut buffer).unwrap().unwrap();
        prop_assert!(buffer.is_empty());
        let values: Vec<_> = whole.headers.values().map(HeaderValue::as_bytes).collect();
        prop_assert_eq!(values.len(), head.matches(ends).count() - 2);
    }

    /// What bytes whatever: no panic, and nothing is taken but whole heads.
    #[test]
    fn any_bytes_are_a_head_or_left_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut buffer = BytesMut::from(&bytes[..]);
        if let Ok(None) = parse(&mut buffer) {
            prop_assert_eq!(&buffer[..], &bytes[..]);
        }
    }
}
