//! ioping, fio and Bonnie++.

use std::time::Duration;

use crate::{
    GIB, KIB, Kept, MIB, assert_done, assert_figures, assert_some, micros, ms, ns, read, refused,
    us,
};

#[test]
fn ioping_tells_each_request() {
    let outcome = read("ioping", "ioping/requests");
    assert_figures(
        &outcome,
        &[
            ("iops", 6700.0, "1/s"),
            ("throughput", 26.2 * MIB, "B/s"),
            ("latency_min", us(134.4), "s"),
            ("latency_mean", us(149.2), "s"),
            ("latency_max", us(165.2), "s"),
            ("latency_sd", us(10.9), "s"),
        ],
    );
    // All five, and all of the time.
    assert_done(&outcome, 5, "requests", ms(40.3));
    // Without the warm-up.
    let expected = [149_200, 147_800, 165_200, 134_400].map(Duration::from_nanos);
    assert_eq!(outcome.responses, expected);

    let outcome = read("ioping", "ioping/write");
    assert_done(&outcome, 5, "requests", ms(43.9));
    assert_some(
        &outcome,
        &[
            ("iops", 363.0, "1/s"),
            ("throughput", 1.42 * MIB, "B/s"),
            ("latency_max", ms(3.76), "s"),
        ],
    );
    assert_eq!(outcome.responses, micros(&[1740, 3760, 1740, 3750]));
}

#[test]
fn ioping_may_tell_the_sum_alone() {
    let outcome = read("ioping", "ioping/quiet");
    assert_done(&outcome, 10, "requests", us(763.9));
    assert_some(&outcome, &[("iops", 14_600.0, "1/s"), ("latency_sd", us(5.95), "s")]);
    assert!(outcome.responses.is_empty() && outcome.warnings.is_empty());

    let outcome = read("ioping", "ioping/rate");
    assert_done(&outcome, 10_000, "requests", 1.0);
    assert_some(
        &outcome,
        &[
            ("iops", 10_300.0, "1/s"),
            ("throughput", 40.3 * MIB, "B/s"),
            ("latency_min", us(51.5), "s"),
            ("latency_mean", us(97.0), "s"),
            ("latency_max", ms(5.27), "s"),
            ("latency_sd", us(261.7), "s"),
        ],
    );
    assert!(outcome.warnings[0].contains("rounded (10.0 k)"), "{:?}", outcome.warnings);
}

#[test]
fn ioping_for_machines() {
    let outcome = read("ioping", "ioping/batch");
    assert_figures(
        &outcome,
        &[
            ("iops", 14_027.0, "1/s"),
            ("throughput", 57_455_195.0, "B/s"),
            ("latency_min", ns(67_615.0), "s"),
            ("latency_mean", ns(71_290.0), "s"),
            ("latency_max", ns(77_339.0), "s"),
            ("latency_sd", ns(3497.0), "s"),
        ],
    );
    assert_done(&outcome, 10, "requests", ns(822_140.0));

    let outcome = read("ioping", "ioping/json");
    assert_figures(
        &outcome,
        &[
            ("iops", 8128.346593, "1/s"),
            ("throughput", 33_293_708.0, "B/s"),
            ("latency_min", ns(96_186.0), "s"),
            ("latency_mean", ns(123_026.0), "s"),
            ("latency_max", ns(138_849.0), "s"),
            ("latency_sd", ns(16_301.0), "s"),
        ],
    );
    assert_done(&outcome, 5, "requests", ns(40_360_011.0));
    let expected = [138_849, 124_569, 132_501, 96_186].map(Duration::from_nanos);
    assert_eq!(outcome.responses, expected);
    assert!(refused("ioping", "ioping/missing").contains("No such file or directory"));
}

