//! Links of sitemaps, plain and packed: as for pages.

/// Runs the target on one input.
pub fn run(document: &[u8]) {
    super::mirror_html::read("application/xml", document);
    super::mirror_html::read("application/gzip", document);
}
