//! Settings that stand in files of the kernel.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use super::Set;
use crate::guard::Guard;
use crate::{Error, shell};

const CPUS: &str = "sys/devices/system/cpu";
const NO_DRIVER: &str = "load a driver for the CPUs' frequency, let the firmware leave it to the system, \
                         or compare something else; guests have none";

/// Files that hold the same value.
#[derive(Debug)]
pub(super) struct Files {
    name: String,
    paths: Vec<PathBuf>,
    /// Plans say `on` and `off`; what the file says for them.
    words: Option<[&'static str; 2]>,
    /// The file beside each that lists what may be in it.
    choices: Option<&'static str>,
}

fn missing(name: String, path: &Path, hint: &'static str) -> Error {
    Error::Setting { setting: name, why: format!("this machine has no {}", path.display()), hint }
}

/// One file in the folder of each set of CPUs that change their frequency together.
pub(super) fn of_policies(
    root: &Path,
    name: String,
    file: &str,
    choices: &'static str,
) -> Result<Files, Error> {
    let folder = root.join(CPUS).join("cpufreq");
    let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
    let mut paths: Vec<_> =
        entries.map(|entry| entry.path().join(file)).filter(|path| path.exists()).collect();
    paths.sort();
    if paths.is_empty() {
        return Err(missing(name, &folder.join("policy0").join(file), NO_DRIVER));
    }
    Ok(Files { name, paths, words: None, choices: Some(choices) })
}

/// Intel's driver says what is forbidden, all others what is allowed.
pub(super) fn turbo(root: &Path, name: String) -> Result<Files, Error> {
    let cpus = root.join(CPUS);
    let ways = [("intel_pstate/no_turbo", ["0", "1"]), ("cpufreq/boost", ["1", "0"])];
    let found =
        ways.iter().map(|(file, words)| (cpus.join(file), *words)).find(|(path, _)| path.exists());
    let (path, words) =
        found.ok_or_else(|| missing(name.clone(), &cpus.join("cpufreq/boost"), NO_DRIVER))?;
    Ok(Files { name, paths: vec![path], words: Some(words), choices: None })
}

pub(super) fn smt(root: &Path, name: String) -> Result<Files, Error> {
    const HINT: &str = "set it in the firmware, if the CPU has it at all";
    let path = root.join(CPUS).join("smt/control");
    let now = fs::read_to_string(&path).map_err(|_| missing(name.clone(), &path, HINT))?;
    if !["on", "off"].contains(&now.trim()) {
        let why = format!("{} says `{}`", path.display(), now.trim());
        return Err(Error::Setting { setting: name, why, hint: HINT });
    }
    Ok(Files { name, paths: vec![path], words: Some(["on", "off"]), choices: None })
}

/// `net.ipv4.conf.eth0/1.forwarding`: as in sysctl, a slash stands for a dot in a name.
pub(super) fn sysctl(root: &Path, name: String, key: &str) -> Result<Files, Error> {
    let swap = |c| match c {
        '.' => '/',
        '/' => '.',
        other => other,
    };
    let path: String = key.chars().map(swap).collect();
    one(
        root,
        name,
        &format!("proc/sys/{path}"),
        "load the module that brings it, and see `sysctl -a`",
    )
}

pub(super) fn any(root: &Path, name: String, path: &str) -> Result<Files, Error> {
    one(root, name, path.trim_start_matches('/'), "see what the machine has there")
}

fn one(root: &Path, name: String, path: &str, hint: &'static str) -> Result<Files, Error> {
    let path = root.join(path);
    if !path.is_file() {
        return Err(missing(name, &path, hint));
    }
    Ok(Files { name, paths: vec![path], words: None, choices: None })
}

/// What a file says: its words, or of choices (`none [mq-deadline] kyber`) the one that holds.
fn value_of(text: &str) -> String {
    let chosen = text.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    let words: Vec<_> = text.split_whitespace().collect();
    chosen.map_or_else(|| words.join(" "), str::to_owned)
}

impl Files {
    fn values(&self) -> Result<Vec<String>, Error> {
        let read = |path: &PathBuf| {
            let in_words =
                |source| Error::System { attempt: format!("read {}", path.display()), source };
            fs::read_to_string(path).map(|text| value_of(&text)).map_err(in_words)
        };
        self.paths.iter().map(read).collect()
    }

