//! The picture of a graph, for Graphviz, and what it shows in words.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::Graph;
use super::layers::LAYERS;

/// The graph as a picture: `dot -Tsvg`. Layers are ranks, the highest on top; imports from a higher layer are red,
/// those on a cycle are thick.
pub(crate) fn dot(graph: &Graph) -> String {
    let mut dot = "digraph imports {\n  node [shape=box, fontsize=10, height=0.2];\n".to_owned();
    let mut ranks: BTreeMap<usize, String> = BTreeMap::new();
    for (file, module) in graph.modules.iter().enumerate() {
        match graph.layer(file) {
            Some(layer) => {
                let _ = write!(ranks.entry(layer).or_default(), " \"{module}\";");
            }
            None => {
                let _ = writeln!(dot, "  \"{module}\";");
            }
        }
    }
    for (layer, modules) in &ranks {
        let name = LAYERS[*layer].name;
        let _ =
            writeln!(dot, "  {{ rank=same; \"[{name}]\" [shape=plain, fontsize=14];{modules} }}");
    }
    let names: Vec<String> =
        ranks.keys().rev().map(|layer| format!("\"[{}]\"", LAYERS[*layer].name)).collect();
    if names.len() > 1 {
        let _ = writeln!(dot, "  {} [style=invis];", names.join(" -> "));
    }
    let cycles = graph.cycles();
    for arrow in &graph.arrows {
        let (from, to) = (&graph.modules[arrow.from], &graph.modules[arrow.to]);
        let mut style = Vec::new();
        if !ranks.is_empty() {
            style.push("constraint=false");
        }
        if graph.points_up(arrow) {
            style.push("color=red");
        }
        if Graph::is_on_a_cycle(&cycles, arrow) {
            style.push("penwidth=2");
        }
        let _ = writeln!(dot, "  \"{from}\" -> \"{to}\" [{}];", style.join(", "));
    }
    dot + "}\n"
}

pub(crate) fn summary(graph: &Graph) -> String {
    let cycles = graph.cycles();
    let (files, arrows) = (graph.files.len(), graph.arrows.len());
    let mut text = format!("{files} files, {arrows} imports between files of different modules\n");
    let up = graph.arrows.iter().filter(|arrow| graph.points_up(arrow)).count();
    if (0..files).any(|file| graph.layer(file).is_some()) {
        let _ = writeln!(text, "{up} imports from a higher layer");
    }
    let inside: usize = cycles.iter().map(BTreeSet::len).sum();
    let on = graph.arrows.iter().filter(|arrow| Graph::is_on_a_cycle(&cycles, arrow)).count();
    let _ = writeln!(text, "{inside} files in {} cycles, with {on} imports", cycles.len());
    for cycle in cycles {
        let names: Vec<&str> = cycle.iter().map(|file| graph.modules[*file].as_str()).collect();
        let _ = writeln!(text, "  {}: {}", names.len(), names.join(" "));
    }
    text
}
