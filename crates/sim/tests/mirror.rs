//! A site behind a mirror: joules that are calculated by hand, and what holds of every log.

use std::time::Duration;

use nightwatt_energy::time::{Mono, Wall};
use nightwatt_policy::admission::{ClientClass, Want};
use nightwatt_policy::manager::Settings;
use nightwatt_policy::scenario::{CacheRule, Scenario, Server, SlaRule};
use nightwatt_policy::sleep::PolicyChoice;
use nightwatt_policy::visit::Visitor;
use nightwatt_sim::{
    CacheSettings, Extent, LoggedRequest, Mirrorable, Outcome, RefreshRule, Resource, Shows,
    SiteRun, Slots, VisitBook, World,
};
use proptest::prelude::*;

const HOUR: u64 = 3600;

/// A page that exists.
const PAGE: Mirrorable =
    Mirrorable { if_requested_before: true, if_crawled: true, if_gone: false, shows: Shows::Page };
/// A path where nothing is.
const GONE: Mirrorable =
    Mirrorable { if_requested_before: true, if_crawled: false, if_gone: true, shows: Shows::Gone };
/// A search, say.
const OTHER: Mirrorable = Mirrorable::NOTHING;
/// A form that was sent.
const CHANGE: Mirrorable = Mirrorable { shows: Shows::Change, ..Mirrorable::NOTHING };

/// A request of a log: when, for which URL, and what the mirror may do with it.
#[derive(Debug, Clone, Copy)]
struct Line {
    at_s: u64,
    url: u64,
    mirror: Mirrorable,
    class: ClientClass,
    client: u64,
}

fn line(at_s: u64, url: u64, mirror: Mirrorable) -> Line {
    Line { at_s, url, mirror, class: ClientClass::Human, client: at_s }
}

/// 40 W awake, 2 W asleep, 100 J a sleep, 5 s to wake; sleeps after 10 s, and has no cache.
fn bare() -> Scenario {
    Scenario {
        server: Server {
            on_w: 40.0,
            off_w: 2.0,
            switch_j: 100.0,
            min_on: Duration::ZERO,
            quiet: Duration::ZERO,
            ..Server::default()
        },
        sla: SlaRule { enabled: false, ..SlaRule::default() },
        cache: CacheRule {
            ttl: Duration::ZERO,
            grace_asleep: Duration::ZERO,
            warm_up: 0,
            ..CacheRule::default()
        },
        policy: PolicyChoice::Timeout { idle: Duration::from_secs(10) },
        ..Scenario::default()
    }
}

fn run(scenario: &Scenario, extent: Option<Extent>, lines: &[Line], end_s: u64) -> Outcome {
    let settings = Settings::of(scenario);
    let world =
        World { states: scenario.power_states(), settings, start: Wall::default(), utc_offset: 0 };
    let policy = scenario.policy.build(&scenario.terms());
    let mut run = SiteRun::begin(&world, CacheSettings::of(&scenario.cache), policy);
    if let Some(extent) = extent {
        run = run.with_mirror(extent, RefreshRule::of(scenario.server.service_time));
    }
    let (mut slots, mut visits) = (Slots::default(), VisitBook::default());
    for (number, line) in lines.iter().enumerate() {
        let at = Mono::from_secs(line.at_s);
        let is_read = line.mirror.shows != Shows::Change;
        run.ask(&LoggedRequest {
            number: number as u64,
            at,
            visitor: Visitor(line.client),
            visit: visits.of(at, Visitor(line.client)),
            client: line.client,
            class: line.class,
            recognised: true,
            scanner_rules: 0,
            succeeded: true,
            want: Want::Other,
            resource: Resource {
                key: line.url,
                slot: slots.of(line.url, is_read),
                bytes: 1000,
                is_read,
                storable: is_read,
                mirror: line.mirror,
            },
            is_pinned: false,
        });
    }
    run.finish(Mono::from_secs(end_s))
}

const EXTENTS: [Option<Extent>; 4] =
    [None, Some(Extent::Remembered), Some(Extent::Crawled), Some(Extent::Complete)];

