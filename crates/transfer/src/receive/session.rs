//! What the receiver does with each message.

mod blocks;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use nightwatt_energy::time::Mono;

use crate::codec::Unpacker;
use crate::pure::exclude::Exclude;
use crate::pure::layout::Layout;
use crate::pure::paths;
use crate::pure::ranges::Ranges;
use crate::wire::{
    Ack, Attribute, Change, Codecs, Entry, EntryKind, Failed, Failure, Fin, Have, Hello, Message,
    Nack, Receipt, Rejected, Spent, VERSIONS, negotiated,
};

/// Most bytes of memory for what the manifest says: some million files.
const MOST_MANIFEST: usize = if cfg!(test) { 4 << 20 } else { 512 << 20 };
/// Ranges in one message.
const RANGES: usize = 1024;
/// Changes in one message: even the longest paths and reasons fit.
const CHANGES: usize = 256;
/// Rejected entries that a receipt names.
const NAMED: usize = 100;

/// What the receiver has of an entry when the manifest is complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// All of it, under its final name.
    Complete,
    /// These bytes of it, or none.
    Parts(Ranges),
    /// It cannot be written.
    Rejected(String),
}

/// Why something was not written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// This entry cannot be written. Others can.
    #[error("{0}")]
    Entry(String),
    /// Nothing more can be written.
    #[error("{0}")]
    All(#[from] io::Error),
}

/// What else the sender wants.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Options {
    /// What has no entry is removed, except what these patterns leave out.
    pub delete: Option<Vec<Exclude>>,
    /// Entries have the attributes that they were sent with, and no others.
    pub attributes: bool,
}

/// Where entries are written.
pub trait Store {
    /// A session begins.
    fn begin(&mut self, session: [u8; 16]) -> Result<(), StoreError>;
    /// What there is of each entry; one that was refused has no path. Folders are made.
    fn prepare(
        &mut self,
        entries: Arc<[Entry]>,
        options: &Options,
    ) -> Result<Vec<Standing>, StoreError>;
    /// What would be done, instead of [`Store::prepare`] and all that follows.
    fn compared(&mut self, entries: &[Entry], options: &Options)
    -> Result<Vec<Change>, StoreError>;
    /// A stream has ended after this many bytes, all of which were written.
    fn ended(&mut self, place: usize, bytes: u64) -> Result<(), StoreError>;
    /// Writes a part of a file.
    fn write(&mut self, place: usize, offset: u64, bytes: &[u8]) -> Result<(), StoreError>;
    /// Makes a part of a file zeros.
    fn zero(&mut self, place: usize, offset: u64, bytes: u64) -> Result<(), StoreError>;
    /// What was written until now is acknowledged next: it must be there at the next attempt.
    fn commit(&mut self) -> Result<(), StoreError>;
    /// All of a file was written.
    fn complete(&mut self, place: usize) -> Result<(), StoreError>;
    /// What was written of a file is of no use.
    fn abandon(&mut self, place: usize) -> Result<(), StoreError>;
    /// Removes what has no entry.
    fn remove_others(&mut self) -> Result<(), StoreError>;
    /// All files are complete or rejected.
    fn end(&mut self) -> Result<Outcome, StoreError>;
    /// Whether a later session finds parts of files that this one wrote.
    fn keeps_parts(&self) -> bool {
        true
    }
}

/// What is known when all is done.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outcome {
    /// What could not be put in its place at the end.
    pub rejected: Vec<Rejected>,
    /// How many files, links and folders were removed, those among them that an entry has replaced.
    pub removed: u64,
}

/// Why a session ended without a receipt.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The other end breaks the protocol.
    #[error("the sender broke the protocol: {0}")]
    Protocol(String),
    /// The versions do not meet.
    #[error(
        "the sender ({program}) speaks versions {} to {} of the protocol, this program {} to {}: update the older one",
        theirs[0], theirs[1], VERSIONS[0], VERSIONS[1]
    )]
    Version {
        /// The sender's program.
        program: String,
        /// Its versions.
        theirs: [u16; 2],
    },
    /// The sender gave up.
    #[error("the sender stopped: {0}")]
    Failed(String),
    /// Nothing more can be written.
    #[error("{0}")]
    Store(#[from] StoreError),
}

