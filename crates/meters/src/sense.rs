//! Rails measured by a sense resistor: the drop across it, amplified, tells the current; with the
//! voltage of the rail, the power.

use nightwatt_energy::quantity::Watts;

use crate::error::MeterError;
use crate::spec::MeterSpec;

/// One rail: `NAME:DROP:OHMS:GAIN:SUPPLY`.
#[derive(Debug, Clone, PartialEq)]
pub struct Rail {
    /// What its channel is called.
    pub name: String,
    /// The column or input that holds the drop of voltage, amplified.
    pub drop: String,
    /// The resistor in ohms.
    pub ohms: f64,
    /// How many times the drop was amplified.
    pub gain: f64,
    /// The rail's voltage.
    pub supply: Supply,
}

/// Where the voltage of a rail is from.
#[derive(Debug, Clone, PartialEq)]
pub enum Supply {
    /// It is constant, in volts.
    Volts(f64),
    /// It is measured, and multiplied by a factor: a divider of 4 to 1 is undone by 4.
    Measured {
        /// The column or input.
        input: String,
        /// The factor.
        factor: f64,
    },
}

/// How `sense` is written.
const FORM: &str = "`sense` is `NAME:DROP:OHMS:GAIN:SUPPLY`, more of them behind a `+`, as \
`cpu:0:0.0025:100:4+disk:1:0.1:20:12V`: DROP and SUPPLY are columns; a SUPPLY in V is constant, and \
one with `*4` behind it is multiplied";

impl Rail {
    /// The rails of the option `sense`; none without it.
    pub(crate) fn all(spec: &MeterSpec) -> Result<Vec<Self>, MeterError> {
        let Some(text) = spec.text("sense") else { return Ok(Vec::new()) };
        let rails: Option<Vec<_>> = text.split('+').map(Self::parse).collect();
        let rails = rails.ok_or_else(|| spec.wrong(FORM))?;
        for (index, rail) in rails.iter().enumerate() {
            if rails[..index].iter().any(|before| before.name == rail.name) {
                return Err(spec.wrong(format!("`sense` has two rails `{}`", rail.name)));
            }
        }
        Ok(rails)
    }

    fn parse(text: &str) -> Option<Self> {
        let fields: Vec<_> = text.split(':').map(str::trim).collect();
        let [name, drop, ohms, gain, supply] = fields[..] else { return None };
        if name.is_empty() || drop.is_empty() || supply.is_empty() {
            return None;
        }
        let volts = supply.strip_suffix(['V', 'v']).and_then(positive);
        let supply = if let Some(volts) = volts {
            Supply::Volts(volts)
        } else {
            let (input, factor) = supply.split_once('*').unwrap_or((supply, "1"));
            Supply::Measured { input: input.to_owned(), factor: positive(factor)? }
        };
        Some(Self {
            name: name.to_owned(),
            drop: drop.to_owned(),
            ohms: positive(ohms)?,
            gain: positive(gain)?,
            supply,
        })
    }

    /// `P = U x I`, with `I = drop / gain / R`: volts of the drop as measured, and of the rail, the
    /// latter unused where it is constant.
    pub fn power(&self, drop: f64, measured: f64) -> Watts {
        let volts = match &self.supply {
            Supply::Volts(volts) => *volts,
            Supply::Measured { factor, .. } => measured * factor,
        };
        Watts(volts * drop / (self.gain * self.ohms))
    }
}

fn positive(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rails(sense: &str) -> Result<Vec<Rail>, MeterError> {
        Rail::all(&format!("file=x,sense={sense}").parse().unwrap())
    }

    #[test]
    fn power_is_voltage_times_the_current_through_the_resistor() {
        let rails = rails("cpu:0:0.0025:100:4+disk:HDD:0.1:20:12V+riser:2:0.005:200:6*4").unwrap();
        // 0.5 V / 100 / 2.5 mOhm = 2 A at 1.2 V; 1 V / 20 / 0.1 Ohm = 0.5 A at 12 V;
        // 0.1 V / 200 / 5 mOhm = 0.1 A at 4 x 3 V.
        let watts = [
            rails[0].power(0.5, 1.2).get(),
            rails[1].power(1.0, f64::NAN).get(),
            rails[2].power(0.1, 3.0).get(),
        ];
        for (watts, expected) in watts.into_iter().zip([2.4, 6.0, 1.2]) {
            assert!((watts - expected).abs() < 1e-12, "{watts} {expected}");
        }
        assert_eq!(rails[1].drop, "HDD");
    }

    #[test]
    fn what_is_wrong_is_told_with_an_example() {
        for wrong in
            ["cpu", "cpu:0:0:100:4", "cpu:0:-1:100:4", "cpu:0:1:x:4", ":0:1:1:4", "a:0:1:1:4*0"]
        {
            let error = rails(wrong).unwrap_err().to_string();
            assert!(error.contains("as `cpu:0:0.0025:100:4+disk"), "{error}");
        }
        assert!(rails("a:0:1:1:4+a:1:1:1:4").is_err(), "two rails of one name");
    }
}
