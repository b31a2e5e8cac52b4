use std::io::{Cursor, Write as _};

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use proptest::prelude::*;

use super::*;

const GOOD: &str = r#"10.0.0.7 - - [03/Mar/2012:06:26:37 -0800] "GET / HTTP/1.1" 200 142"#;
const BAD: &str = r#"10.0.0.7 - - [03/Mar/2012:06:26:37 -0800] "-" 400 0 "-" "-""#;

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

/// Reads to the end or the first error.
fn read(log: &[u8]) -> (Vec<Arrival>, Counts, Option<Error>) {
    let mut reader = LogReader::new("test.log", Cursor::new(log.to_vec())).unwrap();
    let mut all = Vec::new();
    loop {
        match reader.next_record() {
            Ok(Some(record)) => all.push(record.to_arrival()),
            Ok(None) => return (all, reader.counts().clone(), None),
            Err(error) => {
                assert!(reader.next_record().unwrap().is_none(), "an error is told once");
                return (all, reader.counts().clone(), Some(error));
            }
        }
    }
}

fn sums(counts: &Counts) -> (u64, u64, u64, u64) {
    (counts.lines, counts.requests, counts.bad_requests, counts.malformed)
}

#[test]
fn every_line_is_counted_as_what_it_is() {
    let log = format!("{GOOD}\r\n{BAD}\nrubbish\n\n{GOOD}");
    let (requests, counts, error) = read(log.as_bytes());
    assert!(error.is_none());
    assert_eq!(requests.len(), 2);
    assert_eq!(sums(&counts), (5, 2, 1, 2));
    let sample = &counts.malformed_samples[0];
    assert_eq!((sample.file.as_str(), sample.line, sample.reason), ("test.log", 3, Reason::Client));
    assert_eq!(sample.excerpt, "rubbish");
    assert_eq!(counts.malformed_samples[1].reason, Reason::Empty);
    assert_eq!(counts.bad_request_samples[0].line, 2);
    assert_eq!(counts.bad_request_samples[0].reason, Reason::NoHttp);
}

#[test]
fn bad_requests_are_lent_where_they_are_wanted() {
    let log = format!("{BAD}\nrubbish\n{GOOD}\n");
    let mut reader = LogReader::new("test.log", Cursor::new(log.into_bytes())).unwrap();
    assert!(matches!(reader.next_line().unwrap(), Some(Line::Bad(_))));
    assert!(matches!(reader.next_line().unwrap(), Some(Line::Request(_))));
    assert!(reader.next_line().unwrap().is_none());
}

#[test]
fn the_first_five_lost_lines_are_sampled_and_cut() {
    let log = format!("{}\n", "é".repeat(300)).repeat(9);
    let (_, counts, _) = read(log.as_bytes());
    assert_eq!((counts.malformed, counts.malformed_samples.len()), (9, 5));
    assert_eq!(counts.malformed_samples[4].excerpt, "é".repeat(200));
}

#[test]
fn a_line_may_be_long_but_not_too_long() {
    let agent_of = |len: usize| {
        let start = format!("{GOOD} \"-\" \"");
        format!("{start}{}\"", "x".repeat(len - start.len() - 1))
    };
    for (len, end, requests) in [
        (MAX_LINE, "\n", 1),
        (MAX_LINE, "\r\n", 1),
        (MAX_LINE, "", 1),
        (MAX_LINE, "\r", 1),
        (MAX_LINE + 1, "\n", 0),
        (MAX_LINE + 1, "", 0),
        (MAX_LINE + 2, "\r\n", 0),
        (10 * BUFFER, "\n", 0),
        (10 * BUFFER + 1, "", 0),
    ] {
        let log = format!("{GOOD}\n{}{end}", agent_of(len));
        let (found, counts, error) = read(log.as_bytes());
        assert!(error.is_none());
        assert_eq!(found.len(), 1 + requests, "{len} {end:?}");
        assert_eq!(sums(&counts), (2, 1 + requests as u64, 0, 1 - requests as u64));
        if requests == 0 {
            let sample = &counts.malformed_samples[0];
            assert_eq!((sample.line, sample.reason), (2, Reason::TooLong));
            assert_eq!(sample.excerpt.len(), 200);
        }
    }
    // What follows such a line is read again.
    let log = format!("{}\n{GOOD}\n", agent_of(5 * BUFFER));
    assert_eq!(sums(&read(log.as_bytes()).1), (2, 1, 0, 1));
}

