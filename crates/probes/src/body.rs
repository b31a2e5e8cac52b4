//! Bodies of functions: at which instructions they end.

use std::ops::Range;

use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSymbol, SymbolKind};

use crate::addresses::{code_at, file_offset};
use crate::code::{Piece, ways_out};
use crate::error::ProbeError;
use crate::go;
use crate::place::{InstructionKind, ProbeSite, instruction_kind};

/// Where a function ends, for probes at these instructions instead of a return probe. Its stack
/// stays unchanged, so that it may be unwound and moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Body {
    /// Bytes from the file's beginning, and what stands there.
    pub(crate) ends: Vec<(u64, InstructionKind)>,
    /// Jumps that may or may not leave it: there is no probe at them.
    pub unsure: usize,
}

impl Body {
    /// Does the kernel single-step an instruction at which it ends?
    pub fn is_stepped(&self) -> bool {
        self.ends.iter().any(|(_, kind)| *kind == InstructionKind::Stepped)
    }
}

/// Bodies of functions, in their order.
pub fn function_bodies(places: &[&ProbeSite]) -> Result<Vec<Body>, ProbeError> {
    let mut bodies = Vec::new();
    // Places of a file follow one another.
    for same in places.chunk_by(|one, other| one.path == other.path) {
        let path = &same[0].path;
        let data = crate::read::elf_file(path)
            .map_err(|source| ProbeError::Unreadable { path: path.clone(), source })?;
        let elf = crate::read::parsed(path, &data)?;
        let functions = functions(&elf);
        for place in same {
            bodies.push(body(&elf, &data, &functions, place)?);
        }
    }
    Ok(bodies)
}

/// A function and what belongs to it.
struct Function {
    name: String,
    range: Range<u64>,
    is_go: bool,
}

fn functions(elf: &ElfFile64<'_, Endianness>) -> Vec<Function> {
    let symbols = elf.symbols().chain(elf.dynamic_symbols());
    let named = symbols
        .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0)
        .filter_map(|symbol| {
            let range = symbol.address()..symbol.address().checked_add(symbol.size())?;
            Some(Function { name: symbol.name().ok()?.to_owned(), range, is_go: false })
        });
    let of_go = go::table(elf).and_then(|table| go::functions(elf, table)).unwrap_or_default();
    let of_go =
        of_go.into_iter().map(|it| Function { name: it.name, range: it.range, is_go: true });
    // Go's are named by ELF, too.
    of_go.chain(named).collect()
}

/// The word at an address, as the loader will have put it there.
fn word_at(elf: &ElfFile64<'_, Endianness>, data: &[u8], address: u64) -> Option<u64> {
    let word = code_at(elf, data, &(address..address.checked_add(8)?))?;
    let word = u64::from_le_bytes(word.try_into().ok()?);
    if word != 0 {
        return Some(word);
    }
    // In a program that may be at any address.
    let mut moved = elf.dynamic_relocations()?;
    moved.find(|(at, _)| *at == address).map(|(_, it)| it.addend().cast_unsigned())
}

fn body(
    elf: &ElfFile64<'_, Endianness>,
    data: &[u8],
    functions: &[Function],
    place: &ProbeSite,
) -> Result<Body, ProbeError> {
    let function = functions.iter().find(|function| {
        file_offset(elf, function.range.start).is_some_and(|begin| {
            (begin..begin + (function.range.end - function.range.start)).contains(&place.offset)
        })
    });
    let named = || (place.path.clone(), place.name.clone());
    let function = function.ok_or_else(|| {
        let (path, name) = named();
        ProbeError::NoLength { path, name }
    })?;
    // GCC and clang move what is seldom needed to `NAME.cold`.
    let cold = format!("{}.cold", function.name);
    let moved = functions.iter().filter(|other| other.name.starts_with(&cold));
    let ranges = std::iter::once(function).chain(moved).map(|function| &function.range);
    let pieces: Option<Vec<Piece<'_>>> = ranges
        .map(|range| Some(Piece { address: range.start, code: code_at(elf, data, range)? }))
        .collect();
    let understood = pieces.and_then(|pieces| {
        let begin = function.range.start + place.offset - file_offset(elf, function.range.start)?;
        // Go passes its entries twice.
        let first = if function.is_go { begin } else { function.range.start };
        let ways = ways_out(&(first..=begin), &pieces, |at| word_at(elf, data, at)).ok()?;
        let end = |at: &u64| {
            let offset = file_offset(elf, *at)?;
            let code = data.get(usize::try_from(offset).ok()?..)?;
            Some((offset, instruction_kind(code)))
        };
        let ends = ways.at.iter().map(end).collect::<Option<_>>()?;
        Some(Body { ends, unsure: ways.unsure })
    });
    understood.ok_or_else(|| {
        let (path, name) = named();
        ProbeError::NotUnderstood { path, name }
    })
}
