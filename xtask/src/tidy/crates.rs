//! Rules for the crates: what they are called, and which way their dependencies point.

use std::error::Error;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::Finding;

/// Crates may use those of the layers before their own.
const LAYERS: [&[&str]; 6] = [
    &["model", "clock", "markers", "needs"],
    &["agent", "httpcache"],
    &[
        "traffic",
        "http1",
        "meters",
        "mirror",
        "power",
        "probes",
        "transfer",
        "report",
        "environments",
        "workloads",
    ],
    &["gateway", "load", "sim", "tcp"],
    &["lab"],
    &["cli", "python", "fuzz-targets"],
];

/// Crates that may use less than their layer allows, or their neighbour.
const ONLY: [(&str, &[&str]); 14] = [
    ("needs", &[]),
    ("model", &[]),
    ("markers", &[]),
    ("httpcache", &[]),
    ("mirror", &["httpcache"]),
    ("http1", &["model", "clock"]),
    ("agent", &["model", "clock"]),
    ("clock", &["model"]),
    ("environments", &["model", "clock"]),
    ("tcp", &["model", "clock"]),
    ("traffic", &["model"]),
    ("report", &["model"]),
    ("sim", &["model"]),
    ("workloads", &[]),
];

/// For tests, benchmarks, or as an option.
const AT_WILL: [(&str, &str); 2] = [("sim", "traffic"), ("gateway", "sim")];

/// Tests of all crates may use it.
const OF_TESTS: &str = "needs";

const PREFIX: &str = "nightwatt-";

/// A package of the workspace.
#[derive(Debug)]
pub(super) struct Package {
    name: String,
    /// From the root: `crates/model/Cargo.toml`.
    manifest: String,
    /// Names of the workspace's own packages that it uses, and whether only at will.
    uses: Vec<(String, bool)>,
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
        uses: own
            .map(|own| (text(&own["name"]), own["kind"] == "dev" || own["optional"] == true))
            .collect(),
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
        if layer_of(folder).is_none() {
            say("layer", format!("say in xtask/src/tidy/crates.rs which layer `{folder}` is in"));
        }
        for (used, at_will) in &package.uses {
            let used = used.strip_prefix(PREFIX).unwrap_or(used);
            if !may_use(folder, used, *at_will) {
                let advice = format!(
                    "`{folder}` may not use `{used}`: dependencies point from cli to model; move \
                     what both need towards model, or take it as an argument"
                );
                say("arrow", advice);
            }
        }
    }
    findings
}

fn layer_of(name: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&name))
}

fn may_use(name: &str, other: &str, at_will: bool) -> bool {
    if at_will && (other == OF_TESTS || AT_WILL.contains(&(name, other))) {
        return true;
    }
    match ONLY.iter().find(|(restricted, _)| *restricted == name) {
        Some((_, few)) => few.contains(&other),
        // Where a crate is in no layer, that has been said.
        None => layer_of(name).is_none_or(|own| layer_of(other).is_none_or(|layer| layer < own)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(folder: &str, name: &str, uses: &[(&str, bool)]) -> Vec<&'static str> {
        let uses =
            uses.iter().map(|(used, at_will)| (format!("{PREFIX}{used}"), *at_will)).collect();
        let manifest = format!("crates/{folder}/Cargo.toml");
        let package = Package { name: name.to_owned(), manifest, uses };
        check(&[package]).iter().map(|finding| finding.rule).collect()
    }

    #[test]
    fn arrows_point_one_way() {
        let arrows = |folder, uses| found(folder, &format!("{PREFIX}{folder}"), uses);
        assert!(arrows("cli", &[("lab", false), ("model", false), ("clock", false)]).is_empty());
        assert!(arrows("power", &[("clock", false)]).is_empty());
        assert_eq!(arrows("power", &[("gateway", false)]), ["arrow"]);
        assert_eq!(arrows("gateway", &[("load", true)]), ["arrow"]);
        assert_eq!(arrows("model", &[("clock", false)]), ["arrow"]);
        assert_eq!(arrows("traffic", &[("clock", false)]), ["arrow"]);
        assert_eq!(arrows("httpcache", &[("model", false)]), ["arrow"]);
        assert!(arrows("mirror", &[("httpcache", false)]).is_empty());
        assert_eq!(arrows("mirror", &[("clock", false)]), ["arrow"]);
    }

    #[test]
    fn the_simulator_reads_logs_only_at_will() {
        assert!(found("sim", "nightwatt-sim", &[("traffic", true), ("model", false)]).is_empty());
        assert_eq!(found("sim", "nightwatt-sim", &[("traffic", false)]), ["arrow"]);
    }

    #[test]
    fn only_tests_ask_for_programs_of_tests() {
        assert!(found("tcp", "nightwatt-tcp", &[("needs", true)]).is_empty());
        assert_eq!(found("tcp", "nightwatt-tcp", &[("needs", false)]), ["arrow"]);
    }

    #[test]
    fn a_crate_is_named_after_its_folder_and_has_a_layer() {
        assert_eq!(found("sim", "nightwatt-simulator", &[]), ["name"]);
        assert_eq!(found("utils", "nightwatt-utils", &[("model", false)]), ["layer"]);
    }
}
