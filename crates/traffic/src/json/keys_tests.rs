use super::*;
use crate::arrival::Arrival;

fn read(line: &str) -> Arrival {
    let spans = find(line.as_bytes(), ClientFrom::default());
    spans.unwrap_or_else(|why| panic!("{line}: {why}")).cut_record(line.as_bytes()).to_arrival()
}

fn expected() -> Arrival {
    Arrival {
        // date -u -d '2022-11-10 00:00:01'
        at: nightwatt_energy::time::Wall(1_668_038_401_000),
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

#[test]
fn the_same_request_is_the_same_whatever_its_keys_are_called() {
    for line in [
        // nginx, in several operators' wordings.
        r#"{"time_local":"10/Nov/2022:00:00:01 +0000","remote_addr":"203.0.113.9","remote_user":"","request":"GET /a?b=c HTTP/1.1","status": "404","body_bytes_sent":"142","request_time":"0.003","http_referrer":"https://x.example/","http_user_agent":"Mozilla/5.0 (X11) \"q\""}"#,
        r#"{"@timestamp":"2022-11-10T00:00:01+00:00","clientip":"203.0.113.9","size":142,"responsetime":0.003,"upstreamhost":"10.0.0.2:80","http_host":"x.example","url":"/a","args":"b=c","method":"GET","xff":"-","referer":"https://x.example/","agent":"Mozilla/5.0 (X11) \"q\"","status":"404"}"#,
        r#"{"msec":"1668038401.000","connection":"7","remote_addr":"10.0.0.5","http_x_forwarded_for":"203.0.113.9, 10.0.0.5","request_uri":"/a?b=c","request_method":"GET","status":404,"bytes_sent":142,"http_referer":"https://x.example/","http_user_agent":"Mozilla/5.0 (X11) \"q\"","upstream_status":"500"}"#,
        r#"{"time":"0.003","timestamp":"1668038401000","ip":"203.0.113.9:4711","request":"GET /a?b=c HTTP/2.0","code":404,"bytes":142,"referrer":"https://x.example/","ua":"Mozilla/5.0 (X11) \"q\""}"#,
        // Cloudflare.
        r#"{"ClientIP":"203.0.113.9","ClientRequestHost":"x.example","ClientRequestMethod":"GET","ClientRequestURI":"/a?b=c","ClientRequestProtocol":"HTTP/2","ClientRequestReferer":"https://x.example/","ClientRequestUserAgent":"Mozilla/5.0 (X11) \"q\"","EdgeEndTimestamp":"2022-11-10T00:00:02Z","EdgeResponseBytes":142,"EdgeResponseStatus":404,"EdgeStartTimestamp":"2022-11-10T00:00:01Z","OriginResponseStatus":200,"RayID":"3a6050bcbe121a87"}"#,
        r#"{"ClientIP":"203.0.113.9","ClientRequestMethod":"GET","ClientRequestURI":"/a?b=c","ClientRequestReferer":"https://x.example/","ClientRequestUserAgent":"Mozilla/5.0 (X11) \"q\"","EdgeResponseBytes":142,"EdgeResponseStatus":404,"EdgeStartTimestamp":1668038401000000000}"#,
        // Elastic Common Schema, nested and dotted.
        r#"{"@timestamp":"2022-11-10T00:00:01.000Z","ecs":{"version":"1.12"},"source":{"ip":"203.0.113.9","port":4711},"http":{"version":"1.1","request":{"method":"GET","referrer":"https://x.example/"},"response":{"status_code":404,"body":{"bytes":142}}},"url":{"path":"/a","query":"b=c","domain":"x.example"},"user_agent":{"original":"Mozilla/5.0 (X11) \"q\""},"destination":{"ip":"10.0.0.2"}}"#,
        r#"{"@timestamp":"2022-11-10T00:00:01Z","source.ip":"203.0.113.9","http.request.method":"GET","url.original":"https://x.example/a?b=c","http.response.status_code":404,"http.response.body.bytes":142,"http.request.referrer":"https://x.example/","user_agent.original":"Mozilla/5.0 (X11) \"q\""}"#,
        // Google's load balancer.
        r#"{"httpRequest":{"requestMethod":"GET","requestUrl":"https://x.example/a?b=c","status":404,"responseSize":"142","userAgent":"Mozilla/5.0 (X11) \"q\"","remoteIp":"203.0.113.9","referer":"https://x.example/","latency":"0.003s"},"timestamp":"2022-11-10T00:00:01Z","resource":{"type":"http_load_balancer"}}"#,
        // Envoy.
        r#"{"start_time":"2022-11-10T00:00:01.000Z","method":"GET","path":"/a?b=c","protocol":"HTTP/1.1","response_code":404,"bytes_sent":142,"bytes_received":7,"user_agent":"Mozilla/5.0 (X11) \"q\"","downstream_remote_address":"203.0.113.9:4711","x_forwarded_for":null,"request_headers":{"referer":"https://x.example/"}}"#,
        // As Matomo's log importer wants it of nginx: pages, whatever their method.
        r#"{"ip":"203.0.113.9","host":"x.example","path":"/a?b=c","status":"404","referrer":"https://x.example/","user_agent":"Mozilla/5.0 (X11) \"q\"","length":142,"generation_time_milli":3,"date":"2022-11-10T00:00:01+00:00"}"#,
    ] {
        assert_eq!(read(line), expected(), "{line}");
    }
}

#[test]
fn lines_that_are_no_requests_say_why() {
    for (line, why) in [
        ("", Reason::Empty),
        ("rubbish", Reason::Json),
        ("{\"a\":", Reason::Json),
        (r#"{"level":"info","msg":"started"}"#, Reason::NoRequest),
        (r#"{"request":"GET / HTTP/1.1","status":200}"#, Reason::NoTime),
        (
            r#"{"time":"2022-11-10T00:00:01Z","request":"GET / HTTP/1.1","status":200}"#,
            Reason::Client,
        ),
        (
            r#"{"time":"2022-11-10T00:00:01Z","request":"GET / HTTP/1.1","ip":"::1"}"#,
            Reason::Status,
        ),
    ] {
        assert_eq!(find(line.as_bytes(), ClientFrom::default()).err(), Some(why), "{line}");
    }
    let line = br#"{"time":"2022-11-10T00:00:01Z","request":"GET / HTTP/1.1"}"#;
    assert_eq!(missing(line).as_deref(), Some("the client, the status"));
}

#[test]
fn no_name_says_two_things() {
    let names: Vec<&str> = KEYS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
    assert_eq!(RANKS.len(), names.len());
}
