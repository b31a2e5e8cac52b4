//! The chunked transfer coding, as it comes in (RFC 9112, 7.1).

use bytes::{Buf, Bytes, BytesMut};
use http::HeaderMap;

use crate::answer_head::{end_of, trailers};
use crate::head::{Refusal, Scan, parse_fields, scan};

/// The line before a chunk, with its extensions, is not longer.
const LONGEST_LINE: usize = 256;

/// All extensions of one body together are not longer: chunks of one byte with long extensions cost
/// more to read than they are worth.
const MOST_EXTENSIONS: usize = 16 << 10;

/// What is to be read next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Size,
    /// So many bytes of the chunk, at least one.
    Data(u64),
    /// The line end behind a chunk.
    DataEnd,
    /// The trailers; this many bytes of them were looked at.
    Trailers(usize),
    Nothing,
}

/// Takes chunks apart.
#[derive(Debug)]
pub struct Chunked {
    next: Next,
    extensions: usize,
    most_trailer_bytes: usize,
    most_trailers: usize,
    /// The body is a server's: white space after a size and bare line feeds are accepted. They are not passed on,
    /// since the body is encoded again.
    is_lenient: bool,
}

/// What came out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// More bytes are needed.
    More,
    /// A part of the body.
    Data(Bytes),
    /// The end, with the trailers, if there are any.
    End(Option<HeaderMap>),
}

impl Chunked {
    /// At the start of a request's body.
    pub const fn new(most_trailer_bytes: usize, most_trailers: usize) -> Self {
        let (next, extensions, is_lenient) = (Next::Size, 0, false);
        Self { next, extensions, most_trailer_bytes, most_trailers, is_lenient }
    }

    /// At the start of an answer's body.
    pub(crate) const fn of_answer(most_trailer_bytes: usize, most_trailers: usize) -> Self {
        Self { is_lenient: true, ..Self::new(most_trailer_bytes, most_trailers) }
    }

    /// Takes the next part out of `bytes`.
    pub fn step(&mut self, bytes: &mut BytesMut) -> Result<Step, Refusal> {
        loop {
            match self.next {
                Next::Size => {
                    let Some(size) = self.size(bytes)? else { return Ok(Step::More) };
                    self.next = if size == 0 { Next::Trailers(0) } else { Next::Data(size) };
                }
                Next::Data(left) => {
                    if bytes.is_empty() {
                        return Ok(Step::More);
                    }
                    let here = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
                    let left = left - here as u64;
                    self.next = if left == 0 { Next::DataEnd } else { Next::Data(left) };
                    return Ok(Step::Data(bytes.split_to(here).freeze()));
                }
                Next::DataEnd => match self.line_end(bytes) {
                    LineEnd::At(length) => {
                        bytes.advance(length);
                        self.next = Next::Size;
                    }
                    LineEnd::Unknown => return Ok(Step::More),
                    LineEnd::None => {
                        return Err(Refusal::Malformed("A chunk is not as long as it says."));
                    }
                },
                Next::Trailers(seen) => return self.trailers(bytes, seen),
                Next::Nothing => return Ok(Step::End(None)),
            }
        }
    }

    /// The size of the next chunk, when its line is there. Extensions are passed over (RFC 9112,
    /// 7.1.1), but only if they are text.
    fn size(&mut self, bytes: &mut BytesMut) -> Result<Option<u64>, Refusal> {
        let malformed = Refusal::Malformed("A chunk's size is not well-formed.");
        let Some(end) = memchr::memchr(b'\n', &bytes[..bytes.len().min(LONGEST_LINE)]) else {
            return if bytes.len() < LONGEST_LINE { Ok(None) } else { Err(malformed) };
        };
        let line = match bytes[..end].strip_suffix(b"\r") {
            Some(line) => line,
            None if self.is_lenient => &bytes[..end],
            None => return Err(malformed),
        };
        let line = if self.is_lenient { line.trim_ascii_start() } else { line };
        let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        let mut extension = &line[digits..];
        while self.is_lenient
            && let [b' ' | b'\t', rest @ ..] = extension
        {
            extension = rest;
        }
        let is_text = |byte: &u8| *byte == b'\t' || (*byte >= b' ' && *byte != 0x7f);
        let well_formed = (1..=15).contains(&digits)
            && (extension.is_empty() || extension[0] == b';')
            && extension.iter().all(is_text);
        self.extensions += extension.len();
        if !well_formed || self.extensions > MOST_EXTENSIONS {
            return Err(malformed);
        }
        let size = std::str::from_utf8(&line[..digits]).ok();
        let size = size.and_then(|digits| u64::from_str_radix(digits, 16).ok()).ok_or(malformed)?;
        bytes.advance(end + 1);
        Ok(Some(size))
    }

