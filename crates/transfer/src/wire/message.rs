//! Messages: what is in the frames.

use serde::Serialize;
use twox_hash::XxHash3_64;

use super::error::MessageError;
use super::fields::{Body, Fields};
use crate::pure::arm::{Codec, MOST_BYTES};
use crate::pure::exclude::Exclude;
use crate::pure::grain::Stamp;
use crate::pure::shown::{self, between};

/// First bytes of a hello: what is no nightwatt is found at once.
const MAGIC: &[u8; 4] = b"NWTX";
/// Most bytes of a path, of the target of a link, and of a text.
const MOST_PATH: usize = 4096;
const MOST_TEXT: usize = 4096;
/// Most ranges in a message.
const MOST_RANGES: usize = 4096;
/// Most files that a receipt names.
const MOST_REJECTED: usize = 256;

/// Most bytes of patterns: each is compared with each name.
const MOST_PATTERNS: usize = 64 << 10;

/// A set of codecs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Codecs(pub u32);

impl Codecs {
    /// All that this program knows.
    pub fn all() -> Self {
        Self(Codec::ALL.iter().fold(0, |set, codec| set | 1 << codec.number()))
    }

    /// Whether it is in the set.
    pub fn has(self, codec: Codec) -> bool {
        self.0 & (1 << codec.number()) != 0
    }
}

/// The first message of each end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// The lowest and the highest version that it knows.
    pub versions: [u16; 2],
    /// Codecs that it knows.
    pub codecs: Codecs,
    /// What is sent: the same for each attempt, so that the receiver finds what it has.
    pub session: [u8; 16],
    /// The program and its version, for error messages.
    pub program: String,
}

/// What an entry is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryKind {
    /// A folder.
    Folder,
    /// A file of this many bytes.
    File(u64),
    /// A symbolic link, and what is in it.
    Link(Vec<u8>),
    /// A file whose length is known only when all of it was sent. It is the only entry.
    Stream,
}

/// The length of a stream before it is known: no stream is longer.
pub const MOST_STREAM: u64 = 1 << 62;

/// Something that is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// From the receiver's folder, its parts separated by `/`.
    pub path: Vec<u8>,
    /// What it is.
    pub kind: EntryKind,
    /// Permissions, 12 bits.
    pub mode: u16,
    /// When it was changed last.
    pub modified: Stamp,
    /// Extended attributes.
    pub attributes: Vec<Attribute>,
}

/// An extended attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attribute {
    /// It begins with [`OF_USERS`].
    pub name: Vec<u8>,
    /// At most [`MOST_ATTRIBUTE`] bytes.
    pub value: Vec<u8>,
}

/// Only attributes of users are sent, and accepted: others decide about rights.
pub const OF_USERS: &[u8] = b"user.";
/// Most bytes of an attribute. Linux allows one more.
pub const MOST_ATTRIBUTE: usize = 65_535;
/// Most bytes of an attribute's name, as in Linux.
const MOST_NAME: usize = 255;

impl Entry {
    /// Bytes of its contents.
    pub fn bytes(&self) -> u64 {
        match self.kind {
            EntryKind::File(bytes) => bytes,
            EntryKind::Stream => MOST_STREAM,
            EntryKind::Folder | EntryKind::Link(_) => 0,
        }
    }
}

/// Ranges of the address space that the receiver has, or rejects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Have {
    /// Start and length of each.
    pub ranges: Vec<[u64; 2]>,
}

/// A block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Data {
    /// Counts up.
    pub id: u64,
    /// Where it begins in the address space.
    pub start: u64,
    /// Its length when it is unpacked.
    pub length: u32,
    /// How it is packed.
    pub codec: Codec,
    /// [`content_sum`] of what is in it.
    pub sum: u64,
    /// The packed bytes.
    pub packed: Vec<u8>,
}

/// A range in which all bytes are 0, and which is left out on the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hole {
    /// Counts up, with those of [`Data`].
    pub id: u64,
    /// Where it begins.
    pub start: u64,
    /// Its length.
    pub length: u64,
}

