use super::*;
use crate::sources::{File, sources};

/// The graph of a crate with these files.
fn graph(name: &str, files: &[(&str, &str)]) -> Graph {
    let file = |(path, text): &(&str, &str)| File {
        path: format!("crates/{name}/src/{path}"),
        text: (*text).to_owned(),
    };
    Graph::of(name, &sources(&files.iter().map(file).collect::<Vec<_>>()))
}

fn arrows(files: &[(&str, &str)]) -> Vec<String> {
    let graph = graph("x", files);
    let shown = |it: &Arrow| format!("{} -> {}", graph.modules[it.from], graph.modules[it.to]);
    graph.arrows.iter().map(shown).collect()
}

#[test]
fn a_cycle_of_three_files_is_found() {
    let chain = [("a.rs", "use crate::b::B;"), ("b.rs", "pub struct B;\nuse super::c;")];
    let open = graph("x", &[&chain[..], &[("c.rs", ""), ("d.rs", "use crate::a;")]].concat());
    assert!(open.cycles().is_empty());
    let closing = [("c.rs", "fn f() { crate::a::g() }"), ("d.rs", "use crate::a;")];
    let closed = graph("x", &[&chain[..], &closing].concat());
    assert_eq!(closed.cycles(), [BTreeSet::from([0, 1, 2])]);
}

#[test]
fn paths_of_all_kinds_are_followed() {
    let found = arrows(&[
        ("lib.rs", "mod a;\nmod b;\npub use b::c::Deep as Shown;\n"),
        ("a.rs", "use crate::{Shown, b::{self, B}};\nuse std::b::c;\nfn f(x: b::d::D) {}\n"),
        ("b.rs", "mod c;\npub(crate) mod d;\npub struct B;\n"),
        ("b/c.rs", "pub struct Deep;\nfn f() { super::super::a::f() }\n"),
        ("b/d.rs", "use super::c::*;\npub struct D;\n"),
    ]);
    let expected = ["a -> b", "a -> b::c", "a -> b::d", "b::c -> a", "b::d -> b::c"];
    assert_eq!(found, expected);
}

#[test]
fn reexports_lead_to_the_definition() {
    let found = arrows(&[
        ("a.rs", "use crate::b::{Alias, Globbed, Own};\n"),
        ("b.rs", "pub(crate) use super::c::Real as Alias;\npub use crate::d::*;\nstruct Own;\n"),
        ("c.rs", "pub struct Real;\n"),
        ("d.rs", "pub struct Globbed;\n"),
    ]);
    assert_eq!(found, ["a -> b", "a -> c", "a -> d", "b -> c", "b -> d"]);
}

#[test]
fn what_leads_in_a_circle_ends() {
    assert_eq!(
        arrows(&[("a.rs", "use http::{self, Uri};\nuse crate::b::C;"), ("b.rs", "use C;")]),
        ["a -> b"]
    );
    assert_eq!(
        arrows(&[("a.rs", "pub use crate::b::*;\nuse E;"), ("b.rs", "pub use crate::a::*;")]),
        ["a -> b", "b -> a"]
    );
}