    /// Whether a line ends at the beginning of `bytes`.
    fn line_end(&self, bytes: &[u8]) -> LineEnd {
        match bytes {
            [] | [b'\r'] => LineEnd::Unknown,
            [b'\r', b'\n', ..] => LineEnd::At(2),
            [b'\n', ..] if self.is_lenient => LineEnd::At(1),
            _ => LineEnd::None,
        }
    }

    fn trailers(&mut self, bytes: &mut BytesMut, seen: usize) -> Result<Step, Refusal> {
        match self.line_end(bytes) {
            LineEnd::At(length) => {
                bytes.advance(length);
                self.next = Next::Nothing;
                return Ok(Step::End(None));
            }
            LineEnd::Unknown => return Ok(Step::More),
            LineEnd::None if self.is_lenient => return self.lenient_trailers(bytes),
            LineEnd::None => {}
        }
        match scan(bytes, seen, self.most_trailer_bytes)? {
            Scan::More => {
                self.next = Next::Trailers(bytes.len());
                Ok(Step::More)
            }
            Scan::End(end) => {
                let trailers = parse_fields(&bytes.split_to(end), self.most_trailers)?;
                self.next = Next::Nothing;
                Ok(Step::End(Some(trailers)))
            }
        }
    }

    fn lenient_trailers(&mut self, bytes: &mut BytesMut) -> Result<Step, Refusal> {
        let Some(end) = end_of(bytes) else {
            let is_endless = bytes.len() >= self.most_trailer_bytes;
            return if is_endless { Err(Refusal::HeadTooLarge) } else { Ok(Step::More) };
        };
        let trailers = trailers(&bytes.split_to(end));
        self.next = Next::Nothing;
        Ok(Step::End(Some(trailers.map_err(|bad| Refusal::Malformed(bad.0))?)))
    }
}

/// Whether a line ends here.
enum LineEnd {
    /// After this many bytes.
    At(usize),
    /// More bytes are needed.
    Unknown,
    None,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Body, trailers and what is left.
    type Decoded = (Vec<u8>, Option<HeaderMap>, Vec<u8>);

    /// Reads bytes that come in pieces.
    fn decode(pieces: &[&[u8]]) -> Result<Decoded, Refusal> {
        read(Chunked::new(1024, 4), pieces)
    }

    fn read(mut decoder: Chunked, pieces: &[&[u8]]) -> Result<Decoded, Refusal> {
        let (mut bytes, mut body) = (BytesMut::new(), Vec::new());
        let mut pieces = pieces.iter();
        loop {
            match decoder.step(&mut bytes)? {
                Step::Data(part) => body.extend_from_slice(&part),
                Step::End(trailers) => {
                    let rest = pieces.flat_map(|piece| piece.iter()).copied();
                    return Ok((body, trailers, bytes.iter().copied().chain(rest).collect()));
                }
                Step::More => match pieces.next() {
                    Some(piece) => bytes.extend_from_slice(piece),
                    None => return Err(Refusal::TimedOut),
                },
            }
        }
    }

