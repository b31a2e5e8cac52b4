//! Finds settings that are well-formed and do not do what they are meant to: for `nightwatt check`.
//!
//! Nothing here is an error: `check` may run as another user than the proxy, on another machine.

use std::fs::File;
use std::path::Path;

use nightwatt_agent::key::Key;
use nightwatt_host::explained::Explained;
use nightwatt_host::preflight::{cannot_run, first_word};
use nightwatt_host::secret::{Secret, exposed};
use nightwatt_host::tls;

use crate::{ConfigError, ControllerConfig, DriverConfig, probe};

impl ControllerConfig {
    /// Can it tell by itself whether the server is up, as `probe = "controller"` has it do?
    pub fn reports_state(&self) -> bool {
        self.drivers().into_iter().any(|driver| !driver.facts().is_mute)
    }

    /// Is the driver that reports the state a part of the server itself? Then a question while it sleeps
    /// disturbs it.
    pub fn state_comes_from_server(&self) -> bool {
        self.drivers().into_iter().map(DriverConfig::facts).all(|it| it.is_mute || it.is_in_server)
    }

    /// Do both put the same machine to sleep, so that neither knows of who needs it by way of the other?
    pub fn sleeps_the_machine_of(&self, other: &Self) -> bool {
        let machine = |of: &Self| -> Vec<String> {
            of.drivers().into_iter().flat_map(|driver| driver.facts().machine).collect()
        };
        let theirs = machine(other);
        machine(self).iter().any(|ours| theirs.contains(ours))
    }

    /// Describes the passwords that every user of this machine can read; [`risks`](Self::risks) has them too.
    pub fn exposed(&self) -> Vec<String> {
        self.drivers().into_iter().filter_map(DriverConfig::exposed).collect()
    }

    /// Settings that do not do what they seem to, in words. Reads the files that drivers need.
    pub fn risks(&self, probe: Option<&probe::Config>) -> Vec<String> {
        let mut risks = Vec::new();
        if matches!(probe, Some(probe::Config::Controller)) && !self.reports_state() {
            risks.push(format!(
                "`probe = \"controller\"`, but `{}` cannot tell whether it is awake, so it never counts as \
                 awake: write `probe = \"tcp HOST:PORT\"`, or leave it out for a site",
                self.name()
            ));
        }
        risks.extend(self.drivers().into_iter().flat_map(DriverConfig::risks));
        // A name is looked up in the `PATH` of `serve`, which may be another one than that of `check`.
        let of_a_path = |line| first_word(line).filter(|it| it.starts_with('/'));
        risks.extend(self.commands().into_iter().filter_map(|(action, line)| {
            let program = of_a_path(line)?;
            Some(format!("{action}: {program}: {}", cannot_run(Path::new(program))?))
        }));
        risks
    }
}

impl DriverConfig {
    fn risks(&self) -> Vec<String> {
        let mut risks = Vec::new();
        if let Err(error) = self.try_files() {
            let why = Explained::one_line(&error);
            risks.push(format!("{why} (as the user who runs `check`); {}", error.hint()));
        }
        risks.extend(self.exposed());
        let facts = self.facts();
        let elsewhere = facts.container.filter(|it| !it.socket.is_here());
        risks.extend(elsewhere.map(|it| not_here(it.socket)));
        risks.extend(facts.risks);
        risks
    }

    fn exposed(&self) -> Option<String> {
        exposed(self.facts().password_file?, "the password")
    }

    /// Reads what `build` reads, and the files that are given to programs.
    fn try_files(&self) -> Result<(), ConfigError> {
        let facts = self.facts();
        let key = facts.agent_key.map(Key::read).transpose();
        key.map_err(|error| ConfigError::Agent(Box::new(error)))?;
        for (key, path) in facts.files {
            path.map_or(Ok(()), |path| open(key, path))?;
        }
        facts.password_file.map(Secret::from_file).transpose()?;
        facts.ca.map(|ca| tls::roots(Some(ca))).transpose()?;
        Ok(())
    }
}

fn not_here(address: &impl std::fmt::Display) -> String {
    format!(
        "{address} has no TLS and no password: anyone who reaches it is root there. Control the container by \
         `ssh` to its host"
    )
}

