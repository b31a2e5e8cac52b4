//! Recordings that lie beside the project, for tests.

use std::path::{Path, PathBuf};

/// A file of the shared data, as `power/wattsup_raw/fan.raw`. None, and a word on why, where there is
/// no shared data; that there is some without that file is an error.
pub(crate) fn path(file: &str) -> Option<PathBuf> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");
    let folder = std::env::var_os("NIGHTWATT_DATA").unwrap_or_else(|| beside.into());
    let folder = Path::new(&folder);
    if !folder.is_dir() {
        println!("skipped: there is no {}", folder.display());
        return None;
    }
    let path = folder.join(file);
    assert!(path.is_file(), "{} is missing", path.display());
    Some(path)
}
