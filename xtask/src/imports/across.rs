//! The crates together: where a path leads, in its own crate or in another.

use std::collections::{BTreeMap, BTreeSet};

use super::modules::Modules;
use super::paths::{self, Mention};
use super::{Import, module_of};
use crate::sources::Source;

/// How crates of ours begin in a path.
const PREFIX: &str = "nightwatt_";

/// Names that lead on through more `use` than this lead in a circle.
const DEEPEST: usize = 4;

/// The files of a crate, and what they mention.
pub(super) struct Crate<'a> {
    pub(super) files: Vec<&'a Source>,
    /// The same files as modules.
    pub(super) names: Vec<Vec<String>>,
    pub(super) modules: Modules,
    /// Each with the index of its file.
    pub(super) mentions: Vec<(usize, Mention)>,
}

impl<'a> Crate<'a> {
    /// Reads `crates/{name}`, without its tests.
    pub(super) fn read(name: &str, sources: &'a [Source]) -> Self {
        let folder = format!("crates/{name}/src/");
        let is_ours = |it: &&Source| !it.is_test && it.path.starts_with(&folder);
        let files: Vec<&Source> = sources.iter().filter(is_ours).collect();
        let names: Vec<_> = files.iter().map(|it| module_of(&it.path[folder.len()..])).collect();
        let mut modules = Modules::default();
        let mut mentions = Vec::new();
        for (file, source) in files.iter().enumerate() {
            let written = paths::read(&source.code);
            for (inline, its_names) in written.modules {
                modules.add([&names[file][..], &inline].concat(), file, its_names);
            }
            mentions.extend(written.mentions.into_iter().map(|mention| (file, mention)));
        }
        Self { files, names, modules, mentions }
    }
}

/// All crates, by their names.
pub(crate) struct Crates<'a>(BTreeMap<&'a str, Crate<'a>>);

impl<'a> Crates<'a> {
    pub(crate) fn read(sources: &'a [Source]) -> Self {
        let names = super::crates(sources).into_iter();
        Self(names.map(|name| (name, Crate::read(name, sources))).collect())
    }

    /// The imports of one crate: each file that one of its files uses, in whatever crate, with the first path to it.
    pub(crate) fn imports(&self, name: &str) -> Vec<Import<'a>> {
        let Some(of) = self.0.get(name) else { return Vec::new() };
        let mut found = BTreeSet::new();
        let mut imports = Vec::new();
        for (file, mention) in &of.mentions {
            let module = [&of.names[*file][..], &mention.within].concat();
            let Some(to) = self.file_of(name, &module, &mention.path, 0) else { continue };
            let from = of.files[*file];
            if from.path != to.path && found.insert((&from.path, &to.path)) {
                let path = mention.path.join("::");
                imports.push(Import { from, to, path, line: mention.line });
            }
        }
        imports
    }

    /// The file that defines what a path at the top of a file means, and how it is called there.
    pub(crate) fn definition(&self, of: &Source, path: &[String]) -> Option<(&'a Source, String)> {
        let (name, file) = of.path.strip_prefix("crates/")?.split_once("/src/")?;
        let module = module_of(file);
        let used = self.0.get(name)?.modules.used(&module, path.first()?);
        let called = if path.len() == 1 { used.and_then(<[_]>::last) } else { None };
        let called = called.or(path.last())?.clone();
        Some((self.file_of(name, &module, path, 0)?, called))
    }

    fn file_of(
        &self,
        name: &str,
        module: &[String],
        path: &[String],
        depth: usize,
    ) -> Option<&'a Source> {
        let of = self.0.get(name)?;
        if let Some(file) = of.modules.file_of(module, path) {
            return Some(of.files[file]);
        }
        let (first, rest) = path.split_first()?;
        if let Some(other) = first.strip_prefix(PREFIX) {
            let other = self.0.get(other.replace('_', "-").as_str())?;
            let path = [&["self".to_owned()][..], rest].concat();
            return other.modules.file_of(&[], &path).map(|file| other.files[file]);
        }
        let used = of.modules.used(module, first)?;
        let leads_on = depth < DEEPEST && used.first() != Some(first);
        let path = [used, rest].concat();
        leads_on.then(|| self.file_of(name, module, &path, depth + 1)).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::{File, sources};

    #[test]
    fn paths_lead_into_other_crates() {
        let file = |(path, text): (&str, &str)| File { path: path.into(), text: text.into() };
        let files = [
            ("crates/big-one/src/lib.rs", "mod inner;\npub mod open;\npub use inner::Shown;\n"),
            ("crates/big-one/src/inner.rs", "pub struct Shown;\n"),
            ("crates/big-one/src/open.rs", "pub type Pair = (u8, u8);\n"),
            ("crates/a/src/lib.rs", "mod b;\nuse nightwatt_big_one::{Shown, open};\n"),
            ("crates/a/src/b.rs", "use nightwatt_big_one::open as o;\nfn f(x: o::Pair) {}\n"),
        ];
        let sources = sources(&files.map(file));
        let crates = Crates::read(&sources);
        let imports = crates.imports("a");
        let found: Vec<_> = imports.iter().map(|it| (&*it.from.path, &*it.to.path)).collect();
        let (inner, open) = ("crates/big-one/src/inner.rs", "crates/big-one/src/open.rs");
        let (root, b) = ("crates/a/src/lib.rs", "crates/a/src/b.rs");
        assert_eq!(found, [(root, inner), (root, open), (b, open)]);
        let b = sources.iter().find(|it| it.path == b).unwrap();
        let (file, name) = crates.definition(b, &["o".into(), "Pair".into()]).unwrap();
        assert_eq!((&*file.path, &*name), (open, "Pair"));
        assert!(crates.definition(b, &["std".into(), "fs".into()]).is_none());
        assert!(crates.imports("none").is_empty());
    }
}
