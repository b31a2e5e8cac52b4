use std::fs;
use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use nightwatt_energy::integration::{Totals, Track, TrackSpec};
use nightwatt_energy::quantity::Watts;

use crate::testdata;

use super::*;

fn options(text: &str) -> Options {
    Options::of(&format!("file=x{text}").parse().unwrap()).unwrap()
}

/// What the readings of each channel come to.
fn totals(log: Log, longest_gap: Duration) -> Vec<Totals> {
    let spec = TrackSpec { counter: None, longest_gap };
    let mut tracks: Vec<_> = log.channels().iter().map(|_| Track::new(spec, Mono::ZERO)).collect();
    for entry in log {
        let entry = entry.unwrap();
        tracks[entry.channel].add(entry.mono, entry.reading);
    }
    tracks.iter().map(Track::totals).collect()
}

fn close(found: f64, expected: f64) {
    assert!((found - expected).abs() <= 1e-9 * expected.abs(), "{found} {expected}");
}

/// A recording of these lines.
fn written(text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    fs::write(&path, text).unwrap();
    (folder, path)
}

fn entries(text: &str, how: &str) -> Vec<(f64, Option<i64>, usize, Reading)> {
    let (_folder, path) = written(text);
    let log = open(&path, &options(how)).unwrap_or_else(|error| panic!("{error}"));
    let entry = |entry: Result<Entry, MeterError>| {
        let entry = entry.unwrap();
        (entry.mono.as_secs_f64(), entry.wall_ns, entry.channel, entry.reading)
    };
    log.map(entry).collect()
}

fn refused(text: &str, how: &str) -> String {
    let (_folder, path) = written(text);
    match open(&path, &options(how)) {
        Err(error) => error.to_string(),
        Ok(log) => panic!("{:?}", log.channels()),
    }
}

#[test]
fn tracebase_energy_is_the_trapezoids_between_its_seconds() {
    // Trapezoids in Python, of lines that are later than the one before and at most 10 s apart:
    //   for t, p in rows: dt = t - t0; skip if dt <= 0; if dt <= 10: E += (p0 + p) / 2 * dt
    for (file, lines, joules, covered, gaps, ignored, first, about) in [
        ("pc_desktop/dev_D337C9_2012.05.16", 19_120, 2_389_318.0, 86_057, 19, 41, 1_337_126_407, 5),
        ("router/dev_B8148C_2012.01.13", 30_379, 795_779.0, 86_241, 7, 3, 1_326_412_803, 3),
    ] {
        let Some(path) = testdata::path(&format!("power/{file}.csv.gz")) else { return };
        let mut log = open(&path, &Options::default()).unwrap();
        assert_eq!(log.about(), Duration::from_secs(about));
        assert_eq!(log.next().unwrap().unwrap().wall_ns, Some(first * 1_000_000_000));
        while log.next().is_some() {}
        let skipped = log.skipped().unwrap();
        assert!(skipped.rows == ignored && skipped.why.contains("row before"), "{skipped}");
        let totals = totals(open(&path, &Options::default()).unwrap(), Duration::from_secs(10))[0];
        close(totals.joules.get(), joules);
        assert_eq!(totals.covered, Duration::from_secs(covered));
        assert_eq!((totals.gaps, totals.ignored), (gaps, 0), "{file}");
        assert_eq!(totals.readings + ignored, lines);
    }
}

#[test]
fn watts_up_energy_is_the_sum_of_its_means() {
    for (file, seconds, joules) in [
        // tr -d '\000' | awk -F, '/^#d,-,18,.*;/ && NF == 21 {s += $4; n++} END {print n, s / 10}'
        ("fan.raw", 1792, 75_565.8),
        ("iphone4.raw.gz", 6423, 31_497.4),
    ] {
        let Some(path) = testdata::path(&format!("power/wattsup_raw/{file}")) else { return };
        let log = open(&path, &Options::default()).unwrap();
        assert_eq!(log.channels()[0].accuracy_source, "data sheet");
        let totals = totals(log, Duration::from_secs(3))[0];
        close(totals.joules.get(), joules);
        assert_eq!((totals.covered, totals.gaps), (Duration::from_secs(seconds), 0));
    }
}

const BROADWELL: &str = ",sense=vdd1:0:0.0025:100:4+vpp0:3:0.005:200:7";

