//! sysbench, stress-ng, and nothing at all. (Linpack and MFLOPS are among the published samples.)

use nightwatt_workloads::{Output, tool};

use crate::{
    KIB, Kept, MIB, assert_done, assert_figures, assert_percentiles, assert_some, ms, read, refused,
};

#[test]
fn sysbench_on_the_processor() {
    let outcome = read("sysbench", "sysbench/cpu");
    assert_figures(
        &outcome,
        &[
            ("total_time", 1.0040, "s"),
            ("events_per_second", 28_182.05, "1/s"),
            ("latency_min", ms(0.03), "s"),
            ("latency_mean", ms(0.07), "s"),
            ("latency_max", ms(28.08), "s"),
            ("threads", 2.0, "1"),
        ],
    );
    assert_done(&outcome, 28_330, "events", 1.0040);
    assert_percentiles(&outcome, &[(95.0, ms(0.04))]);
    assert!(outcome.warnings.is_empty());

    // With lines of progress; with a histogram.
    assert_done(&read("sysbench", "sysbench/report"), 38_246, "events", 2.0077);
    let outcome = read("sysbench", "sysbench/cpu_histogram");
    assert_done(&outcome, 500, "events", 0.0392);
    assert_percentiles(&outcome, &[(99.0, ms(0.07))]);
    assert!(outcome.warnings[0].contains("so short"));
}

#[test]
fn sysbench_on_memory_and_files() {
    let outcome = read("sysbench", "sysbench/memory");
    assert_figures(
        &outcome,
        &[
            ("total_time", 0.0113, "s"),
            ("events_per_second", 5_219_701.60, "1/s"),
            ("throughput", 5097.36 * MIB, "B/s"),
            ("latency_min", 0.0, "s"),
            ("latency_mean", 0.0, "s"),
            ("latency_max", ms(4.10), "s"),
            ("threads", 2.0, "1"),
        ],
    );
    assert_done(&outcome, 65_536, "events", 0.0113);
    assert!(outcome.warnings.iter().any(|it| it.contains("shorter than that")));

    let outcome = read("sysbench", "sysbench/fileio");
    assert_figures(
        &outcome,
        &[
            ("total_time", 1.0089, "s"),
            ("reads_per_second", 10_823.41, "1/s"),
            ("writes_per_second", 7215.93, "1/s"),
            ("fsyncs_per_second", 728.62, "1/s"),
            ("read_throughput", 169.12 * MIB, "B/s"),
            ("write_throughput", 112.75 * MIB, "B/s"),
            ("events_per_second", 18_950.0 / 1.0089, "1/s"),
            ("latency_min", 0.0, "s"),
            ("latency_mean", ms(0.11), "s"),
            ("latency_max", ms(10.56), "s"),
            ("threads", 2.0, "1"),
        ],
    );
}

#[test]
fn sysbench_on_threads_mutexes_and_databases() {
    let outcome = read("sysbench", "sysbench/threads");
    assert_done(&outcome, 1740, "events", 1.0002);
    assert_some(&outcome, &[("events_per_second", 1740.0 / 1.0002, "1/s")]);
    assert!(read("sysbench", "sysbench/mutex").warnings[0].contains("so short"));

    let outcome = read("sysbench", "sysbench/oltp");
    assert_figures(
        &outcome,
        &[
            ("total_time", 1.0132, "s"),
            ("events_per_second", 10.0 / 1.0132, "1/s"),
            ("transactions_per_second", 9.86, "1/s"),
            ("queries_per_second", 212.96, "1/s"),
            ("latency_min", ms(1.02), "s"),
            ("latency_mean", ms(202.02), "s"),
            ("latency_max", ms(1005.76), "s"),
            ("threads", 2.0, "1"),
        ],
    );
    assert_done(&outcome, 10, "transactions", 1.0132);
    assert_eq!(outcome.errors, 1);
    assert!(refused("sysbench", "sysbench/missing").contains("Cannot open file"));
    assert!(refused("sysbench", "sysbench/oltp_refused").contains("Connection to database failed"));
}

