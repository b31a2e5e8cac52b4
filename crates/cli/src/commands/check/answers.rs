//! What is answered in another way by its path, and what is compressed.

use nightwatt_gateway::config::{PathConfig, SiteConfig};
use serde_json::{Value, json};

use super::row;

/// A row for each path and each probe of use, and one for compression.
pub(super) fn rows(text: &mut String, site: &SiteConfig) {
    for path in &site.path {
        row(text, "path", &words(path));
    }
    for (status, page) in &site.error_pages {
        row(text, "error page", &format!("{status} is {}", page.display()));
    }
    if site.compression.enabled {
        row(text, "compresses", &compression(site));
    }
    for probe in &site.in_use {
        row(text, "in use", &probe.in_words(site));
    }
}

fn words(path: &PathConfig) -> String {
    let name = match (&path.exact, &path.prefix) {
        (Some(exact), _) => format!("{exact} alone"),
        (None, prefix) => format!("{} and below", prefix.as_deref().unwrap_or_default()),
    };
    format!("{name}: {}", answer(path))
}

fn answer(path: &PathConfig) -> String {
    let without = "; the server is not woken for it";
    if let Some(place) = &path.redirect {
        return format!("{} to {place}{without}", path.status.unwrap_or(308));
    }
    if path.text.is_some() {
        return format!("{} with a fixed text{without}", path.status.unwrap_or(200));
    }
    if let Some(folder) = &path.folder {
        let is_there = match (folder.is_dir(), folder.exists()) {
            (true, _) => "",
            (false, true) => ", which is a file, but `folder` needs a folder: 404",
            (false, false) => ", which is not there now: 404",
        };
        return format!("files of {}{is_there}{without}", folder.display());
    }
    let origin = path.origin.as_ref().map_or_else(|| "the server".to_owned(), ToString::to_string);
    let strips = if path.strip_prefix { ", without the prefix" } else { "" };
    let (asks, says) = (&path.request_headers, &path.response_headers);
    let changed = asks.remove.len() + asks.set.len() + says.remove.len() + says.set.len();
    let fields = match changed {
        0 => String::new(),
        1 => ", with a header changed".to_owned(),
        many => format!(", with {many} headers changed"),
    };
    format!("{origin}{strips}{fields}")
}

fn compression(site: &SiteConfig) -> String {
    let config = &site.compression;
    let what = match (config.personal, site.access.is_some()) {
        (true, _) => {
            "all answers, also pages that hold a secret of the client (`personal`): see docs/compression.md"
        }
        (false, true) => "styles, scripts and the like, since the site has rules of access",
        (false, false) => {
            "answers to clients that do not name themselves, and styles, scripts and the like for all"
        }
    };
    let kinds =
        config.types.as_ref().map_or_else(String::new, |it| format!(", of {}", it.join(", ")));
    format!("{what}{kinds}, from {} bytes on", config.min_bytes)
}

/// The same for programs.
pub(super) fn as_json(site: &SiteConfig) -> Value {
    json!({
        "paths": site.path.iter().map(words).collect::<Vec<_>>(),
        "error_pages": site.error_pages.keys().collect::<Vec<_>>(),
        "error_page_files": site.error_pages,
        "in_use": site.in_use.iter().map(|probe| probe.in_words(site)).collect::<Vec<_>>(),
        "compression": site.compression.enabled.then(|| compression(site)),
    })
}
