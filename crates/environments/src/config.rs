//! Which environments there are, as a plan says it.
//!
//! ```toml
//! [[environment]]
//! name = "in a container"
//! kind = "podman"
//! root = "host"
//! cpus = 2
//! ```

use std::time::Duration;

use nightwatt_clock::meter::Stop;
use nightwatt_host::preflight::Preflight;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use toml::{Table, Value};

use crate::common::{self, Common};
use crate::guard::Guard;
use crate::needs::Needs;
use crate::start::Start;
use crate::started::Started;
use crate::{
    Error, bubblewrap, chroot, docker, host, libvirt, lxc, netns, nspawn, options, podman, qemu,
    ssh,
};

/// A kind of environment, for lists and help texts.
#[derive(Debug, Clone, Copy)]
pub struct EnvironmentKind {
    /// What plans call it.
    pub name: &'static str,
    /// One line.
    pub about: &'static str,
    /// CPUs, memory and copies of it can be set.
    pub is_limited: bool,
    /// It can be made within another environment.
    pub is_nested: bool,
    /// The names of the options that it alone has.
    pub options: fn() -> &'static [&'static str],
}

/// An environment as a plan describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct EnvironmentConfig {
    /// What all kinds share.
    pub common: Common,
    /// What its kind asks for.
    pub kind: KindConfig,
}

macro_rules! kinds {
    ($($variant:ident = $module:ident, limited: $limited:literal, nested: $nested:literal, seconds: $seconds:literal, $about:literal;)+) => {
        /// The options of one kind of environment (see [`KINDS`]).
        #[derive(Debug, Clone, PartialEq)]
        pub enum KindConfig {
            $(#[doc = $about] $variant($module::Config),)+
        }

        /// All kinds.
        pub const KINDS: &[EnvironmentKind] = &[$(EnvironmentKind {
            name: stringify!($module),
            about: $about,
            is_limited: $limited,
            is_nested: $nested,
            options: options::of::<$module::Config>,
        },)+];

        impl KindConfig {
            /// What plans call it.
            pub const fn name(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => stringify!($module),)+
                }
            }

            /// What it needs where it is made.
            pub(crate) const fn needs(&self) -> Needs {
                match self {
                    $(Self::$variant(_) => $module::NEEDS,)+
                }
            }

            /// How long it may take to start, if nothing else is said.
            const fn limit(&self) -> Duration {
                match self {
                    $(Self::$variant(_) => Duration::from_secs($seconds),)+
                }
            }

            fn read(name: &str, options: Table) -> Option<Result<Self, toml::de::Error>> {
                match name {
                    $(stringify!($module) => Some(options.try_into().map(Self::$variant)),)+
                    _ => None,
                }
            }

            fn start(&self, start: Start<'_>) -> Result<Started, Error> {
                match self {
                    $(Self::$variant(config) => config.start(start),)+
                }
            }
        }
    };
}

kinds! {
    Host = host, limited: true, nested: true, seconds: 60, "This machine itself, or as much of it as one guest has.";
    Chroot = chroot, limited: true, nested: true, seconds: 60, "Another root folder, and nothing else that is different.";
    Bubblewrap = bubblewrap, limited: true, nested: true, seconds: 60, "Namespaces of the kernel by bubblewrap, with or without root.";
    Podman = podman, limited: true, nested: true, seconds: 120, "A container of podman.";
    Docker = docker, limited: true, nested: true, seconds: 120, "A container of Docker.";
    Nspawn = nspawn, limited: true, nested: true, seconds: 60, "A container of systemd-nspawn.";
    Lxc = lxc, limited: true, nested: true, seconds: 60, "A container of LXC.";
    Netns = netns, limited: true, nested: true, seconds: 60, "A network of its own behind a pair of virtual cards, slowed down if wanted.";
    Ssh = ssh, limited: false, nested: false, seconds: 60, "Any machine or guest that is reached by ssh, as it stands there.";
    Qemu = qemu, limited: true, nested: false, seconds: 300, "A guest of QEMU, by KVM or by emulation.";
    Libvirt = libvirt, limited: false, nested: false, seconds: 300, "A guest of libvirt.";
}