impl SessionError {
    fn protocol(text: impl Into<String>) -> Self {
        Self::Protocol(text.into())
    }

    /// What the sender is told.
    pub fn message(&self) -> Failed {
        let failure = match self {
            Self::Protocol(_) => Failure::Protocol,
            Self::Version { .. } => Failure::Version,
            Self::Store(StoreError::All(error)) => match error.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Failure::DiskFull,
                io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
                    Failure::NotWritable
                }
                _ => Failure::Other,
            },
            Self::Failed(_) | Self::Store(StoreError::Entry(_)) => Failure::Other,
        };
        Failed { failure, text: self.to_string() }
    }
}

/// What a session reads the time from.
pub struct Clocks<'a> {
    /// The clock of the times of arrival.
    pub now: &'a dyn Fn() -> Mono,
    /// CPU time of the thread, s.
    pub cpu: &'a dyn Fn() -> f64,
    /// What this machine used since the first message, if that is known: of the CPU time of all blocks, s.
    pub spent: &'a dyn Fn(f64) -> Option<Spent>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Hello,
    Manifest,
    Blocks,
    Done,
}

/// A session's state.
#[derive(Debug)]
pub struct Receiver<S> {
    store: S,
    stage: Stage,
    entries: Vec<Entry>,
    /// The same, when the manifest is complete.
    manifest: Arc<[Entry]>,
    manifest_bytes: usize,
    options: Options,
    is_trial: bool,
    layout: Layout,
    /// What is there, in the address space.
    there: Ranges,
    /// What is not wanted, because it cannot be written.
    unwanted: Ranges,
    is_settled: Vec<bool>,
    rejected: Vec<Rejected>,
    rejected_count: u64,
    sum: u64,
    blocks: u64,
    bytes: u64,
    cpu_nanos: u64,
    unpacker: Unpacker,
    block: Vec<u8>,
}

impl<S: Store> Receiver<S> {
    /// Whether a later session goes on where this one ends: not in a stream.
    pub fn keeps_parts(&self) -> bool {
        let mut entries = self.entries.iter().chain(self.manifest.iter());
        self.store.keeps_parts() && entries.all(|it| it.kind != EntryKind::Stream)
    }

    /// Waits for the sender's hello.
    pub fn new(store: S) -> Self {
        Self {
            store,
            stage: Stage::Hello,
            entries: Vec::new(),
            manifest: Arc::default(),
            manifest_bytes: 0,
            options: Options::default(),
            is_trial: false,
            layout: Layout::default(),
            there: Ranges::default(),
            unwanted: Ranges::default(),
            is_settled: Vec::new(),
            rejected: Vec::new(),
            rejected_count: 0,
            sum: 0,
            blocks: 0,
            bytes: 0,
            cpu_nanos: 0,
            unpacker: Unpacker::default(),
            block: Vec::new(),
        }
    }

    /// Whether the receipt was given.
    pub fn is_done(&self) -> bool {
        self.stage == Stage::Done
    }

    /// Whether the sender only asks what would be done.
    pub fn is_trial(&self) -> bool {
        self.is_trial
    }

