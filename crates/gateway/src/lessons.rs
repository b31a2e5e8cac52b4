//! What a sleep policy has learned, on disk: one JSON object in a file beside the site's ledger, so that a restart
//! loses no learning.
//!
//! The file is replaced as a whole at each checkpoint and at the end; a crash leaves the last whole one. Unusable
//! lessons are set aside, and the policy learns from scratch.

pub mod pool;

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nightwatt_energy::duration_text;
use nightwatt_energy::time::Wall;
use nightwatt_host::files::{self, Access, Durability, Replacement};
use nightwatt_policy::sleep::{Lessons, PolicyChoice};
use serde::{Deserialize, Serialize};

/// Maximum length of the file, which usually has about 10 KB.
pub const LONGEST: usize = 64 << 10;

/// Version of the format. It changes as soon as a number in it means something else.
const VERSION: u64 = 1;

/// A clock that is this much behind the file's was set back, or is not set yet: no time has passed.
/// (Boards without a battery start with the time at which they stopped.) Beyond that it is wrong.
const CLOCK_SET_BACK: Duration = Duration::from_hours(24);

/// Maximum length of a reason that quotes the file.
const SHOWN: usize = 120;

/// Why lessons cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LessonsError {
    /// The file cannot be read.
    #[error("it cannot be read: {0}")]
    Unreadable(#[from] std::io::Error),
    /// It is far too long.
    #[error("it is longer than anything that was learned")]
    Long,
    /// It is damaged, or not plausible.
    #[error("it is damaged: {0}")]
    Damaged(String),
    /// Another version of nightwatt wrote it.
    #[error("its form is version {0}, and this nightwatt knows version {VERSION}")]
    Version(u64),
    /// Another policy learned it.
    #[error("the policy `{0}` has learned it")]
    Policy(String),
    /// The clock was wrong then, or is now.
    #[error("it was written {} from now", duration_text::format(*.0))]
    Future(Duration),
}

impl LessonsError {
    /// What to try next.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Unreadable(_) => "check the disk, and that this user may read and write the file",
            Self::Long | Self::Damaged(_) => {
                "nothing needs to be done; a backup of the file may be put in its place while \
                 nightwatt is stopped"
            }
            Self::Version(_) | Self::Policy(_) => {
                "nothing needs to be done, unless you go back to what wrote it: then put the file \
                 back while nightwatt is stopped"
            }
            Self::Future(_) => {
                "check the clock; if it was wrong now, set it and put the file back while nightwatt \
                 is stopped"
            }
        }
    }
}

/// The file's content.
#[derive(Serialize)]
struct Sheet<'a> {
    v: u64,
    policy: PolicyChoice,
    lessons: &'a Lessons,
}

/// Parsed first: the rest may have any form.
#[derive(Deserialize)]
struct Head {
    v: u64,
    policy: String,
}

#[derive(Deserialize)]
struct Body {
    lessons: Lessons,
}

/// The stored form.
pub fn write(lessons: &Lessons) -> serde_json::Result<Vec<u8>> {
    let sheet = Sheet { v: VERSION, policy: PolicyChoice::Learned, lessons };
    let mut text = serde_json::to_vec(&sheet)?;
    text.push(b'\n');
    Ok(text)
}

/// Reads what [`write()`] wrote.
///
/// # Errors
///
/// If it is of another version or policy, if it was written more than a day after `now`, or if it is not plausible.
pub fn read(text: &[u8], now: Wall) -> Result<Lessons, LessonsError> {
    if text.len() > LONGEST {
        return Err(LessonsError::Long);
    }
    let head: Head = serde_json::from_slice(text).map_err(|error| damaged(&error))?;
    if head.v != VERSION {
        return Err(LessonsError::Version(head.v));
    }
    if head.policy != PolicyChoice::Learned.to_string() {
        return Err(LessonsError::Policy(shown(&head.policy)));
    }
    let Body { lessons } = serde_json::from_slice(text).map_err(|error| damaged(&error))?;
    let ahead = u64::try_from(lessons.at().0.saturating_sub(now.0)).unwrap_or(0);
    let ahead = Duration::from_millis(ahead);
    if ahead > CLOCK_SET_BACK {
        return Err(LessonsError::Future(ahead));
    }
    Ok(lessons)
}

