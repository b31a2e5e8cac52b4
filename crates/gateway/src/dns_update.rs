//! Messages of DNS, as far as a record for an authority needs them: signed updates (RFC 2136, RFC 8945) and queries.
//!
//! All of it is pure; what a server sends is read with bounds.

use std::fmt::Write as _;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Types of records (RFC 1035, RFC 8945).
const SOA: u16 = 6;
const TXT: u16 = 16;
const TSIG: u16 = 250;

/// Classes (RFC 1035, RFC 2136).
const IN: u16 = 1;
const NONE: u16 = 254;
const ANY: u16 = 255;

/// The opcode of an update, in its place.
const UPDATE: u16 = 5 << 11;

/// Seconds by which clocks may differ (RFC 8945, 10).
const FUDGE: u16 = 300;

/// Seconds for which others may keep a record: a resolver that looked before must look again.
const TTL: u32 = 1;

/// Records that are read of an answer.
const MOST_RECORDS: usize = 256;

/// The name of the algorithm.
const ALGORITHM: &str = "hmac-sha256";

/// A record with a text.
#[derive(Debug, Clone, Copy)]
pub struct Text<'a> {
    /// The zone that it is in.
    pub zone: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its text, of at most 255 bytes.
    pub value: &'a str,
}

/// Who signs.
#[derive(Clone, Copy)]
pub struct Signer<'a> {
    /// The name of the key.
    pub name: &'a str,
    /// The secret.
    pub secret: &'a [u8],
    /// Seconds since 1970.
    pub now: u64,
}

impl std::fmt::Debug for Signer<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Signer")
            .field("name", &self.name)
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}

/// Why an answer is of no use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UpdateError {
    /// It ends too early, or a length in it is wrong.
    #[error("the answer cannot be read")]
    Malformed,
    /// It is for another question.
    #[error("the answer is for another question")]
    Other,
    /// The server refuses.
    #[error("the server refuses: {0}")]
    Refused(&'static str),
    /// The server refuses, and does not sign that: another may have sent it.
    #[error("the server refuses, and does not sign its answer: {0}")]
    RefusedUnsigned(&'static str),
    /// It is not signed, or not with our key.
    #[error("the answer is not signed with the key")]
    Unsigned,
    /// The clocks differ.
    #[error("the clocks of the server and of this machine differ by more than five minutes")]
    Clock,
}

/// A record of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its name, in lower case and without the final dot.
    pub name: String,
    /// Its type.
    pub kind: u16,
    class: u16,
    data: Vec<u8>,
    /// Where it begins in the message.
    at: usize,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    id: u16,
    code: u8,
    is_reply: bool,
    /// All records, whatever section they are in.
    pub records: Vec<Record>,
}

/// A name, as a message has it. Names that are too long are cut, so that nothing is asked by them; the configuration
/// has checked them before.
fn put_name(message: &mut Vec<u8>, name: &str) {
    for label in name.split('.').filter(|it| !it.is_empty()) {
        let label = &label.as_bytes()[..label.len().min(63)];
        message.push(u8::try_from(label.len()).unwrap_or(63));
        message.extend(label.iter().map(u8::to_ascii_lowercase));
    }
    message.push(0);
}

fn put(message: &mut Vec<u8>, numbers: &[u16]) {
    message.extend(numbers.iter().flat_map(|it| it.to_be_bytes()));
}

/// A question for all records of a kind.
fn query(id: u16, name: &str, kind: u16) -> Vec<u8> {
    let mut message = Vec::new();
    put(&mut message, &[id, 0, 1, 0, 0, 0]);
    put_name(&mut message, name);
    put(&mut message, &[kind, IN]);
    message
}

/// Asks for the texts of a name.
pub fn text_query(id: u16, name: &str) -> Vec<u8> {
    query(id, name, TXT)
}

/// Asks which zone a name is in.
pub(crate) fn zone_query(id: u16, name: &str) -> Vec<u8> {
    query(id, name, SOA)
}

/// Adds a record, or removes it, and leaves others of the same name.
pub fn update(id: u16, record: &Text<'_>, adds: bool) -> Vec<u8> {
    let mut message = Vec::new();
    put(&mut message, &[id, UPDATE, 1, 0, 1, 0]);
    put_name(&mut message, record.zone);
    put(&mut message, &[SOA, IN]);
    put_name(&mut message, record.name);
    let (class, ttl) = if adds { (IN, TTL) } else { (NONE, 0) };
    put(&mut message, &[TXT, class]);
    message.extend(ttl.to_be_bytes());
    let text = &record.value.as_bytes()[..record.value.len().min(255)];
    let length = u8::try_from(text.len()).unwrap_or(255);
    put(&mut message, &[u16::from(length) + 1]);
    message.push(length);
    message.extend(text);
    message
}

