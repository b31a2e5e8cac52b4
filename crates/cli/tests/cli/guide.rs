//! `docs/sleeping-machines.md`: its configurations are whole, and understood.

use std::fs;

use nightwatt_gateway::Config;
use nightwatt_power::probe;

fn guide() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/sleeping-machines.md");
    fs::read_to_string(path).unwrap()
}

/// The first lines of whole files: whose they are.
const PROXYS: &str = "# /etc/nightwatt.toml";
const AGENTS: &str = "# /etc/nightwatt/agent.toml";

/// The heading that a block of TOML stands below, and the block.
fn blocks() -> Vec<(String, String)> {
    let (mut heading, mut open, mut blocks) = (String::new(), false, Vec::new());
    for line in guide().lines() {
        match line {
            "```toml" => {
                open = true;
                blocks.push((heading.clone(), String::new()));
            }
            "```" => open = false,
            _ if open => {
                let (_, block) = blocks.last_mut().unwrap();
                *block += line;
                *block += "\n";
            }
            _ => {
                if let Some(next) = line.strip_prefix("## ") {
                    next.clone_into(&mut heading);
                }
            }
        }
    }
    blocks
}

#[test]
fn every_configuration_of_the_guide_is_a_whole_file_that_is_understood() {
    for (heading, block) in blocks() {
        let first = block.lines().next().unwrap_or_default();
        if first.starts_with(PROXYS) {
            let config = Config::parse(&block, &heading).unwrap_or_else(|error| panic!("{error}"));
            for site in &config.site {
                let asked = site.probe.as_ref();
                let told = site.power.as_ref().is_none_or(|power| {
                    power.reports_state() || !matches!(asked, Some(probe::Config::Controller))
                });
                assert!(told, "{heading}: {} never counts as awake", site.name);
            }
        } else {
            assert!(first.starts_with(AGENTS), "{heading}: whose file is this? {first}");
            nightwatt_agent::config::Config::parse(&block, &heading)
                .unwrap_or_else(|error| panic!("{heading}: {error}"));
        }
    }
}

#[test]
fn each_kind_of_machine_has_its_configuration() {
    let blocks = blocks();
    let guide = guide();
    let headings = guide.lines().filter_map(|line| line.strip_prefix("## "));
    let kinds: Vec<&str> = headings.filter(|heading| !heading.starts_with("For all")).collect();
    assert!(kinds.len() >= 5, "{kinds:?}");
    for kind in kinds {
        let has =
            |(heading, block): &(String, String)| heading == kind && block.starts_with(PROXYS);
        assert!(blocks.iter().any(has), "{kind} has none");
    }
}
