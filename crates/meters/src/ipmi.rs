//! A server's management controller over IPMI, by the program `ipmitool`: DCMI power reading (DCMI
//! 1.5, section 6.6.1), of this machine or of another over `lanplus`.

use std::process::{Command, Stdio};
use std::time::Duration;

use nightwatt_bmc::ipmitool::{Lan, PASSWORD_VARIABLE, POWER_READING, power};
use nightwatt_clock::meter::{Stop, monotonic};
use nightwatt_energy::integration::Reading;
use nightwatt_energy::quantity::Watts;
use nightwatt_energy::time::Mono;
use nightwatt_host::Host;
use nightwatt_host::secret::Secret;
use nightwatt_host::text::quote;
use nightwatt_host::tool::blocking::{Finished, Limits, Running};

use crate::channel::{Accuracy, Channel, Scope};
use crate::error::MeterError;
use crate::meter::{Driver, Meter, Opening, Pace, Presence, Readings, Turn};
use crate::spec::{LOGIN, MeterSpec};
use crate::web;

pub(crate) const DRIVER: Driver = Driver {
    name: "ipmi",
    about: "a server's management controller, by ipmitool (DCMI)",
    example: "ipmi",
    probe,
    open,
};

/// The kernel's devices for the controller of this machine.
const DEVICES: [&str; 3] = ["/dev/ipmi0", "/dev/ipmi/0", "/dev/ipmidev/0"];

const PROGRAM: &str = "ipmitool";

/// Controllers compute it from their supplies' sensors. It is what goes into the supplies on most
/// machines, and whole watts.
const ACCURACY: Accuracy = Accuracy { relative: 0.05, watts: Watts(1.0) };

/// More than this `ipmitool` does not say.
const LONGEST: usize = 64 << 10;

fn probe(host: &Host) -> Presence {
    let Some(device) = DEVICES.iter().find(|device| host.path(device).exists()) else {
        let why = format!(
            "no {}: this machine has no management controller, or `modprobe ipmi_devintf` is to be \
             done; one of another machine is named by its address",
            DEVICES[0]
        );
        return Presence::Absent(why);
    };
    if !has_program() {
        return Presence::Absent(format!(
            "{device} is there, and the program `{PROGRAM}` is not: install it"
        ));
    }
    let opened = std::fs::OpenOptions::new().read(true).write(true).open(host.path(device));
    match opened {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Presence::Denied {
            what: (*device).to_owned(),
            hint: format!("run as root, or `chown root:ipmi {device}; chmod 660 {device}`"),
        },
        _ => Presence::Available,
    }
}

fn has_program() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(PROGRAM).is_file())
}

fn open(host: &Host, spec: &MeterSpec) -> Opening {
    spec.only(&[&LOGIN[..], &["program", "cipher", "port"]].concat())?;
    let program = spec.text("program").unwrap_or(PROGRAM).to_owned();
    let mut arguments: Vec<String> = Vec::new();
    let password = spec.password()?;
    if let Some(address) = spec.address.as_deref() {
        if address.is_empty() || address.starts_with('-') {
            return Err(spec.wrong(format!("`{address}` is no host")));
        }
        let lan = Lan {
            host: address,
            port: spec.text("port"),
            user: spec.text("user"),
            cipher: spec.text("cipher"),
            privilege: None,
        };
        arguments = lan.arguments();
        if password.is_none() {
            return Err(spec.wrong("a host needs a password: say `password-file=FILE`"));
        }
    } else {
        let lan_only = ["user", "cipher", "port", "password-file", "password-env"];
        if let Some(option) = lan_only.iter().find(|option| spec.text(option).is_some()) {
            return Err(spec.wrong(format!("`{option}` is for other hosts: say `ipmi=HOST`")));
        }
        if host.is_real() && spec.text("program").is_none() {
            let meter = spec.name().to_owned();
            match probe(host) {
                Presence::Absent(why) => return Err(MeterError::Absent { meter, why }),
                Presence::Denied { what, hint } => {
                    return Err(MeterError::Denied { meter, what, hint });
                }
                _ => {}
            }
        }
    }
    arguments.extend(POWER_READING.map(str::to_owned));
    let channels = vec![Channel { step: 1.0, ..Channel::power("system", Scope::System, ACCURACY) }];
    let meter = spec.name().to_owned();
    let ipmi = Ipmi { channels, meter, program, arguments, password };
    // Whatever is wrong is told now.
    let never = Stop::new().map_err(|error| ipmi.io(error))?;
    ipmi.read_power(&never, web::opening())?;
    Ok(Box::new(ipmi))
}

