//! What the receiver does with each message.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use nightwatt_energy::time::Mono;

use crate::codec::{CodecError, Unpacker};
use crate::pure::arm::Codec;
use crate::pure::exclude::Exclude;
use crate::pure::layout::Layout;
use crate::pure::paths;
use crate::pure::ranges::Ranges;
use crate::wire::{
    Ack, Attribute, Change, Codecs, Data, Entry, EntryKind, Failed, Failure, Fin, Have, Hello,
    Hole, Message, Nack, Receipt, Rejected, Spent, VERSIONS, content_sum, negotiated,
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
pub struct Wishes {
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
        wishes: &Wishes,
    ) -> Result<Vec<Standing>, StoreError>;
    /// What would be done, instead of [`Store::prepare`] and all that follows.
    fn compared(&mut self, entries: &[Entry], wishes: &Wishes) -> Result<Vec<Change>, StoreError>;
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
    /// Removes what is to be removed. Gives how much that was.
    fn remove_others(&mut self) -> Result<u64, StoreError>;
    /// All files are complete or rejected. Gives what could not be put in its place.
    fn end(&mut self) -> Result<Vec<Rejected>, StoreError>;
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
    wishes: Wishes,
    is_trial: bool,
    layout: Layout,
    /// What is there, in the address space.
    there: Ranges,
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
    /// Waits for the sender's hello.
    pub fn new(store: S) -> Self {
        Self {
            store,
            stage: Stage::Hello,
            entries: Vec::new(),
            manifest: Arc::default(),
            manifest_bytes: 0,
            wishes: Wishes::default(),
            is_trial: false,
            layout: Layout::default(),
            there: Ranges::default(),
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
                self.wishes.delete = Some(excludes);
                Ok(())
            }
            (Stage::Manifest, Message::Attributes) => {
                self.wishes.attributes = true;
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
        self.there.add(start, end);
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
        let changes = self.store.compared(&entries, &self.wishes)?;
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
        let standings = self.store.prepare(Arc::clone(&manifest), &self.wishes)?;
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
        let have: Vec<[u64; 2]> =
            self.there.iter().map(|[start, end]| [start, end - start]).collect();
        answers.extend(
            have.chunks(RANGES).map(|ranges| Message::Have(Have { ranges: ranges.to_vec() })),
        );
        answers.push(Message::End);
        self.stage = Stage::Blocks;
        Ok(())
    }

    /// Puts a file in its place if all of it is there.
    fn settle(&mut self, place: usize) -> Result<(), SessionError> {
        let [start, end] = self.layout.range(place);
        let is_file = matches!(self.manifest[place].kind, EntryKind::File(_));
        if self.is_settled[place] || !is_file || !self.there.covers(start, end) {
            return Ok(());
        }
        match self.store.complete(place) {
            Ok(()) => self.is_settled[place] = true,
            Err(StoreError::Entry(reason)) => self.drop_entry(place, reason)?,
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Writes a block. Gives the reason if it must be sent again.
    fn data(&mut self, data: &Data) -> Result<Option<String>, SessionError> {
        let length = data.length as usize;
        let mut block = std::mem::take(&mut self.block);
        let is_plain = data.codec == Codec::None && data.packed.len() == length;
        let unpacked = if is_plain {
            Ok(())
        } else {
            self.unpacker.unpack(data.codec, &data.packed, length, &mut block)
        };
        let content = if is_plain { &data.packed } else { &block };
        let reason = match unpacked {
            Ok(()) if content_sum(data.start, content) == data.sum => None,
            Ok(()) => Some("its contents are not those that were packed".to_owned()),
            Err(error @ CodecError::TooLong(_)) => {
                return Err(SessionError::Protocol(error.to_string()));
            }
            Err(error) => Some(error.to_string()),
        };
        if reason.is_some() {
            self.block = block;
            return Ok(reason);
        }
        let end = data.start + u64::from(data.length);
        let mut at = 0;
        let parts = self.begin_block(data.start, end)?;
        for part in &parts {
            let bytes = part.bytes as usize;
            if !self.is_settled[part.entry] {
                let result = self.store.write(part.entry, part.offset, &content[at..at + bytes]);
                self.written(part.entry, result)?;
            }
            at += bytes;
        }
        self.block = block;
        self.bytes += u64::from(data.length);
        self.end_block(data.start, end, data.sum)?;
        Ok(None)
    }

    fn hole(&mut self, hole: &Hole) -> Result<(), SessionError> {
        let end = hole.start.checked_add(hole.length);
        let end = end.ok_or_else(|| SessionError::protocol("a hole behind the last file"))?;
        for part in self.begin_block(hole.start, end)? {
            if !self.is_settled[part.entry] {
                let result = self.store.zero(part.entry, part.offset, part.bytes);
                self.written(part.entry, result)?;
            }
        }
        self.end_block(hole.start, end, content_sum(hole.start, &hole.length.to_le_bytes()))
    }

    fn begin_block(
        &self,
        start: u64,
        end: u64,
    ) -> Result<Vec<crate::pure::layout::Slice>, SessionError> {
        if end > self.layout.bytes() {
            return Err(SessionError::protocol("a block behind the last file"));
        }
        Ok(self.layout.slices(start, end).collect())
    }

    fn written(
        &mut self,
        place: usize,
        result: Result<(), StoreError>,
    ) -> Result<(), SessionError> {
        match result {
            Ok(()) => Ok(()),
            Err(StoreError::Entry(reason)) => self.drop_entry(place, reason),
            Err(error) => Err(error.into()),
        }
    }

    fn end_block(&mut self, start: u64, end: u64, sum: u64) -> Result<(), SessionError> {
        self.there.add(start, end);
        self.store.commit()?;
        let places: Vec<usize> = self.layout.slices(start, end).map(|part| part.entry).collect();
        for place in places {
            self.settle(place)?;
        }
        self.sum = self.sum.wrapping_add(sum);
        self.blocks += 1;
        Ok(())
    }

    /// The stream, which is the only entry, has this length.
    fn ended(&mut self, bytes: u64) -> Result<(), SessionError> {
        let is_stream = self.manifest.first().is_some_and(|it| it.kind == EntryKind::Stream);
        if !is_stream || bytes > self.layout.bytes() || !self.there.covers(0, bytes) {
            return Err(SessionError::protocol("a stream ended where it cannot"));
        }
        let mut entries = self.manifest.to_vec();
        entries[0].kind = EntryKind::File(bytes);
        self.manifest = entries.into();
        self.there.add(bytes, self.layout.bytes());
        if self.is_settled[0] {
            return Ok(());
        }
        match self.store.ended(0, bytes) {
            Ok(()) => self.settle(0),
            Err(StoreError::Entry(reason)) => self.drop_entry(0, reason),
            Err(error) => Err(error.into()),
        }
    }

    fn stale(&mut self, place: u64) -> Result<(), SessionError> {
        let place = usize::try_from(place).ok().filter(|place| *place < self.manifest.len());
        let place =
            place.ok_or_else(|| SessionError::protocol("a file that is not in the manifest"))?;
        if !matches!(self.manifest[place].kind, EntryKind::File(_) | EntryKind::Stream) {
            return Err(SessionError::protocol("a folder or a link that changed"));
        }
        if self.is_settled[place] {
            return Ok(());
        }
        self.drop_entry(place, "it changed, or went, while it was sent".to_owned())
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
        if !self.there.covers(0, self.layout.bytes()) {
            return Err(SessionError::protocol("it ended before all files were complete"));
        }
        // Where anything went wrong, nothing is removed: the sender may not have seen all that it has.
        let removed = match &self.wishes.delete {
            Some(_) if self.rejected_count == 0 => self.store.remove_others()?,
            _ => 0,
        };
        for rejected in self.store.end()? {
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
