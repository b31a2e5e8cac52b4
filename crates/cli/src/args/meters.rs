//! Which meters a command uses.

use std::time::Duration;

use nightwatt_meters::sampler::Opened;
use nightwatt_meters::{Host, MeterSpec, usual};

use crate::errors::Failure;
use crate::{figures, output};

/// Which meters.
#[derive(Debug, clap::Args)]
pub(crate) struct MeterArgs {
    /// A meter: `rapl`, `shelly=http://10.0.0.9`; several if given several times [default: those
    /// that this machine has, else a model of it]
    #[arg(short, long = "meter", value_name = "METER")]
    pub(crate) meters: Vec<MeterSpec>,
}

impl MeterArgs {
    /// The meters that the user names; without any, those of this machine; without those, a model of it. No two have
    /// the same name: the second `http` is `http-2`.
    pub(crate) fn chosen(&self) -> Vec<MeterSpec> {
        if self.meters.is_empty() {
            return usual(&Host::default());
        }
        let mut chosen: Vec<MeterSpec> = Vec::new();
        for spec in &self.meters {
            let mut spec = spec.clone();
            let name = spec.name().to_owned();
            let mut number = 2;
            while chosen.iter().any(|other| other.name() == spec.name()) {
                spec.options.insert("name".to_owned(), format!("{name}-{number}"));
                number += 1;
            }
            chosen.push(spec);
        }
        chosen
    }

    /// Opens them. Warns about each meter that cannot be read at the wanted interval.
    pub(crate) fn opened(
        &self,
        host: &Host,
        wish: Option<Duration>,
    ) -> Result<Vec<Opened>, Failure> {
        let opened =
            self.chosen().iter().map(|spec| Opened::open(host, spec)).collect::<Result<_, _>>();
        let opened: Vec<Opened> =
            opened.map_err(|error| Failure::failed(&error).maybe_hint(error.hint()))?;
        for meter in &opened {
            let interval = meter.interval(wish);
            if wish.is_some_and(|wish| interval > wish) {
                let (name, every) = (meter.name(), figures::time(interval));
                output::complain(&format!(
                    "warning: {name} says something new every {every} at most"
                ));
            }
        }
        Ok(opened)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_meters_have_the_same_name() {
        let meters = ["http=a", "rapl", "http=b", "http=c,name=plug", "http=d"];
        let meters = meters.iter().map(|text| text.parse().unwrap()).collect();
        let chosen = MeterArgs { meters }.chosen();
        let names: Vec<&str> = chosen.iter().map(MeterSpec::name).collect();
        assert_eq!(names, ["http", "rapl", "http-2", "plug", "http-3"]);
    }
}