    /// Takes a message that arrived `at` this time. Answers go to `answers`.
    pub fn on(
        &mut self,
        message: Message,
        at: Mono,
        clocks: &Clocks<'_>,
        answers: &mut Vec<Message>,
    ) -> Result<(), SessionError> {
        match (self.stage, message) {
            (_, Message::Failed(failed)) => Err(SessionError::Failed(failed.text)),
            (Stage::Hello, Message::Hello(hello)) => self.hello(hello, answers),
            (Stage::Manifest, Message::Manifest(entries)) => self.manifest(entries),
            (Stage::Manifest, Message::Delete(excludes)) => {
                self.options.delete = Some(excludes);
                Ok(())
            }
            (Stage::Manifest, Message::Attributes) => {
                self.options.attributes = true;
                Ok(())
            }
            (Stage::Manifest, Message::Trial) => {
                self.is_trial = true;
                Ok(())
            }
            (Stage::Manifest, Message::End) if self.is_trial => self.trial(answers),
            (Stage::Manifest, Message::End) => self.end_of_manifest(answers),
            (Stage::Blocks, Message::Data(data)) => {
                let before = (clocks.cpu)();
                answers.push(match self.data(&data)? {
                    None => {
                        let cpu_nanos = (((clocks.cpu)() - before).max(0.0) * 1e9) as u64;
                        self.cpu_nanos += cpu_nanos;
                        acknowledged(data.id, at, (clocks.now)(), cpu_nanos)
                    }
                    Some(reason) => Message::Nack(Nack { id: data.id, reason }),
                });
                Ok(())
            }
            (Stage::Blocks, Message::Hole(hole)) => {
                self.hole(&hole)?;
                answers.push(acknowledged(hole.id, at, (clocks.now)(), 0));
                Ok(())
            }
            (Stage::Blocks, Message::Stale(place)) => self.stale(place),
            (Stage::Blocks, Message::Ended(bytes)) => self.ended(bytes),
            (Stage::Blocks, Message::Fin(fin)) => self.fin(&fin, clocks, answers),
            (stage, message) => {
                let (kind, _) = message.encode();
                let text = format!("a message of kind {kind} while it is not its turn ({stage:?})");
                Err(SessionError::Protocol(text))
            }
        }
    }

    fn hello(&mut self, hello: Hello, answers: &mut Vec<Message>) -> Result<(), SessionError> {
        let Hello { versions, session, program, .. } = hello;
        let ours = Hello {
            versions: VERSIONS,
            codecs: Codecs::all(),
            session,
            program: format!("nightwatt {}", env!("CARGO_PKG_VERSION")),
        };
        answers.push(Message::Hello(ours));
        if negotiated(VERSIONS, versions).is_none() {
            return Err(SessionError::Version { program, theirs: versions });
        }
        self.store.begin(session)?;
        self.stage = Stage::Manifest;
        Ok(())
    }

    fn manifest(&mut self, entries: Vec<Entry>) -> Result<(), SessionError> {
        for mut entry in entries {
            let is_fine = paths::check(&entry.path).and_then(|()| match &entry.kind {
                EntryKind::Link(target) => paths::check_target(target),
                EntryKind::File(_) | EntryKind::Folder | EntryKind::Stream => Ok(()),
            });
            self.is_settled.push(is_fine.is_err());
            if !self.layout.push(entry.bytes()) {
                return Err(SessionError::protocol("files of more than 2^64 bytes"));
            }
            if let Err(error) = is_fine {
                // The store must not see a path that was refused, and nothing of the entry is needed any more.
                let path = std::mem::take(&mut entry.path);
                self.rejected(self.entries.len(), path, error.to_string());
                entry.attributes = Vec::new();
                if entry.bytes() == 0 {
                    entry.kind = EntryKind::Folder;
                }
            }
            self.manifest_bytes += held(&entry);
            self.entries.push(entry);
        }
        if self.manifest_bytes > MOST_MANIFEST {
            return Err(SessionError::Protocol(format!(
                "more than {} MiB of names and attributes: send the folders one by one",
                MOST_MANIFEST >> 20
            )));
        }
        Ok(())
    }

    fn reject(&mut self, place: usize, reason: String) {
        let path = self.manifest[place].path.clone();
        self.rejected(place, path, reason);
    }

    fn rejected(&mut self, place: usize, path: Vec<u8>, reason: String) {
        self.is_settled[place] = true;
        self.rejected_count += 1;
        let [start, end] = self.layout.range(place);
        self.unwanted.add(start, end);
        if self.rejected.len() < NAMED {
            self.rejected.push(Rejected { path, reason });
        }
    }

    /// What is of no use is not kept.
    fn drop_entry(&mut self, place: usize, reason: String) -> Result<(), SessionError> {
        if let Err(error @ StoreError::All(_)) = self.store.abandon(place) {
            return Err(error.into());
        }
        self.reject(place, reason);
        Ok(())
    }

    fn trial(&mut self, answers: &mut Vec<Message>) -> Result<(), SessionError> {
        let entries = std::mem::take(&mut self.entries);
        let changes = self.store.compared(&entries, &self.options)?;
        answers.extend(changes.chunks(CHANGES).map(|some| Message::Changes(some.to_vec())));
        answers.push(Message::Receipt(Receipt {
            entries: 0,
            bytes: 0,
            cpu_nanos: 0,
            spent: None,
            rejected: std::mem::take(&mut self.rejected),
            rejected_count: self.rejected_count,
            removed: 0,
        }));
        self.stage = Stage::Done;
        Ok(())
    }

