use proptest::prelude::*;

use super::*;
use crate::arrival::Arrival;
use crate::detect::{DetectedFormat, detect, detect_line};
use crate::reader::MAX_LINE;
use crate::record::Line;

/// Parses a log's lines, each of which has to be whole.
fn read(format: Format, log: &str) -> Vec<Arrival> {
    let mut parser = LineParser::new(format);
    let mut all = Vec::new();
    for line in log.lines() {
        match parser.find(line.as_bytes()) {
            Ok(Some(spans)) => match spans.cut(line.as_bytes()) {
                Line::Request(record) => all.push(record.to_arrival()),
                Line::Bad(bad) => panic!("{line}: {bad:?}"),
            },
            Ok(None) => {}
            Err(reason) => panic!("{line}: {reason}"),
        }
    }
    all
}

/// The format that the first lines tell.
fn format_of(text: &[u8]) -> Option<Format> {
    match detect(text) {
        Some(DetectedFormat::Format(format)) => Some(format),
        Some(DetectedFormat::Misfit(format)) => panic!("{format:?}"),
        None => None,
    }
}

const AGENT: &str = "Mozilla/5.0 (X11; Linux x86_64) \"q\"";

/// Two requests, as each format has them. The times are those of `date -u -d @1700000000` and a
/// minute later.
fn logs() -> [(Format, String); 6] {
    let common = r#"10.0.0.7 - ann [14/Nov/2023:22:13:20 +0000] "GET /a?b=c&d HTTP/1.1" 404 142
2001:db8::7 - - [14/Nov/2023:22:14:20 +0000] "HEAD / HTTP/2.0" 200 0"#;
    let combined = r#"10.0.0.7 - ann [14/Nov/2023:22:13:20 +0000] "GET /a?b=c&d HTTP/1.1" 404 142 "https://x.example/" "Mozilla/5.0 (X11; Linux x86_64) \"q\""
2001:db8::7 - - [14/Nov/2023:22:14:20 +0000] "HEAD / HTTP/2.0" 200 0 "-" "curl/8.5.0""#;
    let host = "www.example.org:443 ";
    let vhost = format!("{host}{}", combined.replace('\n', &format!("\n{host}")));
    let caddy = r#"{"level":"info","ts":1700000000.0001,"logger":"http.log.access.log0","msg":"handled request","request":{"remote_ip":"10.0.0.7","remote_port":"41342","client_ip":"10.0.0.7","proto":"HTTP/1.1","method":"GET","host":"x.example","uri":"/a?b=c\u0026d","headers":{"User-Agent":["Mozilla/5.0 (X11; Linux x86_64) \"q\""],"Accept-Encoding":["gzip"],"Referer":["https://x.example/"]},"tls":{"resumed":false,"version":772}},"bytes_read":0,"user_id":"ann","duration":0.000929675,"size":142,"status":404,"resp_headers":{"Server":["Caddy"]}}
{"level":"info","ts":"2023-11-14T22:14:20.000Z","logger":"http.log.access","msg":"handled request","request":{"remote_addr":"[2001:db8::7]:50123","proto":"HTTP/2.0","method":"HEAD","host":"x.example","uri":"/","headers":{"User-Agent":["curl/8.5.0"]}},"common_log":"2001:db8::7 - - [14/Nov/2023:22:14:20 +0000] \"HEAD / HTTP/2.0\" 200 0","duration":0.1,"size":0,"status":200}"#;
    let traefik = r#"{"ClientAddr":"10.0.0.7:41342","ClientHost":"10.0.0.7","ClientPort":"41342","ClientUsername":"ann","DownstreamContentSize":142,"DownstreamStatus":404,"Duration":1234567,"OriginContentSize":142,"OriginStatus":404,"Overhead":4567,"RequestAddr":"x.example","RequestContentSize":0,"RequestCount":7,"RequestHost":"x.example","RequestMethod":"GET","RequestPath":"/a?b=c\u0026d","RequestPort":"-","RequestProtocol":"HTTP/1.1","RequestScheme":"https","RetryAttempts":0,"RouterName":"web@docker","StartLocal":"2023-11-14T22:13:20.0001Z","StartUTC":"2023-11-14T22:13:20.0001Z","entryPointName":"websecure","level":"info","msg":"","request_Referer":"https://x.example/","request_User-Agent":"Mozilla/5.0 (X11; Linux x86_64) \"q\"","time":"2023-11-14T22:13:20Z"}
{"ClientAddr":"[2001:db8::7]:50123","ClientHost":"2001:db8::7","ClientUsername":"-","DownstreamContentSize":0,"DownstreamStatus":200,"RequestMethod":"HEAD","RequestPath":"/","RequestProtocol":"HTTP/2.0","StartUTC":"2023-11-14T22:14:20Z","request_User-Agent":"curl/8.5.0"}"#;
    let w3c = "#Software: Microsoft Internet Information Services 10.0\n\
        #Version: 1.0\n\
        #Date: 2023-11-14 22:13:20\n\
        #Fields: date time s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip \
        cs-version cs(User-Agent) cs(Referer) sc-status sc-substatus sc-win32-status sc-bytes \
        time-taken\n\
        2023-11-14 22:13:20 192.168.1.1 GET /a b=c&d 443 ann 10.0.0.7 HTTP/1.1 \
        Mozilla/5.0+(X11;+Linux+x86_64)+\"q\" https://x.example/ 404 0 2 142 15\n\
        2023-11-14 22:14:20 192.168.1.1 HEAD / - 443 - 2001:db8::7 HTTP/2.0 curl/8.5.0 - 200 0 0 \
        0 3\n";
    [
        (Format::Common, common.to_owned()),
        (Format::Combined, combined.to_owned()),
        (Format::VhostCombined, vhost),
        (Format::Caddy, caddy.to_owned()),
        (Format::Traefik, traefik.to_owned()),
        (Format::W3c, w3c.to_owned()),
    ]
}

