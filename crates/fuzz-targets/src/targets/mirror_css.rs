//! Links of style sheets: as for pages.

/// Runs the target on one input.
pub fn run(document: &[u8]) {
    super::mirror_html::read("text/css", document);
}
