//! What a command needs of this machine, looked at before it starts: all that is missing is named at once.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::Host;

/// Words that the shell knows by itself.
const OF_THE_SHELL: [&str; 30] = [
    ".", "break", "case", "cd", "command", "continue", "echo", "eval", "exec", "exit", "export",
    "false", "for", "if", "kill", "printf", "read", "return", "set", "shift", "test", "time",
    "trap", "true", "type", "ulimit", "umask", "until", "wait", "while",
];

/// Looks for what is needed, and collects what is missing.
#[derive(Debug)]
pub struct Preflight {
    host: Host,
    path: OsString,
    is_root: bool,
    missing: Vec<String>,
}

impl Default for Preflight {
    fn default() -> Self {
        Self {
            host: Host::default(),
            path: env::var_os("PATH").unwrap_or_default(),
            is_root: rustix::process::geteuid().is_root(),
            missing: Vec::new(),
        }
    }
}

impl Preflight {
    /// Root is needed for `what`.
    pub fn root(&mut self, what: &str) {
        if !self.is_root {
            self.note(format!("root, for {what}: run it as root (`sudo`)"));
        }
    }

    /// One of these capabilities (numbers as in `linux/capability.h`) is needed, or root.
    pub fn capability(&mut self, name: &str, numbers: &[u32]) {
        if !numbers.iter().any(|number| self.has_capability(*number)) {
            self.note(format!("the capability {name}, which root has"));
        }
    }

    fn has_capability(&self, number: u32) -> bool {
        let status = std::fs::read_to_string(self.host.path("/proc/self/status"));
        let status = status.unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        mask.map_or(self.is_root, |mask| mask >> number & 1 == 1)
    }

    /// A program is needed, which `advice` says how to get.
    pub fn program(&mut self, name: &str, advice: &str) {
        if self.find(name).is_some() {
            return;
        }
        // On Debian, ordinary users do not have these folders in their search path; `sudo` has.
        let folders = ["/usr/local/sbin", "/usr/sbin", "/sbin"].into_iter();
        let found = folders.map(|it| format!("{it}/{name}")).find(|it| self.host.has(it));
        let more = found.map_or_else(String::new, |path| {
            format!(", or extend the search path (`PATH`): it is here as {path}")
        });
        self.note(format!("the program `{name}`: {advice}{more}"));
    }

    /// The path of a program.
    fn find(&self, name: &str) -> Option<PathBuf> {
        if name.contains('/') {
            return Some(PathBuf::from(name)).filter(|path| path.is_file());
        }
        env::split_paths(&self.path).map(|folder| folder.join(name)).find(|path| path.is_file())
    }

    /// A file of the kernel is needed, which `advice` says how to get.
    pub fn file(&mut self, path: &str, advice: &str) {
        if !self.host.path(path).exists() {
            self.note(format!("{path}: {advice}"));
        }
    }

    /// Something else is missing.
    pub fn note(&mut self, what: impl Into<String>) {
        let what = what.into();
        if !self.missing.contains(&what) {
            self.missing.push(what);
        }
    }

    /// All that is missing, each in a line with what to do about it.
    pub fn missing(self) -> Vec<String> {
        self.missing
    }
}

/// The program that a line of the shell begins with, if it is a plain name or an absolute path. Settings before it are
/// passed over, unless only the shell can find the end of their value: quoted words, or what another command prints.
pub fn first_word(line: &str) -> Option<&str> {
    let is_setting = |word: &str| {
        let name = word.split_once('=').map(|(name, _)| name);
        name.is_some_and(|name| name.chars().all(|it| it.is_ascii_alphanumeric() || it == '_'))
    };
    let is_open = |word: &str| {
        let is_odd = |quote| word.matches(quote).count() % 2 == 1;
        is_odd('\'') || is_odd('"') || word.contains("$(") || word.contains(['`', '\\'])
    };
    let mut words = line.split_whitespace().skip_while(|word| is_setting(word) && !is_open(word));
    let word = words.next()?;
    let name = if word.starts_with('/') { word.replace('/', "") } else { word.to_owned() };
    let is_plain = |it: char| it.is_ascii_alphanumeric() || "_.+-".contains(it);
    (!name.is_empty() && name.chars().all(is_plain) && !OF_THE_SHELL.contains(&word))
        .then_some(word)
}

