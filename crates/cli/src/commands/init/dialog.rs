//! Questions and answers.

use std::io::{BufRead, Write};

use crate::errors::Failure;
use crate::output;

/// A longer line is not accepted as an answer.
const LONGEST: u64 = 4096;

/// Asks on stderr and reads from `input`; or asks nothing and uses the proposals.
pub(super) struct Dialog<R> {
    input: R,
    silent: bool,
}

impl<R: BufRead> Dialog<R> {
    pub(super) const fn new(input: R, silent: bool) -> Self {
        Self { input, silent }
    }

    /// Returns the answer to a question: the value of `option` if given on the command line, else what the user types;
    /// an empty line accepts the proposal. Asks again if `read` rejects what was typed.
    pub(super) fn ask<T>(
        &mut self,
        question: &str,
        option: &str,
        said: Option<&str>,
        proposed: Option<&str>,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<T, Failure> {
        let wrong = |text: String| Failure::new(format!("{option}: {text}")).into_usage();
        if let Some(said) = said {
            return read(said.trim()).map_err(wrong);
        }
        if self.silent {
            let Some(proposed) = proposed else {
                let text = format!("`--yes` asks no questions, and `{option}` is missing");
                return Err(Failure::new(text)
                    .into_usage()
                    .hint("`nightwatt init --help` has examples"));
            };
            return read(proposed).map_err(wrong);
        }
        let mark = match proposed {
            Some("") => " [any] ".to_owned(),
            Some(proposed) => format!(" [{proposed}] "),
            None => " ".to_owned(),
        };
        loop {
            let _ = write!(std::io::stderr(), "{question}{mark}");
            let answer = self.line()?;
            let read = match std::str::from_utf8(&answer).map(str::trim) {
                Ok("") => read(proposed.unwrap_or_default()),
                Ok(answer) => read(answer),
                Err(_) => Err("this is not text in UTF-8: type it again".to_owned()),
            };
            match read {
                Ok(answer) => return Ok(answer),
                Err(text) => output::complain(&format!("     {text}")),
            }
        }
    }

    fn line(&mut self) -> Result<Vec<u8>, Failure> {
        let mut line = Vec::new();
        let failed = |error: &std::io::Error| Failure::because("cannot read the answer", error);
        let mut part = std::io::Read::take(&mut self.input, LONGEST);
        let length = part.read_until(b'\n', &mut line).map_err(|error| failed(&error))?;
        if length == 0 {
            output::complain("");
            return Err(Failure::new(
                "the answers ended before the questions; nothing was written",
            )
            .hint("answer all of them, or give options and `--yes`"));
        }
        Ok(line)
    }
}
