//! Browsers sit out a waiting page, crawlers come back when told to.

use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use nightwatt_clock::Clock;
use nightwatt_load::{
    Answer, Options, ReplaySummary, RequestKind, Returning, Run, ServiceTime, Waiting, summary,
};
use nightwatt_traffic::Arrival;

use crate::stage::{self, CRAWLER, against_stub, answer, at, get, options, virtual_clock};

/// A server that is asleep until second 5.5, behind a proxy that shows browsers a waiting page
/// and tells crawlers to come back in an hour.
async fn sleeping_until_5_5(clock: Clock, request: Request<Incoming>) -> stage::FullResponse {
    let awake = clock.now().mono.as_secs_f64() >= 5.5;
    if request.uri().path() == "/.nightwatt/state" {
        let state = if awake { r#"{"state":"awake"}"# } else { r#"{"state":"waking"}"# };
        return answer(200, &[("nightwatt-answer", "state")], state);
    }
    if awake {
        return answer(200, &[("nightwatt-answer", "server")], "content");
    }
    if request.headers()["user-agent"].to_str().unwrap().contains("Googlebot") {
        return answer(503, &[("nightwatt-answer", "crawler"), ("retry-after", "3600")], "");
    }
    if request.headers().get("sec-fetch-mode").is_some_and(|mode| mode == "navigate") {
        return answer(503, &[("nightwatt-answer", "waiting-page"), ("retry-after", "5")], "wait");
    }
    clock
        .parked(clock.sleep_until(nightwatt_energy::time::Mono(Duration::from_millis(5500))))
        .await;
    answer(200, &[("nightwatt-answer", "held")], "content")
}

fn told(run: &Run) -> Vec<(String, u64, Option<u16>, String)> {
    let row = |o: &nightwatt_load::Outcome| {
        let answer = o.answer.as_ref().map_or(String::new(), ToString::to_string);
        (o.id.clone(), o.sent.0.as_secs(), o.status, answer)
    };
    run.outcomes.iter().map(row).collect()
}

#[test]
fn a_visitor_sits_out_the_waiting_page_and_has_the_content_when_the_server_is_awake() {
    // A browser has to read the page before it can ask for the logo; another visitor's is held.
    let other = Arrival { client: "203.0.113.9".into(), ..get(1, "/other.png") };
    let log = [get(0, "/"), get(1, "/logo.png"), other, get(9, "/next")];
    let (run, seen) = against_stub(&virtual_clock(), &log, &options(), sleeping_until_5_5);
    let lines: Vec<(u64, &str)> = seen.iter().map(|(at, s)| (at.0.as_secs(), s.as_str())).collect();
    assert_eq!(
        lines,
        [
            (0, "GET / replay-0"),
            (1, "GET /.nightwatt/state replay-0-poll-1"),
            (1, "GET /other.png replay-2"),
            (2, "GET /.nightwatt/state replay-0-poll-2"),
            (3, "GET /.nightwatt/state replay-0-poll-3"),
            (4, "GET /.nightwatt/state replay-0-poll-4"),
            (5, "GET /.nightwatt/state replay-0-poll-5"),
            (6, "GET /.nightwatt/state replay-0-poll-6"),
            (6, "GET / replay-0-reopened-1"),
            (6, "GET /logo.png replay-1"),
            (9, "GET /next replay-3"),
        ]
    );
    let seen = summary::content_delays(&run, ServiceTime::default());
    let delays: Vec<_> = seen.iter().map(|seen| seen.delay_s).collect();
    assert_eq!(delays, [Some(6.0), Some(0.0), Some(4.5), Some(0.0)]);
    let figures = ReplaySummary::of(&run, ServiceTime::default());
    assert_eq!((figures.requests, figures.polls, figures.served_survey), (5, 6, 1));
    assert_eq!((figures.replayed_200, figures.served_by_origin), (1, 4));
}

#[test]
fn a_waiting_page_gives_up_polling_at_its_cap_and_opens_anyway() {
    let waiting = Waiting::Poll { every: Duration::from_secs(2), cap: Duration::from_secs(5) };
    let options = Options { waiting, ..options() };
    let (run, _) = against_stub(&virtual_clock(), &[get(0, "/")], &options, |_, _| async {
        answer(503, &[("nightwatt-answer", "waiting-page")], "wait")
    });
    let kinds: Vec<(RequestKind, u64)> =
        run.outcomes.iter().map(|outcome| (outcome.kind, outcome.sent.0.as_secs())).collect();
    let expected = [
        (RequestKind::Trace, 0),
        (RequestKind::Poll, 2),
        (RequestKind::Poll, 4),
        (RequestKind::Poll, 5),
        (RequestKind::Reopened, 5),
    ];
    assert_eq!(kinds, expected);
    let figures = ReplaySummary::of(&run, ServiceTime::default());
    assert_eq!((figures.never_got_content, figures.served_survey), (1, 2));
}

#[test]
fn a_page_can_be_reopened_after_a_fixed_time_or_not_at_all() {
    let reopened = |waiting| {
        let options = Options { waiting, ..options() };
        let (run, _) = against_stub(&virtual_clock(), &[get(0, "/")], &options, sleeping_until_5_5);
        told(&run)
    };
    let page = ("replay-0".to_owned(), 0, Some(503), "waiting-page".to_owned());
    assert_eq!(reopened(Waiting::Ignore), std::slice::from_ref(&page));
    let content = ("replay-0-reopened-1".to_owned(), 15, Some(200), "server".to_owned());
    assert_eq!(reopened(Waiting::ReopenAfter(Duration::from_secs(15))), [page, content]);
}

#[test]
fn a_crawler_comes_back_when_it_was_told_to() {
    let crawler = Arrival { agent: Some(CRAWLER.into()), ..get(2, "/") };
    let log = [get(0, "/early.css"), crawler];
    let (run, _) = against_stub(&virtual_clock(), &log, &options(), sleeping_until_5_5);
    assert_eq!(
        told(&run)[1..],
        [
            ("replay-1".to_owned(), 2, Some(503), "crawler".to_owned()),
            ("replay-1-retry-1".to_owned(), 3602, Some(200), "server".to_owned()),
        ]
    );
    assert_eq!(run.ended.mono, at(3602), "the replay ends when all are done");
    assert_eq!(run.outcomes[2].delay(), Some(Duration::ZERO), "it came when it was asked to come");
}

#[test]
fn a_crawler_gives_up_and_only_crawlers_come_back() {
    // Noon + 100 s, as a date.
    let busy =
        |_, _| async { answer(503, &[("retry-after", "Sun, 01 Mar 2026 12:01:40 GMT")], "") };
    let crawler = Arrival { agent: Some(CRAWLER.into()), ..get(0, "/") };
    let log = [crawler, get(0, "/")];
    let (run, _) = against_stub(&virtual_clock(), &log, &options(), busy);
    let sent: Vec<(usize, u64)> =
        run.outcomes.iter().map(|o| (o.arrival, o.sent.0.as_secs())).collect();
    assert_eq!(sent, [(0, 0), (0, 100), (0, 100), (0, 100), (1, 0)]);

    let returning = Some(Returning { times: 3, horizon: Duration::from_secs(99) });
    let options = Options { returning, ..options() };
    let (run, _) = against_stub(&virtual_clock(), &log, &options, busy);
    assert_eq!(run.outcomes.len(), 2, "too late to be worth it");
}

#[test]
fn the_table_adds_up_and_has_the_published_form() {
    // Each of another visitor, who does not wait for the page of one before.
    let of = |n| Arrival { client: format!("192.0.2.{n}"), ..get(n, "/page") };
    let mut log: Vec<Arrival> = (0..20).map(of).collect();
    log[3].agent = Some(CRAWLER.into());
    log[4].target = "/style.css".into();
    log[5].target = "not a path".into();
    log[6].agent = Some("curl/8.5.0".into());
    let (run, _) = against_stub(&virtual_clock(), &log, &options(), sleeping_until_5_5);
    let service =
        ServiceTime { origin: Duration::from_millis(50), proxy: Duration::from_millis(1) };
    let figures = ReplaySummary::of(&run, service);
    let served = figures.served_by_origin + figures.served_by_proxy;
    assert_eq!(figures.malformed + figures.no_answer + served, figures.requests);
    let by_status = figures.http_200 + figures.http_404 + figures.http_503 + figures.http_other;
    let by_kind = by_status + figures.bot_redirection + figures.served_survey;
    assert_eq!(figures.malformed + figures.no_answer + by_kind, figures.requests);
    assert_eq!(figures.delays.count, served);
    assert_eq!(run.outcomes.iter().filter(|o| o.answer == Some(Answer::Held)).count(), 1);
    assert!(figures.cdf.points.is_sorted_by(|a, b| a.share <= b.share));
    assert!(serde_json::to_value(&figures).unwrap()["delays"]["p99"].is_number());
    let table = summary::csv_table(&[("sleep_and_bots_survey", &figures)]);
    insta::assert_snapshot!(table);
    insta::assert_snapshot!(summary::text_table(&[("a", &figures), ("b", &figures)]));
}