/// A block is written.
#[derive(Debug, Clone, PartialEq)]
pub struct Ack {
    /// Of the block.
    pub id: u64,
    /// When its last byte arrived, by the receiver's clock, ns.
    pub arrived_nanos: u64,
    /// From then to this message, ns: it waited for the blocks before it, and was unpacked and written.
    pub held_nanos: u64,
    /// CPU time to unpack and write it, ns.
    pub cpu_nanos: u64,
    /// Joules that the receiver has used so far, if it has a meter.
    pub joules: Option<f64>,
}

/// A block is to be sent again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nack {
    /// Of the block.
    pub id: u64,
    /// Why.
    pub reason: String,
}

/// All was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fin {
    /// Sum of the blocks' [`content_sum`]s, wrapping.
    pub sum: u64,
    /// How many blocks and holes were acknowledged.
    pub blocks: u64,
}

/// A file that was not written, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    /// Its path.
    pub path: Vec<u8>,
    /// Why.
    pub reason: String,
}

/// Energy of the receiver, from the first message to the receipt.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Spent {
    /// Whether a meter measured it; else it is modelled.
    pub is_measured: bool,
    /// J.
    pub joules: f64,
    /// How far it may be off (95 %), J.
    pub uncertainty: f64,
    /// The meter, or the model.
    pub basis: String,
}

impl Spent {
    /// The lower and the upper end of what it may be (95 %), J: a meter is off by an amount, a model by a factor.
    pub fn range(&self) -> [f64; 2] {
        let Self { is_measured, joules, uncertainty, .. } = self;
        let low = if *is_measured || *joules <= 0.0 {
            (joules - uncertainty).max(0.0)
        } else {
            joules / (1.0 + uncertainty / joules)
        };
        [low, joules + uncertainty]
    }

    /// In words.
    pub fn text(&self) -> String {
        let [low, high] = self.range();
        let origin = if self.is_measured { "measured by" } else { "modelled:" };
        let interval = between(low, high);
        format!("{:.1} J, {interval} J ({origin} {})", self.joules, shown::line(&self.basis))
    }
}

/// What the receiver has done.
#[derive(Debug, Clone, PartialEq)]
pub struct Receipt {
    /// Entries that are in place now, those that were there before among them.
    pub entries: u64,
    /// Bytes of contents that were written.
    pub bytes: u64,
    /// CPU time, ns.
    pub cpu_nanos: u64,
    /// What the receiver used.
    pub spent: Option<Spent>,
    /// Entries that were not written: the first ones.
    pub rejected: Vec<Rejected>,
    /// How many there are.
    pub rejected_count: u64,
    /// Entries that were removed, because the sender does not have them.
    pub removed: u64,
}

/// What would be done with an entry, or with what is there and no entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// It is written: it is new, or another.
    Write,
    /// It gets other permissions or attributes.
    Dress,
    /// It is removed.
    Delete,
    /// It cannot be written.
    Refuse,
}

const WHATS: [What; 4] = [What::Write, What::Dress, What::Delete, What::Refuse];

/// What would be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// What.
    pub what: What,
    /// The path from the receiver's folder.
    pub path: Vec<u8>,
    /// Why it cannot be written, else empty.
    pub reason: String,
}

/// What an end cannot go on with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The versions do not meet.
    Version,
    /// A message that is not allowed.
    Protocol,
    /// No room on the disk.
    DiskFull,
    /// The folder may not be written to.
    NotWritable,
    /// Anything else.
    Other,
}

const FAILURES: [Failure; 5] =
    [Failure::Version, Failure::Protocol, Failure::DiskFull, Failure::NotWritable, Failure::Other];

/// The end closes the connection after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// What kind of failure.
    pub failure: Failure,
    /// In words.
    pub text: String,
}