#[test]
fn fio_in_its_text() {
    let outcome = read("fio", "fio/read");
    let iops = 51_169.0 / 1.001;
    let throughput = 200.0 * MIB / 1.001;
    assert_figures(
        &outcome,
        &[
            ("iops", iops, "1/s"),
            ("throughput", throughput, "B/s"),
            ("read_iops", iops, "1/s"),
            ("read_throughput", throughput, "B/s"),
            ("read_latency_min", ns(337.0), "s"),
            ("read_latency_mean", ns(38_406.15), "s"),
            ("read_latency_max", ns(5_097_400.0), "s"),
            ("read_latency_p50", ns(35_584.0), "s"),
            ("read_latency_p90", ns(83_456.0), "s"),
            ("read_latency_p99", ns(136_192.0), "s"),
            ("read_latency_p99_9", ns(1_974_272.0), "s"),
        ],
    );
    assert_done(&outcome, 51_169, "reads and writes", 1.001);
    assert_eq!(outcome.percentiles.len(), 17);
    let last = outcome.percentiles.last().unwrap();
    assert_eq!(last.time, Duration::from_nanos(4_227_072));
    // fio itself says 51.1k and 209 MB/s.
    assert!((iops / 51_100.0 - 1.0).abs() < 1e-3 && (throughput / 209e6 - 1.0).abs() < 3e-3);
}

#[test]
fn jobs_of_fio_that_run_at_the_same_time_are_added_up() {
    let outcome = read("fio", "fio/mixed");
    // 38 and 40 ms; 707 + 714 reads, 317 + 310 writes; the means by their numbers.
    assert_done(&outcome, 2048, "reads and writes", ms(40.0));
    assert_figures(
        &outcome,
        &[
            ("iops", 2048.0 / 0.040, "1/s"),
            ("throughput", (2828.0 + 2856.0 + 1268.0 + 1240.0) * KIB / 0.040, "B/s"),
            ("read_iops", 1421.0 / 0.040, "1/s"),
            ("read_throughput", 5684.0 * KIB / 0.040, "B/s"),
            ("read_latency_min", ns(496.0), "s"),
            ("read_latency_mean", ns((707.0 * 50_600.30 + 714.0 * 52_260.63) / 1421.0), "s"),
            ("read_latency_max", ns(4_590_300.0), "s"),
            ("write_iops", 627.0 / 0.040, "1/s"),
            ("write_throughput", 2508.0 * KIB / 0.040, "B/s"),
            ("write_latency_min", ns(858.0), "s"),
            ("write_latency_mean", ns((317.0 * 3134.55 + 310.0 * 6762.87) / 627.0), "s"),
            ("write_latency_max", ns(127_619.0), "s"),
        ],
    );
    assert!(outcome.percentiles.is_empty(), "percentiles of two jobs are none of both");
    assert!(outcome.warnings[0].contains("milliseconds"));

    let outcome = read("fio", "fio/jobs");
    assert_done(&outcome, 128, "reads and writes", ms(70.0));
    assert_some(
        &outcome,
        &[
            ("write_iops", 3200.0, "1/s"),
            ("read_iops", 64.0 / 0.070, "1/s"),
            ("write_throughput", 4096.0 * KIB / 0.020, "B/s"),
            ("write_latency_mean", us(295.40), "s"),
            ("write_latency_p99", us(4146.0), "s"),
            ("read_latency_min", us(5.0), "s"),
            ("read_latency_p50", us(139.0), "s"),
        ],
    );
}

#[test]
fn what_fio_tells_besides_is_not_mixed_in() {
    let mut kept = Kept::of("fio/read");
    let plain = kept.read("fio").unwrap();
    // Percentiles of the whole latency come after those of its parts; and a side that did nothing.
    let row = "     | 50.00th=[ 1000], 99.00th=[ 2000]\n";
    let others = format!("    slat percentiles (usec):\n{row}    lat percentiles (usec):\n{row}");
    let none = "  write: IOPS=0, BW=0B/s (0B/s)(0B/1001msec); 0 zone resets\n";
    kept.stdout = kept.stdout.replace("   bw (  KiB/s)", &format!("{others}   bw (  KiB/s)"));
    kept.stdout = kept.stdout.replacen("  cpu  ", &format!("{none}  cpu  "), 1);
    let outcome = kept.read("fio").unwrap();
    assert_some(
        &outcome,
        &[("read_latency_p50", ms(1.0), "s"), ("read_latency_p99", ms(2.0), "s")],
    );
    assert_eq!((outcome.percentiles.len(), &outcome.operations), (2, &plain.operations));
    assert!(outcome.figure("write_iops").is_none());
}

