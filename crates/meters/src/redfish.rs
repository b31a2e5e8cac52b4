//! A server's management controller over Redfish (DMTF DSP0266, DSP2046): a session over HTTPS, the
//! chassis and what each tells of its power.

use std::time::Duration;

use nightwatt_bmc::redfish::{self, Credentials, LONGEST, ROOT, RedfishError, last};
use nightwatt_clock::meter::monotonic;
use nightwatt_energy::integration::Reading;
use nightwatt_energy::quantity::Watts;
use nightwatt_energy::time::Mono;
use nightwatt_host::Host;
use nightwatt_host::text::quote;
use serde_json::Value;

use crate::channel::{Accuracy, Channel, Scope};
use crate::error::MeterError;
use crate::meter::{Driver, Meter, Opening, Pace, Presence, Readings, Turn};
use crate::spec::{LOGIN, MeterSpec};
use crate::web::{self, Device, Web};

mod source;

use source::Source;
pub(crate) use source::old_supplies;

pub(crate) const DRIVER: Driver = Driver {
    name: "redfish",
    about: "a server's management controller, over Redfish",
    example: "redfish=https://10.0.0.9,user=watch,password-file=FILE",
    probe: |_| Presence::NeedsAddress,
    open,
};

/// Vendors state bounds per power supply, where they do.
const ACCURACY: Accuracy = Accuracy { relative: 0.05, watts: Watts(1.0) };

/// No enclosure has more chassis.
const MOST_CHASSIS: usize = 64;

/// Controllers take their time, and there are several questions to ask before the first reading.
const OPENING: Duration = Duration::from_secs(30);

fn open(_: &Host, spec: &MeterSpec) -> Opening {
    spec.only(&[&["chassis", "source"][..], &web::OPTIONS].concat())?;
    let address = spec.address("https://10.0.0.9,user=watch,password-file=FILE")?;
    // The password goes into the body of one request, and not into every head.
    let bare = MeterSpec { options: without_password(spec), ..spec.clone() };
    let (web, _) = Web::of(&bare, address, "https")?;
    let web = web.with_longest_body(LONGEST);
    let credentials = match (spec.text("user"), spec.password()?) {
        (Some(user), Some(password)) => Credentials::Session { user: user.to_owned(), password },
        (None, None) => Credentials::None,
        _ => return Err(spec.wrong("`user` and `password-file` belong together")),
    };
    let is_secret = matches!(credentials, Credentials::Session { .. });
    if is_secret && address.starts_with("http://") {
        let why = "a password over `http://` can be read by everybody in between: say `https://`";
        return Err(spec.wrong(why));
    }
    let Web { client, device } = web;
    let mut service = Service { redfish: redfish::Service::new(client, credentials), device };
    let until = monotonic() + OPENING;
    let (sources, remarks) = service.sources(spec, until)?;
    let several = sources.len() > 1;
    let channel = |source: &Source| {
        // A chassis of several is a part of the enclosure.
        let scope = if several { Scope::Part } else { source.scope() };
        Channel::power(source.name(), scope, ACCURACY)
    };
    let channels = sources.iter().map(channel).collect();
    Ok(Box::new(Redfish { channels, sources, service, remarks }))
}

fn without_password(spec: &MeterSpec) -> std::collections::BTreeMap<String, String> {
    let mut options = spec.options.clone();
    options.retain(|name, _| !LOGIN.contains(&name.as_str()));
    options
}

/// The other end.
struct Service {
    redfish: redfish::Service,
    device: Device,
}

