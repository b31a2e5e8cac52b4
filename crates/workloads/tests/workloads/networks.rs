//! iperf 2 and 3.

use nightwatt_workloads::{Output, tool};

use crate::{GIB, KIB, Kept, MIB, assert_done, assert_figures, assert_some, ms, read, refused};

const G: f64 = 1e9;

#[test]
fn iperf_2_over_one_connection() {
    let outcome = read("iperf2", "iperf2/tcp");
    assert_figures(&outcome, &[("throughput", 14.2 * G, "bit/s")]);
    assert_done(&outcome, (3.33 * GIB).round() as u64, "bytes", 2.0110);

    // In bytes a second, which are bits a second all the same; and all digits.
    let outcome = read("iperf2", "iperf2/bytes");
    assert_figures(&outcome, &[("throughput", 2242.0 * MIB * 8.0, "bit/s")]);
    assert_done(&outcome, (2276.0 * MIB) as u64, "bytes", 1.0153);
    let outcome = read("iperf2", "iperf2/enhanced");
    assert_figures(&outcome, &[("throughput", 15_109_233_079.0, "bit/s")]);
    assert_done(&outcome, 1_920_729_148, "bytes", 1.0170);
    let outcome = read("iperf2", "iperf2/csv");
    assert_figures(&outcome, &[("throughput", 15_860_827_791.0, "bit/s")]);
    assert_done(&outcome, 2_014_707_772, "bytes", 1.0);
}

#[test]
fn iperf_2_over_several_connections_is_told_by_their_sum() {
    let outcome = read("iperf2", "iperf2/parallel");
    assert_figures(&outcome, &[("throughput", 36.7 * G, "bit/s")]);
    assert_done(&outcome, (8.55 * GIB).round() as u64, "bytes", 2.0003);
    // Without the last sum there is no result: the sums of single seconds don't cover the run.
    let mut kept = Kept::of("iperf2/parallel");
    let end = kept.stdout.rfind("[SUM]").unwrap();
    kept.stdout.truncate(end);
    let error = kept.read("iperf2").unwrap_err().to_string();
    assert!(error.contains("`[SUM]` of the whole transfer"), "{error}");
}

#[test]
fn the_seconds_of_iperf_2_in_csv_are_not_the_whole() {
    // As of `-i 1 -y C`; the line of the whole is the last one.
    let line = |span: &str, bytes: u64, seconds: u64| {
        format!(
            "20261122205559,127.0.0.1,39216,127.0.0.1,15001,1,{span},{bytes},{}\n",
            bytes * 8 / seconds
        )
    };
    let seconds = [line("0.0-1.0", 1_000, 1), line("1.0-2.0", 3_000, 1)].concat();
    let whole = line("0.0-2.0", 4_000, 2);
    let read =
        |stdout: String| Kept { stdout, stderr: String::new(), files: vec![] }.read("iperf2");
    assert_done(&read(seconds.clone() + &whole).unwrap(), 4_000, "bytes", 2.0);
    assert!(read(seconds.clone()).is_err());
    assert!(read([seconds, whole.clone(), whole].concat()).is_err());
}

#[test]
fn iperf_2_by_datagrams_is_told_by_the_server() {
    let outcome = read("iperf2", "iperf2/udp");
    assert_figures(
        &outcome,
        &[
            ("throughput", 10.5e6, "bit/s"),
            ("jitter", ms(0.001), "s"),
            ("lost", 0.0, "1"),
            ("datagrams", 895.0, "1"),
        ],
    );
    assert_done(&outcome, (1.25 * MIB) as u64, "bytes", 1.0016);
    // A line that comes after those of a server which got them in another order.
    let mut kept = Kept::of("iperf2/udp");
    kept.stdout += "[  1] 0.0000-1.0016 sec  7 datagrams received out-of-order\n";
    assert_eq!(kept.read("iperf2").unwrap(), outcome);
}

#[test]
fn iperf_3_counts_what_was_received() {
    let outcome = read("iperf3", "iperf3/tcp");
    assert_figures(
        &outcome,
        &[
            ("throughput", 13.0 * G, "bit/s"),
            ("sent_throughput", 13.1 * G, "bit/s"),
            ("retransmits", 9.0, "1"),
        ],
    );
    assert_done(&outcome, (3.05 * GIB).round() as u64, "bytes", 2.01);

    let outcome = read("iperf3", "iperf3/parallel");
    assert_some(&outcome, &[("throughput", 17.2 * G, "bit/s"), ("retransmits", 2.0, "1")]);
    assert_done(&outcome, (2.01 * GIB).round() as u64, "bytes", 1.0);

    let outcome = read("iperf3", "iperf3/bytes");
    assert_figures(
        &outcome,
        &[
            ("throughput", 1_297_196.0 * KIB * 8.0, "bit/s"),
            ("sent_throughput", 1_300_770.0 * KIB * 8.0, "bit/s"),
            ("retransmits", 21.0, "1"),
        ],
    );

    let outcome = read("iperf3", "iperf3/udp");
    assert_figures(
        &outcome,
        &[
            ("throughput", 10.2e6, "bit/s"),
            ("jitter", ms(0.020), "s"),
            ("lost", 0.0, "1"),
            ("datagrams", 39.0, "1"),
            ("sent_throughput", 10.2e6, "bit/s"),
        ],
    );
}

