//! Where a chassis tells its power: the wall side first, as long as it can be believed.

use nightwatt_bmc::redfish::{last, link};
use nightwatt_energy::quantity::Watts;
use nightwatt_energy::time::Mono;
use serde_json::Value;

use super::Service;
use crate::channel::Scope;
use crate::error::MeterError;
use crate::json;
use crate::spec::MeterSpec;

/// No chassis has more supplies.
const MOST_SUPPLIES: usize = 16;

/// Where a chassis tells its power.
#[derive(Debug)]
pub(super) struct Source {
    chassis: String,
    place: Place,
}

/// Where a supply tells its input: its name, the place of its `PowerSupplyMetrics`, and its rating.
#[derive(Debug, Clone)]
struct Metrics {
    name: String,
    place: String,
    rating: Option<Watts>,
}

#[derive(Debug)]
enum Place {
    /// What goes into all supplies (DSP0268, since 2020.4).
    Supplies(Vec<Metrics>),
    /// The same in the older resource `Power`: `PowerSupplies[].PowerInputWatts`. The user may want it
    /// in spite of what contradicts it.
    OldSupplies { power: String, in_spite: bool },
    /// One supply, where others do not tell theirs and nothing else does.
    Supply(Metrics),
    /// The same in the older resource, by its place in the list.
    OldSupply { power: String, name: String, number: usize },
    /// `EnvironmentMetrics.PowerWatts.Reading` of the chassis.
    Environment(String),
    /// `Power.PowerControl[0].PowerConsumedWatts`.
    Control(String),
}

const INPUT: &str = "/InputPowerWatts/Reading";
const ENVIRONMENT: &str = "/PowerWatts/Reading";
const CONTROL: &str = "/PowerControl/0/PowerConsumedWatts";
const CAPACITY: &str = "/PowerControl/0/PowerCapacityWatts";

/// What `source=` may say.
const KINDS: [&str; 3] = ["supplies", "environment", "control"];

/// More than this, and 16 bits of ones, is no power of a chassis.
const MOST: f64 = 65_535.0;

/// More of its rated output than this does not go into a supply: the rest is its losses at full load.
const LOSSES: f64 = 1.15;

/// Two figures of the same power contradict each other if one is larger by this factor and these watts.
const CONTRADICTION: (f64, f64) = (1.5, 25.0);

/// What a supply says.
#[derive(Debug, Clone)]
struct SupplyReading {
    name: String,
    /// Its place in the list of an older `Power`.
    number: usize,
    input: Result<Watts, String>,
    rating: Option<Watts>,
}

/// The power at a pointer, if it can be one: a controller that has no figure says 0 or 65535.
fn watts(value: &Value, pointer: &str) -> Result<Watts, String> {
    let number = json::number(value, pointer)?;
    if number <= 0.0 || number >= MOST {
        return Err(format!(
            "`{pointer}` is {number} W, which a controller says that has no figure"
        ));
    }
    Ok(Watts(number))
}

/// What goes into a supply; one that waits for another to fail takes nothing.
fn input(value: &Value, pointer: &str) -> Result<Watts, String> {
    let nothing = json::number(value, pointer) == Ok(0.0);
    if nothing { Ok(Watts::ZERO) } else { watts(value, pointer) }
}

/// What the supplies say in all; where one does not tell it, the sum would be too small.
fn sum(supplies: &[SupplyReading]) -> Result<Watts, String> {
    let each = supplies.iter().map(|supply| {
        supply.input.clone().map_err(|what| {
            format!(
                "supply `{}` does not report its input ({what}), so there is no sum",
                supply.name
            )
        })
    });
    match each.sum::<Result<Watts, String>>()? {
        Watts::ZERO => {
            Err("all supplies say 0 W, as a controller does that has no figure".to_owned())
        }
        sum => Ok(sum),
    }
}

