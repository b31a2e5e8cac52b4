//! httperf, wrk, oha and `nightwatt load`.

use nightwatt_workloads::{Output, tool};

use crate::{
    KIB, Kept, MIB, assert_done, assert_figures, assert_percentiles, assert_some, ms, read,
    refused, us,
};

#[test]
fn httperf_as_it_is() {
    let outcome = read("httperf", "httperf/standard");
    assert_done(&outcome, 200, "requests", 0.996);
    assert_some(
        &outcome,
        &[
            // Its own reply rate is 0, because no 5 s went by.
            ("replies_per_second", 200.0 / 0.996, "1/s"),
            ("reply_rate_samples", 0.0, "1"),
            ("connections_per_second", 200.8, "1/s"),
            ("concurrent_connections_max", 2.0, "1"),
            ("connection_time_max", ms(6.7), "s"),
            ("response_time_mean", ms(0.8), "s"),
            ("reply_content_size", 3000.0, "B"),
            ("throughput", 649.3 * KIB, "B/s"),
            ("cpu_share", 64.3, "%"),
            ("status_2xx", 200.0, "1"),
            ("bad_statuses", 0.0, "1"),
        ],
    );
    assert!(outcome.figure("reply_rate_mean").is_none() && outcome.warnings.is_empty());
    let outcome = read("httperf", "httperf/calls");
    assert_done(&outcome, 100, "requests", 0.382);
    assert_some(&outcome, &[("replies_per_connection", 5.0, "1"), ("connections", 20.0, "1")]);
}

#[test]
fn httperf_where_nobody_listens_or_all_is_broken() {
    assert!(refused("httperf", "httperf/refused").contains("connrefused 10"));
    let outcome = read("httperf", "httperf/broken");
    assert_some(&outcome, &[("status_5xx", 10.0, "1"), ("bad_statuses", 10.0, "1")]);
    assert!(outcome.warnings[0].contains("10 of 10 answers"), "{:?}", outcome.warnings);
}

#[test]
fn httperf_with_a_line_for_each_answer() {
    // Two lines as of the published sample, in front of a report of two replies.
    let mut kept = Kept::of("httperf/standard");
    kept.stdout = kept.stdout.replace("replies 200", "replies 2");
    kept.stdout =
        format!("1318955105.014323 0.737685\n1318958446.977073 0.003730\n{}", kept.stdout);
    let outcome = kept.read("httperf").unwrap();
    assert_eq!(outcome.responses, crate::micros(&[737_685, 3730]));
    assert!(outcome.warnings.is_empty());
}

#[test]
fn wrk_with_and_without_its_distribution() {
    let outcome = read("wrk", "wrk/latency");
    assert_figures(
        &outcome,
        &[
            ("requests_per_second", 53_263.35, "1/s"),
            ("throughput", 164.53 * MIB, "B/s"),
            ("latency_mean", us(656.20), "s"),
            ("latency_sd", ms(1.87), "s"),
            ("latency_max", ms(28.84), "s"),
            ("requests_per_second_of_a_thread_mean", 26_970.0, "1/s"),
            ("requests_per_second_of_a_thread_sd", 14_010.0, "1/s"),
            ("requests_per_second_of_a_thread_max", 83_870.0, "1/s"),
            ("bad_statuses", 0.0, "1"),
        ],
    );
    assert_done(&outcome, 107_546, "requests", 2.02);
    let expected = [(50.0, us(60.0)), (75.0, us(100.0)), (90.0, ms(2.12)), (99.0, ms(8.44))];
    assert_percentiles(&outcome, &expected);
    let outcome = read("wrk", "wrk/plain");
    assert_done(&outcome, 53_714, "requests", 1.01);
    assert_percentiles(&outcome, &[]);
}

#[test]
fn wrk_with_errors() {
    let outcome = read("wrk", "wrk/broken");
    assert_some(&outcome, &[("bad_statuses", 68_856.0, "1")]);
    assert!(outcome.warnings[0].contains("68856 of 68856"));
    assert!(refused("wrk", "wrk/refused").contains("Connection refused"));
    // wrk's own form of that line, from its source.
    let mut kept = Kept::of("wrk/plain");
    let errors = "  Socket errors: connect 1, read 20, write 0, timeout 300\nRequests/sec:";
    kept.stdout = kept.stdout.replace("Requests/sec:", errors);
    let outcome = kept.read("wrk").unwrap();
    assert_eq!(outcome.errors, 321);
    assert_some(&outcome, &[("errors_timeout", 300.0, "1"), ("errors_connect", 1.0, "1")]);
    kept.stdout = kept.stdout.replace("53714 requests", "0 requests");
    assert!(kept.read("wrk").unwrap_err().to_string().contains("connect 1, read 20"));
}

