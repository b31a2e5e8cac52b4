//! Functions in ELF files: names to places.

use std::collections::HashSet;
use std::ops::Range;
use std::path::Path;

use nightwatt_host::spelling::is_alike;
use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSection, ObjectSymbol};

use crate::addresses::{code_at, file_offset};
use crate::code::{Piece, behind_stack_check, first_unstepped, has_instruction_at};
use crate::debug;
use crate::error::ProbeError;
use crate::go::{self, GoFunction};
use crate::names::{Names, demangled, fits};
use crate::place::{InstructionKind, ProbeSite, instruction_kind};
use crate::read::{elf_file, parsed};
use crate::target::{Point, resolve_file};
use crate::usdt;

/// Functions that one pattern may fit.
const MOST: usize = 64;

/// Functions that the C compiler adds to every program: a pattern does not mean them, their name does.
const OF_THE_RUNTIME: [&str; 13] = [
    "_start",
    "_init",
    "_fini",
    "_dl_relocate_static_pie",
    "__libc_csu_init",
    "__libc_csu_fini",
    "__do_global_dtors_aux",
    "__do_global_ctors_aux",
    "deregister_tm_clones",
    "register_tm_clones",
    "frame_dummy",
    "atexit",
    "__stack_chk_fail_local",
];

/// Names told where none fits.
const TOLD: usize = 3;

/// All functions, or USDT probes, that a point names.
pub fn function_entries(point: &Point) -> Result<Vec<ProbeSite>, ProbeError> {
    let path = resolve_file(&point.program)?;
    let data =
        elf_file(&path).map_err(|source| ProbeError::Unreadable { path: path.clone(), source })?;
    let elf = parsed(&path, &data)?;
    if let Some(probe) = point.usdt() {
        return usdt::probes(&elf, &data, &path, probe);
    }
    let of_go = go::table(&elf).map(|table| go::functions(&elf, table).unwrap_or_default());
    let symbols = debug::functions(&elf, &path);
    let program = Program { elf: &elf, data: &data, path: &path, symbols: &symbols, of_go };
    let found = if point.symbol.is_empty() {
        vec![(format!("{:#x}", point.offset), 0)]
    } else {
        program.matching(&point.symbol)?
    };
    if point.offset > 0 {
        for (_, address) in &found {
            program.is_instruction(address + point.offset)?;
        }
    }
    // What is to be done on the way of an exception: C, Go and Fortran have no such tables.
    let table = elf.section_by_name(".gcc_except_table");
    let may_unwind = table.is_some_and(|table| table.size() > 0);
    let may_switch_stacks = switches_stacks(&elf);
    let place = |(name, address): (String, u64)| {
        let address = address + point.offset;
        let is_entry = point.offset == 0 || point.symbol.is_empty();
        let behind = if is_entry { program.behind_entry(address) } else { 0 };
        let offset = file_offset(&elf, address + behind)
            .ok_or_else(|| ProbeError::NoCode { path: path.clone(), offset: address })?;
        let code = usize::try_from(offset).ok().and_then(|at| data.get(at..)).unwrap_or_default();
        let name = match point.offset {
            offset if offset > 0 && !point.symbol.is_empty() => format!("{name}+{offset:#x}"),
            _ => name,
        };
        let instruction = instruction_kind(code);
        Ok(ProbeSite {
            path: path.clone(),
            offset,
            semaphore: None,
            also: Vec::new(),
            name,
            instruction,
            may_unwind,
            may_switch_stacks,
        })
    };
    found.into_iter().map(place).collect()
}

/// Keeps what a name or pattern means of all that it fits.
fn keep_those_meant(wanted: &str, found: &mut Vec<(Names, u64)>) {
    // `F::operator*` is a name, and a pattern that others fit.
    if found.iter().any(|(names, _)| names.is(wanted)) {
        found.retain(|(names, _)| names.is(wanted));
    }
    let is_of_the_runtime = |names: &Names| OF_THE_RUNTIME.contains(&&*names.whole);
    if wanted.contains('*') && !found.iter().all(|(names, _)| is_of_the_runtime(names)) {
        found.retain(|(names, _)| !is_of_the_runtime(names));
    }
}

/// What is known of a program.
struct Program<'a> {
    elf: &'a ElfFile64<'a, Endianness>,
    data: &'a [u8],
    path: &'a Path,
    symbols: &'a debug::Functions,
    /// Of Go's own table, in a program of Go's.
    of_go: Option<Vec<GoFunction>>,
}

