//! Names of functions: in the file itself, or where a distribution has put them.
//!
//! As GDB looks for them (its manual, "Debugging Information in Separate Files"): by the file's build
//! identifier below `/usr/lib/debug/.build-id`, by the name in `.gnu_debuglink` beside the file, in
//! `.debug` there, and in the same folder below `/usr/lib/debug`. And as Fedora has them, packed within
//! the file (`.gnu_debugdata`, mini debug info).

use std::io::Read;
use std::path::{Path, PathBuf};

use lzma_rust2::XzReader;
use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSection, ObjectSymbol, SymbolKind};

use crate::read::elf_file;

/// Where distributions put debug files.
const ROOTS: [&str; 1] = ["/usr/lib/debug"];

/// What unpacking may take, KiB; xz at its best takes 65 MiB.
const XZ_KIB: u32 = 96 * 1024;

/// Names that are larger are no mini debug info. Fedora's largest take 5 MB.
const MOST_UNPACKED: u64 = 64 << 20;

/// A function as a table of symbols has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Function {
    /// As the linker knows it.
    pub(crate) name: String,
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) is_local: bool,
}

/// All of a file.
#[derive(Debug, Default)]
pub(crate) struct Functions {
    pub(crate) found: Vec<Function>,
    /// Its own table of symbols was stripped, and there is no other; those it has are for other
    /// files.
    pub(crate) is_stripped: bool,
    /// Where another might have been.
    pub(crate) looked: Vec<PathBuf>,
}

/// Functions of a program or library.
pub(crate) fn functions(elf: &ElfFile64<'_, Endianness>, path: &Path) -> Functions {
    functions_below(&ROOTS.map(PathBuf::from), elf, path)
}

fn functions_below(roots: &[PathBuf], elf: &ElfFile64<'_, Endianness>, path: &Path) -> Functions {
    let mut functions = Functions::default();
    functions.take(elf);
    if elf.symbols().next().is_some() {
        return functions;
    }
    for candidate in candidates(roots, elf, path) {
        let found = elf_file(&candidate).ok();
        if found.is_some_and(|data| functions.take_separate(&data, elf)) {
            return functions;
        }
        functions.looked.push(candidate);
    }
    let packed = unpacked(elf);
    functions.is_stripped = !packed.is_some_and(|data| functions.take_separate(&data, elf));
    functions
}

impl Functions {
    fn take(&mut self, elf: &ElfFile64<'_, Endianness>) {
        let symbols = elf.symbols().chain(elf.dynamic_symbols());
        let functions = symbols
            .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.is_definition())
            .filter_map(|symbol| {
                let name = symbol.name().ok()?.to_owned();
                let (address, size) = (symbol.address(), symbol.size());
                Some(Function { name, address, size, is_local: symbol.is_local() })
            });
        self.found.extend(functions);
    }

    /// Takes those of another file, if it was made with this one.
    fn take_separate(&mut self, data: &[u8], of: &ElfFile64<'_, Endianness>) -> bool {
        let Ok(elf) = ElfFile64::<Endianness>::parse(data) else { return false };
        let id =
            |elf: &ElfFile64<'_, Endianness>| elf.build_id().ok().flatten().map(<[u8]>::to_vec);
        let is_its = match (id(&elf), id(of)) {
            (Some(one), Some(other)) => one == other,
            // What was packed within has none.
            _ => of.section_by_name(".gnu_debugdata").is_some() || is_linked(data, of),
        };
        let has_names = is_its && elf.symbols().next().is_some();
        if has_names {
            self.take(&elf);
        }
        has_names
    }
}

fn is_linked(data: &[u8], of: &ElfFile64<'_, Endianness>) -> bool {
    matches!(of.gnu_debuglink(), Ok(Some((_, crc))) if crc == crc32(data))
}

/// Where the file's names might be, the likeliest first.
fn candidates(roots: &[PathBuf], elf: &ElfFile64<'_, Endianness>, path: &Path) -> Vec<PathBuf> {
    let mut candidates = Vec::new();
    if let Ok(Some([first, rest @ ..])) = elf.build_id()
        && !rest.is_empty()
    {
        let hex = rest.iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
        let name = format!(".build-id/{first:02x}/{hex}.debug");
        candidates.extend(roots.iter().map(|root| root.join(&name)));
    }
    if let Ok(Some((name, _))) = elf.gnu_debuglink()
        && let Ok(name) = std::str::from_utf8(name)
        // A name, and no way to somewhere else.
        && !name.is_empty()
        && !name.contains('/')
    {
        let whole = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let folder = whole.parent().unwrap_or_else(|| Path::new("/"));
        candidates.push(folder.join(name));
        candidates.push(folder.join(".debug").join(name));
        let below = folder.strip_prefix("/").unwrap_or(folder);
        candidates.extend(roots.iter().map(|root| root.join(below).join(name)));
        // A file that names itself has nothing to add.
        candidates.retain(|candidate| *candidate != whole);
    }
    candidates
}

