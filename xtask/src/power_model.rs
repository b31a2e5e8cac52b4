//! The coefficients of the `model` meter, fitted to SPECpower results: `cargo xtask power-model`.
//!
//! The results are not ours to give away, so they lie beside the project (`NIGHTWATT_DATA`); what is
//! committed is what the regressions make of them.

mod coverage;
mod data;
mod fit;
mod table;

use std::error::Error;
use std::fs;
use std::path::PathBuf;

use coverage::{Coverage, Kept};
use data::Sample;
use fit::Study;
use nightwatt_energy::power_model::regression::Basis;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// `cargo xtask power-model [--check]`
pub(crate) fn run(args: &[&str]) -> Result<()> {
    let check = match args {
        [] => false,
        ["--check"] => true,
        [option, ..] => return Err(format!("no option `{option}` of `power-model`").into()),
    };
    let folder = data::folder();
    if !folder.is_dir() {
        let missing =
            format!("no folder {}; NIGHTWATT_DATA names that of the data", folder.display());
        if check {
            println!("skipped: {missing}");
            return Ok(());
        }
        return Err(missing.into());
    }
    let samples = data::read(&folder)?;
    let written = table::write(&samples)?;
    let path = table_path();
    if check {
        if fs::read_to_string(&path).unwrap_or_default() != written {
            return Err(format!(
                "{} is not what the data give; run `cargo xtask power-model` and commit the result",
                path.display()
            )
            .into());
        }
        println!("{} is what the data give", path.display());
        return Ok(());
    }
    fs::write(&path, written)?;
    println!("wrote {}", path.display());
    report(&samples)
}

fn table_path() -> PathBuf {
    crate::manifest_dir().join("../crates/energy/src/power_model/coefficients.rs")
}

/// How well the intervals hold on what was left out.
fn report(samples: &[Sample]) -> Result<()> {
    for basis in Basis::ALL {
        for kept in [Kept::OtherProcessors, Kept::MostRows, Kept::OtherYears] {
            // Without years there is no generation to leave out.
            if kept == Kept::OtherYears && !matches!(basis, Basis::Server | Basis::Thread) {
                continue;
            }
            let study = Study::new(samples, basis, |sample| kept.group(sample));
            print!("\n{basis:?}, left out: {}\n{}", kept.what(), Coverage::of(&study)?);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
