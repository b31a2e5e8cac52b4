//! Plans: what is due when, and for what.

use std::time::Duration;

use nightwatt_clock::meter::Stop;
use nightwatt_load::Error;
use nightwatt_load::generate::{
    Due, Mix, MixEntry, Plan, RequestDefaults, Schedule, Until, Window, generate,
};
use nightwatt_policy::arrivals::{Arrivals, Trace};

use super::{Reply, ok, page, plan, rate, run, serve};

fn mix(urls: &[(&str, f64)]) -> Mix {
    let wanted: Vec<MixEntry> = urls
        .iter()
        .map(|(path, weight)| MixEntry {
            weight: *weight,
            ..MixEntry::page(format!("http://127.0.0.1:9{path}"))
        })
        .collect();
    Mix::weighted(&wanted, &RequestDefaults::default()).unwrap()
}

#[test]
fn urls_are_chosen_by_weight_and_do_not_shift_the_times() {
    let (n, power) = (100_000, 0.9_f64);
    let zipf: Vec<(String, f64)> =
        (1..=50).map(|rank| (format!("/{rank}"), f64::from(rank).powf(-power))).collect();
    let all: f64 = zipf.iter().map(|(_, weight)| weight).sum();
    let zipf: Vec<(&str, f64)> = zipf.iter().map(|(path, w)| (path.as_str(), *w)).collect();
    let until = Until { requests: Some(n), ..Until::default() };
    let poisson = Arrivals::Poisson(rate(100.0));
    let many: Vec<Due> = Schedule::new(&poisson, &mix(&zipf), 5, until).collect();
    let one: Vec<Due> = Schedule::new(&poisson, &mix(&[("/", 1.0)]), 5, until).collect();
    assert!(many.iter().zip(&one).all(|(many, one)| many.at == one.at));
    let mut chi_square = 0.0;
    for (index, (_, weight)) in zipf.iter().enumerate() {
        let seen = many.iter().filter(|due| due.wanted as usize == index).count() as f64;
        let expected = n as f64 * weight / all;
        chi_square += (seen - expected).powi(2) / expected;
    }
    // 49 degrees of freedom: above 85.4 with a probability of 1 in 1000.
    println!("seed 5: chi-square {chi_square:.1}");
    assert!(chi_square < 85.4, "{chi_square}");
}

#[test]
fn a_weight_of_nothing_is_never_asked_for() {
    let mix = mix(&[("/a", 0.0), ("/b", 1.0), ("/c", 0.0)]);
    let until = Until { requests: Some(1000), ..Until::default() };
    let mut schedule = Schedule::new(&Arrivals::Constant(rate(1.0)), &mix, 1, until);
    assert!(schedule.all(|due| due.wanted == 1));
}

#[test]
fn it_ends_at_a_time_or_after_a_number_whichever_comes_first() {
    let count = |time: Option<u64>, requests| {
        let until = Until { time: time.map(Duration::from_secs), requests };
        let constant = Arrivals::Constant(rate(10.0));
        Schedule::new(&constant, &mix(&[("/", 1.0)]), 1, until).count()
    };
    // The first is due at once, the 21st at the very end, which does not belong to it.
    assert_eq!(count(Some(2), None), 20);
    assert_eq!(count(Some(2), Some(7)), 7);
    assert_eq!(count(Some(2), Some(70)), 20);
}

#[test]
fn warm_up_and_cool_down_leave_the_middle() {
    let address = "127.0.0.1:9".parse().unwrap();
    let second = Duration::from_secs(1);
    let timed = Until { time: Some(10 * second), requests: None };
    let timed =
        Plan { until: timed, warm_up: second, cool_down: 2 * second, ..plan(address, 1.0, 1) };
    let end = |plan: &Plan| plan.end(&Stop::new().unwrap());
    let window = Window::of(&timed, end(&timed));
    assert_eq!(window, Window { from: second, to: Some(8 * second) });
    assert!(window.holds(second) && !window.holds(8 * second) && !window.holds(second / 2));
    assert_eq!(window.length(20 * second, None), 7 * second);
    assert_eq!(window.length(4 * second, Some(3 * second)), 2 * second, "ended early");
    assert_eq!(Window::of(&timed, None).length(4 * second, None), 3 * second, "no known end");
}

#[test]
fn so_many_requests_last_until_the_next_would_be_due() {
    let address = "127.0.0.1:9".parse().unwrap();
    let secs = |plan: &Plan| plan.end(&Stop::new().unwrap()).map(|end| end.as_secs_f64());
    // Ten a second: the first at 0, the tenth at 0.9, and then a gap like the others.
    assert_eq!(secs(&plan(address, 10.0, 10)), Some(1.0));
    assert_eq!(secs(&plan(address, 10.0, 1)), Some(0.1));
    let until = |time: u64, requests| Until { time: Some(Duration::from_secs(time)), requests };
    let constant = |until| Plan { until, ..plan(address, 10.0, 0) };
    assert_eq!(secs(&constant(until(3, Some(20)))), Some(2.0));
    assert_eq!(secs(&constant(until(3, Some(40)))), Some(3.0));
    assert_eq!(secs(&constant(until(3, None))), Some(3.0));
    // Who does not want to know any more is not kept.
    let stop = Stop::new().unwrap();
    stop.stop();
    assert!(plan(address, 10.0, u64::MAX).end(&stop).is_none());
    // For a Poisson process with the time t_4 of its fourth arrival, 3 / t_4 is the rate in the mean.
    let poisson = |seed| {
        let arrivals = Arrivals::Poisson(rate(10.0));
        let plan = Plan { arrivals, seed, ..plan(address, 1.0, 3) };
        3.0 / secs(&plan).unwrap()
    };
    // With three requests the bias of 3 / t_3 would be a half.
    let mean = (0..4000).map(poisson).sum::<f64>() / 4000.0;
    // 3 / t_4: variance of 1 / Gamma(4) is 1 / 18, so 9 x 100 / 18 here; four standard errors.
    let error = 4.0 * (9.0 * 100.0 / 18.0 / 4000.0_f64).sqrt();
    println!("seeds 0 to 3999: {mean:.2}/s of 10");
    assert!((mean - 10.0).abs() < error, "{mean} +- {error}");
}

