//! The first bytes of a client, by which services of known protocols are woken: what does not match wakes nothing.
//!
//! Each parser is strict, and decides within [`LONGEST`] bytes.

use crate::client_hello::{self, Hello};

/// No protocol needs more bytes for a decision.
pub const LONGEST: usize = client_hello::LONGEST;

/// Longest line of a version in SSH (RFC 4253, 4.2).
const SSH_LINE: usize = 255;

/// Longest request for a connection in RDP that is taken: cookie and negotiation need far less.
const RDP_LONGEST: usize = 512;

/// Longest first message of Minecraft that is taken. A name of a host has at most 255 characters, and mods append some.
const MINECRAFT_LONGEST: usize = 1100;

/// A protocol whose clients are recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// A `ClientHello`.
    Tls,
    /// A client's version: `SSH-2.0-…`.
    Ssh,
    /// A request for a connection (TPKT and X.224).
    Rdp,
    /// A player who logs in.
    Minecraft,
}

/// What the bytes of a client are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Greeting {
    /// Not decided yet.
    Incomplete,
    /// It is a client of the protocol.
    Wakes,
    /// It is not.
    Alien,
    /// A list of servers asks for the status; answers are sent without the server. Its version of the protocol, and
    /// what it sent after the request, if it has sent that: it expects the same.
    Status {
        /// Version of the protocol.
        version: i32,
        /// The message of a ping.
        ping: Option<[u8; 8]>,
    },
}

/// Why bytes are not what they should be.
enum ParseError {
    Short,
    Alien,
}

type Parsed<T> = Result<T, ParseError>;

/// Looks at the first bytes of a client.
pub fn read(protocol: Protocol, bytes: &[u8]) -> Greeting {
    let parsed = match protocol {
        Protocol::Tls => match client_hello::read(bytes) {
            Ok(Hello::Whole(_)) => Ok(Greeting::Wakes),
            Ok(Hello::Incomplete) => Err(ParseError::Short),
            Err(_) => Err(ParseError::Alien),
        },
        Protocol::Ssh => ssh(bytes),
        Protocol::Rdp => rdp(bytes),
        Protocol::Minecraft => minecraft(bytes),
    };
    match parsed {
        Ok(greeting) => greeting,
        Err(ParseError::Short) => Greeting::Incomplete,
        Err(ParseError::Alien) => Greeting::Alien,
    }
}

/// A client sends nothing before its version (RFC 4253, 4.2).
fn ssh(bytes: &[u8]) -> Parsed<Greeting> {
    const START: &[u8] = b"SSH-2.0-";
    let common = bytes.len().min(START.len());
    if bytes[..common] != START[..common] {
        return Err(ParseError::Alien);
    }
    let end = bytes.iter().take(SSH_LINE).position(|byte| *byte == b'\n');
    let line = &bytes[..end.unwrap_or(bytes.len())];
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if !line.iter().all(|byte| (b' '..=b'~').contains(byte)) {
        return Err(ParseError::Alien);
    }
    match end {
        Some(_) if line.len() > START.len() => Ok(Greeting::Wakes),
        Some(_) => Err(ParseError::Alien),
        None if bytes.len() >= SSH_LINE => Err(ParseError::Alien),
        None => Err(ParseError::Short),
    }
}

/// TPKT (RFC 1006, 6), and in it a connection request of X.224 (13.3), as MS-RDPBCGR, 2.2.1.1 has it.
fn rdp(bytes: &[u8]) -> Parsed<Greeting> {
    let at = |place: usize| bytes.get(place).copied().ok_or(ParseError::Short);
    let must = |is: bool| if is { Ok(()) } else { Err(ParseError::Alien) };
    must(at(0)? == 3)?;
    must(at(1)? == 0)?;
    let high = at(2)?;
    let length = usize::from(u16::from_be_bytes([high, at(3)?]));
    must((11..=RDP_LONGEST).contains(&length))?;
    must(usize::from(at(4)?) == length - 5)?;
    // The request, from no connection of the server's, in class 0.
    must(at(5)? == 0xe0)?;
    must(at(6)? == 0 && at(7)? == 0)?;
    at(9)?;
    must(at(10)? == 0)?;
    let mut rest = &bytes[11..length.min(bytes.len())];
    if bytes.len() < length {
        return Err(ParseError::Short);
    }
    // A cookie or a token of a balancer, and what the client can negotiate.
    if let Some(end) = rest.windows(2).position(|it| it == b"\r\n") {
        must(rest.starts_with(b"Cookie: "))?;
        rest = &rest[end + 2..];
    }
    must(rest.is_empty() || (rest.len() >= 8 && rest[0] == 1 && rest[2..4] == [8, 0]))?;
    Ok(Greeting::Wakes)
}

/// Messages of Minecraft, each with its length before it.
struct Messages<'a>(&'a [u8]);