/// Why what the supplies say is not believed; `others` are other figures of the same power.
fn doubt(supplies: &[SupplyReading], others: &[(&str, Watts)]) -> Option<String> {
    let over = supplies.iter().find_map(|supply| {
        let (input, rating) = (supply.input.as_ref().ok()?, supply.rating?);
        (input.get() > LOSSES * rating.get())
            .then(|| format!("supply `{}` says {input:.0} and is rated {rating:.0}", supply.name))
    });
    let sum = sum(supplies).ok();
    let (factor, more) = CONTRADICTION;
    let contradicts = |one: Watts, other: Watts| one.get() > factor * other.get() + more;
    let other = sum.and_then(|sum| {
        let (name, other) = others
            .iter()
            .find(|(_, other)| contradicts(sum, *other) || contradicts(*other, sum))?;
        Some(format!("the supplies say {sum:.0} in all, and `{name}` says {other:.0}"))
    });
    match (over, other) {
        (Some(over), Some(other)) => Some(format!("{over}; {other}")),
        (over, other) => over.or(other),
    }
}

/// The consumption that an older `Power` tells; one above its own capacity is not believed.
fn control(power: &Value) -> Result<Watts, String> {
    let consumed = watts(power, CONTROL)?;
    match watts(power, CAPACITY) {
        Ok(capacity) if consumed.get() > LOSSES * capacity.get() => Err(format!(
            "PowerControl says {consumed:.0} of a capacity of {capacity:.0}: it is not believed"
        )),
        _ => Ok(consumed),
    }
}

/// All that a chassis tells.
#[derive(Debug, Default)]
struct PowerFigures {
    supplies: Vec<(Metrics, SupplyReading)>,
    old_supplies: Vec<SupplyReading>,
    environment: Option<(String, Watts)>,
    control: Option<Watts>,
    power: Option<String>,
    /// What could not be read.
    remarks: Vec<String>,
}

impl PowerFigures {
    fn read(service: &mut Service, chassis: &str, until: Mono) -> Result<Self, MeterError> {
        let resource = service.get(chassis, until)?;
        let follow = |name: &str| link(&resource, &format!("/{name}")).map(str::to_owned);
        let mut figures = Self { power: follow("Power"), ..Self::default() };
        if let Some(power) = figures.power.clone()
            && let Some(power) = figures.get(service, &power, until)
        {
            figures.old_supplies = old_readings(&power);
            figures.control = control(&power).map_err(|what| figures.remarks.push(what)).ok();
            if power.pointer(CONTROL).is_none() {
                figures.remarks.pop();
            }
        }
        if let Some(place) = follow("PowerSubsystem") {
            figures.read_supplies(service, &place, until);
        }
        if let Some(place) = follow("EnvironmentMetrics")
            && let Some(metrics) = figures.get(service, &place, until)
        {
            figures.environment = watts(&metrics, ENVIRONMENT).ok().map(|watts| (place, watts));
        }
        Ok(figures)
    }

    /// A resource; one that cannot be read does not take others along.
    fn get(&mut self, service: &mut Service, place: &str, until: Mono) -> Option<Value> {
        service.get(place, until).map_err(|error| self.remarks.push(error.to_string())).ok()
    }

    /// The supplies that are there.
    fn read_supplies(&mut self, service: &mut Service, subsystem: &str, until: Mono) {
        let Some(subsystem) = self.get(service, subsystem, until) else { return };
        let Some(collection) = link(&subsystem, "/PowerSupplies") else { return };
        let members = match service.members(collection, until) {
            Ok(members) => members,
            Err(error) => return self.remarks.push(error.to_string()),
        };
        for place in members.into_iter().take(MOST_SUPPLIES) {
            let supply = self.get(service, &place, until);
            if supply.as_ref().is_some_and(|supply| !is_there(supply)) {
                continue;
            }
            let name = last(&place).to_owned();
            let rating = supply.as_ref().and_then(rating);
            let metrics = supply.as_ref().and_then(|supply| link(supply, "/Metrics"));
            let metrics = metrics.map(str::to_owned);
            let input = match &metrics {
                Some(place) => match service.get(place, until) {
                    Ok(metrics) => input(&metrics, INPUT),
                    Err(error) => Err(error.to_string()),
                },
                None => Err("it has no metrics".to_owned()),
            };
            let place = metrics.unwrap_or_default();
            self.supplies.push((
                Metrics { name: name.clone(), place, rating },
                SupplyReading { name, number: 0, input, rating },
            ));
        }
    }

