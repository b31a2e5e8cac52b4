use std::fs;

use nightwatt_energy::time::Mono;
use proptest::prelude::*;

use super::*;
use crate::analyze::{self, AnalyzeOptions};
use crate::gaps::Gaps;

/// Requests as they are in a log: milliseconds since 2026, method, status, bytes.
type Request = (u32, usize, u16, u32);

fn requests(most_ms: u32) -> impl Strategy<Value = Vec<Request>> {
    let request = (0..most_ms, 0..3_usize, prop_oneof![Just(200_u16), 100..600_u16], any::<u32>());
    proptest::collection::vec(request, 0..80)
}

/// The lines of an access log with times in milliseconds, in their order.
fn log(mut requests: Vec<Request>) -> String {
    requests.sort_unstable();
    let line = |(at, method, status, bytes): Request| {
        let (second, millis) = (at / 1000, at % 1000);
        let (day, hour) = (1 + second / 86_400, second / 3600 % 24);
        let (minute, second) = (second / 60 % 60, second % 60);
        let method = ["GET", "HEAD", "POST"][method];
        format!(
            r#"{{"time":"2026-01-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z","remote_addr":"192.0.2.7","request":"{method} /{bytes} HTTP/1.1","status":{status},"body_bytes_sent":{bytes}}}"#
        ) + "\n"
    };
    requests.into_iter().map(line).collect()
}

fn summary(logs: &[String]) -> LogSummary {
    let folder = tempfile::tempdir().unwrap();
    let write = |(index, text): (usize, &String)| {
        let path = folder.path().join(index.to_string());
        fs::write(&path, text).unwrap();
        path
    };
    let paths: Vec<PathBuf> = logs.iter().enumerate().map(write).collect();
    LogSummary::read(&paths, &scan::Options::default(), |_| ControlFlow::Continue(())).unwrap()
}

fn merged(parts: &[&LogSummary]) -> LogSummary {
    let mut whole = LogSummary::default();
    for part in parts {
        whole.merge(part);
    }
    whole
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn summaries_are_a_commutative_monoid(
        a in requests(2_000_000_000), b in requests(2_000_000_000), c in requests(2_000_000_000),
    ) {
        let [a, b, c] = [a, b, c].map(|requests| summary(&[log(requests)]));
        let whole = merged(&[&a, &b, &c]);
        prop_assert_eq!(&merged(&[&c, &a, &b]), &whole, "commutative");
        prop_assert_eq!(&merged(&[&a, &merged(&[&b, &c])]), &whole, "associative");
        prop_assert_eq!(&merged(&[&a, &LogSummary::default()]), &a, "identity");
    }

    #[test]
    fn merged_pieces_have_the_figures_of_the_whole(
        all in requests(200_000_000), mut cuts in proptest::collection::vec(0..200_000_000_u32, 0..4),
    ) {
        cuts.push(u32::MAX);
        cuts.sort_unstable();
        let whole = summary(&[log(all.clone())]);
        let mut pieces = LogSummary::default();
        let mut from = 0;
        for to in cuts {
            let within = |request: &&Request| (from..to).contains(&request.0);
            pieces.merge(&summary(&[log(all.iter().filter(within).copied().collect())]));
            from = to;
        }
        prop_assert!(pieces.gaps().is_some());
        prop_assert_eq!(pieces.gaps(), whole.gaps());
        prop_assert_eq!(pieces.size_figures(), whole.size_figures());
        let rest = |summary: &LogSummary| LogSummary { gaps: GapPieces::default(), ..summary.clone() };
        prop_assert_eq!(rest(&pieces), rest(&whole));
    }

    #[test]
    fn gaps_of_pieces_are_those_of_all_requests_in_order(
        // Up to six requests a second on average, so that ends overflow and pieces overlap.
        mut times in proptest::collection::vec(0..3_000_000_i64, 1..20_000), shares in 2..6_usize,
        disorder in 0..30_000_i64,
    ) {
        times.sort_unstable();
        let mut alone = Gaps::default();
        for at in &times {
            alone.request(Mono(std::time::Duration::from_millis(at.unsigned_abs())));
        }
        // Cut by lines that were logged a little later than requested.
        let mut lines: Vec<(i64, i64)> =
            times.iter().map(|&at| (at + (at * 7919) % (disorder + 1), at)).collect();
        lines.sort_unstable();
        let mut pieces = GapPieces::default();
        for lines in lines.chunks(times.len().div_ceil(shares)) {
            let mut times: Vec<i64> = lines.iter().map(|&(_, at)| at).collect();
            times.sort_unstable();
            let mut piece = Piece::default();
            for at in times {
                piece.request(Wall(at));
            }
            pieces.merge(&GapPieces::of(piece));
        }
        // Pieces overlap by 30 s at most, and their ends remember a minute.
        prop_assert_eq!(pieces.figures(times.len() as u64), Some(alone.figures()));
    }
}

