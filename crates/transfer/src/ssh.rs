//! The receiver on another machine, started there by ssh.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use nightwatt_host::shell::quote;
use twox_hash::XxHash3_64;

/// Where to send: `host:path` or `user@host:path`, an IPv6 address in brackets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// As ssh takes it.
    pub host: String,
    /// The folder there; from the user's home unless it begins with `/`.
    pub path: String,
}

/// A text that is no target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no `HOST:PATH`; write for example `nas:/backup`, or `user@nas:` for the home folder there"
)]
pub struct NoTarget(String);

impl FromStr for Target {
    type Err = NoTarget;

    fn from_str(text: &str) -> Result<Self, NoTarget> {
        let wrong = || NoTarget(text.to_owned());
        // Brackets belong to an address: the colon behind them counts.
        let after = text.rfind(']').map_or(0, |end| end + 1);
        let colon = text[after..].find(':').map(|at| at + after).ok_or_else(wrong)?;
        let host = text[..colon].replace(['[', ']'], "");
        let path = &text[colon + 1..];
        // ssh would take a leading `-` for an option; a `/` shows a path on this machine.
        if host.is_empty() || host.starts_with('-') || host.contains(['/', ' ']) {
            return Err(wrong());
        }
        let path = if path.is_empty() { "." } else { path };
        Ok(Self { host, path: path.to_owned() })
    }
}

impl Target {
    /// What tells the receiver that the same is sent again: what is sent, where to, and by which machine.
    pub fn session(&self, paths: &[PathBuf]) -> [u8; 16] {
        self.session_of(paths, &machine())
    }

    fn session_of(&self, paths: &[PathBuf], machine: &[u8]) -> [u8; 16] {
        let mut named = [machine, b"\0"].concat();
        for path in paths {
            let whole = std::fs::canonicalize(path).unwrap_or_else(|_| path.clone());
            named.extend_from_slice(whole.as_os_str().as_encoded_bytes());
            named.push(0);
        }
        named.extend_from_slice(self.host.as_bytes());
        named.push(0);
        named.extend_from_slice(place(&self.path).as_os_str().as_encoded_bytes());
        let mut session = [0; 16];
        for (seed, part) in session.chunks_mut(8).enumerate() {
            part.copy_from_slice(&XxHash3_64::oneshot_with_seed(seed as u64, &named).to_le_bytes());
        }
        session
    }
}

/// A path in one of the ways in which it can be written: `/dst/` and `//dst/.` are `/dst`.
fn place(path: &str) -> PathBuf {
    let parts = Path::new(path).components().filter(|part| *part != Component::CurDir);
    let place: PathBuf = parts.collect();
    if place.as_os_str().is_empty() { ".".into() } else { place }
}

/// What tells this machine from others: its id, or else its name.
fn machine() -> Vec<u8> {
    let files = ["/etc/machine-id", "/var/lib/dbus/machine-id", "/proc/sys/kernel/hostname"];
    let mut names = files.iter().filter_map(|path| std::fs::read(path).ok());
    names.find(|name| !name.trim_ascii().is_empty()).unwrap_or_default()
}

/// How the receiver is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    /// The program that reaches the other machine, with its options: `ssh -p 2222`.
    pub shell: Vec<OsString>,
    /// nightwatt on the other machine.
    pub program: String,
}

impl Default for Remote {
    fn default() -> Self {
        Self { shell: vec!["ssh".into()], program: "nightwatt".to_owned() }
    }
}

impl Remote {
    /// What is run here.
    pub fn command(&self, target: &Target) -> Vec<OsString> {
        let receive =
            format!("{} receive --stdio -- {}", quote(&self.program), quote(&target.path));
        let mut command = self.shell.clone();
        if command.is_empty() {
            command.push("ssh".into());
        }
        let is_ssh = Path::new(&command[0]).file_name() == Some(OsStr::new("ssh"));
        // Blocks are packed already. ssh ends a minute after the last answer, unless the user has
        // another wish: of two equal options, ssh heeds the first.
        let options =
            ["-o", "Compression=no", "-o", "ServerAliveInterval=20", "-o", "ServerAliveCountMax=3"];
        command.extend(
            is_ssh
                .then(|| options.into_iter().chain(["--"]))
                .into_iter()
                .flatten()
                .map(OsString::from),
        );
        command.push(target.host.clone().into());
        command.push(receive.into());
        command
    }

