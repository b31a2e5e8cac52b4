//! Programs written in Go: their functions, and where their runtime changes goroutines.
//!
//! Go's own table of functions (`.gopclntab`) is part of every program, stripped or not: its runtime
//! needs it to walk stacks.

use std::ops::Range;
use std::path::{Path, PathBuf};

use iced_x86::{Code, Instruction, Mnemonic, OpKind, Register};
use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSection, ObjectSymbol};

use crate::addresses::{code_at, file_offset};
use crate::code::{Piece, behind_stack_check, find};
use crate::error::ProbeError;

/// Names of the section with the table, in programs at fixed and at any addresses.
const TABLES: [&str; 2] = [".gopclntab", ".data.rel.ro.gopclntab"];

/// What the table begins with, from Go 1.18 and from 1.20 on.
const MAGIC: [u32; 2] = [0xffff_fff0, 0xffff_fff1];

/// And before: Go 1.2, 1.16.
const OLD_MAGIC: [u32; 2] = [0xffff_fffb, 0xffff_fffa];

/// Where a function's record has its flags, by the same, and the one of assembly (`funcFlagAsm`).
const FLAGS: [usize; 2] = [37, 41];
const ASSEMBLY: u8 = 1 << 2;

/// Where `text` stands in the runtime's own record of the program (`.go.module`, from Go 1.26 on).
const TEXT_IN_MODULE: usize = 22 * 8;

/// A function of a Go program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GoFunction {
    pub(crate) name: String,
    pub(crate) range: Range<u64>,
    /// Written in assembly: who knows where it has its arguments and the goroutine?
    pub(crate) is_assembly: bool,
}

/// Where in a Go program its runtime changes goroutines, in bytes from the file's beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GoRuntime {
    /// The program.
    pub path: PathBuf,
    /// A thread leaves the goroutine in its register `ax`.
    pub(crate) leaves: Vec<u64>,
    /// A thread goes on with the goroutine in `dx`; where, is what `bx` points to.
    pub(crate) comes: Vec<u64>,
    /// A goroutine is over.
    pub(crate) ends: Vec<u64>,
    /// What was compiled from Go.
    pub(crate) text: Range<u64>,
}

/// Is it a Go program?
pub(crate) fn table<'a>(elf: &ElfFile64<'a, Endianness>) -> Option<&'a [u8]> {
    let section = TABLES.iter().find_map(|name| elf.section_by_name(name))?;
    section.data().ok().filter(|data| !data.is_empty())
}

/// Its functions by its own table; none where that is of no form we know.
pub(crate) fn functions(elf: &ElfFile64<'_, Endianness>, table: &[u8]) -> Option<Vec<GoFunction>> {
    let named = elf.symbols().find(|symbol| symbol.name() == Ok("runtime.text"));
    let module = elf.section_by_name(".go.module").and_then(|section| section.data().ok());
    let in_module = || module.and_then(|module| word(module, TEXT_IN_MODULE));
    let text = named.map(|symbol| symbol.address());
    // In the table's head up to Go 1.25.
    let text = text.or_else(|| word(table, 24).filter(|text| *text > 0));
    let text = text.or_else(in_module).filter(|text| *text > 0);
    let text = text.or_else(|| elf.section_by_name(".text").map(|text| text.address()))?;
    parse(table, text)
}

/// The table's functions; `text` is what their addresses count from.
fn parse(table: &[u8], text: u64) -> Option<Vec<GoFunction>> {
    let magic = half(table, 0)?;
    let flags = FLAGS[MAGIC.iter().position(|it| *it == magic)?];
    if *table.get(7)? != 8 {
        return None;
    }
    let part = |number: usize| {
        let offset = usize::try_from(word(table, 8 + 8 * number)?).ok()?;
        table.get(offset..)
    };
    let count = usize::try_from(word(table, 8)?).ok()?;
    let (names, functions) = (part(3)?, part(7)?);
    let entry = |number: usize| Some(text + u64::from(half(functions, number.checked_mul(8)?)?));
    // Bounded by the table: what lies behind its end ends it.
    let one = |number: usize| {
        let record = functions.get(half(functions, 8 * number + 4)? as usize..)?;
        let name = names.get(half(record, 4)? as usize..)?;
        let name = name.split(|byte| *byte == 0).next()?;
        let name = String::from_utf8_lossy(name).into_owned();
        let is_assembly = record.get(flags)? & ASSEMBLY != 0;
        Some(GoFunction { name, range: entry(number)?..entry(number + 1)?, is_assembly })
    };
    (0..count).map(one).collect()
}