/// The fields that a signature covers besides the message (RFC 8945, 4.3.3).
fn variables(name: &str, time: &[u8], fudge: u16, error: u16, other: &[u8]) -> Vec<u8> {
    let mut fields = Vec::new();
    put_name(&mut fields, name);
    put(&mut fields, &[ANY, 0, 0]);
    put_name(&mut fields, ALGORITHM);
    fields.extend(time);
    put(&mut fields, &[fudge, error, u16::try_from(other.len()).unwrap_or(u16::MAX)]);
    fields.extend(other);
    fields
}

fn code_of(secret: &[u8]) -> Option<Hmac<Sha256>> {
    <Hmac<Sha256> as KeyInit>::new_from_slice(secret).ok()
}

/// Signs a message. Returns the signature, which the answer's covers.
pub fn sign(message: &mut Vec<u8>, signer: &Signer<'_>) -> Vec<u8> {
    let time = signer.now.to_be_bytes();
    // 48 bits.
    let time = &time[2..];
    let Some(mut code) = code_of(signer.secret) else { return Vec::new() };
    code.update(message);
    code.update(&variables(signer.name, time, FUDGE, 0, &[]));
    let code = code.finalize().into_bytes();
    let id = [message[0], message[1]];
    put_name(message, signer.name);
    put(message, &[TSIG, ANY, 0, 0]);
    let mut data = Vec::new();
    put_name(&mut data, ALGORITHM);
    data.extend(time);
    put(&mut data, &[FUDGE, u16::try_from(code.len()).unwrap_or(0)]);
    data.extend(&code);
    data.extend(id);
    put(&mut data, &[0, 0]);
    put(message, &[u16::try_from(data.len()).unwrap_or(0)]);
    message.extend(data);
    let additional = u16::from_be_bytes([message[10], message[11]]) + 1;
    message[10..12].copy_from_slice(&additional.to_be_bytes());
    code.to_vec()
}

/// Reads what is not read yet.
#[derive(Clone, Copy)]
struct Reader<'a> {
    message: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], UpdateError> {
        let end = self.at.checked_add(length).ok_or(UpdateError::Malformed)?;
        let part = self.message.get(self.at..end).ok_or(UpdateError::Malformed)?;
        self.at = end;
        Ok(part)
    }

    fn number(&mut self) -> Result<u16, UpdateError> {
        let part = self.take(2)?;
        Ok(u16::from_be_bytes([part[0], part[1]]))
    }

    /// A name, which may go on at an earlier place (RFC 1035, 4.1.4).
    fn name(&mut self) -> Result<String, UpdateError> {
        let mut name = String::new();
        // The place after the name is that after its first reference.
        let mut there = *self;
        let mut after = None;
        let mut least = self.at;
        loop {
            let length = usize::from(there.take(1)?[0]);
            match length {
                0 => break,
                1..=63 => {
                    if !name.is_empty() {
                        name.push('.');
                    }
                    for byte in there.take(length)? {
                        match byte.to_ascii_lowercase() {
                            byte @ (b'!'..=b'-' | b'/'..=b'[' | b']'..=b'~') => {
                                name.push(char::from(byte));
                            }
                            byte => {
                                let _ = write!(name, "\\{byte:03}");
                            }
                        }
                    }
                    if name.len() > 1024 {
                        return Err(UpdateError::Malformed);
                    }
                }
                192.. => {
                    let low = usize::from(there.take(1)?[0]);
                    after.get_or_insert(there.at);
                    let to = (length - 192) << 8 | low;
                    // Only backwards, so that it ends.
                    if to >= least {
                        return Err(UpdateError::Malformed);
                    }
                    (least, there.at) = (to, to);
                }
                _ => return Err(UpdateError::Malformed),
            }
        }
        self.at = after.unwrap_or(there.at);
        Ok(name)
    }

    fn record(&mut self) -> Result<Record, UpdateError> {
        let at = self.at;
        let name = self.name()?;
        let (kind, class) = (self.number()?, self.number()?);
        self.take(4)?;
        let length = usize::from(self.number()?);
        Ok(Record { name, kind, class, data: self.take(length)?.to_vec(), at })
    }
}

/// Reads an answer.
pub fn read(message: &[u8]) -> Result<Answer, UpdateError> {
    let mut reader = Reader { message, at: 0 };
    let (id, flags) = (reader.number()?, reader.number()?);
    let questions = reader.number()?;
    let counts = [reader.number()?, reader.number()?, reader.number()?];
    let all: usize = counts.into_iter().map(usize::from).sum();
    if all > MOST_RECORDS || questions > 1 {
        return Err(UpdateError::Malformed);
    }
    for _ in 0..questions {
        reader.name()?;
        reader.take(4)?;
    }
    let records = (0..all).map(|_| reader.record()).collect::<Result<_, _>>()?;
    if reader.at != message.len() {
        return Err(UpdateError::Malformed);
    }
    let code = u8::try_from(flags & 15).unwrap_or(0);
    Ok(Answer { id, code, is_reply: flags >> 15 == 1, records })
}

