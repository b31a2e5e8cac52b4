//! Text as it should be: UTF-16 becomes UTF-8, and NULs and a byte order mark are left out.

use std::io::{self, Read};

use memchr::memchr;

/// What some editors and Windows programs put in front of text in UTF-8.
pub(crate) const MARK: &[u8] = b"\xef\xbb\xbf";

/// The order of the two bytes of UTF-16.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Utf16 {
    Little,
    Big,
}

/// Whether text that begins so is UTF-16: by its mark, or by the NULs in ASCII text.
pub(crate) fn utf16(head: &[u8]) -> Option<Utf16> {
    let is_text = |byte: u8| (b' '..0x7f).contains(&byte) || matches!(byte, b'\t' | b'\r' | b'\n');
    match *head {
        [0xff, 0xfe, ..] => Some(Utf16::Little),
        [0xfe, 0xff, ..] => Some(Utf16::Big),
        [a, 0, b, 0, ..] if is_text(a) && is_text(b) => Some(Utf16::Little),
        [0, a, 0, b, ..] if is_text(a) && is_text(b) => Some(Utf16::Big),
        _ => None,
    }
}

/// Bytes read at a time of UTF-16.
const CHUNK: usize = 16 * 1024;

/// A source of text, converted.
pub(crate) struct Text {
    source: Box<dyn Read + Send>,
    utf16: Option<Utf16>,
    /// Of UTF-16: bytes that are no whole character yet, and converted text that is not given yet.
    rest: Vec<u8>,
    ready: Vec<u8>,
    /// Bytes of the mark that may come; none once the first bytes were looked at.
    mark: Vec<u8>,
    begun: bool,
}

impl Text {
    pub(crate) fn new(source: Box<dyn Read + Send>, utf16: Option<Utf16>) -> Self {
        Self { source, utf16, rest: Vec::new(), ready: Vec::new(), mark: Vec::new(), begun: false }
    }

    /// Passes over a byte order mark: it says nothing that is not so of every log.
    fn begin(&mut self) -> io::Result<()> {
        if self.utf16.is_none() {
            let missing = (MARK.len() - self.mark.len()) as u64;
            self.source.by_ref().take(missing).read_to_end(&mut self.mark)?;
            if self.mark == MARK {
                self.mark.clear();
            }
            // A NUL there is left out with the others.
            self.mark.retain(|&byte| byte != 0);
            self.mark.reverse();
        }
        self.begun = true;
        Ok(())
    }

    fn plain(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if let (Some(byte), Some(first)) = (self.mark.pop(), into.first_mut()) {
            *first = byte;
            return Ok(1);
        }
        loop {
            let read = self.source.read(into)?;
            let kept = without_nuls(&mut into[..read]);
            if read == 0 || kept > 0 {
                return Ok(kept);
            }
        }
    }

    fn converted(&mut self, into: &mut [u8], order: Utf16) -> io::Result<usize> {
        while self.ready.is_empty() {
            let before = self.rest.len();
            self.rest.resize(before + CHUNK, 0);
            let read = self.source.read(&mut self.rest[before..]);
            self.rest.truncate(before + *read.as_ref().unwrap_or(&0));
            let ended = read? == 0;
            self.convert(order, ended);
            if ended && self.ready.is_empty() {
                return Ok(0);
            }
        }
        let some = into.len().min(self.ready.len());
        into[..some].copy_from_slice(&self.ready[..some]);
        self.ready.drain(..some);
        Ok(some)
    }

    fn convert(&mut self, order: Utf16, ended: bool) {
        let unit = |pair: &[u8]| match order {
            Utf16::Little => u16::from_le_bytes([pair[0], pair[1]]),
            Utf16::Big => u16::from_be_bytes([pair[0], pair[1]]),
        };
        let mut units: Vec<u16> = self.rest.chunks_exact(2).map(unit).collect();
        let is_high = |unit: &u16| (0xd800..0xdc00).contains(unit);
        // The other half of a pair comes with the next bytes.
        if !ended && units.last().is_some_and(is_high) {
            units.pop();
        }
        self.rest.drain(..2 * units.len());
        let mut buffer = [0; 4];
        for character in char::decode_utf16(units) {
            let character = character.unwrap_or(char::REPLACEMENT_CHARACTER);
            if character != '\u{feff}' && character != '\0' {
                self.ready.extend_from_slice(character.encode_utf8(&mut buffer).as_bytes());
            }
        }
    }
}

/// A source whose lines end in a carriage return alone.
pub(crate) struct CarriageReturns<R>(pub(crate) R);

impl<R: Read> Read for CarriageReturns<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.0.read(into)?;
        returns_to_ends(&mut into[..read]);
        Ok(read)
    }
}

/// Carriage returns as line ends.
pub(crate) fn returns_to_ends(text: &mut [u8]) {
    text.iter_mut().filter(|byte| **byte == b'\r').for_each(|byte| *byte = b'\n');
}

/// Moves all but NULs to the front; how many those are.
fn without_nuls(text: &mut [u8]) -> usize {
    let Some(first) = memchr(0, text) else { return text.len() };
    let mut kept = first;
    for at in first..text.len() {
        if text[at] != 0 {
            text[kept] = text[at];
            kept += 1;
        }
    }
    kept
}

impl Read for Text {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if !self.begun {
            self.begin()?;
        }
        match self.utf16 {
            None => self.plain(into),
            Some(order) => self.converted(into, order),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn read(bytes: &[u8]) -> String {
        let source = Box::new(Cursor::new(bytes.to_vec()));
        let mut text = String::new();
        Text::new(source, utf16(bytes)).read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn utf_16_is_converted_with_a_mark_or_without() {
        let log = "h - - [x] \"GET /é\u{1f600}\"\r\n".repeat(3000);
        for mark in ["", "\u{feff}"] {
            let text = format!("{mark}{log}");
            let little: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
            let big: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
            assert_eq!(read(&little), log);
            assert_eq!(read(&big), log);
        }
    }

    #[test]
    fn nuls_are_left_out_wherever_they_stand() {
        let nuls = vec![0; 200_000];
        let text = [&nuls[..], b"one\n", &nuls, b"two\0\n", &nuls].concat();
        assert_eq!(read(&text), "one\ntwo\n");
        assert_eq!(read(&nuls), "");
        assert_eq!(read(b"\xef\xbb\xbf\0a"), "a");
    }
}
