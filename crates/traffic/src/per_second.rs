//! How many requests came in each second: of access logs, or as written in a file of counts.
//!
//! A file of counts is text, packed or not: whole numbers with white space between them, one for each
//! second from the first on. (So is the Internet Traffic Archive's log of NASA passed on.)

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use crate::counts::Counts;
use crate::decompress::Unpacked;
use crate::error::{Error, folder_name};
use crate::line_parser::Reading;
use crate::reader::LogReader;

/// Longest time that is counted, in seconds: 400 days. It takes 138 MB.
const MOST_SECONDS: usize = 400 * 86_400;

/// Bytes of a file that tell whether it holds counts.
const LOOK: usize = 4096;

/// Requests of each second of one or more logs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PerSecond {
    /// From the first request's second to the last one's.
    pub counts: Vec<u32>,
    /// The first second since 1970; 0 for a file of counts.
    pub begins: i64,
    /// What the lines of access logs were.
    pub lines: Counts,
}

impl PerSecond {
    /// All requests.
    pub fn requests(&self) -> u64 {
        self.counts.iter().map(|count| u64::from(*count)).sum()
    }

    /// Adds those of a log in any format that [`LogReader`] reads, or of a file of counts.
    pub fn add_file(&mut self, path: impl AsRef<Path>, reading: &Reading) -> Result<(), Error> {
        let path = path.as_ref();
        let name = path.display().to_string();
        if path != Path::new("-") {
            let file =
                File::open(path).map_err(|source| Error::Open { name: name.clone(), source })?;
            if file.metadata().is_ok_and(|it| it.is_dir()) {
                return Err(Error::Folder { name: folder_name(&name) });
            }
            if is_counts(file) {
                let file = File::open(path)
                    .map_err(|source| Error::Open { name: name.clone(), source })?;
                return self.add_counts(&name, file);
            }
        }
        self.add_log(&mut LogReader::open(path)?.with_reading(reading))
    }

    /// Adds those of a log.
    pub fn add_log(&mut self, log: &mut LogReader) -> Result<(), Error> {
        while let Some(record) = log.next_record()? {
            let at = record.at.secs();
            self.add(at).ok_or_else(|| Error::TooLong { name: log.name().to_owned() })?;
        }
        if let Some(refusal) = log.refusal() {
            return Err(refusal);
        }
        self.lines.merge(log.counts());
        self.trim();
        Ok(())
    }

    /// Adds those of a file of counts, from its first second on.
    pub fn add_counts(
        &mut self,
        name: &str,
        source: impl Read + Send + 'static,
    ) -> Result<(), Error> {
        let read = |source| Error::reading(name.to_owned(), 0, source, false);
        let mut text = BufReader::new(Unpacked::new(source).map_err(read)?);
        let mut second = 0;
        let mut number: Option<u32> = None;
        loop {
            let bytes = text.fill_buf().map_err(read)?;
            let used = bytes.len();
            let ended = used == 0;
            for byte in bytes.iter().chain(ended.then_some(&b' ')) {
                if byte.is_ascii_digit() {
                    let digit = u32::from(byte - b'0');
                    number = Some(number.unwrap_or(0).saturating_mul(10).saturating_add(digit));
                } else if byte.is_ascii_whitespace() {
                    if let Some(count) = number.take() {
                        if second == MOST_SECONDS {
                            return Err(Error::TooLong { name: name.to_owned() });
                        }
                        self.add_at(second, count);
                        second += 1;
                    }
                } else {
                    let place = second as u64 + 1;
                    return Err(Error::NoCounts { name: name.to_owned(), place });
                }
            }
            if ended {
                return Ok(());
            }
            text.consume(used);
        }
    }

    /// A request in this second since 1970; `None` if it is too far from the others.
    fn add(&mut self, at: i64) -> Option<()> {
        if self.counts.is_empty() {
            self.begins = at;
        }
        if self.place(at).is_none() {
            // What was made for earlier seconds may not be needed.
            self.trim();
            self.place(at)?;
        }
        let second = usize::try_from(at - self.begins).ok()?;
        self.add_at(second, 1);
        Some(())
    }

    /// Makes a place for this second.
    fn place(&mut self, at: i64) -> Option<()> {
        let len = self.counts.len();
        if at < self.begins {
            // Rotated logs come in any order. Twice as long each time, so that a log that runs backwards
            // is not moved for each of its lines.
            let before = usize::try_from(self.begins.checked_sub(at)?).ok()?;
            let most = MOST_SECONDS.checked_sub(len).filter(|most| before <= *most)?;
            let room = before.max(len).min(most);
            self.begins = self.begins.checked_sub(i64::try_from(room).ok()?)?;
            self.counts.splice(..0, std::iter::repeat_n(0, room));
        }
        usize::try_from(at.checked_sub(self.begins)?)
            .ok()
            .filter(|second| *second < MOST_SECONDS)
            .map(drop)
    }

