//! Recordings of any bytes: whatever is read has times that can be integrated, and nothing that is no
//! number. The first byte is the format.

use nightwatt_energy::integration::{Reading, Track, TrackSpec};
use nightwatt_energy::time::Mono;
use nightwatt_meters::log::{self, Columns, Options};

const HOW: [&str; 8] = [
    "",
    ",format=wattsup-text",
    ",format=wattsup-raw,mean=10s",
    ",format=tracebase",
    ",format=csv",
    ",format=csv,time=a,watts=b+c,mean=1s",
    ",rate=1000,sense=a:0:0.0025:100:1+b:1:0.1:1:12V",
    ",format=recording",
];

/// Runs the target on one input.
pub fn run(input: &[u8]) {
    let Some((&how, bytes)) = input.split_first() else { return };
    let spec = format!("file=log{}", HOW[usize::from(how) % HOW.len()]);
    let options = Options::of(&spec.parse().expect("ours")).expect("ours");
    let folder = tempfile::tempdir().expect("a folder for a file");
    let path = folder.path().join("log");
    std::fs::write(&path, bytes).expect("a file in it");
    // As rows of columns they are read whatever they are.
    if let Ok(mut columns) = Columns::open(&path) {
        let last = columns.names().len().saturating_sub(1);
        while let Ok(Some(row)) = columns.row() {
            assert!(row.number(last).is_nan() || row.texts().count() > last);
        }
    }
    let Ok(log) = log::open(&path, &options) else { return };
    let spec = TrackSpec { counter: None, longest_gap: log.about() * 3 };
    let mut tracks = vec![Track::new(spec, Mono::ZERO); log.channels().len()];
    for entry in log {
        // A gzipped one may end too soon.
        let Ok(entry) = entry else { break };
        if let Reading::Power(watts) | Reading::MeanPower { watts, .. } = entry.reading {
            assert!(watts.get().is_finite());
        }
        let track = &mut tracks[entry.channel];
        match entry.piece {
            None => track.add(entry.mono, entry.reading),
            Some(piece) => track.replay(entry.mono, entry.reading, piece),
        };
    }
}
