//! A log worked out by hand, and what must hold for any log.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use nightwatt_policy::sleep::PolicyChoice;
use proptest::prelude::*;
use tempfile::NamedTempFile;

use super::yardstick::{CONFIGURATIONS, TABLE};
use super::*;

const BROWSER: &str = "Mozilla/5.0 (X11; Linux x86_64) Firefox/128.0";
const CRAWLER: &str = "Mozilla/5.0 (compatible; Googlebot/2.1)";

/// A line of a Combined log, this many seconds after noon.
fn line(second: u64, asks: &str, status: u16, agent: &str) -> String {
    let (hour, minute, second) = (12 + second / 3600, second / 60 % 60, second % 60);
    format!(
        "192.0.2.1 - - [05/Mar/2012:{hour:02}:{minute:02}:{second:02} +0000] \"{asks} HTTP/1.1\" \
         {status} 1000 \"-\" \"{agent}\"\n"
    )
}

/// Sleeps by the published rule even if clients wait: with an SLA, a handful of requests leaves no room for
/// a delay.
fn scenario() -> Scenario {
    let mut scenario = Scenario { policy: PolicyChoice::Window, ..Scenario::default() };
    scenario.sla.enabled = false;
    scenario
}

fn compared(log: &str, scenario: Scenario, crawlers: Crawlers) -> Comparison {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(log.as_bytes()).unwrap();
    let logs = vec![file.path().to_owned()];
    let options = PublishedOptions { logs, scenario, crawlers, ..PublishedOptions::default() };
    let comparison = run(&options, |_| ()).unwrap();
    Comparison { logs: Vec::new(), ..comparison }
}

/// By default: awake from 0 to 60, when the minimum on time is over and the gap since 0 has long
/// been longer than 4.1 s. The log's remarks say what happens then.
fn by_hand() -> String {
    [
        line(0, "GET /a", 200, BROWSER),
        // From every cache.
        line(10, "GET /a", 200, BROWSER),
        // 200 s old: from a cache with grace only.
        line(200, "GET /a", 200, BROWSER),
        // Sent away: the server sleeps.
        line(300, "GET /b", 200, CRAWLER),
        // Wakes it: awake at 405, and asleep again 60 s later. The waiting page asks again at 415.
        line(400, "GET /c", 404, BROWSER),
        // A crawler that finds it awake.
        line(420, "GET /d", 200, CRAWLER),
        // It falls asleep until 470, and is awake at 475: waits 8 s, also where there is a page.
        line(467, "POST /e", 302, BROWSER),
        "neither this\n".to_owned(),
        // Asleep since 535. 200 s old.
        line(600, "GET /c", 404, BROWSER),
        // Older still. A crawler is answered from the cache too.
        line(601, "GET /a", 200, CRAWLER),
        "nor that is a request\n".to_owned(),
    ]
    .concat()
}

#[test]
fn every_cell_of_a_small_log_is_what_one_finds_by_hand() {
    let comparison = compared(&by_hand(), scenario(), Crawlers::Published);
    // The server takes 5 ms, the proxy 1 ms. Means: 9 x 5; (8 x 6 + 1) / 9; (5 x 6 + 4) / 9;
    // (2 x 6 + 5,006 + 8,006 + 5) / 9; (3 x 6 + 8,006 + 6) / 10.
    let expected = "\
metric,no_proxy,cache_default,cache_aggressive,sleep_and_bots,sleep_bots_survey
requests,11,11,11,11,12
malformed,2,2,2,2,2
served_by_origin,9,8,5,4,4
served_by_proxy,,1,4,5,6
http_200,6,6,6,5,5
http_404,2,2,2,2,2
http_503,,0,0,0,0
bot_redirection,,,,1,1
served_survey,,,,,1
replayed_200,,,,,0
replayed_404,,,,,1
replayed_503,,,,,0
max_delay_origin_s,0.005,0.006,0.006,8.006,8.006
max_delay_proxy_s,,0.001,0.001,0.001,0.001
mean_delay_all_s,0.005,0.005,0.004,1.448,0.803
mean_delay_origin_s,0.005,0.006,0.006,3.256,2.006
mean_delay_proxy_s,,0.001,0.001,0.001,0.001
";
    assert_eq!(comparison.to_csv(), expected);
    let others: Vec<_> = comparison.configurations.iter().map(|it| it.tally.http_other).collect();
    assert_eq!(others, [1, 1, 1, 1, 1], "the 302");
    let on_time = |place: usize| comparison.configurations[place].within_50ms_share;
    assert!((on_time(3) - 7.0 / 9.0).abs() < 1e-12 && (on_time(4) - 0.9).abs() < 1e-12);
}