fn half(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

/// The runtime of a Go program; none of a program in another language.
pub fn go_runtime(path: &Path) -> Result<Option<GoRuntime>, ProbeError> {
    let data = crate::read::elf_file(path)
        .map_err(|source| ProbeError::Unreadable { path: path.to_owned(), source })?;
    let elf = crate::read::parsed(path, &data)?;
    let Some(table) = table(&elf) else { return Ok(None) };
    let unknown = |why: &'static str| ProbeError::UnknownGo { path: path.to_owned(), why };
    if half(table, 0).is_some_and(|magic| OLD_MAGIC.contains(&magic)) {
        return Err(unknown("its table of functions (of a Go before 1.18)"));
    }
    let functions = functions(&elf, table).ok_or_else(|| unknown("its table of functions"))?;
    let points = |name: &'static str, place: fn(Piece<'_>) -> Option<u64>| {
        let named = functions.iter().filter(|function| function.name == name);
        let at = named.filter_map(|function| {
            let code = code_at(&elf, &data, &function.range)?;
            file_offset(&elf, place(Piece { address: function.range.start, code })?)
        });
        let at: Vec<u64> = at.collect();
        if at.is_empty() { Err(unknown(name)) } else { Ok(at) }
    };
    let mut leaves = points("runtime.mcall", |code| find(code, is_push_of_goroutine))?;
    // Those that are asked to let go when they look at their stacks do not come by `mcall`.
    for name in ["runtime.goschedImpl", "runtime.preemptPark"] {
        leaves.extend(points(name, |code| Some(work_begins(code)))?);
    }
    let comes = points("runtime.gogo", |code| find(code, is_jump))?;
    let ends = points("runtime.goexit1", |code| Some(work_begins(code)))?;
    let text = functions.first().zip(functions.last());
    let text = text.and_then(|(first, last)| {
        let begin = file_offset(&elf, first.range.start)?;
        Some(begin..begin + (last.range.end - first.range.start))
    });
    let text = text.ok_or_else(|| unknown("its table of functions"))?;
    Ok(Some(GoRuntime { path: path.to_owned(), leaves, comes, ends, text }))
}

/// By then `mcall` has the goroutine in `ax`, and no other thread can have resumed it.
fn is_push_of_goroutine(instruction: &Instruction) -> bool {
    instruction.code() == Code::Push_r64 && instruction.op0_register() == Register::RAX
}

fn is_jump(instruction: &Instruction) -> bool {
    instruction.mnemonic() == Mnemonic::Jmp && instruction.op0_kind() == OpKind::NearBranch64
}

/// Its argument is in `ax` there as it was at the entry.
fn work_begins(code: Piece<'_>) -> u64 {
    code.address + behind_stack_check(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table of two functions, as Go 1.20 and later lay it out.
    fn table() -> Vec<u8> {
        let mut table = Vec::new();
        table.extend(0xffff_fff1_u32.to_le_bytes());
        table.extend([0, 0, 1, 8]);
        let (names, functions) = (72_u64, 96_u64);
        for word in [2, 0, 0x40_1000, names, 0, 0, 0, functions] {
            table.extend(u64::to_le_bytes(word));
        }
        table.extend(b"main.work\0main.(*T).Do\0\0");
        // Entries and places of records, then the end of the last.
        for half in [0_u32, 24, 0x40, 68, 0x60, 0] {
            table.extend(half.to_le_bytes());
        }
        // Entry, name, eight words, the line, the function's kind, its flags: the second is assembly.
        for (entry, name, flags) in [(0_u32, 0_u32, 3), (0x40, 10, 4)] {
            table.extend([entry.to_le_bytes(), name.to_le_bytes()].concat());
            table.extend([0; 33]);
            table.extend([flags, 0, 0]);
        }
        table
    }

    #[test]
    fn functions_are_read_as_go_names_them() {
        let function = |name: &str, range, is_assembly| GoFunction {
            name: name.to_owned(),
            range,
            is_assembly,
        };
        let expected = vec![
            function("main.work", 0x40_1000..0x40_1040, false),
            function("main.(*T).Do", 0x40_1040..0x40_1060, true),
        ];
        assert_eq!(parse(&table(), 0x40_1000), Some(expected));
    }

    #[test]
    fn a_table_that_is_cut_or_lies_gives_no_functions_and_no_panic() {
        let whole = table();
        for length in 0..whole.len() {
            let _ = parse(&whole[..length], 0);
        }
        for at in 0..whole.len() {
            let mut lies = whole.clone();
            lies[at] = 0xff;
            let _ = parse(&lies, 0);
        }
        let mut many = whole.clone();
        many[8..16].fill(0xff);
        assert_eq!(parse(&many, 0), None);
        let mut old = whole;
        old[0] = 0xfa;
        assert_eq!(parse(&old, 0), None);
    }
}
