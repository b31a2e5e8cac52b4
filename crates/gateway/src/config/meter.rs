//! `[meter]` and `[site.meter]`: which meter says what the proxy and the servers use.

use std::time::Duration;

use nightwatt_meters::{Host, MODEL, MeterError, MeterSpec, Presence};
use serde::Deserialize;

use super::{Wrong, wrong};

/// How often a meter is read, unless it is configured: an idle board wakes up for each reading.
const USUAL: Duration = Duration::from_secs(10);

/// More often makes no sense for a bill, and further apart the ledger would not wait for it.
const BOUNDS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(5));

/// The table: `{ driver = "shelly", address = "http://192.168.1.20" }`, the driver's options, and
/// `every` and `pick` beside them.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct MeterConfig(MeterSpec);

impl MeterConfig {
    /// The meter, as its driver wants to be told.
    pub fn spec(&self) -> MeterSpec {
        let mut spec = self.0.clone();
        spec.options.remove("every");
        spec.options.remove("pick");
        spec
    }

    /// Time between two readings.
    pub fn every(&self) -> Result<Duration, MeterError> {
        Ok(self.0.time("every")?.unwrap_or(USUAL))
    }

    /// The channel that speaks for the whole machine, if the user says which.
    pub fn pick(&self) -> Option<&str> {
        self.0.text("pick")
    }

    /// The file with its password, if it has one.
    pub(crate) fn password_file(&self) -> Option<&str> {
        self.0.text("password-file")
    }

    /// What people are told it is: `shelly at http://192.168.1.20: …`.
    pub fn words(&self) -> String {
        let address = self.0.address.as_ref().map(|it| format!(" at {it}")).unwrap_or_default();
        let about = nightwatt_meters::driver(&self.0.driver).map_or("", |driver| driver.about);
        format!("{}{address}: {about}", self.0.driver)
    }

    /// Whatever can be wrong without asking the meter; `table` is where it is.
    pub(super) fn check(&self, table: &str) -> Result<(), Wrong> {
        if let Err(error) = nightwatt_meters::driver(&self.0.driver) {
            return wrong(format!("{table}.driver"), error.to_string());
        }
        let driver = nightwatt_meters::driver(&self.0.driver);
        let wants_address =
            driver.is_ok_and(|driver| (driver.probe)(&Host::default()) == Presence::NeedsAddress);
        if wants_address && self.0.address.is_none() {
            let text = format!("`{}` needs an `address`: where the meter is", self.0.driver);
            return wrong(format!("{table}.driver"), text);
        }
        // Never repeated: configurations are shown to others.
        let address = self.0.address.as_deref();
        let rest = address.map(|it| it.split_once("://").map_or(it, |(_, rest)| rest));
        let authority = rest.and_then(|rest| rest.split(['/', '?']).next());
        if authority.is_some_and(|authority| authority.contains('@')) {
            let text = "a password in an address can be read by everybody who sees it: write `user` and \
                        `password-file` instead";
            return wrong(format!("{table}.address"), text);
        }
        if self.0.driver == MODEL {
            let text = "`model` measures nothing: leave the meter out, and the bill is modelled by \
                        the power states of the scenario";
            return wrong(format!("{table}.driver"), text);
        }
        let key = format!("{table}.every");
        let every = self.every().map_err(|error| Wrong::new(&key, error.to_string()))?;
        let (least, most) = BOUNDS;
        if every < least || every > most {
            let text = format!(
                "`every` is the time between two readings: from {} s to {} s",
                least.as_secs(),
                most.as_secs()
            );
            return wrong(key, text);
        }
        Ok(())
    }
}
