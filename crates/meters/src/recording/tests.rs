use nightwatt_energy::integration::{Gap, Piece, Reading, Track, TrackSpec};
use nightwatt_energy::quantity::{Joules, Watts};
use nightwatt_energy::time::Mono;

use crate::fixture::Fixture;
use crate::spec::MeterSpec;

use super::*;

const HOUR: Duration = Duration::from_hours(1);

/// Two meters of which nothing is read: the tests say what they said.
fn meters() -> (Fixture, Vec<Opened>) {
    let fixture = Fixture::of(&[
        ("/proc/stat", "cpu0 0 0 0 0"),
        ("/sys/class/powercap/intel-rapl:0/name", "package-0"),
        ("/sys/class/powercap/intel-rapl:0/energy_uj", "1"),
        ("/sys/class/powercap/intel-rapl:0:0/name", "core"),
        ("/sys/class/powercap/intel-rapl:0:0/energy_uj", "1"),
    ]);
    let open = |driver| Opened::open(&fixture.host, &MeterSpec::of(driver)).unwrap();
    let meters = fixture.while_counting(|| vec![open("model"), open("rapl")]);
    (fixture, meters)
}

fn meta() -> Meta {
    Meta {
        schema: SCHEMA,
        nightwatt: "test".to_owned(),
        host: Value::Null,
        started: String::new(),
        mono_ns: 0,
        meters: Vec::new(),
        settings: Value::Null,
    }
}

fn samples() -> Vec<Sample> {
    let mut track =
        Track::new(TrackSpec { counter: None, longest_gap: Duration::from_secs(5) }, Mono::ZERO);
    let readings = [(0, 40.0), (1000, 44.0), (1250, 43.5), (60_000, 41.0), (61_000, 45.0)];
    let sample = |(millis, watts): (u64, f64)| {
        let (mono, reading) = (Mono(Duration::from_millis(millis)), Reading::Power(Watts(watts)));
        let wall_ns = 1_700_000_000_000_000_000 + i64::try_from(mono.0.as_nanos()).unwrap();
        Sample { mono, wall_ns, channel: 0, reading, piece: track.add(mono, reading) }
    };
    readings.map(sample).to_vec()
}

/// Sum of joules and covered seconds of a column's rows, and how many there are.
fn sums(path: &Path, of: (&str, &str)) -> (f64, f64, usize) {
    let mut sums = (0.0, 0.0, 0);
    read(path, |meter, channel, row| {
        if (meter, channel) == of {
            sums.0 += row.joules.unwrap_or(0.0);
            sums.1 += row.covers_s.unwrap_or(0.0);
            sums.2 += 1;
        }
    })
    .unwrap();
    sums
}

