//! The host's files: `/sys`, `/proc` and `/dev` under a root that tests can move; and files that are
//! replaced in one step.

mod successor;

use std::fs;
use std::io;
use std::io::Write;
use std::path::{Path, PathBuf};

pub use self::successor::{Access, Durability, Replacement, Successor, replace, sync_folder_of};

/// A view of the host's files.
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
    /// A host whose files are under `root`.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Whether this is the machine that runs us.
    pub fn is_real(&self) -> bool {
        self.root == Path::new("/")
    }

    /// The place of a file that is named as on the host: `/sys/class/powercap`.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Whether there is such a file or folder.
    pub fn has(&self, path: impl AsRef<Path>) -> bool {
        self.path(path).exists()
    }

    /// The text of a file without the white space around it. Bytes that are not UTF-8 are replaced.
    pub fn read(&self, path: impl AsRef<Path>) -> io::Result<String> {
        read(&self.path(path))
    }

    /// The text of a file; `None` if there is no such file.
    pub fn read_if_any(&self, path: impl AsRef<Path>) -> io::Result<Option<String>> {
        match self.read(path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The entries of a folder: full paths, sorted by name, with numbers by their value. Empty if there
    /// is no such folder.
    pub fn list(&self, folder: impl AsRef<Path>) -> io::Result<Vec<PathBuf>> {
        list(&self.path(folder))
    }

    /// The names in a folder, sorted. Empty if there is no such folder.
    pub fn names(&self, folder: impl AsRef<Path>) -> io::Result<Vec<String>> {
        let name = |path: PathBuf| path.file_name().unwrap_or_default().to_string_lossy().into();
        let mut names: Vec<String> = entries(&self.path(folder))?.into_iter().map(name).collect();
        names.sort();
        Ok(names)
    }

    /// Writes to a file that exists, as files of `/sys` want it: all at once.
    pub fn write(&self, path: impl AsRef<Path>, text: &str) -> io::Result<()> {
        let mut file = fs::OpenOptions::new().write(true).truncate(true).open(self.path(path))?;
        file.write_all(text.as_bytes())
    }

    /// How many times the kernel has suspended the machine since boot, if it counts that.
    pub fn suspends(&self) -> Option<u64> {
        self.read("/sys/power/suspend_stats/success").ok()?.parse().ok()
    }

    /// Identifies the boot of the machine; zeros if the kernel does not have it.
    pub fn boot_id(&self) -> [u8; 16] {
        let text = self.read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let hex: String = text.chars().filter(char::is_ascii_hexdigit).collect();
        u128::from_str_radix(&hex, 16).unwrap_or_default().to_be_bytes()
    }
}

/// The text of a file; see [`Host::read`].
pub fn read(path: &Path) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&fs::read(path)?).trim().to_owned())
}

/// The number in a file; `None` if the file cannot be read or holds none.
pub fn number(path: &Path) -> Option<i64> {
    read(path).ok()?.parse().ok()
}

/// The value of the first line `name : value`, as `/proc/cpuinfo` and `/proc/meminfo` have them.
pub fn field(info: &str, name: &str) -> Option<String> {
    info.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

/// The entries of a folder; see [`Host::list`].
pub fn list(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = entries(folder)?;
    paths.sort_by_cached_key(|path| {
        natural_order(&path.file_name().unwrap_or_default().to_string_lossy())
    });
    Ok(paths)
}

fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        entries => entries?.map(|entry| Ok(entry?.path())).collect(),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_under_the_root_and_read_without_white_space_around() {
        let root = tempfile::tempdir().unwrap();
        let host = Host::at(root.path());
        assert!(!host.is_real() && Host::default().is_real());
        fs::create_dir_all(host.path("/sys/class/hwmon")).unwrap();
        fs::write(host.path("/sys/class/hwmon/name"), " k10temp\n").unwrap();
        assert_eq!(host.read("/sys/class/hwmon/name").unwrap(), "k10temp");
        assert!(host.has("/sys/class") && !host.has("/proc"));
        assert_eq!(host.read_if_any("/proc/stat").unwrap(), None);
        host.write("/sys/class/hwmon/name", "7").unwrap();
        assert_eq!(number(&host.path("/sys/class/hwmon/name")), Some(7));
        assert!(host.write("/sys/class/hwmon/other", "7").is_err(), "it must exist");
        fs::write(host.path("/sys/class/hwmon/name"), b"a\xffb").unwrap();
        assert_eq!(host.read("/sys/class/hwmon/name").unwrap(), "a\u{fffd}b");
    }

    #[test]
    fn fields_have_a_colon_behind_their_whole_name() {
        let info = "processor\t: 0\nmodel name\t: A: b\nmodel\t\t: 7\nmodel\t\t: 8\n";
        assert_eq!(field(info, "model").as_deref(), Some("7"));
        assert_eq!(field(info, "model name").as_deref(), Some("A: b"));
        assert_eq!(field(info, "flags"), None);
    }

    #[test]
    fn folders_are_listed_by_name_and_paths_by_number_too() {
        let root = tempfile::tempdir().unwrap();
        let host = Host::at(root.path());
        for name in ["hwmon10", "hwmon2", "a"] {
            fs::create_dir_all(host.path(format!("/sys/{name}"))).unwrap();
        }
        assert_eq!(host.names("/sys").unwrap(), ["a", "hwmon10", "hwmon2"]);
        let paths = ["a", "hwmon2", "hwmon10"].map(|name| host.path(format!("/sys/{name}")));
        assert_eq!(host.list("/sys").unwrap(), paths);
        assert!(host.list("/dev").unwrap().is_empty() && host.names("/dev").unwrap().is_empty());
    }
}
