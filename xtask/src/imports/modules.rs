//! The modules of a crate, and which file a path leads to.

use std::collections::BTreeMap;

use super::paths::Names;

/// Paths that lead on through more re-exports than this lead in a circle.
const DEEPEST: usize = 16;

/// Where a path ends.
#[derive(Clone, Debug, PartialEq)]
enum End {
    /// At a module: its names from the root of the crate.
    Module(Vec<String>),
    /// At an item, in the file with this index.
    Item(usize),
}

#[derive(Debug)]
struct Module {
    file: usize,
    names: Names,
}

/// All modules of a crate by their names from its root, which is `[]`.
#[derive(Debug, Default)]
pub(super) struct Modules(BTreeMap<Vec<String>, Module>);

impl Modules {
    pub(super) fn add(&mut self, module: Vec<String>, file: usize, names: Names) {
        self.0.insert(module, Module { file, names });
    }

    /// The path that `use` has given a name in a module.
    pub(super) fn used(&self, module: &[String], name: &str) -> Option<&[String]> {
        self.0.get(module)?.names.used.get(name).map(Vec::as_slice)
    }

    /// The file with what a path in a module means, unless that is in another crate. Re-exports are followed to
    /// where the item is defined.
    pub(super) fn file_of(&self, module: &[String], path: &[String]) -> Option<usize> {
        match self.resolve(module, path, 0)? {
            End::Module(module) => self.0.get(&module).map(|module| module.file),
            End::Item(file) => Some(file),
        }
    }

    fn resolve(&self, module: &[String], path: &[String], depth: usize) -> Option<End> {
        if depth > DEEPEST {
            return None;
        }
        let mut at = module.to_vec();
        let mut rest = path;
        let mut is_ours = false;
        while let [first @ ("crate" | "self" | "super"), ..] =
            rest.iter().map(String::as_str).collect::<Vec<_>>()[..]
        {
            match first {
                "crate" => at.clear(),
                "super" => {
                    at.pop();
                }
                _ => {}
            }
            is_ours = true;
            rest = &rest[1..];
        }
        for name in rest {
            match self.look_up(&at, name, depth) {
                Some(End::Module(module)) => (at, is_ours) = (module, true),
                Some(item) => return Some(item),
                // What a macro has made, or another crate.
                None if is_ours => break,
                None => return None,
            }
        }
        Some(End::Module(at))
    }

    fn look_up(&self, module: &[String], name: &str, depth: usize) -> Option<End> {
        let mut child = module.to_vec();
        child.push(name.to_owned());
        if self.0.contains_key(&child) {
            return Some(End::Module(child));
        }
        let Module { file, names } = self.0.get(module)?;
        if let Some(path) = names.used.get(name) {
            return self.resolve(module, path, depth + 1);
        }
        if names.defined.contains(name) {
            return Some(End::Item(*file));
        }
        let mut globs = names.globs.iter().filter_map(|path| self.resolve(module, path, depth + 1));
        globs.find_map(|end| match end {
            End::Module(other) if other != module && depth < DEEPEST => {
                self.look_up(&other, name, depth + 1)
            }
            _ => None,
        })
    }
}
