//! Reads files that others have named: a watched process may map or name anything.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use object::Endianness;
use object::read::elf::ElfFile64;
use rustix::fs::OFlags;

use crate::error::ProbeError;

/// Reads what `elf_file` gave.
pub(crate) fn parsed<'a>(
    path: &Path,
    data: &'a [u8],
) -> Result<ElfFile64<'a, Endianness>, ProbeError> {
    ElfFile64::parse(data).map_err(|error| {
        let why = script_for(data).map_or_else(
            || error.to_string(),
            |program| format!("it is a script: name the program that runs it, `{program}`"),
        );
        ProbeError::NotElf { path: path.to_owned(), why }
    })
}

/// The program that a script names in its first line.
fn script_for(data: &[u8]) -> Option<String> {
    let line = data.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let line = String::from_utf8_lossy(line);
    let mut words = line.split_whitespace();
    let program = words.next()?;
    // `#!/usr/bin/env -S python3 -u`
    let by_env = words.find(|word| !word.starts_with('-')).filter(|_| program.ends_with("/env"));
    Some(by_env.unwrap_or(program).to_owned())
}

/// Longer files are no programs. The largest debug files take some 2 GB.
const MOST: u64 = 4 << 30;

/// All of a program, library or debug file. What is no regular file (a FIFO would be waited for, a
/// device has no end) and what is too long is refused.
pub(crate) fn elf_file(path: &Path) -> io::Result<Vec<u8>> {
    at_most(path, MOST)
}

fn at_most(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    // Some devices do something when they are opened; and another file may take the name meanwhile.
    only_regular(&fs::metadata(path)?)?;
    let flags = (OFlags::NONBLOCK | OFlags::CLOEXEC).bits().cast_signed();
    let file: File = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let found = file.metadata()?;
    only_regular(&found)?;
    let mut data = Vec::new();
    if found.len() <= most {
        // It may grow while it is read.
        file.take(most + 1).read_to_end(&mut data)?;
    }
    if found.len() > most || data.len() as u64 > most {
        let why = format!("it is longer than {} MiB", most >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    Ok(data)
}

fn only_regular(found: &fs::Metadata) -> io::Result<()> {
    let no_file = || io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file");
    if found.is_file() { Ok(()) } else { Err(no_file()) }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_script_is_told_with_the_program_that_runs_it() {
        for (text, program) in [
            ("#!/bin/sh\necho hi\n", "/bin/sh"),
            ("#! /usr/bin/env -S python3 -u\n", "python3"),
            ("#!/usr/bin/perl -w", "/usr/bin/perl"),
        ] {
            let error = parsed(Path::new("./it"), text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains("script") && error.contains(&format!("`{program}`")), "{error}");
        }
        let error = parsed(Path::new("./it"), b"GIF89a").unwrap_err().to_string();
        assert!(!error.contains("script"), "{error}");
    }

    #[test]
    fn what_has_no_end_or_is_waited_for_is_refused() {
        assert!(elf_file(Path::new("/dev/zero")).is_err());
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        assert_eq!(elf_file(&fifo).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        let long = folder.path().join("long");
        File::create(&long).unwrap().set_len(MOST + 1).unwrap();
        assert_eq!(elf_file(&long).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        fs::write(&long, "1234").unwrap();
        assert_eq!(at_most(&long, 4).unwrap(), b"1234");
        assert_eq!(at_most(&long, 3).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    }
}
