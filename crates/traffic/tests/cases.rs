//! Small logs made from public bug reports, read as their owners meant them.
//!
//! They lie beside the project's data and not in it; without them these tests say so and pass.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::time::Duration;

use nightwatt_energy::time::{Mono, Now};
use nightwatt_policy::admission::ClientClass;
use nightwatt_traffic::{Arrival, Classifier, ClientFacts, Container, Format, LogReader, arrivals};

/// A log of the cases; `None`, with a message, where there are none.
fn case(name: &str) -> Option<PathBuf> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let data =
        std::env::var_os("NIGHTWATT_DATA").map_or_else(|| "../shared/data".into(), PathBuf::from);
    let path = root.join(data).join("../cases/logs").join(name);
    if !path.is_file() {
        println!("skipped: no {}", path.display());
        return None;
    }
    Some(path)
}

/// What a log is read as, and what is in it.
struct Case {
    file: &'static str,
    format: Format,
    containers: &'static [Container],
    requests: usize,
    clients: usize,
    visits: usize,
}

const fn combined(file: &'static str) -> Case {
    Case { file, format: Format::Combined, containers: &[], requests: 24, clients: 6, visits: 12 }
}

/// Visits: a client and its agent, with no more than 30 minutes between two requests.
fn visits(arrivals: &[Arrival]) -> usize {
    const PAUSE_MS: i64 = 30 * 60 * 1000;
    let mut last: HashMap<(&str, Option<&str>), i64> = HashMap::new();
    let mut visits = 0;
    for arrival in arrivals {
        let before = last.insert((&arrival.client, arrival.agent.as_deref()), arrival.at.0);
        visits += usize::from(before.is_none_or(|before| arrival.at.0 - before > PAUSE_MS));
    }
    visits
}

/// Requests by class, as the proxy would have seen them one after the other.
fn classes(arrivals: &[Arrival]) -> BTreeMap<ClientClass, usize> {
    let mut classifier = Classifier::default();
    let mut classes = BTreeMap::new();
    for arrival in arrivals {
        let since = Duration::from_millis((arrival.at.0 - arrivals[0].at.0) as u64);
        let now = Now { mono: Mono(since), wall: arrival.at, utc_offset: arrival.utc_offset };
        let facts = ClientFacts::from(arrival);
        *classes.entry(classifier.classify(now, &facts)).or_default() += 1;
        classifier.learn(now, &facts, arrival.status);
    }
    classes
}

#[test]
fn every_client_is_one_and_every_line_is_read() {
    let cases = [
        Case { containers: &[Container::Syslog], ..combined("syslog_prefix.log") },
        combined("forwarded_chain.log"),
        combined("address_with_port.log"),
        combined("time_before_referer.log"),
        Case { format: Format::VhostCombined, ..combined("vhost_with_host_names.log") },
        Case { format: Format::Traefik, ..combined("traefik.json") },
    ];
    for case in cases {
        let Some(log) = self::case(case.file) else { return };
        let mut reader = LogReader::open(log).unwrap();
        let arrivals = arrivals(&mut reader, None).unwrap();
        let clients: BTreeSet<&str> = arrivals.iter().map(|it| it.client.as_str()).collect();
        assert_eq!(reader.format(), Some(case.format), "{}", case.file);
        assert_eq!(reader.containers(), case.containers, "{}", case.file);
        assert_eq!(
            (reader.counts().malformed, arrivals.len()),
            (0, case.requests),
            "{}",
            case.file
        );
        assert_eq!(clients.len(), case.clients, "{}: {clients:?}", case.file);
        assert_eq!(visits(&arrivals), case.visits, "{}", case.file);
    }
}

#[test]
fn agents_behind_a_duration_are_not_lost() {
    let Some(log) = case("time_before_referer.log") else { return };
    let arrivals = arrivals(&mut LogReader::open(log).unwrap(), None).unwrap();
    assert_eq!(classes(&arrivals), BTreeMap::from([(ClientClass::Crawler, 24)]));
}

#[test]
fn a_prefix_of_syslog_makes_no_scanners_of_people() {
    for file in ["people_and_a_scanner.log", "people_and_a_scanner_by_syslog.log"] {
        let Some(log) = case(file) else { return };
        let arrivals = arrivals(&mut LogReader::open(log).unwrap(), None).unwrap();
        let expected = BTreeMap::from([(ClientClass::Human, 60), (ClientClass::Scanner, 30)]);
        assert_eq!(classes(&arrivals), expected, "{file}");
    }
}