/// One message.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// First of each end.
    Hello(Hello),
    /// Some of what is to be sent.
    Manifest(Vec<Entry>),
    /// What is in the folders of the manifest and not in it is to be removed, except what these patterns leave out.
    Delete(Vec<Exclude>),
    /// Entries are to have the attributes that they were sent with, and no others.
    Attributes,
    /// Nothing is to be written: only what would be done is wanted.
    Trial,
    /// The manifest, or the list of what the receiver has, is complete.
    End,
    /// Some of what would be done.
    Changes(Vec<Change>),
    /// What is not to be sent, because it is there.
    Have(Have),
    /// What is not to be sent, because it cannot be written.
    Rejects(Have),
    /// A block.
    Data(Data),
    /// Zeros.
    Hole(Hole),
    /// A block has arrived.
    Ack(Ack),
    /// A block has not arrived as it was sent.
    Nack(Nack),
    /// The file at this place of the manifest changed while it was read.
    Stale(u64),
    /// All of the stream was sent and acknowledged: so many bytes.
    Ended(u64),
    /// All was sent.
    Fin(Fin),
    /// All was received.
    Receipt(Receipt),
    /// An end gives up.
    Failed(Failed),
}

/// The sum over the contents of a block, which depends on where it belongs.
pub fn content_sum(start: u64, content: &[u8]) -> u64 {
    XxHash3_64::oneshot_with_seed(start, content)
}

impl Message {
    /// The kind of its frame, and the body.
    pub fn encode(&self) -> (u8, Vec<u8>) {
        let body = Body::default();
        let (kind, body) = match self {
            Self::Hello(hello) => {
                let [lowest, highest] = hello.versions;
                let body = body.bytes(MAGIC).u16(lowest).u16(highest).u32(hello.codecs.0);
                (1, body.bytes(&hello.session).text(&hello.program, MOST_TEXT))
            }
            Self::Manifest(entries) => (2, entries.iter().fold(body, write_entry)),
            Self::Delete(excludes) => {
                let write = |body: Body, it: &Exclude| body.text(&it.to_string(), MOST_TEXT);
                (13, excludes.iter().fold(body, write))
            }
            Self::Attributes => (16, body),
            Self::Trial => (14, body),
            Self::End => (3, body),
            Self::Changes(changes) => (15, changes.iter().fold(body, write_change)),
            Self::Have(have) => (4, write_have(body, have)),
            Self::Rejects(rejects) => (18, write_have(body, rejects)),
            Self::Data(data) => {
                let mut body = body;
                body.0.reserve(data.packed.len() + 32);
                let body = body.u64(data.id).u64(data.start).u32(data.length);
                (5, body.u8(data.codec.number()).u64(data.sum).bytes(&data.packed))
            }
            Self::Hole(hole) => (6, body.u64(hole.id).u64(hole.start).u64(hole.length)),
            Self::Ack(ack) => {
                let body = body.u64(ack.id).u64(ack.arrived_nanos).u64(ack.held_nanos);
                (7, body.u64(ack.cpu_nanos).amount(ack.joules))
            }
            Self::Nack(nack) => (8, body.u64(nack.id).text(&nack.reason, MOST_TEXT)),
            Self::Stale(place) => (9, body.u64(*place)),
            Self::Ended(bytes) => (17, body.u64(*bytes)),
            Self::Fin(fin) => (10, body.u64(fin.sum).u64(fin.blocks)),
            Self::Receipt(receipt) => (11, write_receipt(body, receipt)),
            Self::Failed(failed) => {
                let number = FAILURES.iter().position(|it| *it == failed.failure).unwrap_or(0);
                (12, body.u8(u8::try_from(number).unwrap_or(0)).text(&failed.text, MOST_TEXT))
            }
        };
        (kind, body.0)
    }

