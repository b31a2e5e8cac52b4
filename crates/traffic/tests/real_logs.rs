//! What real logs hold, against counts that other tools made.
//!
//! The logs lie beside the project and not in it; without them these tests say so and pass. The
//! expected counts come from a shell, the shares of crawlers from the first look at these logs
//! that the design notes report.

use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;

use nightwatt_energy::time::{Mono, Now, Wall};
use nightwatt_policy::admission::ClientClass;
use nightwatt_traffic::classifier::ClassifierConfig;
use nightwatt_traffic::record::Reason;
use nightwatt_traffic::scan::Options;
use nightwatt_traffic::{
    AgentKind, Arrival, Classifier, ClientFacts, Counts, CrawlerTable, LogReader, Rules, Suspects,
    arrivals, scan,
};

/// A file of the shared data; `None`, with a message, where there is no shared data at all.
fn shared(file: &str) -> Option<PathBuf> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder =
        std::env::var_os("NIGHTWATT_DATA").map_or_else(|| "../shared/data".into(), PathBuf::from);
    let folder = root.join(folder);
    if !folder.is_dir() {
        println!("skipped: no shared data at {}", folder.display());
        return None;
    }
    Some(folder.join(file))
}

struct Log {
    arrivals: Vec<Arrival>,
    counts: Counts,
}

fn log(file: &str) -> Option<Log> {
    let mut reader = LogReader::open(shared(&format!("logs/{file}"))?).unwrap();
    let arrivals = arrivals(&mut reader, None).unwrap();
    Some(Log { arrivals, counts: reader.counts().clone() })
}

impl Log {
    /// Lines, requests, bad requests, malformed.
    fn sums(&self) -> [u64; 4] {
        let counts = &self.counts;
        [counts.lines, counts.requests, counts.bad_requests, counts.malformed]
    }

    fn count(&self, what: impl Fn(&Arrival) -> bool) -> usize {
        self.arrivals.iter().filter(|arrival| what(arrival)).count()
    }

    fn bytes(&self) -> u64 {
        self.arrivals.iter().map(|arrival| arrival.bytes).sum()
    }

    /// Requests by class, as the proxy would have seen them one after the other.
    fn classes(&self) -> BTreeMap<ClientClass, f64> {
        let mut classifier = Classifier::default();
        let mut classes = BTreeMap::new();
        let start = self.arrivals[0].at;
        for arrival in &self.arrivals {
            let mono = Mono(Duration::from_millis((arrival.at.0 - start.0) as u64));
            let now = Now { mono, wall: arrival.at, utc_offset: arrival.utc_offset };
            let facts = ClientFacts::from(arrival);
            *classes.entry(classifier.classify(now, &facts)).or_default() += 1.0;
            classifier.learn(now, &facts, arrival.status);
        }
        classes
    }

    /// Share of all lines whose agent the table knows, libraries included: what the notes' first
    /// look called crawlers.
    fn listed(&self) -> f64 {
        let table = CrawlerTable::shared();
        let listed = self.count(|arrival| {
            arrival.agent.as_deref().is_some_and(|agent| table.lookup(agent).is_some())
        });
        listed as f64 / self.counts.lines as f64
    }
}

/// Shares of all requests.
fn report(name: &str, log: &Log) -> impl Fn(ClientClass) -> f64 + use<> {
    let classes = log.classes();
    let all: f64 = classes.values().sum();
    let share = move |class| classes.get(&class).copied().unwrap_or(0.0) / all;
    println!("{name}: {:.3} of lines listed; of requests:", log.listed());
    for class in [
        ClientClass::Human,
        ClientClass::Api,
        ClientClass::Crawler,
        ClientClass::Scanner,
        ClientClass::Monitor,
    ] {
        println!("  {class:?} {:.4}", share(class));
    }
    share
}

