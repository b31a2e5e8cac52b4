//! Links of feeds: as for pages.

/// Runs the target on one input.
pub fn run(document: &[u8]) {
    super::mirror_html::read("application/rss+xml", document);
}
