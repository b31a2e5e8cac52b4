//! pgbench.

use nightwatt_workloads::Output;

use crate::{Kept, assert_done, assert_figures, assert_some, micros, ms, read, refused};

#[test]
fn a_run_of_some_time() {
    let outcome = read("pgbench", "pgbench/duration");
    assert_figures(
        &outcome,
        &[
            ("tps", 4545.570520, "1/s"),
            ("latency_mean", ms(0.880), "s"),
            ("connection_time", ms(13.299), "s"),
            ("failed", 0.0, "1"),
            ("scale", 1.0, "1"),
            ("clients", 4.0, "1"),
            ("threads", 2.0, "1"),
        ],
    );
    // Measured, and not the `duration: 2 s` that was asked for.
    assert_done(&outcome, 9086, "transactions", 9086.0 / 4545.570520);
    assert_eq!((outcome.errors, outcome.warnings.len()), (0, 0));
    assert!((outcome.per_second().unwrap() - 4545.570520).abs() < 1e-3);
}

#[test]
fn a_run_of_some_transactions() {
    let outcome = read("pgbench", "pgbench/count");
    assert_done(&outcome, 100, "transactions", 100.0 / 2201.576329);
    assert_some(&outcome, &[("latency_mean", ms(0.908), "s"), ("connection_time", ms(5.867), "s")]);
}

#[test]
fn a_run_with_progress_and_latencies_of_statements() {
    let outcome = read("pgbench", "pgbench/progress");
    assert_done(&outcome, 6316, "transactions", 6316.0 / 3170.213247);
    assert_some(
        &outcome,
        &[
            ("tps", 3170.213247, "1/s"),
            ("latency_mean", ms(0.627), "s"),
            ("latency_sd", ms(0.994), "s"),
            ("statement_1_latency", 0.0, "s"),
            ("statement_5_latency", ms(0.042), "s"),
            ("statement_9_latency", ms(0.150), "s"),
            ("statement_11_latency", ms(0.089), "s"),
            ("statement_11_failures", 0.0, "1"),
        ],
    );
    // Progress may be written between the lines of the report.
    let mut mixed = Kept::of("pgbench/progress");
    mixed.stdout = format!("{}{}", mixed.stderr, mixed.stdout);
    assert_eq!(mixed.read("pgbench").unwrap(), outcome);
}

#[test]
fn a_run_at_a_rate() {
    let outcome = read("pgbench", "pgbench/rate");
    assert_some(
        &outcome,
        &[
            ("latency_mean", ms(1.078), "s"),
            ("latency_sd", ms(1.229), "s"),
            ("schedule_lag_mean", ms(0.195), "s"),
            ("schedule_lag_max", ms(4.293), "s"),
            ("skipped", 0.0, "1"),
            ("late", 4.0, "1"),
        ],
    );
}

#[test]
fn a_run_that_connects_each_time() {
    let outcome = read("pgbench", "pgbench/connect");
    assert_done(&outcome, 40, "transactions", 40.0 / 280.428214);
    assert_some(&outcome, &[("connection_time_mean", ms(3.427), "s")]);
}

#[test]
fn failed_transactions_are_errors_and_do_not_count() {
    let outcome = read("pgbench", "pgbench/failed");
    assert_done(&outcome, 7629, "transactions", 7629.0 / 3847.787207);
    assert_eq!(outcome.errors, 6544);
    assert_some(
        &outcome,
        &[
            ("failed", 6544.0, "1"),
            ("serialization_failures", 6544.0, "1"),
            ("deadlock_failures", 0.0, "1"),
            ("latency_mean", ms(0.560), "s"),
            ("statement_3_latency", ms(0.075), "s"),
            ("statement_3_failures", 6544.0, "1"),
        ],
    );
    assert!(outcome.warnings[0].contains("includes failed"), "{:?}", outcome.warnings);
}

