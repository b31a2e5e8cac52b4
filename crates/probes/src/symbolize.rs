//! Which function of a file a place is in.

use std::collections::HashMap;
use std::path::Path;

use object::Endianness;
use object::read::elf::ElfFile64;

use crate::addresses::file_offset;
use crate::debug;
use crate::error::ProbeError;
use crate::go;
use crate::names::demangled;
use crate::place::ProbeSite;
use crate::read::{elf_file, parsed};

impl ProbeSite {
    /// Where the function begins that it is in, in bytes from the file's beginning; none where the file
    /// does not tell. A probe may be some bytes behind its function's beginning.
    pub fn function(&self) -> Result<Option<u64>, ProbeError> {
        let symbols = Symbols::read(&self.path)?;
        Ok(symbols.at(self.offset).map(|symbol| symbols.function(symbol).1))
    }
}

/// A function.
#[derive(Debug, Clone)]
struct Symbol {
    /// Bytes from the file's beginning.
    begin: u64,
    end: u64,
    /// As the linker knows it.
    name: String,
    /// The function that this is a part of, which the compiler has moved away.
    part_of: Option<usize>,
}

/// All functions of a file that have names.
#[derive(Debug, Clone, Default)]
pub(crate) struct Symbols(Vec<Symbol>);

impl Symbols {
    /// Of a program or library.
    pub(crate) fn read(path: &Path) -> Result<Self, ProbeError> {
        let data = elf_file(path)
            .map_err(|source| ProbeError::Unreadable { path: path.to_owned(), source })?;
        let elf = parsed(path, &data)?;
        let mut functions = debug::functions(&elf, path);
        if functions.is_stripped {
            functions.found.extend(of_go(&elf));
        }
        let functions = functions.found.into_iter();
        let mut found: Vec<(Symbol, (bool, usize, usize))> = functions
            .filter_map(|function| {
                let begin = file_offset(&elf, function.address)?;
                let (end, name) = (begin.saturating_add(function.size), function.name);
                // Of several names the one that is meant for others, and the plainest.
                let underscores = name.bytes().take_while(|byte| *byte == b'_').count();
                let plainness = (function.is_local, underscores, name.len());
                Some((Symbol { begin, end, name, part_of: None }, plainness))
            })
            .collect();
        found.sort_by(|(one, first), (other, second)| {
            (one.begin, first, &one.name).cmp(&(other.begin, second, &other.name))
        });
        found.dedup_by_key(|(symbol, _)| symbol.begin);
        let mut symbols = Self(found.into_iter().map(|(symbol, _)| symbol).collect());
        symbols.end_at_the_next();
        symbols.join_parts();
        Ok(symbols)
    }

    /// Functions written in assembler may say nothing of their length.
    fn end_at_the_next(&mut self) {
        for place in 0..self.0.len() {
            let next = self.0.get(place + 1).map(|next| next.begin);
            let symbol = &mut self.0[place];
            if symbol.end == symbol.begin {
                symbol.end = next.unwrap_or(symbol.begin.saturating_add(1));
            }
        }
    }

    fn join_parts(&mut self) {
        let names: HashMap<String, usize> =
            self.0.iter().enumerate().map(|(place, symbol)| (symbol.name.clone(), place)).collect();
        for symbol in &mut self.0 {
            let whole = symbol.name.split_once(".cold").map(|(whole, _)| whole);
            symbol.part_of = whole.and_then(|whole| names.get(whole)).copied();
        }
    }

    /// The function that a place is in, in bytes from the file's beginning.
    pub(crate) fn at(&self, offset: u64) -> Option<usize> {
        let behind = self.0.partition_point(|symbol| symbol.begin <= offset);
        let place = behind.checked_sub(1)?;
        let symbol = &self.0[place];
        (offset < symbol.end).then_some(symbol.part_of.unwrap_or(place))
    }

    /// Its name as its author wrote it, and where it begins.
    pub(crate) fn function(&self, place: usize) -> (String, u64) {
        self.0.get(place).map_or_else(Default::default, |it| (demangled(&it.name), it.begin))
    }
}

/// A stripped Go program has a table of its own.
fn of_go(elf: &ElfFile64<'_, Endianness>) -> Vec<debug::Function> {
    let found = go::table(elf).and_then(|table| go::functions(elf, table)).unwrap_or_default();
    let function = |it: go::GoFunction| debug::Function {
        name: it.name,
        address: it.range.start,
        size: it.range.end.saturating_sub(it.range.start),
        is_local: false,
    };
    found.into_iter().map(function).collect()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn knows(path: &Path, name: &str) -> bool {
        let symbols = Symbols::read(path).unwrap();
        (0..symbols.0.len()).any(|place| symbols.function(place).0 == name)
    }

    #[test]
    fn a_stripped_go_program_tells_its_functions() {
        if nightwatt_needs::program("go").is_none() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let (source, program) = (folder.path().join("prog.go"), folder.path().join("prog"));
        let text = "package main\n\n//go:noinline\nfunc work() { println(1) }\n\n\
                    func main() { work() }\n";
        std::fs::write(&source, text).unwrap();
        let mut go = Command::new("go");
        go.args(["build", "-ldflags=-s -w", "-o"]).arg(&program).arg(&source);
        let output = go.env("GOCACHE", folder.path().join("cache")).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert!(knows(&program, "main.work"));
    }
}
