//! Which server a TLS client wants: the name in its first message (RFC 8446, 4.1.2; RFC 6066, 3). The message is read
//! and passed on unchanged; TLS is not terminated here.
//!
//! Anything that is not exactly a `ClientHello` is rejected: a message that we and the server parse differently could
//! be passed to the wrong server.

pub use crate::authority::is_name;

/// Maximum length of the first message, including its record headers. Messages of browsers have 0.5 to 2 KiB, and
/// post-quantum keys add some more.
pub const LONGEST: usize = 16 << 10;

/// Maximum number of records. Clients that split the message to evade censorship send two or three.
const MOST_RECORDS: usize = 64;

/// Length of a record header.
const HEAD: usize = 5;

/// Content type of a handshake, and the message's own type.
const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;

/// The extension `server_name`, and the only type of name.
const SERVER_NAME: u16 = 0;
const HOST_NAME: u8 = 0;

/// What has arrived so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hello {
    /// The beginning of a `ClientHello`.
    Incomplete,
    /// A complete one; with the server name in lower case, if it has one.
    Whole(Option<String>),
}

/// Why it is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HelloError {
    /// It does not begin like TLS.
    #[error("it is not TLS")]
    NotTls,
    /// It is longer than any legitimate one.
    #[error("its first message is too long")]
    TooLong,
    /// It begins like TLS, but is no `ClientHello`.
    #[error("its first message is no ClientHello")]
    Malformed,
}

/// Reads the first bytes of a connection.
pub fn read(bytes: &[u8]) -> Result<Hello, HelloError> {
    // Each record: its head, and its part of the message.
    let (mut rest, mut message, mut records) = (bytes, Vec::new(), 0);
    // Of the last record.
    let mut to_come = 0;
    loop {
        match wanted(&message)? {
            Some(wanted) if wanted == message.len() && to_come == 0 => {
                return Ok(Hello::Whole(name_of(&message[4..])?));
            }
            // There must not be a second message: the server has to answer first.
            Some(wanted) if wanted <= message.len() => return Err(HelloError::Malformed),
            _ if to_come > 0 => break,
            _ => {}
        }
        let Some(length) = record_length(rest)? else { break };
        records += 1;
        if records > MOST_RECORDS {
            return Err(HelloError::TooLong);
        }
        let part = &rest[HEAD..rest.len().min(HEAD + length)];
        message.extend_from_slice(part);
        rest = &rest[HEAD + part.len()..];
        to_come = length - part.len();
    }
    if bytes.len() >= LONGEST { Err(HelloError::TooLong) } else { Ok(Hello::Incomplete) }
}

/// The length of the record at the start of `bytes`, once its header is there.
fn record_length(bytes: &[u8]) -> Result<Option<usize>, HelloError> {
    if bytes.first().is_some_and(|kind| *kind != HANDSHAKE)
        || bytes.get(1).is_some_and(|major| *major != 3)
    {
        return Err(HelloError::NotTls);
    }
    let Some(head) = bytes.get(..HEAD) else { return Ok(None) };
    let length = usize::from(u16::from_be_bytes([head[3], head[4]]));
    match length {
        0 => Err(HelloError::Malformed),
        LONGEST.. => Err(HelloError::TooLong),
        _ => Ok(Some(length)),
    }
}

/// The length of the message including its header, once that is there.
fn wanted(message: &[u8]) -> Result<Option<usize>, HelloError> {
    if message.first().is_some_and(|kind| *kind != CLIENT_HELLO) {
        return Err(HelloError::Malformed);
    }
    let Some(head) = message.get(..4) else { return Ok(None) };
    let length = u32::from_be_bytes([0, head[1], head[2], head[3]]) as usize;
    if length > LONGEST { Err(HelloError::TooLong) } else { Ok(Some(4 + length)) }
}

/// Reads values from the front of a message.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], HelloError> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(HelloError::Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, HelloError> {
        Ok(self.take(1)?[0])
    }

    fn pair(&mut self) -> Result<u16, HelloError> {
        let pair = self.take(2)?;
        Ok(u16::from_be_bytes([pair[0], pair[1]]))
    }

    /// A value preceded by its length in one byte.
    fn short(&mut self) -> Result<&'a [u8], HelloError> {
        let length = self.byte()?;
        self.take(length.into())
    }

    /// The same, with the length in two bytes.
    fn long(&mut self) -> Result<&'a [u8], HelloError> {
        let length = self.pair()?;
        self.take(length.into())
    }
}

/// The name that a `ClientHello` asks for.
fn name_of(hello: &[u8]) -> Result<Option<String>, HelloError> {
    let mut reader = Reader(hello);
    let version = reader.pair()?;
    let _random = reader.take(32)?;
    let session = reader.short()?;
    let suites = reader.long()?;
    let compressions = reader.short()?;
    let is_fine = version >> 8 == 3
        && session.len() <= 32
        && !suites.is_empty()
        && suites.len() % 2 == 0
        && !compressions.is_empty();
    if !is_fine {
        return Err(HelloError::Malformed);
    }
    if reader.0.is_empty() {
        // An old message without extensions.
        return Ok(None);
    }
    let mut extensions = Reader(reader.long()?);
    if !reader.0.is_empty() {
        return Err(HelloError::Malformed);
    }
    let mut name = None;
    while !extensions.0.is_empty() {
        let kind = extensions.pair()?;
        let data = extensions.long()?;
        if kind == SERVER_NAME && name.replace(server_name(data)?).is_some() {
            return Err(HelloError::Malformed);
        }
    }
    Ok(name)
}

/// Exactly one host name: RFC 6066 defines no other type, and forbids two of one type.
fn server_name(data: &[u8]) -> Result<String, HelloError> {
    let mut data = Reader(data);
    let mut list = Reader(data.long()?);
    let kind = list.byte()?;
    let name = list.long()?;
    let is_only = data.0.is_empty() && list.0.is_empty() && kind == HOST_NAME;
    let name = std::str::from_utf8(name).ok();
    // RFC 6066 forbids a final dot, but some clients send it.
    let name = name.map(|name| name.strip_suffix('.').unwrap_or(name));
    let name = name.filter(|name| is_only && is_name(name));
    Ok(name.ok_or(HelloError::Malformed)?.to_ascii_lowercase())
}

#[cfg(test)]
mod tests;