#[test]
fn yuvi_march() {
    let Some(log) = log("yuvi_in_nginx_2012-03.log.gz") else { return };
    // zcat | wc -l; | grep -cE '"[A-Z]+ [^ ]+ HTTP/[0-9.]+" [0-9]{3} '; the rest has "-" (85,022
    // times with 400), nothing or \x00s in place of a request, or one cut short (408, 414).
    assert_eq!(log.sums(), [179_792, 94_734, 85_058, 0]);
    // zcat | grep -c '"POST ' and grep -c 'Googlebot/'
    assert_eq!(log.count(|arrival| arrival.method == "POST"), 24_060);
    assert_eq!(log.count(|a| a.agent.as_deref().is_some_and(|a| a.contains("Googlebot/"))), 5_706);
    // date -u -d '2012-03-03 06:26:37 -0800' +%s, and of the last line; summer time began between.
    assert_eq!(log.arrivals[0].at, Wall::from_secs(1_330_784_797));
    assert_eq!(log.arrivals.last().unwrap().at, Wall::from_secs(1_333_263_554));
    let offsets = [log.arrivals[0].utc_offset, log.arrivals.last().unwrap().utc_offset];
    assert_eq!(offsets, [-8 * 3600, -7 * 3600]);

    let share = report("yuvi", &log);
    assert!((0.22..0.26).contains(&log.listed()), "notes: 22 to 25 % of all lines");
    // A personal site of 2012: a third of its requests come from browsers.
    assert!((0.2..0.45).contains(&share(ClientClass::Human)));
    assert!((0.4..0.6).contains(&share(ClientClass::Crawler)));
    // 4,579 attempts to log in, nearly all by two addresses (zgrep -c 'POST .*wp-login'), are 4.8 %.
    assert!((0.045..0.1).contains(&share(ClientClass::Scanner)));
}

#[test]
fn erddap() {
    let Some(log) = log("erddap_nginx_2024.log.gz") else { return };
    assert_eq!(log.sums(), [10_479, 10_479, 0, 0]);
    // zcat | awk over the field after the status
    assert_eq!(log.bytes(), 2_309_191_897);
    let share = report("erddap", &log);
    assert!((0.85..0.91).contains(&log.listed()), "notes: 88 %");
    // A data server: nearly all clients are programs, and few of those are crawlers.
    assert!(share(ClientClass::Api) > 0.6);
    assert!(share(ClientClass::Human) < 0.1);
}

#[test]
fn secrepo() {
    let Some(log) = log("secrepo_2018-12-15.log.gz") else { return };
    assert_eq!(log.sums(), [4_961, 4_961, 0, 0]);
    assert_eq!(log.bytes(), 502_226_683);
    let share = report("secrepo", &log);
    assert!((0.90..0.94).contains(&log.listed()), "notes: 92 %");
    assert!(share(ClientClass::Human) < 0.1);
}

#[test]
fn elastic() {
    let Some(log) = log("elastic_apache_2015.log.gz") else { return };
    // One line ends within the agent, before its quote.
    assert_eq!(log.sums(), [10_000, 9_999, 0, 1]);
    assert_eq!(log.counts.malformed_samples[0].reason, Reason::OpenQuote);
    // All bytes by awk, less the 235 of that line.
    assert_eq!(log.bytes(), 2_747_282_740 - 235);
    let share = report("elastic", &log);
    assert!(share(ClientClass::Human) > 0.6);
}

#[test]
fn the_first_days_of_a_log() {
    let Some(path) = shared("logs/yuvi_in_nginx_2012-03.log.gz") else { return };
    let mut reader = LogReader::open(path).unwrap();
    let days = arrivals(&mut reader, Some(2)).unwrap();
    let span = days.last().unwrap().at.0 - days[0].at.0;
    assert!((172_000_000..172_800_000).contains(&span), "{span} ms");
    assert!(reader.counts().lines < 40_000, "two days and an hour of 29 days are read");
}