fn open(key: &'static str, path: &Path) -> Result<(), ConfigError> {
    let opened = File::open(path);
    opened.map(|_| ()).map_err(|source| ConfigError::File { key, path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn commands_whose_program_is_not_there_are_told_of() {
        let found = risks(
            "[command]\nwake = \"/no/such/power.sh wake\"\nsleep = \"/bin/sh -c true\"",
            None,
        );
        assert_eq!(found, ["wake: /no/such/power.sh: no such file"]);
        // Of two drivers, each has only its own action.
        let pair = "[wake.command]\nwake = \"true\"\nsleep = \"/no/such/a\"\n\
                    [sleep.command]\nwake = \"/no/such/b\"\nsleep = \"A=1 /etc/passwd\"";
        assert_eq!(risks(pair, None), ["sleep: /etc/passwd: is not executable"]);
    }

    fn risks(table: &str, probe: Option<&probe::Config>) -> Vec<String> {
        toml::from_str::<ControllerConfig>(table).unwrap().risks(probe)
    }

    const WOL: &str = "[wake.wol]\nmac = \"52:54:00:12:34:56\"\n";

    #[test]
    fn a_controller_that_never_says_awake_is_a_risk() {
        let asked = Some(&probe::Config::Controller);
        let mute = format!("{WOL}[sleep.ssh]\nhost = \"root@web\"");
        let told = risks(&mute, asked);
        assert!(told.len() == 1 && told[0].contains("`wol + ssh`"), "{told:?}");
        assert_eq!(risks(&mute, None), [""; 0]);
        let telling = format!("{mute}\nstate = \"true\"");
        assert_eq!(risks(&telling, asked), [""; 0]);
        assert_eq!(risks("[docker]\ncontainer = \"web\"", asked), [""; 0]);
        assert_eq!(risks("[gpio]\nline = \"BUTTON\"", asked).len(), 1);
        assert_eq!(risks("[gpio]\nline = \"BUTTON\"\nsense = \"LED\"", asked), [""; 0]);
        assert_eq!(risks("[simulated]", asked), [""; 0]);
        assert_eq!(risks("[simulated.inner.gpio]\nline = \"BUTTON\"", asked).len(), 1);
    }

    #[test]
    fn an_agent_alone_can_tell_but_only_by_asking_the_server() {
        let config = |text: &str| toml::from_str::<ControllerConfig>(text).unwrap();
        let agent = "[sleep.agent]\naddress = \"10.0.0.2\"\nkey = \"/k\"\n";
        let by_wol = config(&format!("{WOL}{agent}"));
        assert!(by_wol.reports_state() && by_wol.state_comes_from_server());
        let by_host = config(&format!("[wake.libvirt]\ndomain = \"web\"\n{agent}"));
        assert!(by_host.reports_state() && !by_host.state_comes_from_server());
    }

    #[test]
    fn a_file_that_cannot_be_used_is_named_with_why() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        let agent =
            format!("{WOL}[sleep.agent]\naddress = \"10.0.0.2\"\nkey = \"{}\"", path.display());
        let told = risks(&agent, None);
        assert!(told.len() == 1 && told[0].contains("No such file"), "{told:?}");
        nightwatt_agent::key::write(&path, &nightwatt_agent::key::generate().unwrap()).unwrap();
        assert_eq!(risks(&agent, None), [""; 0]);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(risks(&agent, None).len(), 1, "everybody may read it");

        let file = dir.path().join("bmc");
        let shown = file.display();
        let ipmi = format!("[ipmi]\nhost = \"a\"\nuser = \"u\"\npassword_file = \"{shown}\"");
        let redfish = format!("[redfish]\nurl = \"https://a\"\nca = \"{shown}\"");
        let ssh = format!("{WOL}[sleep.ssh]\nhost = \"a\"\nidentity = \"{shown}\"");
        for table in [&ipmi, &redfish, &ssh] {
            let told = risks(table, None);
            assert!(told.len() == 1 && told[0].contains("bmc"), "{told:?}");
        }
        std::fs::write(&file, "secret\n").unwrap();
        assert_eq!(risks(&ipmi, None).len(), 1, "everybody may read it");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(risks(&ipmi, None), [""; 0]);
        assert_eq!(risks(&ssh, None), [""; 0]);
        let told = risks(&redfish, None);
        assert!(told.len() == 1 && told[0].contains("certificate"), "{told:?}");
        assert!(!told[0].contains("secret"), "{told:?}");
    }

    #[test]
    fn two_that_sleep_the_same_machine_are_known_by_its_card_or_its_agent() {
        let by = |card: &str, agent: &str| {
            let table = format!(
                "[wake.wol]\nmac = {card}\n[sleep.agent]\naddress = \"{agent}\"\nkey = \"k\""
            );
            toml::from_str::<ControllerConfig>(&table).unwrap()
        };
        let one = by("\"52:54:00:00:00:01\"", "10.0.0.2");
        let cards = "[\"52:54:00:00:00:02\", \"52-54-00-00-00-01\"]";
        assert!(one.sleeps_the_machine_of(&by(cards, "10.0.0.3")));
        assert!(one.sleeps_the_machine_of(&by("\"52:54:00:00:00:03\"", "10.0.0.2")));
        assert!(!one.sleeps_the_machine_of(&by("\"52:54:00:00:00:03\"", "10.0.0.3")));
    }

    #[test]
    fn a_daemon_of_containers_on_another_machine_is_a_risk() {
        for driver in ["docker", "podman"] {
            let at = |socket| {
                risks(&format!("[{driver}]\ncontainer = \"a\"\nsocket = \"{socket}\""), None)
            };
            assert_eq!(at("tcp://127.0.0.1:2375"), [""; 0]);
            assert_eq!(at("tcp://10.0.0.9:2375").len(), 1);
        }
    }

    #[test]
    fn a_button_is_not_pressed_for_four_seconds_by_mistake() {
        let pressed =
            |time| risks(&format!("[gpio]\nline = \"B\"\nsleep_press = \"{time}\""), None);
        assert_eq!(pressed("3900ms"), [""; 0]);
        assert!(pressed("4s")[0].contains("`sleep_press`"));
    }
}
