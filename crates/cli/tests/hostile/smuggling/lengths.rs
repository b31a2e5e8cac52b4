//! Content-Length, right and wrong, once and more often, and beside a coding.

use super::Fate::{Either, EitherLast, Endless, Passed, Refused};
use super::{Case, Wanted, get, one, play_all, post};

#[test]
fn a_length_is_digits_and_nothing_else() {
    let wrong: [&[u8]; 40] = [
        b"+5",
        b"-5",
        b"-0",
        b"+0",
        b"-1",
        b"0x5",
        b"0x0",
        b"0X5",
        b"5a",
        b"a5",
        b"five",
        b"",
        b" ",
        b"5;",
        b"5;5",
        b"5 5",
        b"5\t5",
        b"5_0",
        b"0_5",
        b"1e1",
        b"5.0",
        b".5",
        b"\"5\"",
        b"'5'",
        b"(5)",
        b"5#",
        b"5%",
        b"%35",
        b"5\x0b",
        b"\x0b5",
        b"\x0c5",
        b"5\x0c",
        b"5\xa0",
        b"\xa05",
        b"5\x85",
        b"5\0",
        b"\x005",
        b"\xd9\xa5",
        b"\xef\xbc\x95",
        b"5\x7f",
    ];
    let cases = wrong.map(|length| {
        let bytes = post(&[b"Content-Length: ", length].concat(), b"hello");
        Case::new("not a length", &bytes, Refused)
    });
    play_all(&cases);
}

#[test]
fn a_length_that_no_number_holds_is_refused() {
    let huge = [
        "99999999999999999999",
        "18446744073709551616",
        "18446744073709551621",
        "18446744073709551615",
        "9223372036854775808",
        "4294967301",
        "340282366920938463463374607431768211461",
    ];
    let mut cases: Vec<Case> = huge
        .iter()
        .map(|length| {
            let bytes = post(format!("Content-Length: {length}").as_bytes(), b"hello");
            Case::new("a huge length", &bytes, Refused)
        })
        .collect();
    let endless = format!("Content-Length: {}5", "9".repeat(5000));
    cases.push(Case::new("a length of many digits", &post(endless.as_bytes(), b"hello"), Refused));
    play_all(&cases);
}

#[test]
fn a_right_length_is_kept() {
    let hello = || one("POST /case", b"hello");
    let cases = [
        Case::new("plain", &post(b"Content-Length: 5", b"hello"), Passed(hello())),
        Case::new("no space", &post(b"Content-Length:5", b"hello"), Passed(hello())),
        Case::new("spaces", &post(b"Content-Length:  5  ", b"hello"), Passed(hello())),
        Case::new("tabs", &post(b"Content-Length:\t5\t", b"hello"), Passed(hello())),
        Case::new("any case", &post(b"cOnTeNt-LeNgTh: 5", b"hello"), Passed(hello())),
        Case::new("zeros before it", &post(b"Content-Length: 0005", b"hello"), Either(hello())),
        Case::new(
            "nothing, and a request behind it",
            &post(b"Content-Length: 0", b"GET /second HTTP/1.1\r\nHost: site.test\r\n\r\n"),
            Passed(vec![Wanted::new("POST /case", b""), Wanted::new("GET /second", b"")]),
        ),
        Case::new(
            "not a word, and a request behind it",
            &post(b"X: y", b"GET /second HTTP/1.1\r\nHost: site.test\r\n\r\n"),
            Passed(vec![Wanted::new("POST /case", b""), Wanted::new("GET /second", b"")]),
        ),
        Case::new(
            "a request as a body",
            &post(b"Content-Length: 39", b"GET /smuggled HTTP/1.1\r\nHost: other\r\n\r\n"),
            Passed(one("POST /case", b"GET /smuggled HTTP/1.1\r\nHost: other\r\n\r\n")),
        ),
        Case::new(
            "with GET",
            &[get(b"Content-Length: 5"), b"hello".to_vec()].concat(),
            Passed(one("GET /case", b"hello")),
        ),
        Case::new("more than comes", &post(b"Content-Length: 5000", b"hello"), Endless),
    ];
    play_all(&cases);
}