#[test]
fn a_daq_log_becomes_power_by_its_sense_resistors() {
    let file = "power/daq/broadwell_ddr4-2x16gb-2400-both_idle_18cdd026.csv.gz";
    let Some(path) = testdata::path(file) else { return };
    // The rate is in the file beside it; resistors and gains are those of its authors.
    let log = open(&path, &options(BROADWELL)).unwrap();
    assert_eq!(log.about(), Duration::from_millis(1));
    let names: Vec<_> = log.channels().iter().map(|channel| channel.name.clone()).collect();
    assert_eq!(names, ["vdd1", "vpp0"]);
    let totals = totals(log, Duration::from_secs(1));
    // awk -F, '{p = $5 * $1 / (100 * 0.0025); q = $8 * $4 / (200 * 0.005);
    //   if (NR > 1) {e += (p + lp) / 2 / 1000; f += (q + lq) / 2 / 1000} lp = p; lq = q}
    //   END {printf "%d %.12f %.12f\n", NR, e, f}'
    close(totals[0].joules.get(), 8.678_601_996_011);
    close(totals[1].joules.get(), 1.024_650_202_008);
    assert_eq!(totals[0].readings, 10_139);
    assert_eq!(totals[0].covered, Duration::from_millis(10_138));
}

#[test]
fn columns_of_a_daq_log_may_have_names_and_rows_that_are_damaged_took_their_time() {
    let text = "CPU HDD RAM Sync TSC\n0.5 1 0 0 17\n0.25 1 0 5 18\nx 1 0 5 19\n1.0 1 0 5 20\n";
    let how = ",rate=10,sense=cpu:CPU:0.1:1:12V+disk:1:1:1:5V";
    let found = entries(text, how);
    let cpu: Vec<_> = found.iter().filter(|it| it.2 == 0).map(|it| (it.0, it.3)).collect();
    // 0.5 V / 0.1 Ohm x 12 V.
    let power = |watts| Reading::Power(Watts(watts));
    assert_eq!(cpu, [(0.0, power(60.0)), (0.1, power(30.0)), (0.3, power(120.0))]);
    assert_eq!(found.iter().filter(|it| it.2 == 1 && it.3 == power(5.0)).count(), 4);
    assert!(refused(text, ",rate=10,sense=cpu:GPU:0.1:1:12V").contains("no column `GPU`"));
    assert!(refused(text, ",sense=cpu:CPU:0.1:1:12V").contains("`rate=`"));
    assert!(refused(text, ",format=daq").contains("`sense=`"));
    assert!(refused("0.1,0.2\n0.1,0.2\n", "").contains("a DAQ log needs `sense=`"));
}

#[test]
fn a_watts_up_text_log_is_means_at_its_epochs() {
    let text = "2013-05-06 10:00:01;1367834401;38.7;0.0\n\
        2013-05-06 10:00:02;1367834402;40.1;0.0\ngarbage;\n\
        2013-05-06 10:00:05;1367834405;41;0.1\n";
    let mean = |watts| Reading::MeanPower { watts: Watts(watts), over: Duration::from_secs(1) };
    let wall = |second: i64| Some((1_367_834_400 + second) * 1_000_000_000);
    assert_eq!(
        entries(text, ""),
        [
            // The recording begins when the first mean does.
            (1.0, wall(1), 0, mean(38.7)),
            (2.0, wall(2), 0, mean(40.1)),
            (5.0, wall(5), 0, mean(41.0)),
        ]
    );
    let (_folder, path) = written(text);
    let totals = totals(open(&path, &options("")).unwrap(), Duration::from_secs(3))[0];
    close(totals.joules.get(), 38.7 + 40.1 + 41.0);
    assert_eq!((totals.gaps, totals.gap_time), (1, Duration::from_secs(2)));
    let (_folder, path) = written(text);
    let mut log = open(&path, &options("")).unwrap();
    while log.next().is_some() {}
    assert_eq!(log.skipped().map(|it| (it.rows, it.first)), Some((1, 3)));
}

