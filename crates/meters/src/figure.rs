//! What a number of a device means: power or energy, in which unit, and of what.

use nightwatt_energy::integration::Reading;
use nightwatt_energy::quantity::Watts;
use nightwatt_energy::wrapping_counter::CounterSpec;

use crate::channel::{Accuracy, Channel, Scope};
use crate::error::MeterError;
use crate::spec::MeterSpec;

/// Options that say what a number means.
pub(crate) const OPTIONS: [&str; 5] = ["kind", "unit", "scale", "scope", "accuracy"];

/// What a device's energy may grow by at most. Wide: devices count in steps of up to a watt hour and
/// more, and show a step at once. A counter that goes back was reset, however little it may grow.
const MOST: Watts = Watts(1e6);

/// Energies that come as decimal fractions are counted in this, J.
const COUNT: f64 = 1e-3;

/// The largest energy that is taken for one, J: a gigawatt for ten years.
const LARGEST: f64 = 3.2e17 * COUNT;

/// Power or energy?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FigureKind {
    Power,
    Energy,
}

const UNITS: [(&str, FigureKind, f64); 14] = [
    ("W", FigureKind::Power, 1.0),
    ("kW", FigureKind::Power, 1e3),
    ("mW", FigureKind::Power, 1e-3),
    ("uW", FigureKind::Power, 1e-6),
    ("J", FigureKind::Energy, 1.0),
    ("kJ", FigureKind::Energy, 1e3),
    ("MJ", FigureKind::Energy, 1e6),
    ("mJ", FigureKind::Energy, 1e-3),
    ("uJ", FigureKind::Energy, 1e-6),
    ("Ws", FigureKind::Energy, 1.0),
    ("Wmin", FigureKind::Energy, 60.0),
    ("mWh", FigureKind::Energy, 3.6),
    ("Wh", FigureKind::Energy, 3600.0),
    ("kWh", FigureKind::Energy, 3.6e6),
];

const SCOPES: [(&str, Scope); 4] =
    [("wall", Scope::Wall), ("system", Scope::System), ("gpu", Scope::Gpu), ("part", Scope::Part)];

/// What a number means.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Figure {
    pub(crate) kind: FigureKind,
    /// Watts, or joules, of 1.
    pub(crate) unit: f64,
    pub(crate) scope: Scope,
    /// As far as the user says it.
    accuracy: Option<Accuracy>,
}

impl Figure {
    /// By the options of that name with `suffix` behind it; without them it is `usual_kind` in `usual_unit`.
    pub(crate) fn of(
        spec: &MeterSpec,
        suffix: &str,
        usual_kind: FigureKind,
        usual_unit: f64,
    ) -> Result<Self, MeterError> {
        let named = |option: &str| format!("{option}{suffix}");
        let kind = match spec.text(&named("kind")) {
            None => None,
            Some("power") => Some(FigureKind::Power),
            Some("energy") => Some(FigureKind::Energy),
            Some(other) => {
                return Err(spec.wrong(format!("`kind` is `power` or `energy`, and not `{other}`")));
            }
        };
        let (kind, unit) = match (spec.text(&named("unit")), kind) {
            (None, kind) if kind.is_none_or(|kind| kind == usual_kind) => (usual_kind, usual_unit),
            (None, Some(FigureKind::Power)) => (FigureKind::Power, 1.0),
            (None, _) => {
                let known = units(FigureKind::Energy);
                return Err(spec.wrong(format!("it does not say the energy's unit: {known}")));
            }
            (Some(unit), kind) => {
                let of_kind =
                    |known: &&(&str, FigureKind, f64)| kind.is_none_or(|kind| kind == known.1);
                let Some((_, kind, unit)) =
                    UNITS.iter().filter(of_kind).find(|known| known.0 == unit)
                else {
                    let known = kind.map_or_else(
                        || format!("{}, {}", units(FigureKind::Power), units(FigureKind::Energy)),
                        units,
                    );
                    return Err(spec.wrong(format!("`{unit}` is no unit of it; there are {known}")));
                };
                (*kind, *unit)
            }
        };
        let scale = spec.number(&named("scale"))?.unwrap_or(1.0);
        if scale == 0.0 || (scale < 0.0 && kind == FigureKind::Energy) {
            return Err(spec.wrong(format!("`scale` cannot be {scale}")));
        }
        let scope = match spec.text(&named("scope")) {
            None => Scope::Wall,
            Some(name) => {
                let scope = SCOPES.iter().find(|scope| scope.0 == name);
                let known = SCOPES.map(|scope| scope.0).join("`, `");
                scope.ok_or_else(|| spec.wrong(format!("`scope` is one of `{known}`")))?.1
            }
        };
        Ok(Self { kind, unit: unit * scale, scope, accuracy: accuracy(spec)? })
    }

