//! What a plan needs of this machine and does not find there, before anything is started.

use std::collections::BTreeSet;
use std::path::Path;

use nightwatt_clock::meter::Stop;
use nightwatt_host::preflight::{Preflight, first_word};
use nightwatt_meters::Host;
use nightwatt_meters::sampler::Opened;

use super::plan::{EnvironmentPlan, FactorKind, Plan, Site, Workload};

const ADVICE: &str = "install it, or correct the command (Debian: `apt-file search bin/NAME`)";

impl Plan {
    /// All that this machine lacks for the runs, each with what to do about it, as far as can be seen without a run.
    /// Other machines, guests and the insides of containers are not looked at.
    pub fn missing(&self, stop: &Stop) -> Vec<String> {
        let mut flight = Preflight::default();
        for environment in self.environments.iter().chain(&self.client) {
            // Wrong options are an error of the plan.
            if let Ok(config) = environment.config([]) {
                config.look(&mut flight);
            }
        }
        for program in self.programs() {
            flight.program(program, ADVICE);
        }
        for factor in &self.factors {
            if let FactorKind::Setting(setting) = &factor.kind
                && let Err(error) = setting.check(Path::new("/"), &factor.values, stop)
            {
                flight.note(error.to_string());
            }
        }
        for spec in &self.meters {
            if let Err(error) = Opened::open(&Host::default(), spec) {
                let hint = error.hint().map_or_else(String::new, |hint| format!(": {hint}"));
                flight.note(format!("{error}{hint}"));
            }
        }
        flight.missing()
    }

    /// Programs that lines begin with which run on this machine.
    fn programs(&self) -> BTreeSet<&str> {
        let mut programs = BTreeSet::new();
        for cell in &self.cells {
            let workload = &self.workloads[cell.workload];
            let is_inside = is_here(&self.environments[cell.environment]);
            let is_client = self.client.as_ref().is_none_or(is_here);
            let is_load = if workload.at == Site::Client { is_client } else { is_inside };
            let inside = if is_inside { inside(workload) } else { Vec::new() };
            let load = if is_load { load(workload) } else { Vec::new() };
            programs.extend(inside.into_iter().chain(load).filter_map(program));
        }
        programs
    }
}

/// Whether its commands are programs of this machine.
fn is_here(environment: &EnvironmentPlan) -> bool {
    let kind = environment.table.get("kind").and_then(toml::Value::as_str);
    let is_plain = matches!(kind, Some("host" | "netns"));
    is_plain && !environment.table.contains_key("within")
}

/// Lines that run in the environment.
fn inside(workload: &Workload) -> Vec<&str> {
    let Workload { prepare, serve, ready, finish, .. } = workload;
    prepare.iter().chain(serve).chain(ready).chain(finish).map(String::as_str).collect()
}

/// Lines that make the load.
fn load(workload: &Workload) -> Vec<&str> {
    workload.fill.iter().chain([&workload.command]).map(String::as_str).collect()
}

/// The program that a line begins with, if it is a name: an earlier line may make the file of a path.
fn program(line: &str) -> Option<&str> {
    first_word(line).filter(|word| !word.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::super::PlanFile;
    use super::*;

    const PLAN: &str = r#"
[[environment]]
name = "host"
kind = "host"
[[environment]]
name = "elsewhere"
kind = "ssh"
host = "root@192.0.2.1"
[[workload]]
name = "a"
tool = "wrk"
command = "LC_ALL=C no-such-program-a -d 1"
[[workload]]
name = "b"
tool = "wrk"
serve = "no-such-server-b -p 1"
command = "no-such-program-b"
[[workload]]
name = "c"
tool = "wrk"
command = "no-such-program-c"
environments = ["elsewhere"]
"#;

    #[test]
    fn all_programs_that_are_missing_here_are_named_before_the_first_run() {
        let plan = PlanFile::read("plan.toml", "plan", PLAN).unwrap();
        let missing = plan.missing(&Stop::new().unwrap());
        let names: Vec<_> = missing.iter().filter_map(|line| line.split('`').nth(1)).collect();
        let wanted = ["no-such-program-a", "no-such-program-b", "no-such-server-b"];
        assert_eq!(names.iter().filter(|it| it.starts_with("no-such")).count(), 3, "{missing:?}");
        assert!(wanted.iter().all(|it| names.contains(it)), "{missing:?}");
    }
}