#[test]
fn csv_has_a_line_of_names_and_times_of_any_kind() {
    let power = |watts| Reading::Power(Watts(watts));
    let text = "time,cpu_watts,note,gpu_w\n0,10,a,1\n0.5,20,b,\n1.25,30,c,3\n";
    assert_eq!(
        entries(text, ""),
        [
            (0.0, None, 0, power(10.0)),
            (0.0, None, 1, power(1.0)),
            (0.5, None, 0, power(20.0)),
            (1.25, None, 0, power(30.0)),
            (1.25, None, 1, power(3.0)),
        ]
    );
    let text = "\"when\";\"P\"\n2024-02-29T12:00:00Z;5\n2024-02-29T12:00:00.5Z;6\n";
    // date -u -d '2024-02-29 12:00' +%s
    let begin = 1_709_208_000_000_000_000;
    let mean = |watts| Reading::MeanPower { watts: Watts(watts), over: Duration::from_millis(500) };
    assert_eq!(
        entries(text, ",format=csv,time=when,watts=P,mean=500ms"),
        [(0.5, Some(begin), 0, mean(5.0)), (1.0, Some(begin + 500_000_000), 0, mean(6.0))]
    );
    let (_folder, path) = written("timestamp,power\n1709208000.25,1\n1709208001,2\n");
    let log = open(&path, &options(",scope=gpu")).unwrap();
    assert_eq!((log.channels()[0].scope, log.about()), (Scope::Gpu, Duration::from_millis(750)));
    assert!(refused("time,watts\n0,1\n1,2\n", ",watts=volts").contains("`time`, `watts`"));
}

#[test]
fn what_cannot_be_read_is_told() {
    assert!(refused("", "").contains("no known format"));
    assert!(refused("time,watts\n", "").contains("no two readings"));
    // Begins like one of ours, and is cut off.
    assert!(refused("PAR1\0\0", "").contains("cannot read"));
    let spec = |text: &str| Options::of(&format!("file=x{text}").parse().unwrap()).is_err();
    for wrong in
        [",format=excel", ",zone=Mars/Olympus", ",rate=0", ",mean=0s", ",scope=house", ",sense=x"]
    {
        assert!(spec(wrong), "{wrong}");
    }
    assert!(open(Path::new("/nowhere/x.csv"), &options("")).is_err());
}

#[test]
fn packed_recordings_are_the_same_and_lines_without_end_cost_no_memory() {
    let text = "time,watts\n0,1\n1,2\n3,4\n";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.csv.gz");
    let mut packed = GzEncoder::new(fs::File::create(&path).unwrap(), Compression::fast());
    packed.write_all(text.as_bytes()).unwrap();
    // 50 MB without an end of line, and then a reading.
    for _ in 0..500 {
        packed.write_all(&vec![b'7'; 100_000]).unwrap();
    }
    packed.write_all(b"\n4,8\n").unwrap();
    packed.finish().unwrap();
    let mut log = open(&path, &options("")).unwrap();
    let watts: Vec<_> = log.by_ref().map(|entry| entry.unwrap().reading).collect();
    assert_eq!(watts, [1.0, 2.0, 4.0, 8.0].map(|watts| Reading::Power(Watts(watts))));
    assert_eq!(log.skipped().unwrap().rows, 1);
    assert!(log.input.held() < 100_000, "{}", log.input.held());
}

/// Energy of the first channel, and the time of which it is known.
fn energy(text: &str, how: &str) -> (f64, f64) {
    let (_folder, path) = written(text);
    let log = open(&path, &options(how)).unwrap_or_else(|error| panic!("{text}: {error}"));
    let totals = totals(log, Duration::from_secs(25))[0];
    (totals.joules.get(), totals.covered.as_secs_f64())
}

/// 1,050 J in 50 s: (15 + 25) x 10 + 20 x 20 + 25 x 10.
const BASE: [(u64, f64); 5] = [(0, 10.0), (10, 20.0), (20, 30.0), (40, 10.0), (50, 40.0)];