/// Why this program cannot be run, if that is certain.
pub fn cannot_run(program: &Path) -> Option<&'static str> {
    match fs::metadata(program) {
        Ok(found) if found.is_dir() => Some("is a folder"),
        Ok(found) if found.permissions().mode() & 0o111 == 0 => Some("is not executable"),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Some("no such file")
        }
        // Another user may see more.
        Ok(_) | Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flight(status: &str, is_root: bool) -> (tempfile::TempDir, Preflight) {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("proc/self")).unwrap();
        fs::write(root.path().join("proc/self/status"), status).unwrap();
        fs::create_dir(root.path().join("bin")).unwrap();
        fs::write(root.path().join("bin/tc"), "").unwrap();
        let path = root.path().join("bin").into_os_string();
        let host = Host::at(root.path());
        (root, Preflight { host, path, is_root, missing: Vec::new() })
    }

    #[test]
    fn all_that_is_missing_is_named_once() {
        let (_root, mut flight) = flight("", false);
        flight.root("networks");
        flight.root("networks");
        flight.program("tc", "install iproute2");
        flight.program("nft", "install nftables");
        flight.file("/sys/kernel/btf/vmlinux", "use another kernel");
        let missing = flight.missing();
        assert_eq!(missing.len(), 3, "{missing:?}");
        assert!(missing[0].starts_with("root, for networks"), "{missing:?}");
        assert_eq!(missing[1], "the program `nft`: install nftables");
        assert!(missing[2].starts_with("/sys/kernel/btf/vmlinux"), "{missing:?}");
    }

    #[test]
    fn a_program_outside_the_search_path_is_named_with_its_place() {
        let (root, mut flight) = flight("", false);
        fs::create_dir_all(root.path().join("usr/sbin")).unwrap();
        fs::write(root.path().join("usr/sbin/nft"), "").unwrap();
        flight.program("nft", "install nftables");
        let missing = flight.missing();
        assert!(missing[0].ends_with("(`PATH`): it is here as /usr/sbin/nft"), "{missing:?}");
    }

    #[test]
    fn capabilities_are_bits_of_the_effective_mask() {
        // CAP_PERFMON is 38, CAP_BPF 39: the mask has the first of them only.
        let (_root, mut flight) = flight("Name:\tx\nCapEff:\t0000004000000000\n", false);
        flight.capability("CAP_PERFMON", &[38]);
        flight.capability("CAP_BPF", &[39]);
        flight.capability("CAP_BPF or CAP_PERFMON", &[39, 38]);
        let missing = flight.missing();
        assert!(missing.len() == 1 && missing[0].contains("CAP_BPF,"), "{missing:?}");
    }

    #[test]
    fn a_line_begins_with_a_program_behind_settings() {
        assert_eq!(first_word("A=1 B_2='x' wrk -t 1"), Some("wrk"));
        assert_eq!(first_word("cd /tmp && make"), None);
        assert_eq!(first_word("/opt/power.sh wake"), Some("/opt/power.sh"));
        assert_eq!(first_word("/"), None);
        assert_eq!(first_word("/opt/$x/power.sh wake"), None);
        assert_eq!(first_word("./build.sh"), None);
        assert_eq!(first_word("$HOME/bin/x"), None);
        assert_eq!(first_word("(sleep 1)"), None);
        // Only the shell finds the end of these settings.
        assert_eq!(first_word("bin=$(ls -d /usr/lib/*/bin | tail -n 1)"), None);
        assert_eq!(first_word("A=`ls -d /` B=1 wrk"), None);
        assert_eq!(first_word("A='x y' wrk"), None);
        assert_eq!(first_word("A=x\\ y wrk"), None);
    }

    #[test]
    fn a_program_is_a_file_that_may_be_executed() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("power.sh");
        assert_eq!(cannot_run(&file), Some("no such file"));
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(cannot_run(&file), Some("is not executable"));
        assert_eq!(cannot_run(&file.join("x")), Some("no such file"));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(cannot_run(&file), None);
        assert_eq!(cannot_run(dir.path()), Some("is a folder"));
    }
}