#[test]
fn oha_in_json() {
    let outcome = read("oha", "oha/json");
    assert_figures(
        &outcome,
        &[
            ("requests_per_second", 100.75993803698775, "1/s"),
            ("bad_statuses", 0.0, "1"),
            ("latency_mean", 0.0001316227821782178, "s"),
            ("latency_min", 0.000095666, "s"),
            ("latency_max", 0.000455935, "s"),
            ("throughput", 302_279.81411096326, "B/s"),
        ],
    );
    assert_done(&outcome, 101, "requests", 1.002382514);
    assert_eq!(outcome.percentiles.len(), 9);
    assert_eq!(outcome.percentiles[2].time, std::time::Duration::from_nanos(122_409));
    let broken = read("oha", "oha/broken_json");
    assert!(broken.warnings[0].contains("10 of 10 answers"));
}

#[test]
fn oha_in_text() {
    let outcome = read("oha", "oha/text");
    assert_figures(
        &outcome,
        &[
            ("requests_per_second", 200.0 / us(9416.0850), "1/s"),
            ("bad_statuses", 0.0, "1"),
            ("latency_mean", us(70.4844), "s"),
            ("latency_min", us(24.6080), "s"),
            ("latency_max", us(979.4490), "s"),
            ("throughput", 60.77 * MIB, "B/s"),
        ],
    );
    assert_done(&outcome, 200, "requests", us(9416.0850));
    assert_percentiles(
        &outcome,
        &[
            (10.0, us(33.1390)),
            (25.0, us(55.6660)),
            (50.0, us(56.4750)),
            (75.0, us(63.0530)),
            (90.0, us(76.9860)),
            (95.0, us(96.5540)),
            (99.0, us(653.5130)),
            (99.9, us(979.4490)),
            (99.99, us(979.4490)),
        ],
    );
}

#[test]
fn requests_of_oha_that_the_end_of_the_time_cut_off_are_no_errors() {
    let outcome = read("oha", "oha/deadline");
    assert_done(&outcome, 73_918, "requests", ms(1012.3329));
    assert_some(&outcome, &[("unfinished", 8.0, "1")]);
    assert_eq!(outcome.errors, 0);
    let outcome = read("oha", "oha/deadline_json");
    assert_done(&outcome, 77_642, "requests", 1.002162262);
    assert_some(&outcome, &[("unfinished", 8.0, "1")]);
    assert_eq!(outcome.errors, 0);
}

#[test]
fn what_oha_was_refused_is_no_request_a_second() {
    // It tells 15455 of them.
    for kept in ["oha/refused", "oha/refused_json"] {
        assert!(refused("oha", kept).contains("Connection refused"), "{kept}");
    }
    // Half of them: the rate is that of answers.
    let mut kept = Kept::of("oha/json");
    kept.stdout =
        kept.stdout.replace("\"errorDistribution\": {}", "\"errorDistribution\": {\"x\": 101}");
    let outcome = kept.read("oha").unwrap();
    assert_eq!(outcome.errors, 101);
    assert_some(&outcome, &[("requests_per_second", 101.0 / 1.002382514, "1/s")]);
}

#[test]
fn nightwatt_load_in_json() {
    let outcome = read("nightwatt-load", "nightwatt_load/load");
    assert_figures(
        &outcome,
        &[
            ("requests_per_second", 93.5, "1/s"),
            ("latency_mean", 0.000572462, "s"),
            ("latency_max", 0.005596285, "s"),
            ("service_time_mean", 0.000257184, "s"),
            ("service_time_max", 0.005471555, "s"),
            ("first_byte_mean", 0.000567808, "s"),
            ("first_byte_max", 0.005591093, "s"),
            ("send_lag_mean", 0.000315278, "s"),
            ("send_lag_max", 0.004112952, "s"),
            ("throughput", 561_000.0 / 2.0, "B/s"),
            ("bad_statuses", 0.0, "1"),
        ],
    );
    assert_done(&outcome, 187, "requests", 2.0);
    let expected =
        [(50.0, 0.000208895), (90.0, 0.002162687), (99.0, 0.005242879), (99.9, 0.005596285)];
    assert_percentiles(&outcome, &expected);
    assert!(outcome.warnings[0].contains("the client was the bottleneck"));
}

#[test]
fn nightwatt_load_without_answers_or_json() {
    assert!(refused("nightwatt-load", "nightwatt_load/refused").contains("48 refused"));
    assert!(refused("nightwatt-load", "nightwatt_load/text").contains("--json"));
    let text = "{\"schema\": 2}\n";
    let error = tool("nightwatt-load").unwrap().read(&Output::of(text)).unwrap_err();
    assert!(error.to_string().contains("only 1 is known"));
}
