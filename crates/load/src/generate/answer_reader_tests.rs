use proptest::prelude::*;

use super::*;

/// Status, bytes of the body, whether the connection may be used again; or how it ended.
fn read(answer: &[u8], is_head: bool) -> Result<(u16, u64, bool), &'static str> {
    let mut reader = AnswerReader::new(is_head);
    let progress = reader.feed(answer).map_err(|_| "bad")?;
    match (progress, reader.end()) {
        (Progress::Whole, _) | (_, AtEnd::Whole) => {
            Ok((reader.status(), reader.body(), reader.keep_alive()))
        }
        (_, AtEnd::Nothing) => Err("nothing"),
        (_, AtEnd::Short) => Err("short"),
    }
}

#[test]
fn an_answer_ends_where_its_fields_say() {
    let with = |fields: &str, body: &str| {
        read(format!("HTTP/1.1 200 OK\r\n{fields}\r\n{body}").as_bytes(), false)
    };
    assert_eq!(with("Content-Length: 5\r\n", "hello"), Ok((200, 5, true)));
    assert_eq!(with("Content-Length: 0\r\n", ""), Ok((200, 0, true)));
    assert_eq!(with("Content-Length: 5\r\nConnection: close\r\n", "hello"), Ok((200, 5, false)));
    assert_eq!(with("", "as long as it lasts"), Ok((200, 19, false)));
    let chunked = "Transfer-Encoding: chunked\r\n";
    assert_eq!(
        with(chunked, "5\r\nhello\r\n00A;x=y\r\n0123456789\r\n0\r\n\r\n"),
        Ok((200, 15, true))
    );
    assert_eq!(with(chunked, "1\r\n!\r\n0\r\nA: b\r\nC: d\r\n\r\n"), Ok((200, 1, true)));
    // RFC 9112, 6.3: chunks win over a length.
    let both = "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n";
    assert_eq!(with(both, "5\r\nhello\r\n0\r\n\r\n"), Ok((200, 5, true)));
    assert_eq!(with("Content-Length: 3\r\n", "abcd").map(|it| it.2), Ok(false), "a byte too many");
}

#[test]
fn some_answers_have_no_body_whatever_they_say() {
    assert_eq!(read(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", true), Ok((200, 0, true)));
    assert_eq!(read(b"HTTP/1.1 304 x\r\nContent-Length: 5\r\n\r\n", false), Ok((304, 0, true)));
    assert_eq!(read(b"HTTP/1.1 204 x\r\n\r\n", false), Ok((204, 0, true)));
}

#[test]
fn interim_answers_are_passed_over_and_old_servers_close() {
    let interim =
        b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 404 x\r\nContent-Length: 1\r\n\r\n.";
    assert_eq!(read(interim, false), Ok((404, 1, true)));
    assert_eq!(read(b"HTTP/1.0 200 x\r\nContent-Length: 1\r\n\r\n.", false), Ok((200, 1, false)));
    let kept = b"HTTP/1.0 200 x\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\n.";
    assert_eq!(read(kept, false), Ok((200, 1, true)));
}

#[test]
fn what_breaks_off_is_short_and_what_is_no_answer_is_bad() {
    assert_eq!(read(b"", false), Err("nothing"));
    assert_eq!(read(b"HTTP/1.1 200 O", false), Err("short"));
    assert_eq!(read(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", false), Err("short"));
    let chunked = |body: &str| {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        read(format!("{head}{body}").as_bytes(), false)
    };
    assert_eq!(chunked("5\r\nhello\r\n0\r\n"), Err("short"));
    for bad in ["x\r\n", "\r\n", "5\nhello", "5\r\nhelloX", "ffffffffffffffffff\r\n", "0\r\n\rX"] {
        assert_eq!(chunked(bad), Err("bad"), "{bad:?}");
    }
    for bad in [
        "SSH-2.0-OpenSSH\r\n",
        "HTTP/1.1 101 Switching Protocols\r\n\r\n",
        "HTTP/1.1 600 x\r\n\r\n",
        "HTTP/1.1 200 x\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 x\r\nContent-Length: +1\r\n\r\n",
        "HTTP/1.1 200 x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "HTTP/1.1 200 x\r\nTransfer-Encoding: gzip\r\n\r\n",
    ] {
        assert_eq!(read(bad.as_bytes(), false), Err("bad"), "{bad:?}");
    }
    let endless = format!("HTTP/1.1 200 x\r\nA: {}", "x".repeat(LONGEST_HEAD));
    assert_eq!(read(endless.as_bytes(), false), Err("bad"));
}

proptest! {
    #[test]
    fn it_does_not_matter_in_which_pieces_an_answer_comes(
        sizes in proptest::collection::vec(1_usize..300, 0..6),
        chunked: bool,
        interim: bool,
        cuts in proptest::collection::vec(0_usize..2000, 0..8),
    ) {
        let mut answer = Vec::new();
        if interim {
            answer.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
        }
        let all: usize = sizes.iter().sum();
        if chunked {
            answer.extend_from_slice(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
            for size in &sizes {
                answer.extend_from_slice(format!("{size:x}\r\n{}\r\n", "b".repeat(*size)).as_bytes());
            }
            answer.extend_from_slice(b"0\r\nX: y\r\n\r\n");
        } else {
            answer.extend_from_slice(format!("HTTP/1.1 200 OK\r\nContent-Length: {all}\r\n\r\n").as_bytes());
            answer.extend(vec![b'b'; all]);
        }
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut % answer.len()).collect();
        cuts.extend([0, answer.len()]);
        cuts.sort_unstable();
        let mut reader = AnswerReader::new(false);
        for cut in cuts.windows(2) {
            let progress = reader.feed(&answer[cut[0]..cut[1]]);
            let whole = cut[1] == answer.len();
            prop_assert_eq!(progress, Ok(if whole { Progress::Whole } else { Progress::More }));
        }
        prop_assert_eq!((reader.status(), reader.body(), reader.keep_alive()), (200, all as u64, true));
    }
}
