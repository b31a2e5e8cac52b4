//! Manifests of web applications (W3C Web Application Manifest): JSON that names icons and pages.

use serde_json::Value;

use super::{Found, LinkKind};

/// A longer manifest is not read.
const LONGEST: usize = 1 << 20;

/// Finds the references of a manifest.
pub fn links(text: &[u8]) -> Found {
    let mut found = Found::default();
    if text.len() > LONGEST {
        return found;
    }
    let Ok(manifest) = serde_json::from_slice::<Value>(text) else { return found };
    page(&manifest["start_url"], &mut found);
    images(&manifest["icons"], &mut found);
    images(&manifest["screenshots"], &mut found);
    for shortcut in manifest["shortcuts"].as_array().into_iter().flatten() {
        page(&shortcut["url"], &mut found);
        images(&shortcut["icons"], &mut found);
    }
    found
}

fn page(url: &Value, found: &mut Found) {
    if let Some(reference) = url.as_str() {
        found.add(reference, LinkKind::Page);
    }
}

fn images(list: &Value, found: &mut Found) {
    for image in list.as_array().into_iter().flatten() {
        if let Some(reference) = image["src"].as_str() {
            found.add(reference, LinkKind::Part);
        }
    }
}
