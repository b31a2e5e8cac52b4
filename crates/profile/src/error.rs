//! What can go wrong while a program is watched.

/// Why a program could not be watched.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A program cannot be watched.
    #[error(transparent)]
    Probe(#[from] nightwatt_probes::ProbeError),
    /// More sections than there is room for.
    #[error("{found} sections are too many: {most} can be watched at a time")]
    TooManySections {
        /// As asked for.
        found: usize,
        /// As there may be.
        most: usize,
    },
    /// A function that is not to be watched from its entry.
    #[error("a function begins at its entry: `{0}` cannot have an offset")]
    NoEntry(String),
    /// What is no function is to be watched as one.
    #[error("`{0}` is a place, and no function with an entry and a return")]
    NoFunction(String),
    /// Samples see functions, not places.
    #[error("samples show functions, and not where they begin or end")]
    SampledPair,
    /// A function that has no name in its file.
    #[error("`{0}` is in no function whose name and length are known: samples cannot show it")]
    SampledAddress(String),
    /// There is no such process.
    #[error("there is no process {0}: it has ended, or is a thread of another one")]
    NoProcess(u32),
    /// A device that is named and not there.
    #[error("there is no block device `{name}`: there are {}", names.join(", "))]
    NoDevice {
        /// As written.
        name: String,
        /// Those there are.
        names: Vec<String>,
    },
    /// Where one place is needed.
    #[error("`{text}` fits several functions ({}): a section begins at one place and ends at one", names.join(", "))]
    SeveralPlaces {
        /// As written.
        text: String,
        /// The first of them.
        names: Vec<String>,
    },
    /// A meter cannot be used.
    #[error(transparent)]
    Meter(#[from] nightwatt_meters::MeterError),
    /// The runtime or a socket.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why.
        source: std::io::Error,
    },
    /// A command or a meter.
    #[error(transparent)]
    Measure(#[from] nightwatt_measure::Error),
}

impl Error {
    /// What to try next.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Probe(error) => error.hint(),
            Self::NoEntry(_) => Some("`--start` and `--end` take places within functions"),
            Self::NoFunction(_) => Some("`--start` and `--end` take USDT probes"),
            Self::SampledPair => Some("with `--sample`, name functions with `--function`, or none"),
            Self::SampledAddress(_) => {
                Some("name functions of a program that was not stripped, or leave out `--sample`")
            }
            Self::NoProcess(_) => Some("`ps` lists processes; `-p` takes the number of one"),
            Self::Measure(error) => error.hint(),
            _ => None,
        }
    }
}