/// Each agent that the list gives as a sample is what the list's own expressions and tags say. (The
/// table was made from a version with two patterns more.)
#[test]
fn samples_of_the_list_are_what_the_list_says() {
    let Some(path) = shared("crawlers/crawler-user-agents.json") else { return };
    let list: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let list = list.as_array().unwrap();
    let strings = |value: &serde_json::Value| -> Vec<String> {
        value.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
    };
    let patterns = list.iter().map(|entry| entry["pattern"].as_str().unwrap());
    let patterns = regex::RegexSetBuilder::new(patterns).size_limit(1 << 28).build().unwrap();
    let kinds: Vec<AgentKind> = list
        .iter()
        .map(|entry| match strings(&entry["tags"]) {
            tags if tags.contains(&"monitoring".to_owned()) => AgentKind::Monitor,
            tags if tags == ["http-library"] => AgentKind::Library,
            _ => AgentKind::Crawler,
        })
        .collect();
    let mut samples = 0;
    for agent in list.iter().flat_map(|entry| strings(&entry["instances"])) {
        let expected = patterns.matches(&agent).iter().map(|index| kinds[index]).min();
        let found = CrawlerTable::shared().lookup(&agent).map(|found| found.kind);
        assert_eq!(found, expected, "{agent}");
        samples += 1;
    }
    assert!(samples > 1_500, "{samples}");
}

/// What a scan on all cores gives is what the reader gives, in the same order.
#[test]
fn a_scan_is_what_the_reader_reads() {
    let files =
        ["yuvi_in_nginx_2012-03", "erddap_nginx_2024", "secrepo_2018-12-15", "elastic_apache_2015"];
    for file in files {
        let name = format!("{file}.log.gz");
        let Some(log) = log(&name) else { return };
        let rules = Rules::new(ClassifierConfig::default());
        let mut expected = log.arrivals.iter();
        let mut suspects = Suspects::new();
        let path = shared(&format!("logs/{name}")).unwrap();
        let found = scan(
            &[path],
            &rules,
            &Options::default(),
            |_| {},
            |logged| {
                let arrival = expected.next().expect("as many requests as the reader");
                assert_eq!(
                    (logged.at, logged.utc_offset, logged.client, logged.method, logged.target),
                    (
                        arrival.at,
                        arrival.utc_offset,
                        &*arrival.client,
                        &*arrival.method,
                        &*arrival.target
                    )
                );
                assert_eq!(
                    (logged.status, logged.bytes, logged.referer, logged.agent),
                    (
                        arrival.status,
                        arrival.bytes,
                        arrival.referer.as_deref(),
                        arrival.agent.as_deref()
                    )
                );
                suspects.observe(&logged);
                ControlFlow::Continue(())
            },
        );
        assert!(expected.next().is_none(), "{file}");
        assert_eq!(found.late, 0, "{file}");
        let samples = |counts: &Counts| {
            let all = counts.malformed_samples.iter().chain(&counts.bad_request_samples);
            all.map(|sample| (sample.line, sample.reason)).collect::<Vec<_>>()
        };
        assert_eq!(samples(&found.counts), samples(&log.counts));
        assert_eq!(found.summary.sizes.total, log.bytes());
        assert_eq!(found.summary.requests, log.counts.requests);
        // Sets, where the scan has a sketch.
        let targets: HashSet<&str> = log.arrivals.iter().map(|a| a.target.as_str()).collect();
        let off = found.summary.targets.estimate() as f64 / targets.len() as f64 - 1.0;
        assert!(off.abs() < 0.03, "{file}: {off}");
        println!("{file}: {} lines unsorted, {} targets", found.unsorted(), targets.len());
        for suspect in suspects.list() {
            let habits: Vec<String> = suspect.habits.iter().map(ToString::to_string).collect();
            println!("  {} {}: {}", suspect.requests, suspect.agent, habits.join("; "));
        }
    }
}
