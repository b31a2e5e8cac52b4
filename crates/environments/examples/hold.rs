//! Starts the environments of a file, lets something sleep in each, and holds them until it is told to
//! end, or is killed.
//!
//! `cargo run --example hold -- FILE JOURNAL`: the file has `[[environment]]` tables; `within` names one
//! that stands before. When all run it prints the process number of the guardian; it ends with its input.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::Read;
use std::path::Path;
use std::process::Stdio;

use nightwatt_clock::meter::Stop;
use nightwatt_environments::guard::Guard;
use nightwatt_environments::{EnvironmentConfig, Started};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().collect();
    let [_, file, journal] = arguments.as_slice() else { return Err("FILE JOURNAL".into()) };
    let mut plan: BTreeMap<String, Vec<EnvironmentConfig>> =
        toml::from_str(&std::fs::read_to_string(file)?)?;
    let configs = plan.remove("environment").ok_or("no [[environment]]")?;
    let guard = Guard::start(Path::new(journal))?;
    let stop = Stop::new()?;
    let mut running: Vec<(String, Started)> = Vec::new();
    for config in configs {
        let named = |name: &String| running.iter().find(|(other, _)| other == name);
        let outer = config.common.within.as_ref().and_then(named).map(|(_, started)| started);
        let started = (0..config.common.copies)
            .map(|copy| config.start(copy, outer, &guard, &stop))
            .collect::<Result<Vec<_>, _>>()?;
        running.extend(started.into_iter().map(|copy| (config.common.name.clone(), copy)));
    }
    let mut busy = Vec::new();
    for (name, started) in &running {
        // One that somebody waits for, and one in a session of its own that nobody does.
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
    Ok(guard.finish()?)
}
