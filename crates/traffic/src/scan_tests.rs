use std::fmt::Write as _;
use std::path::Path;

use flate2::write::GzEncoder;
use proptest::prelude::*;

use super::*;
use crate::arrival::Arrival;
use crate::classifier::ClassifierConfig;
use crate::reader::{LogReader, MAX_LINE, arrivals};

fn line(second: i64, target: &str) -> String {
    let at = Wall::from_secs(1_700_000_000 + second);
    let arrival = Arrival {
        at,
        utc_offset: 3600,
        client: "10.0.0.7".to_owned(),
        method: "GET".to_owned(),
        target: target.to_owned(),
        status: 200,
        bytes: 12,
        referer: None,
        agent: Some("Firefox \"q\"".to_owned()),
    };
    crate::clf::format(&arrival) + "\n"
}

fn to_arrival(logged: &Logged<'_>) -> Arrival {
    Arrival {
        at: logged.at,
        utc_offset: logged.utc_offset,
        client: logged.client.to_owned(),
        method: logged.method.to_owned(),
        target: logged.target.to_owned(),
        status: logged.status,
        bytes: logged.bytes,
        referer: logged.referer.map(str::to_owned),
        agent: logged.agent.map(str::to_owned),
    }
}

fn scan_with(logs: &[PathBuf], options: &Options) -> (Vec<Arrival>, Scan) {
    let rules = Rules::new(ClassifierConfig::default());
    let mut all = Vec::new();
    let found = scan(
        logs,
        &rules,
        options,
        |_| {},
        |logged| {
            all.push(to_arrival(&logged));
            ControlFlow::Continue(())
        },
    );
    (all, found)
}

fn scan_all(logs: &[PathBuf]) -> (Vec<Arrival>, Scan) {
    scan_with(logs, &Options::default())
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut encoder, text).unwrap();
    encoder.finish().unwrap()
}

fn targets(all: &[Arrival]) -> Vec<&str> {
    all.iter().map(|of| of.target.as_str()).collect()
}

fn by_reader(path: &Path) -> (Vec<Arrival>, Counts) {
    let mut reader = LogReader::open(path).unwrap();
    let all = arrivals(&mut reader, None).unwrap();
    (all, reader.counts().clone())
}

#[test]
fn rotated_logs_come_out_in_order_whatever_order_they_are_given_in() {
    let folder = Folder::new();
    let part =
        |from: i64| (from..from + 1000).map(|n| line(n, &format!("/{n}"))).collect::<String>();
    let logs = [
        folder.write("access.log", part(2000)),
        folder.write("access.log.1", part(1000)),
        folder.write("access.log.2.gz", gzip(part(0).as_bytes())),
    ];
    let expected: Vec<String> = (0..3000).map(|n| format!("/{n}")).collect();
    for piece in [1, 4096, 1 << 19] {
        // So little room that no log can wait for another.
        let options =
            Options { piece, hold: Hold { requests: 500, bytes: 8 << 20 }, ..Options::default() };
        let (all, found) = scan_with(&logs, &options);
        assert_eq!(targets(&all), expected, "{piece}");
        assert_eq!((found.late, found.unsorted(), found.failures.len()), (0, 0, 0));
    }
}

#[test]
fn logs_of_the_same_time_are_merged() {
    let folder = Folder::new();
    let part = |rest: i64| {
        (0..3000).filter(|n| n % 3 == rest).map(|n| line(n, &format!("/{n}"))).collect::<String>()
    };
    let logs: Vec<PathBuf> =
        (0..3).map(|rest| folder.write(&format!("{rest}.log"), part(rest))).collect();
    let options = Options {
        piece: 4096,
        hold: Hold { requests: 1000, bytes: 8 << 20 },
        ..Options::default()
    };
    let (all, found) = scan_with(&logs, &options);
    assert_eq!(targets(&all), (0..3000).map(|n| format!("/{n}")).collect::<Vec<_>>());
    assert_eq!(found.late, 0);
}