#[test]
fn groups_of_fio_come_after_each_other() {
    let mut kept = Kept::of("fio/jobs");
    kept.stdout = kept.stdout.replace("b: (groupid=0", "b: (groupid=1");
    assert_done(&kept.read("fio").unwrap(), 128, "reads and writes", ms(90.0));
}

#[test]
fn fio_in_json() {
    let outcome = read("fio", "fio/mixed_json");
    assert_done(&outcome, 2048, "reads and writes", ms(38.0));
    let read_mean = (707.0 * 51_167.913720 + 714.0 * 50_874.535014) / 1421.0;
    let write_mean = (317.0 * 2732.085174 + 310.0 * 2299.241935) / 627.0;
    assert_figures(
        &outcome,
        &[
            ("iops", 2048.0 / 0.038, "1/s"),
            ("throughput", (2_895_872.0 + 2_924_544.0 + 1_298_432.0 + 1_269_760.0) / 0.038, "B/s"),
            ("read_iops", 1421.0 / 0.038, "1/s"),
            ("read_throughput", (2_895_872.0 + 2_924_544.0) / 0.038, "B/s"),
            ("read_latency_min", ns(514.0), "s"),
            ("read_latency_mean", ns(read_mean), "s"),
            ("read_latency_max", ns(3_930_409.0), "s"),
            ("write_iops", 627.0 / 0.038, "1/s"),
            ("write_throughput", (1_298_432.0 + 1_269_760.0) / 0.038, "B/s"),
            ("write_latency_min", ns(842.0), "s"),
            ("write_latency_mean", ns(write_mean), "s"),
            ("write_latency_max", ns(62_186.0), "s"),
        ],
    );
    let outcome = read("fio", "fio/read_json");
    assert_done(&outcome, 49_754, "reads and writes", 1.001);
    assert_some(
        &outcome,
        // fio's own figures.
        &[("read_iops", 49_704.295704, "1/s"), ("read_throughput", 203_792_384.0 / 1.001, "B/s")],
    );
}

#[test]
fn reports_of_fio_in_between_are_not_taken_for_the_last() {
    for name in ["fio/mixed", "fio/mixed_json"] {
        let mut kept = Kept::of(name);
        kept.stdout = format!("{0}{0}", kept.stdout);
        let error = kept.read("fio").unwrap_err().to_string();
        assert!(error.contains("several reports"), "{error}");
    }
    let mut kept = Kept::of("fio/mixed_json");
    kept.stdout = kept.stdout.replace("fio-3.33", "fio-2.16");
    assert!(kept.read("fio").unwrap_err().to_string().contains("`fio-2.16`"));
}

#[test]
fn jobs_of_fio_that_failed_give_no_figures() {
    for failed in ["fio/full", "fio/full_json", "fio/refused"] {
        let error = refused("fio", failed);
        assert!(error.contains("it failed, and said"), "{failed}: {error}");
    }
    assert!(refused("fio", "fio/unknown").contains("unrecognized option"));
}

