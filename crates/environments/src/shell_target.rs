//! Where lines of the shell run: on this machine, or in something that was started before.

use std::fmt;
use std::process::Command;
use std::sync::Arc;

use crate::shell;

/// A way to run lines of the shell somewhere. Places nest: a container in a guest is reached by a
/// command in the guest, which is reached by a command here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellTarget {
    outer: Option<Arc<ShellTarget>>,
    /// The program and its first arguments; the line comes last.
    prefix: Vec<String>,
    /// The line goes through one more shell, as with ssh.
    reread: bool,
    name: String,
}

impl ShellTarget {
    /// This machine.
    pub fn here() -> Self {
        let prefix = vec!["/bin/sh".to_owned(), "-c".to_owned()];
        Self { outer: None, prefix, reread: false, name: "this machine".to_owned() }
    }

    /// Reached from this one by a program whose last argument is the line.
    pub(crate) fn within(&self, name: impl Into<String>, prefix: Vec<String>) -> Self {
        Self { outer: self.outer_of_inner(), prefix, reread: false, name: name.into() }
    }

    /// The same for a program which has a shell of its own read the line, whatever shell that is.
    pub(crate) fn behind(&self, name: impl Into<String>, prefix: Vec<String>) -> Self {
        Self { reread: true, ..self.within(name, prefix) }
    }

    /// The same place, as its users call it.
    pub(crate) fn renamed(self, name: impl Into<String>) -> Self {
        Self { name: name.into(), ..self }
    }

    /// On this machine no shell is needed to start the program.
    fn outer_of_inner(&self) -> Option<Arc<Self>> {
        (!self.is_here()).then(|| Arc::new(self.clone()))
    }

    pub(crate) fn is_here(&self) -> bool {
        *self == Self::here()
    }

    /// The place in which this one was made, for what has to work when this one is gone: behind ssh, a bare
    /// login.
    #[must_use]
    pub fn outer(&self) -> Self {
        self.outer.as_deref().cloned().unwrap_or_else(Self::here)
    }

    /// What a program on this machine is called with, to run the line there.
    pub fn argv(&self, line: &str) -> Vec<String> {
        let mut argv = self.prefix.clone();
        if self.reread {
            argv.push(format!("exec {}", shell::join(["/bin/sh", "-c", line])));
        } else {
            argv.push(line.to_owned());
        }
        match &self.outer {
            None => argv,
            Some(outer) => outer.argv(&format!("exec {}", shell::join(argv))),
        }
    }

    /// The same as a command: its input, output, errors and exit status are the line's.
    pub fn command(&self, line: &str) -> Command {
        let argv = self.argv(line);
        let mut command = Command::new(&argv[0]);
        command.args(&argv[1..]);
        command
    }
}

impl fmt::Display for ShellTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        match &self.outer {
            Some(outer) => write!(f, " in {outer}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_comes_through_as_many_shells_as_there_are() {
        let env = |name: &str| ["env", name, "/bin/sh", "-c"].map(str::to_owned).to_vec();
        // As ssh does: the arguments become one line for another shell.
        let other = ["/bin/sh", "-c", "eval \"$1\"", "sh"].map(str::to_owned).to_vec();
        let guest = ShellTarget::here().behind("guest", other);
        let container = guest.within("container", env("A=it's")).within("jail", env("B=two words"));
        let line = r#"printf '%s\n' "$A" "$B" '$x "y"'; cat; exit 3"#;
        let mut command = container.command(line);
        let child = command
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "it's\ntwo words\n$x \"y\"\n");
        assert_eq!(output.status.code(), Some(3));
        assert_eq!(container.to_string(), "jail in container in guest");
        assert_eq!(container.outer().to_string(), "container in guest");
        assert_eq!(
            ShellTarget::here().outer(),
            ShellTarget::here(),
            "nothing is around this machine"
        );
    }
}
