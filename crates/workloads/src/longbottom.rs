//! What all of Roy Longbottom's benchmarks print before their figures: of which machine they are.

use crate::error::ReadError;
use crate::number::{BINARY, BYTES, amount, count, sized};
use crate::outcome::Better::Neither;
use crate::outcome::{Outcome, unit};
use crate::text::{after, between};

pub(crate) fn machine(text: &str, outcome: &mut Outcome) -> Result<(), ReadError> {
    if let Some(line) = after(text, "Measured - ") {
        for (word, name) in [("Minimum ", "clock_min"), ("Maximum ", "clock_max")] {
            let value = amount("clock", between(line, word, " MHz").unwrap_or_default())?;
            outcome.add(name, value * 1e6, unit::HERTZ, Neither);
        }
    }
    if let Some(line) = after(text, "get_nprocs() - CPUs ") {
        let mut parts = line.split(", Configured CPUs ");
        for name in ["cpus", "cpus_configured"] {
            let number = count(name, parts.next().unwrap_or_default())?;
            outcome.add(name, number as f64, unit::COUNT, Neither);
        }
    }
    if let Some(line) = after(text, "get_phys_pages() and size - RAM Size ") {
        let (ram, page) = line.split_once(", Page Size ").unwrap_or((line, ""));
        let ram = sized("memory", ram, BYTES, BINARY)?;
        outcome.add("memory", ram, unit::BYTES, Neither);
        outcome.add("page_size", sized("page", page, BYTES, BINARY)?, unit::BYTES, Neither);
    }
    Ok(())
}