#[test]
fn a_broken_log_keeps_no_other_from_being_read() {
    let folder = Folder::new();
    let text: String = (0..20_000).map(|n| line(n, &format!("/{}", n * n * 7919))).collect();
    let whole = gzip(text.as_bytes());
    let logs = [
        folder.write("cut.gz", &whole[..whole.len() / 2]),
        folder.0.path().join("missing"),
        folder.write("image.png", [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', 0, 7]),
        folder.write("good.log", line(30_000, "/last")),
    ];
    let (all, found) = scan_all(&logs);
    let [cut, ..] = &found.logs[..] else { panic!() };
    assert_eq!(all.len() as u64, cut.lines + 1);
    assert!(cut.lines > 5_000);
    assert_eq!(all.last().unwrap().target, "/last");
    let mut errors: Vec<String> = found.failures.iter().map(ToString::to_string).collect();
    errors.sort();
    assert_eq!(errors.len(), 3, "{errors:?}");
    assert!(errors[0].contains("missing") && errors[0].starts_with("cannot open"), "{}", errors[0]);
    assert!(errors[2].contains("image.png") && errors[2].contains("w3c"), "{}", errors[2]);
    let told = format!("cut.gz is compressed and cut off or damaged after {} lines", cut.lines);
    assert!(errors[1].contains(&told), "{}", errors[1]);
}

#[test]
fn an_empty_log_is_no_failure_and_one_of_rubbish_is() {
    let folder = Folder::new();
    let (all, found) = scan_all(&[folder.write("empty", ""), folder.write("blank", "\n\n")]);
    assert!(all.is_empty());
    assert_eq!(found.logs[0].lines, 0);
    assert_eq!(found.failures.len(), 1, "blank lines are no log");
    assert!(matches!(found.failures[..], [Error::Blank { .. }]), "{:?}", found.failures);
    let said = found.failures[0].to_string();
    assert!(said.contains("blank holds no request: all its lines are empty"), "{said}");
    let rubbish = folder.write("rubbish", "one\ntwo\n");
    let (_, found) = scan_all(std::slice::from_ref(&rubbish));
    assert!(matches!(found.failures[..], [Error::NoFormat { .. }]), "{:?}", found.failures);
    for binary in [&b"\x7fELF\x02\x01\x01\0\n"[..], b"\xd5\x10 a \x1d b\n"] {
        let (_, found) = scan_all(&[folder.write("binary", binary)]);
        assert!(matches!(found.failures[..], [Error::NotText { .. }]), "{:?}", found.failures);
    }
    // As told: then all of its lines are malformed.
    let options = Options { reading: Format::Combined.into(), ..Options::default() };
    let (_, found) = scan_with(&[rubbish], &options);
    assert_eq!((found.counts.lines, found.counts.malformed, found.failures.len()), (2, 2, 0));
    let one = folder.write("one", line(0, "/").trim_end());
    let (all, found) = scan_all(&[one]);
    assert_eq!((all.len(), found.counts.lines), (1, 1));
    assert_eq!(found.logs[0].format, Some(Format::Combined));
}

#[test]
fn samples_name_their_file_and_line() {
    let folder = Folder::new();
    let text = |odd: &str| format!("{}{odd}\n", (0..500).map(|n| line(n, "/")).collect::<String>());
    let logs = [folder.write("a", text("odd a")), folder.write("b", text("odd b"))];
    let options = Options { piece: 2048, ..Options::default() };
    let (_, found) = scan_with(&logs, &options);
    let mut samples: Vec<_> = found
        .counts
        .malformed_samples
        .iter()
        .map(|sample| (Path::new(&sample.file), sample.line, sample.excerpt.as_str()))
        .collect();
    samples.sort();
    assert_eq!(samples, [(&*logs[0], 501, "odd a"), (&*logs[1], 501, "odd b")]);
}

#[test]
fn a_line_of_a_megabyte_is_one_malformed_line() {
    let folder = Folder::new();
    let text = format!("{}{}\n{}", line(0, "/a"), "x".repeat(1 << 20), line(1, "/b"));
    let path = folder.write("long", text);
    for piece in [1, 100_000, 1 << 19, 1 << 22] {
        let (all, found) =
            scan_with(std::slice::from_ref(&path), &Options { piece, ..Options::default() });
        assert_eq!(targets(&all), ["/a", "/b"], "{piece}");
        assert_eq!((found.counts.lines, found.counts.malformed), (3, 1), "{piece}");
        let sample = &found.counts.malformed_samples[0];
        assert_eq!((sample.line, sample.reason), (2, crate::record::Reason::TooLong));
    }
}

#[test]
fn a_log_is_told_by_what_follows_long_lines_and_rubbish() {
    let folder = Folder::new();
    let long = "x".repeat(1 << 20);
    for (odd, lines) in [
        (format!("{long}\n"), 1),
        (format!("{long}\n").repeat(20), 20),
        (format!("rubbish\n{long}\nrubbish\n"), 3),
        ("rubbish\n".repeat(200_000), 200_000),
    ] {
        let path = folder.write("odd", format!("{odd}{}{}", line(0, "/a"), line(1, "/b")));
        for logs in [vec![path.clone()], vec![path.clone(), folder.write("other", line(2, "/c"))]] {
            let (all, found) = scan_all(&logs);
            assert_eq!(targets(&all), ["/a", "/b", "/c"][..=logs.len()]);
            assert_eq!((found.counts.malformed, found.failures.len()), (lines, 0));
            assert_eq!(found.logs[0].format, Some(Format::Combined));
        }
    }
    // Not for ever: a file without a log in its first megabytes is not a log.
    let (_, found) = scan_all(&[folder.write("far", "rubbish\n".repeat(2 << 20) + &line(0, "/"))]);
    assert!(matches!(found.failures[..], [Error::NoFormat { .. }]), "{:?}", found.failures);
}

#[test]
fn nothing_is_said_of_lines_that_were_read_where_there_are_none() {
    for lines in [0, 7] {
        let name = "a.log.gz".to_owned();
        let source = std::io::Error::other("it is cut off");
        let text = Error::Damaged { name, lines, source }.to_string();
        assert_eq!(text.contains("those lines were read"), lines > 0, "{text}");
        assert!(text.contains("; ") && text.contains("test the file with `gzip -t`"), "{text}");
    }
}

#[test]
fn requests_of_another_time_are_counted_and_not_given() {
    let folder = Folder::new();
    let log: String = (0..10).map(|n| line(n, &format!("/{n}"))).collect();
    let path = folder.write("log", log + "rubbish\n");
    let at = |second: i64| Wall::from_secs(1_700_000_000 + second);
    let between = Between { from: at(3), until: at(5) };
    let (all, found) = scan_with(&[path], &Options { between, ..Options::default() });
    let targets: Vec<&str> = all.iter().map(|it| it.target.as_str()).collect();
    assert_eq!(targets, ["/3", "/4"]);
    let Counts { lines, requests, outside, malformed, .. } = found.counts;
    assert_eq!((lines, requests, outside, malformed), (11, 2, 8, 1));
    assert_eq!(found.summary.span, Some((at(3), at(4))));
}

#[test]
fn the_consumer_may_stop_the_scan() {
    let folder = Folder::new();
    let path = folder.write("log", (0..50_000).map(|n| line(n, "/")).collect::<String>());
    let rules = Rules::new(ClassifierConfig::default());
    let hold = Hold { requests: 10, bytes: 1 << 20 };
    let options = Options { hold, piece: 4096, ..Options::default() };
    let mut count = 0;
    let found = scan(
        &[path],
        &rules,
        &options,
        |_| {},
        |_| {
            count += 1;
            if count == 100 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        },
    );
    assert!(found.stopped);
    assert_eq!(count, 100);
    assert!(found.counts.lines < 5_000, "{}", found.counts.lines);
}

#[test]
fn progress_ends_at_the_size_of_the_files() {
    let folder = Folder::new();
    let text: String = (0..5_000).map(|n| line(n, "/")).collect();
    let logs = [folder.write("a", &text), folder.write("b.gz", gzip(text.as_bytes()))];
    let total: u64 = logs.iter().map(|path| path.metadata().unwrap().len()).sum();
    let rules = Rules::new(ClassifierConfig::default());
    let mut last = None;
    scan(&logs, &rules, &Options::default(), |now| last = Some(now), |_| ControlFlow::Continue(()));
    assert_eq!(last, Some(Progress { done: total, total: Some(total), requests: 10_000 }));
}

#[test]
fn fields_of_w3c_reach_every_piece() {
    let folder = Folder::new();
    let mut text = String::from("#Fields: date time c-ip cs-method cs-uri-stem sc-status\n");
    for n in 0..1000 {
        let request = if n > 500 { format!("/{n} GET") } else { format!("GET /{n}") };
        let (minute, second) = (n / 60, n % 60);
        writeln!(text, "2023-11-14 22:{minute:02}:{second:02} ::1 {request} 200").unwrap();
        if n == 500 {
            text.push_str("#Fields: date time c-ip cs-uri-stem cs-method sc-status\n");
        }
    }
    let path = folder.write("w3c", text);
    let (all, found) = scan_with(&[path], &Options { piece: 1500, ..Options::default() });
    assert_eq!(targets(&all), (0..1000).map(|n| format!("/{n}")).collect::<Vec<_>>());
    assert_eq!((found.counts.lines, found.counts.directives), (1002, 2));
}

/// Pieces of logs: requests in any order, bad ones, rubbish, bytes that are no text.
fn logs() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => (0i64..5000, "[a-z\\\\\"é]{0,9}").prop_map(|(at, name)| line(at, &format!("/{name}")).into_bytes()),
        1 => Just(b"10.0.0.7 - - [03/Mar/2012:06:26:37 -0800] \"-\" 400 0 \"-\" \"-\"\r\n".to_vec()),
        1 => Just(b"10.0.0.7 - - [03/Mar/2012:06:26:37 -0800] \"GET /\xff HTTP/1.1\" 200 0 \"-\" \"\xfe\\x41\"\n".to_vec()),
        1 => Just(vec![b'x'; MAX_LINE + 10]),
        1 => proptest::collection::vec(any::<u8>(), 0..50),
    ];
    proptest::collection::vec(piece, 1..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_scan_is_what_the_reader_reads_whatever_the_size_of_pieces(
        log in logs(), piece in 1usize..9000, workers in 1usize..4
    ) {
        let folder = Folder::new();
        // So many that chance does not tell another format by the few lines of a small piece.
        let first = line(0, "/first").repeat(9).into_bytes();
        let path = folder.write("log", [first, log].concat());
        let (expected, counts) = by_reader(&path);
        let options = Options { piece, workers: Some(workers), ..Options::default() };
        let (all, found) = scan_with(std::slice::from_ref(&path), &options);
        prop_assert_eq!(&all, &expected);
        prop_assert_eq!(&found.counts, &counts);
        let (_, whole) = scan_all(&[path]);
        prop_assert_eq!(found.summary, whole.summary);
        prop_assert_eq!(found.logs[0].unsorted, whole.logs[0].unsorted);
    }
}
