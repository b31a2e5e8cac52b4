//! A computer system, as far as its power goes (DSP0268, `ComputerSystem`).

use nightwatt_host::text::brief;
use serde::Deserialize;

/// What a controller says of a system.
#[derive(Debug, PartialEq, Eq, Deserialize)]
pub struct System {
    #[serde(rename = "PowerState")]
    power: Option<String>,
    #[serde(rename = "Actions")]
    actions: Option<Actions>,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
struct Actions {
    #[serde(rename = "#ComputerSystem.Reset")]
    reset: Option<Reset>,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
struct Reset {
    target: String,
    /// Empty where it does not say.
    #[serde(rename = "ResetType@Redfish.AllowableValues", default)]
    allowed: Vec<String>,
}

/// The power of a system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Power {
    /// It is on.
    On,
    /// It is off.
    Off,
    /// It is between the two, or the controller does not know.
    Unknown,
}

impl System {
    /// Reads a resource; the error quotes what is there instead.
    pub fn read(body: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(body)
            .map_err(|error| format!("`{}`: {}", brief(body), brief(error.to_string().as_bytes())))
    }

    /// Whether it is on.
    pub fn power(&self) -> Power {
        match self.power.as_deref() {
            Some("On") => Power::On,
            Some("Off") => Power::Off,
            _ => Power::Unknown,
        }
    }

    /// Where the system is reset, and the first of these ways that it knows.
    pub fn reset<'a>(&self, ways: &[&'a str]) -> Result<(&str, &'a str), String> {
        let reset = self.actions.as_ref().and_then(|actions| actions.reset.as_ref());
        let Some(Reset { target, allowed }) = reset else {
            return Err("the system has no action `#ComputerSystem.Reset`".to_owned());
        };
        let is_known = |way: &&&str| allowed.is_empty() || allowed.iter().any(|it| it == **way);
        let way = ways.iter().find(is_known).ok_or_else(|| {
            let known = brief(allowed.join(", ").as_bytes());
            format!("the system knows none of {}, but {known}", ways.join(", "))
        })?;
        if !is_place(target) {
            let target = brief(target.as_bytes());
            return Err(format!("`{target}` is no place on this controller"));
        }
        Ok((target, way))
    }
}

/// Whether this is a path on the controller itself, with nothing that could lead elsewhere.
pub fn is_place(path: &str) -> bool {
    path.starts_with('/')
        && !path.starts_with("//")
        && path.len() < 1024
        && path.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ways in which `power` resets systems.
    const ON: &[&str] = &["On", "ForceOn", "PushPowerButton"];
    const GRACEFUL: &[&str] = &["GracefulShutdown", "PushPowerButton"];
    const FORCE: &[&str] = &["ForceOff"];

    fn system(allowed: &str, target: &str) -> System {
        let text = format!(
            r##"{{"PowerState": "PoweringOff", "Actions": {{"#ComputerSystem.Reset":
                {{"target": "{target}"{allowed}}}}}}}"##
        );
        System::read(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_system_is_reset_in_the_first_way_that_it_knows_and_nowhere_else() {
        let allowed = |names: &str| format!(", \"ResetType@Redfish.AllowableValues\": {names}");
        let all = system("", "/r");
        assert_eq!(all.reset(ON), Ok(("/r", "On")), "who says nothing may know all");
        assert_eq!(all.power(), Power::Unknown);
        let old = system(&allowed(r#"["ForceOff", "PushPowerButton"]"#), "/r");
        assert_eq!(old.reset(GRACEFUL), Ok(("/r", "PushPowerButton")));
        assert!(system(&allowed(r#"["Nmi"]"#), "/r").reset(FORCE).unwrap_err().contains("but Nmi"));
        for elsewhere in ["https://evil/r", "//evil/r", "r", "/r\\r\\nX: y", ""] {
            assert!(system("", elsewhere).reset(ON).is_err(), "{elsewhere}");
        }
        let bare = System::read(b"{\"PowerState\": null}").unwrap();
        assert!(bare.reset(ON).unwrap_err().contains("no action"));
        assert_eq!(bare.power(), Power::Unknown);
    }
}
