//! The host's files: `/sys`, `/proc` and `/dev` under a root that tests can put elsewhere.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where the host's files are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    root: PathBuf,
}

impl Default for Host {
    fn default() -> Self {
        Self::at("/")
    }
}

impl Host {
    /// A host whose `/sys`, `/proc` and `/dev` lie under `root`.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Is this the machine we run on?
    pub fn is_real(&self) -> bool {
        self.root == Path::new("/")
    }

    /// A file, named as on the host: `/sys/class/powercap`.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// What a file says, without the white space around it.
    pub fn read(&self, path: impl AsRef<Path>) -> io::Result<String> {
        read(&self.path(path))
    }

    /// The entries of a folder, as full paths in order of their names, numbers by their value. None
    /// where there is no such folder.
    pub fn list(&self, folder: impl AsRef<Path>) -> io::Result<Vec<PathBuf>> {
        list(&self.path(folder))
    }
}

/// What a file says, without the white space around it.
pub(crate) fn read(path: &Path) -> io::Result<String> {
    Ok(fs::read_to_string(path)?.trim().to_owned())
}

/// The number in a file; `None` if it is not there, cannot be read, or is no number.
pub(crate) fn number(path: &Path) -> Option<i64> {
    read(path).ok()?.parse().ok()
}

/// See [`Host::list`].
pub(crate) fn list(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort_by_cached_key(|path| {
        natural_order(&path.file_name().unwrap_or_default().to_string_lossy())
    });
    Ok(paths)
}

/// Texts and numbers of a name in turn, so that `hwmon2` comes before `hwmon10`.
fn natural_order(name: &str) -> Vec<(String, u64)> {
    let mut parts = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let text = rest.trim_start_matches(|c: char| !c.is_ascii_digit());
        let after = text.trim_start_matches(|c: char| c.is_ascii_digit());
        let digits = &text[..text.len() - after.len()];
        let number = digits.parse().unwrap_or(u64::MAX);
        parts.push((rest[..rest.len() - text.len()].to_owned(), number));
        rest = after;
    }
    parts
}
