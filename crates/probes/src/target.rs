//! Places in programs as users write them: `./prog:work`, `nginx:ngx_http_*`, `libc.so.6:0x28000`,
//! `postgres:usdt:postgresql:transaction__start`.

use std::env;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::error::ProbeError;
use crate::usdt;

/// Where libraries are, where no path is given; the loader's cache knows no others on most systems.
const LIBRARIES: [&str; 6] =
    ["/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"];

/// A place, as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Point {
    /// The program or library.
    pub program: String,
    /// A function's name or a pattern; empty where `offset` is an address; `usdt:` and a probe's name.
    pub symbol: String,
    /// Bytes behind the function's beginning, or the address in the file's own count.
    pub offset: u64,
}

impl Point {
    /// The USDT probe that it is.
    pub fn usdt(&self) -> Option<&str> {
        self.symbol.strip_prefix(usdt::PREFIX)
    }
}

impl FromStr for Point {
    type Err = ProbeError;

    fn from_str(text: &str) -> Result<Self, ProbeError> {
        let wrong = |why| ProbeError::Syntax { text: text.to_owned(), why };
        // C++ has colons of its own: the first single one divides.
        let single = |&(at, _): &(usize, &str)| {
            !text[at + 1..].starts_with(':') && !text[..at].ends_with(':')
        };
        let colon = text.match_indices(':').find(single).map(|(at, _)| at);
        let (program, place) = colon
            .map(|at| (&text[..at], &text[at + 1..]))
            .ok_or_else(|| wrong("there is no `:` between program and function"))?;
        if program.is_empty() {
            return Err(wrong("it begins with the program's name or path"));
        }
        if place.is_empty() {
            return Err(wrong("behind the `:` comes a function or an address"));
        }
        if place.starts_with(usdt::PREFIX) {
            // A name of its own, with nothing to be added.
            let symbol = place.to_owned();
            return Ok(Self { program: program.to_owned(), symbol, offset: 0 });
        }
        if let Some(address) = place.strip_prefix("0x") {
            let offset = u64::from_str_radix(address, 16)
                .map_err(|_| wrong("behind 0x come hexadecimal digits"))?;
            return Ok(Self { program: program.to_owned(), symbol: String::new(), offset });
        }
        // `operator+` and the like have no number behind them.
        let (symbol, offset) = match place.rsplit_once('+').map(|(symbol, it)| (symbol, number(it)))
        {
            Some((symbol, Some(offset))) if !symbol.is_empty() => (symbol, offset),
            _ => (place, 0),
        };
        Ok(Self { program: program.to_owned(), symbol: symbol.to_owned(), offset })
    }
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// The file that a program's or library's name stands for.
pub fn resolve_file(program: &str) -> Result<PathBuf, ProbeError> {
    let missing = || ProbeError::NoFile(program.to_owned());
    if program.contains('/') {
        let path = Path::new(program);
        return path.is_file().then(|| path.to_owned()).ok_or_else(missing);
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(LIBRARIES.iter().map(PathBuf::from));
    folders.map(|folder| folder.join(program)).find(|file| file.is_file()).ok_or_else(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(text: &str) -> (String, String, u64) {
        let point: Point = text.parse().unwrap();
        (point.program, point.symbol, point.offset)
    }

    #[test]
    fn places_are_read_as_they_are_written() {
        let owned =
            |program: &str, symbol: &str, offset| (program.to_owned(), symbol.to_owned(), offset);
        assert_eq!(point("./prog:work"), owned("./prog", "work", 0));
        assert_eq!(point("./prog:work+0x10"), owned("./prog", "work", 16));
        assert_eq!(point("libc.so.6:0x28a90"), owned("libc.so.6", "", 0x28a90));
        assert_eq!(point("prog:a::b<c>::d"), owned("prog", "a::b<c>::d", 0));
        assert_eq!(point("prog:Vector::operator+"), owned("prog", "Vector::operator+", 0));
        assert_eq!(point("prog:ns::*"), owned("prog", "ns::*", 0));
        assert_eq!(point("prog:usdt:tests:a__b"), owned("prog", "usdt:tests:a__b", 0));
        assert_eq!("prog:usdt:tests:a__b".parse::<Point>().unwrap().usdt(), Some("tests:a__b"));
        assert_eq!("prog:usdt".parse::<Point>().unwrap().usdt(), None);
    }

    #[test]
    fn what_names_no_place_is_refused_with_a_reason() {
        for text in ["prog", ":work", "prog:", "prog:0xzz", "a::b"] {
            let error = text.parse::<Point>().unwrap_err();
            assert!(matches!(error, ProbeError::Syntax { .. }), "{text}: {error}");
        }
    }
}
