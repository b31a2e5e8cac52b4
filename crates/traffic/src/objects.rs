//! Objects of JSON that do not stand one on each line, brought there: those of an array, and those laid out
//! over several lines.

use std::io::{self, Read};

/// Bytes read at a time.
const CHUNK: usize = 64 * 1024;

/// Whether text that begins so holds such objects.
pub(crate) fn are_spread(head: &[u8]) -> bool {
    let head = head.trim_ascii_start();
    if let Some(rest) = head.strip_prefix(b"[") {
        return rest.trim_ascii_start().starts_with(b"{");
    }
    head.strip_prefix(b"{").is_some_and(|rest| {
        let text = rest.trim_ascii_start();
        text.starts_with(b"\"") && rest[..rest.len() - text.len()].contains(&b'\n')
    })
}

/// A source of text, with each object on a line of its own.
pub(crate) struct Objects<R> {
    source: R,
    chunk: Vec<u8>,
    lines: Lines,
    given: usize,
}

impl<R: Read> Objects<R> {
    pub(crate) fn new(source: R) -> Self {
        Self { source, chunk: vec![0; CHUNK], lines: Lines::default(), given: 0 }
    }
}

impl<R: Read> Read for Objects<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.given == self.lines.ready.len() {
            self.lines.ready.clear();
            self.given = 0;
            let read = self.source.read(&mut self.chunk)?;
            if read == 0 {
                return Ok(0);
            }
            self.chunk[..read].iter().for_each(|byte| self.lines.take(*byte));
        }
        let ready = &self.lines.ready[self.given..];
        let some = into.len().min(ready.len());
        into[..some].copy_from_slice(&ready[..some]);
        self.given += some;
        Ok(some)
    }
}

/// Lines out of the bytes of a text, one after the other.
#[derive(Default)]
struct Lines {
    ready: Vec<u8>,
    /// Braces and brackets that are open, from an object's own brace on.
    depth: u32,
    in_string: bool,
    is_escaped: bool,
    /// The last byte that is no blank.
    last: u8,
    /// Text between objects, which belongs to none, is on the line.
    has_text: bool,
}

impl Lines {
    fn take(&mut self, byte: u8) {
        if self.in_string {
            return self.in_string(byte);
        }
        let is_blank = byte.is_ascii_whitespace();
        match byte {
            b'{' if self.depth == 0 || self.is_cut() => {
                if self.depth > 0 || self.has_text {
                    self.end();
                }
                self.depth = 1;
                self.ready.push(byte);
            }
            _ if self.depth == 0 => self.between(byte),
            b'{' | b'[' => {
                self.depth += 1;
                self.ready.push(byte);
            }
            b'}' | b']' => {
                self.depth -= 1;
                self.ready.push(byte);
                if self.depth == 0 {
                    self.end();
                }
            }
            _ if is_blank => self.ready.push(b' '),
            _ => {
                self.in_string = byte == b'"';
                self.ready.push(byte);
            }
        }
        if !is_blank {
            self.last = byte;
        }
    }

    /// Whether an object that begins here shows that the one before was cut off: within an object a
    /// brace stands behind a colon.
    const fn is_cut(&self) -> bool {
        self.depth == 1 && self.last != b':'
    }

    fn in_string(&mut self, byte: u8) {
        if byte == b'\n' {
            // No string of JSON holds one: the object was cut off.
            return self.end();
        }
        self.ready.push(byte);
        let is_escaped = std::mem::take(&mut self.is_escaped);
        self.is_escaped = byte == b'\\' && !is_escaped;
        if byte == b'"' && !is_escaped {
            self.in_string = false;
            self.last = byte;
        }
    }

    /// A byte between objects: what is no array's own punctuation makes a line.
    fn between(&mut self, byte: u8) {
        match byte {
            b'\n' if self.has_text => self.end(),
            b'[' | b']' | b',' | b'\n' | b'\r' => {}
            b' ' | b'\t' if !self.has_text => {}
            _ => {
                self.has_text = true;
                self.ready.push(byte);
            }
        }
    }

    fn end(&mut self) {
        self.ready.push(b'\n');
        let ready = std::mem::take(&mut self.ready);
        *self = Self { ready, ..Self::default() };
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn lines(text: &str) -> String {
        assert!(are_spread(text.as_bytes()), "{text}");
        let mut out = String::new();
        Objects::new(Cursor::new(text.as_bytes().to_vec())).read_to_string(&mut out).unwrap();
        out
    }

    #[test]
    fn each_object_of_an_array_is_a_line() {
        let two = "{\"a\":\"x],[{\\\"\",\"b\":[1,{}]}\n{\"a\":2}\n";
        for text in [
            "[{\"a\":\"x],[{\\\"\",\"b\":[1,{}]},{\"a\":2}]",
            "[\n{\"a\":\"x],[{\\\"\",\"b\":[1,{}]},\n{\"a\":2}\n]\n",
            " [{\"a\":\"x],[{\\\"\",\"b\":[1,{}]}\r\n,{\"a\":2}]\r\n",
        ] {
            assert_eq!(lines(text), two, "{text}");
        }
        let over_lines = "{\n  \"a\": {\n \"b\": 1\n }\n}\n{\n\"a\":2}";
        assert_eq!(lines(over_lines), "{   \"a\": {  \"b\": 1  } }\n{ \"a\":2}\n");
    }

    #[test]
    fn an_object_that_was_cut_off_takes_no_other_along() {
        let cut = "[{\"a\":1,\n{\"a\":2},\n{\"a\":\"x\n{\"a\":3}]";
        assert_eq!(lines(cut), "{\"a\":1, \n{\"a\":2}\n{\"a\":\"x\n{\"a\":3}\n");
        assert_eq!(lines("[{\"a\":1}]\nrubbish\n[{\"a\":2}]"), "{\"a\":1}\nrubbish\n{\"a\":2}\n");
    }

    #[test]
    fn one_object_a_line_is_left_alone() {
        for text in ["{\"a\":1}\n{\"a\":2}\n", "[10/Nov/2022:00:00:01 +0000] - 200", "", "[", "{"] {
            assert!(!are_spread(text.as_bytes()), "{text}");
        }
    }
}
