//! Where a chassis tells its power: the wall side first.

use nightwatt_model::quantity::Watts;
use nightwatt_model::time::Mono;
use serde_json::Value;

use super::{Service, last, link};
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

#[derive(Debug)]
enum Place {
    /// What goes into each supply: the places of their `PowerSupplyMetrics` (DSP0268, since 2020.4).
    Supplies(Vec<String>),
    /// The same in the older resource `Power`: `PowerSupplies[].PowerInputWatts`.
    OldSupplies(String),
    /// `EnvironmentMetrics.PowerWatts.Reading` of the chassis.
    Environment(String),
    /// `Power.PowerControl[0].PowerConsumedWatts`.
    Control(String),
}

const INPUT: &str = "/InputPowerWatts/Reading";
const ENVIRONMENT: &str = "/PowerWatts/Reading";
const CONTROL: &str = "/PowerControl/0/PowerConsumedWatts";

/// What `source=` may say.
const KINDS: [&str; 3] = ["supplies", "environment", "control"];

impl Source {
    /// The first of what a chassis has; `None` if it tells nothing.
    pub(super) fn find(
        service: &mut Service,
        chassis: &str,
        spec: &MeterSpec,
        until: Mono,
    ) -> Result<Option<Self>, MeterError> {
        let wanted = spec.text("source");
        if let Some(other) = wanted.filter(|wanted| !KINDS.contains(wanted)) {
            let known = KINDS.join("`, `");
            return Err(spec.wrong(format!("`source` is one of `{known}`, and not `{other}`")));
        }
        let resource = service.get(chassis, until)?;
        let follow = |name: &str| link(&resource, &format!("/{name}")).map(str::to_owned);
        let power = follow("Power");
        let old = match &power {
            Some(power) => service.get(power, until)?,
            None => Value::Null,
        };
        let named = |place| Self { chassis: last(chassis).to_owned(), place };
        for kind in KINDS.into_iter().filter(|kind| wanted.is_none_or(|wanted| wanted == *kind)) {
            let place = match kind {
                "supplies" => match follow("PowerSubsystem") {
                    Some(place) => supplies(service, &place, until)?.map(Place::Supplies),
                    None => None,
                }
                .or_else(|| {
                    let power = power.clone().filter(|_| old_supplies(&old).is_some());
                    power.map(Place::OldSupplies)
                }),
                "environment" => match follow("EnvironmentMetrics") {
                    Some(place) => {
                        let metrics = service.get(&place, until)?;
                        json::number(&metrics, ENVIRONMENT).is_ok().then_some(place)
                    }
                    None => None,
                }
                .map(Place::Environment),
                _ => {
                    let tells = json::number(&old, CONTROL).is_ok();
                    power.clone().filter(|_| tells).map(Place::Control)
                }
            };
            if let Some(place) = place {
                return Ok(Some(named(place)));
            }
        }
        Ok(None)
    }

    pub(super) fn name(&self) -> String {
        let what = match self.place {
            Place::Supplies(_) | Place::OldSupplies(_) => "supplies",
            Place::Environment(_) | Place::Control(_) => "power",
        };
        format!("{}/{what}", self.chassis)
    }

    pub(super) fn scope(&self) -> Scope {
        match self.place {
            Place::Supplies(_) | Place::OldSupplies(_) => Scope::Wall,
            // Nobody says on which side of the supplies that is.
            Place::Environment(_) | Place::Control(_) => Scope::System,
        }
    }

    /// The power now.
    pub(super) fn read(&self, service: &mut Service, until: Mono) -> Result<Watts, MeterError> {
        let one = |service: &mut Service, place: &str, pointer: &str| {
            let value = service.get(place, until)?;
            let number = json::number(&value, pointer).map(Watts);
            number.map_err(|what| service.web.nonsense(place, &what))
        };
        match &self.place {
            Place::Supplies(places) => {
                places.iter().map(|place| one(service, place, INPUT)).sum::<Result<Watts, _>>()
            }
            Place::OldSupplies(place) => {
                let value = service.get(place, until)?;
                old_supplies(&value).ok_or_else(|| {
                    let what =
                        "a supply does not tell its input any more: the sum would be too small";
                    service.web.nonsense(place, what)
                })
            }
            Place::Environment(place) => one(service, place, ENVIRONMENT),
            Place::Control(place) => one(service, place, CONTROL),
        }
    }
}

/// The metrics of all supplies that are there; `None` unless all tell their input.
fn supplies(
    service: &mut Service,
    subsystem: &str,
    until: Mono,
) -> Result<Option<Vec<String>>, MeterError> {
    let subsystem = service.get(subsystem, until)?;
    let Some(collection) = link(&subsystem, "/PowerSupplies") else { return Ok(None) };
    let mut metrics = Vec::new();
    for supply in service.members(collection, until)?.into_iter().take(MOST_SUPPLIES) {
        let supply = service.get(&supply, until)?;
        if !is_there(&supply) {
            continue;
        }
        let Some(place) = link(&supply, "/Metrics") else { return Ok(None) };
        if json::number(&service.get(place, until)?, INPUT).is_err() {
            return Ok(None);
        }
        metrics.push(place.to_owned());
    }
    Ok(Some(metrics).filter(|metrics| !metrics.is_empty()))
}

/// What goes into all supplies of an older `Power`; `None` unless all that are there tell it.
pub(crate) fn old_supplies(power: &Value) -> Option<Watts> {
    let supplies = power["PowerSupplies"].as_array()?;
    let mut there = supplies.iter().filter(|supply| is_there(supply)).peekable();
    there.peek()?;
    there.map(|supply| json::number(supply, "/PowerInputWatts").ok().map(Watts)).sum()
}

/// Is a supply plugged in? `Status.State`: `Absent`, where it is not.
fn is_there(supply: &Value) -> bool {
    supply.pointer("/Status/State").and_then(Value::as_str) != Some("Absent")
}
