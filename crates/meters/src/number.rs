//! Numbers in small files of `/sys`, read again and again without opening or allocating.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::error::MeterError;

/// An open file that holds one whole number.
#[derive(Debug)]
pub(crate) struct NumberFile {
    file: File,
    path: PathBuf,
}

impl NumberFile {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { file: File::open(path)?, path: path.to_owned() })
    }

    /// The number that it holds now. A file that cannot be read is opened again: its device may have
    /// been away.
    pub(crate) fn read(&mut self) -> Result<i64, MeterError> {
        self.number().or_else(|_| {
            self.file = File::open(&self.path).map_err(|error| self.failed(error))?;
            self.number()
        })
    }

    fn number(&self) -> Result<i64, MeterError> {
        let mut text = [0; 32];
        let length = self.file.read_at(&mut text, 0).map_err(|error| self.failed(error))?;
        let digits = text[..length].trim_ascii();
        parse(digits).ok_or_else(|| {
            let what = format!("`{}` in {}", digits.escape_ascii(), self.path.display());
            self.failed(io::Error::new(io::ErrorKind::InvalidData, what))
        })
    }

    fn failed(&self, error: io::Error) -> MeterError {
        MeterError::reading(&self.path, error)
    }
}

/// A whole number, and nothing else; `None` if it does not fit.
fn parse(digits: &[u8]) -> Option<i64> {
    let (negative, digits) = match digits {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if digits.is_empty() {
        return None;
    }
    let magnitude = digits.iter().try_fold(0_i64, |number, digit| {
        let digit = digit.is_ascii_digit().then(|| i64::from(digit - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })?;
    Some(if negative { -magnitude } else { magnitude })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_read_and_nothing_else() {
        for (text, number) in [
            ("0", 0),
            ("262143328850", 262_143_328_850),
            ("-12", -12),
            ("9223372036854775807", i64::MAX),
        ] {
            assert_eq!(parse(text.as_bytes()), Some(number));
        }
        for text in ["", "-", "1.5", "0x10", "9223372036854775808", "1 2"] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }
}
