//! Transfer-Encoding: names and values that one server accepts as it and another does not. Each has
//! a Content-Length beside it that contradicts it, so a server that overlooks the coding would find
//! a second request in the body.

use super::Fate::{Dropped, Either, EitherLast, Passed, Refused};
use super::{Case, one, play_all, post};

/// As a coding it is nothing and a request; as ten bytes it is nothing of the kind.
const BODY: &[u8] = b"0\r\n\r\nSMUGG";

#[test]
fn chunked_is_the_only_coding() {
    let wrong: [&[u8]; 40] = [
        b"identity",
        b"xchunked",
        b"chunkedx",
        b"chunk",
        b"cow",
        b"trailers",
        b"gzip",
        b"deflate",
        b"chunked, identity",
        b"identity, chunked",
        b"identity, chunked, identity",
        b"chunked, chunked",
        b"gzip, chunked",
        b"chunked gzip",
        b"chunked;q=1",
        b"chunked; x=y",
        b"\"chunked\"",
        b"'chunked'",
        b"(chunked)",
        b"chunked#",
        b"-chunked",
        b"chunked/1",
        b"chunked\x0b",
        b"\x0bchunked",
        b"\x0cchunked",
        b"chunked\x0c",
        b"\0chunked",
        b"chunked\0",
        b"\xa0chunked",
        b"chunked\xa0",
        b"\x85chunked",
        b"chunked\x85",
        b"\xffchunked",
        b"chunked\x7f",
        b"ch\x96nked",
        b"chun\xe2\x84\xaaed",
        b"chunked\x01",
        b"c\x08hunked",
        b"chunked\x1f",
        b"",
    ];
    let cases = wrong.map(|coding| {
        Case::new("no coding", &post(&[b"Transfer-Encoding: ", coding].concat(), BODY), Refused)
    });
    play_all(&cases);
}

#[test]
fn chunked_may_be_written_in_these_ways() {
    let hello = || one("POST /case", b"hello");
    let body = b"5\r\nhello\r\n0\r\n\r\n";
    let right: [&[u8]; 6] = [
        b"Transfer-Encoding: chunked",
        b"transfer-encoding:chunked",
        b"TRANSFER-ENCODING: chunked",
        b"Transfer-Encoding: \t chunked",
        b"Transfer-Encoding: chunked\t",
        b"Transfer-Encoding: chunked  ",
    ];
    let doubtful: [&[u8]; 5] = [
        b"Transfer-Encoding: Chunked",
        b"Transfer-Encoding: CHUNKED",
        b"Transfer-Encoding: ,chunked",
        b"Transfer-Encoding: chunked,",
        b"Transfer-Encoding: , chunked ,",
    ];
    let right = right.iter().map(|line| Case::new("coding", &post(line, body), Passed(hello())));
    let doubtful =
        doubtful.iter().map(|line| Case::new("coding", &post(line, body), Either(hello())));
    play_all(&right.chain(doubtful).collect::<Vec<Case>>());
}

#[test]
fn two_codings_are_refused() {
    let pairs: [&[u8]; 9] = [
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        b"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: cow",
        b"Transfer-Encoding: cow\r\nTransfer-Encoding: chunked",
        b"Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked",
        b"Transfer-Encoding: chunked\r\nTransfer-encoding: x",
        b"Transfer-Encoding:\r\nTransfer-Encoding: chunked",
        b"Transfer-Encoding: chunked\r\nX: y\r\nTransfer-Encoding:",
    ];
    play_all(&pairs.map(|pair| Case::new("two codings", &post(pair, BODY), Refused)));
}

#[test]
fn a_name_is_a_token_and_nothing_else() {
    let wrong: [&[u8]; 26] = [
        b"Transfer-Encoding : chunked",
        b"Transfer-Encoding\t: chunked",
        b"Transfer-Encoding\x0b: chunked",
        b"Transfer-Encoding\x0c: chunked",
        b"Transfer-Encoding\0: chunked",
        b"Transfer-Encoding\xa0: chunked",
        b"Transfer-Encoding\x7f: chunked",
        b"Transfer-Encoding x: chunked",
        b"Transfer Encoding: chunked",
        b"Transfer\\Encoding: chunked",
        b"Transf\x82r-Encoding: chunked",
        b"Transfer-Encod\xc4\xb1ng: chunked",
        b"Tra\rnsfer-Encoding: chunked",
        b"\x0bTransfer-Encoding: chunked",
        b"\0Transfer-Encoding: chunked",
        b"\xa0Transfer-Encoding: chunked",
        b"\rTransfer-Encoding: chunked",
        b"\"Transfer-Encoding\": chunked",
        b"(Transfer-Encoding): chunked",
        b"Transfer-Encoding",
        b"Transfer-Encoding chunked",
        b"Transfer-Encoding= chunked",
        b"Transfer-Encoding; chunked",
        b": chunked",
        b" : chunked",
        b":Transfer-Encoding: chunked",
    ];
    let cases = wrong.map(|line| {
        let lines = [b"Content-Length: 10\r\n", line].concat();
        Case::new("no name", &post(&lines, BODY), Refused)
    });
    play_all(&cases);
}

