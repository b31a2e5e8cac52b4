//! Settings that are made by commands.

use std::time::Duration;

use nightwatt_clock::meter::Stop;

use super::Set;
use crate::guard::Guard;
use crate::{Error, shell, tool};

/// They only tell the kernel something.
const LIMIT: Duration = Duration::from_mins(1);

/// What `ethtool -k` calls what people call shortly.
const SHORT: &[(&str, &str)] = &[
    ("rx", "rx-checksumming"),
    ("tx", "tx-checksumming"),
    ("sg", "scatter-gather"),
    // Its line in ethtool's summary says on while any of its parts is, of which most packets know nothing.
    ("tso", "tx-tcp-segmentation"),
    ("gso", "generic-segmentation-offload"),
    ("gro", "generic-receive-offload"),
    ("lro", "large-receive-offload"),
    ("rxvlan", "rx-vlan-offload"),
    ("txvlan", "tx-vlan-offload"),
    ("ntuple", "ntuple-filters"),
    ("rxhash", "receive-hashing"),
];

/// Lines in which `$value` is the value.
#[derive(Debug)]
pub(super) struct Commands {
    name: String,
    set: String,
    read: Option<String>,
    restore: String,
}

impl Commands {
    pub(super) fn new(name: String, set: &str, read: Option<&str>, restore: Option<&str>) -> Self {
        let restore = restore.unwrap_or(set).to_owned();
        Self { name, set: set.to_owned(), read: read.map(str::to_owned), restore }
    }

    pub(super) fn offload(name: String, interface: &str, feature: &str) -> Self {
        let long =
            SHORT.iter().find(|(short, _)| *short == feature).map_or(feature, |(_, long)| long);
        let interface = shell::quote(interface);
        let set = format!("ethtool -K {interface} {} $value", shell::quote(feature));
        // `generic-receive-offload: on`, and parts of it behind a tab: `tx-tcp-segmentation: off [fixed]`.
        let read =
            format!("ethtool -k {interface} | sed -n 's/^[[:space:]]*{long}: \\([^ ]*\\).*/\\1/p'");
        Self::new(name, &set, Some(&read), None)
    }

    pub(super) fn coalescing(name: String, interface: &str, parameter: &str) -> Self {
        let interface = shell::quote(interface);
        let set = format!("ethtool -C {interface} {} $value", shell::quote(parameter));
        // `rx-usecs: 3`, but `Adaptive RX: off  TX: off`.
        let find = match parameter {
            "adaptive-rx" => "s/^Adaptive RX: *\\([^ ]*\\).*/\\1/p".to_owned(),
            "adaptive-tx" => "s/^Adaptive.*TX: *\\([^ ]*\\).*/\\1/p".to_owned(),
            other => format!("s/^{other}: *\\([^ ]*\\).*/\\1/p"),
        };
        let read = format!("ethtool -c {interface} | sed -n '{find}'");
        Self::new(name, &set, Some(&read), None)
    }

    fn run(&self, line: &str, stop: &Stop) -> Result<String, Error> {
        let line = format!("PATH=$PATH:/usr/sbin:/sbin\n{line}");
        let argv = ["/bin/sh", "-c", &line].map(str::to_owned);
        tool::succeed(&argv, &self.name, LIMIT, stop)
    }

    pub(super) fn read(&self, stop: &Stop) -> Result<Option<String>, Error> {
        let Some(line) = &self.read else { return Ok(None) };
        let value = self.run(line, stop)?.trim().to_owned();
        if value.is_empty() {
            return Err(Error::Setting {
                setting: self.name.clone(),
                why: format!("`{line}` says nothing"),
                hint: "see what it prints by hand, and whether this machine has it",
            });
        }
        Ok(Some(value))
    }

    pub(super) fn set(&self, value: &str, guard: &Guard, stop: &Stop) -> Result<Set, Error> {
        let before = self.read(stop)?;
        if before.as_deref() == Some(value) {
            return Ok(Set { before: value.to_owned(), undo: None });
        }
        let previous = before.clone().unwrap_or_default();
        let with = |value: &str, line: &str| format!("value={}\n{line}", shell::quote(value));
        let restore = with(&previous, &self.restore);
        let undo = guard.protect(&format!("PATH=$PATH:/usr/sbin:/sbin\n{restore}"))?;
        self.run(&with(value, &self.set), stop)?;
        if let Some(now) = self.read(stop)?
            && now != value
        {
            return Err(Error::Setting {
                setting: self.name.clone(),
                why: format!("it is `{now}` after it was set to `{value}`"),
                hint: "see whether the device can do that at all (ethtool says `[fixed]`)",
            });
        }
        Ok(Set { before: previous, undo: Some(undo) })
    }
}