impl<'a> Messages<'a> {
    /// A number of up to 32 bits, seven in each byte.
    fn number(&mut self) -> Parsed<i32> {
        let mut number = 0_u32;
        for place in 0..5 {
            let (byte, rest) = self.0.split_first().ok_or(ParseError::Short)?;
            self.0 = rest;
            // The fifth byte has room for four bits.
            if place == 4 && *byte > 15 {
                return Err(ParseError::Alien);
            }
            number |= u32::from(byte & 127) << (7 * place);
            if byte & 128 == 0 {
                return Ok(number.cast_signed());
            }
        }
        Err(ParseError::Alien)
    }

    fn take(&mut self, length: usize) -> Parsed<&'a [u8]> {
        let (part, rest) = self.0.split_at_checked(length).ok_or(ParseError::Short)?;
        self.0 = rest;
        Ok(part)
    }

    /// The next message whole, of at most `most` bytes.
    fn message(&mut self, most: usize) -> Parsed<Messages<'a>> {
        let length = usize::try_from(self.number()?).map_err(|_| ParseError::Alien)?;
        if length == 0 || length > most {
            return Err(ParseError::Alien);
        }
        self.take(length).map(Messages)
    }

    /// A text of at most `most` bytes.
    fn text(&mut self, most: usize) -> Parsed<&'a [u8]> {
        let length = usize::try_from(self.number()?).map_err(|_| ParseError::Alien)?;
        if length > most {
            return Err(ParseError::Alien);
        }
        self.take(length)
    }
}

/// Within a whole message nothing can be missing.
fn whole<T>(parsed: Parsed<T>) -> Parsed<T> {
    parsed.map_err(|_| ParseError::Alien)
}

fn minecraft(bytes: &[u8]) -> Parsed<Greeting> {
    let mut all = Messages(bytes);
    // The first message has the number 0: what goes on otherwise is not waited for, such as a ping of an old version.
    let mut begin = Messages(bytes);
    begin.number()?;
    if begin.0.first().is_some_and(|number| *number != 0) {
        return Err(ParseError::Alien);
    }
    let mut hello = all.message(MINECRAFT_LONGEST)?;
    let next = whole((|| {
        if hello.number()? != 0 {
            return Err(ParseError::Alien);
        }
        let version = hello.number()?;
        hello.text(MINECRAFT_LONGEST)?;
        hello.take(2)?;
        let next = hello.number()?;
        if hello.0.is_empty() { Ok((version, next)) } else { Err(ParseError::Alien) }
    })())?;
    match next {
        (version, 1) => status(&mut all, version),
        // To log in, or to go on with a log-in that another server began.
        (_, 2 | 3) => login(&mut all),
        _ => Err(ParseError::Alien),
    }
}

/// A log-in begins with the name of the player.
fn login(all: &mut Messages<'_>) -> Parsed<Greeting> {
    let mut login = all.message(MINECRAFT_LONGEST)?;
    whole((|| {
        if login.number()? != 0 {
            return Err(ParseError::Alien);
        }
        let name = login.text(16)?;
        let is_name = !name.is_empty() && name.iter().all(|byte| (b'!'..=b'~').contains(byte));
        if is_name { Ok(Greeting::Wakes) } else { Err(ParseError::Alien) }
    })())
}

/// A request for the status, and a ping after it, which may come later.
fn status(all: &mut Messages<'_>, version: i32) -> Parsed<Greeting> {
    if all.message(16)?.0 != [0] {
        return Err(ParseError::Alien);
    }
    let ping = match all.message(16) {
        Ok(Messages([1, ping @ ..])) => Some(ping.try_into().map_err(|_| ParseError::Alien)?),
        Ok(_) | Err(ParseError::Alien) => return Err(ParseError::Alien),
        Err(ParseError::Short) => None,
    };
    Ok(Greeting::Status { version, ping })
}

fn put_number(message: &mut Vec<u8>, number: usize) {
    let mut rest = number;
    loop {
        let low = u8::try_from(rest & 127).unwrap_or(0);
        rest >>= 7;
        message.push(if rest == 0 { low } else { low | 128 });
        if rest == 0 {
            return;
        }
    }
}

fn framed(message: &[u8]) -> Vec<u8> {
    let mut framed = Vec::new();
    put_number(&mut framed, message.len());
    framed.extend(message);
    framed
}

/// The status of a server that sleeps, with this text for its players.
pub fn status_answer(version: i32, text: &str) -> Vec<u8> {
    let status = serde_json::json!({
        "version": { "name": "asleep", "protocol": version },
        "players": { "max": 0, "online": 0 },
        "description": { "text": text },
    });
    let status = status.to_string();
    let mut message = vec![0];
    put_number(&mut message, status.len());
    message.extend(status.as_bytes());
    framed(&message)
}

/// The answer to a ping.
pub fn ping_answer(ping: [u8; 8]) -> Vec<u8> {
    framed(&[&[1][..], &ping].concat())
}

#[cfg(test)]
mod tests;
