//! Options that all kinds of environments share.

use serde::{Deserialize, Deserializer, de};

/// What is said of an environment, whatever its kind.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Common {
    /// What it is called in plans and reports.
    pub name: String,
    /// Number of copies that run at once, each with CPUs and memory of its own.
    #[serde(default = "one")]
    pub copies: u32,
    /// CPUs of each copy: virtual ones of a guest, otherwise the maximum that it may use of this machine's.
    pub cpus: Option<u32>,
    /// Memory of each copy: bytes, or with a unit: `"512 MiB"`.
    pub memory: Option<Memory>,
    /// The CPUs of this machine that it may use. Each copy takes its `cpus` of them in turn.
    pub pin: Option<Vec<u32>>,
    /// Where the folder for its work is made, and so on which disk.
    pub scratch: Option<String>,
    /// Timeout in seconds for it to become ready.
    pub ready_seconds: Option<u64>,
    /// The environment in which it is made: a guest, or a machine that is reached by ssh.
    pub within: Option<String>,
}

/// The names of these options.
pub const COMMON_OPTIONS: &[&str] =
    &["name", "copies", "cpus", "memory", "pin", "scratch", "ready_seconds", "within"];

/// No plan has more copies: each takes a start of seconds, and a mistyped number would take days.
pub(crate) const COPIES: u32 = 1000;

const fn one() -> u32 {
    1
}

/// A size in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Memory(pub u64);

impl Memory {
    /// Whole mebibytes, as QEMU and libvirt count.
    pub(crate) fn mebibytes(self) -> u64 {
        self.0 >> 20
    }
}

const UNITS: &[(&str, u32)] =
    &[("KiB", 10), ("MiB", 20), ("GiB", 30), ("K", 10), ("M", 20), ("G", 30)];

impl<'de> Deserialize<'de> for Memory {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "expected bytes, as in 536870912 or \"512 MiB\"")]
        enum Size {
            Bytes(u64),
            Text(String),
        }
        let text = match Size::deserialize(deserializer)? {
            Size::Bytes(bytes) => return Ok(Self(bytes)),
            Size::Text(text) => text,
        };
        let unit = UNITS.iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, *shift)));
        let (number, shift) = unit.unwrap_or((&text, 0));
        let number: Option<u64> = number.trim().parse().ok();
        let bytes = number.and_then(|number| number.checked_mul(1 << shift)).ok_or_else(|| {
            de::Error::custom(format!(
                "memory `{text}`: write bytes, or as `\"512 MiB\"`, `\"2 GiB\"`"
            ))
        })?;
        Ok(Self(bytes))
    }
}

impl Common {
    /// One copy of what is called so, with all that there is.
    pub fn named(name: &str) -> Self {
        let name = name.to_owned();
        let (cpus, memory, pin, scratch, ready_seconds, within) = Default::default();
        Self { name, copies: 1, cpus, memory, pin, scratch, ready_seconds, within }
    }

    /// Which CPUs a copy may use, of those that are allowed; at least one of the two options is set.
    pub(crate) fn cpus_of(&self, copy: u32, allowed: &[u32]) -> Result<Vec<u32>, String> {
        let pool = self.pin.as_deref().unwrap_or(allowed);
        if let Some(missing) = pool.iter().find(|cpu| !allowed.contains(cpu)) {
            return Err(format!("CPU {missing} cannot be used here: allowed are {allowed:?}"));
        }
        let Some(wanted) = self.cpus else { return Ok(pool.to_vec()) };
        if wanted == 0 || wanted as usize > pool.len() {
            return Err(format!("{wanted} CPUs are wanted, of {pool:?}"));
        }
        let first = copy as usize * wanted as usize;
        let mut cpus: Vec<_> =
            (first..first + wanted as usize).map(|at| pool[at % pool.len()]).collect();
        cpus.sort_unstable();
        Ok(cpus)
    }
}

/// `0-3,8` as the kernel writes it.
pub(crate) fn cpu_list(text: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        cpus.extend(first.trim().parse::<u32>().ok()?..=last.trim().parse::<u32>().ok()?);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn common(options: &str) -> Common {
        toml::from_str(&format!("name = \"x\"\n{options}")).unwrap()
    }

    #[test]
    fn memory_is_bytes_or_has_a_unit() {
        let memory = |text| common(&format!("memory = {text}")).memory.unwrap().0;
        assert_eq!(memory("1048576"), 1 << 20);
        assert_eq!(memory("\"512 MiB\""), 512 << 20);
        assert_eq!(memory("\"2G\""), 2 << 30);
        let error = toml::from_str::<Common>("name = \"x\"\nmemory = \"2 GB\"").unwrap_err();
        assert!(error.to_string().contains("512 MiB"), "{error}");
    }

    #[test]
    fn copies_take_their_cpus_in_turn() {
        let two = common("cpus = 2");
        assert_eq!(two.cpus_of(0, &[0, 1, 2, 3]), Ok(vec![0, 1]));
        assert_eq!(two.cpus_of(1, &[0, 1, 2, 3]), Ok(vec![2, 3]));
        assert_eq!(two.cpus_of(2, &[0, 1, 2, 3]), Ok(vec![0, 1]), "more than there are: shared");
        assert_eq!(two.cpus_of(1, &[0, 1, 2]), Ok(vec![0, 2]));
        assert!(two.cpus_of(0, &[5]).unwrap_err().contains("2 CPUs"));
        let pinned = common("cpus = 1\npin = [3, 1]");
        assert_eq!(pinned.cpus_of(0, &[0, 1, 2, 3]), Ok(vec![3]));
        assert_eq!(pinned.cpus_of(1, &[0, 1, 2, 3]), Ok(vec![1]));
        assert!(pinned.cpus_of(0, &[0, 1]).unwrap_err().contains("CPU 3"));
        assert_eq!(common("pin = [1, 0]").cpus_of(7, &[0, 1]), Ok(vec![1, 0]));
    }

    #[test]
    fn the_kernels_lists_of_cpus_are_read() {
        assert_eq!(cpu_list("0-3,8"), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(cpu_list("5"), Some(vec![5]));
        assert_eq!(cpu_list(""), None);
    }
}