#[test]
fn what_programs_write_is_the_same_energy() {
    let lines = |head: &str, row: &dyn Fn(u64, f64) -> String| {
        let rows = BASE.iter().map(|&(second, watts)| row(second, watts) + "\n");
        format!("{head}\n{}", rows.collect::<String>())
    };
    let epoch = 1_677_715_200;
    let plain = lines("time,watts", &|second, watts| format!("{},{watts}", epoch + second));
    let comma = |watts: f64| format!("{watts:.1}").replace('.', ",");
    for (text, how) in [
        (plain.clone(), ""),
        (format!("\u{feff}{plain}"), ""),
        (format!("sep=,\n{plain}"), ""),
        (format!("# Kitchen, meter 7\nFirmware: 1.2, serial 55\n\n{plain}"), ""),
        (lines("\"time\",\"watts\"", &|s, w| format!("\"{}\",\"{w}\"", epoch + s)), ""),
        (lines("time;power", &|s, w| format!("2023-03-02 00:00:{s:02};{}", comma(w))), ""),
        (lines("time,power", &|s, w| format!("{s},\"{}\"", comma(w))), ""),
        (lines("Timestamp\tPower", &|s, w| format!("{}\t{}", epoch + s, comma(w))), ""),
        (lines("timestamp,power", &|s, w| format!("{},{w}", (epoch + s) * 1_000)), ""),
        (lines("timestamp,power", &|s, w| format!("{},{w}", (epoch + s) * 1_000_000)), ""),
        (lines("timestamp,power", &|s, w| format!("{},{w}", (epoch + s) * 1_000_000_000)), ""),
        (
            lines("time_relative_ms,power_watts,energy_relative_joules", &|s, w| {
                format!("{},{w},0", s * 1000)
            }),
            "",
        ),
        (
            lines("time_relative_ms,power_watts,x", &|s, w| format!("{},{w},0", s * 1000)),
            ",time=time_relative_ms",
        ),
        (lines("elapsed_us;Power (mW)", &|s, w| format!("{};{}", s * 1_000_000, w * 1000.0)), ""),
        (lines("t,kW", &|s, w| format!("{s},{}", w / 1000.0)), ""),
        (lines("t,kW", &|s, w| format!("{s},{}", w / 1000.0)), ",watts=kW"),
        (
            lines("timestamp, power.draw [W], power.limit [W]", &|s, w| {
                format!("2023/03/02 00:00:{s:02}.000, {w:.2} W, 700.00 W")
            }),
            "",
        ),
        (lines("Date,Time,Watts", &|s, w| format!("2023-03-02,00:00:{s:02},{w}")), ""),
        (
            lines("Zeit;Leistung", &|s, w| format!("02.03.2023 00:00:{s:02};{}", comma(w))),
            ",format=csv,time=Zeit,watts=Leistung",
        ),
    ] {
        assert_eq!(energy(&text, how), (1050.0, 50.0), "{text}");
    }
}

