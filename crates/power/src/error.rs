//! What can go wrong, and what to try next.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use nightwatt_host::http::HttpError;
use nightwatt_host::secret::SecretError;
use nightwatt_host::text::brief;
use nightwatt_host::tls::TlsError;
use thiserror::Error as ThisError;

use crate::program_error_hints::cure;

/// A server could not be woken, put to sleep or asked.
#[derive(Debug, ThisError)]
pub enum Error {
    /// A program could not be started at all.
    #[error("cannot start `{program}`")]
    Start {
        /// The program, as configured.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// A command said that it failed.
    #[error("`{command}` failed ({status}){}", quoted(.output))]
    Failed {
        /// The command, as configured.
        command: String,
        /// Its exit status in words.
        status: String,
        /// The end of what it printed.
        output: String,
    },
    /// A command did not end in time and was killed.
    #[error("`{command}` was not done after {limit:?} and was killed{}", quoted(.output))]
    TimedOut {
        /// The command, as configured.
        command: String,
        /// The time it had.
        limit: Duration,
        /// The end of what it had printed.
        output: String,
    },
    /// `ssh` itself failed.
    #[error("ssh to {host} failed{}", quoted(.output))]
    Ssh {
        /// Where to.
        host: String,
        /// The end of what it said.
        output: String,
    },
    /// A program that a driver needs is not there.
    #[error("there is no program `{program}` here")]
    Missing {
        /// The program, as configured.
        program: String,
        /// Where it comes from.
        hint: &'static str,
    },
    /// The controller cannot be reached.
    #[error("cannot reach {whom}")]
    Unreachable {
        /// Who: a daemon, a management controller.
        whom: String,
        /// What helps against that.
        hint: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// The controller did not answer in time.
    #[error("{whom} did not answer within {limit:?}")]
    Silent {
        /// Who.
        whom: String,
        /// What helps against that.
        hint: &'static str,
        /// The time it had.
        limit: Duration,
    },
    /// The controller refused.
    #[error("{whom} refuses to {what}: {why}")]
    Refused {
        /// Who.
        whom: String,
        /// What it was asked to do.
        what: String,
        /// What it said.
        why: String,
        /// What helps against that.
        hint: &'static str,
    },
    /// The answer of the controller makes no sense.
    #[error("{whom} answers nonsense: {what}")]
    Nonsense {
        /// Who.
        whom: String,
        /// What is wrong with the answer.
        what: String,
    },
    /// The server has reasons of its own to stay awake. That is no failure: it can be asked again soon.
    #[error("the server stays awake: {reasons}")]
    Inhibited {
        /// What keeps it awake, for people: `2 users are logged in (ann, bob); backup.timer is due in 4 min`.
        reasons: String,
    },
    /// What the server runs on does not wake.
    #[error("the machine `{name}`, which it runs on, does not wake")]
    Machine {
        /// Its name.
        name: String,
    },
    /// The agent of the server cannot be asked, or does not answer.
    #[error(transparent)]
    Agent(Box<nightwatt_agent::Error>),
    /// What was started has ended by itself.
    #[error("`{program}` ended by itself ({status}); its output is in {}", .log.display())]
    Ended {
        /// The program, as configured.
        program: String,
        /// Its exit status in words.
        status: String,
        /// Where its output is.
        log: PathBuf,
    },
    /// A process survived everything.
    #[error("process {pid} is still there {waited:?} after SIGKILL")]
    Unkillable {
        /// The leader of its process group.
        pid: i32,
        /// How long was waited.
        waited: Duration,
    },
    /// The operating system refused.
    #[error("cannot {attempt}")]
    System {
        /// What was attempted.
        attempt: String,
        /// Why not.
        source: io::Error,
    },
    /// A failure that a scenario asked for.
    #[error("the scenario says that this attempt to {action} fails")]
    Scripted {
        /// `wake` or `sleep`.
        action: &'static str,
    },
}

impl Error {
    /// Explains why `whom` did not answer over HTTP; `hint` is what helps if the connection fails.
    pub(crate) fn of_http(
        error: HttpError,
        whom: String,
        hint: impl Fn(&io::Error) -> &'static str,
    ) -> Self {
        match error {
            HttpError::Lookup { source, .. }
            | HttpError::Connect { source, .. }
            | HttpError::Tls { source, .. } => {
                Self::Unreachable { whom, hint: hint(&source), source }
            }
            HttpError::TooLong(_) => Self::Nonsense { whom, what: error.to_string() },
            error => {
                let what = format!("no HTTP/1.1: {}", brief(error.to_string().as_bytes()));
                Self::Nonsense { whom, what }
            }
        }
    }

    /// Can the same call succeed later without a change by the operator?
    pub fn retryable(&self) -> bool {
        match self {
            Self::Start { source, .. }
            | Self::System { source, .. }
            | Self::Unreachable { source, .. } => !matches!(
                source.kind(),
                io::ErrorKind::NotFound
                    | io::ErrorKind::PermissionDenied
                    | io::ErrorKind::InvalidInput
                    | io::ErrorKind::Unsupported
            ),
            Self::Missing { .. } => false,
            Self::Agent(_)
            | Self::Failed { .. }
            | Self::Silent { .. }
            | Self::Refused { .. }
            | Self::Nonsense { .. }
            | Self::TimedOut { .. }
            | Self::Ssh { .. }
            | Self::Inhibited { .. }
            | Self::Machine { .. }
            | Self::Ended { .. }
            | Self::Unkillable { .. }
            | Self::Scripted { .. } => true,
        }
    }

    /// What to try next, as an imperative.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Start { source, .. } => match source.kind() {
                io::ErrorKind::NotFound => {
                    "give the program's full path, and check that `dir` exists if it is set"
                }
                io::ErrorKind::PermissionDenied => {
                    "check that the program is executable for the proxy's user (and `dir` enterable)"
                }
                _ => "start it by hand as the proxy's user to see what is missing",
            },
            Self::Failed { .. } => {
                "run the command by hand as the proxy's user; it must exit with status 0 on success"
            }
            Self::TimedOut { .. } => {
                "run the command by hand; if it is meant to take that long, raise `timeout`"
            }
            Self::Ssh { output, .. } => ssh_hint(output),
            Self::Missing { hint, .. }
            | Self::Unreachable { hint, .. }
            | Self::Silent { hint, .. }
            | Self::Refused { hint, .. } => hint,
            Self::Nonsense { .. } => "check that the configuration leads to the right one",
            Self::Inhibited { .. } => {
                "nothing: it is asked again; if that should not keep it awake, change what inhibits its agent"
            }
            Self::Machine { .. } => "see what the log says of that machine",
            Self::Agent(error) => error.hint(),
            Self::Ended { .. } => {
                "read the end of its output; a program that goes into the background ends as well: have it \
                 stay in the foreground, as `nginx -g 'daemon off;'`"
            }
            Self::Unkillable { .. } => {
                "look for processes in state D (`ps -o pid,stat,wchan`): a disk or network file \
                 system may hang"
            }
            Self::System { .. } => "check the permissions and limits of the proxy's user",
            Self::Scripted { .. } => "nothing: this is a rehearsal",
        }
    }
}

