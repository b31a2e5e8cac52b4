//! Small logs made from public bug reports, read as their owners meant them.
//!
//! They lie beside the project's data and not in it; without them these tests say so and pass.

use std::ops::ControlFlow;
use std::path::PathBuf;

use nightwatt_policy::admission::ClientClass;
use nightwatt_policy::scenario::Scenario;
use nightwatt_policy::sleep::PolicyChoice;
use nightwatt_savings::analyze::{Analysis, AnalyzeOptions, run};

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

fn analyzed(log: PathBuf) -> Analysis {
    let mut scenario = Scenario { policy: PolicyChoice::Learned, ..Scenario::default() };
    scenario.sla.share = Some(1.0);
    let options = AnalyzeOptions { logs: vec![log], scenario, ..AnalyzeOptions::default() };
    run(&options, |_| ControlFlow::Continue(())).unwrap()
}

/// What a log is read as, and what is in it.
struct Case {
    file: &'static str,
    format: &'static str,
    container: Option<&'static str>,
    requests: u64,
    visits: Option<u64>,
}

const fn case_of(file: &'static str, format: &'static str, visits: Option<u64>) -> Case {
    Case { file, format, container: None, requests: 24, visits }
}

#[test]
fn every_client_is_one_and_every_line_is_read() {
    let cases = [
        Case { container: Some("syslog"), ..case_of("syslog_prefix.log", "combined", Some(12)) },
        case_of("forwarded_chain.log", "combined", Some(12)),
        case_of("address_with_port.log", "combined", Some(12)),
        case_of("vhost_with_host_names.log", "vcombined", Some(12)),
        case_of("time_before_referer.log", "combined", None),
        case_of("traefik.json", "traefik", None),
    ];
    for case in cases {
        let Some(log) = self::case(case.file) else { return };
        let analysis = analyzed(log);
        let containers: Vec<&str> = analysis.logs[0].containers.iter().map(|it| &**it).collect();
        assert_eq!(analysis.logs[0].format.as_deref(), Some(case.format), "{}", case.file);
        assert_eq!(containers, case.container.into_iter().collect::<Vec<_>>(), "{}", case.file);
        assert_eq!((analysis.requests, analysis.malformed), (case.requests, 0), "{}", case.file);
        if let Some(visits) = case.visits {
            let own = &analysis.policies["learned"];
            assert_eq!(own.visits, visits, "{}", case.file);
        }
    }
}

#[test]
fn agents_behind_a_duration_are_not_lost() {
    let Some(log) = case("time_before_referer.log") else { return };
    let analysis = analyzed(log);
    assert!((analysis.crawler_share - 1.0).abs() < 1e-9, "{}", analysis.crawler_share);
}

#[test]
fn one_scanner_does_not_make_people_scanners_because_of_a_prefix() {
    for file in ["people_and_a_scanner.log", "people_and_a_scanner_by_syslog.log"] {
        let Some(log) = case(file) else { return };
        let analysis = analyzed(log);
        let class = |class| analysis.classes.get(&class).copied().unwrap_or(0);
        assert_eq!((class(ClientClass::Human), class(ClientClass::Scanner)), (60, 30), "{file}");
        let own = &analysis.policies["learned"];
        assert_eq!(own.delayed_visits, 15, "{file}");
        assert!((own.wakeups_per_day - 3.05).abs() < 0.01, "{file}: {}", own.wakeups_per_day);
    }
}