#[test]
fn the_energy_of_a_small_log_is_what_one_finds_by_hand() {
    let comparison = compared(&by_hand(), scenario(), Crawlers::Published);
    // To the end of second 601, and 15 s + 5 s + 5 s for the request that came then.
    assert!((comparison.span_s - 627.0).abs() < 1e-9);
    let energy: Vec<f64> = comparison.configurations.iter().map(|it| it.energy_j).collect();
    // Awake 3 x 60 s, asleep 345 + 10 + 92 s, three cycles; the proxy all the time.
    let sleeping = 43.3 * 180.0 + 1.6 * 447.0 + 3.0 * 170.7 + 5.0 * 627.0;
    let cached = (43.3 + 5.0) * 627.0;
    let expected = [43.3 * 627.0, cached, cached, sleeping, sleeping];
    for (place, (energy, expected)) in energy.into_iter().zip(expected).enumerate() {
        assert!((energy - expected).abs() < 1e-6, "{place}: {energy} J, not {expected}");
    }
    let last = &comparison.configurations[4];
    assert_eq!((last.sleeps, last.wakeups, last.asleep_s), (3, 2, 447.0));
    assert!((last.saving - (1.0 - sleeping / (43.3 * 627.0))).abs() < 1e-12);
}

#[test]
fn the_pauses_of_a_small_log_are_what_one_finds_by_hand() {
    let gaps = compared(&by_hand(), scenario(), Crawlers::Published).gaps;
    let told = |tail: GapTail| (tail.requests, tail.long, tail.long_s, tail.longest_s);
    // 10, 190, 100, 100, 20, 47, 133, 1.
    assert_eq!(told(gaps.all), (9, 4, 523.0, 190.0));
    // Without that at 10: 200, 100, 100, 20, 47, 133, 1.
    assert_eq!(told(gaps.behind_cache), (8, 4, 533.0, 200.0));
    // 0, 10, 200, 400, 467, 600.
    assert_eq!(told(gaps.without_crawlers), (6, 4, 590.0, 200.0));
    // 0, 200, 400, 467, 600.
    assert_eq!(told(gaps.both), (5, 4, 600.0, 200.0));
}

#[test]
fn who_would_wait_longer_than_ten_seconds_gets_a_503_then() {
    let mut slow = scenario();
    slow.server.wake_time = Duration::from_secs(30);
    let log = line(0, "GET /a", 200, BROWSER) + &line(400, "GET /c", 404, BROWSER);
    let comparison = compared(&log, slow, Crawlers::Published);
    let [.., sleep, survey] = &comparison.configurations[..] else { panic!("five") };
    assert_eq!((sleep.tally.http_503, sleep.tally.http_404), (1, 0));
    assert_eq!((sleep.tally.served_by_origin, sleep.tally.served_by_proxy), (1, 1));
    assert_eq!(sleep.max_delay_proxy_s, Some(10.001));
    // Asked again after 15 s, and the server still needs as long: no second page.
    assert_eq!((survey.tally.served_survey, survey.tally.replayed_503), (1, 1));
    assert_eq!((survey.tally.http_503, survey.tally.requests), (1, 3));
}

