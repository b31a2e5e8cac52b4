//! House rules that are broken in many places: `cargo xtask tidy` holds each at its count in `xtask/ratchets.toml`, which
//! may only fall.

mod counts;
mod earlier;
mod tuples;
mod words;

use std::collections::BTreeSet;
use std::path::Path;

use self::counts::Counts;
use crate::imports::{Arrow, Crates, Graph, LAYERS, crates};
use crate::purity::is_pure;
use crate::sources::{File, Source, sources as read};

/// The file with the counts.
const COUNTS: &str = "xtask/ratchets.toml";

/// Where a count is too high, this many places are listed.
const LISTED: usize = 10;

/// A place that breaks a rule.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Place {
    pub(crate) path: String,
    /// From 1.
    pub(crate) line: usize,
    /// What is there, or what to do.
    pub(crate) text: String,
}

/// How often a rule is broken, and where.
#[derive(Debug)]
struct Measure {
    /// As in the file with the counts: `cycles.gateway`.
    key: String,
    /// What is counted.
    unit: &'static str,
    count: usize,
    /// Of cycles these are the imports, while the count is that of the files.
    places: Vec<Place>,
    /// Imports on no cycle. One that closes a cycle puts many others on it, which are not new.
    harmless: Vec<Place>,
}

impl Measure {
    /// Each place counts.
    fn of(key: String, unit: &'static str, places: Vec<Place>) -> Self {
        Self { key, unit, count: places.len(), places, harmless: Vec::new() }
    }
}

/// Compares the files with their counts. Where a count is too high, git knows which places are new.
pub(crate) fn check(files: &[File], sources: &[Source], root: &Path) -> Result<Vec<Place>, String> {
    let text = files.iter().find(|file| file.path == COUNTS).map_or("", |file| &file.text);
    let counts = Counts::read(text)?;
    let now = measure(files, sources);
    let is_higher = |measure: &Measure| measure.count > counts.of(&measure.key);
    let earlier = now.iter().any(is_higher).then(|| earlier::files(root, COUNTS, files)).flatten();
    let before = earlier.map_or_else(Vec::new, |files| measure(&files, &read(&files)));
    Ok(compare(&now, &before, &counts))
}

/// `cargo xtask ratchets`: the counts as they are, in the form of their file.
pub(crate) fn print(files: &[File]) {
    for Measure { key, count, .. } in measure(files, &read(files)) {
        if count > 0 {
            println!("{key} = {count}");
        }
    }
}

/// All counts, by their keys.
fn measure(files: &[File], sources: &[Source]) -> Vec<Measure> {
    let all = Crates::read(sources);
    let mut measures = vec![tuples(&all, sources)];
    for name in crates(sources) {
        let graph = Graph::of(name, sources);
        measures.push(cycles(name, &graph));
        measures.push(entries(name, &graph));
        measures.push(upward(name, &graph));
        measures.push(impure(name, &all));
    }
    let words::Found { code, comments, docs, others } = words::find(files, sources);
    let kinds = [("code", code), ("comments", comments), ("docs", docs), ("others", others)];
    measures.extend(kinds.map(|(kind, places)| {
        Measure::of(format!("words.{kind}"), "words of the closed list", places)
    }));
    measures.sort_by(|one, other| one.key.cmp(&other.key));
    measures
}

fn cycles(name: &str, graph: &Graph) -> Measure {
    let cycles = graph.cycles();
    let (on_cycles, others): (Vec<&Arrow>, Vec<&Arrow>) =
        graph.arrows.iter().partition(|arrow| Graph::is_on_a_cycle(&cycles, arrow));
    let place = |arrow: &Arrow| Place {
        path: graph.files[arrow.from].clone(),
        line: arrow.line,
        text: format!("imports `{}`, which leads back here", graph.modules[arrow.to]),
    };
    Measure {
        key: format!("cycles.{name}"),
        unit: "files in import cycles",
        count: cycles.iter().map(BTreeSet::len).sum(),
        places: on_cycles.into_iter().map(place).collect(),
        harmless: others.into_iter().map(place).collect(),
    }
}