    /// What else says the same power.
    fn others(&self) -> Vec<(&'static str, Watts)> {
        let environment =
            self.environment.as_ref().map(|(_, watts)| ("EnvironmentMetrics", *watts));
        self.control.map(|watts| ("PowerControl", watts)).into_iter().chain(environment).collect()
    }

    fn readings(&self) -> Vec<SupplyReading> {
        self.supplies.iter().map(|(_, reading)| reading.clone()).collect()
    }
}

impl Source {
    /// What a chassis is read by, none if it tells nothing, and what is to be said of it.
    pub(super) fn find(
        service: &mut Service,
        chassis: &str,
        spec: &MeterSpec,
        until: Mono,
    ) -> Result<(Vec<Self>, Vec<String>), MeterError> {
        let wanted = spec.text("source");
        if let Some(other) = wanted.filter(|wanted| !KINDS.contains(wanted)) {
            let known = KINDS.join("`, `");
            return Err(spec.wrong(format!("`source` is one of `{known}`, and not `{other}`")));
        }
        let mut figures = PowerFigures::read(service, chassis, until)?;
        let is_wanted = |kind: &str| wanted.is_none_or(|wanted| wanted == kind);
        let place = if is_wanted("supplies") { figures.supplies(wanted.is_some()) } else { None };
        let place = place
            .or_else(|| {
                let (place, _) =
                    figures.environment.clone().filter(|_| is_wanted("environment"))?;
                Some(Place::Environment(place))
            })
            .or_else(|| {
                figures.control.filter(|_| is_wanted("control"))?;
                figures.power.clone().map(Place::Control)
            });
        let places = match place {
            Some(place) => vec![place],
            None if is_wanted("supplies") => figures.each_supply(),
            None => Vec::new(),
        };
        let chassis = last(chassis);
        let named = |place| Self { chassis: chassis.to_owned(), place };
        let remarks = figures.remarks.iter().map(|remark| format!("{chassis}: {remark}")).collect();
        Ok((places.into_iter().map(named).collect(), remarks))
    }

    pub(super) fn name(&self) -> String {
        let what = match &self.place {
            Place::Supplies(_) | Place::OldSupplies { .. } => "supplies",
            Place::Supply(Metrics { name, .. }) | Place::OldSupply { name, .. } => name,
            Place::Environment(_) | Place::Control(_) => "power",
        };
        format!("{}/{what}", self.chassis)
    }

    pub(super) fn scope(&self) -> Scope {
        match self.place {
            Place::Supplies(_) | Place::OldSupplies { .. } => Scope::Wall,
            Place::Supply(_) | Place::OldSupply { .. } => Scope::Part,
            // The standard does not say on which side of the supplies these are measured.
            Place::Environment(_) | Place::Control(_) => Scope::System,
        }
    }

    /// The power now.
    pub(super) fn read(&self, service: &mut Service, until: Mono) -> Result<Watts, MeterError> {
        let mut of = |metrics: &Metrics| {
            let value = service.get(&metrics.place, until)?;
            let (name, input) = (metrics.name.clone(), input(&value, INPUT));
            let reading = SupplyReading { name, number: 0, input, rating: metrics.rating };
            let doubt = doubt(std::slice::from_ref(&reading), &[]);
            let input =
                doubt.map_or(reading.input, |why| Err(format!("{why}: it is not believed")));
            input.map_err(|what| service.device.nonsense(&metrics.place, &what))
        };
        let (place, watts) = match &self.place {
            Place::Supplies(all) => return all.iter().map(of).sum(),
            Place::Supply(metrics) => return of(metrics),
            Place::OldSupplies { power, in_spite } => {
                let value = service.get(power, until)?;
                let readings = old_readings(&value);
                let others = control(&value).map(|watts| ("PowerControl", watts)).ok();
                let doubt = doubt(&readings, others.as_slice()).filter(|_| !in_spite);
                let watts = doubt.map_or_else(
                    || sum(&readings),
                    |why| Err(format!("{why}: the supplies are not believed")),
                );
                (power, watts)
            }
            Place::OldSupply { power, number, .. } => {
                let value = service.get(power, until)?;
                (power, input(&value, &format!("/PowerSupplies/{number}/PowerInputWatts")))
            }
            Place::Environment(place) => (place, watts(&service.get(place, until)?, ENVIRONMENT)),
            Place::Control(place) => (place, control(&service.get(place, until)?)),
        };
        watts.map_err(|what| service.device.nonsense(place, &what))
    }
}