#[test]
fn what_was_sampled_is_in_the_file_and_its_energy_is_the_integral() {
    let (fixture, meters) = meters();
    let path = fixture.host.path("r.parquet");
    let recorder = Recorder::start(&path, Format::Parquet, HOUR, &meters, &meta()).unwrap();
    let (mut model, mut rapl) = (recorder.sink(0), recorder.sink(1));
    for sample in samples() {
        model.take(&sample);
    }
    let counted = Sample {
        channel: 1,
        reading: Reading::Counter(u64::MAX),
        piece: Piece::Covers { joules: Joules(3.0), time: Duration::from_secs(2) },
        ..samples()[1]
    };
    rapl.take(&counted);
    assert_eq!(recorder.finish(&serde_json::json!({"missed": 0})).unwrap(), 0);
    // 42 + 10.9375 + 43 J; the gap is in neither sum.
    let (joules, covered, rows) = sums(&path, ("model", "machine"));
    assert!((joules - 95.9375).abs() < 1e-12, "{joules}");
    assert!((covered - 2.25).abs() < 1e-12, "{covered}");
    assert_eq!(rows, 5);
    let (mut gaps, mut cores) = (Vec::new(), Vec::new());
    let said = read(&path, |_, channel, row| {
        gaps.extend(row.gap.map(|gap| (row.mono_ns, gap)));
        if channel == "core-0" {
            cores.push((row.counter, row.watts));
        }
    });
    assert_eq!(gaps, [(60_000_000_000, Gap::Stalled)]);
    assert_eq!(cores, [(Some(-1), Some(1.5))]);
    assert!(said.unwrap().unwrap().contains(r#""nightwatt":"test""#));
    assert!(!fixture.host.path("r.parquet.parts").exists());
}

#[test]
fn who_is_killed_loses_at_most_the_open_part() {
    let (fixture, meters) = meters();
    let path = fixture.host.path("r.parquet");
    let names = Names::of(&meters);
    let rows: Vec<Row> = samples().iter().map(|sample| Row::of(sample, 0)).collect();
    // Each write ends a part that is to last no time at all.
    let mut parts =
        parted::PartedRows::create(&path, Duration::ZERO, names.clone(), "{}".to_owned()).unwrap();
    parts.write(&rows[..3]).unwrap();
    parts.write(&rows[3..4]).unwrap();
    // This one has no end, as if the power had failed.
    fs::write(fixture.host.path("r.parquet.parts/part-00002.open"), "PAR1rubbish").unwrap();
    let alive = recover(&path).unwrap_err().to_string();
    assert!(alive.contains("another process is recording there"), "{alive}");
    drop(parts);
    // A join that was killed has left this.
    fs::write(fixture.host.path("r.joining"), "PAR1").unwrap();
    let again = Recorder::start(&path, Format::Parquet, HOUR, &meters, &meta()).err().unwrap();
    assert!(again.to_string().contains("--recover"), "{again}");
    assert_eq!(recover(&path).unwrap(), 2);
    assert_eq!(sums(&path, ("model", "machine")).2, 4);
    let nothing = recover(&path).unwrap_err().to_string();
    assert!(nothing.contains("r.parquet.parts"), "{nothing}");
}

/// A table that holds no readings of meters, in parts that last no time at all.
fn calls(path: &Path) -> PartedTable {
    let schema = "message calls { required int64 at; optional binary name (STRING); }".to_owned();
    PartedTable::create(path, Duration::ZERO, schema, r#"{"of":"calls"}"#.to_owned()).unwrap()
}

fn write_calls(table: &mut PartedTable, first: i64) {
    let at = Cells::Int64((first..first + 1000).map(Some).collect());
    let name = Cells::Text((0..1000).map(|n| (n % 3 > 0).then_some("work")).collect());
    table.write(&[at, name]).unwrap();
}

/// The sum of `at`, how many have a name, and the metadata, by another reader than ours.
fn read_calls(path: &Path) -> (i64, usize, Vec<(String, Option<String>)>) {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let (mut sum, mut named) = (0, 0);
    for row in reader.get_row_iter(None).unwrap() {
        let row = row.unwrap();
        sum += row.get_long(0).unwrap();
        named += usize::from(row.get_string(1).is_ok_and(|name| name == "work"));
    }
    let pairs = reader.metadata().file_metadata().key_value_metadata().unwrap();
    let pair = |pair: &parquet::file::metadata::KeyValue| (pair.key.clone(), pair.value.clone());
    (sum, named, pairs.iter().map(pair).collect())
}

#[test]
fn a_table_of_something_else_is_joined_of_its_parts_or_recovered() {
    let (fixture, _) = meters();
    let path = fixture.host.path("calls.parquet");
    let mut table = calls(&path);
    for part in 0..3 {
        write_calls(&mut table, 1000 * part);
        assert!(table.is_due());
        table.end_part().unwrap();
    }
    // This one has no end when it is dropped, as if its writer had failed.
    write_calls(&mut table, 1_000_000);
    drop(table);
    assert_eq!(recover(&path).unwrap(), 3);
    // 0 + 1 + .. + 2999; two of three have a name, and of 1000 so 666.
    let (sum, named, pairs) = read_calls(&path);
    assert_eq!((sum, named), (4_498_500, 3 * 666));
    assert!(pairs.contains(&("nightwatt".to_owned(), Some(r#"{"of":"calls"}"#.to_owned()))));
    assert!(!pairs.iter().any(|(key, _)| key == "nightwatt.end"));

    let path = fixture.host.path("whole.parquet");
    let mut table = calls(&path);
    write_calls(&mut table, 0);
    table.end_part().unwrap();
    write_calls(&mut table, 1000);
    table.finish(Some(&serde_json::json!({"lost": 0}))).unwrap();
    let (sum, named, pairs) = read_calls(&path);
    assert_eq!((sum, named), (1_999_000, 2 * 666));
    let end = ("nightwatt.end".to_owned(), Some(r#"{"lost":0}"#.to_owned()));
    assert!(pairs.contains(&end), "{pairs:?}");
    assert!(!fixture.host.path("whole.parquet.parts").exists());
}

#[test]
fn a_table_of_nothing_is_whole_and_one_that_fails_at_once_leaves_nothing() {
    let (fixture, _) = meters();
    let path = fixture.host.path("calls.parquet");
    let mut table = calls(&path);
    write_calls(&mut table, 0);
    drop(table);
    assert!(!path.exists() && !fixture.host.path("calls.parquet.parts").exists());
    calls(&path).finish(None).unwrap();
    assert_eq!((read_calls(&path).0, read_calls(&path).1), (0, 0));
}

#[test]
fn nothing_is_written_over() {
    let (fixture, meters) = meters();
    for (name, format) in
        [("r.parquet", Format::Parquet), ("r.csv", Format::Csv), ("r.jsonl", Format::JsonLines)]
    {
        let path = fixture.host.path(name);
        assert_eq!(Format::of(&path), Some(format));
        fs::write(&path, "precious").unwrap();
        let error = Recorder::start(&path, format, HOUR, &meters, &meta()).err().unwrap();
        assert!(error.to_string().contains("nothing is written over"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    }
}

#[test]
fn lines_hold_the_same_as_columns() {
    let (fixture, meters) = meters();
    for (name, format) in [("r.csv", Format::Csv), ("r.jsonl", Format::JsonLines)] {
        let path = fixture.host.path(name);
        let recorder = Recorder::start(&path, format, HOUR, &meters, &meta()).unwrap();
        let mut sink = recorder.sink(0);
        for sample in samples() {
            sink.take(&sample);
        }
        recorder.finish(&Value::Null).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let joules: f64 = if format == Format::Csv {
            let cells = text.lines().skip(2).map(|line| line.split(',').nth(7).unwrap());
            cells.filter(|cell| !cell.is_empty()).map(|cell| cell.parse::<f64>().unwrap()).sum()
        } else {
            let rows =
                text.lines().skip(1).map(|line| serde_json::from_str::<Value>(line).unwrap());
            rows.filter_map(|row| row["joules"].as_f64()).sum()
        };
        assert!((joules - 95.9375).abs() < 1e-12, "{name}: {joules}");
    }
}
