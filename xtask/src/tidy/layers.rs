//! Each file of the crate with layers is in the table of layers, and the table names nothing else.

use super::Finding;
use crate::imports::{Graph, LAYERED, stale};

const TABLE: &str = "xtask/src/imports/layers.rs";

pub(super) fn check(graph: &Graph) -> Vec<Finding> {
    let finding = |path: &str, advice| Finding {
        path: path.to_owned(),
        line: 1,
        rule: "layer",
        weight: 1,
        advice,
    };
    let files = (0..graph.files.len()).filter(|file| graph.layer(*file).is_none());
    let missing = files.map(|file| {
        let advice = format!("add `{}` of {LAYERED} to its layer in {TABLE}", graph.modules[file]);
        finding(&graph.files[file], advice)
    });
    let gone = stale(&graph.modules).map(|module| {
        finding(TABLE, format!("there is no module `{module}` in {LAYERED}: remove it"))
    });
    missing.chain(gone).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::{File, sources};

    #[test]
    fn files_without_a_layer_and_layers_without_a_file_are_found() {
        let path = |module: &str| format!("crates/{LAYERED}/src/{module}.rs");
        let modules = ["store", "store/popularity", "brand_new"];
        let files = modules.map(|module| File { path: path(module), text: String::new() });
        let findings = check(&Graph::of(LAYERED, &sources(&files)));
        assert_eq!(findings[0].path, path("brand_new"));
        assert!(findings[1..].iter().all(|it| it.path == TABLE));
        assert!(findings.iter().any(|it| it.advice.contains("no module `supervisor`")));
        assert!(!findings.iter().any(|it| it.advice.contains("`store`")));
    }
}