    /// Its channel. `assumed` applies if the user states no accuracy.
    pub(crate) fn channel(&self, name: impl Into<String>, assumed: Accuracy) -> Channel {
        let counter = CounterSpec { joules_per_count: COUNT, range: None, most: MOST };
        match self.kind {
            FigureKind::Power => self.judged(Channel::power(name, self.scope, assumed)),
            // The size of its steps is not documented.
            FigureKind::Energy => Channel {
                step: 0.0,
                ..self.judged(Channel::counter(name, self.scope, counter, assumed))
            },
        }
    }

    /// The channel of a device that tells its energy in whole counts, which wrap at `range`.
    pub(crate) fn counts(
        &self,
        name: impl Into<String>,
        range: Option<u64>,
        assumed: Accuracy,
    ) -> Channel {
        // A large count is shown at once.
        let most = Watts(MOST.get().max(self.unit * 2.0));
        let counter = CounterSpec { joules_per_count: self.unit, range, most };
        self.judged(Channel::counter(name, self.scope, counter, assumed))
    }

    fn judged(&self, channel: Channel) -> Channel {
        match self.accuracy {
            Some(accuracy) => Channel { accuracy, accuracy_source: "said by the user", ..channel },
            None => channel,
        }
    }

    /// What a number of the device says.
    pub(crate) fn reading(&self, number: f64) -> Result<Reading, String> {
        let value = number * self.unit;
        match self.kind {
            FigureKind::Power if value.is_finite() => Ok(Reading::Power(Watts(value))),
            FigureKind::Energy if (0.0..=LARGEST).contains(&value) => {
                Ok(Reading::Counter((value / COUNT).round() as u64))
            }
            _ => Err(format!("{number} is too large or too small to be true")),
        }
    }
}

fn units(kind: FigureKind) -> String {
    let names = UNITS.iter().filter(|unit| unit.1 == kind).map(|unit| format!("`unit={}`", unit.0));
    names.collect::<Vec<_>>().join(", ")
}

/// `accuracy=1.5%` or `accuracy=0.015`: a share of the reading.
fn accuracy(spec: &MeterSpec) -> Result<Option<Accuracy>, MeterError> {
    let Some(text) = spec.text("accuracy") else { return Ok(None) };
    let share = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse().map(|percent: f64| percent / 100.0),
        None => text.parse(),
    };
    match share {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(Some(Accuracy::relative(share))),
        _ => Err(spec.wrong(format!("`accuracy` is a share of the reading, `1%`, not `{text}`"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(options: &str) -> Result<Figure, String> {
        let spec = format!("http=x{options}").parse().unwrap();
        Figure::of(&spec, "", FigureKind::Power, 1.0).map_err(|error| error.to_string())
    }

    #[test]
    fn numbers_get_their_unit_and_scale() {
        let power = |options| figure(options).unwrap().reading(2.5).unwrap();
        assert_eq!(power(""), Reading::Power(Watts(2.5)));
        assert_eq!(power(",unit=kW"), Reading::Power(Watts(2500.0)));
        assert_eq!(power(",kind=power,scale=-0.1"), Reading::Power(Watts(-0.25)), "fed in");
        // 2.5 Wh are 9000 J, counted in mJ.
        assert_eq!(power(",kind=energy,unit=Wh"), Reading::Counter(9_000_000));
        assert_eq!(power(",unit=kWh,scale=0.001"), Reading::Counter(9_000_000));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_what_there_is() {
        let error = |options| figure(options).unwrap_err();
        assert!(error(",kind=heat").contains("`power` or `energy`"));
        assert!(error(",kind=energy").contains("`unit=kWh`"));
        assert!(error(",kind=energy,unit=W").contains("`unit=Wh`"));
        assert!(!error(",kind=energy,unit=W").contains("`unit=kW`"));
        assert!(error(",unit=hp").contains("`unit=mW`"));
        assert!(error(",scale=0").contains("cannot be 0"));
        assert!(error(",scope=room").contains("`wall`"));
        assert!(error(",accuracy=good").contains("`1%`"));
        let energy = figure(",unit=kWh").unwrap();
        for number in [-1.0, 1e300, f64::NAN] {
            assert!(energy.reading(number).is_err(), "{number}");
        }
        assert!(figure("").unwrap().reading(f64::INFINITY).is_err());
    }

    #[test]
    fn the_user_may_know_how_good_it_is() {
        let assumed = Accuracy::relative(0.05);
        let channel = figure(",accuracy=1.5%,scope=part").unwrap().channel("power", assumed);
        assert_eq!(channel.accuracy, Accuracy::relative(0.015));
        assert_eq!((channel.accuracy_source, channel.scope), ("said by the user", Scope::Part));
        let channel = figure("").unwrap().channel("power", assumed);
        assert_eq!((channel.accuracy, channel.accuracy_source), (assumed, "assumed"));
        assert_eq!(channel.scope, Scope::Wall);
    }
}
