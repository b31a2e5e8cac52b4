use proptest::prelude::*;

use super::*;
use crate::record::{Field, Record};

const COMBINED: &str = r#"10.0.0.7 - - [03/Mar/2012:06:26:37 -0800] "GET /a?b=c HTTP/1.1" 404 142 "http://x.example/" "Mozilla/5.0 (X11)""#;

fn record(line: &str) -> Record<'_> {
    match parse(line.as_bytes()) {
        Ok(Line::Request(record)) => record,
        other => panic!("{line}: {other:?}"),
    }
}

fn reason(line: &str) -> Reason {
    parse(line.as_bytes()).expect_err(line)
}

fn text(field: Option<Field<'_>>) -> Option<String> {
    field.map(|field| field.text().into_owned())
}

#[test]
fn a_combined_line_says_all() {
    let record = record(COMBINED);
    assert_eq!(record.at, Wall::from_secs(1_330_784_797), "date -u -d '2012-03-03 06:26:37 -0800'");
    assert_eq!(record.utc_offset, -8 * 3600);
    assert_eq!((record.client, record.method, record.protocol), ("10.0.0.7", "GET", "HTTP/1.1"));
    assert_eq!(record.target.text(), "/a?b=c");
    assert_eq!((record.status, record.bytes), (404, 142));
    assert_eq!(text(record.referer).as_deref(), Some("http://x.example/"));
    assert_eq!(text(record.agent).as_deref(), Some("Mozilla/5.0 (X11)"));
    assert_eq!(text(record.user), None);
}

