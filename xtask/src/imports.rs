//! Which files of a crate import from which: a graph, and its cycles.
//!
//! A file is a module of its crate. An arrow leads from a file to each other file of the crate that defines what it
//! names, in a `use` or in a path; re-exports are followed to the definition. Tests do not count. There is no arrow between
//! a module and the modules inside it, nor between the root of the crate and any other: they belong together.

mod dot;
mod layers;
mod modules;
mod paths;

use std::collections::{BTreeMap, BTreeSet};

use self::modules::Modules;
use crate::sources::Source;

pub(crate) use self::dot::{dot, summary};
use self::layers::layer_of;
pub(crate) use self::layers::{LAYERED, LAYERS, stale};

/// An import of one file from another.
#[derive(Debug, PartialEq)]
pub(crate) struct Arrow {
    /// Indices of files.
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// The first path that makes it, and its line, from 1.
    pub(crate) path: String,
    pub(crate) line: usize,
}

/// The files of a crate and their imports.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    /// The crate has layers.
    is_layered: bool,
    /// From the root of the repository.
    pub(crate) files: Vec<String>,
    /// The same files as modules: `disk_cache::writer`; the root is `crate`.
    pub(crate) modules: Vec<String>,
    pub(crate) arrows: Vec<Arrow>,
}

impl Graph {
    /// The graph of `crates/{name}`.
    pub(crate) fn of(name: &str, sources: &[Source]) -> Self {
        let folder = format!("crates/{name}/src/");
        let is_ours = |it: &&Source| !it.is_test && it.path.starts_with(&folder);
        let ours: Vec<&Source> = sources.iter().filter(is_ours).collect();
        let names: Vec<_> = ours.iter().map(|it| module_of(&it.path[folder.len()..])).collect();
        let mut modules = Modules::default();
        let mut mentions = Vec::new();
        for (file, source) in ours.iter().enumerate() {
            let written = paths::read(&source.code);
            for (inline, its_names) in written.modules {
                modules.add([&names[file][..], &inline].concat(), file, its_names);
            }
            mentions.extend(written.mentions.into_iter().map(|mention| (file, mention)));
        }
        let mut arrows = BTreeMap::new();
        for (from, mention) in mentions {
            let module = [&names[from][..], &mention.within].concat();
            let Some(to) = modules.file_of(&module, &mention.path) else { continue };
            let are_nested =
                names[to].starts_with(&names[from]) || names[from].starts_with(&names[to]);
            if !are_nested {
                let path = mention.path.join("::");
                let arrow = Arrow { from, to, path, line: mention.line };
                arrows.entry((from, to)).or_insert(arrow);
            }
        }
        Self {
            is_layered: name == LAYERED,
            files: ours.iter().map(|it| it.path.clone()).collect(),
            modules: names.iter().map(|names| shown(names)).collect(),
            arrows: arrows.into_values().collect(),
        }
    }

    /// The index of a file's layer, if its crate has layers and the table has the file.
    pub(crate) fn layer(&self, file: usize) -> Option<usize> {
        layer_of(&self.modules[file]).filter(|_| self.is_layered)
    }

    /// Whether an arrow leads to a higher layer.
    pub(crate) fn points_up(&self, arrow: &Arrow) -> bool {
        self.layer(arrow.from).zip(self.layer(arrow.to)).is_some_and(|(from, to)| from < to)
    }

    /// The files that can reach each other, largest group first. A file on no cycle is in none.
    pub(crate) fn cycles(&self) -> Vec<BTreeSet<usize>> {
        let reached: Vec<BTreeSet<usize>> = (0..self.files.len()).map(|it| self.from(it)).collect();
        let mut cycles = BTreeSet::new();
        for (file, others) in reached.iter().enumerate().filter(|(it, others)| others.contains(it))
        {
            let back = others.iter().copied().filter(|other| reached[*other].contains(&file));
            cycles.insert(back.collect::<BTreeSet<usize>>());
        }
        let mut cycles: Vec<_> = cycles.into_iter().collect();
        cycles.sort_by_key(|cycle| std::cmp::Reverse(cycle.len()));
        cycles
    }

    /// Whether both ends of an arrow are on one of these cycles.
    pub(crate) fn is_on_a_cycle(cycles: &[BTreeSet<usize>], arrow: &Arrow) -> bool {
        cycles.iter().any(|cycle| cycle.contains(&arrow.from) && cycle.contains(&arrow.to))
    }

    /// The files that a file imports, directly or not.
    fn from(&self, file: usize) -> BTreeSet<usize> {
        let mut reached = BTreeSet::new();
        let mut next = vec![file];
        while let Some(file) = next.pop() {
            let arrows = self.arrows.iter().filter(|arrow| arrow.from == file);
            next.extend(arrows.map(|arrow| arrow.to).filter(|to| reached.insert(*to)));
        }
        reached
    }
}

/// The names of the crates under `crates/`.
pub(crate) fn crates(sources: &[Source]) -> BTreeSet<&str> {
    let inside = sources.iter().filter_map(|it| it.path.strip_prefix("crates/"));
    inside.filter_map(|path| path.split_once("/src/")).map(|(name, _)| name).collect()
}

fn module_of(path: &str) -> Vec<String> {
    let mut names: Vec<String> = path.trim_end_matches(".rs").split('/').map(Into::into).collect();
    let is_mod = names.last().is_some_and(|last| last == "mod");
    if is_mod || names == ["lib"] || names == ["main"] {
        names.pop();
    }
    names
}

fn shown(names: &[String]) -> String {
    if names.is_empty() { "crate".to_owned() } else { names.join("::") }
}

#[cfg(test)]
mod tests;
