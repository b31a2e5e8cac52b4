//! Programs that an end must have.

use nightwatt_host::preflight::Preflight;

use super::{CounterSource, End, EndsConfig, Error};

/// A program, and the Debian package that has it.
pub(crate) type Program = (&'static str, &'static str);

/// What makes links and reads their cards.
pub(crate) const OF_LINKS: [Program; 4] =
    [("ip", "iproute2"), ("tc", "iproute2"), ("ethtool", "ethtool"), ("nft", "nftables")];

/// What captures packets.
pub(crate) const OF_CAPTURES: [Program; 1] = [("tcpdump", "tcpdump")];

impl EndsConfig {
    /// What this machine lacks for such ends, each with what to do about it. Other machines and guests are asked when
    /// they run.
    pub fn missing(&self, captures: bool) -> Vec<String> {
        let mut flight = Preflight::default();
        match self {
            Self::Namespaces => {
                flight.root("two networks of their own");
                let for_captures = if captures { &OF_CAPTURES[..] } else { &[] };
                for (program, package) in OF_LINKS.iter().chain(for_captures) {
                    flight.program(program, &format!("install {package}"));
                }
            }
            Self::Guests(ends) | Self::Hosts(ends) => {
                ends.iter().for_each(|end| end.environment.look(&mut flight));
            }
        }
        flight.missing()
    }
}

impl End {
    /// An error if one of these programs is missing there.
    pub(crate) fn need(&self, what: &'static str, programs: &[Program]) -> Result<(), Error> {
        let output = self.run("look for programs", &looking(programs))?;
        let place = match &self.counters_from {
            CounterSource::Namespace { .. } => "this machine".to_owned(),
            CounterSource::Agent { .. } => format!("the {}", self.name),
        };
        check(what, place, programs, &output)
    }
}

/// The line of the shell that prints those that are missing. In dash, `command -v a b` looks only for the first.
fn looking(programs: &[Program]) -> String {
    let names: Vec<&str> = programs.iter().map(|(name, _)| *name).collect();
    format!(
        "for program in {}; do command -v \"$program\" >/dev/null || echo \"$program\"; done",
        names.join(" ")
    )
}

/// An error if this line has printed any.
fn check(
    what: &'static str,
    place: String,
    programs: &[Program],
    output: &str,
) -> Result<(), Error> {
    let is_missing = |(name, _): &&Program| output.lines().any(|line| line == *name);
    let missing: Vec<&Program> = programs.iter().filter(is_missing).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names =
        missing.iter().map(|(name, package)| format!("`{name}` (Debian package {package})"));
    let mut packages: Vec<&str> = missing.iter().map(|(_, package)| *package).collect();
    packages.dedup();
    Err(Error::Missing {
        what,
        place,
        programs: names.collect::<Vec<_>>().join(" and no "),
        packages: packages.join(" "),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    use super::*;

    /// What the check says where there are only these programs.
    fn check_with(names: &[&str]) -> Result<(), String> {
        let folder = tempfile::tempdir().unwrap();
        for name in names {
            let path = folder.path().join(name);
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", &looking(&OF_LINKS)]).env("PATH", folder.path());
        let output = shell.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let said = String::from_utf8(output.stdout).unwrap();
        let checked = check("make links", "the sender".to_owned(), &OF_LINKS, &said);
        checked.map_err(|error| error.to_string())
    }

    #[test]
    fn each_program_that_is_missing_is_named_with_its_package() {
        assert_eq!(check_with(&["ip", "tc", "ethtool", "nft"]), Ok(()));
        let without_ethtool = check_with(&["ip", "tc", "nft"]).unwrap_err();
        assert_eq!(
            without_ethtool,
            "cannot make links: the sender has no `ethtool` (Debian package ethtool); run \
             `apt-get install --no-install-recommends ethtool` there"
        );
        let without_nft = check_with(&["ip", "tc", "ethtool"]).unwrap_err();
        assert!(without_nft.contains("no `nft` (Debian package nftables);"), "{without_nft}");
        let without_any = check_with(&[]).unwrap_err();
        assert!(
            without_any
                .ends_with("install --no-install-recommends iproute2 ethtool nftables` there"),
            "{without_any}"
        );
    }
}