    /// The message of a frame.
    pub fn decode(kind: u8, body: &[u8]) -> Result<Self, MessageError> {
        let mut fields = Fields(body);
        let it = &mut fields;
        let message = match kind {
            1 => Self::Hello(read_hello(it)?),
            2 => Self::Manifest(read_entries(it)?),
            3 => Self::End,
            4 => Self::Have(read_have(it)?),
            5 => Self::Data(read_data(it)?),
            6 => Self::Hole(Hole { id: it.u64()?, start: it.u64()?, length: it.u64()? }),
            7 => Self::Ack(Ack {
                id: it.u64()?,
                arrived_nanos: it.u64()?,
                held_nanos: it.u64()?,
                cpu_nanos: it.u64()?,
                joules: it.amount()?,
            }),
            8 => Self::Nack(Nack { id: it.u64()?, reason: it.text(MOST_TEXT)? }),
            9 => Self::Stale(it.u64()?),
            10 => Self::Fin(Fin { sum: it.u64()?, blocks: it.u64()? }),
            11 => Self::Receipt(read_receipt(it)?),
            12 => {
                let failure = FAILURES.get(usize::from(it.u8()?)).copied();
                let failure = failure.ok_or(MessageError::Value("a failure"))?;
                Self::Failed(Failed { failure, text: it.text(MOST_TEXT)? })
            }
            13 => Self::Delete(read_excludes(it)?),
            14 => Self::Trial,
            15 => Self::Changes(read_changes(it)?),
            16 => Self::Attributes,
            17 => Self::Ended(it.u64()?),
            18 => Self::Rejects(read_have(it)?),
            kind => return Err(MessageError::Kind(kind)),
        };
        fields.end()?;
        Ok(message)
    }
}

fn read_hello(it: &mut Fields<'_>) -> Result<Hello, MessageError> {
    if it.bytes(MAGIC.len())? != MAGIC {
        return Err(MessageError::Value("the greeting"));
    }
    let versions = [it.u16()?, it.u16()?];
    let codecs = Codecs(it.u32()?);
    Ok(Hello { versions, codecs, session: it.session()?, program: it.text(MOST_TEXT)? })
}

fn write_entry(body: Body, entry: &Entry) -> Body {
    let (kind, bytes, target) = match &entry.kind {
        EntryKind::Folder => (0, 0, &[][..]),
        EntryKind::File(bytes) => (1, *bytes, &[][..]),
        EntryKind::Link(target) => (2, 0, &target[..]),
        EntryKind::Stream => (3, 0, &[][..]),
    };
    let Stamp { seconds, nanos } = entry.modified;
    let body = body.u8(kind).short(&entry.path, MOST_PATH).u16(entry.mode).i64(seconds).u32(nanos);
    let count = u16::try_from(entry.attributes.len()).unwrap_or(u16::MAX);
    let write = |body: Body, it: &Attribute| {
        body.short(&it.name, MOST_NAME).short(&it.value, MOST_ATTRIBUTE)
    };
    let body = entry.attributes.iter().take(count.into()).fold(body.u16(count), write);
    match kind {
        1 => body.u64(bytes),
        2 => body.short(target, MOST_PATH),
        _ => body,
    }
}

fn read_entries(it: &mut Fields<'_>) -> Result<Vec<Entry>, MessageError> {
    let mut entries = Vec::new();
    while !it.0.is_empty() {
        let kind = it.u8()?;
        let path = it.short(MOST_PATH)?.to_vec();
        let mode = it.u16()?;
        let modified = Stamp { seconds: it.i64()?, nanos: it.u32()? };
        if mode > 0o7777 || modified.nanos >= 1_000_000_000 {
            return Err(MessageError::Value("a mode or a time"));
        }
        let attributes = (0..it.u16()?).map(|_| read_attribute(it)).collect::<Result<_, _>>()?;
        let kind = match kind {
            0 => EntryKind::Folder,
            1 => EntryKind::File(it.u64()?),
            2 => EntryKind::Link(it.short(MOST_PATH)?.to_vec()),
            3 => EntryKind::Stream,
            _ => return Err(MessageError::Value("the kind of an entry")),
        };
        entries.push(Entry { path, kind, mode, modified, attributes });
    }
    Ok(entries)
}

fn read_attribute(it: &mut Fields<'_>) -> Result<Attribute, MessageError> {
    let name = it.short(MOST_NAME)?.to_vec();
    if !name.starts_with(OF_USERS) || name.contains(&0) {
        return Err(MessageError::Value("an attribute"));
    }
    Ok(Attribute { name, value: it.short(MOST_ATTRIBUTE)?.to_vec() })
}

fn read_excludes(it: &mut Fields<'_>) -> Result<Vec<Exclude>, MessageError> {
    let mut excludes = Vec::new();
    if it.0.len() > MOST_PATTERNS {
        return Err(MessageError::Value("the length of the patterns"));
    }
    while !it.0.is_empty() {
        let text = it.text(MOST_TEXT)?;
        excludes.push(text.parse().map_err(|_| MessageError::Value("a pattern"))?);
    }
    Ok(excludes)
}

