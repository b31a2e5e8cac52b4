//! Sets the settings of a file, starts its environments, lets something sleep in each, and holds them
//! until it is told to end, or is killed.
//!
//! `cargo run --example hold -- FILE JOURNAL`: the file has `[[environment]]` tables, of which `within`
//! names one that stands before, and `[[setting]]` tables with a `value` and what is `set`. When all run it prints the process number of the guardian; it ends with its input.

use std::error::Error;
use std::io::Read;
use std::path::Path;
use std::process::Stdio;

use nightwatt_clock::meter::Stop;
use nightwatt_environments::guard::Guard;
use nightwatt_environments::settings::Setting;
use nightwatt_environments::{EnvironmentConfig, Started};
use serde::Deserialize;

#[derive(Deserialize)]
struct Plan {
    #[serde(default)]
    environment: Vec<EnvironmentConfig>,
    #[serde(default)]
    setting: Vec<Wanted>,
}

#[derive(Deserialize)]
struct Wanted {
    set: Setting,
    value: String,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().collect();
    let [_, file, journal] = arguments.as_slice() else { return Err("FILE JOURNAL".into()) };
    let plan: Plan = toml::from_str(&std::fs::read_to_string(file)?)?;
    let guard = Guard::start(Path::new(journal))?;
    let stop = Stop::new()?;
    let sets = plan.setting.iter();
    let sets = sets.map(|wanted| wanted.set.set(Path::new("/"), &wanted.value, &guard, &stop));
    let sets = sets.collect::<Result<Vec<_>, _>>()?;
    let mut running: Vec<(String, Started)> = Vec::new();
    for config in plan.environment {
        let named = |name: &String| running.iter().find(|(other, _)| other == name);
        let outer = config.common.within.as_ref().and_then(named).map(|(_, started)| started);
        let started = (0..config.common.copies)
            .map(|copy| config.start(copy, outer, &guard, &stop))
            .collect::<Result<Vec<_>, _>>()?;
        running.extend(started.into_iter().map(|copy| (config.common.name.clone(), copy)));
    }
    let mut busy = Vec::new();
    for (name, started) in &running {
        // One process that its shell waits for, and one in a session of its own that no process waits for.
        let line = "setsid sleep 98765 & sleep 98765";
        busy.push(started.command(line).stdin(Stdio::null()).stdout(Stdio::null()).spawn()?);
        eprintln!("{name} at {}: {:?}", started.address(), started.facts());
    }
    println!("{}", guard.guardian().unwrap_or_default());
    std::io::stdin().read_to_end(&mut Vec::new())?;
    // What was made within another ends before it.
    while let Some((_, started)) = running.pop() {
        started.stop()?;
    }
    for mut child in busy {
        child.wait()?;
    }
    for set in sets.into_iter().rev() {
        set.restore()?;
    }
    Ok(guard.finish()?)
}