impl Program<'_> {
    fn of_go(&self) -> &[GoFunction] {
        self.of_go.as_deref().unwrap_or_default()
    }

    /// A probe within an instruction changes it into another one: only what begins one is taken, as far as
    /// the function is known that it is in.
    fn is_instruction(&self, address: u64) -> Result<(), ProbeError> {
        let named = self.symbols.found.iter().map(|function| {
            let range = function.address..function.address.saturating_add(function.size);
            (&function.name, range)
        });
        let by_go = self.of_go().iter().map(|function| (&function.name, function.range.clone()));
        let around: Vec<_> = named.chain(by_go).filter(|(_, it)| it.contains(&address)).collect();
        let begins_one = |range: &Range<u64>| {
            self.piece(range).is_some_and(|piece| has_instruction_at(piece, address))
        };
        match around.first() {
            Some((name, range)) if !around.iter().any(|(_, range)| begins_one(range)) => {
                Err(ProbeError::NoInstruction {
                    path: self.path.to_owned(),
                    address,
                    name: demangled(name),
                    behind: address - range.start,
                })
            }
            _ => Ok(()),
        }
    }

    fn piece(&self, range: &Range<u64>) -> Option<Piece<'_>> {
        let code = code_at(self.elf, self.data, range)?;
        Some(Piece { address: range.start, code })
    }

    /// Functions by name, as it stands in the file or as its author wrote it; `*` stands for anything.
    fn matching(&self, wanted: &str) -> Result<Vec<(String, u64)>, ProbeError> {
        let (symbols, of_go) = (self.symbols, self.of_go.as_deref());
        let named = symbols
            .found
            .iter()
            .map(|function| (&*function.name, function.address))
            // Parts that a compiler has moved away are jumped to, not called: where a return probe
            // would write the return address, there is a variable.
            .filter(|(name, _)| !name.contains(".cold"));
        // A stripped Go program has a table of its own.
        let by_go = of_go.filter(|_| symbols.is_stripped).unwrap_or_default();
        // What assembly calls by another convention, and what that calls. Only symbols tell it from what
        // else is written in assembly.
        let of_assembly =
            |name: &str| name.strip_suffix(".abi0").filter(|_| of_go.is_some()).map(str::to_owned);
        let is_assembly = by_go.iter().any(|it| it.is_assembly && fits(wanted, &it.name))
            || symbols
                .found
                .iter()
                .any(|it| of_assembly(&it.name).is_some_and(|it| fits(wanted, &it)));
        let by_go = by_go.iter().filter(|function| !function.is_assembly);
        let by_go = by_go.map(|function| (&*function.name, function.range.start));
        let functions: Vec<(&str, u64)> =
            named.chain(by_go).filter(|(name, _)| of_assembly(name).is_none()).collect();
        // `main.(*T).Work` is a name of Go's, and fits `main.(*Thing).Work` as a pattern.
        let exact = functions.iter().any(|(raw, _)| *raw == wanted);
        let functions = functions.into_iter().filter(|(raw, _)| !exact || *raw == wanted);
        let mut found: Vec<(Names, u64)> = Vec::new();
        let mut seen = HashSet::new();
        let mut like = Vec::new();
        for (raw, address) in functions {
            let known = Names::of(raw);
            if fits(wanted, raw) || known.fit(wanted) {
                // A function has several names, and stands in both tables.
                if seen.insert(address) {
                    found.push((known, address));
                }
            } else if like.len() < TOLD && known.whole.contains(wanted.trim_matches('*')) {
                like.push(known.whole);
            }
        }
        if found.is_empty() && like.is_empty() {
            like = self.misspelled(wanted);
        }
        if found.is_empty() && of_go.is_some() {
            let (path, symbol) = (self.path.to_owned(), wanted.to_owned());
            if is_assembly {
                return Err(ProbeError::GoAssembly { path, symbol });
            }
            return Err(ProbeError::NoGoSymbol { path, symbol, like });
        }
        if found.is_empty() {
            return Err(ProbeError::NoSymbol {
                path: self.path.to_owned(),
                symbol: wanted.to_owned(),
                like,
                stripped: symbols.is_stripped,
                looked: symbols.looked.clone(),
            });
        }
        keep_those_meant(wanted, &mut found);
        if found.len() > MOST {
            let pattern = wanted.to_owned();
            return Err(ProbeError::TooMany { pattern, found: found.len(), most: MOST });
        }
        found.sort_by_key(|(_, address)| *address);
        Ok(found.into_iter().map(|(names, address)| (names.whole, address)).collect())
    }

    /// Names of which this is probably a misspelling: as they are, or without what they are in.
    fn misspelled(&self, wanted: &str) -> Vec<String> {
        let names = self.symbols.found.iter().map(|function| Names::of(&function.name).whole);
        let is_meant = |name: &String| {
            let last = name.rsplit("::").next().unwrap_or_default();
            is_alike(wanted, name) || is_alike(wanted, last)
        };
        let mut meant: Vec<String> = names.filter(is_meant).collect();
        meant.sort();
        meant.dedup();
        meant.truncate(TOLD);
        meant
    }

    /// How far behind an address the probe has to be, if a function begins there, or may.
    fn behind_entry(&self, address: u64) -> u64 {
        if let Some(function) = self.of_go().iter().find(|it| it.range.start == address) {
            return self.piece(&function.range).map_or(0, behind_stack_check);
        }
        let named = &self.symbols.found;
        let function = named.iter().find(|it| it.address == address && it.size > 0);
        let behind = function.map_or(0, |function| {
            // GCC and clang move what is seldom needed to `NAME.cold`.
            let cold = format!("{}.cold", function.name);
            let moved = named.iter().filter(|other| other.name.starts_with(&cold));
            let ranges = std::iter::once(function).chain(moved);
            let ranges = ranges.map(|it| it.address..it.address.saturating_add(it.size));
            let pieces: Option<Vec<_>> = ranges.map(|range| self.piece(&range)).collect();
            first_unstepped(&pieces.unwrap_or_default())
        });
        if behind > 0 {
            return behind;
        }
        let begin = file_offset(self.elf, address).and_then(|begin| usize::try_from(begin).ok());
        begin.and_then(|begin| self.data.get(begin..)).map_or(0, behind_mark)
    }
}