#[test]
fn other_names_for_a_coding_are_no_codings() {
    let names: [&[u8]; 8] = [
        b"Transfer_Encoding",
        b"Transfer-%45ncoding",
        b"Transfer-Encodings",
        b"X-Transfer-Encoding",
        b"Transfer--Encoding",
        b"Transfer'Encoding",
        b"Content-Encoding",
        b"TE-Encoding",
    ];
    let cases = names.map(|name| {
        let lines = [name, b": chunked\r\nContent-Length: 10"].concat();
        Case::new("another name", &post(&lines, BODY), Either(one("POST /case", BODY)))
    });
    play_all(&cases);
}

/// Lines that are folded, or that end in something else than CR LF. A folded one may become one
/// line, LF alone may end one (RFC 9112, 2.2 and 5.2): then there are a length and a coding.
#[test]
fn a_coding_hidden_by_the_end_of_a_line_is_found_or_refused() {
    let refused: [&[u8]; 11] = [
        b"X: y\rTransfer-Encoding: chunked",
        b"X: y\r\n\rTransfer-Encoding: chunked",
        b"X: y\r\rTransfer-Encoding: chunked",
        b"X: y\0Transfer-Encoding: chunked",
        b"X: y\x0bTransfer-Encoding: chunked",
        b"Transfer-Encoding:\r chunked",
        b"Transfer-Encoding\r\n : chunked",
        b"Transfer-Encoding: chunked\r",
        b"Transfer-Encoding: chunked\r\r",
        b"Transfer-Encoding\n: chunked",
        b"Transfer-Encoding: chunk\r\n ed",
    ];
    let found: [&[u8]; 4] = [
        b"X: y\nTransfer-Encoding: chunked",
        b"Transfer-Encoding: chunked\nX: y",
        b"Transfer-Encoding:\r\n chunked",
        b"Transfer-Encoding:\r\n\tchunked",
    ];
    let folded: [&[u8]; 6] = [
        b"X: y\r\n Transfer-Encoding: chunked",
        b"X: y\r\n\tTransfer-Encoding: chunked",
        b"X: y\n Transfer-Encoding: chunked",
        b"X:\r\n Transfer-Encoding: chunked",
        b"X: y\r\n \r\n Transfer-Encoding: chunked",
        b"X: y\r\n Z: 1",
    ];
    let with_length = |line: &[u8]| post(&[b"Content-Length: 10\r\n", line].concat(), BODY);
    let refused = refused.iter().map(|line| Case::new("hidden", &with_length(line), Refused));
    let found = found
        .iter()
        .map(|line| Case::new("hidden", &with_length(line), EitherLast(one("POST /case", b""))));
    let folded = folded
        .iter()
        .map(|line| Case::new("folded", &with_length(line), Either(one("POST /case", BODY))));
    play_all(&refused.chain(found).chain(folded).collect::<Vec<Case>>());
}

/// RFC 9112, 6.1: 1.0 has no transfer codings.
#[test]
fn http_1_0_has_no_codings() {
    let head = b"POST /case HTTP/1.0\r\nHost: site.test\r\n";
    let body = b"5\r\nhello\r\n0\r\n\r\n";
    let cases = [
        Case::new(
            "chunked in 1.0",
            &[head, &b"Transfer-Encoding: chunked\r\n\r\n"[..], body].concat(),
            EitherLast(one("POST /case", b"hello")),
        ),
        Case::new(
            "chunked in 1.0, kept alive",
            &[head, &b"Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n"[..], body]
                .concat(),
            EitherLast(one("POST /case", b"hello")),
        ),
        Case::new(
            "chunked in 1.0, and a length",
            &[head, &b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"[..], body].concat(),
            EitherLast(one("POST /case", b"hello")),
        ),
        Case::new("chunked in 0.9", b"GET /case\r\nTransfer-Encoding: chunked\r\n\r\n", Dropped),
    ];
    play_all(&cases);
}