    pub(super) fn read(&self) -> Result<String, Error> {
        Ok(self.in_words(&self.values()?))
    }

    /// One word if all say the same.
    fn in_words(&self, values: &[String]) -> String {
        let mut words: Vec<_> = values.iter().map(|value| self.word_of(value)).collect();
        words.dedup();
        words.join(", ")
    }

    fn word_of(&self, value: &str) -> String {
        match self.words {
            Some([on, _]) if value == on => "on".to_owned(),
            Some([_, off]) if value == off => "off".to_owned(),
            _ => value.to_owned(),
        }
    }

    fn value_for(&self, word: &str) -> Result<String, Error> {
        match (self.words, word) {
            (Some([on, _]), "on") => Ok(on.to_owned()),
            (Some([_, off]), "off") => Ok(off.to_owned()),
            (Some(_), other) => Err(Error::Setting {
                setting: self.name.clone(),
                why: format!("`{other}` is no value of it"),
                hint: "write `on` or `off`",
            }),
            (None, other) => Ok(value_of(other)),
        }
    }

    pub(super) fn check(&self, words: &[String]) -> Result<(), Error> {
        self.values()?;
        for word in words {
            let wanted = self.value_for(word)?;
            for path in &self.paths {
                let offered = self
                    .choices
                    .and_then(|name| fs::read_to_string(path.with_file_name(name)).ok());
                if offered.is_some_and(|offered| offered.split_whitespace().all(|it| it != wanted))
                {
                    return Err(self.refused(path, &wanted, "it is not one of them"));
                }
            }
        }
        Ok(())
    }

    pub(super) fn strayed(&self, word: &str) -> Result<Option<String>, Error> {
        let (wanted, now) = (self.value_for(word)?, self.values()?);
        Ok(now.iter().any(|value| *value != wanted).then(|| self.in_words(&now)))
    }

    pub(super) fn set(&self, word: &str, guard: &Guard) -> Result<Set, Error> {
        let wanted = self.value_for(word)?;
        let before = self.values()?;
        let in_words = self.in_words(&before);
        if before.iter().all(|value| *value == wanted) {
            return Ok(Set { before: in_words, undo: None });
        }
        let mut line = String::new();
        for (path, value) in self.paths.iter().zip(&before) {
            let path = shell::quote(&path.display().to_string());
            // The file of a CPU that went away meanwhile went with it.
            let _ = writeln!(
                line,
                "[ ! -e {path} ] || echo {} >{path} || failed=1",
                shell::quote(value)
            );
        }
        line.push_str("[ -z \"$failed\" ]");
        let undo = guard.protect(&line)?;
        for path in &self.paths {
            // A new file in its place would not be the kernel's: it must be there, and is not made.
            let written = fs::OpenOptions::new().write(true).truncate(true).open(path);
            let written = written.and_then(|mut file| {
                std::io::Write::write_all(&mut file, format!("{wanted}\n").as_bytes())
            });
            written.map_err(|error| self.refused(path, &wanted, &error.to_string()))?;
        }
        for (path, now) in self.paths.iter().zip(self.values()?) {
            if now != wanted {
                return Err(self.refused(path, &wanted, &format!("it says `{now}` afterwards")));
            }
        }
        Ok(Set { before: in_words, undo: Some(undo) })
    }

    fn refused(&self, path: &Path, wanted: &str, why: &str) -> Error {
        let beside =
            self.choices.and_then(|name| fs::read_to_string(path.with_file_name(name)).ok());
        let choices =
            beside.map(|text| format!(" (it takes: {})", text.trim())).unwrap_or_default();
        Error::Setting {
            setting: self.name.clone(),
            why: format!("{} does not take `{wanted}`{choices}: {why}", path.display()),
            hint: "run as root, and choose what it takes",
        }
    }
}