#[test]
fn tests_do_not_count() {
    let found = arrows(&[
        ("a.rs", "#[cfg(test)]\nuse crate::b;\n#[cfg(test)]\nmod tests {\n    use crate::b;\n}\n"),
        ("a/tests.rs", "use crate::b;\n"),
        ("b.rs", "// use crate::a;\nconst A: &str = \"crate::a\";\n#[cfg(test)]\nmod pretend;\n"),
        ("b/pretend.rs", "use crate::a;\n"),
    ]);
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn what_is_nested_belongs_together() {
    let found = arrows(&[
        ("lib.rs", "pub struct Root;\nuse a::b::B;\n"),
        (
            "a.rs",
            "use b::B;\npub struct A;\nmod inner {\n    use super::A;\n    use crate::c;\n}\n",
        ),
        ("a/b.rs", "use super::A;\nuse crate::Root;\npub struct B;\n"),
        ("c.rs", ""),
    ]);
    assert_eq!(found, ["a -> c"]);
}

/// The paths of the imports from a higher layer.
fn upward(name: &str, files: &[(&str, &str)]) -> Vec<String> {
    let graph = graph(name, files);
    let upward = graph.arrows.iter().filter(|it| graph.points_up(it));
    upward.map(|it| it.path.clone()).collect()
}

#[test]
fn a_parent_and_its_child_in_a_higher_layer_are_two() {
    let child = ("in_use/watch.rs", "pub struct Watch;\nuse super::InUse;\n");
    let parent = ("in_use.rs", "pub struct InUse;\nuse self::watch::Watch;\n");
    assert_eq!(upward("gateway", &[parent, child]), ["self::watch::Watch"]);
    let lower = ("in_use.rs", "pub struct InUse;\nuse self::judge::J;\n");
    assert!(upward("gateway", &[lower, child, ("in_use/judge.rs", "pub struct J;")]).is_empty());
}

#[test]
fn the_root_is_in_the_highest_layer() {
    let root = ("lib.rs", "mod private;\npub fn helper() {}\nuse private::P;\n");
    let private = ("private.rs", "pub struct P;\nuse crate::helper;\n");
    assert_eq!(upward("gateway", &[root, private]), ["crate::helper"]);
    assert!(upward("gateway", &[root, ("private.rs", "pub struct P;")]).is_empty());
    assert!(upward("other", &[root, private]).is_empty());
}

#[test]
fn entries_of_the_layers_that_import_each_other_are_found() {
    let store = ("store.rs", "use crate::disk_cache::record::R;\npub struct S;\n");
    let cache = ("disk_cache.rs", "mod record;\n");
    let record = ("disk_cache/record.rs", "pub struct R;\n");
    let writer = ("disk_cache/writer.rs", "use crate::store::S;\n");
    let closed = graph("gateway", &[store, cache, record, writer]);
    let (count, arrows) = closed.cycles_of_entries();
    let paths: Vec<&str> = arrows.iter().map(|arrow| arrow.path.as_str()).collect();
    assert_eq!((count, &paths[..]), (2, &["crate::disk_cache::record::R", "crate::store::S"][..]));
    assert!(closed.cycles().is_empty());
    assert_eq!(graph("gateway", &[store, cache, record]).cycles_of_entries().0, 0);
    assert_eq!(graph("other", &[store, cache, record, writer]).cycles_of_entries().0, 0);
}

#[test]
fn an_import_from_a_higher_layer_points_up() {
    let files = [
        ("store.rs", "use crate::reload;\nuse crate::config;"),
        ("config.rs", ""),
        ("reload.rs", ""),
    ];
    assert_eq!(upward("gateway", &files), ["crate::reload"]);
    assert!(upward("other", &files).is_empty());
}

#[test]
fn the_picture_shows_layers_cycles_and_what_points_up() {
    let graph = graph(
        "gateway",
        &[
            ("store.rs", "use crate::reload;"),
            ("reload.rs", "use crate::store;\nuse crate::body;"),
            ("body.rs", ""),
        ],
    );
    let dot = dot(&graph);
    assert!(
        dot.contains("{ rank=same; \"[cache]\" [shape=plain, fontsize=14]; \"store\"; }"),
        "{dot}"
    );
    assert!(dot.contains("\"[operate]\" -> \"[upstream]\" -> \"[cache]\" [style=invis]"), "{dot}");
    assert!(
        dot.contains("\"store\" -> \"reload\" [constraint=false, color=red, penwidth=2]"),
        "{dot}"
    );
    assert!(dot.contains("\"reload\" -> \"body\" [constraint=false];"), "{dot}");
    let summary = summary(&graph);
    assert!(summary.contains("1 imports from a higher layer\n2 files in 1 cycles"), "{summary}");
}
