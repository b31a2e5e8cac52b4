use super::*;

const REQUEST: &str = r#"[10/Nov/2022:00:00:01 +0000] "GET /a HTTP/1.1" 404 142"#;
const AGENT: &str = "Mozilla/5.0 (X11)";

/// A line of each format that servers write by themselves.
#[test]
fn formats_that_people_have_are_told_by_a_line() {
    for (format, line) in [
        (
            Format::Npm,
            r#"[10/Nov/2022:00:00:01 +0000] - 404 404 - GET https x.example "/a" [Client 203.0.113.9] [Length 142] [Gzip -] [Sent-to 10.0.0.2] "Mozilla/5.0 (X11)" "-""#,
        ),
        (
            Format::Npm,
            r#"[10/Nov/2022:00:00:01 +0000] 404 - GET http x.example "/a" [Client 203.0.113.9] [Length 142] [Gzip 2.5] "Mozilla/5.0 (X11)" "-""#,
        ),
        (
            Format::Haproxy,
            r#"203.0.113.9:33317 [10/Nov/2022:00:00:01.000] http-in static/srv1 10/0/30/69/109 404 142 - - ---- 1/1/1/1/0 0/0 {x.example|Mozilla/5.0 (X11)} {} "GET /a HTTP/1.1""#,
        ),
        (
            Format::Alb,
            r#"https 2022-11-10T00:00:01.000000Z app/lb/50dc6c495c0c9188 203.0.113.9:2817 10.0.0.1:80 0.086 0.048 0.037 404 200 0 142 "GET https://x.example:443/a HTTP/1.1" "Mozilla/5.0 (X11)" ECDHE-RSA-AES128-GCM-SHA256 TLSv1.2 arn:aws:x "Root=1-5" "x.example" "-" 0 2018-07-02T22:22:48.364000Z "forward" "-" "-""#,
        ),
        (
            Format::Elb,
            r#"2022-11-10T00:00:01.000000Z my-lb 203.0.113.9:2817 10.0.0.1:80 0.000073 0.001048 0.000057 404 200 0 142 "GET http://x.example:80/a HTTP/1.1" "Mozilla/5.0 (X11)" - -"#,
        ),
        (
            Format::S3,
            r#"79a59df900b949e5 bucket [10/Nov/2022:00:00:01 +0000] 203.0.113.9 79a59df900b949e5 3E57427F3EXAMPLE REST.GET.OBJECT a "GET /a HTTP/1.1" 404 NoSuchKey 142 - 7 - "-" "Mozilla/5.0 (X11)" -"#,
        ),
        (
            Format::Combined,
            &format!(
                r#"203.0.113.9 - - {REQUEST} "-" "{AGENT}" 450 0.003 [default-web-80] [] 10.0.0.2:80 142 0.003 404 6bc1"#
            ),
        ),
        (
            Format::Combined,
            &format!(r#"203.0.113.9 - - {REQUEST} www.x.example "-" "{AGENT}" "-""#),
        ),
        (
            Format::Combined,
            &format!(
                r#"203.0.113.9 - - {REQUEST} "-" "{AGENT}" 1 "web@docker" "http://172.19.0.2:3001" 10ms"#
            ),
        ),
        (
            Format::Json,
            r#"{"time_local":"10/Nov/2022:00:00:01 +0000","remote_addr":"203.0.113.9","request":"GET /a HTTP/1.1","status":"404","body_bytes_sent":"142","http_user_agent":"Mozilla/5.0 (X11)"}"#,
        ),
        (
            Format::Cloudflare,
            r#"{"ClientIP":"203.0.113.9","ClientRequestMethod":"GET","ClientRequestURI":"/a","ClientRequestUserAgent":"Mozilla/5.0 (X11)","EdgeResponseBytes":142,"EdgeResponseStatus":404,"EdgeStartTimestamp":"2022-11-10T00:00:01Z"}"#,
        ),
        (
            Format::Ecs,
            r#"{"@timestamp":"2022-11-10T00:00:01Z","source":{"ip":"203.0.113.9"},"http":{"request":{"method":"GET"},"response":{"status_code":404,"body":{"bytes":142}}},"url":{"path":"/a"},"user_agent":{"original":"Mozilla/5.0 (X11)"}}"#,
        ),
    ] {
        assert_eq!(detect_line(line.as_bytes()), Some(format), "{line}");
        let spans =
            crate::line_parser::LineParser::new(format).find(line.as_bytes()).unwrap().unwrap();
        let arrival = spans.cut_record(line.as_bytes()).to_arrival();
        assert_eq!(
            (&*arrival.client, &*arrival.target, arrival.status, arrival.bytes, arrival.at.secs()),
            ("203.0.113.9", "/a", 404, 142, 1_668_038_401),
            "{line}"
        );
        assert_eq!((&*arrival.method, arrival.agent.as_deref()), ("GET", Some(AGENT)), "{line}");
    }
    let uwsgi = "[pid: 7|app: 0|req: 1/1] 203.0.113.9 () {38 vars in 696 bytes} [Thu Nov 10 00:00:01 2022] GET /a => generated 142 bytes in 9 msecs (HTTP/1.1 404) 9 headers in 378 bytes (1 switches on core 3)";
    for user in ["", "ann"] {
        let line = uwsgi.replace("()", &format!("({user})"));
        assert_eq!(detect_line(line.as_bytes()), Some(Format::Uwsgi), "{line}");
        let spans = crate::line_parser::LineParser::new(Format::Uwsgi).find(line.as_bytes());
        let spans = spans.unwrap().unwrap();
        let record = spans.cut_record(line.as_bytes());
        let name = record.user.map_or_else(String::new, |user| user.text().into_owned());
        let arrival = record.to_arrival();
        assert_eq!(
            (&*arrival.client, &*name, &*arrival.method, &*arrival.target, arrival.status),
            ("203.0.113.9", user, "GET", "/a", 404)
        );
        assert_eq!((arrival.bytes, arrival.at.secs()), (142, 1_668_038_401));
    }
    let squid = "1668038401.000    921 203.0.113.9 TCP_MISS/404 142 GET http://x.example/a ann DIRECT/10.0.0.2 text/html";
    assert_eq!(detect_line(squid.as_bytes()), Some(Format::Squid));
    let spans =
        crate::line_parser::LineParser::new(Format::Squid).find(squid.as_bytes()).unwrap().unwrap();
    let arrival = spans.cut_record(squid.as_bytes()).to_arrival();
    assert_eq!((&*arrival.client, &*arrival.target, arrival.status), ("203.0.113.9", "/a", 404));
    let aborted = squid.replace("404", "000");
    assert!(crate::line_parser::LineParser::new(Format::Squid).find(aborted.as_bytes()).is_ok());
}

#[test]
fn agents_where_no_format_has_them_are_refused_with_a_description() {
    for (tail, format) in [
        (
            format!(r#""x.example" "https://r.example/" "{AGENT}""#),
            r#" "$field1" "$http_referer" "$http_user_agent""#,
        ),
        (format!(r#""{AGENT}""#), r#" "$http_user_agent""#),
        (format!(r#""{AGENT}" "https://r.example/""#), r#" "$http_user_agent" "$http_referer""#),
        (
            format!(r#"0.003 "10.0.0.2:80" "-" "{AGENT}""#),
            r#" $field1 "$field2" "$http_referer" "$http_user_agent""#,
        ),
        (
            format!(r#""203.0.113.9, 10.0.0.5" "https://r.example/" "{AGENT}""#),
            r#" "$http_x_forwarded_for" "$http_referer" "$http_user_agent""#,
        ),
        (
            format!(r#""-" "203.0.113.9" "{AGENT}""#),
            r#" "$field1" "$http_x_forwarded_for" "$http_user_agent""#,
        ),
    ] {
        let line = format!("203.0.113.9 - - {REQUEST} {tail}");
        let log = format!("{line}\n").repeat(5);
        let Some(DetectedFormat::Misfit(Misfit::Agents(described))) = detect(log.as_bytes()) else {
            panic!("{line}")
        };
        assert!(described.ends_with(format), "{described}");
        let pattern: crate::Pattern = described.parse().unwrap();
        let spans = pattern.0.find(line.as_bytes(), &mut Memo::default()).unwrap();
        let agent = spans.cut_record(line.as_bytes()).to_arrival().agent;
        assert_eq!(agent.as_deref(), Some(AGENT), "{described}");
        // A few such lines among others are no reason.
        let combined = format!("203.0.113.9 - - {REQUEST} \"-\" \"{AGENT}\"\n").repeat(6);
        assert_eq!(
            detect(format!("{log}{combined}").as_bytes()),
            Some(DetectedFormat::Format(Format::Combined))
        );
    }
}

#[test]
fn a_line_in_no_format_is_told_with_those_it_comes_closest_to() {
    for (line, parts) in [
        (
            "203.0.113.9 - - [10/Nov/2022:00:00:01 +0000] GET /a 404",
            &["`common`", "`combined`", "at column 46"][..],
        ),
        ("[10/Nov/2022:00:00:01 +0000] - 404 404 - GET https x.example /a", &["`npm`", "column"]),
        (
            r#"{"time":"2022-11-10T00:00:01Z","verb":"GET","uri":"/"}"#,
            &["`json`", "the client, the status"],
        ),
        (r#"{"time":"#, &["no whole object"]),
        ("rubbish", &["closest are"]),
    ] {
        let told = closest(line.as_bytes());
        assert!(parts.iter().all(|part| told.contains(part)), "{line}: {told}");
    }
}

#[test]
fn one_word_for_most_clients_is_refused_unless_it_may_be_a_host() {
    let log = |front: &str, lines: usize| {
        format!("{front} - - {REQUEST} \"-\" \"{AGENT}\"\n").repeat(lines)
    };
    let told = |log: &str| detect(log.as_bytes());
    for (front, word) in [
        ("ERROR", "ERROR"),
        ("access_log", "access_log"),
        ("INFO:", "INFO"),
        ("10:11:12 WARN", "WARN"),
    ] {
        let refused = Some(DetectedFormat::Misfit(Misfit::Client(word.to_owned())));
        assert_eq!(told(&log(front, 24)), refused, "{front}");
        let others = log("203.0.113.9", 12);
        assert_eq!(told(&(others.clone() + &log(front, 14))), refused, "{front}");
        // Half of the lines, or few lines, prove nothing.
        for few in [others + &log(front, 12), log(front, 9)] {
            assert!(matches!(told(&few), Some(DetectedFormat::Format(_))), "{front}");
        }
    }
    for host in ["localhost", "unix:", "-", "unknown", "web1", "host.example", "203.0.113.9"] {
        assert!(matches!(told(&log(host, 24)), Some(DetectedFormat::Format(_))), "{host}");
    }
}

#[test]
fn of_two_words_in_front_the_client_is_the_one_that_varies() {
    for (front, format, client) in [
        ("198.51.100.80 hostN.isp.example", Format::VhostCombined, "host7.isp.example"),
        ("198.51.100.80:443 hostN.isp.example", Format::VhostCombined, "host7.isp.example"),
        ("198.51.100.80:443 192.168.1.N", Format::VhostCombined, "192.168.1.7"),
        ("nas pc-N", Format::VhostCombined, "pc-7"),
        ("203.0.113.N www.example.com", Format::Combined, "203.0.113.7"),
        ("192.168.1.N nas", Format::Combined, "192.168.1.7"),
        ("192.168.1.N 172.18.0.2", Format::Combined, "192.168.1.7"),
    ] {
        let line = |n: usize| {
            let front = front.replace('N', &n.to_string());
            format!("{front} - - {REQUEST} \"-\" \"{AGENT}\"")
        };
        let log: Vec<String> = (0..20).map(line).collect();
        let found = detect(log.join("\n").as_bytes());
        assert_eq!(found, Some(DetectedFormat::Format(format)), "{front}");
        let mut parser = crate::line_parser::LineParser::new(format);
        let spans = parser.find(log[7].as_bytes()).unwrap().unwrap();
        assert_eq!(spans.cut_record(log[7].as_bytes()).client, client, "{front}");
    }
}

#[test]
fn every_layout_of_the_table_compiles() {
    let layouts: usize = LAYOUTS.iter().map(|(_, layouts)| layouts.len()).sum();
    assert_eq!(layouts, 12);
}
