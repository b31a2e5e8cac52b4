//! Bytes of a recording, packed or not, by lines or as they come.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use flate2::read::MultiGzDecoder;

/// Bytes at the beginning that are read to recognise the format.
const HEAD: u64 = 16 * 1024;

/// The longest line: longer ones are left out.
const LONGEST: usize = 4096;

/// UTF-8's mark at the beginning of a file.
const BOM: &[u8] = b"\xef\xbb\xbf";

/// What begins so cannot be read, and what to do about it.
const FOREIGN: [(&[u8], &str); 6] = [
    (b"\xff\xfe", "it is UTF-16: convert it, as by `iconv -f UTF-16 -t UTF-8`"),
    (b"\xfe\xff", "it is UTF-16: convert it, as by `iconv -f UTF-16 -t UTF-8`"),
    (b"PK\x03\x04", "it is a ZIP archive or a spreadsheet: unpack it, or export it as CSV"),
    (b"\x28\xb5\x2f\xfd", "it is packed by zstd: unpack it by `zstd -d`"),
    (b"\xfd7zXZ", "it is packed by xz: unpack it by `xz -d`"),
    (b"BZh", "it is packed by bzip2: unpack it by `bzip2 -d`"),
];

pub(super) struct Input {
    head: Vec<u8>,
    reader: BufReader<Box<dyn Read + Send>>,
    line: Vec<u8>,
    /// Lines read so far.
    number: u64,
    chunk: Vec<u8>,
}

impl Input {
    /// The lines at the beginning, without one that may have been cut off.
    pub(super) fn whole_lines(&self) -> &[u8] {
        let is_all = self.head.len() + BOM.len() < HEAD as usize;
        let last = self.head.iter().rposition(|byte| *byte == b'\n');
        if is_all { &self.head } else { &self.head[..last.unwrap_or(0)] }
    }

    pub(super) fn open(path: &Path) -> io::Result<Self> {
        // Opening a pipe blocks until a writer opens it, possibly for ever.
        if fs::metadata(path)?.file_type().is_fifo() {
            let why = "it is a pipe, and recordings are read from files";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let mut file = BufReader::new(File::open(path)?);
        let packed = file.fill_buf()?.starts_with(&[0x1f, 0x8b]);
        let mut bytes: Box<dyn Read + Send> =
            if packed { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) };
        let mut head = Vec::new();
        bytes.by_ref().take(HEAD).read_to_end(&mut head)?;
        if let Some((_, why)) = FOREIGN.iter().find(|(begin, _)| head.starts_with(begin)) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, *why));
        }
        if head.starts_with(BOM) {
            head.drain(..BOM.len());
        }
        let all = Cursor::new(head.clone()).chain(bytes);
        Ok(Self {
            head,
            reader: BufReader::new(Box::new(all)),
            line: Vec::with_capacity(LONGEST),
            number: 0,
            chunk: Vec::new(),
        })
    }

    /// The beginning.
    pub(super) fn head(&self) -> &[u8] {
        &self.head
    }

    /// The first line of the beginning that holds anything.
    pub(super) fn first_line(&self) -> String {
        let head = String::from_utf8_lossy(&self.head);
        head.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default().to_owned()
    }

    /// The next line, without its end; of one that is too long, a zero byte.
    pub(super) fn line(&mut self) -> io::Result<Option<&[u8]>> {
        self.line_up_to(LONGEST)
    }

    /// The same, for a line that may be longer than others.
    pub(super) fn line_up_to(&mut self, longest: usize) -> io::Result<Option<&[u8]>> {
        self.line.clear();
        let (mut any, mut long) = (false, false);
        loop {
            let bytes = self.reader.fill_buf()?;
            if bytes.is_empty() {
                break;
            }
            any = true;
            let end = bytes.iter().position(|&byte| byte == b'\n');
            let part = &bytes[..end.unwrap_or(bytes.len())];
            long |= self.line.len() + part.len() > longest;
            if !long {
                self.line.extend_from_slice(part);
            }
            let taken = part.len() + usize::from(end.is_some());
            self.reader.consume(taken);
            if end.is_some() {
                break;
            }
        }
        if long {
            self.line.clear();
            self.line.push(0);
        }
        self.number += u64::from(any);
        Ok(any.then_some(&self.line))
    }

    /// The number of the line that was read last, from 1.
    pub(super) const fn number(&self) -> u64 {
        self.number
    }

    /// The line that was read last, again.
    pub(super) fn last_line(&self) -> &[u8] {
        &self.line
    }

    /// What comes next, however much that is; nothing at the end.
    pub(super) fn chunk(&mut self) -> io::Result<&[u8]> {
        self.chunk.clear();
        self.chunk.extend_from_slice(self.reader.fill_buf()?);
        self.reader.consume(self.chunk.len());
        Ok(&self.chunk)
    }
}

#[cfg(test)]
impl Input {
    /// Bytes of memory that it holds.
    pub(super) fn held(&self) -> usize {
        self.head.capacity() + self.line.capacity() + self.chunk.capacity() + self.reader.capacity()
    }
}