/// What gives code a stack of its own.
const STACK_SWITCHES: [&[u8]; 4] = [b"sigaltstack", b"swapcontext", b"makecontext", b"setcontext"];

/// Does a program take these from a library? One that has no libraries has them itself.
fn switches_stacks(elf: &ElfFile64<'_, Endianness>) -> bool {
    let is_one = |name: &[u8]| STACK_SWITCHES.contains(&name);
    let named = |symbol: &object::read::elf::ElfSymbol64<'_, '_, Endianness>| {
        symbol.name_bytes().is_ok_and(is_one)
    };
    let mut taken = elf.dynamic_symbols().filter(ObjectSymbol::is_undefined);
    let is_static = elf.dynamic_symbols().next().is_none();
    taken.any(|symbol| named(&symbol)) || is_static && elf.symbols().any(|symbol| named(&symbol))
}

/// Compilers mark where indirect calls may lead (`-fcf-protection`).
const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];

/// How far behind the entry the first instruction is that the kernel need not step through, if there is
/// but a mark before it. It is a `push`: to no other would it do to be sure that no loop comes by it.
fn behind_mark(code: &[u8]) -> u64 {
    let behind = code.strip_prefix(&ENDBR64);
    let is_push = behind.is_some_and(|it| instruction_kind(it) == InstructionKind::Push);
    if is_push { ENDBR64.len() as u64 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_need_not_step_through_is_known() {
        // As measured on Linux 6.18: 0.3 us each for the first, 15 for the others.
        for (code, kind) in [
            (&[0x0f, 0x1f, 0x44, 0, 0][..], InstructionKind::Nop),
            (&[0x55], InstructionKind::Push),
            (&[0x41, 0x57], InstructionKind::Push),
            (&[0xeb, 0], InstructionKind::Jump),
            (&[0x74, 0], InstructionKind::Jump),
            (&[0x0f, 0x84, 0, 0, 0, 0], InstructionKind::Jump),
            (&ENDBR64, InstructionKind::Stepped),
            (&[0x48, 0x83, 0xec, 8], InstructionKind::Stepped),
            (&[0xc3], InstructionKind::Stepped),
        ] {
            assert_eq!(instruction_kind(code), kind, "{code:x?}");
        }
        // endbr64; push %rbp, and endbr64; xor %eax, %eax
        assert_eq!(behind_mark(&[0xf3, 0x0f, 0x1e, 0xfa, 0x55]), 4);
        assert_eq!(behind_mark(&[0xf3, 0x0f, 0x1e, 0xfa, 0x31, 0xc0]), 0);
        assert_eq!(behind_mark(&[0x55]), 0);
    }

    #[test]
    fn a_pattern_does_not_mean_what_the_compiler_adds() {
        let meant = |wanted: &str, names: &[&str]| -> Vec<String> {
            let mut found = names.iter().map(|name| (Names::of(name), 0)).collect();
            keep_those_meant(wanted, &mut found);
            found.into_iter().map(|(names, _)| names.whole).collect()
        };
        assert_eq!(meant("*", &["_start", "frame_dummy", "work", "main"]), ["work", "main"]);
        assert_eq!(meant("_start", &["_start"]), ["_start"], "asked for by name");
        assert_eq!(meant("_st*", &["_start"]), ["_start"], "nothing else fits");
    }

    #[test]
    fn a_program_finds_its_own_functions_and_says_what_is_like_a_missing_one() {
        let me = std::env::current_exe().unwrap().display().to_string();
        let point =
            |symbol: &str| Point { program: me.clone(), symbol: symbol.to_owned(), offset: 0 };
        let found = function_entries(&point("nightwatt_probes::find_functions::function_entries"));
        // Rust panics.
        assert!(matches!(&found.unwrap()[..], [place] if place.may_unwind));
        let missing = function_entries(&point("function_entrie")).unwrap_err();
        assert!(missing.to_string().contains("find_functions::function_entries"), "{missing}");
        let misspelled = function_entries(&point("funtcion_entries")).unwrap_err();
        assert!(misspelled.to_string().contains("is it one of"), "{misspelled}");
        assert!(misspelled.to_string().contains("function_entries"), "{misspelled}");
        assert!(misspelled.hint().is_some_and(|it| it.contains("nm -C")), "{misspelled}");
        let many = function_entries(&point("core::*"));
        assert!(matches!(many, Err(ProbeError::TooMany { .. })), "{many:?}");
    }
}
