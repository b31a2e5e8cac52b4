//! Records out of a stream of bytes that may begin anywhere, be cut anywhere, and hold anything.

/// What was found in a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found<'a> {
    /// What stood between a start and the end after it.
    Whole(&'a [u8]),
    /// What stood after a start that another start, or the greatest length, cut off.
    Cut(&'a [u8]),
}

/// Finds records between a start and an end. Holds at most one record, of a greatest length: a stream
/// without records costs no memory, however long it is.
#[derive(Debug, Clone)]
pub(crate) struct Framer {
    start: &'static [u8],
    end: &'static [u8],
    most: usize,
    buffer: Vec<u8>,
    inside: bool,
}

impl Framer {
    /// Records between `start` and `end`, of at most `most` bytes with their end.
    pub(crate) fn new(start: &'static [u8], end: &'static [u8], most: usize) -> Self {
        debug_assert!(!start.is_empty() && !end.is_empty() && most >= start.len() + end.len());
        Self { start, end, most, buffer: Vec::with_capacity(most), inside: false }
    }

    /// Takes bytes as they come; how they are cut makes no difference.
    pub(crate) fn feed(&mut self, bytes: &[u8], mut found: impl FnMut(Found<'_>)) {
        for &byte in bytes {
            self.buffer.push(byte);
            if self.buffer.ends_with(self.start) {
                let cut = &self.buffer[..self.buffer.len() - self.start.len()];
                if self.inside {
                    found(Found::Cut(cut));
                }
                self.buffer.clear();
                self.inside = true;
            } else if !self.inside {
                // Only what may be the beginning of a start is kept.
                if self.buffer.len() >= self.start.len() {
                    self.buffer.remove(0);
                }
            } else if self.buffer.ends_with(self.end) {
                found(Found::Whole(&self.buffer[..self.buffer.len() - self.end.len()]));
                self.reset();
            } else if self.buffer.len() == self.most {
                found(Found::Cut(&self.buffer));
                self.reset();
            }
        }
    }

    /// Forgets what it holds: the next bytes have nothing to do with those before.
    pub(crate) fn reset(&mut self) {
        self.buffer.clear();
        self.inside = false;
    }

    /// Bytes of memory that it holds.
    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.buffer.capacity()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(framer: &mut Framer, chunks: &[&[u8]]) -> Vec<String> {
        let mut all = Vec::new();
        for chunk in chunks {
            framer.feed(chunk, |found| {
                all.push(match found {
                    Found::Whole(text) => String::from_utf8_lossy(text).into_owned(),
                    Found::Cut(text) => format!("cut {}", String::from_utf8_lossy(text)),
                });
            });
        }
        all
    }

    #[test]
    fn records_are_found_in_garbage_and_after_half_records() {
        let mut framer = Framer::new(b"<msg>", b"</msg>", 40);
        let stream: &[u8] = b"g>one</msg>\0\xff<ms<msg>two</msg><<msg>three<msg>four</msg>";
        assert_eq!(found(&mut framer, &[stream]), ["two", "cut three", "four"]);
    }

    #[test]
    fn what_is_too_long_is_cut_and_the_next_record_is_found() {
        let mut framer = Framer::new(b"#", b";", 8);
        assert_eq!(found(&mut framer, &[b"#123456789;#ok;"]), ["cut 12345678", "ok"]);
        assert_eq!(found(&mut framer, &[b"#1234567;"]), ["1234567"], "with its end it fits");
    }

    #[test]
    fn a_hundred_megabytes_of_garbage_cost_no_memory() {
        let mut framer = Framer::new(b"<msg>", b"</msg>", 64);
        let before = framer.capacity();
        let garbage: Vec<u8> = (0..=255_u8).cycle().take(100_000).collect();
        let mut seen = 0;
        for _ in 0..500 {
            framer.feed(&garbage, |_| seen += 1);
            framer.feed(b"<msg>", |_| seen += 1);
        }
        assert_eq!(framer.capacity(), before);
        assert_eq!(seen, 499, "each start without an end is cut off, by the next at the latest");
    }

    proptest! {
        #[test]
        fn how_bytes_are_cut_makes_no_difference(
            stream in proptest::collection::vec(prop_oneof![Just(b'#'), Just(b';'), Just(b'a'), any::<u8>()], 0..200),
            cuts in proptest::collection::vec(1_usize..20, 1..40),
        ) {
            let whole = found(&mut Framer::new(b"#a", b";a", 16), &[&stream]);
            let mut framer = Framer::new(b"#a", b";a", 16);
            let (mut rest, mut pieces) = (stream.as_slice(), Vec::new());
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (piece, after) = rest.split_at((*cut).min(rest.len()));
                pieces.extend(found(&mut framer, &[piece]));
                rest = after;
            }
            prop_assert_eq!(pieces, whole);
        }
    }
}