#[test]
fn a_trace_lasts_for_a_mean_gap_after_its_last_time() {
    let address = "127.0.0.1:9".parse().unwrap();
    let end = |times: &[f64], until| {
        let arrivals = Arrivals::Trace(Trace::new(times.to_vec()).unwrap());
        let plan = Plan { arrivals, until, ..plan(address, 1.0, 0) };
        plan.end(&Stop::new().unwrap()).map(|end| end.as_secs_f64())
    };
    let all = Until::default();
    let two = Until { requests: Some(2), ..all };
    let short = Until { time: Some(Duration::from_millis(2500)), ..all };
    assert_eq!(end(&[0.0, 1.0, 2.0], all), Some(3.0));
    assert_eq!(end(&[0.0, 1.0, 2.0], short), Some(2.5));
    // The third comes 3 s later, but it is not sent.
    assert_eq!(end(&[0.0, 1.0, 4.0], two), Some(4.0));
    // No rate is to be had from one moment.
    assert_eq!(end(&[7.0], all), None);
    assert_eq!(end(&[7.0, 7.0, 7.0], two), None);
}

#[test]
fn a_number_of_requests_is_sent_at_the_rate_that_was_asked_for() {
    let address = serve(|_, _, _| Reply::Answer(ok("hi")));
    for requests in [1, 2, 20] {
        let (report, _) = run(&plan(address, 100.0, requests));
        assert_eq!(report.requests.due, requests);
        assert!((report.rate.due - 100.0).abs() < 1e-6, "{requests}: {:?}", report.rate);
    }
}

#[test]
fn every_thread_sends_its_share_and_each_request_once() {
    let address = serve(|_, _, _| Reply::Answer(ok("hi")));
    let (report, samples) = run(&Plan { threads: Some(3), ..plan(address, 1000.0, 100) });
    assert_eq!((report.client.threads, samples.len(), report.requests.answered), (3, 100, 100));
    assert_eq!(report.client.cpu_share.len(), 3);
    assert!(report.client.cpu_share.iter().all(|share| (0.0..=1.01).contains(share)));
}

#[test]
fn fields_and_bodies_are_sent_as_given() {
    let address = serve(|_, _, head| {
        let ours = head.starts_with("HEAD /x?y=1 HTTP/1.1\r\nHost: other\r\nAccept: */*\r\n")
            && head.ends_with("\r\nuser-agent: me\r\nX-A: 1\r\nX-A: 2\r\n\r\n");
        let status = if ours { 200 } else { 400 };
        Reply::Answer(format!("HTTP/1.1 {status} x\r\nContent-Length: 5\r\n\r\n"))
    });
    let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let fields = [field("user-agent", "me"), field("X-A", "1"), field("X-A", "2")];
    let host = [field("Host", "other")];
    let wanted = MixEntry { method: "HEAD".into(), ..page(address, "/x?y=1#part") };
    let dress =
        RequestDefaults { fields: [&host[..], &fields[..]].concat(), ..RequestDefaults::default() };
    let mix = Mix::weighted(&[wanted], &dress).unwrap();
    let (report, samples) = run(&Plan { mix, ..plan(address, 1000.0, 2) });
    assert_eq!((report.requests.answered, samples[0].status, samples[0].bytes), (2, 200, 0));
}

#[test]
fn what_cannot_be_sent_says_why() {
    let said = |url: &str| {
        Mix::weighted(&[MixEntry::page(url)], &RequestDefaults::default()).unwrap_err().to_string()
    };
    assert!(said("https://x/").contains("https is not spoken"));
    assert!(said("x").contains("http://"));
    assert!(said("http://me@x/").contains("user name"));
    assert!(said("http://no.such.host.invalid/").contains("cannot find the address"));
    let dressed = |name: &str, value: &str| {
        let fields = vec![(name.to_owned(), value.to_owned())];
        let dress = RequestDefaults { fields, ..RequestDefaults::default() };
        Mix::weighted(&[MixEntry::page("http://127.0.0.1/")], &dress).unwrap_err().to_string()
    };
    assert!(dressed("content-length", "1").contains("set by nightwatt"));
    assert!(dressed("a b", "1").contains("no name"));
    assert!(dressed("a", "1\r\nb: 2").contains("cannot be sent"));
    let nothing = Mix::weighted(&[], &RequestDefaults::default()).unwrap_err();
    assert!(matches!(nothing, Error::NothingToAsk));
}

#[test]
fn more_connections_than_the_system_allows_are_refused_before_the_start() {
    let address = serve(|_, _, _| panic!("nothing is to be sent"));
    let many = Plan { connections: 1 << 40, ..plan(address, 1.0, 1) };
    let refused = generate(&many, &Stop::new().unwrap(), None, |_| (), |_| ()).unwrap_err();
    assert!(matches!(refused, Error::Descriptors { .. } | Error::Ports { .. }), "{refused}");
    assert!(refused.to_string().contains("fewer `--connections`"));
}