#[test]
fn a_log_is_told_by_its_first_line_that_is_in_some_format_however_late_that_comes() {
    let caddy = r#"{"ts":1330784797.0,"request":{"remote_ip":"::1","proto":"HTTP/1.1","method":"GET","host":"a","uri":"/","headers":{}},"size":12,"status":200}"#;
    for (odd, lines) in [
        ("x".repeat(10 * BUFFER), 1),
        (format!("rubbish\n{}", "x".repeat(10 * BUFFER)), 2),
        ("rubbish\n".repeat(BUFFER).trim_end().to_owned(), BUFFER as u64),
    ] {
        let mut reader =
            LogReader::new("test.log", Cursor::new(format!("{odd}\n{caddy}\n"))).unwrap();
        assert_eq!(reader.next_record().unwrap().map(|record| record.status), Some(200));
        assert!(reader.next_record().unwrap().is_none());
        assert_eq!(reader.format(), Some(Format::Caddy));
        assert_eq!(sums(reader.counts()), (lines + 1, 1, 0, lines));
    }
}

#[test]
fn gzip_of_many_members_reads_as_one() {
    let mut log = gzip(format!("{GOOD}\n").as_bytes());
    log.extend(gzip(&GOOD.as_bytes()[..30]));
    log.extend(gzip(format!("{}\n{BAD}\n", &GOOD[30..]).as_bytes()));
    assert_eq!(sums(&read(&log).1), (3, 2, 1, 0));
}

#[test]
fn a_cut_gzip_gives_what_came_before_and_says_how_much() {
    // Lines that do not compress to nothing, so that a cut loses only some.
    let lines: Vec<String> =
        (0..20_000u64).map(|n| GOOD.replace("/ ", &format!("/{} ", n * n * 7919))).collect();
    let whole = gzip(format!("{}\n", lines.join("\n")).as_bytes());
    let cut = whole.len() / 2;
    let (requests, counts, error) = read(&whole[..cut]);
    let Some(Error::Damaged { lines: told, .. }) = &error else { panic!("{error:?}") };
    assert_eq!(*told, counts.lines);
    assert_eq!(requests.len() as u64, *told, "no half line is taken for a whole one");
    let message = error.unwrap().to_string();
    assert!(message.contains(&format!("after {} lines", counts.lines)), "{message}");

    // As much as the decompressor itself can get out of what is there.
    let mut text = Vec::new();
    let _ = MultiGzDecoder::new(&whole[..cut]).read_to_end(&mut text);
    assert_eq!(counts.lines, memchr::memchr_iter(b'\n', &text).count() as u64);
    assert!(counts.lines > 5_000, "{}", counts.lines);
}

#[test]
fn what_is_no_text_is_refused_by_name_with_the_cure() {
    let gzipped_tar = gzip(&[&[b'x'; 257][..], b"ustar  "].concat());
    for (log, what) in [
        (&b"PK\x03\x04rest"[..], "unzip -p"),
        (&[0x04, 0x22, 0x4d, 0x18, 0x60], "lz4 -dc"),
        (&gzipped_tar, "tar -xOf"),
        (b"LPKSHHRH....", "journalctl"),
    ] {
        let error = match LogReader::new("a.log", Cursor::new(log.to_vec())) {
            Err(error) => error,
            Ok(mut reader) => reader.next_record().unwrap_err(),
        };
        assert!(matches!(error, Error::Foreign { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.starts_with("log a.log is") && text.contains(what), "{text}");
    }
}

#[test]
fn nuls_utf_16_and_containers_change_nothing() {
    let log = format!("{GOOD}\n{BAD}\n{GOOD}\n");
    let expected = read(log.as_bytes()).0;
    let copytruncate = [&vec![0; 3 * MAX_LINE][..], log.as_bytes()].concat();
    let utf16: Vec<u8> = log.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let prefixed = |line: &str| format!("Nov 10 00:00:00 h nginx: {line}\n");
    let syslog = log.lines().map(prefixed).collect::<Vec<_>>().concat();
    for log in [copytruncate, utf16, syslog.into_bytes()] {
        for log in [gzip(&log), log] {
            let (requests, counts, error) = read(&log);
            assert!(error.is_none(), "{error:?}");
            assert_eq!((requests, sums(&counts)), (expected.clone(), (3, 2, 1, 0)));
        }
    }
}

#[test]
fn a_source_that_fails_is_told_after_what_it_gave() {
    struct Failing;
    impl Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the disk is gone"))
        }
    }
    let source = Cursor::new(format!("{GOOD}\n{GOOD}")).chain(Failing);
    let mut reader = LogReader::new("test.log", source).unwrap();
    assert!(reader.next_record().unwrap().is_some());
    let error = reader.next_record().unwrap_err();
    assert!(matches!(error, Error::Read { lines: 1, .. }), "{error}");
    assert!(reader.next_record().unwrap().is_none());
}