impl Answer {
    /// Checks that it is the answer to the question with this number. `NXDOMAIN` is one.
    pub fn is_for(&self, id: u16) -> Result<(), UpdateError> {
        if !self.is_reply || self.id != id {
            return Err(UpdateError::Other);
        }
        match self.code {
            0 | 3 => Ok(()),
            1 => Err(UpdateError::Refused("FORMERR, it could not read the message")),
            2 => Err(UpdateError::Refused(
                "SERVFAIL, it has a problem of its own; its log says more",
            )),
            4 => Err(UpdateError::Refused("NOTIMP, it takes no updates")),
            5 => Err(UpdateError::Refused("REFUSED, the key may not change this record")),
            8 => Err(UpdateError::Refused("NXRRSET")),
            9 => Err(UpdateError::Refused(
                "NOTAUTH, it does not know the key, or is not the primary server of the zone",
            )),
            10 => Err(UpdateError::Refused("NOTZONE, the name is not in the zone")),
            _ => Err(UpdateError::Refused("an error without a common name")),
        }
    }

    /// The zone that the name in a `zone_query` is in: the server sends its record as the answer, or says by it why
    /// there is no answer.
    pub fn zone(&self) -> Option<&str> {
        self.records.iter().find(|it| it.kind == SOA && it.class == IN).map(|it| it.name.as_str())
    }

    /// Whether a name has this text.
    pub fn has_text(&self, name: &str, value: &str) -> bool {
        self.records.iter().any(|it| {
            it.kind == TXT
                && it.class == IN
                && it.name.eq_ignore_ascii_case(name)
                && text_of(&it.data) == value.as_bytes()
        })
    }
}

/// The parts of a text, joined.
fn text_of(mut data: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    while let Some((length, rest)) = data.split_first() {
        let (part, rest) = rest.split_at(rest.len().min(usize::from(*length)));
        text.extend(part);
        data = rest;
    }
    text
}

/// Checks the answer to a signed update with this number and signature.
pub fn check(
    message: &[u8],
    id: u16,
    question: &[u8],
    signer: &Signer<'_>,
) -> Result<(), UpdateError> {
    let said = read(message)?.is_for(id);
    if said == Err(UpdateError::Other) {
        return said;
    }
    // The signature first: a wrong clock is NOTAUTH for the rest (RFC 8945, 5.2.3).
    match (verify(message, question, signer), said) {
        (Ok(()), said) => said,
        (Err(UpdateError::Unsigned), Err(UpdateError::Refused(why))) => {
            Err(UpdateError::RefusedUnsigned(why))
        }
        (Err(error), _) => Err(error),
    }
}

/// Checks that an answer is signed with our key, for a question with this signature.
pub fn verify(message: &[u8], question: &[u8], signer: &Signer<'_>) -> Result<(), UpdateError> {
    let answer = read(message)?;
    let last = answer.records.last().filter(|it| it.kind == TSIG && it.class == ANY);
    let last = last.filter(|it| it.name == signer.name).ok_or(UpdateError::Unsigned)?;
    let mut data = Reader { message: &last.data, at: 0 };
    if data.name()? != ALGORITHM {
        return Err(UpdateError::Unsigned);
    }
    let time = data.take(6)?;
    let fudge = data.number()?;
    let length = usize::from(data.number()?);
    let theirs = data.take(length)?;
    let id = data.take(2)?;
    let error = data.number()?;
    let length = usize::from(data.number()?);
    let other = data.take(length)?;
    // Of the server's errors, only that of the time is signed (RFC 8945, 5.3.2).
    match error {
        0 | 18 => {}
        _ => return Err(UpdateError::Unsigned),
    }
    let mut unsigned = message[..last.at].to_vec();
    unsigned[..2].copy_from_slice(id);
    let additional = u16::from_be_bytes([unsigned[10], unsigned[11]])
        .checked_sub(1)
        .ok_or(UpdateError::Malformed)?;
    unsigned[10..12].copy_from_slice(&additional.to_be_bytes());
    let mut code = code_of(signer.secret).ok_or(UpdateError::Unsigned)?;
    code.update(&u16::try_from(question.len()).unwrap_or(0).to_be_bytes());
    code.update(question);
    code.update(&unsigned);
    code.update(&variables(signer.name, time, fudge, error, other));
    code.verify_slice(theirs).map_err(|_| UpdateError::Unsigned)?;
    let seconds = time.iter().fold(0_u64, |all, byte| all << 8 | u64::from(*byte));
    if error == 18 || seconds.abs_diff(signer.now) > u64::from(FUDGE) {
        return Err(UpdateError::Clock);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
