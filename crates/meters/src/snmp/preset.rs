//! Where well-known power strips keep their figures.

use crate::error::MeterError;
use crate::figure::FigureKind;
use crate::spec::MeterSpec;

/// Where a figure is, and what 1 of it means.
#[derive(Debug, PartialEq)]
pub(super) struct Place {
    pub(super) oid: String,
    pub(super) kind: FigureKind,
    /// Watts or joules of 1.
    pub(super) unit: f64,
    /// Where it says how many digits are behind the decimal point.
    pub(super) digits: Option<String>,
}

/// `PowerNet-MIB`.
const APC: &str = ".1.3.6.1.4.1.318.1.1";

/// `PDU2-MIB`.
const RARITAN: &str = ".1.3.6.1.4.1.13742.6";

/// 0.1 kWh.
const TENTH_OF_A_KWH: f64 = 360_000.0;

/// The place that `oid=` or `preset=` names.
pub(super) fn place(spec: &MeterSpec) -> Result<Place, MeterError> {
    let energy = spec.text("kind") == Some("energy");
    let number = |option: &str| match spec.text(option).map(str::parse::<u16>) {
        None => Ok(None),
        Some(Ok(number)) if number > 0 => Ok(Some(number)),
        Some(_) => Err(spec.wrong(format!("`{option}` is a number from 1"))),
    };
    let (outlet, device) = (number("outlet")?, number("device")?);
    let watts = |oid| Place { oid, kind: FigureKind::Power, unit: 1.0, digits: None };
    let place = match (spec.text("oid"), spec.text("preset")) {
        (Some(_), Some(_)) => return Err(spec.wrong("`oid` and `preset` are both given: drop one")),
        (None, None) => {
            let why = "it does not say where the figure is: say `oid=.1.3...` with `scale=`, or \
                       `preset=apc-rpdu`, `apc-rpdu2` or `raritan-px2`";
            return Err(spec.wrong(why));
        }
        (Some(oid), None) => watts(oid.to_owned()),
        (None, Some("apc-rpdu")) if energy || outlet.is_some() => {
            return Err(spec.wrong("`apc-rpdu` reports the power of the whole strip only"));
        }
        // rPDUIdentDevicePowerWatts.
        (None, Some("apc-rpdu")) => watts(format!("{APC}.12.1.16.0")),
        (None, Some("apc-rpdu2")) => match (outlet, energy) {
            // rPDU2DeviceStatusPower (0.01 kW) and Energy (0.1 kWh).
            (None, false) => {
                Place { unit: 10.0, ..watts(format!("{APC}.26.4.3.1.5.{}", device.unwrap_or(1))) }
            }
            (None, true) => tenths(format!("{APC}.26.4.3.1.9.{}", device.unwrap_or(1))),
            // rPDU2OutletMeteredStatusPower (W) and Energy (0.1 kWh).
            (Some(outlet), false) => watts(format!("{APC}.26.9.4.3.1.7.{outlet}")),
            (Some(outlet), true) => tenths(format!("{APC}.26.9.4.3.1.11.{outlet}")),
        },
        (None, Some("raritan-px2")) => {
            let device = device.unwrap_or(1);
            // Sensors 5 (active power) and 8 (active energy); first the values, then their digits.
            let sensor = if energy { 8 } else { 5 };
            let (value, digits, row) = match outlet {
                None => ("5.2.3.1.4", "3.3.4.1.7", 1),
                Some(outlet) => ("5.4.3.1.4", "3.5.4.1.7", outlet),
            };
            let place = |table| format!("{RARITAN}.{table}.{device}.{row}.{sensor}");
            let (kind, unit) =
                if energy { (FigureKind::Energy, 3600.0) } else { (FigureKind::Power, 1.0) };
            Place { oid: place(value), kind, unit, digits: Some(place(digits)) }
        }
        (None, Some(other)) => {
            let why = format!(
                "there is no preset `{other}`: there are `apc-rpdu`, `apc-rpdu2`, `raritan-px2`"
            );
            return Err(spec.wrong(why));
        }
    };
    if spec.text("oid").is_some() && (outlet.is_some() || device.is_some()) {
        return Err(spec.wrong("`outlet` and `device` are for presets: the OID says it all"));
    }
    Ok(place)
}

fn tenths(oid: String) -> Place {
    Place { oid, kind: FigureKind::Energy, unit: TENTH_OF_A_KWH, digits: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(options: &str) -> Result<(String, f64), String> {
        let comma = if options.is_empty() { "" } else { "," };
        let spec = format!("snmp=10.0.0.3{comma}{options}").parse().unwrap();
        let place = place(&spec).map_err(|error| error.to_string())?;
        Ok((place.oid, place.unit))
    }

    #[test]
    fn presets_lead_to_the_places_of_the_vendors_mibs() {
        let apc = ".1.3.6.1.4.1.318.1.1.";
        for (options, oid, unit) in [
            ("preset=apc-rpdu", "12.1.16.0", 1.0),
            ("preset=apc-rpdu2", "26.4.3.1.5.1", 10.0),
            ("preset=apc-rpdu2,device=2,kind=energy", "26.4.3.1.9.2", 360e3),
            ("preset=apc-rpdu2,outlet=7", "26.9.4.3.1.7.7", 1.0),
            ("preset=apc-rpdu2,outlet=7,kind=energy", "26.9.4.3.1.11.7", 360e3),
        ] {
            assert_eq!(at(options), Ok((format!("{apc}{oid}"), unit)), "{options}");
        }
        let raritan = ".1.3.6.1.4.1.13742.6.";
        for (options, oid, unit) in [
            ("preset=raritan-px2", "5.2.3.1.4.1.1.5", 1.0),
            ("preset=raritan-px2,outlet=12", "5.4.3.1.4.1.12.5", 1.0),
            ("preset=raritan-px2,outlet=12,kind=energy", "5.4.3.1.4.1.12.8", 3600.0),
        ] {
            assert_eq!(at(options), Ok((format!("{raritan}{oid}"), unit)), "{options}");
        }
    }

    #[test]
    fn what_is_missing_or_too_much_is_told() {
        assert!(at("").unwrap_err().contains("`preset=apc-rpdu`"));
        assert!(at("oid=.1.3.6.1,preset=apc-rpdu").unwrap_err().contains("drop one"));
        assert!(at("preset=eaton").unwrap_err().contains("`raritan-px2`"));
        assert!(at("preset=apc-rpdu,outlet=1").unwrap_err().contains("whole strip"));
        assert!(at("preset=apc-rpdu2,outlet=0").unwrap_err().contains("from 1"));
        assert!(at("oid=.1.3.6.1,outlet=1").unwrap_err().contains("for presets"));
    }
}
