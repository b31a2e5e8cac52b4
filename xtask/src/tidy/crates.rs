//! Rules for the crates: what they are called, and which other crates they may use.

use std::collections::BTreeSet;
use std::error::Error;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::Finding;

/// The crates, from the bottom up, and what each may use: crates above it in this list.
const ALLOWED: [(&str, &[&str]); 37] = [
    ("needs", &[]),
    ("markers", &[]),
    ("energy", &[]),
    ("policy", &["energy"]),
    ("httpcache", &[]),
    ("workloads", &[]),
    ("clock", &["energy"]),
    ("host", &["clock", "energy"]),
    ("bmc", &["energy", "host"]),
    ("report", &["energy"]),
    ("mining", &["energy", "report"]),
    ("traffic", &["energy", "policy"]),
    ("transfer", &["energy", "host", "report"]),
    ("agent", &["clock", "energy", "host"]),
    ("environments", &["clock", "energy", "host"]),
    ("http1", &["clock", "energy"]),
    ("meters", &["bmc", "clock", "energy", "host", "report"]),
    ("mirror", &["httpcache"]),
    ("sim", &["energy", "mirror", "policy"]),
    ("probes", &["clock", "energy", "host"]),
    ("tcp", &["clock", "energy"]),
    // A program of its own, under the GPL: nothing of ours is linked into it, and it into nothing of ours.
    ("sched", &[]),
    ("power", &["agent", "bmc", "clock", "energy", "host"]),
    ("load", &["clock", "energy", "host", "policy", "report", "traffic"]),
    (
        "gateway",
        &[
            "clock",
            "energy",
            "host",
            "http1",
            "httpcache",
            "meters",
            "mirror",
            "policy",
            "power",
            "report",
            "traffic",
        ],
    ),
    ("measure", &["clock", "energy", "host", "meters", "power", "probes", "report"]),
    ("profile", &["clock", "energy", "host", "measure", "meters", "probes", "report"]),
    ("compare", &["clock", "energy", "environments", "host", "meters", "report", "workloads"]),
    (
        "corun",
        &["clock", "compare", "energy", "environments", "host", "meters", "report", "workloads"],
    ),
    (
        "netlab",
        &[
            "clock",
            "compare",
            "energy",
            "environments",
            "host",
            "measure",
            "meters",
            "probes",
            "profile",
            "report",
            "tcp",
        ],
    ),
    ("savings", &["energy", "host", "mirror", "policy", "report", "sim", "traffic"]),
    ("python", &["clock", "energy", "host", "policy", "report", "savings", "traffic"]),
    ("demo", &["clock", "energy", "gateway", "load", "policy", "power", "report", "traffic"]),
    ("doctor", &["clock", "energy", "gateway", "host", "power", "probes"]),
    (
        "claims",
        &[
            "clock", "compare", "corun", "energy", "gateway", "load", "measure", "mining",
            "netlab", "policy", "probes", "report", "savings", "sim", "traffic", "transfer",
        ],
    ),
    (
        "cli",
        &[
            "agent", "claims", "clock", "compare", "corun", "demo", "doctor", "energy", "gateway",
            "host", "load", "measure", "meters", "mining", "netlab", "policy", "power", "profile",
            "report", "savings", "tcp", "traffic", "transfer",
        ],
    ),
    (
        "fuzz-targets",
        &[
            "agent",
            "bmc",
            "clock",
            "energy",
            "gateway",
            "host",
            "http1",
            "httpcache",
            "load",
            "measure",
            "meters",
            "mirror",
            "policy",
            "power",
            "report",
            "tcp",
            "traffic",
            "transfer",
            "workloads",
        ],
    ),
];

/// What tests may use besides.
const IN_TESTS: [(&str, &str); 5] = [
    ("sim", "traffic"),
    ("gateway", "sim"),
    ("measure", "policy"),
    ("cli", "markers"),
    ("sched", "corun"),
];

