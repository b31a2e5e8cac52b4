//! How quick parsing, matching and classifying are: `cargo run --release --example speed [LOG]`.

#![expect(clippy::disallowed_methods, reason = "a stopwatch is what this is")]

use std::hint::black_box;
use std::io::Read as _;
use std::time::Instant;

use flate2::read::MultiGzDecoder;
use nightwatt_model::time::{Mono, Now};
use nightwatt_traffic::{Classifier, ClientFacts, CrawlerTable, LogReader, arrivals, clf};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "../shared/data/logs/yuvi_in_nginx_2012-03.log.gz".to_owned());

    let start = Instant::now();
    let table = CrawlerTable::shared();
    println!("table: {:.1} ms", start.elapsed().as_secs_f64() * 1e3);

    let mut text = Vec::new();
    MultiGzDecoder::new(std::fs::File::open(&path)?).read_to_end(&mut text)?;
    let text = text.repeat(10);
    let megabytes = text.len() as f64 / 1e6;

    let start = Instant::now();
    let parsed =
        text.split(|&byte| byte == b'\n').filter(|line| black_box(clf::parse(line)).is_ok());
    println!(
        "{} lines parsed: {:.0} MB/s",
        parsed.count(),
        megabytes / start.elapsed().as_secs_f64()
    );

    let start = Instant::now();
    let mut reader = LogReader::new("memory", std::io::Cursor::new(text))?;
    let mut agents = Vec::new();
    while let Some(record) = reader.next_record()? {
        if let (Some(agent), true) = (record.agent, agents.len() < 100_000) {
            agents.push(agent.text().into_owned());
        }
    }
    println!("reader: {:.0} MB/s", megabytes / start.elapsed().as_secs_f64());

    let start = Instant::now();
    let found = agents.iter().filter(|agent| black_box(table.lookup(agent)).is_some()).count();
    let each = start.elapsed().as_secs_f64() / agents.len() as f64;
    println!("{found} of {} agents in the table: {:.0} ns each", agents.len(), each * 1e9);

    let mut reader = LogReader::open(&path)?;
    let requests = arrivals(&mut reader, None)?;
    let mut classifier = Classifier::default();
    let start = Instant::now();
    for request in &requests {
        let seconds = request.at.secs() - requests[0].at.secs();
        let mono = Mono::from_secs(seconds.unsigned_abs());
        let now = Now { mono, wall: request.at, utc_offset: request.utc_offset };
        let facts = ClientFacts::from(request);
        black_box(classifier.classify(now, &facts));
        classifier.learn(now, &facts, request.status);
    }
    let each = start.elapsed().as_secs_f64() / requests.len() as f64;
    println!("{} requests classified and learned: {:.0} ns each", requests.len(), each * 1e9);
    Ok(())
}