fn expected() -> [Arrival; 2] {
    let first = Arrival {
        at: Wall::from_secs(1_700_000_000),
        utc_offset: 0,
        client: "10.0.0.7".to_owned(),
        method: "GET".to_owned(),
        target: "/a?b=c&d".to_owned(),
        status: 404,
        bytes: 142,
        referer: Some("https://x.example/".to_owned()),
        agent: Some(AGENT.to_owned()),
    };
    let second = Arrival {
        at: Wall::from_secs(1_700_000_060),
        utc_offset: 0,
        client: "2001:db8::7".to_owned(),
        method: "HEAD".to_owned(),
        target: "/".to_owned(),
        status: 200,
        bytes: 0,
        referer: None,
        agent: Some("curl/8.5.0".to_owned()),
    };
    [first, second]
}

#[test]
fn the_same_requests_are_the_same_in_every_format() {
    for (format, log) in logs() {
        let mut expected = expected();
        if format == Format::Common {
            for arrival in &mut expected {
                (arrival.referer, arrival.agent) = (None, None);
            }
        }
        assert_eq!(read(format, &log), expected, "{format}");
    }
}

#[test]
fn every_format_is_told_by_its_lines() {
    for (format, log) in logs() {
        assert_eq!(format_of(log.as_bytes()), Some(format));
        let odd = format!("\n\nrubbish\n{}\n", "x".repeat(300));
        assert_eq!(format_of(format!("{odd}{log}").as_bytes()), Some(format), "behind rubbish");
        let far = "rubbish\n".repeat(1000);
        assert_eq!(format_of(format!("{far}{log}").as_bytes()), Some(format), "far behind rubbish");
        assert_eq!(format_of(log.replace('\n', "\r\n").as_bytes()), Some(format), "with \\r");
        let long = "x".repeat(MAX_LINE + 1);
        assert_eq!(
            format_of(format!("{long}\n{log}").as_bytes()),
            Some(format),
            "behind a long line"
        );
    }
    // Too long to be parsed, so it tells nothing.
    let long = logs()[0].1.lines().next().unwrap().replace("GET /", &"GET /".repeat(MAX_LINE));
    assert_eq!(format_of(long.as_bytes()), None);
    let clock = logs()[0].1.replace("10.0.0.7 -", "12:11:55 -").replace("2001:db8::7 -", "1.5 -");
    for nothing in ["", "\n\n", "rubbish", "{}\n{\"a\":1}", "#!/bin/sh\necho", &clock] {
        assert_eq!(format_of(nothing.as_bytes()), None, "{nothing}");
    }
}