#[test]
fn lengths_that_differ_are_refused() {
    let pairs: [&[u8]; 14] = [
        b"Content-Length: 5\r\nContent-Length: 6",
        b"Content-Length: 6\r\nContent-Length: 5",
        b"Content-Length: 0\r\nContent-Length: 5",
        b"Content-Length: 5\r\nX: y\r\nContent-Length: 0",
        b"Content-Length: 5\r\ncontent-length: 6",
        b"Content-Length: 5\r\nContent-Length:",
        b"Content-Length:\r\nContent-Length: 5",
        b"Content-Length: 5\r\nContent-Length: +5",
        b"Content-Length: 5, 6",
        b"Content-Length: 6, 5",
        b"Content-Length: 5, 5, 6",
        b"Content-Length: 5,",
        b"Content-Length: ,5",
        b"Content-Length: 5\r\nContent-Length: 5, 6",
    ];
    play_all(&pairs.map(|pair| Case::new("two lengths", &post(pair, b"hello!"), Refused)));
}

#[test]
fn lengths_that_agree_are_one_or_refused() {
    let pairs: [&[u8]; 5] = [
        b"Content-Length: 5\r\nContent-Length: 5",
        b"Content-Length: 5\r\nX: y\r\ncontent-length: 5",
        b"Content-Length: 5, 5",
        b"Content-Length: 5,5",
        b"Content-Length: 5\r\nContent-Length: 05",
    ];
    let hello = || one("POST /case", b"hello");
    play_all(&pairs.map(|pair| Case::new("one length", &post(pair, b"hello"), Either(hello()))));
}

#[test]
fn other_names_for_a_length_are_no_lengths() {
    let names: [&[u8]; 6] = [
        b"Content_Length",
        b"Content-Lengt",
        b"Content-Lengths",
        b"X-Content-Length",
        b"Content%2dLength",
        b"Content--Length",
    ];
    let cases = names.map(|name| {
        let lines = [name, b": 9\r\nContent-Length: 5"].concat();
        Case::new("another name", &post(&lines, b"hello"), Either(one("POST /case", b"hello")))
    });
    play_all(&cases);
}

/// RFC 9112, 6.1: refused, or the coding counts; and the connection is closed either way.
#[test]
fn a_length_beside_a_coding_ends_the_connection() {
    let smuggled: &[u8] = b"GET /smuggled HTTP/1.1\r\nHost: site.test\r\n\r\n";
    let chunked = [b"5\r\nhello\r\n0\r\n\r\n", smuggled].concat();
    let hello = || EitherLast(one("POST /case", b"hello"));
    let nothing = || EitherLast(one("POST /case", b""));
    let pairs: [&[u8]; 6] = [
        b"Content-Length: 4\r\nTransfer-Encoding: chunked",
        b"Transfer-Encoding: chunked\r\nContent-Length: 4",
        b"Transfer-Encoding: chunked\r\nX: y\r\nContent-Length: 57",
        b"Content-Length: 0\r\nTransfer-Encoding: chunked",
        b"Content-Length: 15\r\ntransfer-encoding: Chunked",
        b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\nConnection: Content-Length",
    ];
    let mut cases: Vec<Case> =
        pairs.iter().map(|pair| Case::new("both", &post(pair, &chunked), hello())).collect();
    let cl_te = b"0\r\n\r\nGET /smuggled HTTP/1.1\r\nX: y";
    let length = format!("Content-Length: {}\r\nTransfer-Encoding: chunked", cl_te.len());
    cases.push(Case::new("CL.TE", &post(length.as_bytes(), cl_te), nothing()));
    let te_cl = [b"2b\r\n", smuggled, b"\r\n0\r\n\r\n"].concat();
    let lines = b"Content-Length: 4\r\nTransfer-Encoding: chunked";
    let wanted = EitherLast(one("POST /case", smuggled));
    cases.push(Case::new("TE.CL", &post(lines, &te_cl), wanted));
    for wrong in ["+5", "5, 6", "five", ""] {
        let lines = format!("Content-Length: {wrong}\r\nTransfer-Encoding: chunked");
        cases.push(Case::new("both, one wrong", &post(lines.as_bytes(), &chunked), hello()));
    }
    play_all(&cases);
}
