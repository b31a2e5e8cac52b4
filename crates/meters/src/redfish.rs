//! A server's management controller over Redfish (DMTF DSP0266, DSP2046): a session over HTTPS, the
//! chassis and what each tells of its power.

use std::time::Duration;

use nightwatt_clock::meter::monotonic;
use nightwatt_model::quantity::Watts;
use nightwatt_model::sample::Reading;
use nightwatt_model::time::Mono;
use serde_json::{Value, json};
use ureq::http::Method;

use crate::channel::{Accuracy, Channel, Scope};
use crate::error::MeterError;
use crate::host::Host;
use crate::meter::{Driver, Meter, Opening, Pace, Presence, Readings, Turn};
use crate::secret::{self, Secret};
use crate::spec::MeterSpec;
use crate::web::{self, Ask, Web};

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

const LONGEST_BODY: u64 = 1 << 20;

/// No enclosure has more chassis.
const MOST_CHASSIS: usize = 64;

const ROOT: &str = "/redfish/v1/";

/// Where sessions begin if the root does not say.
const SESSIONS: &str = "/redfish/v1/SessionService/Sessions";

/// Controllers take their time, and there are several questions to ask before the first reading.
const OPENING: Duration = Duration::from_secs(30);

fn open(_: &Host, spec: &MeterSpec) -> Opening {
    spec.only(&[&["chassis", "source"][..], &web::OPTIONS].concat())?;
    let address = spec.address("https://10.0.0.9,user=watch,password-file=FILE")?;
    // The password goes into the body of one request, and not into every head.
    let bare = MeterSpec { options: without_password(spec), ..spec.clone() };
    let (web, _) = Web::of(&bare, address, "https")?;
    let web = web.with_longest_body(LONGEST_BODY);
    let user = match (spec.text("user"), secret::password(spec)?) {
        (Some(user), Some(password)) => Some((user.to_owned(), password)),
        (None, None) => None,
        _ => return Err(spec.wrong("`user` and `password-file` belong together")),
    };
    if user.is_some() && address.starts_with("http://") {
        let why = "a password over `http://` can be read by everybody in between: say `https://`";
        return Err(spec.wrong(why));
    }
    let sessions = SESSIONS.to_owned();
    let mut service = Service { web, user, session: None, sessions };
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
    options.retain(|name, _| !secret::OPTIONS.contains(&name.as_str()));
    options
}

/// The other end.
struct Service {
    web: Web,
    user: Option<(String, Secret)>,
    session: Option<Session>,
    /// Where sessions begin.
    sessions: String,
}

struct Session {
    token: String,
    /// Where it is ended.
    place: Option<String>,
}

impl Service {
    /// What each chassis tells of its power.
    fn sources(
        &mut self,
        spec: &MeterSpec,
        until: Mono,
    ) -> Result<(Vec<Source>, Vec<String>), MeterError> {
        // The root is for everybody.
        let root = self.web.json(ROOT, until)?;
        if let Some(sessions) = link(&root, "/Links/Sessions") {
            sessions.clone_into(&mut self.sessions);
        }
        let Some(chassis) = link(&root, "/Chassis").map(str::to_owned) else {
            return Err(self.web.nonsense(ROOT, "that is no Redfish: it names no `Chassis`"));
        };
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
        let collection = self.get(place, until)?;
        let members = collection["Members"].as_array().into_iter().flatten();
        let places = members.filter_map(|member| link(member, "")).map(str::to_owned);
        Ok(places.take(MOST_CHASSIS).collect())
    }

    /// A resource; logs in where that is needed.
    fn get(&mut self, place: &str, until: Mono) -> Result<Value, MeterError> {
        let path = self.web.path_of(place);
        let path = path.ok_or_else(|| self.web.nonsense(ROOT, "a link that leads elsewhere"))?;
        for again in [false, true] {
            if self.session.is_none() && self.user.is_some() {
                self.log_in(until)?;
            }
            let token = self.session.as_ref().map(|session| session.token.clone());
            let headers: Vec<_> =
                token.as_deref().map(|token| ("x-auth-token", token)).into_iter().collect();
            let ask = Ask { headers: &headers, ..Ask::get(&path) };
            let answer = self.web.ask(&ask, until)?;
            // Sessions end when nobody asks for a while.
            if answer.status == 401 && self.user.is_some() && !again {
                self.session = None;
                continue;
            }
            if answer.status == 401 && self.user.is_none() {
                break;
            }
            let answer = self.web.good(&path, answer)?;
            let value = crate::json::parse(&answer.body);
            return value.map_err(|what| self.web.nonsense(&path, &what));
        }
        Err(self.web.denied(&path, 401))
    }

    fn log_in(&mut self, until: Mono) -> Result<(), MeterError> {
        let Some((user, password)) = &self.user else { return Ok(()) };
        let body = json!({ "UserName": user, "Password": password.reveal() }).to_string();
        let path = self.sessions.clone();
        let ask = Ask { method: Method::POST, body: Some(body), ..Ask::get(&path) };
        let answer = self.web.ask(&ask, until)?;
        if let 400 | 401 | 403 = answer.status {
            let hint = "check `user` and the password; a controller also refuses when it has too \
                        many sessions";
            return Err(MeterError::Denied {
                meter: self.web.meter().to_owned(),
                what: format!("a session at {path} (status {})", answer.status),
                hint: hint.to_owned(),
            });
        }
        let answer = self.web.good(&path, answer)?;
        let Some(token) = answer.header("x-auth-token").map(str::to_owned) else {
            return Err(self.web.nonsense(&path, "a session without `X-Auth-Token`"));
        };
        let place = answer.header("location").and_then(|place| self.web.path_of(place));
        self.session = Some(Session { token, place });
        Ok(())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // Controllers have room for a few sessions only.
        let Some(Session { token, place: Some(place) }) = self.session.take() else { return };
        let headers = [("x-auth-token", token.as_str())];
        let ask = Ask { method: Method::DELETE, headers: &headers, ..Ask::get(&place) };
        let until = monotonic() + Duration::from_secs(2);
        if let Err(error) = self.web.ask(&ask, until) {
            tracing::debug!(%error, "a Redfish session is left to end by itself");
        }
    }
}

/// The link at a pointer.
fn link<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(&format!("{pointer}/@odata.id"))?.as_str()
}

/// The last part of a place: what the resource is called.
fn last(place: &str) -> &str {
    place.trim_end_matches('/').rsplit('/').next().unwrap_or(place)
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
            let asked = monotonic();
            match source.read(&mut self.service, until) {
                Ok(watts) => {
                    out.push(channel, web::middle(asked, turn.now()), Reading::Power(watts));
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