/// What helps against what `ssh` complains of.
pub(crate) fn ssh_hint(output: &str) -> &'static str {
    let cures = [
        (
            "Host key verification failed",
            "as the proxy's user run `ssh-keyscan HOST >> ~/.ssh/known_hosts`, and compare the key's \
             fingerprint with what `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` says on the host; \
             if the key has changed, find out why first",
        ),
        (
            "Permission denied",
            "put the public key of the proxy's user into `authorized_keys` of the host's user \
             (`ssh-copy-id`), and check with `sudo -u PROXY_USER ssh -o BatchMode=yes HOST true`",
        ),
        ("Could not resolve", "check the name of the host, or give its address"),
        ("Connection refused", "check that sshd runs there, and its port"),
        ("timed out", "check that the host is awake and reachable from the proxy"),
    ];
    cure(&cures, output)
        .unwrap_or("run ssh by hand as the proxy's user, with `-v`, to see where it fails")
}

/// `: "output"` in one piece, or nothing for no output.
fn quoted(output: &str) -> String {
    match output.trim() {
        "" => String::new(),
        text => format!(", its last words: {text}"),
    }
}

/// A controller could not be set up as configured. What is wrong with the text of a configuration
/// is reported while it is read, with its line.
#[derive(Debug, ThisError)]
pub enum ConfigError {
    /// The state directory is of no use.
    #[error("cannot use the state directory {}", .path.display())]
    StateDir {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The key of an agent is of no use.
    #[error(transparent)]
    Agent(Box<nightwatt_agent::Error>),
    /// Announcements cannot be heard.
    #[error("cannot listen for announcements on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// Whether an earlier proxy left a process running cannot be found out.
    #[error("cannot look at the processes in /proc")]
    Processes(#[source] io::Error),
    /// A file that the configuration names cannot be read.
    #[error("`{key}`: cannot read {}", .path.display())]
    File {
        /// The key that names it.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is no password where one should be.
    #[error("there is no password in {place}")]
    NoPassword {
        /// A file, or a variable of the environment.
        place: String,
    },
    /// A file of certificates holds none.
    #[error("{} is no certificate: {why}", .path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// TLS cannot be set up.
    #[error("cannot set up TLS: {0}")]
    Tls(String),
}

impl From<TlsError> for ConfigError {
    fn from(error: TlsError) -> Self {
        match error {
            TlsError::File { path, source } => Self::File { key: "ca", path, source },
            TlsError::NoCertificate(path) => {
                Self::Certificate { path, why: "the file holds none".to_owned() }
            }
            TlsError::Certificate { path, why } => Self::Certificate { path, why },
            TlsError::Setup(why) => Self::Tls(why),
        }
    }
}

impl From<SecretError> for ConfigError {
    fn from(error: SecretError) -> Self {
        match error {
            SecretError::File { path, source } => Self::File { key: "password_file", path, source },
            SecretError::NoLine(path) => {
                Self::NoPassword { place: format!("the first line of {}", path.display()) }
            }
            SecretError::NoVariable(name) => {
                Self::NoPassword { place: format!("the environment's `{name}`") }
            }
        }
    }
}

impl ConfigError {
    /// The same, if a file cannot be read that another key names.
    #[must_use]
    pub fn of_key(self, key: &'static str) -> Self {
        match self {
            Self::File { path, source, .. } => Self::File { key, path, source },
            other => other,
        }
    }

    /// What to try next, as an imperative.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::StateDir { .. } => {
                "make it a directory that the proxy's user may write, or configure another"
            }
            Self::Agent(error) => error.hint(),
            Self::Listen { .. } => {
                "`ss -ulpn` shows who has the port; without `listen` the proxy hears no announcements"
            }
            Self::Processes(_) => "mount /proc, or use the `command` driver instead of `process`",
            Self::File { .. } => "check its name, and that the proxy's user may read it",
            Self::NoPassword { .. } => {
                "write it into the first line of the file (mode 600, the proxy's user its owner), or set \
                 the variable where the proxy is started"
            }
            Self::Tls(_) => "this is a fault of nightwatt: please report it",
            Self::Certificate { .. } => {
                "it is to be PEM: `openssl s_client -connect HOST:443 </dev/null | openssl x509` shows \
                 the server's own"
            }
        }
    }
}
