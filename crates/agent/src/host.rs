//! The machine's files: `/sys`, `/proc` and the rest under a root that tests can put elsewhere.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where the machine's files are.
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
    /// A machine whose files lie under `root`.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// A file, named as on the machine: `/proc/stat`.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// What a file says.
    pub fn read(&self, path: impl AsRef<Path>) -> io::Result<String> {
        fs::read(self.path(path)).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// What a file says; `None` where there is no such file.
    pub fn read_if_any(&self, path: impl AsRef<Path>) -> io::Result<Option<String>> {
        match self.read(path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// How often the kernel has suspended the machine since boot, if it tells.
    pub fn suspends(&self) -> Option<u64> {
        self.read("/sys/power/suspend_stats/success").ok()?.trim().parse().ok()
    }

    /// Is there such a file or folder?
    pub fn has(&self, path: impl AsRef<Path>) -> bool {
        self.path(path).exists()
    }

    /// Names in a folder, sorted; none where there is no such folder.
    pub fn names(&self, folder: impl AsRef<Path>) -> io::Result<Vec<String>> {
        let entries = match fs::read_dir(self.path(folder)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let name =
            |entry: io::Result<fs::DirEntry>| Ok(entry?.file_name().to_string_lossy().into_owned());
        let mut names = entries.map(name).collect::<io::Result<Vec<_>>>()?;
        names.sort();
        Ok(names)
    }

    /// Writes to a file that is there, as files of `/sys` want it: at once and as a whole.
    pub fn write(&self, path: impl AsRef<Path>, text: &str) -> io::Result<()> {
        use std::io::Write;
        let mut file = fs::OpenOptions::new().write(true).truncate(true).open(self.path(path))?;
        file.write_all(text.as_bytes())
    }

    /// Which boot of the machine this is; zeros if the kernel does not say.
    pub fn boot_id(&self) -> [u8; 16] {
        let text = self.read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let hex: String = text.chars().filter(char::is_ascii_hexdigit).collect();
        u128::from_str_radix(&hex, 16).unwrap_or_default().to_be_bytes()
    }
}