/// Tests of all crates may use it.
const OF_TESTS: &str = "needs";

const LIST: &str = "xtask/src/tidy/crates.rs";

const PREFIX: &str = "nightwatt-";

/// A package of the workspace.
#[derive(Debug)]
pub(super) struct Package {
    name: String,
    /// From the root: `crates/energy/Cargo.toml`.
    manifest: String,
    /// Names of the workspace's own packages that it uses, and whether only its tests do.
    uses: Vec<(String, bool)>,
}

impl Package {
    /// Its folder in `crates/`, if it is there.
    pub(super) fn folder(&self) -> Option<&str> {
        self.manifest.strip_prefix("crates/")?.split('/').next()
    }

    /// The other crates that it uses: in its code, or only in its tests.
    pub(super) fn uses(&self, in_tests: bool) -> BTreeSet<&str> {
        let uses = self.uses.iter().filter(|(_, is_for_tests)| *is_for_tests == in_tests);
        let names = uses.map(|(name, _)| name.strip_prefix(PREFIX).unwrap_or(name));
        names.filter(|name| *name != OF_TESTS).collect()
    }

    #[cfg(test)]
    pub(super) fn for_tests(folder: &str, uses: &[(&str, bool)]) -> Self {
        let uses = uses.iter().map(|(used, in_tests)| (format!("{PREFIX}{used}"), *in_tests));
        let (name, manifest) = (format!("{PREFIX}{folder}"), format!("crates/{folder}/Cargo.toml"));
        Self { name, manifest, uses: uses.collect() }
    }
}

pub(super) fn read(root: &Path) -> Result<Vec<Package>, Box<dyn Error>> {
    let cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .current_dir(root)
        .output()?;
    if !cargo.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&cargo.stderr)).into());
    }
    let metadata: Value = serde_json::from_slice(&cargo.stdout)?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata names no packages")?;
    Ok(packages.iter().map(|package| package_of(package, root)).collect())
}

fn package_of(package: &Value, root: &Path) -> Package {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let manifest = text(&package["manifest_path"]);
    let relative = Path::new(&manifest).strip_prefix(root).map(|path| path.display().to_string());
    let uses = package["dependencies"].as_array().into_iter().flatten();
    let own = uses.filter(|dependency| dependency["path"].is_string());
    Package {
        name: text(&package["name"]),
        uses: own.map(|own| (text(&own["name"]), own["kind"] == "dev")).collect(),
        manifest: relative.unwrap_or(manifest),
    }
}

pub(super) fn check(packages: &[Package]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let crates = packages.iter().filter(|package| package.manifest.starts_with("crates/"));
    for package in crates {
        let mut say = |rule, advice| {
            let path = package.manifest.clone();
            findings.push(Finding { path, line: 1, rule, weight: 1, advice });
        };
        let folder = package.manifest.split('/').nth(1).unwrap_or_default();
        if package.name != format!("{PREFIX}{folder}") {
            say("name", format!("`{}` is in `{folder}`: rename one of them", package.name));
        }
        let Some((_, allowed)) = ALLOWED.iter().find(|(name, _)| *name == folder) else {
            say("dependency", format!("add `{folder}` and what it may use to {LIST}"));
            continue;
        };
        for (used, in_tests) in &package.uses {
            let used = used.strip_prefix(PREFIX).unwrap_or(used);
            let is_for_tests = used == OF_TESTS || IN_TESTS.contains(&(folder, used));
            let may_use = allowed.contains(&used) || *in_tests && is_for_tests;
            if !may_use {
                let advice = format!(
                    "`{folder}` may not use `{used}`: move what both need to a crate below them, or \
                     take it as an argument; if it shall use it, add it to {LIST}"
                );
                say("dependency", advice);
            }
        }
    }
    findings
}