impl EnvironmentConfig {
    /// What it needs of this machine. What it needs of another place, within which it is made, shows there.
    pub fn look(&self, flight: &mut Preflight) {
        if self.common.within.is_some() {
            return;
        }
        let needs = self.kind.needs();
        if needs.root {
            flight.root(&format!("environment `{}` ({})", self.common.name, self.kind.name()));
        }
        for (program, advice) in needs.programs {
            flight.program(program, advice);
        }
        if let KindConfig::Qemu(qemu) = &self.kind {
            flight.program(&qemu.program, qemu::ADVICE);
        }
    }

    /// Starts a copy, the first being 0; returns when commands run in it. `outer` is the environment
    /// that `within` names, where it names one. What is done is undone when the copy ends, or by the
    /// guard.
    pub fn start(
        &self,
        copy: u32,
        outer: Option<&Started>,
        guard: &Guard,
        stop: &Stop,
    ) -> Result<Started, Error> {
        let (common, kind) = (&self.common, &self.kind);
        let start = Start::new(common, kind.name(), copy, outer, guard, stop, kind.limit());
        match (&common.within, outer) {
            (Some(name), None) => {
                Err(start.refuse(format!("`{name}`, within which it is to be, does not run")))
            }
            (None, Some(_)) => Err(start.refuse("stands by itself, and not `within` another")),
            _ => kind.start(start),
        }
    }

    fn check(&self) -> Result<(), String> {
        let common = &self.common;
        let kind = KINDS.iter().find(|kind| kind.name == self.kind.name()).unwrap_or(&KINDS[0]);
        if common.copies == 0 {
            return Err("`copies` counts from 1".to_owned());
        }
        if common.copies > common::COPIES {
            return Err(format!(
                "{} `copies`: one machine is asked for {} at most",
                common.copies,
                common::COPIES
            ));
        }
        if common.cpus == Some(0) {
            return Err("`cpus` counts from 1; leave it out for all there are".to_owned());
        }
        if common.memory == Some(common::Memory(0)) {
            return Err(
                "`memory` is nothing: write as much as it needs, `\"512 MiB\"`, or leave it out"
                    .to_owned(),
            );
        }
        if !kind.is_limited
            && (common.cpus.is_some() || common.memory.is_some() || common.pin.is_some())
        {
            return Err(format!(
                "`cpus`, `memory` and `pin` of `{}` are set where it is made; leave them out here",
                kind.name
            ));
        }
        if !kind.is_nested && common.within.is_some() {
            return Err(format!("`{}` cannot be `within` another environment", kind.name));
        }
        if common.pin.as_ref().is_some_and(Vec::is_empty) {
            return Err("`pin` names no CPU; leave it out".to_owned());
        }
        match &self.kind {
            KindConfig::Qemu(guest) => guest.check(),
            _ => Ok(()),
        }
    }
}

impl<'de> Deserialize<'de> for EnvironmentConfig {
    /// The keys that all kinds share are taken out first, so that each kind's own may still refuse what
    /// they do not know.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut table = Table::deserialize(deserializer)?;
        let name = table.get("name").and_then(Value::as_str).unwrap_or("?").to_owned();
        let invalid = |why: &str| D::Error::custom(format!("environment `{name}`: {}", why.trim()));
        let kind = table
            .remove("kind")
            .ok_or_else(|| invalid(&format!("no `kind`: one of {}", names())))?;
        let kind = kind.as_str().unwrap_or_default().to_owned();
        let shared: Table = common::COMMON_OPTIONS
            .iter()
            .filter_map(|key| Some(((*key).to_owned(), table.remove(*key)?)))
            .collect();
        let common = shared.try_into().map_err(|error| invalid(error.message()))?;
        let read = KindConfig::read(&kind, table)
            .ok_or_else(|| invalid(&format!("there is no kind `{kind}`: one of {}", names())))?;
        let kind = read.map_err(|error| {
            invalid(&format!(
                "`{kind}`: {} (or {}, as for all)",
                error.message(),
                common::COMMON_OPTIONS.join(", ")
            ))
        })?;
        let config = Self { common, kind };
        config.check().map_err(|why| invalid(&why))?;
        Ok(config)
    }
}