#[test]
fn scripts_have_figures_of_their_own() {
    assert_figures(
        &read("pgbench", "pgbench/scripts"),
        &[
            ("tps", 5541.394215, "1/s"),
            ("latency_mean", ms(0.361), "s"),
            ("connection_time", ms(13.536), "s"),
            ("failed", 0.0, "1"),
            ("scale", 1.0, "1"),
            ("clients", 2.0, "1"),
            ("threads", 1.0, "1"),
            ("script_1_transactions", 44.0, "1"),
            ("script_1_tps", 1219.106727, "1/s"),
            ("script_1_latency_mean", ms(0.733), "s"),
            ("script_1_latency_sd", ms(0.958), "s"),
            ("script_2_transactions", 156.0, "1"),
            ("script_2_tps", 4322.287488, "1/s"),
            ("script_2_latency_mean", ms(0.205), "s"),
            ("script_2_latency_sd", ms(0.651), "s"),
        ],
    );
}

#[test]
fn the_log_tells_the_time_of_every_transaction() {
    let outcome = read("pgbench", "pgbench/log");
    let expected = [
        1401, 1732, 409, 186, 211, 762, 2177, 2459, 669, 540, 498, 319, 559, 272, 259, 6323, 663,
        508, 483, 493,
    ];
    assert_eq!(outcome.responses, micros(&expected));
    assert!(outcome.warnings.is_empty());
    // 18 of 20 are within 2.2 ms.
    let within = outcome.answered_within(std::time::Duration::from_micros(2200)).unwrap();
    assert!((within - 0.9).abs() < 1e-12);
    // A log of a sample, and one that was cut off.
    let mut kept = Kept::of("pgbench/log");
    kept.files =
        vec!["0 1 1401 0 1795380879 697613\n0 2 skipped 0 1795380879 7\n0 3 40\n".to_owned()];
    let outcome = kept.read("pgbench").unwrap();
    assert_eq!(outcome.responses, micros(&[1401]));
    let warnings = outcome.warnings.join("\n");
    assert!(warnings.contains("1 lines of the logs") && warnings.contains("1 response times"));
}

#[test]
fn a_log_of_sums_is_none_of_transactions() {
    // The example of PostgreSQL's manual for --aggregate-interval.
    let mut kept = Kept::of("pgbench/log");
    kept.files = vec!["1345828501 5601 1542744 483552416 61 2573\n".to_owned()];
    let outcome = kept.read("pgbench").unwrap();
    assert!(outcome.responses.is_empty());
    assert!(outcome.warnings[0].contains("--aggregate-interval"));
}

#[test]
fn older_versions_tell_two_rates_and_the_one_without_connecting_counts() {
    // The example of the manual of PostgreSQL 9.6.
    let text = "transaction type: <builtin: TPC-B (sort of)>\nscaling factor: 10\nquery mode: simple\n\
        number of clients: 10\nnumber of threads: 1\nnumber of transactions per client: 1000\n\
        number of transactions actually processed: 10000/10000\ntps = 85.184871 (including connections \
        establishing)\ntps = 85.296346 (excluding connections establishing)\n";
    let outcome = nightwatt_workloads::tool("pgbench").unwrap().read(&Output::of(text)).unwrap();
    assert_done(&outcome, 10_000, "transactions", 10_000.0 / 85.296346);
    assert_some(&outcome, &[("tps", 85.296346, "1/s")]);
}

#[test]
fn a_run_that_did_nothing_gives_no_figures() {
    assert!(refused("pgbench", "pgbench/refused").contains("could not create connection"));
    for aborted in ["pgbench/broken", "pgbench/none"] {
        let error = refused("pgbench", aborted);
        assert!(error.contains("did no transaction") && error.contains("aborted"), "{error}");
    }
    let mut aborted = Kept::of("pgbench/count");
    aborted.stdout = aborted.stdout.replace("100/100", "60/100");
    aborted.stderr =
        "pgbench: error: Run was aborted; the above results are incomplete.\n".to_owned();
    let warnings = aborted.read("pgbench").unwrap().warnings;
    assert!(warnings[0].contains("60 of 100") && warnings[1].contains("aborted"), "{warnings:?}");
}
