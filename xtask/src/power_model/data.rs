//! SPECpower results, read from what others have gathered of them.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use nightwatt_energy::power_model::{LOADS, Machine};

use super::Result;

/// Systems of Cloud Carbon Footprint: watts idle and at full load.
const SYSTEMS: &str = "curves/ccf_SPECpower-2026-03-09.csv";
/// Results of Green Coding Solutions: watts at each load.
const LOAD_LEVELS: &str = "curves/gcs_spec_data_2024.csv.gz";
/// Results with more chips are of enclosures full of blades: no operating system saw them whole.
const MOST_CHIPS: u32 = 8;

/// Where a result is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// [`SYSTEMS`]: for levels.
    Systems,
    /// [`LOAD_LEVELS`]: for shapes.
    LoadLevels,
}

/// One result.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    pub(super) source: Source,
    /// Number of its line, from 0.
    pub(super) row: usize,
    pub(super) machine: Machine,
    /// Its processor, spelled one way.
    pub(super) processor: String,
    /// W at 0, 10, ... 100 %; of [`Source::Systems`] only the ends.
    pub(super) watts: [Option<f64>; LOADS],
}

/// `NIGHTWATT_DATA`, else the folder beside the project.
pub(super) fn folder() -> PathBuf {
    let beside = crate::manifest_dir().join("../../shared/data");
    std::env::var_os("NIGHTWATT_DATA").map_or(beside, PathBuf::from)
}

/// All results of single machines.
pub(super) fn read(folder: &Path) -> Result<Vec<Sample>> {
    let at = |path: &Path, error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let path = folder.join(SYSTEMS);
    let systems = fs::read_to_string(&path).map_err(|error| at(&path, &error))?;
    let mut samples = rows_of(&systems, ',', system).map_err(|error| at(&path, &error))?;
    let path = folder.join(LOAD_LEVELS);
    let packed = File::open(&path).map_err(|error| at(&path, &error))?;
    let mut levels = String::new();
    MultiGzDecoder::new(packed).read_to_string(&mut levels).map_err(|error| at(&path, &error))?;
    samples.extend(rows_of(&levels, '|', load_levels).map_err(|error| at(&path, &error))?);
    samples.retain(|sample| sample.machine.sockets <= MOST_CHIPS);
    Ok(samples)
}

/// One line of a table, by names of columns.
struct Row<'a> {
    names: &'a [String],
    fields: Vec<String>,
}

impl Row<'_> {
    fn text(&self, name: &str) -> Result<&str> {
        let place = self.names.iter().position(|known| known == name);
        let field = place.and_then(|place| self.fields.get(place));
        Ok(field.ok_or_else(|| format!("no column `{name}`"))?)
    }

    fn number(&self, name: &str) -> Result<f64> {
        let text = self.text(name)?.replace(',', "");
        let number = text.parse().map_err(|_| format!("`{name}` is `{text}`, no number"))?;
        Ok(number)
    }
}

fn rows_of(
    table: &str,
    separator: char,
    sample: impl Fn(&Row, usize) -> Result<Sample>,
) -> Result<Vec<Sample>> {
    let mut lines = table.lines();
    let names = fields_of(lines.next().unwrap_or_default(), separator);
    let samples = lines.enumerate().map(|(row, line)| {
        sample(&Row { names: &names, fields: fields_of(line, separator) }, row)
            .map_err(|error| format!("line {}: {error}", row + 2).into())
    });
    samples.collect()
}

/// Fields of a line of CSV. Quotes about a field go, doubled ones in it stand for one.
fn fields_of(line: &str, separator: char) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        let field = fields.len() - 1;
        match letter {
            '"' if quoted && letters.peek() == Some(&'"') => {
                letters.next();
                fields[field].push('"');
            }
            '"' if quoted || fields[field].is_empty() => quoted = !quoted,
            _ if letter == separator && !quoted => fields.push(String::new()),
            _ => fields[field].push(letter),
        }
    }
    fields
}

fn machine(cpu: &str, sockets: f64, cores: f64, threads: f64, memory_gb: f64) -> Machine {
    // `1,024 GB` was cut at the comma somewhere on the way. No machine in the benchmark has less
    // than a quarter of a gigabyte for each core.
    let whole = if memory_gb / cores < 0.25 { memory_gb * 1024.0 } else { memory_gb };
    Machine {
        cpu: cpu.to_owned(),
        sockets: sockets as u32,
        cores: cores as u32,
        threads: threads as u32,
        memory_bytes: (whole * f64::from(1 << 30)) as u64,
        ..Machine::default()
    }
}

