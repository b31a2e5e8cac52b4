//! Calibration, meter checks and spectra of whatever a meter and a clock may have said: no panic, and
//! what is claimed holds together.

use std::time::Duration;

use nightwatt_energy::quantity::{Joules, Watts};
use nightwatt_energy::time::Mono;
use nightwatt_measure::pure::calibrate::states::{SleepCycle, rows_of_log};
use nightwatt_measure::pure::calibrate::storage::{ActivityRule, Write, activity, fit_storage};
use nightwatt_measure::pure::calibrate::sync::{
    Hysteresis, Placement, SyncPlan, SyncRule, align, find_edges,
};
use nightwatt_measure::pure::calibrate::utilisation::{UtilisationPoint, fit_utilisation};
use nightwatt_measure::pure::meter_check::{CrossCalibration, Side, check_meter};
use nightwatt_measure::pure::power_log::{Interpolation, PowerLog, PowerReading};
use nightwatt_measure::pure::spectrum::Welch;

const SECOND: Duration = Duration::from_secs(1);

/// Runs the target on one input.
pub fn run(data: &[u8]) {
    let Some((&mode, data)) = data.split_first() else { return };
    // Two bytes of time, four of power: any figure there is, and none.
    let mut time = Mono::ZERO;
    let readings: Vec<PowerReading> = data
        .chunks_exact(6)
        .map(|bytes| {
            time =
                time + Duration::from_millis(u64::from(u16::from_le_bytes([bytes[0], bytes[1]])));
            let power = f32::from_le_bytes([bytes[2], bytes[3], bytes[4], bytes[5]]);
            PowerReading { time, power: Watts(f64::from(power)) }
        })
        .collect();
    let figures: Vec<f64> = readings.iter().map(|reading| reading.power.get()).collect();
    match mode % 5 {
        0 => logs(&readings),
        1 => fits(&readings, &figures),
        2 => cross(&readings),
        3 => sync(data),
        _ => {
            let mut welch = Welch::new(figures.first().copied().unwrap_or(1.0).abs(), 16);
            if let Ok(welch) = &mut welch {
                welch.push(&figures);
            }
            if let Ok(found) = welch.and_then(Welch::finish) {
                let rate = found.rate_that_keeps(0.95);
                assert!(rate.is_none_or(|rate| rate <= found.rate), "{rate:?}");
            }
        }
    }
}

fn logs(readings: &[PowerReading]) {
    let (first, second) = readings.split_at(readings.len() / 2);
    for interpolation in [Interpolation::Instants, Interpolation::Means] {
        let Ok(log) = PowerLog::new(first.to_vec(), interpolation, 5 * SECOND) else { continue };
        let cycles: Vec<SleepCycle> = second
            .chunks_exact(4)
            .map(|four| SleepCycle {
                sleep_commanded: four[0].time,
                still: Some((four[1].time, four[2].time)),
                wake_answered: four[3].time,
            })
            .collect();
        if let Ok(found) = rows_of_log(&log, &cycles) {
            let _ = found.fit();
        }
        let _ = activity(&log, time_of(first.get(5)), &ActivityRule::default());
        if let Ok(other) = PowerLog::new(readings.to_vec(), interpolation, 5 * SECOND) {
            let _ = check_meter(&log, &other, 3 * SECOND);
        }
    }
}

fn time_of(reading: Option<&PowerReading>) -> Mono {
    reading.map_or(Mono::ZERO, |reading| reading.time)
}

fn fits(readings: &[PowerReading], figures: &[f64]) {
    let points: Vec<UtilisationPoint> = readings
        .iter()
        .map(|reading| UtilisationPoint {
            utilisation: reading.time.as_secs_f64().fract(),
            power: reading.power,
        })
        .collect();
    if let Ok(fit) = fit_utilisation(&points)
        && let Some(broken) = fit.broken
    {
        assert!(broken.monotone().powers.len() == broken.knots.len());
    }
    let bytes = |reading: &PowerReading| reading.time.0.subsec_millis().into();
    let writes: Vec<Write> = readings
        .iter()
        .zip(figures)
        .map(|(reading, &energy)| Write { bytes: bytes(reading), energy: Joules(energy) })
        .collect();
    let _ = fit_storage(&writes);
}

fn cross(readings: &[PowerReading]) {
    let mut cross = CrossCalibration::new(SECOND / 10, SECOND, 10 * SECOND);
    for (index, &reading) in readings.iter().enumerate() {
        let side = if index.is_multiple_of(3) { Side::Meter } else { Side::Reference };
        cross.push(side, reading);
        assert!(cross.held() <= 2 * (8 * 10 + 1024));
    }
    let _ = cross.relation();
}

/// A true signal, and bytes that say what becomes of each toggle.
fn sync(data: &[u8]) {
    let mut levels = Vec::new();
    let mut stamps = Vec::new();
    let mut level = 0.0;
    let mut time = Duration::ZERO;
    for (interval, &what) in SyncPlan::new(1).zip(data) {
        time += interval;
        let until = (time.as_secs_f64() * 100.0) as usize;
        levels.resize(until.max(levels.len()), level);
        let late = Duration::from_micros(u64::from(what & 15) * 300);
        match what >> 4 {
            0 => {}
            1 => stamps.push(Mono(time)),
            2 => level = 3.3 - level,
            3 => levels.extend([f64::NAN, 3.3 - level, level]),
            _ => {
                level = 3.3 - level;
                stamps.push(Mono(time + late));
            }
        }
    }
    let Ok(hysteresis) = Hysteresis::of(&levels) else { return };
    let edges = find_edges(&levels, hysteresis);
    let Ok(found) = align(&edges, &stamps, &SyncRule::new(100.0)) else { return };
    let mut before = Mono::ZERO;
    for placement in found.placements(0..levels.len() as u64) {
        if let Placement::At(time) = placement {
            assert!(time > before, "{time:?} does not follow {before:?}");
            before = time;
        }
    }
}
