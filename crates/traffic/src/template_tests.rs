use super::*;
use crate::arrival::Arrival;

fn read(pattern: &str, line: &str) -> Arrival {
    let pattern: Pattern = pattern.parse().unwrap_or_else(|error| panic!("{pattern}: {error}"));
    match pattern.0.find(line.as_bytes(), &mut Memo::default()) {
        Ok(spans) => spans.cut_record(line.as_bytes()).to_arrival(),
        Err(miss) => panic!("{pattern}: {line}: {miss:?}, wanted {}", pattern.0.wanted(miss)),
    }
}

fn expected() -> Arrival {
    Arrival {
        // date -u -d '2022-11-10 00:00:01'
        at: Wall(1_668_038_401_000),
        utc_offset: 0,
        client: "203.0.113.9".to_owned(),
        method: "GET".to_owned(),
        target: "/a?b=c".to_owned(),
        status: 404,
        bytes: 142,
        referer: Some("https://x.example/".to_owned()),
        agent: Some("Mozilla/5.0 (X11) \"q\"".to_owned()),
    }
}

/// Formats as they stand in a configuration, and a line of each.
const LINES: [(&str, &str); 27] = [
    (
        "log_format main '$remote_addr - $remote_user [$time_local] \"$request\" '\n    '$status $body_bytes_sent \"$http_referer\" '\n    '\"$http_user_agent\" \"$http_x_forwarded_for\"';",
        r#"10.0.0.5 - ann [10/Nov/2022:00:00:01 +0000] "GET /a?b=c HTTP/1.1" 404 142 "https://x.example/" "Mozilla/5.0 (X11) \x22q\x22" "203.0.113.9, 10.0.0.4""#,
    ),
    (
        "log_format j escape=json '{\"t\":\"$time_iso8601\",\"ip\":\"$remote_addr\",\"m\":\"$request_method\",\"u\":\"$request_uri\",'\n '\"s\":$status,\"b\":$body_bytes_sent,\"r\":\"$http_referer\",\"a\":\"$http_user_agent\"}';",
        r#"{"t":"2022-11-10T00:00:01+00:00","ip":"203.0.113.9","m":"GET","u":"/a?b=c","s":404,"b":142,"r":"https://x.example/","a":"Mozilla/5.0 (X11) \"q\""}"#,
    ),
    (
        "$msec|${remote_addr}|$request_method|$scheme://$host$uri$is_args$args|$status|$bytes_sent|$http_referer|$http_user_agent",
        r"1668038401.000|203.0.113.9|GET|https://x.example/a?b=c|404|142|https://x.example/|Mozilla/5.0 (X11) \x22q\x22",
    ),
    (
        r#"LogFormat "%h %l %u %t \"%r\" %>s %b \"%{Referer}i\" \"%{User-Agent}i\"" combined"#,
        r#"203.0.113.9 - - [10/Nov/2022:00:00:01 +0000] "GET /a?b=c HTTP/1.1" 404 142 "https://x.example/" "Mozilla/5.0 (X11) \"q\"""#,
    ),
    (
        "combinedio",
        r#"203.0.113.9 - - [10/Nov/2022:00:00:01 +0000] "GET /a?b=c HTTP/1.1" 404 142 "https://x.example/" "Mozilla/5.0 (X11) \"q\"" 300 500"#,
    ),
    (
        r#"%v:%p %a %l %u %t "%r" %>s %O "%{Referer}i" "%{User-Agent}i" %D"#,
        r#"www.example.com:443 203.0.113.9 - - [10/Nov/2022:00:00:01 +0000] "GET /a?b=c HTTP/1.1" 404 142 "https://x.example/" "Mozilla/5.0 (X11) \"q\"" 1234"#,
    ),
    (
        r#"CustomLog logs/access_log "%{X-Forwarded-For}i %h [%{%d/%b/%Y %T}t.%{msec_frac}t %{%z}t] \"%m %U%q %H\" %s %B %!200,304{Referer}i \"%{User-agent}i\"" env=!x"#,
        r#"203.0.113.9 10.0.0.5 [10/Nov/2022 00:00:01.000 +0000] "GET /a?b=c HTTP/1.1" 404 142 https://x.example/ "Mozilla/5.0 (X11) \"q\"""#,
    ),
    (
        r#"%{%s}t %h "%r" %<s %b "%{Referer}i" "%{User-Agent}i""#,
        r#"1668038401 203.0.113.9 "GET /a?b=c HTTP/1.1" 404 142 "https://x.example/" "Mozilla/5.0 (X11) \"q\"""#,
    ),
    (
        r#"%{begin:msec}t %{c}a "%r" %>s %b "%{Referer}i" "%{User-Agent}i" %{ms}T %{cookie}C %^FB"#,
        r#"1668038401000 203.0.113.9 "GET /a?b=c HTTP/1.1" 404 142 "https://x.example/" "Mozilla/5.0 (X11) \"q\"" 15 - 12"#,
    ),
    (
        r"%h\t%{end:%Y-%m-%dT%H:%M:%S%z}t\t%r\t%>s\t%b\t%{Referer}i\t%{User-Agent}i",
        "203.0.113.9\t2022-11-10T00:00:01+0000\tGET /a?b=c HTTP/1.1\t404\t142\thttps://x.example/\tMozilla/5.0 (X11) \\\"q\\\"",
    ),
    (
        r#"$remote_addr [$time_local] $request_length  $request_time "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent""#,
        r#"203.0.113.9 [10/Nov/2022:00:00:01 +0000] 77     0.003 "GET /a?b=c HTTP/1.1" 404 142 "https://x.example/" "Mozilla/5.0 (X11) \x22q\x22" more of it"#,
    ),
    (
        r#"%{X-Forwarded-For}i %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i""#,
        r#"203.0.113.9, 10.0.0.5 - - [10/Nov/2022:00:00:01 +0000] "GET /a?b=c HTTP/1.1" 404 142 "https://x.example/" "Mozilla/5.0 (X11) \"q\"""#,
    ),
    (
        r#"%{X-Forwarded-For}i  %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i""#,
        r#"10.0.0.5, 203.0.113.9, 10.0.0.6  - - [10/Nov/2022:00:00:01 +0000] "GET /a?b=c HTTP/1.1" 404 142 "https://x.example/" "Mozilla/5.0 (X11) \"q\"""#,
    ),
    (
        r#""%{X-Forwarded-For}i" %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i""#,
        r#""203.0.113.9, 10.0.0.5" - - [10/Nov/2022:00:00:01 +0000] "GET /a?b=c HTTP/1.1" 404 142 "https://x.example/" "Mozilla/5.0 (X11) \"q\"""#,
    ),
    (
        r#""%h",%t,"%r","%>s","%b","%{Referer}i","%{User-Agent}i""#,
        r#""203.0.113.9",[10/Nov/2022:00:00:01 +0000],"GET /a?b=c HTTP/1.1","404","142","https://x.example/","Mozilla/5.0 (X11) \"q\"""#,
    ),
    (
        r#"CustomLog "/var/log/apache2/access.log" "%h %l %u %t \"%r\" %>s %b \"%{Referer}i\" \"%{User-Agent}i\"" env=!x"#,
        r#"203.0.113.9 - - [10/Nov/2022:00:00:01 +0000] "GET /a?b=c HTTP/1.1" 404 142 "https://x.example/" "Mozilla/5.0 (X11) \"q\"""#,
    ),
    (
        r#"CustomLog "|/usr/bin/rotatelogs /var/log/%Y 86400" combined"#,
        r#"203.0.113.9 - - [10/Nov/2022:00:00:01 +0000] "GET /a?b=c HTTP/1.1" 404 142 "https://x.example/" "Mozilla/5.0 (X11) \"q\"""#,
    ),
    (
        "# ours\n\n  # and theirs\nLogFormat \"%h %l %u \\\n%t \\\"%r\\\" %>s %b \\\"%{Referer}i\\\" \\\"%{User-Agent}i\\\"\" own",
        r#"203.0.113.9 - - [10/Nov/2022:00:00:01 +0000] "GET /a?b=c HTTP/1.1" 404 142 "https://x.example/" "Mozilla/5.0 (X11) \"q\"""#,
    ),
    (
        r#"%{c}a %a %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i""#,
        r#"10.0.0.5 203.0.113.9 [10/Nov/2022:00:00:01 +0000] "GET /a?b=c HTTP/1.1" 404 142 "https://x.example/" "Mozilla/5.0 (X11) \"q\"""#,
    ),
    (
        r#"$http_x_real_ip $http_x_forwarded_for [$time_local] "$request" $status $bytes_sent "$http_referer" "$http_user_agent""#,
        r#"10.0.0.5 203.0.113.9, 10.0.0.4 [10/Nov/2022:00:00:01 +0000] "GET /a?b=c HTTP/1.1" 404 142 "https://x.example/" "Mozilla/5.0 (X11) \"q\"""#,
    ),
    (
        r#"$remote_addr $proxy_protocol_addr $http_x_azure_socketip [$time_local] "$request" $status $bytes_sent "$http_referer" "$http_user_agent""#,
        r#"10.0.0.5 203.0.113.9 10.0.0.4 [10/Nov/2022:00:00:01 +0000] "GET /a?b=c HTTP/1.1" 404 142 "https://x.example/" "Mozilla/5.0 (X11) \"q\"""#,
    ),
    (
        r#"$remote_addr $http_x_envoy_external_address [$time_local] "$request" $status $bytes_sent "$http_referer" "$http_user_agent""#,
        r#"10.0.0.5 203.0.113.9 [10/Nov/2022:00:00:01 +0000] "GET /a?b=c HTTP/1.1" 404 142 "https://x.example/" "Mozilla/5.0 (X11) \"q\"""#,
    ),
    (
        r"log_format own $remote_addr|$time_iso8601|$request|$status|$bytes_sent|$http_referer|$http_user_agent;",
        r#"203.0.113.9|2022-11-10T00:00:01Z|GET /a?b=c HTTP/1.1|404|142|https://x.example/|Mozilla/5.0 (X11) \"q\""#,
    ),
    (
        r#"100%% %h %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i""#,
        r#"100% [2001:db8::9]:443 [10/Nov/2022:00:00:01 +0000] "GET /a?b=c HTTP/1.1" 404 142 "https://x.example/" "Mozilla/5.0 (X11) \"q\"""#,
    ),
    (
        r#"%h %{begin}t %{end}t "%r" %>s %b "%{Referer}i" "%{User-Agent}i""#,
        r#"203.0.113.9 [10/Nov/2022:00:00:01 +0000] [10/Nov/2022:00:07:09 +0000] "GET /a?b=c HTTP/1.1" 404 142 "https://x.example/" "Mozilla/5.0 (X11) \"q\"""#,
    ),
    (
        r#"%{end:sec}t %h %{begin:%Y-%m-%d %T}t.%{begin:msec_frac}t %{end:msec_frac}t "%r" %>s %b "%{Referer}i" "%{User-Agent}i""#,
        r#"1668038829 203.0.113.9 2022-11-10 00:00:01.000 345 "GET /a?b=c HTTP/1.1" 404 142 "https://x.example/" "Mozilla/5.0 (X11) \"q\"""#,
    ),
    (
        r#"%{end}t %h "%r" %>s %b "%{Referer}i" "%{User-Agent}i""#,
        r#"[10/Nov/2022:00:00:01 +0000] 203.0.113.9 "GET /a?b=c HTTP/1.1" 404 142 "https://x.example/" "Mozilla/5.0 (X11) \"q\"""#,
    ),
];

