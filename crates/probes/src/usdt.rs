//! Probes that a program's authors have put into it (USDT, `<sys/sdt.h>`): places with names that stay
//! the same from version to version. Each is a `nop`, described by a note in the file.

use std::collections::HashMap;
use std::path::Path;

use object::read::elf::{ElfFile64, SectionHeader};
use object::{Endian, Endianness, Object, ObjectSection};

use crate::addresses::file_offset;
use crate::error::ProbeError;
use crate::names::fits;
use crate::place::{Location, ProbeSite, instruction_kind};

/// What a place begins with that is such a probe: `postgres:usdt:postgresql:transaction__start`.
pub(crate) const PREFIX: &str = "usdt:";

/// Type of the notes.
const STAPSDT: u32 = 3;

/// One place of a probe, as its note has it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Note {
    provider: String,
    name: String,
    /// Where the `nop` is.
    address: u64,
    /// Where `.stapsdt.base` was when the note was written: a tool that moved the file's addresses
    /// later (prelink) did not know of notes.
    base: u64,
    /// The address of a counter of observers, 0 without one: the program reads it before it
    /// computes arguments, and most programs skip the probe while it is zero.
    semaphore: u64,
}

impl Note {
    fn parse(endian: Endianness, text: &[u8]) -> Option<Self> {
        let (words, text) = text.split_first_chunk::<24>()?;
        let word = |number: usize| {
            let bytes = words[8 * number..8 * number + 8].try_into().unwrap_or_default();
            if endian.is_big_endian() {
                u64::from_be_bytes(bytes)
            } else {
                u64::from_le_bytes(bytes)
            }
        };
        let mut texts = text.split(|byte| *byte == 0);
        let mut text = || Some(String::from_utf8_lossy(texts.next()?).into_owned());
        let (provider, name) = (text()?, text()?);
        Some(Self { provider, name, address: word(0), base: word(1), semaphore: word(2) })
    }

    fn is(&self, wanted: &str) -> bool {
        match wanted.split_once(':') {
            Some((provider, name)) => fits(provider, &self.provider) && fits(name, &self.name),
            None => fits(wanted, &self.name),
        }
    }
}

/// Probes of a file, by `provider:name` or `name`; `*` stands for anything. One that is in several
/// places (a function that was built into its callers, one that was unrolled) is one.
pub(crate) fn probes(
    elf: &ElfFile64<'_, Endianness>,
    data: &[u8],
    path: &Path,
    wanted: &str,
) -> Result<Vec<ProbeSite>, ProbeError> {
    let notes = notes(elf, data);
    let base = elf.section_by_name(".stapsdt.base").map(|section| section.address());
    let mut places: Vec<ProbeSite> = Vec::new();
    let mut known: HashMap<(&str, &str), usize> = HashMap::new();
    for note in notes.iter().filter(|note| note.is(wanted)) {
        let moved = base.map_or(0, |base| base.wrapping_sub(note.base));
        let address = note.address.wrapping_add(moved);
        let missing = || ProbeError::NoCode { path: path.to_owned(), offset: address };
        let offset = file_offset(elf, address).ok_or_else(missing)?;
        let semaphore = (note.semaphore != 0).then(|| note.semaphore.wrapping_add(moved));
        let in_file = |address| {
            // Without it the program would skip the probe, and the user would not know why.
            let probe = || format!("{}:{}", note.provider, note.name);
            let missing = || ProbeError::NoSemaphore { path: path.to_owned(), probe: probe() };
            file_offset(elf, address).ok_or_else(missing)
        };
        let semaphore = semaphore.map(in_file).transpose()?;
        let index = *known.entry((&note.provider, &note.name)).or_insert(places.len());
        if let Some(place) = places.get_mut(index) {
            place.also.push(Location { offset, semaphore });
            continue;
        }
        let code = usize::try_from(offset).ok().and_then(|at| data.get(at..)).unwrap_or_default();
        let place = ProbeSite {
            path: path.to_owned(),
            offset,
            semaphore,
            also: Vec::new(),
            name: note.name.clone(),
            instruction: instruction_kind(code),
            may_unwind: false,
            may_switch_stacks: false,
        };
        places.push(place);
    }
    if places.is_empty() {
        let mut has: Vec<String> =
            notes.iter().map(|note| format!("{}:{}", note.provider, note.name)).collect();
        has.sort();
        has.dedup();
        let (path, probe) = (path.to_owned(), wanted.to_owned());
        return Err(ProbeError::NoProbe { path, probe, has });
    }
    Ok(places)
}

fn notes(elf: &ElfFile64<'_, Endianness>, data: &[u8]) -> Vec<Note> {
    let endian = elf.endian();
    let Some(section) = elf.section_by_name(".note.stapsdt") else { return Vec::new() };
    let Ok(Some(mut notes)) = section.elf_section_header().notes(endian, data) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    // Behind one that cannot be read there may be anything.
    while let Ok(Some(note)) = notes.next() {
        if note.name() == b"stapsdt" && note.n_type(endian) == STAPSDT {
            found.extend(Note::parse(endian, note.desc()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_as_sys_sdt_h_writes_it() {
        // .8byte location, base, semaphore; .asciz provider, name, arguments
        let mut text: Vec<u8> = [0x1e_1f28_u64, 0x79_2ea0, 0x88_5988]
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        text.extend(b"postgresql\0transaction__start\x004@%ebx\0");
        let note = Note::parse(Endianness::Little, &text).unwrap();
        assert_eq!((note.address, note.base, note.semaphore), (0x1e_1f28, 0x79_2ea0, 0x88_5988));
        assert_eq!((&*note.provider, &*note.name), ("postgresql", "transaction__start"));
        for (wanted, is) in [
            ("postgresql:transaction__start", true),
            ("transaction__start", true),
            ("*:trans*", true),
            ("transaction", false),
            ("mysql:transaction__start", false),
        ] {
            assert_eq!(note.is(wanted), is, "{wanted}");
        }
        assert_eq!(Note::parse(Endianness::Little, &text[..23]), None);
    }
}