    #[test]
    fn chunks_become_a_body_and_what_follows_is_left() {
        let (body, trailers, rest) =
            decode(&[b"4\r\nwiki\r\n5;a=\"b\"\r\npedia\r\n0\r\nX-Sum: 9\r\n\r\nGET /"]).unwrap();
        assert_eq!(body, b"wikipedia");
        assert_eq!(trailers.unwrap()["x-sum"], "9");
        assert_eq!(rest, b"GET /");
        let (body, trailers, rest) = decode(&[b"0\r\n\r\n"]).unwrap();
        assert!(body.is_empty() && trailers.is_none() && rest.is_empty());
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused() {
        for bytes in [
            &b"4\nwiki\r\n0\r\n\r\n"[..],
            b"4\r\nwiki\n0\r\n\r\n",
            b"4\r\nwikis\r\n0\r\n\r\n",
            b"+4\r\nwiki\r\n0\r\n\r\n",
            b"-4\r\nwiki\r\n0\r\n\r\n",
            b"0x4\r\nwiki\r\n0\r\n\r\n",
            b" 4\r\nwiki\r\n0\r\n\r\n",
            b"4 \r\nwiki\r\n0\r\n\r\n",
            b"\r\nwiki\r\n0\r\n\r\n",
            b"4_0\r\nwiki\r\n0\r\n\r\n",
            b"4;a\0b\r\nwiki\r\n0\r\n\r\n",
            b"4;a\rb\r\nwiki\r\n0\r\n\r\n",
            b"10000000000000000\r\nwiki\r\n0\r\n\r\n",
            b"0\r\nX: 1\n\r\n",
            b"0\r\nX : 1\r\n\r\n",
            b"0\r\n X: 1\r\n\r\n",
            b"0\r\nX: 1\r\n y\r\n\r\n",
            b"0\r\nA:1\r\nB:1\r\nC:1\r\nD:1\r\nE:1\r\n\r\n",
        ] {
            let shown = String::from_utf8_lossy(bytes);
            let refused = decode(&[bytes]);
            assert!(
                matches!(&refused, Err(it) if *it != Refusal::TimedOut),
                "{shown:?} {refused:?}"
            );
        }
        let long = [b"4;".as_slice(), &[b'x'; 300], b"\r\nwiki\r\n0\r\n\r\n"].concat();
        assert!(decode(&[&long]).is_err());
        let many = b"1;abcdefghijklmnopqrstuvwxyz\r\nx\r\n".repeat(700);
        assert!(decode(&[&many, b"0\r\n\r\n"]).is_err());
    }

    fn decode_answer(bytes: &[u8]) -> Result<Decoded, Refusal> {
        read(Chunked::of_answer(1024, 4), &[bytes])
    }

    #[test]
    fn what_servers_write_carelessly_is_understood() {
        for bytes in [
            &b"4  \r\nwiki\r\n5 \t\r\npedia\r\n0 \r\n\r\n"[..],
            b"4 ; a=b\r\nwiki\r\n5;c\r\npedia\r\n0\r\n\r\n",
            b"4\nwiki\n5\npedia\n0\n\n",
            b" 4\r\nwiki\r\n\t 5\r\npedia\r\n 0\r\n\r\n",
        ] {
            let (body, trailers, rest) = decode_answer(bytes).unwrap();
            assert_eq!((&body[..], trailers, &rest[..]), (&b"wikipedia"[..], None, &b""[..]));
        }
        for trailers in ["X-Sum : 9\r\n\r\n", "X-Sum: 9\n\n", "X-Sum:\r\n 9\r\n\r\n"] {
            let bytes = format!("1\r\na\r\n0\r\n{trailers}rest");
            let (_, got, rest) = decode_answer(bytes.as_bytes()).unwrap();
            assert_eq!((&got.unwrap()["x-sum"], &rest[..]), (&"9".parse().unwrap(), &b"rest"[..]));
        }
        for wrong in ["4 4\r\nwiki\r\n0\r\n\r\n", " \r\nwiki\r\n", "4\r\nwikis\r\n"] {
            assert!(
                decode_answer(wrong.as_bytes()).is_err_and(|it| it != Refusal::TimedOut),
                "{wrong:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn it_does_not_matter_where_the_bytes_are_cut(
            parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..40), 0..6),
            cut in 1_usize..7,
        ) {
            let mut coded = Vec::new();
            for part in &parts {
                coded.extend_from_slice(format!("{:X}\r\n", part.len()).as_bytes());
                coded.extend_from_slice(part);
                coded.extend_from_slice(b"\r\n");
            }
            coded.extend_from_slice(b"0\r\nA: b\r\n\r\nrest");
            let pieces: Vec<&[u8]> = coded.chunks(cut).collect();
            let (body, trailers, rest) = decode(&pieces).unwrap();
            prop_assert_eq!(body, parts.concat());
            prop_assert_eq!(&trailers.unwrap()["a"], "b");
            prop_assert_eq!(rest, b"rest");
        }

        #[test]
        fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&[&bytes]);
        }
    }
}
