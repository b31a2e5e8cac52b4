//! How `ipmitool` is called, and what it prints.

use nightwatt_energy::quantity::Watts;
use nightwatt_host::text::quote;

/// The variable of the environment in which `ipmitool` finds the password: arguments can be read by every
/// user.
pub const PASSWORD_VARIABLE: &str = "IPMI_PASSWORD";

/// Asks for the power of the machine (DCMI 1.5, section 6.6.1).
pub const POWER_READING: [&str; 3] = ["dcmi", "power", "reading"];

/// Asks whether the machine is on.
pub const POWER_STATUS: [&str; 3] = ["chassis", "power", "status"];

/// A controller on the network. What is `None` is left to `ipmitool`.
#[derive(Debug, Clone, Copy)]
pub struct Lan<'a> {
    /// Its name or address.
    pub host: &'a str,
    /// Its UDP port.
    pub port: Option<&'a str>,
    /// Who we are.
    pub user: Option<&'a str>,
    /// The number of the cipher suite.
    pub cipher: Option<&'a str>,
    /// The privilege of the session: `OPERATOR`.
    pub privilege: Option<&'a str>,
}

impl Lan<'_> {
    /// The arguments of `ipmitool` before those of a command.
    pub fn arguments(&self) -> Vec<String> {
        let mut arguments = vec!["-I", "lanplus", "-H", self.host];
        let options =
            [("-p", self.port), ("-U", self.user), ("-C", self.cipher), ("-L", self.privilege)];
        for (flag, value) in options {
            if let Some(value) = value {
                arguments.extend([flag, value]);
            }
        }
        // The password is in the environment. The rest is the seconds to wait for an answer, and the number
        // of attempts.
        arguments.extend(["-E", "-N", "1", "-R", "3"]);
        arguments.into_iter().map(str::to_owned).collect()
    }
}

/// Whether the machine is on, in what [`POWER_STATUS`] prints; `None` if it does not say so.
pub fn is_on(output: &str) -> Option<bool> {
    output.lines().find_map(|line| match line.trim().strip_prefix("Chassis Power is ")? {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    })
}

/// The power in what [`POWER_READING`] prints. The error says what is wrong with it, and is safe to print.
///
/// A number alone is not a reading: the line, its unit, and that the reading is active must be there, each
/// once.
pub fn power(text: &str) -> Result<Watts, String> {
    let once = |label: &str| {
        let mut values = text.lines().filter_map(|line| {
            line.trim().strip_prefix(label)?.trim_start().strip_prefix(':').map(str::trim)
        });
        match (values.next(), values.next()) {
            (Some(value), None) => Ok(value),
            (Some(_), Some(_)) => Err(format!("`{label}` twice")),
            (None, _) => Err(format!("no `{label}` in {}", quote(text.as_bytes()))),
        }
    };
    let value = once("Instantaneous power reading")?;
    let state = once("Power reading state is")?;
    if state != "activated" {
        return Err(format!("power reading is {}", quote(state.as_bytes())));
    }
    let number = |value: &str| value.strip_suffix("Watts")?.trim().parse::<u16>().ok();
    let watts = number(value).ok_or_else(|| format!("{} is no power", quote(value.as_bytes())))?;
    if let 0 | u16::MAX = watts {
        return Err(format!("it says {watts} W, as a controller does that has no figure"));
    }
    // What it says of the time before must be of the same machine.
    let of_time = |label: &str| once(label).ok().and_then(number).filter(|it| *it != u16::MAX);
    let most = of_time("Maximum during sampling period").filter(|it| *it > 0);
    if let Some(most) = most.filter(|most| u32::from(watts) > 2 * u32::from(*most) + 25) {
        return Err(format!(
            "it says {watts} W now and {most} W at most until now: that is not believed"
        ));
    }
    Ok(Watts(watts.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACTIVE: &str = "
    Instantaneous power reading:                   220 Watts
    Minimum during sampling period:                 18 Watts
    Maximum during sampling period:                285 Watts
    Average power reading over sample period:      190 Watts
    IPMI timestamp:                           Thu Jan  1 00:00:00 1970
    Sampling period:                          00000001 Seconds.
    Power reading state is:                   activated

";

    #[test]
    fn only_the_words_of_ipmitool_say_whether_the_power_is_on() {
        assert_eq!(is_on("Chassis Power is on\n"), Some(true));
        assert_eq!(is_on("Get Session Challenge: retry\nChassis Power is off\n"), Some(false));
        for nonsense in ["", "on", "Chassis Power is", "Chassis Power is onoff", "power is on"] {
            assert_eq!(is_on(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn a_reading_is_the_instantaneous_power_while_it_is_activated() {
        assert_eq!(power(ACTIVE), Ok(Watts(220.0)));
        // Some controllers never fill in what was before.
        assert_eq!(power(&ACTIVE.replace("285 Watts", "0 Watts")), Ok(Watts(220.0)));
        let error = power(&ACTIVE.replace("activated", "deactivated")).unwrap_err();
        assert_eq!(error, "power reading is `deactivated`");
        for (from, to, says) in [
            ("220 Watts", "220 BTU", "`220 BTU` is no power"),
            ("220 Watts", "-3 Watts", "`-3 Watts` is no power"),
            ("220 Watts", "70000 Watts", "is no power"),
            ("220 Watts", "0 Watts", "0 W, as a controller does that has no figure"),
            ("220 Watts", "65535 Watts", "65535 W, as a controller does that has no figure"),
            ("220 Watts", "1800 Watts", "1800 W now and 285 W at most"),
            ("Instantaneous power reading:", "Power:", "no `Instantaneous power reading`"),
            ("Power reading state is:", "State:", "no `Power reading state is`"),
        ] {
            let error = power(&ACTIVE.replace(from, to)).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
        assert!(power(&ACTIVE.repeat(2)).unwrap_err().contains("twice"));
        assert!(power("").is_err());
    }
}
