//! No meter: a model of the machine, driven by what it does. Everything it says is `modelled`.

use std::time::Duration;

use nightwatt_clock::meter::monotonic;
use nightwatt_energy::integration::Reading;
use nightwatt_energy::power_model::{Activity, PowerModel};
use nightwatt_energy::quantity::Watts;
use nightwatt_host::Host;

use crate::channel::{Accuracy, Channel, Scope};
use crate::error::MeterError;
use crate::machine::{Counted, Counts, describe};
use crate::meter::{Driver, Meter, Opening, Pace, Presence, Readings, Turn};
use crate::spec::MeterSpec;

pub(crate) const DRIVER: Driver = Driver {
    name: crate::MODEL,
    about: "no meter: a model of the machine, from what it is and does",
    example: "model",
    probe,
    open,
};

/// The kernel counts CPU time in ticks of 10 ms: over less, shares of it say little.
const FASTEST: Duration = Duration::from_millis(100);

fn probe(host: &Host) -> Presence {
    match Counts::read(host) {
        Ok(_) => Presence::Available,
        Err(error) => Presence::Absent(format!("/proc/stat: {error}")),
    }
}

fn open(host: &Host, spec: &MeterSpec) -> Opening {
    spec.only(&["fitted", "wakeups"])?;
    let counts_wake_ups = spec.truth("wakeups")?.unwrap_or(true);
    let model = power_model(host, spec)?;
    let source = match model {
        PowerModel::Fitted(_) => "calibrated on this machine",
        PowerModel::Typical(_) => "95 % of such machines",
    };
    let counts = read(host)?;
    let channels = vec![Channel {
        accuracy: accuracy(&model),
        accuracy_source: source,
        is_modelled: true,
        ..Channel::power("machine", Scope::Wall, Accuracy::relative(0.0))
    }];
    let last = (monotonic(), counts);
    Ok(Box::new(Modelled { host: host.clone(), model, counts_wake_ups, channels, last }))
}

/// The model that a meter of this kind goes by, for callers that need more than its figure.
pub fn power_model(host: &Host, spec: &MeterSpec) -> Result<PowerModel, MeterError> {
    match spec.text("fitted") {
        Some(path) => fitted(spec, path),
        None => Ok(PowerModel::typical(&describe(host))),
    }
}

/// What `calibrate utilisation` has written.
fn fitted(spec: &MeterSpec, path: &str) -> Result<PowerModel, MeterError> {
    let text = std::fs::read_to_string(path).map_err(|error| MeterError::reading(path, error))?;
    serde_json::from_str(&text)
        .map_err(|error| spec.wrong(format!("`{path}` holds no power model: {error}")))
}

fn read(host: &Host) -> Result<Counts, MeterError> {
    Counts::read(host).map_err(|error| MeterError::reading(host.path("/proc/stat"), error))
}

/// The widest of the model's intervals, as a share of its figure: idle, or at some load.
fn accuracy(model: &PowerModel) -> Accuracy {
    let relative = |tenths: u32| {
        let utilisation = f64::from(tenths) / 10.0;
        let estimate = model.power(&Activity { utilisation, ..Activity::default() });
        estimate.uncertainty() / estimate.watts
    };
    Accuracy::relative((0..=10).map(relative).fold(0.0, f64::max))
}

struct Modelled {
    host: Host,
    model: PowerModel,
    /// False if the caller counts wake-ups by other means and adds their energy itself.
    counts_wake_ups: bool,
    channels: Vec<Channel>,
    last: Counted,
}

impl Meter for Modelled {
    fn channels(&self) -> &[Channel] {
        &self.channels
    }

    fn pace(&self) -> Pace {
        Pace::Polled { fastest: FASTEST, usual: Duration::from_secs(1) }
    }

    /// Mean power since the last reading. The first is that of the idle machine, over no time at all.
    fn read(&mut self, turn: &Turn<'_>, out: &mut Readings) -> Result<(), MeterError> {
        let (now, counts) = (turn.now(), read(&self.host)?);
        let (before, last) = std::mem::replace(&mut self.last, (now, counts));
        let over = now.since(before);
        let mut activity = self.last.1.since(&last, over);
        if !self.counts_wake_ups {
            activity.wake_ups = 0.0;
        }
        let watts: Watts = self.model.power(&activity).watts;
        out.push(0, now, Reading::MeanPower { watts, over });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::fixture::{Fixture, read};

    use super::*;

    fn watts(busy: [u64; 2]) -> f64 {
        let fixture = Fixture::of(&[("/proc/stat", "cpu 0 0 0 0\ncpu0 0 0 0 0\ncpu1 0 0 0 0")]);
        let mut meter = fixture.open("model");
        assert!(meter.channels()[0].is_modelled, "never as if it were measured");
        let line = |busy: u64| format!("{busy} 0 0 {}", 100 - busy);
        let stat = format!("cpu 0\ncpu0 {}\ncpu1 {}", line(busy[0]), line(busy[1]));
        fixture.write("/proc/stat", &stat);
        match read(meter.as_mut())[..] {
            [(_, Reading::MeanPower { watts, over })] if !over.is_zero() => watts.get(),
            ref other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_busy_machine_draws_more_than_an_idle_one_which_draws_something() {
        let (idle, half, full) = (watts([0, 0]), watts([100, 0]), watts([100, 100]));
        assert!(0.5 < idle && idle < half && half < full && full < 5000.0, "{idle} {half} {full}");
    }

    #[test]
    fn wake_ups_are_in_it_unless_somebody_else_counts_them() {
        let state = "/sys/devices/system/cpu/cpu0/cpuidle/state1";
        let watts = |spec: &str| {
            let fixture = Fixture::of(&[
                ("/proc/stat", "cpu0 0 0 0 0"),
                (&format!("{state}/name"), "C1"),
                (&format!("{state}/usage"), "0"),
            ]);
            let mut meter = crate::open(&fixture.host, &spec.parse().unwrap()).unwrap();
            fixture.write("/proc/stat", "cpu0 10 0 0 90");
            // So many that the least time between two readings makes a difference.
            fixture.write(&format!("{state}/usage"), "1000000000");
            match read(meter.as_mut())[..] {
                [(_, Reading::MeanPower { watts, .. })] => watts.get(),
                ref other => panic!("{other:?}"),
            }
        };
        let [with, without] = [watts("model"), watts("model,wakeups=false")];
        assert!(with > 1.01 * without, "{with} W with wake-ups, {without} W without");
    }

    #[test]
    fn its_uncertainty_is_no_less_than_a_machine_that_was_never_measured_deserves() {
        let fixture = Fixture::of(&[("/proc/stat", "cpu0 0 0 0 0")]);
        let accuracy = fixture.open("model").channels()[0].accuracy;
        assert!(accuracy.relative > 0.2, "{accuracy:?}");
    }

    #[test]
    fn a_calibration_that_is_none_is_told() {
        let fixture = Fixture::of(&[("/proc/stat", "cpu0 0 0 0 0"), ("/fit.json", "{}")]);
        let path = fixture.host.path("/fit.json").display().to_string();
        let spec: MeterSpec = format!("model,fitted={path}").parse().unwrap();
        let error = crate::open(&fixture.host, &spec).err().unwrap().to_string();
        assert!(error.contains("holds no power model"), "{error}");
    }
}
