//! The published samples, read where they lie: beside the folder of logs that `NIGHTWATT_DATA` names.

use std::path::PathBuf;
use std::time::Duration;

use nightwatt_workloads::{Outcome, Output, tool};

use crate::{GIB, KIB, assert_done, assert_figures, manifest_dir, micros, ms, us};

fn samples() -> Option<PathBuf> {
    let root = manifest_dir().join("../..");
    let data = std::env::var_os("NIGHTWATT_DATA")
        .map_or_else(|| root.join("../shared/data"), |data| root.join(data));
    let samples = data.join("../published/samples");
    if samples.is_dir() {
        return Some(samples);
    }
    println!("skipped: there are no published samples in {}", samples.display());
    None
}

/// A sample that is missing in a folder that is there is a failure.
fn sample(file: &str) -> Option<String> {
    let path = samples()?.join(file);
    let text = std::fs::read_to_string(&path);
    Some(text.unwrap_or_else(|error| panic!("{}: {error}", path.display())))
}

fn read(name: &str, text: &str) -> Outcome {
    tool(name).unwrap().read(&Output::of(text)).unwrap()
}

#[test]
fn all_figures_of_the_bonnie_sample() {
    let Some(text) = sample("bonnie++.txt") else { return };
    let outcome = read("bonnie++", &text);
    let common = [
        ("char_output", 881.0 * KIB, "B/s"),
        ("char_output_cpu", 97.0, "%"),
        ("char_output_latency_max", us(9274.0), "s"),
        ("block_output", 104_951.0 * KIB, "B/s"),
        ("block_output_cpu", 7.0, "%"),
        ("block_output_latency_max", ms(603.0), "s"),
        ("rewrite", 37_805.0 * KIB, "B/s"),
        ("rewrite_cpu", 5.0, "%"),
        ("rewrite_latency_max", ms(1908.0), "s"),
        ("char_input", 3823.0 * KIB, "B/s"),
        ("char_input_cpu", 94.0, "%"),
        ("char_input_latency_max", us(9699.0), "s"),
        ("block_input", 124_686.0 * KIB, "B/s"),
        ("block_input_cpu", 10.0, "%"),
        ("block_input_latency_max", us(25_248.0), "s"),
        ("seeks", 233.5, "1/s"),
        ("seeks_cpu", 5.0, "%"),
        ("seeks_latency_max", ms(2139.0), "s"),
        ("create_sequential", 49_167.0, "1/s"),
        ("create_sequential_cpu", 61.0, "%"),
        ("create_sequential_latency_max", ms(653.0), "s"),
        ("stat_sequential", 725_102.0, "1/s"),
        ("stat_sequential_cpu", 99.0, "%"),
        ("stat_sequential_latency_max", us(442.0), "s"),
        ("delete_sequential", 1095.0, "1/s"),
        ("delete_sequential_cpu", 1.0, "%"),
        ("delete_sequential_latency_max", ms(17_804.0), "s"),
        ("create_random", 51_502.0, "1/s"),
        ("create_random_cpu", 61.0, "%"),
        ("create_random_latency_max", ms(641.0), "s"),
        // Too fast: `+++++`.
        ("stat_random_latency_max", us(12.0), "s"),
        ("delete_random", 1135.0, "1/s"),
        ("delete_random_cpu", 1.0, "%"),
        ("delete_random_latency_max", ms(16_109.0), "s"),
        ("concurrency", 1.0, "1"),
        ("file_size", 4.0 * GIB, "B"),
        ("files", 400.0 * 1024.0, "1"),
    ];
    assert_figures(&outcome, &common);
    // From 15:49:59 to 16:06:19.
    assert_eq!(outcome.duration, Some(Duration::from_secs(16 * 60 + 20)));
    assert_eq!(outcome.warnings.len(), 1);
    assert!(outcome.warnings[0].starts_with("stat_random were too fast"));
    // Its table says the same as its CSV.
    let table: Vec<&str> = text.lines().filter(|line| !line.contains(",,")).collect();
    let table: Vec<&str> = table.into_iter().filter(|line| !line.contains("us,")).collect();
    assert_figures(&read("bonnie++", &(table.join("\n") + "\n")), &common);
}