#[test]
fn a_common_line_has_neither_referer_nor_agent() {
    let record = record(r#"::1 - - [29/Feb/2024:23:59:60 +0545] "HEAD / HTTP/1.0" 304 -"#);
    assert_eq!((record.client, record.bytes), ("::1", 0));
    assert_eq!((record.referer, record.agent), (None, None));
    assert_eq!(record.utc_offset, 5 * 3600 + 45 * 60);
    // The leap second reads as the next one.
    assert_eq!(record.at, Wall::from_secs(1_709_251_200 - 20_700));
}

#[test]
fn what_follows_the_agent_is_left_alone() {
    for extra in [" ", "\r", r#" "-""#, r#" "1.2.3.4" 0.003 "open"#, " rt=0.1 uct=\"-\""] {
        let line = format!("{COMBINED}{extra}");
        assert_eq!(text(record(&line).agent).as_deref(), Some("Mozilla/5.0 (X11)"), "{extra}");
    }
}

#[test]
fn quotes_inside_fields_are_no_ends() {
    let line =
        r#"h - - [03/Mar/2012:06:26:37 +0000] "GET /\"q\" HTTP/1.1" 200 1 "-" "a \"b\" \x22c\x5C""#;
    assert_eq!(record(line).target.text(), "/\"q\"");
    assert_eq!(text(record(line).agent).as_deref(), Some("a \"b\" \"c\\"));
    // Of a server that escapes nothing.
    let line = r#"h - - [03/Mar/2012:06:26:37 +0000] "GET /"q"x HTTP/1.1" 200 1 "-" "a"b""#;
    assert_eq!(record(line).target.raw(), br#"/"q"x"#);
    assert_eq!(text(record(line).agent).as_deref(), Some("a\"b"));
}

#[test]
fn users_may_have_spaces_and_brackets() {
    let line = r#"host.example id Ann [x] B [03/Mar/2012:06:26:37 +0000] "GET / HTTP/2" 200 1"#;
    assert_eq!(text(record(line).user).as_deref(), Some("Ann [x] B"));
    let line = r#"h - ann [03/Mar/2012:06:26:37 +0000] "GET / HTTP/2.0" 200 1"#;
    assert_eq!(text(record(line).user).as_deref(), Some("ann"));
    let line = r#"h [03/Mar/2012:06:26:37 +0000] "GET / HTTP/2.0" 200 1"#;
    assert_eq!(text(record(line).user), None);
}

#[test]
fn bytes_that_are_no_text_are_kept() {
    let mut line = COMBINED.as_bytes().to_vec();
    let at = COMBINED.find("/a?").unwrap() + 1;
    line[at] = 0xe9;
    let Ok(Line::Request(record)) = parse(&line) else { panic!() };
    assert_eq!(record.target.raw(), b"/\xe9?b=c");
    assert_eq!(record.target.text(), "/\u{fffd}?b=c");
}

/// K13: as nginx writes them, and read back as they were.
#[test]
fn what_is_not_printable_ascii_is_escaped_byte_by_byte() {
    for (agent, written) in [
        (&b"plain/1.0 (x; y)"[..], "plain/1.0 (x; y)"),
        ("caf\u{e9}".as_bytes(), r"caf\xC3\xA9"),
        ("c1\u{85}\u{9b}31m".as_bytes(), r"c1\xC2\x85\xC2\x9B31m"),
        (
            "\u{2028}\u{2029}\u{202e}\u{2066}\u{feff}".as_bytes(),
            r"\xE2\x80\xA8\xE2\x80\xA9\xE2\x80\xAE\xE2\x81\xA6\xEF\xBB\xBF",
        ),
        (b"no \xff text\x7f\n\"\\", r"no \xFF text\x7F\x0A\x22\x5C"),
    ] {
        let arrival = record(COMBINED).to_arrival();
        let entry = Entry { agent: Some(agent), referer: Some(agent), ..Entry::from(&arrival) };
        let mut line = String::new();
        write(&mut line, &entry);
        assert!(line.ends_with(&format!("\"{written}\" \"{written}\"")), "{line}");
        assert!(line.bytes().all(|byte| matches!(byte, b' '..=b'~')), "{line}");
        let Ok(Line::Request(read)) = parse(line.as_bytes()) else { panic!("{line}") };
        assert_eq!(read.to_arrival(), entry.to_arrival());
        let lossy = String::from_utf8_lossy(agent).into_owned();
        assert_eq!(entry.to_arrival().agent, Some(lossy.clone()));
        if std::str::from_utf8(agent).is_ok() {
            assert_eq!(escaped(&lossy), written);
        }
    }
}

#[test]
fn a_request_field_without_http_is_a_bad_request() {
    for request in [
        "-",
        "",
        r"\x16\x03\x01",
        "GET",
        "get / HTTP/1.1",
        "GET  HTTP/1.1",
        "\\\\",
        "USER a b : c",
        "GET /cut-of",
        "TCP ssh HTTP/1.1",
    ] {
        let line =
            format!(r#"10.1.1.1 - - [03/Mar/2012:06:26:37 -0800] "{request}" 400 0 "-" "-""#);
        let Ok(Line::Bad(bad)) = parse(line.as_bytes()) else { panic!("{line}") };
        assert_eq!(
            (bad.client, bad.status, bad.request.raw()),
            ("10.1.1.1", 400, request.as_bytes())
        );
    }
}

#[test]
fn odd_requests_are_requests() {
    for (request, target) in [
        ("GET /a b c HTTP/1.1", "/a b c"),
        ("GET /index.html", "/index.html"),
        ("OPTIONS * HTTP/1.0", "*"),
        ("CONNECT mail.example:25 HTTP/1.1", "mail.example:25"),
        ("PRI * HTTP/2.0", "*"),
        ("M-SEARCH * HTTP/1.1", "*"),
        ("GET http://x.example/ HTTP/3", "http://x.example/"),
    ] {
        let line = format!(r#"h - - [03/Mar/2012:06:26:37 -0800] "{request}" 200 0"#);
        assert_eq!(record(&line).target.text(), target);
    }
}

#[test]
fn malformed_lines_say_why() {
    let with_time = |time: &str| format!(r#"h - - [{time}] "GET / HTTP/1.1" 200 1"#);
    for time in [
        "30/Feb/2012:00:00:00 +0000",
        "29/Feb/2023:00:00:00 +0000",
        "29/Feb/1900:00:00:00 +0000",
        "00/Mar/2012:00:00:00 +0000",
        "01/mar/2012:00:00:00 +0000",
        "01/Mar/2012:24:00:00 +0000",
        "01/Mar/2012:00:60:00 +0000",
        "01/Mar/2012:00:00:61 +0000",
        "01/Mar/2012:00:00:00 0000",
        "01/Mar/2012:00:00:00 +2400",
        "01/Mar/2012:00:00:00",
        "2012-03-01T00:00:00Z",
    ] {
        assert_eq!(reason(&with_time(time)), Reason::BadTime, "{time}");
    }
    record(&with_time("29/Feb/2000:00:00:00 -1200"));
    let start = "h - - [03/Mar/2012:06:26:37 -0800]";
    for (line, why) in [
        (String::new(), Reason::Empty),
        (" \r".to_owned(), Reason::Empty),
        ("rubbish".to_owned(), Reason::Client),
        (" - - x".to_owned(), Reason::NoTime),
        ("h - - no time".to_owned(), Reason::NoTime),
        (start.to_owned(), Reason::NoRequest),
        (format!("{start} GET / 200 1"), Reason::NoRequest),
        (format!("{start} \"GET / HTTP/1.1"), Reason::OpenQuote),
        (format!("{start} \"GET / HTTP/1.1\\\" 200 1"), Reason::OpenQuote),
        (format!("{start} \"GET / HTTP/1.1\" 2000 1"), Reason::Status),
        (format!("{start} \"GET / HTTP/1.1\" x 1"), Reason::Status),
        (format!("{start} \"GET / HTTP/1.1\" 200"), Reason::Size),
        (format!("{start} \"GET / HTTP/1.1\" 200 -1"), Reason::Size),
        (format!("{start} \"GET / HTTP/1.1\" 200 99999999999999999999"), Reason::Size),
        (format!("{start} \"GET / HTTP/1.1\" 200 1 \"-\" \"open"), Reason::OpenQuote),
    ] {
        assert_eq!(reason(&line), why, "{line}");
    }
}

/// Any request that a server may have logged: fields of any characters, nothing in them empty.
fn requests() -> impl Strategy<Value = Arrival> {
    let given = |pattern| proptest::option::of(proptest::string::string_regex(pattern).unwrap());
    (
        (-62_135_000_000i64..253_000_000_000, -1439i32..1440),
        ("[a-z][a-z0-9.]{0,39}", "[A-Z_-]{1,32}", "/[^\r\n]{0,60}"),
        (100u16..1000, any::<u64>()),
        (given("[^-\\s][^\u{0}]{0,60}"), given("[^-\\s](\\PC|[\"\\\\\n\t]){0,80}")),
    )
        .prop_filter("no request", |(_, (_, method, _), ..)| method != "TCP")
        .prop_map(
            |((secs, minutes), (client, method, target), (status, bytes), (referer, agent))| {
                let at = Wall::from_secs(secs);
                let utc_offset = minutes * 60;
                Arrival { at, utc_offset, client, method, target, status, bytes, referer, agent }
            },
        )
}

proptest! {
    #[test]
    fn what_is_written_reads_back(arrival in requests()) {
        let line = format(&arrival);
        let Ok(Line::Request(record)) = parse(line.as_bytes()) else {
            return Err(TestCaseError::fail(format!("{line}: {:?}", parse(line.as_bytes()))));
        };
        prop_assert_eq!(record.to_arrival(), arrival);
    }

    #[test]
    fn no_bytes_make_the_parser_panic(line in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = parse(&line);
    }

    #[test]
    fn no_damage_to_a_line_makes_the_parser_panic(
        edits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut line = COMBINED.as_bytes().to_vec();
        for (at, byte) in edits {
            let at = at.index(line.len());
            line[at] = byte;
        }
        let _ = parse(&line);
        line.truncate(cut.index(line.len()));
        if let Ok(Line::Request(record)) = parse(&line) {
            let _ = record.to_arrival();
        }
    }
}

/// What a line with this client in front says of its client.
fn client_of(front: &str) -> String {
    let line =
        format!(r#"{front} - - [03/Mar/2012:06:26:37 -0800] "GET / HTTP/1.1" 200 1 "-" "a/1""#);
    let record = record(&line);
    assert_eq!(text(record.agent).as_deref(), Some("a/1"), "{front}");
    record.client.to_owned()
}

#[test]
fn the_client_is_the_word_before_ident_and_user_without_its_port() {
    for (front, client) in [
        ("203.0.113.9", "203.0.113.9"),
        ("203.0.113.9:51008", "203.0.113.9"),
        ("[2001:db8::9]:443", "2001:db8::9"),
        ("fe80::9%eth0", "fe80::9"),
        ("2001:db8::9", "2001:db8::9"),
        ("203.0.113.9,10.0.0.5", "203.0.113.9"),
        ("10.0.0.5, 203.0.113.9", "203.0.113.9"),
        ("10.0.0.5 (203.0.113.9)", "203.0.113.9"),
        ("Nov 10 12:11:55 10.10.1.13 nginx: 203.0.113.9", "203.0.113.9"),
        ("dsl-9.example.net", "dsl-9.example.net"),
        ("-", "-"),
    ] {
        assert_eq!(client_of(front), client);
    }
    for none in ["[info]", "1668038400", "<script>"] {
        let line = format!(r#"{none} - - [03/Mar/2012:06:26:37 -0800] "GET / HTTP/1.1" 200 1"#);
        assert_eq!(reason(&line), Reason::Client, "{none}");
    }
}

#[test]
fn a_chain_right_behind_the_agent_names_the_client() {
    for (front, behind, client) in [
        ("10.0.0.5", r#" "203.0.113.9""#, "203.0.113.9"),
        ("10.0.0.5", r#" "203.0.113.9, 10.0.0.4" rt=0.1"#, "203.0.113.9"),
        ("10.0.0.5", r#" "unknown, 203.0.113.9""#, "203.0.113.9"),
        ("172.18.0.2", r#" "192.168.1.23""#, "192.168.1.23"),
        ("unix:", r#" "2001:db8::9""#, "2001:db8::9"),
        ("198.51.100.7", r#" "203.0.113.9""#, "203.0.113.9"),
        ("www.example.com:443 10.0.0.5", r#" "203.0.113.9""#, "203.0.113.9"),
        ("198.51.100.7", r#" "10.0.0.9""#, "198.51.100.7"),
        ("192.168.1.23", r#" "172.18.0.2:8080""#, "192.168.1.23"),
        ("198.51.100.7", r#" "-""#, "198.51.100.7"),
        ("198.51.100.7", r#" "0.003" "203.0.113.9""#, "198.51.100.7"),
        ("198.51.100.7", r#" 1 "203.0.113.9""#, "198.51.100.7"),
    ] {
        let line = format!(
            r#"{front} - - [03/Mar/2012:06:26:37 -0800] "GET / HTTP/1.1" 200 1 "-" "a/1"{behind}"#
        );
        let found = record(&line);
        assert_eq!(
            (found.client, text(found.agent).as_deref()),
            (client, Some("a/1")),
            "{front} {behind}"
        );
        let Ok(blank) = parse(format!("  {line}").as_bytes()).map(|it| match it {
            Line::Request(record) => record.client.to_owned(),
            Line::Bad(_) => String::new(),
        }) else {
            panic!("a blank in front of {line}")
        };
        assert_eq!(blank, client);
    }
}

#[test]
fn a_duration_in_parentheses_before_the_request_is_passed_over() {
    let line = |between: &str| {
        format!(
            r#"203.0.113.9 - ann [03/Mar/2012:06:26:37 -0800]{between} "GET /a HTTP/1.1" 200 1 "-" "curl/8.5""#
        )
    };
    for between in ["", " (0 s)", " (0.25 s) ", " ()"] {
        let line = line(between);
        let record = record(&line);
        assert_eq!((record.client, text(record.user).as_deref()), ("203.0.113.9", Some("ann")));
        assert_eq!((record.target.raw(), record.status), (&b"/a"[..], 200), "{between}");
        assert_eq!(text(record.agent).as_deref(), Some("curl/8.5"), "{between}");
    }
    for between in [" (0 s", " 0 s", " (0 s) x"] {
        assert_eq!(parse(line(between).as_bytes()), Err(Reason::NoRequest), "{between}");
    }
}

#[test]
fn fields_between_size_and_referer_are_passed_over() {
    let line =
        |tail: &str| format!(r#"h - - [03/Mar/2012:06:26:37 -0800] "GET / HTTP/1.1" 200 1 {tail}"#);
    for (tail, referer, agent) in [
        (
            r#"0.003 "http://x.example/" "Mozilla/5.0 (X11)""#,
            Some("http://x.example/"),
            Some("Mozilla/5.0 (X11)"),
        ),
        (r#"www.example.org "-" "curl/8.5" "-""#, None, Some("curl/8.5")),
        (r#"0.1 0.2 - "-" "-" "x""#, None, None),
        ("0.003", None, None),
        (r#"0.003 "10.0.0.1:80" "HIT""#, None, None),
        (
            r#"0.000 "https://e.example/" "Googlebot""#,
            Some("https://e.example/"),
            Some("Googlebot"),
        ),
        (r#"www.example.org "-" "AcmeWatch monitor" "-""#, None, Some("AcmeWatch monitor")),
        (r#"0.003 "" "Googlebot""#, None, Some("Googlebot")),
        (r#"0.003 "" "Mozilla/5.0 (X11)""#, None, Some("Mozilla/5.0 (X11)")),
        (
            r#"0.003 "google.com" "Mozilla/5.0 (X11)""#,
            Some("google.com"),
            Some("Mozilla/5.0 (X11)"),
        ),
        (r#"0.003 "-" "10.0.0.1:80""#, None, None),
        (r#"0.003 "-" "0.002, 0.001""#, None, None),
        (r#"0.003 "-" "203.0.113.9, 10.0.0.1""#, None, None),
        (r#"0.003 "-" "backend:8080""#, None, None),
    ] {
        let line = line(tail);
        let record = record(&line);
        assert_eq!(
            (text(record.referer).as_deref(), text(record.agent).as_deref()),
            (referer, agent),
            "{tail}"
        );
    }
}

#[test]
fn a_request_without_an_answer_has_status_0() {
    let line = r#"h - - [17/Jun/2024:16:16:55 +0000] "GET / HTTP/2.0" 0 0 "-" "-" 1 "a@docker" "http://172.19.0.2:3001" 10ms"#;
    assert_eq!((record(line).status, record(line).bytes), (0, 0));
    let line = r#"h - - [17/Jun/2024:16:16:55 +0000] "GET / HTTP/2.0" - - "-" "-""#;
    assert_eq!((record(line).status, record(line).bytes), (0, 0));
    let line = r#"h - - [17/Jun/2024:16:16:55 +0000] "GET / HTTP/2.0" 00 0"#;
    assert_eq!(reason(line), Reason::Status);
}

#[test]
fn a_field_may_end_with_a_backslash_where_nothing_is_escaped() {
    let start = r#"h - - [03/Mar/2012:06:26:37 +0000] "GET / HTTP/1.1" 200 1"#;
    for (tail, referer, agent) in [
        (r#""-" "bot\""#, None, r"bot\"),
        (r#""-" "bot\" "1.2.3.4""#, None, r"bot\"),
        (r#""-" "bot\" 1 "router@docker" 10ms"#, None, r"bot\"),
        (r#""http://x.example/\" "bot/1""#, Some(r"http://x.example/\"), "bot/1"),
        (r#""-" "say \"a\" \"b\" c""#, None, r#"say "a" "b" c"#),
        (r#""-" "bot\\""#, None, r"bot\"),
    ] {
        let line = format!("{start} {tail}");
        let record = record(&line);
        assert_eq!(text(record.referer).as_deref(), referer, "{tail}");
        assert_eq!(text(record.agent).as_deref(), Some(agent), "{tail}");
    }
}
