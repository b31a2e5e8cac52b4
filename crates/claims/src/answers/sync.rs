//! S1: how far samples may be off that were aligned by toggles.

use std::time::Duration;

use nightwatt_energy::time::Mono;
use nightwatt_measure::pure::calibrate::sync::{
    Hysteresis, Placement, SyncPlan, SyncRule, align, find_edges,
};

use crate::{Answer, Context, Error, Figure, Printed, rows};

const EVENTS: &str = include_str!("../../data/singh-sync.csv");

/// Samples a second of the published DAQ.
const RATE: f64 = 10_000.0;

/// How long each synthetic log is, s.
const SECONDS: f64 = 60.0;

/// By how much its DAQ samples too fast, in parts per million, and the seed of its toggles.
const LOGS: [(f64, u64); 5] = [(0.0, 1), (40.0, 2), (-40.0, 3), (300.0, 4), (-300.0, 5)];

/// S1: logs whose truth is known, and the three published events by arithmetic.
pub(crate) fn synchronisation(_: &mut Context<'_>, printed: &Printed) -> Result<Answer, Error> {
    let mut figures = Vec::new();
    for (drift_ppm, seed) in LOGS {
        let (worst, aligned, samples) = worst_error(drift_ppm, seed)?;
        let of = format!("DAQ off by {drift_ppm} ppm, {aligned} of {samples} samples aligned");
        figures.push(printed.figure_of("error", &of, worst)?);
    }
    let events: Vec<(f64, f64, f64)> = rows(EVENTS)
        .iter()
        .filter_map(|(_, cells)| Some((cells[0]?, cells[1]?, cells[2]?)))
        .collect();
    if let [first, second, third] = &events[..] {
        // Ticks of their clock from the first two events, to the third.
        let ticks = (second.0 - first.0) / (second.1 - first.1);
        let ours = second.1 + (third.0 - second.0) / ticks;
        let what = "their third event, predicted from the first two and cut";
        figures.push(Figure::within(what, ours.floor(), third.2..=third.2, 0.0, "samples"));
        let error = (third.1 - ours.floor()).abs();
        figures.push(printed.figure_of("error", "their third event", error)?);
    }
    Ok(Answer::by(
        figures,
        "their snippet has no toggles, so these are synthetic logs of a minute at 10 kHz with irregular \
         toggles about a second apart, of whose every sample the true time is known",
    ))
}

/// The largest error of a log's samples, in samples, how many were aligned, and of how many.
fn worst_error(drift_ppm: f64, seed: u64) -> Result<(f64, u64, u64), Error> {
    let rate = RATE * (1.0 + 1e-6 * drift_ppm);
    let mut toggles = Vec::new();
    let mut time = 0.3;
    for interval in SyncPlan::new(seed) {
        if time >= SECONDS {
            break;
        }
        toggles.push(time);
        time += interval.as_secs_f64();
    }
    let samples = (SECONDS * rate) as u64;
    // The line is high after an odd number of toggles; a sample sees those before it.
    let level = |sample: u64| {
        let before = toggles.partition_point(|toggle| *toggle <= sample as f64 / rate);
        if before % 2 == 1 { 5.0 } else { 0.0 }
    };
    let levels: Vec<f64> = (0..samples).map(level).collect();
    let edges = find_edges(&levels, Hysteresis::of(&levels)?);
    let begin = 1000.0;
    let stamp = |toggle: &f64| Mono(Duration::from_secs_f64(begin + toggle));
    let stamps: Vec<Mono> = toggles.iter().map(stamp).collect();
    let alignment = align(&edges, &stamps, &SyncRule::new(RATE))?;
    let (mut worst, mut aligned) = (0.0_f64, 0);
    for (sample, placement) in alignment.placements(0..samples).enumerate() {
        if let Placement::At(at) = placement {
            let truth = begin + sample as f64 / rate;
            worst = worst.max((at.0.as_secs_f64() - truth).abs() * RATE);
            aligned += 1;
        }
    }
    Ok((worst, aligned, samples))
}