#[test]
fn all_figures_of_the_httperf_sample() {
    let Some(text) = sample("httperf_modified.txt") else { return };
    let outcome = read("httperf", &text);
    assert_figures(
        &outcome,
        &[
            ("replies_per_second", 33_424.0 / 3343.301, "1/s"),
            ("connections", 33_434.0, "1"),
            ("requests", 33_434.0, "1"),
            ("connect_burst_max", 1.0, "1"),
            ("connections_per_second", 10.0, "1/s"),
            ("concurrent_connections_max", 83.0, "1"),
            ("connection_time_min", ms(0.3), "s"),
            ("connection_time_mean", ms(59.6), "s"),
            ("connection_time_max", ms(13_380.1), "s"),
            ("connection_time_median", ms(0.5), "s"),
            ("connection_time_sd", ms(399.5), "s"),
            ("connect_time_mean", ms(0.2), "s"),
            ("replies_per_connection", 1.0, "1"),
            ("requests_per_second", 10.0, "1/s"),
            ("request_size", 96.0, "B"),
            ("reply_rate_min", 1.0, "1/s"),
            ("reply_rate_mean", 10.0, "1/s"),
            ("reply_rate_max", 17.0, "1/s"),
            ("reply_rate_sd", 0.6, "1/s"),
            ("reply_rate_samples", 668.0, "1"),
            ("response_time_mean", ms(30.1), "s"),
            ("transfer_time_mean", ms(29.3), "s"),
            ("reply_header_size", 217.0, "B"),
            ("reply_content_size", 5057.0, "B"),
            ("reply_footer_size", 0.0, "B"),
            ("reply_size", 5274.0, "B"),
            ("status_1xx", 0.0, "1"),
            ("status_2xx", 31_781.0, "1"),
            ("status_3xx", 2.0, "1"),
            ("status_4xx", 1641.0, "1"),
            ("status_5xx", 0.0, "1"),
            ("bad_statuses", 1641.0, "1"),
            ("cpu_user", 799.43, "s"),
            ("cpu_system", 2542.73, "s"),
            ("cpu_user_share", 23.9, "%"),
            ("cpu_system_share", 76.1, "%"),
            ("cpu_share", 100.0, "%"),
            ("throughput", 52.4 * KIB, "B/s"),
            ("errors_client_timo", 10.0, "1"),
            ("errors_socket_timo", 0.0, "1"),
            ("errors_connrefused", 0.0, "1"),
            ("errors_connreset", 0.0, "1"),
            ("errors_fd_unavail", 0.0, "1"),
            ("errors_addrunavail", 0.0, "1"),
            ("errors_ftab_full", 0.0, "1"),
            ("errors_other", 0.0, "1"),
        ],
    );
    assert_done(&outcome, 33_424, "requests", 3343.301);
    assert_eq!(outcome.errors, 10);
    assert_eq!(outcome.responses, micros(&[737_685, 735_838, 559, 3730]));
    // The sample has four of its lines, and `...` for the others.
    assert!(outcome.warnings[1].starts_with("4 response times are listed of 33424"));
    // All of the listed ones are within 10 s, and ten of 33434 requests timed out.
    let within = outcome.answered_within(Duration::from_secs(10)).unwrap();
    assert!((within - 33_424.0 / 33_434.0).abs() < 1e-12);
}

#[test]
fn all_figures_of_the_iperf_sample() {
    let Some(text) = sample("iperf2.txt") else { return };
    let outcome = read("iperf2", &text);
    assert_figures(&outcome, &[("throughput", 942e6, "bit/s")]);
    assert_done(&outcome, (65.8 * GIB).round() as u64, "bytes", 600.1);
}

#[test]
fn all_figures_of_the_linpack_sample() {
    let Some(text) = sample("linpack.txt") else { return };
    let outcome = read("linpack", &text);
    assert_figures(
        &outcome,
        &[
            ("speed", 1879.49e6, "FLOP/s"),
            ("equations", 100.0, "1"),
            ("clock_min", 2261e6, "Hz"),
            ("clock_max", 2261e6, "Hz"),
            ("cpus", 8.0, "1"),
            ("cpus_configured", 8.0, "1"),
            ("memory", 7.07 * GIB, "B"),
            ("page_size", 4096.0, "B"),
        ],
    );
    assert!(outcome.operations.is_none() && outcome.warnings.is_empty());
    let wrong = text.replace("Numeric results were as expected", "Numeric results were different");
    assert_eq!(read("linpack", &wrong).warnings.len(), 1);
}

#[test]
fn all_figures_of_the_mflops_sample() {
    let Some(text) = sample("openmp_mflops.txt") else { return };
    let outcome = read("openmp-mflops", &text);
    // Words, operations per word, passes, seconds, MFLOPS, first result.
    let rows = [
        (100_000, 2, 2500, 0.084233, 5936.0, 0.929538),
        (1_000_000, 2, 250, 0.078038, 6407.0, 0.992550),
        (10_000_000, 2, 25, 0.172303, 2902.0, 0.999250),
        (100_000, 8, 2500, 0.183409, 10_905.0, 0.957117),
        (1_000_000, 8, 250, 0.178034, 11_234.0, 0.995517),
        (10_000_000, 8, 25, 0.192494, 10_390.0, 0.999549),
        (100_000, 32, 2500, 0.584376, 13_690.0, 0.890211),
        (1_000_000, 32, 250, 0.578125, 13_838.0, 0.988082),
        (10_000_000, 32, 25, 0.582955, 13_723.0, 0.998796),
    ];
    // 2.5e8 words in each row: 3 x (2 + 8 + 32) x 2.5e8 operations.
    let time: f64 = rows.iter().map(|row| row.3).sum();
    assert_done(&outcome, 31_500_000_000, "FLOP", time);
    let mut names = Vec::new();
    for (words, operations, passes, seconds, mflops, first) in rows {
        let of = format!("{words}_words_{operations}_operations");
        names.push((format!("speed_{of}"), mflops * 1e6, "FLOP/s"));
        names.push((format!("time_{of}"), seconds, "s"));
        names.push((format!("passes_{of}"), f64::from(passes), "1"));
        names.push((format!("result_{of}"), first, "1"));
    }
    let mut expected: Vec<(&str, f64, &str)> =
        names.iter().map(|(name, value, unit)| (name.as_str(), *value, *unit)).collect();
    expected.extend([
        ("speed", 31.5e9 / time, "FLOP/s"),
        ("clock_min", 2261e6, "Hz"),
        ("clock_max", 2261e6, "Hz"),
        ("cpus", 8.0, "1"),
        ("cpus_configured", 8.0, "1"),
        ("memory", 7.82 * GIB, "B"),
        ("page_size", 4096.0, "B"),
    ]);
    assert_figures(&outcome, &expected);
    assert!(outcome.warnings.is_empty());
    let wrong = text.replacen("\tYes", "\tNo", 1);
    assert!(read("openmp-mflops", &wrong).warnings[0].contains("in 1 rows"));
    let wrong = text.replacen("\t5936\t", "\t6936\t", 1);
    assert!(tool("openmp-mflops").unwrap().read(&Output::of(&wrong)).is_err());
}
