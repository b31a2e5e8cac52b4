//! A server's management controller over IPMI, by the program `ipmitool`: DCMI power reading (DCMI
//! 1.5, section 6.6.1), of this machine or of another over `lanplus`.

use std::io::Read;
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nightwatt_clock::meter::{Stop, Woken, monotonic};
use nightwatt_model::quantity::Watts;
use nightwatt_model::sample::Reading;
use nightwatt_model::time::Mono;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::channel::{Accuracy, Channel, Scope};
use crate::error::MeterError;
use crate::host::Host;
use crate::json::quote;
use crate::meter::{Driver, Meter, Opening, Pace, Presence, Readings, Turn};
use crate::secret::{self, Secret};
use crate::spec::MeterSpec;
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
const LONGEST: u64 = 64 << 10;

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
    spec.only(&[&secret::OPTIONS[..], &["program", "cipher", "port"]].concat())?;
    let program = spec.text("program").unwrap_or(PROGRAM).to_owned();
    let mut arguments: Vec<String> = Vec::new();
    let password = secret::password(spec)?;
    if let Some(address) = spec.address.as_deref() {
        if address.is_empty() || address.starts_with('-') {
            return Err(spec.wrong(format!("`{address}` is no host")));
        }
        // Seconds to wait for an answer, and how often to ask again.
        let patience = ["-N", "1", "-R", "3"];
        arguments.extend(["-I", "lanplus", "-H", address].map(str::to_owned));
        arguments.extend(patience.map(str::to_owned));
        for (option, flag) in [("user", "-U"), ("cipher", "-C"), ("port", "-p")] {
            if let Some(value) = spec.text(option) {
                arguments.extend([flag.to_owned(), value.to_owned()]);
            }
        }
        if password.is_none() {
            return Err(spec.wrong("a host needs a password: say `password-file=FILE`"));
        }
        // From the environment: arguments can be read by everybody.
        arguments.push("-E".to_owned());
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
    arguments.extend(["dcmi", "power", "reading"].map(str::to_owned));
    let channels = vec![Channel { step: 1.0, ..Channel::power("system", Scope::System, ACCURACY) }];
    let meter = spec.name().to_owned();
    let ipmi = Ipmi { channels, meter, program, arguments, password };
    // Whatever is wrong is told now.
    let never = Stop::new().map_err(|error| ipmi.io(error))?;
    ipmi.ask(&never, web::opening())?;
    Ok(Box::new(ipmi))
}

/// The power that `ipmitool dcmi power reading` prints; the error says what is wrong with it.
///
/// Nothing of the kind is a number by itself: the line, its unit, and that the reading is active must
/// be there, each once.
pub(crate) fn power(text: &str) -> Result<Watts, String> {
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
        return Err(format!("power reading is `{}`", quote(state.as_bytes()).trim_matches('`')));
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
    fn ask(&self, stop: &Stop, until: Mono) -> Result<Watts, MeterError> {
        let (text, succeeded) = self.run(stop, until)?;
        let text = String::from_utf8_lossy(&text);
        if succeeded {
            return power(&text).map_err(|what| self.nonsense(&what));
        }
        let said = quote(text.as_bytes());
        let known = COMPLAINTS.iter().find(|(complaint, _)| text.contains(complaint));
        Err(self.nonsense(&known.map_or(said.clone(), |(_, advice)| format!("{said}; {advice}"))))
    }

    /// Runs the program to its end, `until` then at the latest: what it said, and whether it went well.
    fn run(&self, stop: &Stop, until: Mono) -> Result<(Vec<u8>, bool), MeterError> {
        let (mut said, theirs) = std::io::pipe().map_err(|error| self.io(error))?;
        let again = theirs.try_clone().map_err(|error| self.io(error))?;
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).stdin(Stdio::null()).stdout(theirs).stderr(again);
        command.env("LC_ALL", "C");
        if let Some(password) = &self.password {
            command.env("IPMI_PASSWORD", password.reveal());
        }
        let child = command.spawn().map_err(|error| self.io(error))?;
        // Our ends of the pipe that the child writes to.
        drop(command);
        let mut child = Ended(child);
        let mut text = Vec::new();
        let mut piece = [0; 4096];
        loop {
            match stop.readable_until(said.as_fd(), until) {
                Woken::Readable => {}
                Woken::TimedOut => {
                    let seconds = web::PATIENCE.as_secs();
                    return Err(MeterError::Silent { meter: self.meter.clone(), seconds });
                }
                // Its answer would come too late to be of use.
                Woken::Stopped => return Ok((Vec::new(), false)),
            }
            match said.read(&mut piece) {
                Ok(0) => break,
                Ok(read) => text.extend_from_slice(&piece[..read]),
                Err(error) => return Err(self.io(error)),
            }
            if text.len() as u64 > LONGEST {
                return Err(self.nonsense("more than a meter has to say"));
            }
        }
        // It has closed its output: it ends now, or does not deserve to go on.
        let pid = Pid::from_child(&child.0);
        if let Ok(ended) = pidfd_open(pid, PidfdFlags::empty()) {
            stop.readable_until(ended.as_fd(), until);
        }
        let status = child.0.try_wait().map_err(|error| self.io(error))?;
        Ok((text, status.is_some_and(|status| status.success())))
    }

    fn io(&self, error: std::io::Error) -> MeterError {
        MeterError::Io { what: format!("run `{}`", self.program), error }
    }

    fn nonsense(&self, what: &str) -> MeterError {
        let what = format!("`{}`: {what}", self.program);
        MeterError::Nonsense { meter: self.meter.clone(), what }
    }
}

/// A child that does not outlive its turn.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
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
        let asked = monotonic();
        let watts = self.ask(turn.stop, web::deadline(turn));
        if turn.stop.is_stopped() {
            return Ok(());
        }
        out.push(0, web::middle(asked, turn.now()), Reading::Power(watts?));
        Ok(())
    }
}

#[cfg(test)]
mod tests;