    fn end_of_manifest(&mut self, answers: &mut Vec<Message>) -> Result<(), SessionError> {
        let streams = self.entries.iter().filter(|it| it.kind == EntryKind::Stream).count();
        if streams > 0 && self.entries.len() > 1 {
            return Err(SessionError::protocol("a stream beside something else"));
        }
        self.manifest = std::mem::take(&mut self.entries).into();
        let manifest = Arc::clone(&self.manifest);
        let standings = self.store.prepare(Arc::clone(&manifest), &self.options)?;
        for (place, standing) in standings.into_iter().enumerate().take(manifest.len()) {
            if self.is_settled[place] {
                continue;
            }
            let [start, end] = self.layout.range(place);
            match standing {
                Standing::Complete => {
                    self.is_settled[place] = true;
                    self.there.add(start, end);
                }
                Standing::Parts(parts) => {
                    for [from, until] in parts.iter() {
                        self.there
                            .add((start + from).min(end), start.saturating_add(until).min(end));
                    }
                    self.settle(place)?;
                }
                Standing::Rejected(reason) => self.reject(place, reason),
            }
        }
        // What is rejected does not count as there, even if all of it had arrived.
        answers.extend(listed(&self.unwanted).map(Message::Rejects));
        answers.extend(listed(&self.there).map(Message::Have));
        answers.push(Message::End);
        self.stage = Stage::Blocks;
        Ok(())
    }

    fn fin(
        &mut self,
        fin: &Fin,
        clocks: &Clocks<'_>,
        answers: &mut Vec<Message>,
    ) -> Result<(), SessionError> {
        if fin.sum != self.sum || fin.blocks != self.blocks {
            return Err(SessionError::protocol("its sum over all blocks is not ours"));
        }
        let mut done = self.there.clone();
        self.unwanted.iter().for_each(|[start, end]| done.add(start, end));
        if !done.covers(0, self.layout.bytes()) {
            return Err(SessionError::protocol("it ended before all files were complete"));
        }
        // Where anything went wrong, nothing is removed: the sender may not have seen all that it has.
        if self.options.delete.is_some() && self.rejected_count == 0 {
            self.store.remove_others()?;
        }
        let Outcome { rejected, removed } = self.store.end()?;
        for rejected in rejected {
            self.rejected_count += 1;
            if self.rejected.len() < NAMED {
                self.rejected.push(rejected);
            }
        }
        self.stage = Stage::Done;
        let spent = (clocks.spent)(self.cpu_nanos as f64 * 1e-9);
        answers.push(Message::Receipt(Receipt {
            entries: (self.manifest.len() as u64).saturating_sub(self.rejected_count),
            bytes: self.bytes,
            cpu_nanos: self.cpu_nanos,
            spent,
            rejected: std::mem::take(&mut self.rejected),
            rejected_count: self.rejected_count,
            removed,
        }));
        Ok(())
    }
}

/// Ranges as messages have them.
fn listed(ranges: &Ranges) -> impl Iterator<Item = Have> {
    let all: Vec<[u64; 2]> = ranges.iter().map(|[start, end]| [start, end - start]).collect();
    let parts: Vec<Have> = all.chunks(RANGES).map(|it| Have { ranges: it.to_vec() }).collect();
    parts.into_iter()
}

/// Bytes of memory for an entry, roughly.
fn held(entry: &Entry) -> usize {
    let target = if let EntryKind::Link(target) = &entry.kind { target.len() } else { 0 };
    let attributes = entry.attributes.iter();
    let attributes = attributes.map(|it| size_of::<Attribute>() + it.name.len() + it.value.len());
    size_of::<Entry>() + entry.path.len() + target + attributes.sum::<usize>()
}

fn acknowledged(id: u64, at: Mono, now: Mono, cpu_nanos: u64) -> Message {
    let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let (arrived_nanos, held_nanos) = (nanos(at.0), nanos(now.since(at)));
    Message::Ack(Ack { id, arrived_nanos, held_nanos, cpu_nanos, joules: None })
}