#[test]
fn iperf_3_in_json() {
    let outcome = read("iperf3", "iperf3/json");
    assert_figures(
        &outcome,
        &[
            ("throughput", 18_758_330_435.0607, "bit/s"),
            ("sent_throughput", 18_765_044_319.451973, "bit/s"),
            ("retransmits", 3.0, "1"),
            ("cpu_here", 10.3135243612608, "%"),
            ("cpu_there", 58.75734559264442, "%"),
        ],
    );
    assert_done(&outcome, 2_346_188_800, "bytes", 1.000596);

    let outcome = read("iperf3", "iperf3/parallel_json");
    assert_done(&outcome, 990_904_320 + 988_282_880, "bytes", 1.005714);

    let outcome = read("iperf3", "iperf3/udp_json");
    assert_done(&outcome, 1_277_952, "bytes", 1.000321);
    assert_some(
        &outcome,
        &[
            ("throughput", 10_220_335.272377567, "bit/s"),
            ("jitter", ms(0.0044950147468019565), "s"),
            ("lost", 0.0, "1"),
            ("datagrams", 39.0, "1"),
        ],
    );
}

/// What two versions print of `--bidir`: the older one writes both directions under the same names.
#[test]
fn both_directions_of_iperf_3_count() {
    let sum = |bytes: u64, rate: f64| {
        format!(
            "{{\"bytes\": {bytes}, \"bits_per_second\": {rate:?}, \"seconds\": 2, \"retransmits\": 1}}"
        )
    };
    let (there, back) = (sum(3_000_000_000, 12e9), sum(2_500_000_000, 10e9));
    for (second, third) in
        [("sum_sent", "sum_received"), ("sum_sent_bidir_reverse", "sum_received_bidir_reverse")]
    {
        let text = format!(
            "{{\"start\": {{\"sock_bufsize\": 0, \"sock_bufsize\": 0}}, \"end\": {{\"sum_sent\": {there}, \
             \"sum_received\": {there}, \"{second}\": {back}, \"{third}\": {back}}}}}\n"
        );
        let outcome = tool("iperf3").unwrap().read(&Output::of(&text)).unwrap();
        assert_done(&outcome, 5_500_000_000, "bytes", 2.0);
        let some = [
            ("throughput", 22e9, "bit/s"),
            ("throughput_there", 12e9, "bit/s"),
            ("throughput_back", 10e9, "bit/s"),
            ("retransmits", 2.0, "1"),
        ];
        assert_some(&outcome, &some);
    }
    // As text only the last line of either would be read.
    let text = "[  5][TX-C]   0.00-2.00   sec  2.83 GBytes  12.2 Gbits/sec    0             sender\n\
                [  7][RX-C]   0.00-2.00   sec  2.31 GBytes  9.91 Gbits/sec                  receiver\n\
                \niperf Done.\n";
    let error = tool("iperf3").unwrap().read(&Output::of(text)).unwrap_err().to_string();
    assert!(error.contains("`-J`"), "{error}");
}

/// The output of a real run, which lies beside the project.
#[test]
fn a_real_output_with_doubled_keys_is_read() {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");
    let data = std::env::var_os("NIGHTWATT_DATA").unwrap_or_else(|| beside.into());
    let path = std::path::Path::new(&data).join("../cases/tools/iperf3_bidir_doubled_keys.json");
    let Ok(text) = std::fs::read_to_string(&path) else {
        println!("skipped: there is no {}", path.display());
        return;
    };
    let outcome = tool("iperf3").unwrap().read(&Output::of(&text)).unwrap();
    let both = 12_118_051_684.307_953 + 9_867_638_497.926_36;
    assert_some(&outcome, &[("throughput", both, "bit/s"), ("retransmits", 1.0, "1")]);
    assert_done(&outcome, 3_039_166_464 + 2_474_770_432, "bytes", 2.006_373);
}

#[test]
fn a_connection_that_was_refused_gives_no_figures() {
    for (tool, kept) in [
        ("iperf2", "iperf2/refused"),
        ("iperf3", "iperf3/refused"),
        ("iperf3", "iperf3/refused_json"),
    ] {
        assert!(refused(tool, kept).contains("Connection refused"), "{kept}");
    }
}

#[test]
fn bits_that_do_not_follow_from_bytes_are_refused() {
    let mut kept = Kept::of("iperf2/tcp");
    kept.stdout = kept.stdout.replace("14.2 Gbits", "14.2 Mbits");
    assert!(kept.read("iperf2").unwrap_err().to_string().contains("which cannot be"));
    kept.stdout = kept.stdout.replace("14.2 Mbits/sec", "14.2 Glips/sec");
    let error = kept.read("iperf2").unwrap_err().to_string();
    assert!(error.contains("`Glips`, which is no unit known"), "{error}");
}