impl Service {
    /// What each chassis tells of its power.
    fn sources(
        &mut self,
        spec: &MeterSpec,
        until: Mono,
    ) -> Result<(Vec<Source>, Vec<String>), MeterError> {
        let chassis = self.device.wait(until, self.redfish.collection("Chassis"))?;
        let chassis = chassis.map_err(|error| self.failed(ROOT, error))?;
        let members = self.members(&chassis, until)?;
        let wanted = spec.text("chassis");
        let is_wanted = |place: &&String| wanted.is_none_or(|wanted| last(place) == wanted);
        let chosen: Vec<_> = members.iter().filter(is_wanted).cloned().collect();
        if let (true, Some(wanted)) = (chosen.is_empty(), wanted) {
            let known: Vec<_> = members.iter().map(|place| format!("`{}`", last(place))).collect();
            let known = known.join(", ");
            return Err(spec.wrong(format!("there is no chassis `{wanted}`: there are {known}")));
        }
        let (mut sources, mut remarks, mut failed) = (Vec::new(), Vec::new(), None);
        for place in &chosen {
            match Source::find(self, place, spec, until) {
                Ok((found, its)) => {
                    sources.extend(found);
                    remarks.extend(its);
                }
                // What the user says of it is wrong for all.
                Err(error @ (MeterError::Spec { .. } | MeterError::Denied { .. })) => {
                    return Err(error);
                }
                Err(error) => {
                    remarks.push(format!("{} is left out: {error}", last(place)));
                    failed = Some(error);
                }
            }
        }
        match failed {
            _ if !sources.is_empty() => Ok((sources, remarks)),
            Some(error) => Err(error),
            None => {
                let why = format!("none of its {} chassis reports its power", chosen.len());
                let why = std::iter::once(why).chain(remarks).collect::<Vec<_>>().join("; ");
                Err(MeterError::Absent { meter: spec.name().to_owned(), why })
            }
        }
    }

    /// The members of a collection, by their places.
    fn members(&mut self, place: &str, until: Mono) -> Result<Vec<String>, MeterError> {
        let members = self.device.wait(until, self.redfish.members(place))?;
        let mut places = members.map_err(|error| self.failed(place, error))?;
        places.truncate(MOST_CHASSIS);
        Ok(places)
    }

    /// A resource; logs in where that is needed.
    fn get(&mut self, place: &str, until: Mono) -> Result<Value, MeterError> {
        let resource = self.device.wait(until, self.redfish.get(place))?;
        resource.map_err(|error| self.failed(place, error))
    }

    fn failed(&self, place: &str, error: RedfishError) -> MeterError {
        match error {
            RedfishError::Http(error) => self.device.failed(place, error),
            RedfishError::Refused { path, status, body, .. } => {
                self.device.refused(&path, status, &body, None)
            }
            RedfishError::NoSession { path, status } => {
                let hint = "check `user` and the password; a controller also refuses when it has too \
                            many sessions";
                MeterError::Denied {
                    meter: self.device.meter().to_owned(),
                    what: format!("a session at {path} (status {status})"),
                    hint: hint.to_owned(),
                }
            }
            RedfishError::NoToken { ref path } => self.device.nonsense(path, &error.to_string()),
            RedfishError::Json { path, body, error } => {
                self.device.nonsense(&path, &format!("{} is no JSON: {error}", quote(&body)))
            }
            RedfishError::Elsewhere | RedfishError::NoLink(_) => {
                self.device.nonsense(ROOT, &error.to_string())
            }
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let until = monotonic() + Duration::from_secs(2);
        let ended = self.device.wait(until, self.redfish.end());
        if let Err(error) = ended.and_then(|ended| ended.map_err(|it| self.device.failed(ROOT, it)))
        {
            tracing::debug!(%error, "a Redfish session is left to end by itself");
        }
    }
}

struct Redfish {
    channels: Vec<Channel>,
    sources: Vec<Source>,
    service: Service,
    remarks: Vec<String>,
}

impl Meter for Redfish {
    fn channels(&self) -> &[Channel] {
        &self.channels
    }

    fn pace(&self) -> Pace {
        // Controllers are slow, and their figures seconds old.
        Pace::Polled { fastest: Duration::from_secs(1), usual: Duration::from_secs(5) }
    }

    fn read(&mut self, turn: &Turn<'_>, out: &mut Readings) -> Result<(), MeterError> {
        let until = web::deadline(turn);
        for (channel, source) in self.sources.iter().enumerate() {
            let sent = monotonic();
            match source.read(&mut self.service, until) {
                Ok(watts) => {
                    out.push(channel, web::middle(sent, turn.now()), Reading::Power(watts));
                }
                Err(error) => out.fail(error),
            }
        }
        Ok(())
    }

    fn remarks(&self) -> Vec<String> {
        self.remarks.clone()
    }
}

#[cfg(test)]
mod tests;