/// What to try, for what `ipmitool` complains of.
const COMPLAINTS: [(&str, &str); 6] = [
    ("invalid authentication algorithm", "try `cipher=3` or `cipher=17`"),
    (
        "Unable to establish",
        "is the host right, IPMI over LAN enabled there, and the password its own?",
    ),
    ("Could not open device", "load the module `ipmi_devintf`, and run as root"),
    ("Invalid command", NO_DCMI),
    ("not supported", NO_DCMI),
    ("nsufficient privilege", "the user needs the privilege `User` or more"),
];

const NO_DCMI: &str = "its controller does not know DCMI: try `redfish=` or `snmp=`";

struct Ipmi {
    channels: Vec<Channel>,
    meter: String,
    program: String,
    arguments: Vec<String>,
    password: Option<Secret>,
}

impl Ipmi {
    fn read_power(&self, stop: &Stop, until: Mono) -> Result<Watts, MeterError> {
        let (text, succeeded) = self.run(stop, until)?;
        let text = String::from_utf8_lossy(&text);
        if succeeded {
            return power(&text).map_err(|what| self.nonsense(&what));
        }
        let output = quote(text.as_bytes());
        let known = COMPLAINTS.iter().find(|(complaint, _)| text.contains(complaint));
        Err(self
            .nonsense(&known.map_or(output.clone(), |(_, advice)| format!("{output}; {advice}"))))
    }

    /// Runs the program to its end, `until` then at the latest: what it said, and whether it went well.
    fn run(&self, stop: &Stop, until: Mono) -> Result<(Vec<u8>, bool), MeterError> {
        let (mut output, theirs) = std::io::pipe().map_err(|error| self.io(error))?;
        let again = theirs.try_clone().map_err(|error| self.io(error))?;
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).stdin(Stdio::null()).stdout(theirs).stderr(again);
        command.env("LC_ALL", "C");
        if let Some(password) = &self.password {
            command.env(PASSWORD_VARIABLE, password.reveal());
        }
        let mut running = Running::start(&mut command).map_err(|error| self.io(error))?;
        // Our ends of the pipe that the program writes to.
        drop(command);
        let mut printed = Vec::new();
        let limits = Limits { stop, until, longest: LONGEST };
        let finished = running.finish(&mut output, &mut printed, limits);
        match finished.map_err(|error| self.io(error))? {
            Finished::Ended(status) => Ok((printed, status.success())),
            Finished::TimedOut => {
                let seconds = web::TIMEOUT.as_secs();
                Err(MeterError::Silent { meter: self.meter.clone(), seconds })
            }
            // Its answer would come too late to be of use.
            Finished::Stopped => Ok((Vec::new(), false)),
            Finished::TooLong => Err(self.nonsense("more than a meter has to say")),
        }
    }

    fn io(&self, error: std::io::Error) -> MeterError {
        MeterError::Io { what: format!("run `{}`", self.program), error }
    }

    fn nonsense(&self, what: &str) -> MeterError {
        let what = format!("`{}`: {what}", self.program);
        MeterError::Nonsense { meter: self.meter.clone(), what }
    }
}

impl Meter for Ipmi {
    fn channels(&self) -> &[Channel] {
        &self.channels
    }

    fn pace(&self) -> Pace {
        // A program is started each time, and controllers have something new about once a second.
        Pace::Polled { fastest: Duration::from_secs(1), usual: Duration::from_secs(5) }
    }

    fn read(&mut self, turn: &Turn<'_>, out: &mut Readings) -> Result<(), MeterError> {
        let started = monotonic();
        let watts = self.read_power(turn.stop, web::deadline(turn));
        if turn.stop.is_stopped() {
            return Ok(());
        }
        out.push(0, web::middle(started, turn.now()), Reading::Power(watts?));
        Ok(())
    }
}

#[cfg(test)]
mod tests;