    /// From the first request on.
    fn trim(&mut self) {
        let first = self.counts.iter().position(|count| *count > 0).unwrap_or(0);
        self.counts.drain(..first);
        // At most 400 days.
        self.begins = self.begins.saturating_add_unsigned(first as u64);
    }

    fn add_at(&mut self, second: usize, count: u32) {
        if second >= self.counts.len() {
            self.counts.resize(second + 1, 0);
        }
        self.counts[second] = self.counts[second].saturating_add(count);
    }
}

/// Numbers and white space at the beginning, and both: no access log begins so.
fn is_counts(file: File) -> bool {
    let Ok(text) = Unpacked::new(file) else { return false };
    let mut begin = Vec::with_capacity(LOOK);
    // What fails here fails again where it is said.
    let _ = text.take(LOOK as u64).read_to_end(&mut begin);
    begin.iter().all(|byte| byte.is_ascii_digit() || byte.is_ascii_whitespace())
        && begin.iter().any(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(lines: &str) -> LogReader {
        LogReader::new("log", std::io::Cursor::new(lines.to_owned())).unwrap()
    }

    fn line(time: &str) -> String {
        format!("::1 - - [03/Mar/2012:{time} +0000] \"GET / HTTP/1.1\" 200 12\n")
    }

    #[test]
    fn requests_of_a_second_are_counted_whatever_the_order() {
        let mut seconds = PerSecond::default();
        let late = [line("06:00:05"), line("06:00:03"), "rubbish\n".to_owned()].concat();
        seconds.add_log(&mut log(&late)).unwrap();
        let early = [line("06:00:01"), line("06:00:03")].concat();
        seconds.add_log(&mut log(&early)).unwrap();
        assert_eq!((seconds.counts.as_slice(), seconds.lines.malformed), (&[1, 0, 2, 0, 1][..], 1));
        // 2012-03-03T06:00:01Z.
        assert_eq!((seconds.begins, seconds.requests()), (1_330_754_401, 4));
    }

    #[test]
    fn a_log_that_runs_backwards_is_counted_as_one_that_does_not() {
        let lines: Vec<String> = (0..60).map(|it| line(&format!("06:00:{it:02}"))).collect();
        let told = |lines: &[String]| {
            let mut seconds = PerSecond::default();
            seconds.add_log(&mut log(&lines.concat())).unwrap();
            seconds
        };
        let backwards: Vec<String> = lines.iter().rev().cloned().collect();
        assert_eq!(told(&lines), told(&backwards));
        assert_eq!(told(&backwards).counts, [1; 60]);
    }

    #[test]
    fn a_file_of_counts_is_numbers_and_white_space() {
        let add = |text: &'static str| {
            let mut seconds = PerSecond::default();
            seconds.add_counts("f", text.as_bytes()).map(|()| seconds.counts)
        };
        assert_eq!(add("1 0\n12\t3").unwrap(), [1, 0, 12, 3]);
        assert_eq!(add("").unwrap(), [0; 0]);
        let wrong = add("1 0 x 3").unwrap_err().to_string();
        assert!(wrong.contains("entry 3"), "{wrong}");
        assert_eq!(add("99999999999").unwrap(), [u32::MAX]);
    }

    #[test]
    fn a_log_of_more_than_400_days_is_refused_in_either_order() {
        let line = |year: u32| {
            format!("::1 - - [03/Mar/{year}:06:00:00 +0000] \"GET / HTTP/1.1\" 200 12\n")
        };
        for years in [[2012, 2014], [2014, 2012]] {
            let two = years.map(line).concat();
            let wrong = PerSecond::default().add_log(&mut log(&two)).unwrap_err();
            assert!(matches!(wrong, Error::TooLong { .. }), "{wrong}");
        }
    }

    #[test]
    fn what_a_file_holds_is_told_by_its_beginning() {
        let file = |text: &str| {
            let mut file = tempfile::tempfile().unwrap();
            std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
            std::io::Seek::rewind(&mut file).unwrap();
            file
        };
        assert!(is_counts(file("0 1\n 2")));
        assert!(!is_counts(file(" ")) && !is_counts(file(&line("06:00:00"))));
    }
}