#[test]
fn a_server_that_wakes_at_once_keeps_nobody_waiting() {
    for sleep_s in [0, 5] {
        let mut quick = scenario();
        quick.server.wake_time = Duration::ZERO;
        quick.server.min_on = Duration::ZERO;
        quick.server.quiet = Duration::ZERO;
        quick.server.sleep_time = Duration::from_secs(sleep_s);
        // The last three in the same second: it may fall asleep between them.
        let log: String = [(0, "/a"), (100, "/b"), (400, "/c"), (400, "/d"), (400, "/e")]
            .map(|(second, page)| line(second, &format!("POST {page}"), 200, BROWSER))
            .concat();
        let comparison = compared(&log, quick, Crawlers::Published);
        for it in &comparison.configurations[3..] {
            assert_eq!((it.tally.served_by_origin, it.tally.http_200), (5, 5), "{}", it.name);
            let longest = it.max_delay_origin_s.unwrap();
            assert!(longest <= 0.006 + sleep_s as f64, "{}: {longest}", it.name);
        }
    }
}

#[test]
fn the_sla_keeps_a_server_awake_that_would_delay_too_many() {
    let promised = Scenario { policy: PolicyChoice::Window, ..Scenario::default() };
    let comparison = compared(&by_hand(), promised, Crawlers::Published);
    let sleep = &comparison.configurations[3];
    // Of six requests of people not one may wait.
    assert_eq!((sleep.sleeps, sleep.within_50ms_share), (0, 1.0));
    assert!((sleep.server_j - 43.3 * comparison.span_s).abs() < 1e-6);
}

#[test]
fn the_classifier_knows_crawlers_that_the_published_strings_do_not() {
    let gpt = "Mozilla/5.0 (compatible; GPTBot/1.2; +https://openai.com/gptbot)";
    let log = line(0, "GET /a", 200, BROWSER) + &line(400, "GET /b", 200, gpt);
    let sent_away = |crawlers| {
        let comparison = compared(&log, scenario(), crawlers);
        comparison.configurations[3].tally.bot_redirection
    };
    assert_eq!((sent_away(Crawlers::Published), sent_away(Crawlers::Classifier)), (0, 1));
}

#[test]
fn logs_without_a_request_are_an_error() {
    let file = NamedTempFile::new().unwrap();
    let logs = vec![file.path().to_owned()];
    let error = run(&PublishedOptions { logs, ..PublishedOptions::default() }, |_| ());
    assert!(error.is_err());
}

#[test]
fn the_yardstick_is_the_published_table() {
    let data = std::env::var_os("NIGHTWATT_DATA").map_or_else(
        || concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data").into(),
        PathBuf::from,
    );
    let Some(shared) = data.parent().filter(|_| data.is_dir()) else {
        eprintln!("skipped: no shared data at {}", data.display());
        return;
    };
    let table = std::fs::read_to_string(shared.join("published/odwyer_proxy_replay.csv")).unwrap();
    let mut lines = table.lines();
    assert_eq!(lines.next(), Some(format!("metric,{}", CONFIGURATIONS.join(",")).as_str()));
    for (name, values) in TABLE {
        let mut cells = lines.next().unwrap().split(',');
        assert_eq!(cells.next(), Some(name));
        for value in values {
            let cell = cells.next().unwrap();
            assert!(if value.is_nan() { cell.is_empty() } else { cell.parse() == Ok(value) });
        }
    }
    assert_eq!(lines.next(), None);
}

#[test]
fn the_page_has_both_tables_and_says_which_is_theirs() {
    let document = compared(&by_hand(), scenario(), Crawlers::Published).document("now".to_owned());
    let tables = document.tables();
    assert_eq!(tables.len(), 4);
    assert!(tables[3].caption.contains("O'Dwyer"));
    assert!(tables[3].to_csv().contains("bot_redirection,,,,7511,7525"));
    assert!(tables[0].to_csv().contains("http_other,1,1,1,1,1"));
    assert!(document.to_html().contains("Their figures, of another log"));
}

