use super::*;

fn caddy_at(ts: &str) -> Result<(i64, i32), Reason> {
    let line = format!(
        r#"{{"ts":{ts},"request":{{"remote_ip":"::1","method":"GET","uri":"/"}},"status":200}}"#
    );
    caddy(line.as_bytes(), ClientFrom::default()).map(|spans| (spans.at.0, spans.utc_offset))
}

#[test]
fn caddy_writes_times_in_many_ways() {
    // date -u -d @1646861401 is 2022-03-09 21:30:01.
    for ts in [
        "1646861401.5241024",
        "1646861401524.1024",
        "1646861401524102400",
        r#""2022-03-09T21:30:01.524Z""#,
        r#""2022-03-09T21:30:01.524102400+00:00""#,
        r#""2022/03/09 21:30:01.524""#,
    ] {
        assert_eq!(caddy_at(ts), Ok((1_646_861_401_524, 0)), "{ts}");
    }
    assert_eq!(caddy_at(r#""09/Mar/2022:13:30:01 -0800""#), Ok((1_646_861_401_000, -28_800)));
    assert_eq!(caddy_at(r#""2022-03-09T13:30:01-0800""#), Ok((1_646_861_401_000, -28_800)));
    for ts in
        [r#""noon""#, "-1.5", "true", r#""2022-02-30T00:00:00Z""#, r#""2022-03-09T21:30:01.Z""#]
    {
        assert_eq!(caddy_at(ts), Err(Reason::BadTime), "{ts}");
    }
}

#[test]
fn lines_that_are_no_requests_say_why() {
    for (line, why) in [
        ("", Reason::Empty),
        ("rubbish", Reason::Json),
        (r#"{"ts":1646861401,"#, Reason::Json),
        (r#"{"level":"warn","ts":1646861401,"msg":"tls"}"#, Reason::NoRequest),
        (r#"{"request":{"remote_ip":"::1"},"status":200}"#, Reason::NoTime),
        (r#"{"ts":1646861401,"request":{},"status":200}"#, Reason::Client),
        (r#"{"ts":1646861401,"request":{"remote_ip":"\u003a:1"},"status":200}"#, Reason::Client),
        (r#"{"ts":1646861401,"request":{"remote_ip":"::1"}}"#, Reason::Status),
        (r#"{"ts":1646861401,"request":{"remote_ip":"::1"},"status":70000}"#, Reason::Status),
    ] {
        assert_eq!(caddy(line.as_bytes(), ClientFrom::default()).err(), Some(why), "{line}");
    }
    let line = r#"{"level":"info","msg":"Configuration loaded","time":"2023-11-14T22:13:20Z"}"#;
    assert_eq!(traefik(line.as_bytes(), ClientFrom::default()).err(), Some(Reason::NoRequest));
}

#[test]
fn numbers_may_stand_in_quotes() {
    let line = r#"{"ClientAddr":"[2001:db8::7]:50123","DownstreamStatus":"404","DownstreamContentSize":"17","RequestMethod":"GET","RequestPath":"/","StartUTC":"2023-11-14T22:13:20Z"}"#;
    let spans = traefik(line.as_bytes(), ClientFrom::default()).unwrap();
    let record = spans.cut_record(line.as_bytes());
    assert_eq!((record.client, record.status, record.bytes), ("2001:db8::7", 404, 17));
    let line = r#"{"ClientHost":"::1","DownstreamStatus":0,"RequestMethod":"GET","RequestPath":"/","StartUTC":"2023-11-14T22:13:20Z"}"#;
    assert_eq!(traefik(line.as_bytes(), ClientFrom::default()).unwrap().status, 0);
}

#[test]
fn the_client_behind_a_proxy_is_the_client() {
    let line = r#"{"ts":1,"request":{"remote_ip":"10.0.0.1","client_ip":"192.0.2.7","method":"GET","uri":"/"},"status":200}"#;
    let spans = caddy(line.as_bytes(), ClientFrom::default()).unwrap();
    assert_eq!(spans.cut_record(line.as_bytes()).client, "192.0.2.7");
}

#[test]
fn a_chain_in_a_header_names_the_client_unless_the_server_did() {
    const PROXY: &str = r#""remote_ip":"10.0.0.9","client_ip":"10.0.0.9""#;
    let caddy = |addresses: &str, headers: &str| {
        format!(
            r#"{{"ts":1,"request":{{{addresses},"method":"GET","uri":"/","headers":{{{headers}}}}},"status":200}}"#
        )
    };
    let traefik = |host: &str, header: &str| {
        format!(
            r#"{{"ClientHost":"{host}",{header},"RequestMethod":"GET","RequestPath":"/","DownstreamStatus":200,"StartUTC":"2023-11-14T22:13:20Z"}}"#
        )
    };
    for (format, line, client) in [
        (
            Format::Caddy,
            caddy(PROXY, r#""X-Forwarded-For":["203.0.113.9, 10.0.0.4"]"#),
            "203.0.113.9",
        ),
        (Format::Caddy, caddy(PROXY, r#""Cf-Connecting-Ip":["2001:db8::9"]"#), "2001:db8::9"),
        (Format::Caddy, caddy(PROXY, r#""X-Real-Ip":["203.0.113.9"]"#), "203.0.113.9"),
        (Format::Caddy, caddy(PROXY, ""), "10.0.0.9"),
        (
            Format::Caddy,
            caddy(r#""remote_ip":"10.0.0.9""#, r#""X-Forwarded-For":["192.168.1.23"]"#),
            "192.168.1.23",
        ),
        (
            Format::Caddy,
            caddy(
                r#""remote_ip":"10.0.0.9","client_ip":"198.51.100.7""#,
                r#""X-Forwarded-For":["203.0.113.9, 198.51.100.7"]"#,
            ),
            "198.51.100.7",
        ),
        (
            Format::Traefik,
            traefik("10.0.0.9", r#""request_X-Forwarded-For":"203.0.113.9, 10.0.0.4""#),
            "203.0.113.9",
        ),
        (
            Format::Traefik,
            traefik("10.0.0.9", r#""request_X-Real-Ip":"203.0.113.9""#),
            "203.0.113.9",
        ),
        (
            Format::Traefik,
            traefik("198.51.100.7", r#""request_X-Forwarded-For":"192.168.1.23""#),
            "198.51.100.7",
        ),
    ] {
        assert_eq!(detect(line.as_bytes()), Some(format), "{line}");
        let format = FORMATS.iter().find(|it| it.format == format).unwrap();
        let spans = (format.read)(line.as_bytes(), ClientFrom::default()).unwrap();
        assert_eq!(spans.cut_record(line.as_bytes()).client, client, "{line}");
    }
}

#[test]
fn traefik_knows_the_local_time() {
    let line = r#"{"ClientHost":"::1","RequestMethod":"GET","RequestPath":"/","DownstreamStatus":200,"StartLocal":"2023-11-14T23:13:20.25+01:00","StartUTC":"2023-11-14T22:13:20.25Z"}"#;
    let spans = traefik(line.as_bytes(), ClientFrom::default()).unwrap();
    assert_eq!((spans.at.0, spans.utc_offset), (1_700_000_000_250, 3600));
}