/// A request that was logged late lies in the first gap of the next piece, which is longer than a piece remembers.
#[test]
fn a_late_line_in_a_long_gap_leaves_the_gaps_known() {
    let times = [1_000_i64, 1_001, 68_584, 128_585, 190_000];
    let mut alone = Gaps::default();
    for at in times {
        alone.request(Mono(std::time::Duration::from_millis(at.unsigned_abs())));
    }
    let mut pieces = GapPieces::default();
    for lines in [&times[1..2], &[times[0], times[2], times[3], times[4]]] {
        let mut piece = Piece::default();
        for &at in lines {
            piece.request(Wall(at));
        }
        pieces.merge(&GapPieces::of(piece));
    }
    assert_eq!(pieces.figures(5), Some(alone.figures()));
}

#[test]
fn pieces_that_overlap_by_hours_have_no_gaps() {
    let piece = |from: i64| {
        let mut piece = Piece::default();
        for minute in 0..1000 {
            piece.request(Wall::from_secs(from + 60 * minute));
        }
        GapPieces::of(piece)
    };
    let mut both = piece(0);
    both.merge(&piece(30_030));
    assert_eq!(both.figures(2000), None);
    let mut same = piece(0);
    same.merge(&piece(0));
    assert_eq!(same.figures(2000), None);
    let mut after = piece(0);
    after.merge(&piece(60_000));
    let figures = after.figures(2000).unwrap();
    assert_eq!((figures.gaps, figures.mean_s, figures.longest_s), (1999, 60.0, 60.0));
}

#[test]
fn methods_beyond_the_bound_are_unknown_in_any_order() {
    let methods = |from: usize, to: usize| {
        let mut tops = Tops::new(METHODS);
        for n in from..to {
            tops.add(&format!("M{n}"), 1);
        }
        Methods::of(&tops)
    };
    let (mut one, mut other) = (methods(0, 40), methods(30, 80));
    assert_eq!(one.counts().map(BTreeMap::len), Some(40));
    one.merge(&other);
    assert_eq!(one.counts(), None);
    other.merge(&methods(0, 40));
    assert_eq!(one, other);
    let mut same = methods(0, 64);
    same.merge(&methods(0, 64));
    assert_eq!(same.counts().map(|counts| counts["M63"]), Some(2));
    assert_eq!(methods(0, 65).counts(), None);
}

#[test]
fn a_summary_has_the_figures_of_analyze() {
    let times = (0..4000_u32).map(|n| (n * 7919 % 1_000_003 * 1500, 0, 200, n * 31));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    fs::write(&path, log(times.collect())).unwrap();
    let options = AnalyzeOptions { logs: vec![path.clone()], ..AnalyzeOptions::default() };
    let analysis = analyze::run(&options, |_| ControlFlow::Continue(())).unwrap();
    let read = |_| ControlFlow::Continue(());
    let summary = LogSummary::read(&[path], &scan::Options::default(), read).unwrap();
    assert_eq!(summary.gaps().as_ref(), Some(&analysis.gaps.all));
    assert_eq!(summary.size_figures(), analysis.sizes);
    assert_eq!(summary.statuses, analysis.statuses);
    assert_eq!(summary.methods.counts(), Some(&analysis.methods));
    assert_eq!(summary.hours.of_week().to_vec(), analysis.hours.of_week);
    assert_eq!(summary.targets.estimate(), analysis.targets);
    assert_eq!((summary.lines, summary.requests), (analysis.lines, analysis.requests));
}

#[test]
fn a_summary_is_stored_and_read() {
    let whole = summary(&[log((0..500).map(|n| (n * 1_000_000, 1, 200, n)).collect())]);
    let text = serde_json::to_string(&whole).unwrap();
    assert_eq!(serde_json::from_str::<LogSummary>(&text).unwrap(), whole);
    assert!(
        serde_json::from_str::<LogSummary>(&text.replace("\"bands\":[", "\"bands\":[null,"))
            .is_err()
    );
}

#[test]
fn a_missing_log_is_an_error_and_an_empty_one_is_nothing() {
    let missing = [PathBuf::from("/nonexistent/access.log")];
    let read = LogSummary::read(&missing, &scan::Options::default(), |_| ControlFlow::Continue(()));
    assert!(read.unwrap_err().to_string().contains("/nonexistent/access.log"));
    assert_eq!(summary(&[String::new()]), LogSummary::default());
}