#[test]
fn what_would_be_misread_is_refused_with_its_row() {
    for (text, how, why) in [
        // A decimal comma between commas.
        ("time,watts\n0,10\n10,20,5\n20,30\n", "", "row 3: it has 3 cells, and the head has 2"),
        // Rows of two things: named ones, ones of one time, and one after the other.
        ("time,device,watts\n0,a,1\n1,b,2\n2,a,3\n", "", "row 4: the rows are of several things"),
        (
            "time,where,watts\n0,attic,1\n0,hall,2\n1,attic,3\n",
            "",
            "`where` has `attic` and `hall`",
        ),
        ("time,index,watts\n0,0,1\n0,1,2\n1,0,3\n1,1,4\n", "", "`only=index:VALUE`"),
        (
            "entity_id,state,last_changed\nx,1,2023-03-02T00:00:00Z\nx,2,2023-03-02T00:00:10Z\n\
          y,9,2023-03-02T00:00:05Z\n",
            ",format=csv,time=last_changed,watts=state",
            "`entity_id` has `x`, `y`",
        ),
        // Newest first.
        ("time,watts\n50,1\n40,2\n30,3\n20,4\n", "", "times run backwards: 3 of 5 rows"),
        ("time,watts\n50,1\n40,2\n30,3\n20,4\n", "", "the first is row 3: it is 10 s earlier"),
        // Units.
        ("time,Wh\n0,1\n1,2\n", "", "`Wh` holds energy"),
        ("time,Wh\n0,1\n1,2\n", ",watts=Wh", "`Wh` holds energy, and not power"),
        ("TIME,POWER_MW\n0,1\n1,2\n", "", "in megawatts or in milliwatts"),
        (
            "time_s,watts\n1677715200000,1\n1677715201000,2\n",
            "",
            "row 2: `1677715200000` in column `time_s` is no time",
        ),
        (
            "time,watts\n01/02/2023 00:00:00,1\n01/02/2023 00:00:10,2\n",
            "",
            "row 2: `01/02/2023 00:00:00` in column `time` is no time",
        ),
        ("\u{0}\u{0}PK", "", "no known format"),
        ("PK\u{3}\u{4}xx", "", "ZIP archive or a spreadsheet"),
        ("time,watts\n0,1\n1,2\n", ",only=room:hall", "no column `room`"),
    ] {
        let error = refused(text, how);
        assert!(error.contains(why), "{text}: {error}");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("utf16.csv");
    fs::write(&path, b"\xff\xfet\0i\0m\0e\0,\0w\0a\0t\0t\0s\0").unwrap();
    let error = open(&path, &options("")).err().unwrap().to_string();
    assert!(error.contains("iconv -f UTF-16"), "{error}");
}

#[test]
fn one_thing_of_several_can_be_chosen_and_columns_of_numbers_are_no_things() {
    let text = "time,device,watts\n0,a,10\n0,b,1\n10,b,1\n10,a,20\n20,a,30\n40,a,10\n50,a,40\n";
    assert_eq!(energy(text, ",only=device:a"), (1050.0, 50.0));
    let text = "index,time,watts,utilization.gpu [%]\n0,0,10,5\n1,10,20,5\n2,20,30,6\n3,40,10,5\n4,50,40,6\n";
    assert_eq!(energy(text, ""), (1050.0, 50.0));
}

#[test]
fn rows_that_are_left_out_are_counted_and_the_first_is_told() {
    let text = "time;watts\n0;10\n1;x\n2;20,5\n3;20.5\n2;1\n3.5;4,5\n3,5;4,5\n4;7\n";
    let (_folder, path) = written(text);
    let mut log = open(&path, &options("")).unwrap();
    let watts: Vec<_> = log.by_ref().map(|entry| entry.unwrap().reading).collect();
    assert_eq!(watts, [10.0, 20.5, 4.5, 7.0].map(|watts| Reading::Power(Watts(watts))));
    let skipped = log.skipped().unwrap().to_string();
    assert_eq!(
        skipped,
        "4 rows were left out; the first is row 3: `x` in column `watts` is no number"
    );
}

#[test]
fn heads_in_other_languages_are_read() {
    for text in [
        "Datum;Uhrzeit;Wirkleistung [W]\n02.03.2023;00:00:10;20,5\n02.03.2023;00:00:12;21,5\n",
        "Zeitstempel;Leistung (kW);Spannung\n2023-03-02 00:00:10;0,0205;230,1\n2023-03-02 00:00:12;0,0215;230,2\n",
        "Horodatage;Puissance (W)\n02.03.2023 00:00:10;20,5\n02.03.2023 00:00:12;21,5\n",
    ] {
        let found = entries(text, "");
        let watts: Vec<f64> = found
            .iter()
            .map(|it| match it.3 {
                Reading::Power(watts) => (watts.get() * 1e6).round() / 1e6,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(watts, [20.5, 21.5], "{text}");
        assert_eq!(found[0].1, Some(1_677_715_210_000_000_000), "{text}");
    }
}

#[test]
fn fractions_are_read_as_the_whole_file_writes_them() {
    let watts = |text: &str, how: &str| -> Vec<f64> {
        let power = |it: (f64, Option<i64>, usize, Reading)| match it.3 {
            Reading::Power(watts) => watts.get(),
            other => panic!("{other:?}"),
        };
        entries(text, how).into_iter().map(power).collect()
    };
    assert_eq!(watts("time;watts\n0;1.234\n1;987,5\n", ""), [1234.0, 987.5]);
    assert_eq!(watts("time,watts\n0,\"1,234\"\n1,987.5\n", ""), [1234.0, 987.5]);
    let ambiguous = "time;watts\n0;1.234\n1;987\n";
    let why = refused(ambiguous, "");
    assert!(why.contains("`1.234`") && why.contains("`decimal=point` or `decimal=comma`"), "{why}");
    assert_eq!(watts(ambiguous, ",decimal=comma"), [1234.0, 987.0]);
    assert_eq!(watts(ambiguous, ",decimal=point"), [1.234, 987.0]);
}

#[test]
fn rows_of_several_things_are_refused_whatever_the_column_is_called() {
    for column in ["appliance", "Gerät", "topic", "x"] {
        let row =
            |second: usize| format!("{second},{},{}\n", ["tv", "lamp"][second % 2], 10 + second);
        let text = format!("time,{column},watts\n{}", (0..12).map(row).collect::<String>());
        let why = refused(&text, "");
        assert!(why.contains(&format!("`only={column}:VALUE`")), "{why}");
        assert_eq!(entries(&text, &format!(",only={column}:tv")).len(), 6);
    }
    // What a row's own state is called is not what has it.
    let row = |second: usize| format!("{second},{},{second}\n", ["on", "off"][second / 3 % 2]);
    let text = format!("time,mode,watts\n{}", (0..24).map(row).collect::<String>());
    assert_eq!(entries(&text, "").len(), 24);
}