#[test]
fn bonnie_tells_what_was_slow_enough() {
    let outcome = read("bonnie++", "bonnie/full");
    // By its CSV; rates in KiB.
    assert_figures(
        &outcome,
        &[
            ("char_output", 1559.0 * KIB, "B/s"),
            ("char_output_cpu", 40.0, "%"),
            ("char_output_latency_max", us(42_150.0), "s"),
            ("block_output", 311_924.0 * KIB, "B/s"),
            ("block_output_cpu", 42.0, "%"),
            ("block_output_latency_max", us(9936.0), "s"),
            ("rewrite", 1_051_239.0 * KIB, "B/s"),
            ("rewrite_cpu", 31.0, "%"),
            ("rewrite_latency_max", us(12_094.0), "s"),
            ("char_input", 2488.0 * KIB, "B/s"),
            ("char_input_cpu", 46.0, "%"),
            ("char_input_latency_max", us(13_618.0), "s"),
            ("block_input_latency_max", us(8030.0), "s"),
            ("seeks", 11_070.0, "1/s"),
            ("seeks_cpu", 34.0, "%"),
            ("seeks_latency_max", us(8521.0), "s"),
            ("create_sequential", 20_673.0, "1/s"),
            ("create_sequential_cpu", 46.0, "%"),
            ("create_sequential_latency_max", us(12_109.0), "s"),
            ("stat_sequential_latency_max", us(12_073.0), "s"),
            ("delete_sequential_latency_max", us(12_054.0), "s"),
            ("create_random_latency_max", us(8076.0), "s"),
            ("stat_random_latency_max", us(4070.0), "s"),
            ("delete_random_latency_max", us(8078.0), "s"),
            ("concurrency", 1.0, "1"),
            ("file_size", 1500.0 * MIB, "B"),
            ("files", 20.0 * 1024.0, "1"),
        ],
    );
    assert!(outcome.operations.is_none() && outcome.warnings.len() == 1);
    let warning = &outcome.warnings[0];
    assert!(warning.contains("block_input, stat_sequential") && !warning.contains("rewrite"));
}

#[test]
fn bonnie_without_csv_is_read_from_its_table() {
    let mut kept = Kept::of("bonnie/full");
    let end = kept.stdout.find("1.98,").unwrap();
    kept.stdout.truncate(end);
    assert_some(
        &kept.read("bonnie++").unwrap(),
        &[
            ("char_output", 1559.0 * KIB, "B/s"),
            ("block_output", 305.0 * MIB, "B/s"),
            ("rewrite", 1.0 * GIB, "B/s"),
            ("rewrite_cpu", 31.0, "%"),
            ("seeks", 11_070.0, "1/s"),
            ("create_sequential", 20_480.0, "1/s"),
            ("create_random_latency_max", us(8076.0), "s"),
            ("file_size", 1500.0 * MIB, "B"),
            ("files", 20_480.0, "1"),
        ],
    );
}

#[test]
fn bonnie_may_leave_tests_out() {
    let files = read("bonnie++", "bonnie/files");
    assert_some(&files, &[("stat_random_latency_max", us(5.0), "s"), ("files", 2048.0, "1")]);
    assert!(files.figure("block_output_latency_max").is_none());
    assert!(files.warnings[0].contains("create_sequential"));
    // `-q`: CSV alone in the output, the table among the errors.
    let quiet = read("bonnie++", "bonnie/quiet");
    assert_some(&quiet, &[("char_output", 1907.0 * KIB, "B/s"), ("char_input_cpu", 46.0, "%")]);
    assert!(quiet.figure("files").is_none());
    assert!(refused("bonnie++", "bonnie/root").contains("no table or line of CSV"));
}

#[test]
fn a_line_of_bonnie_that_is_not_whole_is_refused() {
    let kept = Kept::of("bonnie/full");
    let line = kept.stdout.lines().last().unwrap().to_owned();
    for damaged in [line.replacen(",1559", "", 1), line.replacen("1.98,", "2.10,", 1)] {
        let kept = Kept { stdout: format!("{damaged}\n"), ..kept.clone() };
        let error = kept.read("bonnie++").unwrap_err().to_string();
        assert!(error.contains("49 fields") || error.contains("no table"), "{error}");
    }
    let twice = Kept { stdout: format!("{line}\n{line}\n"), ..kept };
    assert!(twice.read("bonnie++").unwrap().warnings.iter().any(|it| it.contains("of 2 runs")));
}