/// Entries of the list that no crate makes use of.
pub(super) fn stale(packages: &[Package]) -> Vec<Finding> {
    let has = |name: &str, used: &str| {
        let manifest = format!("crates/{name}/Cargo.toml");
        let package = packages.iter().find(|package| package.manifest == manifest);
        package.is_some_and(|it| {
            let named = |name: &str| name.strip_prefix(PREFIX) == Some(used);
            used.is_empty() || it.uses.iter().any(|(name, _)| named(name))
        })
    };
    let whole = ALLOWED.iter().map(|(name, _)| (*name, ""));
    let each = ALLOWED.iter().flat_map(|(name, all)| all.iter().map(move |used| (*name, *used)));
    let entries = whole.chain(each).chain(IN_TESTS);
    let stale = entries.filter(|(name, used)| !has(name, used));
    stale
        .map(|(name, used)| {
            let advice = match used {
                "" => format!("there is no crate `{name}`: remove it from the list"),
                used => format!("`{name}` does not use `{used}`: remove it from the list"),
            };
            Finding { path: LIST.to_owned(), line: 1, rule: "dependency", weight: 1, advice }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(folder: &str, name: &str, uses: &[(&str, bool)]) -> Vec<&'static str> {
        let package = Package { name: name.to_owned(), ..Package::for_tests(folder, uses) };
        check(&[package]).iter().map(|finding| finding.rule).collect()
    }

    #[test]
    fn each_crate_may_use_only_crates_above_it_in_the_list() {
        for (index, (name, allowed)) in ALLOWED.iter().enumerate() {
            for used in *allowed {
                let is_above = ALLOWED[..index].iter().any(|(above, _)| above == used);
                assert!(is_above, "`{name}` uses `{used}`");
            }
        }
    }

    #[test]
    fn dependencies_are_those_of_the_list() {
        let of = |folder, uses| found(folder, &format!("{PREFIX}{folder}"), uses);
        assert!(of("cli", &[("savings", false), ("energy", false), ("clock", false)]).is_empty());
        assert!(of("power", &[("clock", false)]).is_empty());
        assert_eq!(of("power", &[("gateway", false)]), ["dependency"]);
        assert_eq!(of("gateway", &[("load", true)]), ["dependency"]);
        assert_eq!(of("energy", &[("clock", false)]), ["dependency"]);
        assert_eq!(of("traffic", &[("clock", false)]), ["dependency"]);
        assert_eq!(of("httpcache", &[("energy", false)]), ["dependency"]);
        assert!(of("mirror", &[("httpcache", false)]).is_empty());
        assert_eq!(of("mirror", &[("clock", false)]), ["dependency"]);
    }

    #[test]
    fn some_dependencies_are_only_for_tests() {
        assert!(found("sim", "nightwatt-sim", &[("traffic", true), ("energy", false)]).is_empty());
        assert_eq!(found("sim", "nightwatt-sim", &[("traffic", false)]), ["dependency"]);
        assert!(found("tcp", "nightwatt-tcp", &[("needs", true)]).is_empty());
        assert_eq!(found("tcp", "nightwatt-tcp", &[("needs", false)]), ["dependency"]);
    }

    #[test]
    fn a_crate_is_named_after_its_folder_and_is_in_the_list() {
        assert_eq!(found("sim", "nightwatt-simulator", &[]), ["name"]);
        assert_eq!(found("utils", "nightwatt-utils", &[("energy", false)]), ["dependency"]);
    }

    #[test]
    fn entries_that_no_crate_uses_are_stale() {
        let manifest = "crates/clock/Cargo.toml".to_owned();
        let clock = Package { name: "nightwatt-clock".into(), manifest, uses: Vec::new() };
        let advice: Vec<String> = stale(&[clock]).into_iter().map(|it| it.advice).collect();
        let has = |text: &str| advice.iter().any(|advice| advice.starts_with(text));
        assert!(has("there is no crate `sim`"));
        assert!(has("`clock` does not use `energy`"));
        assert!(!has("there is no crate `clock`"));
    }
}