#[test]
fn what_cannot_be_opened_says_what_to_try() {
    let error = LogReader::open("/nowhere/access.log").err().unwrap().to_string();
    assert!(error.contains("/nowhere/access.log") && error.contains("check the path"), "{error}");
    let zstd = [0x28, 0xb5, 0x2f, 0xfd, 0, 0, 0];
    let mut reader = LogReader::new("a.zst", Cursor::new(zstd)).unwrap();
    let error = reader.next_record().unwrap_err().to_string();
    assert!(error.contains("a.zst") && error.contains("zstd -t"), "{error}");
}

#[test]
fn arrivals_are_sorted_and_limited_to_days() {
    let line = |day: u32, hour: u32, target: &str| {
        format!("h - - [{day:02}/Mar/2012:{hour:02}:30:00 +0000] \"GET {target} HTTP/1.1\" 200 1\n")
    };
    // `/late` and `/same` have one time; `/before` is older than the first line.
    let log = [
        line(3, 12, "/first"),
        line(3, 14, "/late"),
        line(3, 13, "/earlier"),
        line(3, 14, "/same"),
        line(3, 11, "/before"),
        line(4, 12, "/day2"),
        line(4, 11, "/day1"),
        line(4, 14, "/far"),
        line(4, 10, "/never-read"),
    ]
    .concat();
    let targets = |days| {
        let mut reader = LogReader::new("test.log", Cursor::new(log.clone())).unwrap();
        let all = arrivals(&mut reader, days).unwrap();
        (all.into_iter().map(|arrival| arrival.target).collect::<Vec<_>>(), reader.counts().lines)
    };
    let first_day = ["/before", "/first", "/earlier", "/late", "/same", "/day1"];
    assert_eq!(targets(Some(1)), (first_day.map(str::to_owned).to_vec(), 8));
    assert_eq!((targets(None).0.len(), targets(None).1), (9, 9));
    assert_eq!(targets(Some(2)), targets(None));
}

#[test]
fn requests_of_one_second_keep_their_order() {
    let line = |n: u32| {
        GOOD.replace("GET /", &format!("GET /{n}")).replace(":37", [":37", ":36"][n as usize % 2])
    };
    let log = (0..100).map(line).collect::<Vec<_>>().join("\n");
    let mut reader = LogReader::new("test.log", Cursor::new(log)).unwrap();
    let all = arrivals(&mut reader, None).unwrap();
    let targets: Vec<u32> = all.iter().map(|of| of.target[1..].parse().unwrap()).collect();
    let expected: Vec<u32> = (0..100).filter(|n| n % 2 == 1).chain((0..100).step_by(2)).collect();
    assert_eq!(targets, expected);
}

#[test]
fn counts_of_parts_merge_to_the_counts_of_the_whole() {
    let log = format!("{GOOD}\n{BAD}\nrubbish\n").repeat(4);
    let part = read(log.as_bytes()).1;
    let mut merged = part.clone();
    merged.merge(&part);
    assert_eq!(sums(&merged), (24, 8, 8, 8));
    assert_eq!((merged.bad_request_samples.len(), merged.malformed_samples.len()), (5, 5));
}

/// Random bytes may begin like something packed, or hold NULs, which are left out.
fn is_packed(log: &[u8]) -> bool {
    let magics: [&[u8]; 6] = [
        &[0x1f, 0x8b],
        &[0x1f, 0x9d],
        &[0x28, 0xb5, 0x2f, 0xfd],
        &[0xff, 0xfe],
        &[0xfe, 0xff],
        b"BZh",
    ];
    magics.iter().any(|magic| log.starts_with(magic))
        || log.get(1..4) == Some(&[0x2a, 0x4d, 0x18])
        || log.contains(&0)
}

/// Pieces of logs, whole, broken and none at all.
fn logs() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(GOOD.as_bytes().to_vec()),
        Just(BAD.as_bytes().to_vec()),
        Just(b"\n".to_vec()),
        Just(b"\r\n".to_vec()),
        Just(vec![b'x'; MAX_LINE - 20]),
        proptest::collection::vec(any::<u8>(), 0..50),
    ];
    proptest::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
}

/// A source that gives few bytes at a time.
struct Dripping(Cursor<Vec<u8>>, usize);

impl Read for Dripping {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = into.len().min(self.1);
        self.0.read(&mut into[..most])
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn lines_are_the_sum_of_what_they_are(log in logs()) {
        prop_assume!(!is_packed(&log));
        let (requests, counts, error) = read(&log);
        prop_assert!(error.is_none());
        let ends = memchr::memchr_iter(b'\n', &log).count();
        let last = usize::from(log.last().is_some_and(|&byte| byte != b'\n'));
        prop_assert_eq!(counts.lines, (ends + last) as u64);
        prop_assert_eq!(counts.lines, counts.requests + counts.bad_requests + counts.malformed);
        prop_assert_eq!(counts.requests, requests.len() as u64);
    }