fn system(row: &Row, number: usize) -> Result<Sample> {
    let cpu = row.text("CPU Description")?;
    let cores = row.number("# Cores")?;
    let mut watts = [None; LOADS];
    watts[0] = Some(row.number("avg. watts @ active idle")?);
    watts[LOADS - 1] = Some(row.number("avg. watts @ 100%")?);
    let threads = cores * row.number("# Threads Per Core")?;
    let memory = row.number("Total Memory (GB)")?;
    Ok(Sample {
        source: Source::Systems,
        row: number,
        machine: machine(cpu, row.number("Chips")?, cores, threads, memory),
        processor: processor(cpu),
        watts,
    })
}

fn load_levels(row: &Row, number: usize) -> Result<Sample> {
    let cpu = row.text("HW_CPUName")?;
    // `12 cores, 2 chips, 6 cores/chip` and `24 (2 / core)`.
    let leading = |text: &str| -> Result<f64> {
        let digits = text.trim().split(' ').next().unwrap_or_default();
        Ok(digits.parse().map_err(|_| format!("`{text}` starts with no number"))?)
    };
    let enabled = row.text("HW_CPUsEnabled")?;
    let (cores, chips) = enabled.split_once(',').ok_or("`HW_CPUsEnabled` names no chips")?;
    let mut watts = [None; LOADS];
    watts[0] = Some(row.number("ActiveIdle")?);
    for (load, watts) in watts.iter_mut().enumerate().skip(1) {
        *watts = Some(row.number(&format!("{}_AvgPower", load * 10))?);
    }
    let threads = leading(row.text("HW_HardwareThreads")?)?;
    let memory = row.number("HW_MemAmountGB")?;
    Ok(Sample {
        source: Source::LoadLevels,
        row: number,
        machine: machine(cpu, leading(chips)?, leading(cores)?, threads, memory),
        processor: processor(cpu),
        watts,
    })
}

/// Words that say nothing about which processor it is.
const NOISE: [&str; 16] = [
    "intel",
    "amd",
    "xeon",
    "processor",
    "cpu",
    "platinum",
    "gold",
    "silver",
    "bronze",
    "opteron",
    "epyc",
    "quad-core",
    "six-core",
    "64-bit",
    "dell",
    "sku",
];

/// Which processor it is, however it is spelled: `Intel(R) Xeon(R) E5-2660 V2 2.20 GHz` and
/// `Intel Xeon E5-2660v2 (Turbo ...)` are one.
fn processor(cpu: &str) -> String {
    let small = cpu.to_lowercase();
    let bare = ["(r)", "(tm)", "\u{ae}", "\u{2122}"]
        .iter()
        .fold(small, |name, mark| name.replace(mark, " "));
    let name = bare.split(['(', '[', '@']).next().unwrap_or_default().replace(',', " ");
    let telling = name.split_whitespace().filter(|word| {
        // Neither `2.20` nor `ghz`, `2.20ghz`, `64-core`.
        let frequency = word.ends_with("ghz") || word.parse::<f64>().is_ok_and(|ghz| ghz < 10.0);
        !NOISE.contains(word) && !frequency && !word.ends_with("-core")
    });
    let key: String =
        telling.flat_map(str::chars).filter(|c| c.is_alphanumeric() || *c == '+').collect();
    if key.is_empty() { cpu.to_lowercase() } else { key }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_is_one_however_it_is_spelled() {
        for spelled in [
            "Intel Xeon E5-2660 v2",
            "Intel Xeon E5-2660V2",
            "Intel(R) Xeon(R) CPU E5-2660 v2 @ 2.20GHz",
            "Intel Xeon E5-2660 v2 2.2 GHz (Intel Turbo Boost Technology up to 3.00 GHz)",
        ] {
            assert_eq!(processor(spelled), "e52660v2", "{spelled}");
        }
        assert_eq!(processor("AMD EPYC 7601 2.20 GHz, Dell SKU [338-BNCG]"), "7601");
        assert_eq!(processor("Intel Xeon Platinum 8592+ Processor"), "8592+");
        assert_ne!(processor("Intel Xeon Platinum 8280L"), processor("Intel Xeon Platinum 8280"));
        assert_eq!(processor("Intel Xeon"), "intel xeon");
    }

    #[test]
    fn fields_may_be_quoted() {
        assert_eq!(fields_of("a,\"b, \"\"c\"\"\",,d", ','), ["a", "b, \"c\"", "", "d"]);
        assert_eq!(fields_of("1 \"|2", '|'), ["1 \"", "2"]);
    }
}
