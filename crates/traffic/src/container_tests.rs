use std::io::Cursor;

use super::*;

const LINE: &str = r#"203.0.113.10 - - [10/Nov/2022:00:00:00 +0000] "GET /a\"b HTTP/1.1" 200 741 "-" "Mozilla/5.0 (X11)""#;

fn unwrapped(log: &str) -> (Vec<Container>, String) {
    let containers = detect(log.as_bytes(), None);
    let source = Box::new(Cursor::new(log.as_bytes().to_vec()));
    let mut text = String::new();
    Unwrapped::new(source, containers.clone()).read_to_string(&mut text).unwrap();
    (containers, text)
}

/// The same line in each container that real logs come in.
fn wrapped(line: &str) -> Vec<(Vec<Container>, String)> {
    let json = serde_json::to_string(line).unwrap();
    let with_end = serde_json::to_string(&format!("{line}\n")).unwrap();
    let bytes = format!("{:?}", line.as_bytes());
    let docker = format!(
        r#"{{"log":{with_end},"stream":"stdout","time":"2022-11-10T00:00:00.123456789Z"}}"#
    );
    let syslog = |prefix: &str| (vec![Container::Syslog], format!("{prefix}{line}"));
    vec![
        syslog("Nov 10 00:00:00 web1 nginx: "),
        syslog("Nov  1 00:00:00 10.10.1.13 nginx[123]: "),
        syslog("<190>Nov 10 00:00:00 web1 nginx: "),
        syslog("<190>Nov 10 00:00:00 nginx: "),
        syslog("Nov 10 00:00:00 web1 local7.info nginx: "),
        syslog("Nov 10 2022 00:00:00 web1 httpd: "),
        syslog("2022-11-10T00:00:00.123456+01:00 web1 docker/web[99]: "),
        syslog("2022-11-10T00:00:00+0100 web1 nginx[1]: "),
        syslog("<190>1 2022-11-10T00:00:00.123Z web1 nginx 123 - - "),
        syslog("<190>1 2022-11-10T00:00:00Z web1 nginx - ID47 [a@1 b=\"c\\]\"][d@2] \u{feff}"),
        (vec![Container::Compose], format!("web-1  | {line}")),
        (vec![Container::Compose], format!("\u{1b}[36mweb_1     |\u{1b}[0m {line}")),
        (vec![Container::Cri], format!("2022-11-10T00:00:00.123456789Z stdout F {line}")),
        (vec![Container::Cri], format!("2022-11-10T00:00:00.123456789+01:00 stderr F {line}")),
        (vec![Container::Docker], docker.clone()),
        (vec![Container::Docker], format!(r#"{{"log":{json},"stream":"stdout"}}"#)),
        (vec![Container::Syslog, Container::Docker], format!("Nov 10 00:00:00 h d: {docker}")),
        (
            vec![Container::Journald],
            format!(
                r#"{{"__CURSOR":"s=1","MESSAGE":{json},"_PID":"7","SYSLOG_IDENTIFIER":"nginx"}}"#
            ),
        ),
        (vec![Container::Journald], format!(r#"{{"MESSAGE":{bytes}}}"#)),
        (vec![Container::Stamped], format!("2022-11-10T00:00:00.123456789Z {line}")),
        (vec![Container::Collector], format!(r#"{{"@timestamp":"x","message":{json}}}"#)),
        (vec![Container::Collector], format!(r#"{{"line":{json},"labels":{{"a":"b"}}}}"#)),
    ]
}

#[test]
fn every_container_gives_the_line_as_it_was_written() {
    for (containers, log) in wrapped(LINE) {
        let is_stamped = containers == [Container::Stamped];
        for (log, expected) in [
            (format!("{log}\n").repeat(3), format!("{LINE}\n").repeat(3)),
            (format!("{log}\r\n{log}"), format!("{LINE}\n{LINE}")),
        ] {
            let (found, text) = unwrapped(&log);
            if is_stamped && found.is_empty() {
                // The parser of Combined passes over a time in front by itself.
                continue;
            }
            assert_eq!((found, text), (containers.clone(), expected), "{log}");
        }
    }
}

#[test]
fn logs_of_servers_are_in_no_container() {
    for line in [
        LINE,
        r#"{"ts":1700000000,"msg":"handled request","request":{"remote_ip":"::1","method":"GET","uri":"/"},"status":200}"#,
        r#"{"ClientHost":"::1","RequestMethod":"GET","RequestPath":"/","DownstreamStatus":200,"StartUTC":"2023-11-14T22:13:20Z","msg":""}"#,
        "#Fields: date time c-ip cs-method cs-uri-stem sc-status",
        "2023-11-14 22:13:20 10.0.0.1 GET / 200",
        "www.example.com:443 host.example.net - - [10/Nov/2022:00:00:00 +0000] \"GET / HTTP/1.1\" 200 1",
        "203.0.113.10 | - | [10/Nov/2022:00:00:00 +0000] | GET /",
        "",
    ] {
        assert_eq!(detect(format!("{line}\n").repeat(3).as_bytes(), None), [], "{line}");
    }
}

#[test]
fn lines_outside_of_the_container_pass_and_parts_are_joined() {
    let cri = |tag: &str, text: &str| format!("2022-11-10T00:00:00.1Z stdout {tag} {text}\n");
    let log = [cri("F", "one"), cri("P", "two, "), cri("F", "and more"), "three\n".into()].concat();
    assert_eq!(unwrapped(&log).1, "one\ntwo, and more\nthree\n");
    let part = "x".repeat(16 * 1024);
    let docker = |text: &str| format!("{{\"log\":\"{text}\",\"stream\":\"stdout\"}}\n");
    let log = [docker("a\\n"), docker(&part), docker("b\\n")].concat();
    assert_eq!(unwrapped(&log).1, format!("a\n{part}b\n"));
    // Far too long for a line: it passes as it is, and what follows is read again.
    let endless = "y".repeat(3 * LONGEST);
    let log = [cri("F", "one"), cri("F", "two"), format!("{endless}\n"), cri("F", "z")].concat();
    assert_eq!(unwrapped(&log).1, format!("one\ntwo\n{endless}\nz\n"));
}

#[test]
fn a_format_of_the_operators_own_is_found_in_every_container() {
    const OWN: &str = "203.0.113.10|1668038400.000|GET|/a|200|741|Mozilla/5.0 (X11)";
    let format =
        "$remote_addr|$msec|$request_method|$request_uri|$status|$bytes_sent|$http_user_agent";
    let pattern: Pattern = format.parse().unwrap();
    for (containers, log) in wrapped(OWN) {
        let log = format!("{log}\n").repeat(3);
        assert_eq!(detect(log.as_bytes(), Some(&pattern)), containers, "{log}");
    }
    assert_eq!(detect(format!("{OWN}\n").repeat(3).as_bytes(), Some(&pattern)), []);
}
