//! The log-backed origin by itself.

use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_load::{
    BadGateway, CacheRule, CacheRules, ErrorKind, OriginOptions, etag_of, read_statuses,
    serve_origin,
};
use nightwatt_traffic::Arrival;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::stage::{against_origin, at, get, options, virtual_clock};

/// What the origin says to these bytes, headers in lower case and without the date.
fn says(options: OriginOptions, request: &str) -> String {
    let request = request.replace('\n', "\r\n") + "Connection: close\r\n\r\n";
    let clock = Clock::real();
    let answer = clock.runtime().unwrap().block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(serve_origin(listener, options, std::future::pending()));
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    });
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let mut lines: Vec<&str> = head.lines().filter(|line| !line.starts_with("date:")).collect();
    lines[1..].sort_unstable();
    format!("{}\n({} bytes)", lines.join("\n"), body.len())
}

#[test]
fn requests_that_no_log_describes_get_the_status_that_their_address_has() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("statuses.tsv");
    std::fs::write(&path, "/old?a=1\t302\n/gone\t410\n").unwrap();
    let statuses = read_statuses(&path).unwrap();
    let status = |target: &str, headers: &str| {
        let options = OriginOptions { statuses: statuses.clone(), ..OriginOptions::default() };
        let answer = says(options, &format!("GET {target} HTTP/1.1\nHost: a\n{headers}"));
        answer.split(' ').nth(1).unwrap().to_owned()
    };
    assert_eq!(status("/old?a=1", ""), "302");
    assert_eq!(status("/gone", ""), "410");
    assert_eq!(status("/old", ""), "200", "another address");
    assert_eq!(
        status("/gone", "Nightwatt-Replay: status=200; bytes=7\n"),
        "200",
        "the log says so"
    );
    for wrong in ["/a", "/a\t99", "/a\tx"] {
        std::fs::write(&path, wrong).unwrap();
        let error = read_statuses(&path).unwrap_err();
        let said = std::error::Error::source(&error).unwrap().to_string();
        assert!(said.contains("line 1 is not `TARGET, STATUS`"), "{said}");
    }
}

#[test]
fn it_answers_with_status_size_and_cache_headers() {
    let options = || OriginOptions {
        cache: CacheRules {
            ttl: Duration::from_mins(2),
            rules: vec![CacheRule { pattern: "*.css".into(), ttl: Duration::from_hours(1) }],
            no_store: vec!["/private/".into()],
        },
        ..OriginOptions::default()
    };
    let get = |target: &str, headers: &str| {
        says(options(), &format!("GET {target} HTTP/1.1\nHost: a\n{headers}"))
    };
    insta::assert_snapshot!(get("/", ""));
    insta::assert_snapshot!(get("/a.css?v=1", "Nightwatt-Replay: status=200; bytes=100000\n"));
    insta::assert_snapshot!(get("/gone", "Nightwatt-Replay: status=404; bytes=7\n"));
    insta::assert_snapshot!(get("/private/x", "Nightwatt-Replay: status=200; bytes=7\n"));
    insta::assert_snapshot!(get("/old", "Nightwatt-Replay: status=301; bytes=7\n"));
    let known = format!("If-None-Match: {}\n", etag_of("/"));
    insta::assert_snapshot!(get("/", &known));
    insta::assert_snapshot!(get("/", &format!("{known}Nightwatt-Replay: status=404; bytes=7\n")));
    insta::assert_snapshot!(get(
        "/film.mp4",
        "Range: bytes=0-99\nNightwatt-Replay: status=206; bytes=100\n"
    ));
    insta::assert_snapshot!(says(
        options(),
        "HEAD / HTTP/1.1\nHost: a\nNightwatt-Replay: status=200; bytes=9\n"
    ));
    insta::assert_snapshot!(says(
        options(),
        "CONNECT a:443 HTTP/1.1\nHost: a\nNightwatt-Replay: status=200; bytes=9\n"
    ));
}

#[test]
fn it_records_what_it_served_and_how_many_bytes_it_was_sent() {
    let post = Arrival { method: "POST".into(), ..get(1, "/form?a=b") };
    let log = [get(0, "/%C3%A4/"), post.clone(), post];
    let (_, record) = against_origin(&virtual_clock(), &log, &options(), OriginOptions::default());
    let bytes = record[1].rsplit_once('\t').unwrap().1;
    assert!(bytes.parse::<u64>().unwrap() >= 16);
    assert_eq!(
        record,
        [
            "replay-0\tGET\t/%C3%A4/\t200\t0".to_owned(),
            format!("replay-1\tPOST\t/form?a=b\t200\t{bytes}"),
            format!("replay-2\tPOST\t/form?a=b\t200\t{bytes}"),
        ]
    );
}

#[test]
fn it_can_be_slow_and_broken() {
    let log: Vec<Arrival> = (0..4).map(|n| get(n * 10, "/")).collect();
    let statuses = |bad_gateway_for, delay| {
        let origin = OriginOptions { bad_gateway_for, delay, ..OriginOptions::default() };
        let (run, _) = against_origin(&virtual_clock(), &log, &options(), origin);
        let answered: Vec<_> = run.outcomes.iter().map(|o| o.answered.unwrap().0).collect();
        (run.outcomes.iter().map(|o| o.status.unwrap()).collect::<Vec<_>>(), answered)
    };
    let late: Vec<_> = (0..4).map(|n| at(n * 10).0 + Duration::from_millis(30)).collect();
    let delay = Duration::from_millis(30);
    assert_eq!(statuses(BadGateway::Never, delay), (vec![200; 4], late));
    assert_eq!(statuses(BadGateway::Requests(2), delay).0, [502, 502, 200, 200]);
    assert_eq!(statuses(BadGateway::Time(at(25).0), delay).0, [502, 502, 502, 200]);
}

#[test]
fn large_answers_pass_through_in_little_memory() {
    let log = [Arrival { bytes: 300_000_000, ..get(0, "/big.iso") }];
    let (run, _) = against_origin(&virtual_clock(), &log, &options(), OriginOptions::default());
    assert_eq!((run.outcomes[0].bytes, run.outcomes[0].error), (300_000_000, None::<ErrorKind>));
}
