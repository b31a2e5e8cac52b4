//! What another machine may send to `nightwatt receive` and to `nightwatt send`: any bytes as frames, and any messages
//! in any order to both ends. Only what a manifest named is written, within the length that it named.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use nightwatt_energy::time::Mono;
use nightwatt_transfer::net::{Address, Ticket};
use nightwatt_transfer::pure::arm::Arm;
use nightwatt_transfer::pure::bill::Bill;
use nightwatt_transfer::pure::paths;
use nightwatt_transfer::pure::ranges::Ranges;
use nightwatt_transfer::receive::{self, Clocks, Outcome, Receiver, Standing, Store, StoreError};
use nightwatt_transfer::send::{Options, Plan, Session};
use nightwatt_transfer::wire::{Change, Entry, EntryKind, Message, Stamp, fuzz};

/// Runs the target on one input.
pub fn run(input: &[u8]) {
    fuzz(input);
    if let Ok(text) = std::str::from_utf8(input) {
        let _ = text.parse::<Address>();
        if let Ok(ticket) = text.parse::<Ticket>() {
            assert_eq!(ticket.reveal(), text.trim().to_ascii_lowercase());
        }
    }
    let messages = messages(input);
    receiver(&messages);
    sender(&messages);
}

/// Messages without frames around them: kind, length in two bytes, body.
fn messages(mut bytes: &[u8]) -> Vec<Message> {
    let mut messages = Vec::new();
    while let Some((&[kind, low, high], rest)) = bytes.split_first_chunk::<3>() {
        let length = usize::from(u16::from_le_bytes([low, high])).min(rest.len());
        let (body, after) = rest.split_at(length);
        messages.extend(Message::decode(kind, body));
        bytes = after;
    }
    messages
}

fn receiver(messages: &[Message]) {
    let mut receiver = Receiver::new(Memory::default());
    let clocks = Clocks { now: &|| Mono::ZERO, cpu: &|| 0.0, spent: &|_| None };
    for message in messages {
        let mut answers = Vec::new();
        let result = receiver.on(message.clone(), Mono::ZERO, &clocks, &mut answers);
        for answer in answers {
            let (kind, body) = answer.encode();
            assert_eq!(Message::decode(kind, &body).as_ref(), Ok(&answer));
        }
        if result.is_err() {
            break;
        }
    }
}

/// Sends a file that is not there: its blocks are zeros, and it is announced as stale.
fn sender(messages: &[Message]) {
    let entry = Entry {
        path: b"a".to_vec(),
        kind: EntryKind::File(10_000),
        mode: 0o644,
        modified: Stamp { seconds: 0, nanos: 0 },
        attributes: Vec::new(),
    };
    let options = Options {
        arms: vec![Arm::NONE, Arm::CANARY],
        bill: Bill::PUBLISHED,
        block: Some(1000),
        fixed: None,
        delete: None,
        attributes: false,
        trial: false,
        session: [0; 16],
        cancelled: Arc::new(AtomicBool::new(false)),
    };
    let sources = vec!["/nonexistent/nightwatt".into()];
    let mut session =
        Session::new(Plan { entries: vec![entry], sources, ..Plan::default() }, options);
    for message in messages {
        if session.on(message.clone(), Mono::ZERO).is_err() {
            return;
        }
        while session.next(&|| Mono::ZERO).is_ok_and(|messages| !messages.is_empty()) {}
        let report = session.report();
        let there = report.had_bytes + report.rejected_bytes;
        assert!(there + report.acknowledged_bytes <= report.total_bytes);
        assert!(report.link_rate.is_none_or(|rate| rate.is_finite() && rate > 0.0));
    }
}

/// A store that writes nothing, and checks what it is asked for.
#[derive(Debug, Default)]
struct Memory(Vec<Entry>);

impl Memory {
    fn check(&self, place: usize, offset: u64, bytes: u64) {
        let entry = &self.0[place];
        assert!(paths::check(&entry.path).is_ok(), "{entry:?}");
        assert!(offset.checked_add(bytes).is_some_and(|end| end <= entry.bytes()), "{entry:?}");
    }
}

impl Store for Memory {
    fn begin(&mut self, _: [u8; 16]) -> Result<(), StoreError> {
        Ok(())
    }
    fn prepare(
        &mut self,
        entries: Arc<[Entry]>,
        _: &receive::Options,
    ) -> Result<Vec<Standing>, StoreError> {
        self.0 = entries.to_vec();
        Ok(vec![Standing::Parts(Ranges::default()); entries.len()])
    }
    fn compared(&mut self, _: &[Entry], _: &receive::Options) -> Result<Vec<Change>, StoreError> {
        Ok(Vec::new())
    }
    fn write(&mut self, place: usize, offset: u64, bytes: &[u8]) -> Result<(), StoreError> {
        self.check(place, offset, bytes.len() as u64);
        Ok(())
    }
    fn zero(&mut self, place: usize, offset: u64, bytes: u64) -> Result<(), StoreError> {
        self.check(place, offset, bytes);
        Ok(())
    }
    fn ended(&mut self, place: usize, bytes: u64) -> Result<(), StoreError> {
        self.check(place, 0, bytes);
        self.0[place].kind = EntryKind::File(bytes);
        Ok(())
    }
    fn commit(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
    fn complete(&mut self, place: usize) -> Result<(), StoreError> {
        self.check(place, 0, 0);
        Ok(())
    }
    fn abandon(&mut self, place: usize) -> Result<(), StoreError> {
        self.check(place, 0, 0);
        Ok(())
    }
    fn remove_others(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
    fn end(&mut self) -> Result<Outcome, StoreError> {
        Ok(Outcome::default())
    }
}