fn damaged(error: &serde_json::Error) -> LessonsError {
    LessonsError::Damaged(shown(&error.to_string()))
}

fn shown(text: &str) -> String {
    text.chars().take(SHOWN).collect()
}

/// Where the lessons of one policy are stored.
#[derive(Debug)]
pub(crate) struct LessonsStore {
    site: String,
    path: PathBuf,
    /// Wait for the disk.
    durable: bool,
}

impl LessonsStore {
    /// Loads the stored lessons if possible, and logs the result. Returns no store if there is a file that can neither
    /// be used nor set aside.
    pub(crate) fn open(
        site: &str,
        path: PathBuf,
        now: Wall,
        durable: bool,
    ) -> (Option<Self>, Option<Lessons>) {
        let shelf = Self::at(site, path, durable);
        match shelf.load(now) {
            Ok(None) => (Some(shelf), None),
            Ok(Some(lessons)) => {
                let watched = duration_text::format(whole_seconds(lessons.watched()));
                let stopped = duration_text::format(whole_seconds(lessons.age(now)));
                tracing::info!(site, watched, stopped, "goes on with what it has learned");
                (Some(shelf), Some(lessons))
            }
            Err(why) => (shelf.put_aside(&why), None),
        }
    }

    /// The store at this path, for lessons of any kind.
    pub(crate) fn at(site: &str, path: PathBuf, durable: bool) -> Self {
        Self { site: site.to_owned(), path, durable }
    }

    fn load(&self, now: Wall) -> Result<Option<Lessons>, LessonsError> {
        self.bytes(LONGEST)?.map(|text| read(&text, now)).transpose()
    }

    /// The stored bytes, if there are any; at most one byte more than `longest`.
    pub(crate) fn bytes(&self, longest: usize) -> Result<Option<Vec<u8>>, LessonsError> {
        let file = match File::open(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let mut text = Vec::new();
        file.take(longest as u64 + 1).read_to_end(&mut text)?;
        Ok(Some(text))
    }

    /// Keeps the file, whatever is wrong with it.
    pub(crate) fn put_aside(self, why: &LessonsError) -> Option<Self> {
        let (site, hint) = (&self.site, why.hint());
        let (file, aside) = (self.path.display(), with_ending(&self.path, ".bad"));
        match std::fs::rename(&self.path, &aside) {
            Ok(()) => {
                let kept = aside.display();
                tracing::warn!(site, %file, %kept, %why, hint, "learns from scratch: what was stored cannot be used");
                Some(self)
            }
            Err(error) => {
                tracing::error!(
                    site,
                    %file,
                    %why,
                    %error,
                    "learns from scratch, and stores nothing: what was stored cannot be used, nor \
                     moved out of the way; move it, and start again"
                );
                None
            }
        }
    }

    /// Replaces the stored lessons. Logs a warning if that fails.
    pub(crate) fn store(&self, lessons: &Lessons) {
        if let Ok(text) = write(lessons) {
            self.put(&text);
        }
    }

    /// The same with lessons in their stored form.
    pub(crate) fn put(&self, text: &[u8]) {
        if let Err(error) = self.replace(text) {
            let (site, file) = (&self.site, self.path.display());
            tracing::error!(site, %file, %error, "what was learned could not be stored");
        }
    }

    /// Atomically: there is a whole file at every moment.
    fn replace(&self, text: &[u8]) -> std::io::Result<()> {
        let durability = if self.durable { Durability::Whole } else { Durability::ThisBoot };
        files::replace(&self.path, Replacement { access: Access::AsBefore, durability }, text)
    }
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(ending);
    path.into()
}

const fn whole_seconds(time: Duration) -> Duration {
    Duration::from_secs(time.as_secs())
}

#[cfg(test)]
mod tests;