    #[test]
    fn gzip_and_the_size_of_reads_change_nothing(log in logs(), drip in 1usize..70_000) {
        prop_assume!(!is_packed(&log));
        let plain = read(&log);
        let zipped = read(&gzip(&log));
        prop_assert_eq!((&zipped.0, &zipped.1), (&plain.0, &plain.1));

        let mut reader = LogReader::new("test.log", Dripping(Cursor::new(log), drip)).unwrap();
        while reader.next_record().unwrap().is_some() {}
        prop_assert_eq!(reader.counts(), &plain.1);
    }
}

/// A request by a client.
fn asked(client: &str) -> String {
    format!("{client} - - [03/Mar/2012:06:26:37 -0800] \"GET / HTTP/1.1\" 200 142 \"-\" \"x/1\"\n")
}

#[test]
fn lines_may_end_in_carriage_returns_alone() {
    let log = asked("10.0.0.7").repeat(3_000);
    let returns = log.replace('\n', "\r");
    for log in [returns.as_bytes().to_vec(), gzip(returns.as_bytes())] {
        let (requests, counts, _) = read(&log);
        assert_eq!((requests.len(), sums(&counts)), (3_000, (3_000, 3_000, 0, 0)));
    }
    let w3c = "#Fields: date time c-ip cs-method cs-uri-stem sc-status\r\
               2012-03-03 06:26:37 10.0.0.7 GET / 200\r";
    assert_eq!(read(w3c.as_bytes()).0.len(), 1);
    // One line that holds such a byte is one line.
    assert_eq!(sums(&read(format!("a\r{GOOD}").as_bytes()).1).0, 1);
}

#[test]
fn the_records_of_a_json_array_are_read_from_the_first_to_the_last() {
    let record = |path: &str| {
        format!(
            "{{\"time\":\"2022-11-10T00:00:01Z\",\"remote_addr\":\"203.0.113.9\",\"request\":\"GET {path} HTTP/1.1\",\"status\":200}}"
        )
    };
    let (first, last) = (record("/a"), record("/b"));
    let over_lines = |record: &str| record.replace(",\"", ",\n  \"").replacen('{', "{\n  ", 1);
    for log in [
        format!("[{first},{last}]"),
        format!("[{first},\n{last}]\n"),
        format!("[\n{first},\n{last}\n]\n"),
        format!("{}\n{}\n", over_lines(&first), over_lines(&last)),
    ] {
        let (requests, counts, _) = read(log.as_bytes());
        let targets: Vec<&str> = requests.iter().map(|it| it.target.as_str()).collect();
        assert_eq!((targets, counts.malformed), (vec!["/a", "/b"], 0), "{log}");
    }
}

#[test]
fn an_address_is_one_client_however_it_is_spelled() {
    let spellings = [
        "2001:db8::1",
        "2001:DB8:0:0::1",
        "2001:0db8:0000:0000:0000:0000:0000:0001",
        "[2001:db8::1]:443",
    ];
    let log: String = spellings.into_iter().map(asked).collect();
    let (requests, ..) = read(log.as_bytes());
    let clients: Vec<&str> = requests.iter().map(|it| it.client.as_str()).collect();
    assert_eq!(clients, ["2001:db8::1"; 4]);
}

#[test]
fn an_entry_is_taken_of_a_chain_or_refused() {
    let refusal = |log: &str, from: &str| {
        let reading = Reading { client_from: from.parse().unwrap(), ..Reading::default() };
        let source = Cursor::new(log.as_bytes().to_vec());
        let mut reader = LogReader::new("test.log", source).unwrap().with_reading(&reading);
        arrivals(&mut reader, None).err().map(|error| error.to_string())
    };
    let plain = asked("203.0.113.9");
    let why = refusal(&plain, "last").unwrap();
    assert!(why.contains("no line of log test.log has a chain"), "{why}");
    assert!(why.contains("--client-from last") && why.contains("--log-format"), "{why}");
    assert_eq!(refusal(&plain, "public"), None);
    let behind = plain.replace("\"x/1\"", "\"x/1\" \"198.51.100.7\"");
    for chained in [asked("203.0.113.9, 10.0.0.5"), behind, asked("10.0.0.5 (203.0.113.9)")] {
        assert_eq!(refusal(&format!("{plain}{chained}"), "last"), None, "{chained}");
    }
    let json = r#"{"time":"2022-11-10T00:00:01Z","remote_addr":"10.0.0.5","request":"GET / HTTP/1.1","status":200}"#;
    assert!(refusal(json, "first").is_some());
    let chain = json.replace("\"status\"", "\"x_forwarded_for\":\"203.0.113.9\",\"status\"");
    assert_eq!(refusal(&chain, "first"), None);
}