#[test]
fn a_host_in_front_of_the_client_makes_it_vhost() {
    let rest = r#"- - [14/Nov/2023:22:14:20 +0000] "HEAD / HTTP/2.0" 200 0 "-" "curl/8.5.0""#;
    for (front, format, client) in [
        ("www.example.com:443 203.0.113.9", Format::VhostCombined, "203.0.113.9"),
        (
            "www.example.com:443 dsl-9.isp.example.net",
            Format::VhostCombined,
            "dsl-9.isp.example.net",
        ),
        ("www.example.com:443 203.0.113.9, 10.0.0.5", Format::VhostCombined, "203.0.113.9"),
        ("192.0.2.1:443 203.0.113.9", Format::VhostCombined, "203.0.113.9"),
        ("203.0.113.9, 10.0.0.5", Format::Combined, "203.0.113.9"),
        ("10.0.0.5 (203.0.113.9)", Format::Combined, "203.0.113.9"),
        ("- 203.0.113.9", Format::Combined, "203.0.113.9"),
    ] {
        let line = format!("{front} {rest}");
        assert_eq!(detect_line(line.as_bytes()), Some(format), "{front}");
        assert_eq!(read(format, &line)[0].client, client, "{front}");
    }
    // A line without the host is read, too.
    let line = format!("203.0.113.9 {rest}");
    assert_eq!(read(Format::VhostCombined, &line)[0].client, "203.0.113.9");
}

#[test]
fn formats_have_names() {
    for Preset { format, names, .. } in PRESETS {
        assert_eq!(format.to_string(), names[0]);
        assert!(names.iter().all(|name| name.parse::<Format>().unwrap() == format));
    }
    let error = "xml".parse::<Format>().unwrap_err().to_string();
    assert!(error.contains("`xml`") && error.contains("combined, nginx"), "{error}");
}

#[test]
fn a_request_that_is_none_is_bad_in_every_format() {
    for (format, line) in [
        (
            Format::VhostCombined,
            r#"x.example:80 10.0.0.7 - - [14/Nov/2023:22:13:20 +0000] "-" 400 0 "-" "-""#,
        ),
        (
            Format::Caddy,
            r#"{"ts":1700000000,"request":{"remote_ip":"10.0.0.7","method":"","uri":"","headers":{}},"status":400,"size":0}"#,
        ),
        (
            Format::Traefik,
            r#"{"ClientHost":"10.0.0.7","DownstreamStatus":400,"RequestMethod":"-","RequestPath":"-","StartUTC":"2023-11-14T22:13:20Z"}"#,
        ),
    ] {
        let spans = LineParser::new(format).find(line.as_bytes()).unwrap().unwrap();
        assert!(!spans.is_request(), "{format}");
        let Line::Bad(bad) = spans.cut(line.as_bytes()) else { panic!("{format}") };
        assert_eq!(
            (bad.at, bad.client, bad.status),
            (Wall::from_secs(1_700_000_000), "10.0.0.7", 400)
        );
    }
}

proptest! {
    #[test]
    fn no_damage_to_a_line_makes_a_parser_panic(
        format in 0usize..6,
        edits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let (format, log) = logs()[format].clone();
        let mut log = log.into_bytes();
        for (at, byte) in edits {
            let at = at.index(log.len());
            log[at] = byte;
        }
        log.truncate(cut.index(log.len()) + 1);
        let _ = detect(&log);
        let mut parser = LineParser::new(format);
        for line in log.split(|&byte| byte == b'\n') {
            if let Ok(Some(spans)) = parser.find(line)
                && let Line::Request(record) = spans.cut(line)
            {
                record.to_arrival();
            }
        }
        parser.skip(&log);
        parser.last_time(&log);
    }
}