fn upward(name: &str, graph: &Graph) -> Measure {
    let layer = |file| graph.layer(file).map_or("none", |layer| LAYERS[layer].name);
    let upward = graph.arrows.iter().filter(|arrow| graph.points_up(arrow));
    let places = upward.map(|arrow| {
        let (from, to) = (layer(arrow.from), layer(arrow.to));
        let text = format!("{from} imports `{}` of {to}, a higher layer", graph.modules[arrow.to]);
        Place { path: graph.files[arrow.from].clone(), line: arrow.line, text }
    });
    Measure::of(format!("upward.{name}"), "imports from a higher layer", places.collect())
}

/// Of the layers' entries, while `cycles` counts files.
fn entries(name: &str, graph: &Graph) -> Measure {
    let (count, arrows) = graph.cycles_of_entries();
    let place = |arrow: &Arrow| {
        let (from, to) = (&graph.modules[arrow.from], &graph.modules[arrow.to]);
        let text = format!("`{from}` imports `{to}`, whose entry of the layers leads back here");
        Place { path: graph.files[arrow.from].clone(), line: arrow.line, text }
    };
    Measure {
        key: format!("entries.{name}"),
        unit: "entries of the layers in import cycles",
        count,
        places: arrows.into_iter().map(place).collect(),
        harmless: Vec::new(),
    }
}

fn impure(name: &str, all: &Crates<'_>) -> Measure {
    let is_breach = |from: &str, to: &str| is_pure(from) && !is_pure(to);
    let imports = all.imports(name).into_iter();
    let breaches = imports.filter(|import| is_breach(&import.from.path, &import.to.path));
    let places = breaches.map(|import| {
        let text = format!("`{}` leads to {}, which is not pure", import.path, import.to.path);
        Place { path: import.from.path.clone(), line: import.line, text }
    });
    Measure::of(format!("impure.{name}"), "imports into pure code", places.collect())
}

fn tuples(all: &Crates<'_>, sources: &[Source]) -> Measure {
    let aliases = tuples::Aliases::of(all, sources);
    let mut places = Vec::new();
    for source in sources.iter().filter(|source| !source.is_test) {
        let bundlers = tuples::bundlers(&source.code, &|path: &[String]| aliases.has(source, path));
        places.extend(bundlers.into_iter().map(|bundler| Place {
            path: source.path.clone(),
            line: bundler.line,
            text: format!("`{}` takes a tuple", bundler.name),
        }));
    }
    Measure::of("tuples".to_owned(), "functions with a tuple as parameter", places)
}

/// What to do about the counts that differ. `before` is what was measured when the counts were written, where that is
/// known.
fn compare(now: &[Measure], before: &[Measure], counts: &Counts) -> Vec<Place> {
    let mut breaches = Vec::new();
    for Measure { key, unit, count, places, .. } in now {
        let allowed = counts.of(key);
        if *count <= allowed {
            continue;
        }
        let old = before.iter().filter(|old| old.key == *key);
        let mut new = added(places, old.flat_map(|old| old.places.iter().chain(&old.harmless)));
        if new.is_empty() {
            new.clone_from(places);
        }
        let more = new.len().saturating_sub(LISTED);
        breaches.extend(new.into_iter().take(LISTED).map(|Place { path, line, text }| {
            let text = format!("{text} ({key}: {count} {unit}, {allowed} allowed)");
            Place { path, line, text }
        }));
        if more > 0 {
            let text = format!("{key}: {count} {unit}, {allowed} allowed: {more} more places");
            breaches.push(Place { path: COUNTS.to_owned(), line: 1, text });
        }
    }
    breaches.extend(counts.iter().filter_map(|allowed| {
        let now = now.iter().find(|measure| measure.key == allowed.key);
        let count = now.map_or(0, |measure| measure.count);
        let text = match count {
            0 => format!("well done; remove the line of `{}`", allowed.key),
            count => format!("well done; lower `{}` to {count}", allowed.key),
        };
        let breach = Place { path: COUNTS.to_owned(), line: allowed.line, text };
        (count < allowed.most).then_some(breach)
    }));
    breaches
}

