//! Links of manifests of web applications: as for pages.

/// Runs the target on one input.
pub fn run(document: &[u8]) {
    super::mirror_html::read("application/manifest+json", document);
}