#[test]
fn each_extent_spares_the_wake_ups_that_are_calculated_by_hand() {
    let lines = [
        line(0, 1, PAGE),
        line(100, 1, PAGE),
        line(1000, 2, PAGE),
        line(2000, 3, OTHER),
        line(3000, 4, GONE),
    ];
    let scenario = bare();
    let of = |extent| run(&scenario, extent, &lines, 3001);
    // The server is awake for 10 s at the start, and for 10 s from 5 s after each request that wakes it. At the
    // end it is still waking for the last line, unless the mirror knows that nothing is there.
    let server = |awake: f64, sleeps: f64| 40.0 * awake + 2.0 * (3001.0 - awake) + 100.0 * sleeps;
    let expected = [server(40.0, 4.0), server(30.0, 3.0), server(20.0, 2.0), server(20.0, 2.0)];
    assert_eq!(expected.map(|it| it.round() as u64), [7_922, 7_442, 6_962, 6_962]);
    for (extent, joules) in EXTENTS.into_iter().zip(expected) {
        let seen = of(extent).bill.server(&scenario.power_states()).get();
        assert!((seen - joules).abs() < 1e-6, "{extent:?}: {seen} is not {joules}");
    }
    assert_eq!(EXTENTS.map(|extent| of(extent).delayed_requests), [4, 3, 2, 1]);
    assert_eq!(EXTENTS.map(|extent| of(extent).answers.from_copies), [0, 1, 2, 3]);
    assert_eq!(EXTENTS.map(|extent| of(extent).refresh.wakeups), [0; 4], "the span is too short");
}

#[test]
fn copies_are_refreshed_by_one_wake_up_a_day_if_nothing_else_wakes_the_server() {
    let lines = [line(0, 1, PAGE), line(60 * HOUR, 1, PAGE)];
    let scenario = bare();
    let outcome = run(&scenario, Some(Extent::Remembered), &lines, 60 * HOUR + 1);
    // Twice it wakes within 24 hours of the last time, and sleeps after 10 s: 2 x 100 J + 20 s x 38 W.
    assert_eq!(outcome.refresh.wakeups, 2);
    assert_eq!(outcome.refresh.awake, Duration::from_secs(20));
    let cost = outcome.refresh.energy(&scenario.power_states()).get();
    assert!((cost - 960.0).abs() < 1e-6, "{cost}");
    assert_eq!((outcome.bill.on, outcome.bill.cycles), (Duration::from_secs(30), 3));
    assert_eq!((outcome.woken_by_requests, outcome.delayed_requests), (0, 0));
}

#[test]
fn a_wake_up_by_somebody_else_is_used_to_refresh() {
    // Every 16 hours a search wakes the server: more than half a day after the last pass, and less than a day.
    let mut lines = vec![line(0, 1, PAGE)];
    lines.extend((1..10).map(|it| line(it * 16 * HOUR, 2, OTHER)));
    let outcome = run(&bare(), Some(Extent::Remembered), &lines, 150 * HOUR);
    assert_eq!((outcome.refresh.wakeups, outcome.woken_by_requests), (0, 9));
    assert_eq!(
        outcome.refresh.awake,
        Duration::ZERO,
        "5 ms lie within the 10 s it is awake anyway"
    );
}

#[test]
fn a_sleep_waits_for_a_pass_no_longer_than_its_extension() {
    // 4,000 pages at 5 ms are 20 s, of which the server is awake for 10 s anyway; 10,000 are 50 s, and cut short.
    for (pages, awake, extra) in [(4_000, 20, 10), (10_000, 40, 30)] {
        let mut lines: Vec<Line> = (0..pages).map(|url| line(0, url, PAGE)).collect();
        lines.push(line(13 * HOUR, u64::MAX, OTHER));
        let outcome = run(&bare(), Some(Extent::Remembered), &lines, 14 * HOUR);
        assert_eq!(outcome.refresh.awake.as_secs(), extra, "{pages} pages");
        assert_eq!(outcome.bill.on, Duration::from_secs(10 + awake), "{pages} pages");
    }
}