fn write_change(body: Body, change: &Change) -> Body {
    let number = WHATS.iter().position(|it| *it == change.what).unwrap_or(0);
    let body = body.u8(u8::try_from(number).unwrap_or(0)).short(&change.path, MOST_PATH);
    body.text(&change.reason, MOST_TEXT)
}

fn read_changes(it: &mut Fields<'_>) -> Result<Vec<Change>, MessageError> {
    let mut changes = Vec::new();
    while !it.0.is_empty() {
        let what = WHATS.get(usize::from(it.u8()?)).copied();
        let what = what.ok_or(MessageError::Value("what is to be done"))?;
        let path = it.short(MOST_PATH)?.to_vec();
        changes.push(Change { what, path, reason: it.text(MOST_TEXT)? });
    }
    Ok(changes)
}

fn write_have(body: Body, have: &Have) -> Body {
    let write = |body: Body, [start, length]: &[u64; 2]| body.u64(*start).u64(*length);
    have.ranges.iter().take(MOST_RANGES).fold(body, write)
}

fn read_have(it: &mut Fields<'_>) -> Result<Have, MessageError> {
    let mut ranges = Vec::new();
    while !it.0.is_empty() {
        ranges.push([it.u64()?, it.u64()?]);
    }
    if ranges.len() > MOST_RANGES {
        return Err(MessageError::Value("the number of ranges"));
    }
    Ok(Have { ranges })
}

fn read_data(it: &mut Fields<'_>) -> Result<Data, MessageError> {
    let (id, start, length) = (it.u64()?, it.u64()?, it.u32()?);
    let codec = Codec::of_number(it.u8()?).ok_or(MessageError::Value("a codec"))?;
    let sum = it.u64()?;
    let is_length = usize::try_from(length).is_ok_and(|length| (1..=MOST_BYTES).contains(&length));
    if !is_length || start.checked_add(u64::from(length)).is_none() {
        return Err(MessageError::Value("the length of a block"));
    }
    let packed = it.bytes(it.0.len())?.to_vec();
    Ok(Data { id, start, length, codec, sum, packed })
}

fn write_receipt(body: Body, receipt: &Receipt) -> Body {
    let body = body.u64(receipt.entries).u64(receipt.bytes).u64(receipt.cpu_nanos);
    let body = match &receipt.spent {
        None => body.u8(0),
        Some(Spent { is_measured, joules, uncertainty, basis }) => {
            let body = body.u8(1 + u8::from(*is_measured));
            body.amount(Some(*joules)).amount(Some(*uncertainty)).text(basis, MOST_TEXT)
        }
    };
    let body = body.u64(receipt.rejected_count).u64(receipt.removed);
    let write =
        |body: Body, it: &Rejected| body.short(&it.path, MOST_PATH).text(&it.reason, MOST_TEXT);
    receipt.rejected.iter().take(MOST_REJECTED).fold(body, write)
}

fn read_receipt(it: &mut Fields<'_>) -> Result<Receipt, MessageError> {
    let (entries, bytes, cpu_nanos) = (it.u64()?, it.u64()?, it.u64()?);
    let spent = match it.u8()? {
        0 => None,
        kind @ (1 | 2) => Some(Spent {
            is_measured: kind == 2,
            joules: it.amount()?.ok_or(MessageError::Value("an energy"))?,
            uncertainty: it.amount()?.ok_or(MessageError::Value("an energy"))?,
            basis: it.text(MOST_TEXT)?,
        }),
        _ => return Err(MessageError::Value("an energy")),
    };
    let (rejected_count, removed) = (it.u64()?, it.u64()?);
    let mut rejected = Vec::new();
    while !it.0.is_empty() {
        rejected
            .push(Rejected { path: it.short(MOST_PATH)?.to_vec(), reason: it.text(MOST_TEXT)? });
    }
    if rejected.len() > MOST_REJECTED {
        return Err(MessageError::Value("the number of files"));
    }
    Ok(Receipt { entries, bytes, cpu_nanos, spent, rejected, rejected_count, removed })
}