fn names() -> String {
    let names: Vec<_> = KINDS.iter().map(|kind| kind.name).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        toml::from_str::<EnvironmentConfig>(text).unwrap_err().to_string()
    }

    #[test]
    fn options_of_all_kinds_and_of_its_own_stand_side_by_side() {
        let text = "name = \"a\"\nkind = \"chroot\"\nroot = \"/srv/x\"\ncpus = 2\nmemory = \"1 GiB\"\ncopies = 3";
        let config: EnvironmentConfig = toml::from_str(text).unwrap();
        assert_eq!((config.common.cpus, config.common.copies), (Some(2), 3));
        assert_eq!(config.kind.name(), "chroot");
    }

    #[test]
    fn mistakes_name_the_environment_and_what_would_be_right() {
        let said = error("name = \"a\"\nkind = \"qemu\"");
        assert!(said.contains("`a`") && said.contains("nothing to boot"), "{said}");
        let said = error("name = \"a\"\nkind = \"chroot\"\nrot = \"/x\"\nroot = \"/y\"");
        assert!(said.contains("`a`") && said.contains("rot") && said.contains("root"), "{said}");
        let said = error("name = \"a\"\nkind = \"xen\"");
        assert!(said.contains("xen") && said.contains("qemu"), "{said}");
        let said = error("name = \"a\"");
        assert!(said.contains("kind"), "{said}");
        let said = error("name = \"a\"\nkind = \"ssh\"\nhost = \"h\"\ncpus = 1");
        assert!(said.contains("leave them out"), "{said}");
        let said = error("name = \"a\"\nkind = \"ssh\"\nhost = \"h\"\nprot = 22");
        assert!(said.contains("prot"), "{said}");
        let said = error("name = \"a\"\nkind = \"host\"\npin = 1");
        assert!(said.contains("`a`"), "{said}");
        let said = error("name = \"a\"\nkind = \"host\"\ncopies = 0");
        assert!(said.contains("copies"), "{said}");
    }

    #[test]
    fn amounts_that_nothing_can_run_with_are_refused_when_they_are_read() {
        for (option, word) in [
            ("cpus = 0", "`cpus` counts from 1"),
            ("memory = 0", "`memory` is nothing"),
            ("memory = \"0 GiB\"", "`memory` is nothing"),
            ("copies = 1001", "1000"),
            ("copies = 4000000000", "1000"),
        ] {
            let said = error(&format!("name = \"a\"\nkind = \"host\"\n{option}"));
            assert!(said.contains("`a`") && said.contains(word), "{option}: {said}");
        }
        let text = "name = \"a\"\nkind = \"host\"\ncpus = 1\nmemory = 1\ncopies = 1000";
        assert_eq!(toml::from_str::<EnvironmentConfig>(text).unwrap().common.copies, 1000);
    }

    #[test]
    fn kinds_know_what_options_they_have() {
        let options = |name| (KINDS.iter().find(|kind| kind.name == name).unwrap().options)();
        assert_eq!(options("host"), [""; 0]);
        assert_eq!(options("netns"), ["rate", "delay", "loss", "tied"]);
        assert!(options("qemu").contains(&"snapshot"));
    }

    #[test]
    fn every_kind_is_found_by_its_name() {
        for kind in KINDS {
            assert!(KindConfig::read(kind.name, Table::new()).is_some(), "{}", kind.name);
        }
        assert!(KindConfig::read("xen", Table::new()).is_none());
    }
}