#[test]
fn after_a_change_pages_are_looked_at_before_the_sleep() {
    let mut lines: Vec<Line> = (0..4_000).map(|url| line(0, url, PAGE)).collect();
    lines.push(line(HOUR, u64::MAX, CHANGE));
    let outcome = run(&bare(), Some(Extent::Remembered), &lines, 2 * HOUR);
    // 20 s for 4,000 pages, of which the server is awake for 10 s anyway.
    assert_eq!(outcome.refresh.awake, Duration::from_secs(10));
}

#[test]
fn the_sleep_that_a_refresh_interrupts_goes_on_without_a_request() {
    // A busy hour pays for the sleep; then no request comes for a week, in which the SLA would allow no new one.
    let Scenario { server, cache, policy, .. } = bare();
    let scenario = Scenario { server, cache, policy, ..Scenario::default() };
    let lines: Vec<Line> = (0..1_000).map(|it| line(it * 3, it % 10, PAGE)).collect();
    let outcome = run(&scenario, Some(Extent::Remembered), &lines, 7 * 24 * HOUR);
    // Each a few seconds sooner than a day after the last.
    assert_eq!(outcome.refresh.wakeups, 7);
    let awake = outcome.bill.on;
    assert!(awake < Duration::from_mins(52), "{awake:?}, 50 minutes of them busy");
    let without = run(&scenario, None, &lines, 7 * 24 * HOUR);
    assert_eq!(without.bill.cycles, 1, "it sleeps through");
}

fn lines() -> impl Strategy<Value = Vec<Line>> {
    let kind = prop_oneof![6 => Just(PAGE), 2 => Just(GONE), 1 => Just(OTHER), 1 => Just(CHANGE)];
    let class = prop_oneof![
        6 => Just(ClientClass::Human),
        1 => Just(ClientClass::Api),
        1 => Just(ClientClass::Crawler),
        1 => Just(ClientClass::Scanner),
        1 => Just(ClientClass::Monitor),
    ];
    let gap = prop_oneof![3 => 0_u64..20, 2 => 0_u64..2_000, 1 => 0_u64..200_000];
    let request = (gap, 0_u64..20, kind, class, 0_u64..5);
    prop::collection::vec(request, 0..200).prop_map(|requests| {
        let mut at_s = 0;
        let of = |(gap, url, mirror, class, client)| {
            at_s += gap;
            // URLs of different kinds are different.
            let kind = [PAGE, GONE, OTHER].iter().position(|it| *it == mirror).unwrap_or(3);
            Line { at_s, url: url * 4 + kind as u64, mirror, class, client }
        };
        requests.into_iter().map(of).collect()
    })
}

proptest! {
    /// Whatever the log, the SLA and the extent: each admitted request is answered in one way, the bill covers
    /// the span, and refreshing is a part of it.
    #[test]
    fn every_request_and_every_second_is_counted_once(lines in lines(), promised: bool) {
        let mut scenario = bare();
        scenario.sla.enabled = promised;
        let end_s = lines.last().map_or(0, |it| it.at_s) + 1;
        let admitted = lines.iter().filter(|it| it.class.is_admitted()).count() as u64;
        for extent in EXTENTS {
            let outcome = run(&scenario, extent, &lines, end_s);
            let answers = outcome.answers;
            let all =
                answers.from_copies + answers.by_server + answers.after_waking + answers.by_proxy;
            prop_assert_eq!((all, outcome.admitted), (admitted, admitted));
            prop_assert!(outcome.delayed_requests <= answers.after_waking + answers.by_proxy);
            prop_assert_eq!(outcome.bill.span(), Duration::from_secs(end_s));
            prop_assert!(outcome.refresh.awake <= outcome.bill.on);
            prop_assert!(outcome.refresh.wakeups <= outcome.bill.cycles);
        }
    }

    #[test]
    fn a_server_that_is_always_on_delays_no_request_with_or_without_a_mirror(lines in lines()) {
        let scenario = Scenario { policy: PolicyChoice::AlwaysOn, ..bare() };
        let end_s = lines.last().map_or(0, |it| it.at_s) + 1;
        for extent in EXTENTS {
            let outcome = run(&scenario, extent, &lines, end_s);
            prop_assert_eq!(outcome.delayed_requests + outcome.answers.from_copies, 0);
            prop_assert_eq!((outcome.bill.cycles, outcome.refresh.wakeups), (0, 0));
        }
    }
}