fn unpacked(elf: &ElfFile64<'_, Endianness>) -> Option<Vec<u8>> {
    let packed = elf.section_by_name(".gnu_debugdata")?.data().ok()?;
    let mut data = Vec::new();
    let reader = XzReader::new_mem_limit(packed, true, XZ_KIB);
    reader.take(MOST_UNPACKED).read_to_end(&mut data).ok()?;
    Some(data)
}

/// The checksum of `.gnu_debuglink`: that of gzip and Ethernet.
fn crc32(data: &[u8]) -> u32 {
    let table: Vec<u32> = (0..256)
        .map(|byte| {
            (0..8).fold(byte, |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 })
        })
        .collect();
    let next = |crc: u32, byte: &u8| table[((crc ^ u32::from(*byte)) & 0xff) as usize] ^ crc >> 8;
    !data.iter().fold(!0, next)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    #[test]
    fn the_checksum_is_that_of_gzip() {
        // The check value of CRC-32/ISO-HDLC.
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    /// A program whose symbols were put into a file of their own.
    struct Split {
        folder: tempfile::TempDir,
    }

    impl Split {
        fn new(options: &[&str]) -> Self {
            let split = Self { folder: tempfile::tempdir().unwrap() };
            let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/sections.c");
            split.run("cc", &[&["-O1", "-pthread", source, "-o", "prog"], options].concat());
            split.run("objcopy", &["--only-keep-debug", "prog", "prog.debug"]);
            split.run("strip", &["prog"]);
            split
        }

        fn run(&self, program: &str, arguments: &[&str]) {
            let mut command = Command::new(program);
            let status = command.args(arguments).current_dir(self.folder.path()).status();
            assert!(status.unwrap().success(), "{program} {arguments:?}");
        }

        fn path(&self, name: &str) -> PathBuf {
            self.folder.path().canonicalize().unwrap().join(name)
        }

        fn put(&self, name: &str, at: &str) {
            let to = self.path(at);
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::rename(self.path(name), to).unwrap();
        }

        fn functions(&self) -> Functions {
            let data = fs::read(self.path("prog")).unwrap();
            let elf = ElfFile64::parse(&*data).unwrap();
            functions_below(&[self.path("root")], &elf, &self.path("prog"))
        }

        /// Are its functions known, each with its length?
        fn finds(&self) -> bool {
            let found = self.functions();
            let heavy = found.found.iter().find(|function| function.name == "heavy");
            assert_eq!(heavy.is_none(), found.is_stripped);
            heavy.is_some_and(|heavy| heavy.address > 0 && heavy.size > 0)
        }
    }

    #[test]
    fn names_are_found_by_the_link_wherever_debuggers_look() {
        let split = Split::new(&["-Wl,--build-id=none"]);
        split.run("objcopy", &["--add-gnu-debuglink=prog.debug", "prog"]);
        assert!(split.finds());
        split.put("prog.debug", ".debug/prog.debug");
        assert!(split.finds());
        let below = format!("root{}", split.path("prog.debug").display());
        split.put(".debug/prog.debug", &below);
        assert!(split.finds());
        // Another file of that name is not it.
        fs::copy("/bin/true", split.path(&below)).unwrap();
        assert!(!split.finds());
        fs::remove_file(split.path(&below)).unwrap();
        assert!(!split.finds());
        assert_eq!(split.functions().looked.len(), 3);
        assert!(split.functions().looked.contains(&split.path(".debug/prog.debug")));
    }

    #[test]
    fn names_are_found_by_the_build_identifier_of_that_very_build() {
        let split = Split::new(&["-Wl,--build-id=0xabcdef0123"]);
        split.put("prog.debug", "root/.build-id/ab/cdef0123.debug");
        assert!(split.finds());
        let other = Split::new(&["-Wl,--build-id=0xabcdef0124"]);
        fs::copy(other.path("prog.debug"), split.path("root/.build-id/ab/cdef0123.debug")).unwrap();
        assert!(!split.finds());
    }

    #[test]
    fn names_are_found_packed_within_the_file() {
        if nightwatt_needs::program("xz").is_none() {
            return;
        }
        let split = Split::new(&[]);
        // As Fedora's find-debuginfo makes it: symbols without debug information, packed.
        split.run("strip", &["--strip-debug", "prog.debug", "-o", "mini"]);
        split.run("xz", &["mini"]);
        assert!(!split.finds());
        split.run("objcopy", &["--add-section", ".gnu_debugdata=mini.xz", "prog"]);
        assert!(split.finds());
        // Cut short, it is nothing, and no error.
        let data = fs::read(split.path("mini.xz")).unwrap();
        fs::write(split.path("mini.xz"), &data[..data.len() / 2]).unwrap();
        split.run("objcopy", &["--update-section", ".gnu_debugdata=mini.xz", "prog"]);
        assert!(!split.finds());
    }
}
