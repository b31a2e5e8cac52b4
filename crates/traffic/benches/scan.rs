//! How many megabytes of a log a second of CPU time takes in, from a bare loop to the whole scan.
//!
//! The log is a real one where `NIGHTWATT_DATA` names the folder of the shared data, over and over
//! with each round in another year; else generated. `SCAN_BENCH_MB` says how much of it (256).

use std::hint::black_box;
use std::io::{Read as _, Write as _};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use flate2::read::MultiGzDecoder;
use memchr::{memchr, memchr_iter};
use nightwatt_energy::time::{Mono, Wall};
use nightwatt_traffic::classifier::ClassifierConfig;
use nightwatt_traffic::scan::Options;
use nightwatt_traffic::{Arrival, Classifier, LogReader, Rules, SyntheticSite, clf, scan};

const LOG: &str = "logs/yuvi_in_nginx_2012-03.log.gz";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let megabytes = std::env::var("SCAN_BENCH_MB").map_or(Ok(256), |text| text.parse::<usize>())?;
    let text = log(megabytes << 20)?;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("access.log");
    std::fs::File::create(&path)?.write_all(&text)?;
    let lines = memchr_iter(b'\n', &text).count();
    println!("{} lines, {:.0} MB", lines, text.len() as f64 / 1e6);

    let size = text.len() as f64 / 1e6;
    let report = |what: &str, seconds: f64| {
        println!(
            "{what:<34} {:>6.0} MB per CPU second, {:>4.0} ns a line",
            size / seconds,
            seconds / lines as f64 * 1e9
        );
        size / seconds
    };
    if std::env::var_os("SCAN_BENCH_ONLY").is_some() {
        report("scan", timed(|| scan_all(&path, |_| ControlFlow::Continue(()))));
        return Ok(());
    }
    report("count line ends", timed(|| memchr_iter(b'\n', &text).count()));
    let split = report("split lines and fields", timed(|| fields(&text)));
    let parse = report("parse", timed(|| parse(&text)));
    drop(text);
    report("LogReader", timed(|| read(&path)));
    let scanned = report("scan", timed(|| scan_all(&path, |_| ControlFlow::Continue(()))));
    let mut classifier = Classifier::default();
    let mut first = None;
    report(
        "scan and classify",
        timed(|| {
            scan_all(&path, |logged| {
                let start = *first.get_or_insert(logged.at);
                let now =
                    Mono(Duration::from_millis(logged.at.0.saturating_sub(start.0).unsigned_abs()));
                black_box(classifier.class_of(now, &logged.traits));
                classifier.learn_of(now, &logged.traits, logged.status);
                ControlFlow::Continue(())
            })
        }),
    );
    println!("parse / split: {:.2}; scan / split: {:.2}", parse / split, scanned / split);
    Ok(())
}

/// The best of three, in seconds of CPU time of all threads.
fn timed<T>(mut work: impl FnMut() -> T) -> f64 {
    let now = || {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
    };
    let each = (0..3).map(|_| {
        let start = now();
        black_box(work());
        now() - start
    });
    each.fold(f64::INFINITY, f64::min)
}

/// The bare loop: where lines and their fields begin and end, and nothing of what they say.
fn fields(text: &[u8]) -> usize {
    let (mut from, mut sum) = (0, 0);
    for end in memchr_iter(b'\n', text) {
        let line = &text[from..end];
        from = end + 1;
        let mut at = 0;
        for stop in *b" [] \" \"  \"\"\"\"" {
            let Some(next) = memchr(stop, &line[at..]) else { break };
            sum += next;
            at += next + 1;
        }
    }
    sum
}

fn parse(text: &[u8]) -> usize {
    let mut from = 0;
    let mut lines = clf::Lines::default();
    let whole = memchr_iter(b'\n', text).filter(|&end| {
        let line = &text[from..end];
        from = end + 1;
        black_box(lines.parse(line)).is_ok()
    });
    whole.count()
}

fn read(path: &Path) -> u64 {
    let mut reader = LogReader::open(path).expect("it was written just now");
    while let Some(record) = reader.next_record().expect("it was written just now") {
        black_box(record);
    }
    reader.counts().lines
}

fn scan_all(
    path: &Path,
    mut consume: impl FnMut(nightwatt_traffic::Logged<'_>) -> ControlFlow<()>,
) -> u64 {
    let rules = Rules::new(ClassifierConfig::default());
    let logs = [path.to_owned()];
    let found =
        scan(&logs, &rules, &Options::default(), |_| {}, |logged| consume(black_box(logged)));
    found.counts.requests
}

/// So many bytes of a log, or a little more.
fn log(size: usize) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let data = std::env::var_os("NIGHTWATT_DATA").unwrap_or_else(|| "../shared/data".into());
    let path = root.join(data).join(LOG);
    let mut text = Vec::with_capacity(size + (32 << 20));
    if path.is_file() {
        let mut once = String::new();
        MultiGzDecoder::new(std::fs::File::open(&path)?).read_to_string(&mut once)?;
        for year in 2012.. {
            text.extend_from_slice(once.replace("/Mar/2012:", &format!("/Mar/{year}:")).as_bytes());
            if text.len() >= size {
                return Ok(text);
            }
        }
    }
    println!("skipped the real log: no {}; NIGHTWATT_DATA names the folder", path.display());
    let year = SyntheticSite { days: 365, ..SyntheticSite::default() }.arrivals();
    for round in 0.. {
        for arrival in &year {
            let at = Wall(arrival.at.0 + round * 365 * 86_400_000);
            text.extend_from_slice(clf::format(&Arrival { at, ..arrival.clone() }).as_bytes());
            text.push(b'\n');
        }
        if text.len() >= size {
            break;
        }
    }
    Ok(text)
}
