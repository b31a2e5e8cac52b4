//! The file of stamps: when the line was toggled.
//!
//! ```text
//! # {"schema":1,"line":"rts=/dev/ttyS0","mono_ns":5123000000,"wall_ns":1795393800000000000,...}
//! mono_ns,level,uncertainty_ns
//! 5980123456,1,2100
//! ```

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use nightwatt_energy::time::Mono;
use nightwatt_meters::MeterError;
use serde::{Deserialize, Serialize};

use crate::error::Error;

const HEADER: &str = "mono_ns,level,uncertainty_ns";

/// A toggle, and when it happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Toggle {
    /// Half-way between right before the line was driven and right after.
    pub time: Mono,
    /// Half the time in between: the toggle lies within this.
    pub uncertainty: Duration,
    /// The level that the line has now.
    pub high: bool,
}

/// What the stamps are of: the first line of their file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StampMeta {
    /// Version of the columns.
    pub schema: u32,
    /// What wrote it.
    pub nightwatt: String,
    /// The line.
    pub line: String,
    /// Of the intervals.
    pub seed: u64,
    /// The start on `CLOCK_MONOTONIC`, in nanoseconds.
    pub mono_ns: u64,
    /// The same moment in nanoseconds since 1970, UTC.
    pub wall_ns: i64,
}

/// Writes stamps: each is with the system when [`StampWriter::write`] returns.
pub struct StampWriter<W: Write> {
    to: W,
}

impl<W: Write> StampWriter<W> {
    /// Begins the file.
    pub fn new(mut to: W, meta: &StampMeta) -> io::Result<Self> {
        let meta = serde_json::to_string(meta)?;
        to.write_all(format!("# {meta}\n{HEADER}\n").as_bytes())?;
        to.flush()?;
        Ok(Self { to })
    }

    /// Adds a stamp, in one piece: a kill between two leaves both whole.
    pub fn write(&mut self, toggle: &Toggle) -> io::Result<()> {
        let (mono, uncertainty) = (toggle.time.0.as_nanos(), toggle.uncertainty.as_nanos());
        let line = format!("{mono},{},{uncertainty}\n", u8::from(toggle.high));
        self.to.write_all(line.as_bytes())?;
        self.to.flush()
    }
}

/// A file of stamps, read.
#[derive(Debug, Clone, PartialEq)]
pub struct Stamps {
    /// What they are of.
    pub meta: StampMeta,
    /// In order.
    pub toggles: Vec<Toggle>,
}

impl Stamps {
    /// Reads a file of stamps. A last line without an end was being written when its writer was killed,
    /// and is left out.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let file = File::open(path).and_then(io::read_to_string);
        let text = file.map_err(|error| MeterError::reading(path, error))?;
        Self::parse(&text).map_err(|(line, why)| {
            let (path, why) = (path.to_owned(), why.to_owned());
            Error::Stamps { path, line, why }
        })
    }

    fn parse(text: &str) -> Result<Self, (usize, &'static str)> {
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let mut lines = whole.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
        let meta = lines.next().and_then(|(_, line)| line.strip_prefix('#'));
        let meta: Option<StampMeta> = meta.and_then(|meta| serde_json::from_str(meta).ok());
        let meta = meta.ok_or((1, "it does not begin as `calibrate sync generate` begins it"))?;
        if meta.schema != 1 || lines.next().is_none_or(|(_, line)| line != HEADER) {
            return Err((2, "its columns are not those of this version"));
        }
        let toggle = |(number, line): (usize, &str)| {
            let mut cells = line.split(',').map(|cell| cell.parse::<u64>().ok());
            let mut cell = || cells.next().flatten().ok_or((number, "a cell is no number"));
            let time = Mono(Duration::from_nanos(cell()?));
            let high = cell()? == 1;
            Ok(Toggle { time, high, uncertainty: Duration::from_nanos(cell()?) })
        };
        let toggles = lines.filter(|(_, line)| !line.is_empty()).map(toggle);
        Ok(Self { meta, toggles: toggles.collect::<Result<_, _>>()? })
    }

    /// Nanoseconds since 1970 of a moment, by the civil clock as it was when the generator started.
    pub fn wall_ns(&self, time: Mono) -> i128 {
        let since = time.0.as_nanos().cast_signed() - i128::from(self.meta.mono_ns);
        i128::from(self.meta.wall_ns) + since
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta() -> StampMeta {
        StampMeta {
            schema: 1,
            nightwatt: "0.1.0".to_owned(),
            line: "rts=/dev/ttyS0".to_owned(),
            seed: 7,
            mono_ns: 5_000_000_000,
            wall_ns: 1_795_393_800_000_000_000,
        }
    }

    fn written(toggles: &[Toggle]) -> String {
        let mut bytes = Vec::new();
        let mut writer = StampWriter::new(&mut bytes, &meta()).unwrap();
        for toggle in toggles {
            writer.write(toggle).unwrap();
        }
        String::from_utf8(bytes).unwrap()
    }

    fn toggle(ns: u64, high: bool) -> Toggle {
        let uncertainty = Duration::from_nanos(1500);
        Toggle { time: Mono(Duration::from_nanos(ns)), high, uncertainty }
    }

    #[test]
    fn what_was_written_is_read_and_a_torn_line_is_not() {
        let toggles = [toggle(6_000_000_001, true), toggle(7_123_456_789, false)];
        let text = written(&toggles);
        let read = Stamps::parse(&text).unwrap();
        assert_eq!((&read.meta, read.toggles.as_slice()), (&meta(), &toggles[..]));
        // By hand: 2.123456789 s after the start.
        assert_eq!(read.wall_ns(toggles[1].time), 1_795_393_802_123_456_789);
        for cut in 1..18 {
            let torn = Stamps::parse(&text[..text.len() - cut]).unwrap();
            assert_eq!(torn.toggles, toggles[..1], "{cut} bytes short");
        }
    }

    #[test]
    fn what_is_no_file_of_stamps_is_told_with_its_line() {
        assert_eq!(Stamps::parse("").unwrap_err().0, 1);
        assert_eq!(Stamps::parse("mono_ns,level\n1,2\n").unwrap_err().0, 1);
        let text = written(&[toggle(1, true)]);
        assert_eq!(Stamps::parse(&text.replace(HEADER, "t,l")).unwrap_err().0, 2);
        assert_eq!(Stamps::parse(&format!("{text}x,1,2\n")).unwrap_err().0, 4);
        assert_eq!(Stamps::parse(&format!("{text}5,1\n")).unwrap_err().0, 4);
    }
}
