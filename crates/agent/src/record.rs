//! The record of true states: one JSON object a line, appended, with the old half in a second file.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use nightwatt_clock::meter::Stamp;
use serde::{Deserialize, Serialize};

use crate::config::SleepMethod;
use crate::dead_man::Alarm;

/// Name of the record in the state directory.
pub const FILE: &str = "states.jsonl";

/// Where it continues into the past.
const OLDER: &str = "states.1.jsonl";

/// At this size the record becomes the older one. Years of a machine that sleeps ten times a day.
const LONGEST: u64 = 4 << 20;

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum RecordedEvent {
    /// The machine was booted, and the agent started for the first time since.
    Booted,
    /// The agent was started again.
    Started,
    /// The agent was told to end.
    Stopped,
    /// The machine falls asleep.
    Suspending {
        /// The proxy that ordered it, or who said that others do.
        by: String,
        /// How; `None` if others put it to sleep.
        how: Option<SleepMethod>,
        /// The alarm that was set before.
        alarm: Option<Alarm>,
    },
    /// It is up again.
    Resumed {
        /// How long it was suspended, by the kernel (`CLOCK_BOOTTIME` minus `CLOCK_MONOTONIC`).
        slept_s: f64,
        /// Did the agent know before that it would sleep?
        announced: bool,
        /// The alarm that woke it.
        alarm: Option<Alarm>,
    },
    /// Its service answers.
    Ready,
    /// An order to sleep was refused.
    Refused {
        /// Whose.
        by: String,
        /// Why.
        reasons: Vec<String>,
    },
    /// It could not be put to sleep, or did not fall asleep.
    Failed {
        /// Why.
        why: String,
    },
    /// The dead man's switch woke it.
    DeadMan,
    /// No proxy was heard since: it stays awake.
    Alone,
    /// A proxy was heard again.
    ProxyFound {
        /// Which.
        by: String,
    },
}

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Wall clock, in milliseconds since 1970.
    pub at_ms: i64,
    /// Time since boot in which the machine was awake, in seconds.
    pub awake_s: f64,
    /// Time since boot in which it was suspended, in seconds.
    pub suspended_s: f64,
    /// Which boot, as 32 hexadecimal digits.
    pub boot: String,
    /// What happened.
    #[serde(flatten)]
    pub what: RecordedEvent,
}

impl Entry {
    /// Something that happens now.
    pub fn new(now: Stamp, boot: &[u8; 16], what: RecordedEvent) -> Self {
        Self {
            at_ms: now.wall_ns.div_euclid(1_000_000),
            awake_s: now.mono.as_secs_f64(),
            suspended_s: now.suspended.as_secs_f64(),
            boot: boot_text(boot),
            what,
        }
    }
}

/// The name of a boot, as 32 hexadecimal digits.
pub(crate) fn boot_text(boot: &[u8; 16]) -> String {
    format!("{:032x}", u128::from_be_bytes(*boot))
}

/// The record, open for appending.
#[derive(Debug)]
pub struct Record {
    dir: PathBuf,
    longest: u64,
}

impl Record {
    /// The record in a state directory, which is made when missing.
    pub fn open(dir: &Path) -> io::Result<Self> {
        fs::create_dir_all(dir)?;
        Ok(Self { dir: dir.to_owned(), longest: LONGEST })
    }

    /// Appends one entry, and waits until the disk has it: the machine may sleep at once.
    pub fn append(&self, entry: &Entry) -> io::Result<()> {
        let path = self.dir.join(FILE);
        let open = || fs::OpenOptions::new().read(true).append(true).create(true).open(&path);
        let mut file = open()?;
        let length = file.metadata()?.len();
        let mut line = Vec::new();
        if length >= self.longest {
            fs::rename(&path, self.dir.join(OLDER))?;
            file = open()?;
        } else if length > 0 {
            let mut last = [0];
            file.read_exact_at(&mut last, length - 1)?;
            // A line that a crash cut short must not take the next with it.
            line.extend((last != *b"\n").then_some(b'\n'));
        }
        serde_json::to_writer(&mut line, entry)?;
        line.push(b'\n');
        file.write_all(&line)?;
        file.sync_data()
    }
}

/// All entries of a record, oldest first. What is no entry (a line cut by a crash) is left out.
pub fn read(dir: &Path) -> io::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for name in [OLDER, FILE] {
        let text = match fs::read(dir.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            text => text?,
        };
        let lines = text.split(|byte| *byte == b'\n');
        entries.extend(lines.filter_map(|line| serde_json::from_slice::<Entry>(line).ok()));
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use nightwatt_energy::time::Mono;

    use super::*;

    fn entry(second: i64, what: RecordedEvent) -> Entry {
        let now = Stamp {
            mono: Mono::from_secs(7),
            wall_ns: second * 1_000_000_000,
            suspended: Duration::from_millis(1500),
        };
        Entry::new(now, &[0xab; 16], what)
    }

    #[test]
    fn what_is_written_is_read_again_and_a_cut_line_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let record = Record::open(dir.path()).unwrap();
        let alarm =
            Alarm { at_s: 99, purpose: crate::dead_man::Purpose::Work("a.timer".to_owned()) };
        let all = [
            entry(1, RecordedEvent::Booted),
            entry(
                2,
                RecordedEvent::Suspending {
                    by: "p".into(),
                    how: Some(SleepMethod::PowerOff),
                    alarm: Some(alarm),
                },
            ),
            entry(3, RecordedEvent::Resumed { slept_s: 0.75, announced: true, alarm: None }),
            entry(4, RecordedEvent::Refused { by: "p".into(), reasons: vec!["a \"b\"\n".into()] }),
        ];
        all[..3].iter().for_each(|entry| record.append(entry).unwrap());
        let path = dir.path().join(FILE);
        let mut file = fs::OpenOptions::new().append(true).open(path).unwrap();
        file.write_all(b"{\"at_ms\":12,").unwrap();
        record.append(&all[3]).unwrap();
        assert_eq!(read(dir.path()).unwrap(), all);
    }

    #[test]
    fn it_never_grows_beyond_two_files() {
        let dir = tempfile::tempdir().unwrap();
        let record = Record { longest: 1000, ..Record::open(dir.path()).unwrap() };
        for second in 0..200 {
            record.append(&entry(second, RecordedEvent::Ready)).unwrap();
        }
        let size = |name| fs::metadata(dir.path().join(name)).unwrap().len();
        assert!(size(FILE) <= 1200 && size(OLDER) <= 1200);
        let kept = read(dir.path()).unwrap();
        assert_eq!(kept.last().unwrap().at_ms, 199_000);
        assert!(kept.windows(2).all(|two| two[0].at_ms + 1000 == two[1].at_ms), "no hole");
    }
}
