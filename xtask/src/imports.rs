//! Which files of a crate import from which: a graph, and its cycles.
//!
//! A file is a module of its crate. An arrow leads from a file to each other file of the crate that defines what it
//! names, in a `use` or in a path; re-exports are followed to the definition. Tests do not count. There is no arrow between
//! a module and the modules inside it, nor between the root of the crate and any other: they belong together, unless
//! they are in different layers.

mod across;
mod dot;
mod layers;
mod modules;
mod paths;

use std::collections::{BTreeMap, BTreeSet};

use self::across::Crate;
use crate::sources::Source;

pub(crate) use self::across::Crates;
pub(crate) use self::dot::{dot, summary};
pub(crate) use self::layers::{LAYERED, LAYERS, stale};
use self::layers::{entry_of, layer_of};

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

/// An import of one file from another, maybe of another crate.
pub(crate) struct Import<'a> {
    pub(crate) from: &'a Source,
    pub(crate) to: &'a Source,
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
        let Crate { files, names, modules, mentions } = Crate::read(name, sources);
        let is_layered = name == LAYERED;
        let layer = |file: usize| layer_of(&shown(&names[file])).filter(|_| is_layered);
        let mut arrows = BTreeMap::new();
        for (from, mention) in mentions {
            let module = [&names[from][..], &mention.within].concat();
            let Some(to) = modules.file_of(&module, &mention.path) else { continue };
            let are_nested =
                names[to].starts_with(&names[from]) || names[from].starts_with(&names[to]);
            if from != to && !(are_nested && layer(from) == layer(to)) {
                let path = mention.path.join("::");
                let arrow = Arrow { from, to, path, line: mention.line };
                arrows.entry((from, to)).or_insert(arrow);
            }
        }
        Self {
            is_layered,
            files: files.iter().map(|it| it.path.clone()).collect(),
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
        let ends = self.arrows.iter().map(|arrow| (arrow.from, arrow.to));
        cycles_of(&ends.collect())
    }

    /// The entries of the table of layers as one thing each: how many import each other, directly or not, and the
    /// imports by which they do. Nothing of a crate without layers.
    pub(crate) fn cycles_of_entries(&self) -> (usize, Vec<&Arrow>) {
        let entry = |file: usize| entry_of(&self.modules[file]).filter(|_| self.is_layered);
        let ends = |arrow: &Arrow| entry(arrow.from).zip(entry(arrow.to));
        let between = self.arrows.iter().filter_map(ends).filter(|(from, to)| from != to);
        let cycles = cycles_of(&between.collect());
        let is_on_one = |arrow: &&Arrow| {
            ends(arrow).is_some_and(|(from, to)| {
                from != to && cycles.iter().any(|it| it.contains(from) && it.contains(to))
            })
        };
        let arrows = self.arrows.iter().filter(is_on_one).collect();
        (cycles.iter().map(BTreeSet::len).sum(), arrows)
    }

    /// Whether both ends of an arrow are on one of these cycles.
    pub(crate) fn is_on_a_cycle(cycles: &[BTreeSet<usize>], arrow: &Arrow) -> bool {
        cycles.iter().any(|cycle| cycle.contains(&arrow.from) && cycle.contains(&arrow.to))
    }
}

/// What can reach each other by these arrows, largest group first.
fn cycles_of<T: Copy + Ord>(arrows: &BTreeSet<(T, T)>) -> Vec<BTreeSet<T>> {
    let mut nodes: BTreeSet<T> = BTreeSet::new();
    nodes.extend(arrows.iter().map(|(from, _)| *from));
    let reached: BTreeMap<T, BTreeSet<T>> =
        nodes.into_iter().map(|node| (node, reached_from(arrows, node))).collect();
    let mut cycles = BTreeSet::new();
    for (node, others) in reached.iter().filter(|(it, others)| others.contains(*it)) {
        let leads_back = |other: &T| reached.get(other).is_some_and(|back| back.contains(node));
        cycles.insert(others.iter().copied().filter(leads_back).collect::<BTreeSet<T>>());
    }
    let mut cycles: Vec<_> = cycles.into_iter().collect();
    cycles.sort_by_key(|cycle| std::cmp::Reverse(cycle.len()));
    cycles
}

/// What these arrows lead to from here, directly or not.
fn reached_from<T: Copy + Ord>(arrows: &BTreeSet<(T, T)>, start: T) -> BTreeSet<T> {
    let mut reached = BTreeSet::new();
    let mut next = vec![start];
    while let Some(node) = next.pop() {
        let ends = arrows.iter().filter(|(from, _)| *from == node);
        next.extend(ends.map(|(_, to)| *to).filter(|to| reached.insert(*to)));
    }
    reached
}

/// The paths that code mentions, in a `use` or elsewhere, by their lines from 1.
pub(crate) fn mentions(code: &str) -> BTreeMap<usize, Vec<String>> {
    let mut by_line: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for mention in paths::read(code).mentions {
        by_line.entry(mention.line).or_default().push(mention.path.join("::"));
    }
    by_line
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