#[test]
fn formats_of_a_configuration_read_the_lines_they_write() {
    for (pattern, line) in LINES {
        let mut arrival = read(pattern, line);
        if arrival.client == "2001:db8::9" {
            arrival.client = "203.0.113.9".to_owned();
        }
        assert_eq!(arrival, expected(), "{pattern}");
    }
}

#[test]
fn a_chain_that_is_missing_leaves_the_other_end() {
    let pattern = r#"$remote_addr $http_x_forwarded_for [$time_local] "$request" $status"#;
    let client = |front: &str| {
        let line = format!(r#"{front} [10/Nov/2022:00:00:01 +0000] "GET / HTTP/1.1" 200"#);
        read(pattern, &line).client
    };
    assert_eq!(client("10.0.0.5 -"), "10.0.0.5");
    assert_eq!(client("10.0.0.5 203.0.113.9, 10.0.0.7"), "203.0.113.9");
    assert_eq!(client("203.0.113.9 10.0.0.7"), "203.0.113.9");
    assert_eq!(client("- -"), "-");
}

#[test]
fn an_agent_without_quotes_goes_to_the_end_of_the_line() {
    const FRONT: &str = "203.0.113.9 [10/Nov/2022:00:00:01 +0000] \"GET / HTTP/1.1\" 200";
    const AGENT: &str = "Mozilla/5.0 (X11; Linux x86_64, like Gecko)";
    for separator in [" ", " | ", ";", " ; ", ",", "\t", "|"] {
        let pattern =
            format!("$remote_addr [$time_local] \"$request\" $status{separator}$http_user_agent");
        let read = read(&pattern, &format!("{FRONT}{separator}{AGENT}"));
        assert_eq!(read.agent.as_deref(), Some(AGENT), "{pattern}");
    }
    // What an agent does not hold ends it, where the log is longer than the format.
    for separator in ["\t", "|"] {
        let pattern =
            format!("$remote_addr [$time_local] \"$request\" $status{separator}$http_user_agent");
        let read = read(&pattern, &format!("{FRONT}{separator}{AGENT}{separator}0.003"));
        assert_eq!(read.agent.as_deref(), Some(AGENT), "{pattern}");
    }
}

#[test]
fn what_a_format_lacks_is_named() {
    for (pattern, why) in [
        ("$remote_addr $status", "lacks the time"),
        ("$time_local $request $status", "lacks the client"),
        ("%h %t %>s", "lacks the request"),
        ("%h %t \"%r\"", "lacks the status"),
        ("nothing", "names no field"),
        ("$remote_addr$remote_user [$time_local] $request $status", "nothing between them"),
        ("%{User-Agent", "does not close"),
        ("%h %", "names no field"),
    ] {
        let error = pattern.parse::<Pattern>().unwrap_err().to_string();
        assert!(error.contains(why), "{pattern}: {error}");
    }
}

#[test]
fn a_line_that_leaves_the_format_says_where() {
    let pattern: Pattern = r#"%h %t "%r" %>s %b"#.parse().unwrap();
    for (line, at, wanted) in [
        ("203.0.113.9 10/Nov/2022", 12, "a time"),
        (r"203.0.113.9 [10/Nov/2022:00:00:01 +0000] GET", 41, "` \"`"),
        (r#"203.0.113.9 [10/Nov/2022:00:00:01 +0000] "GET / HTTP/1.1" x 1"#, 58, "a status"),
        (r#"203.0.113.9 [10/Nov/2022:00:00:01 +0000] "GET / HTTP/1.1" 200 x"#, 62, "a size"),
        (r#"? [10/Nov/2022:00:00:01 +0000] "GET / HTTP/1.1" 200 1"#, 0, "the client's address"),
    ] {
        let miss = pattern.0.find(line.as_bytes(), &mut Memo::default()).unwrap_err();
        assert_eq!((miss.at, pattern.0.wanted(miss).as_str()), (at, wanted), "{line}");
    }
}

proptest::proptest! {
    #[test]
    fn no_format_and_no_line_make_it_panic(
        which in 0..LINES.len(),
        edits in proptest::collection::vec((proptest::prelude::any::<proptest::sample::Index>(), proptest::prelude::any::<u8>()), 0..6),
        format in "[$%{}\"' a-z\\\\]{0,40}",
    ) {
        let (pattern, line) = LINES[which];
        let mut line = line.as_bytes().to_vec();
        for (at, byte) in edits {
            let at = at.index(line.len());
            line[at] = byte;
        }
        for pattern in [pattern, &format] {
            if let Ok(Pattern(template)) = pattern.parse()
                && let Ok(spans) = template.find(&line, &mut Memo::default())
            {
                spans.cut_record(&line).to_arrival();
            }
        }
    }
}