/// Places that are not among the old ones, wherever their lines are.
fn added<'a>(places: &[Place], old: impl Iterator<Item = &'a Place>) -> Vec<Place> {
    let mut old: Vec<&Place> = old.collect();
    let mut added = Vec::new();
    for place in places {
        match old.iter().position(|it| it.path == place.path && it.text == place.text) {
            Some(same) => drop(old.swap_remove(same)),
            None => added.push(place.clone()),
        }
    }
    added
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: text.to_owned() }
    }

    fn bundling(name: &str) -> File {
        file(&format!("crates/x/src/{name}.rs"), &format!("\nfn {name}(a: (A, B)) {{}}\n"))
    }

    fn breaches(now: &[File], before: &[File], counts: &str) -> Vec<String> {
        let counts = Counts::read(counts).unwrap();
        let breaches = compare(&measure(now, &read(now)), &measure(before, &read(before)), &counts);
        breaches.iter().map(|it| format!("{}:{}: {}", it.path, it.line, it.text)).collect()
    }

    #[test]
    fn a_count_that_is_kept_is_fine() {
        let files = [bundling("a"), bundling("b")];
        assert!(breaches(&files, &[], "tuples = 2\n").is_empty());
    }

    #[test]
    fn a_count_that_rises_names_what_is_new() {
        let now = [bundling("a"), bundling("b")];
        let found = breaches(&now, &[bundling("a")], "tuples = 1\n");
        let new = "crates/x/src/b.rs:2: `b` takes a tuple (tuples: 2 functions with a tuple as \
                   parameter, 1 allowed)";
        assert_eq!(found, [new]);
        // All of them where git does not know.
        assert_eq!(breaches(&now, &[], "tuples = 1\n").len(), 2);
        assert_eq!(breaches(&now, &[], "").len(), 2);
    }

    #[test]
    fn the_import_that_closes_a_cycle_is_named_alone() {
        let a = file("crates/x/src/a.rs", "use crate::b;");
        let open = [a.clone(), file("crates/x/src/b.rs", "")];
        let closed = [a, file("crates/x/src/b.rs", "use crate::a;")];
        let [new] = &breaches(&closed, &open, "")[..] else { panic!() };
        let imports = "crates/x/src/b.rs:1: imports `a`, which leads back here (cycles.x: 2 files";
        assert!(new.starts_with(imports), "{new}");
    }

    #[test]
    fn a_count_that_falls_is_lowered() {
        let found = breaches(&[bundling("a")], &[], "# Counts.\ntuples = 2\ncycles.x = 1\n");
        let lower = "xtask/ratchets.toml:2: well done; lower `tuples` to 1";
        let remove = "xtask/ratchets.toml:3: well done; remove the line of `cycles.x`";
        assert_eq!(found, [lower, remove]);
    }

    #[test]
    fn everything_is_measured() {
        let files = [
            file(
                "crates/gateway/src/store.rs",
                "use crate::reload; // anew\nconst A: &str = \"anew\";",
            ),
            file("crates/gateway/src/reload.rs", "use crate::store;"),
            bundling("a"),
            file("crates/x/src/pure.rs", "use crate::a;\nuse crate::pure::b;\n"),
            file("crates/x/src/pure/b.rs", "use nightwatt_gateway::store::*;\n"),
            file("README.md", "Nobody\n"),
            file("Makefile", "# whoever\n"),
        ];
        let mut measures = measure(&files, &read(&files));
        measures.retain(|it| it.count > 0);
        let counts: Vec<_> = measures.iter().map(|it| format!("{} {}", it.key, it.count)).collect();
        let words = ["words.code 1", "words.comments 1", "words.docs 1", "words.others 1"];
        let first = ["cycles.gateway 2", "entries.gateway 2", "impure.x 2", "tuples 1"];
        let expected = [&first[..], &["upward.gateway 1"], &words].concat();
        assert_eq!(counts, expected);
        let impure = &measures[2].places[0];
        assert_eq!(impure.path, "crates/x/src/pure.rs");
        assert!(impure.text.starts_with("`crate::a` leads to crates/x/src/a.rs"), "{impure:?}");
        let upward = &measures[4].places[0];
        assert_eq!(upward.text, "cache imports `reload` of operate, a higher layer");
    }
}