/// What must hold whatever the log.
fn is_sound(comparison: &Comparison, statuses: &[u16], malformed: u64) {
    let requests = statuses.len() as u64;
    for it in &comparison.configurations {
        let tally = &it.tally;
        let name = it.name;
        assert_eq!(tally.malformed, malformed, "{name}");
        assert_eq!(tally.requests, requests + malformed + tally.served_survey, "{name}");
        let served = tally.served_by_origin + tally.served_by_proxy;
        assert_eq!(tally.requests, malformed + served, "{name}");
        let statuses = tally.http_200 + tally.http_404 + tally.http_503 + tally.http_other;
        let answers = statuses + tally.bot_redirection + tally.served_survey;
        assert_eq!(served, answers, "{name}");
        let replayed = tally.replayed_200 + tally.replayed_404;
        let replayed = replayed + tally.replayed_503 + tally.replayed_other;
        assert_eq!(replayed, tally.served_survey, "{name}: every page is asked for again");
        assert!(it.delays.is_sorted_by(|a, b| a.delay_s < b.delay_s && a.share <= b.share));
        assert!(it.delays.last().unwrap().share > 1.0 - 1e-12, "{name}");
        assert!(it.max_delay_origin_s.unwrap_or(0.0) <= 10.006 + 1e-9, "{name}");
    }
    let count =
        |wanted: &dyn Fn(u16) -> bool| statuses.iter().filter(|s| wanted(**s)).count() as u64;
    let alone = &comparison.configurations[0].tally;
    assert_eq!((alone.served_by_origin, alone.served_by_proxy), (requests, 0));
    assert_eq!(alone.http_200, count(&|status| status == 200));
    assert_eq!(alone.http_404, count(&|status| status == 404));
    assert_eq!(alone.http_503, count(&|status| status == 503));
    let scenario = &comparison.scenario;
    for it in &comparison.configurations {
        let on_s = comparison.span_s - it.asleep_s;
        let bill = scenario.server.on_w * on_s
            + scenario.server.off_w * it.asleep_s
            + scenario.server.switch_j * it.sleeps as f64;
        assert!((it.server_j - bill).abs() < 1e-6, "{}: {} J, not {bill}", it.name, it.server_j);
        let behind_proxy = it.name != CONFIGURATIONS[0];
        let proxy = if behind_proxy { scenario.proxy.power_w * comparison.span_s } else { 0.0 };
        assert!((it.proxy_j - proxy).abs() < 1e-6);
        assert!(it.sleeps - it.wakeups <= 1);
    }
}

fn some_requests() -> impl Strategy<Value = Vec<(u64, u8, u16, bool, bool)>> {
    let status = prop_oneof![Just(200_u16), Just(404), Just(301), Just(503)];
    let gap = prop_oneof![0_u64..3, 0_u64..20, 50_u64..80, 0_u64..600];
    let request = (gap, 0_u8..6, status, any::<bool>(), any::<bool>());
    // Within a day of the log.
    proptest::collection::vec(request, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn nobody_is_lost_or_doubled_and_all_time_is_paid_for(
        requests in some_requests(),
        malformed in 0_u64..3,
        (wake, min_on, quiet) in (0_u64..8, 0_u64..70, 0_u64..8),
        promises in any::<bool>(),
    ) {
        let mut scenario = scenario();
        scenario.sla.enabled = promises;
        scenario.server.wake_time = Duration::from_secs(wake);
        scenario.server.min_on = Duration::from_secs(min_on);
        scenario.server.quiet = Duration::from_secs(quiet);
        let (mut log, mut at, mut statuses) = (String::new(), 0, Vec::new());
        for (gap, page, status, is_crawler, is_post) in requests {
            at += gap;
            let asks = format!("{} /{page}", if is_post { "POST" } else { "GET" });
            log.push_str(&line(at, &asks, status, if is_crawler { CRAWLER } else { BROWSER }));
            statuses.push(status);
        }
        for _ in 0..malformed {
            let _ = writeln!(log, "rubbish");
        }
        let comparison = compared(&log, scenario.clone(), Crawlers::Published);
        is_sound(&comparison, &statuses, malformed);
        let mut again = compared(&log, scenario, Crawlers::Published);
        // It names the file, which is another one.
        again.skipped.clone_from(&comparison.skipped);
        prop_assert_eq!(comparison, again, "deterministic");
    }
}