#[test]
fn stress_ng_by_its_table() {
    let outcome = read("stress-ng", "stress_ng/brief");
    assert_figures(
        &outcome,
        &[
            ("time", 2.00, "s"),
            ("cpu_user", 0.94, "s"),
            ("cpu_system", 0.00, "s"),
            ("bogo_ops_per_second", 2446.01, "1/s"),
            ("bogo_ops_per_cpu_second", 5187.64, "1/s"),
        ],
    );
    assert_done(&outcome, 4896, "bogo operations", 2.00);
    let mut kept = Kept::of("stress_ng/metrics");
    kept.files.clear();
    let outcome = kept.read("stress-ng").unwrap();
    assert_figures(
        &outcome,
        &[
            ("time", 1.00, "s"),
            ("cpu_user", 0.45, "s"),
            ("cpu_system", 0.00, "s"),
            ("bogo_ops_per_second", 1515.45, "1/s"),
            ("bogo_ops_per_cpu_second", 3337.43, "1/s"),
            ("cpu_share_of_an_instance", 45.41, "%"),
            ("memory_max", 2980.0 * KIB, "B"),
        ],
    );
    assert!(refused("stress-ng", "stress_ng/none").contains("--metrics"));
    assert!(refused("stress-ng", "stress_ng/unknown").contains("unrecognized option"));
}

#[test]
fn stress_ng_by_its_yaml() {
    let outcome = read("stress-ng", "stress_ng/metrics");
    assert_figures(
        &outcome,
        &[
            ("time", 1.000363, "s"),
            ("cpu_user", 0.454242, "s"),
            ("cpu_system", 0.0, "s"),
            ("bogo_ops_per_second", 1515.449723, "1/s"),
            ("bogo_ops_per_cpu_second", 3337.428067, "1/s"),
            ("cpu_share_of_an_instance", 45.407712, "%"),
            ("memory_max", 2980.0 * KIB, "B"),
        ],
    );
    assert_done(&outcome, 1516, "bogo operations", 1.000363);
}

#[test]
fn stress_ng_may_write_its_yaml_among_its_messages_and_doubt_itself() {
    let plain = read("stress-ng", "stress_ng/several");
    let mut mixed = Kept::of("stress_ng/several");
    let (messages, yaml) = (mixed.stderr.clone(), mixed.files.remove(0));
    let mut lines = messages.lines();
    mixed.stdout = yaml
        .lines()
        .flat_map(|line| [Some(line), lines.next()])
        .flatten()
        .fold(String::new(), |all, line| all + line + "\n");
    mixed.stderr.clear();
    assert_eq!(mixed.read("stress-ng").unwrap(), plain);
    // Two lines of version 0.17.
    mixed.stdout += "stress-ng: info:  [1566] failed: 0\n\
        stress-ng: info:  [1566] metrics untrustworthy: 2: cpu (2)\n";
    let warnings = mixed.read("stress-ng").unwrap().warnings;
    assert!(warnings.len() == 2 && warnings[1].contains("untrustworthy"), "{warnings:?}");
}

#[test]
fn stressors_of_different_kinds_are_not_added_up() {
    let outcome = read("stress-ng", "stress_ng/several");
    assert!(outcome.operations.is_none() && outcome.warnings[0].contains("not added up"));
    assert_some(
        &outcome,
        &[
            ("matrix_bogo_ops", 1132.0, "1"),
            ("switch_bogo_ops", 132_258.0, "1"),
            ("switch_bogo_ops_per_second", 131_697.244013, "1/s"),
        ],
    );
    assert!(outcome.figure("bogo_ops_per_second").is_none());
}

#[test]
fn nothing_is_read_from_nothing() {
    let idle =
        |stderr| tool("idle").unwrap().read(&Output { stderr, ..Output::default() }).unwrap();
    let outcome = idle("");
    assert!(outcome.figures.is_empty() && outcome.duration.is_none());
    assert!(outcome.operations.is_none() && outcome.warnings.is_empty());
    // Under `time`: of bash, and of POSIX.
    assert_figures(&idle("\nreal\t1m0.004s\nuser\t0m0.000s\n"), &[("time", 60.004, "s")]);
    assert_figures(&idle("real 60.00\nuser 0.00\nsys 0.00\n"), &[("time", 60.0, "s")]);
    for kept in ["idle/bash_time", "idle/time_p"] {
        assert_figures(&read("idle", kept), &[("time", 0.0, "s")]);
    }
}