    /// Starts it.
    pub fn start(&self, target: &Target) -> io::Result<Started> {
        let command = self.command(target);
        let mut child = Command::new(&command[0])
            .args(&command[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let streams = child.stdin.take().zip(child.stdout.take());
        let (writer, reader) = streams.ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(Started { writer, reader, ending: Ending(Mutex::new(child)) })
    }
}

/// A receiver that was started.
#[derive(Debug)]
pub struct Started {
    /// To it.
    pub writer: ChildStdin,
    /// From it.
    pub reader: ChildStdout,
    /// Ends it.
    pub ending: Ending,
}

/// The end of what was started.
#[derive(Debug)]
pub struct Ending(Mutex<Child>);

impl Ending {
    /// Ends it at once.
    pub fn kill(&self) {
        // It may have ended by itself.
        let _ = self.0.lock().unwrap_or_else(PoisonError::into_inner).kill();
    }

    /// Waits for its end.
    pub fn wait(&self) -> io::Result<ExitStatus> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).wait()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_hosts_and_paths() {
        let target = |text: &str| text.parse::<Target>().map(|it| (it.host, it.path)).ok();
        let is = |host: &str, path: &str| Some((host.to_owned(), path.to_owned()));
        assert_eq!(target("nas:/backup"), is("nas", "/backup"));
        assert_eq!(target("me@nas:a:b"), is("me@nas", "a:b"));
        assert_eq!(target("nas:"), is("nas", "."));
        assert_eq!(target("me@[fe80::1]:/x"), is("me@fe80::1", "/x"));
        for wrong in ["nas", "", ":x", "-oProxyCommand=x:y", "/a/b:c", "a b:c"] {
            assert_eq!(target(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_path_is_safe_from_the_other_machines_shell() {
        let target: Target = "nas:/a b'; rm -rf $HOME #".parse().unwrap();
        let line = Remote::default().command(&target);
        let last = line.last().unwrap().to_str().unwrap();
        assert_eq!(last, r"nightwatt receive --stdio -- '/a b'\''; rm -rf $HOME #'");
        assert_eq!(line[..3], ["ssh", "-o", "Compression=no"]);
        let host = line.iter().position(|word| word == "nas").unwrap();
        assert_eq!((host, line[host - 1].as_os_str()), (line.len() - 2, OsStr::new("--")));
        let remote = Remote { shell: vec!["/opt/rsh".into(), "-x".into()], ..Remote::default() };
        assert_eq!(remote.command(&target)[..3], ["/opt/rsh", "-x", "nas"]);
    }

    #[test]
    fn a_session_is_what_is_sent_and_where_to() {
        let target: Target = "nas:/backup".parse().unwrap();
        let of =
            |paths: &[&str]| target.session(&paths.iter().map(PathBuf::from).collect::<Vec<_>>());
        assert_eq!(of(&["/usr"]), of(&["/usr/../usr"]));
        assert_ne!(of(&["/usr"]), of(&["/tmp"]));
        for same in ["nas:/backup/", "nas://backup", "nas:/./backup/."] {
            let same: Target = same.parse().unwrap();
            assert_eq!(same.session(&[PathBuf::from("/usr")]), of(&["/usr"]), "{same:?}");
        }
        let home = ["nas:", "nas:.", "nas:./"].map(|it| it.parse::<Target>().unwrap().session(&[]));
        assert!(home.iter().all(|it| it == &home[0] && *it != target.session(&[])));
        let other: Target = "nas:/backups".parse().unwrap();
        assert_ne!(of(&["/usr"]), other.session(&[PathBuf::from("/usr")]));
        // Two machines that send their /home to the same folder.
        let paths = [PathBuf::from("/usr")];
        assert_ne!(target.session_of(&paths, b"one"), target.session_of(&paths, b"two"));
        assert_eq!(of(&["/usr"]), target.session_of(&paths, &machine()));
    }
}