impl PowerFigures {
    /// All supplies, where all tell their input and can be believed, or the user names them.
    fn supplies(&mut self, in_spite: bool) -> Option<Place> {
        for (readings, is_old) in [(self.readings(), false), (self.old_supplies.clone(), true)] {
            if readings.is_empty() {
                continue;
            }
            if let Err(why) = sum(&readings) {
                self.remarks.push(why);
                continue;
            }
            if let Some(why) = doubt(&readings, &self.others()) {
                self.remarks.push(format!("{why}: the supplies are not believed"));
                if !in_spite {
                    continue;
                }
            }
            return if is_old {
                let power = self.power.clone()?;
                Some(Place::OldSupplies { power, in_spite })
            } else {
                Some(Place::Supplies(self.supplies.iter().map(|(it, _)| it.clone()).collect()))
            };
        }
        None
    }

    /// Every supply that tells its input and can be believed, as a part.
    fn each_supply(&self) -> Vec<Place> {
        let good = |supply: &SupplyReading| {
            supply.input.is_ok() && doubt(std::slice::from_ref(supply), &[]).is_none()
        };
        let new = self.supplies.iter().filter(|(_, supply)| good(supply));
        let new: Vec<Place> = new.map(|(metrics, _)| Place::Supply(metrics.clone())).collect();
        if !new.is_empty() {
            return new;
        }
        let Some(power) = &self.power else { return Vec::new() };
        let old = self.old_supplies.iter().filter(|supply| good(supply));
        let place = |supply: &SupplyReading| {
            let (power, name) = (power.clone(), supply.name.clone());
            Place::OldSupply { power, name, number: supply.number }
        };
        old.map(place).collect()
    }
}

/// What a supply is made for, as far as it says.
fn rating(supply: &Value) -> Option<Watts> {
    let ranges = supply["InputRanges"].as_array().into_iter().flatten();
    let ranges = ranges.filter_map(|range| {
        watts(range, "/OutputWattage").or_else(|_| watts(range, "/CapacityWatts")).ok()
    });
    let own = watts(supply, "/PowerCapacityWatts").ok();
    let most = |one: Watts, other: Watts| if other.get() > one.get() { other } else { one };
    ranges.chain(own).reduce(most)
}

/// What each supply of an older `Power` says that is there.
fn old_readings(power: &Value) -> Vec<SupplyReading> {
    let supplies = power["PowerSupplies"].as_array().into_iter().flatten().take(MOST_SUPPLIES);
    let there = supplies.enumerate().filter(|(_, supply)| is_there(supply));
    there
        .map(|(number, supply)| {
            let name = supply["MemberId"].as_str().map(str::to_owned);
            SupplyReading {
                name: name.unwrap_or_else(|| format!("supply-{number}")),
                number,
                input: input(supply, "/PowerInputWatts"),
                rating: rating(supply),
            }
        })
        .collect()
}

/// What goes into all supplies of an older `Power`; `None` unless all that are there tell it and can be
/// believed.
pub(crate) fn old_supplies(power: &Value) -> Option<Watts> {
    let readings = old_readings(power);
    let others = control(power).map(|watts| ("PowerControl", watts)).ok();
    if readings.is_empty() || doubt(&readings, others.as_slice()).is_some() {
        return None;
    }
    sum(&readings).ok()
}

/// Is a supply plugged in? `Status.State`: `Absent`, where it is not.
fn is_there(supply: &Value) -> bool {
    supply.pointer("/Status/State").and_then(Value::as_str) != Some("Absent")
}
