use super::*;
use crate::arrival::Arrival;

fn read(log: &str) -> Vec<Arrival> {
    let mut header = Header::default();
    let mut all = Vec::new();
    for line in log.lines() {
        if Header::is_directive(line.as_bytes()) {
            header.directive(line.as_bytes());
        } else {
            let spans = header.find(line.as_bytes(), ClientFrom::default()).unwrap();
            all.push(spans.cut_record(line.as_bytes()).to_arrival());
        }
    }
    all
}

/// In the shape of the example in Amazon's documentation.
#[test]
fn cloudfront_separates_by_tabs_and_encodes_agents() {
    let log = "#Version: 1.0\n\
        #Fields: date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status \
        cs(Referer) cs(User-Agent) cs-uri-query cs(Cookie) x-edge-result-type x-edge-request-id \
        x-host-header cs-protocol cs-bytes time-taken x-forwarded-for ssl-protocol ssl-cipher \
        x-edge-response-result-type cs-protocol-version\n\
        2019-12-04\t21:02:31\tLAX1\t392\t192.0.2.100\tGET\td111111abcdef8.cloudfront.net\t\
        /index.html\t200\t-\tMozilla/5.0%20(Windows%20NT%2010.0;%20Win64;%20x64)\ta=1\t-\tHit\t\
        SOX4xwn4XV6Q4rgb7XiVGOHms_BGlTAC4KyHmureZmBNrjGdRLiNIQ==\t\
        d111111abcdef8.cloudfront.net\thttps\t23\t0.001\t-\tTLSv1.2\t\
        ECDHE-RSA-AES128-GCM-SHA256\tHit\tHTTP/2.0\n";
    let [arrival] = &read(log)[..] else { panic!() };
    assert_eq!(arrival.at, Wall::from_secs(1_575_493_351), "date -u -d '2019-12-04 21:02:31'");
    assert_eq!((arrival.client.as_str(), arrival.bytes), ("192.0.2.100", 392));
    assert_eq!(arrival.target, "/index.html?a=1");
    assert_eq!(arrival.agent.as_deref(), Some("Mozilla/5.0 (Windows NT 10.0; Win64; x64)"));
    assert_eq!(arrival.referer, None);
}

/// IIS 6 as many set it up: what is not chosen in its dialog has no column.
#[test]
fn a_log_without_a_column_for_the_method_is_one_of_pages() {
    let log = "#Software: Microsoft Internet Information Services 6.0\n\
        #Fields: date time c-ip cs-uri-stem sc-status sc-bytes cs(User-Agent)\n\
        2024-01-01 00:00:01 203.0.113.1 /a 200 512 Mozilla/5.0+(X11)\n";
    let [arrival] = &read(log)[..] else { panic!() };
    assert_eq!((arrival.method.as_str(), arrival.target.as_str()), ("GET", "/a"));
    // Where there is such a column, a line without a method is of no request.
    let mut header = Header::default();
    header.directive(b"#Fields: date time c-ip cs-method cs-uri-stem sc-status");
    let spans = header.find(b"2024-01-01 00:00:01 203.0.113.1 - - 400", ClientFrom::default());
    assert!(!spans.unwrap().is_request());
}

#[test]
fn fields_may_change_within_a_log_and_dates_stand_above() {
    let log = "#Date: 2023-11-14 22:13:20\n\
        #Fields: time cs-method cs-uri c-ip sc-status\n\
        22:13:20.5 GET /one?x 10.0.0.1 200\n\
        #Date: 2023-11-15 00:00:00\n\
        #Fields: sc-status c-ip  time cs-uri-stem cs-method\n\
        404  10.0.0.2 00:00:01 /two GET\n";
    let all = read(log);
    let seen: Vec<_> = all.iter().map(|of| (of.at.0, of.target.as_str(), of.status)).collect();
    assert_eq!(seen, [(1_700_000_000_500, "/one?x", 200), (1_700_006_401_000, "/two", 404)]);
}

#[test]
fn advanced_logging_of_iis_has_local_times_quoted_agents_and_forwarded_clients() {
    let log = "#Software: IIS Advanced Logging Module\n\
        #Fields:  date-local time-local cs-uri-stem cs-uri-query s-contentpath sc-status cs-method \
        cs(User-Agent) c-ip sc-bytes X-Forwarded-For\n\
        2022-11-10 00:00:01.123 /a b=c \"C:\\inetpub\" 200 GET \"Mozilla/5.0 (X11) \"\"q\"\"\" \
        10.0.0.5 142 203.0.113.9:4711\n\
        2022-11-10 00:00:02.123 / - - 200 GET curl/8.5 203.0.113.7 1 -\n";
    let all = read(log);
    assert_eq!((all[0].at, all[0].status), (Wall(1_668_038_401_123), 200));
    assert_eq!((all[0].client.as_str(), all[0].bytes), ("203.0.113.9", 142));
    assert!(all[0].agent.as_deref().unwrap().starts_with("Mozilla/5.0 (X11)"));
    assert_eq!(all[1].client, "203.0.113.7");
}

#[test]
fn what_a_piece_says_of_the_log_is_taken_from_anywhere_in_it() {
    let log = "22:13:20 GET\n#Fields: time cs-method\n22:13:20 GET\n#Date: 2023-11-14\n#x\nlast";
    let mut header = Header::default();
    header.skip(log.as_bytes());
    assert_eq!(header.date, Some(1_699_920_000), "date -u -d 2023-11-14");
    assert_eq!(*header.fields, [Kind::Time, Kind::Method]);
    header.skip(b"no directive\n");
    header.skip(b"");
    assert_eq!(header.fields.len(), 2);
}

#[test]
fn quotes_may_hold_a_field_together() {
    let log = "#Fields: date time c-ip cs-method cs-uri-stem sc-status cs(User-Agent) sc-bytes\n\
        2023-11-14 22:13:20 10.0.0.1 GET / 200 \"Mozilla/5.0 (X11)\" 12\n";
    assert_eq!(read(log)[0].agent.as_deref(), Some("Mozilla/5.0 (X11)"));
    assert_eq!(read(log)[0].bytes, 12);
}

#[test]
fn lines_that_are_no_requests_say_why() {
    let mut header = Header::default();
    assert_eq!(
        header.find(b"2023-11-14 22:13:20 10.0.0.1", ClientFrom::default()).err(),
        Some(Reason::NoFields)
    );
    header.directive(b"#Fields: date time c-ip cs-method cs-uri-stem sc-status sc-bytes");
    for (line, why) in [
        ("  ", Reason::Empty),
        ("2023-11-14", Reason::NoTime),
        ("2023-11-31 22:13:20 10.0.0.1 GET / 200 1", Reason::BadTime),
        ("2023-11-14 22:13:70 10.0.0.1 GET / 200 1", Reason::BadTime),
        ("2023-11-14 22:13:20 - GET / 200 1", Reason::Client),
        ("2023-11-14 22:13:20 10.0.0.1 GET / - 1", Reason::Status),
        ("2023-11-14 22:13:20 10.0.0.1 GET / 200 x", Reason::Size),
    ] {
        assert_eq!(header.find(line.as_bytes(), ClientFrom::default()).err(), Some(why), "{line}");
    }
    let bad =
        header.find(b"2023-11-14 22:13:20 10.0.0.1 - - 400 0", ClientFrom::default()).unwrap();
    assert!(!bad.is_request());
}
