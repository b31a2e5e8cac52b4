//! Programs at the ends of a link.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};

use nightwatt_clock::meter::{Stop, Woken};
use nightwatt_energy::time::Mono;
use nightwatt_environments::{ShellTarget, shell};
use rustix::process::{Pid, Signal, kill_process};

use super::Error;

/// Bytes of a program's output that go into an error message.
const LONGEST_EXCERPT: usize = 400;

/// Of a process number, which the shell says before it becomes the program.
const NUMBER: &str = "echo $$; ";

/// Runs a command that takes a moment.
pub(super) fn succeed(command: Command, what: &str, line: &str) -> Result<String, Error> {
    succeed_with(command, Stdio::null(), what, line)
}

/// The same with something to read.
pub(super) fn succeed_with(
    mut command: Command,
    stdin: Stdio,
    what: &str,
    line: &str,
) -> Result<String, Error> {
    let output = command.stdin(stdin).output().map_err(Error::system(what))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    let output = text(&[output.stdout, output.stderr].concat());
    Err(Error::Command {
        what: what.to_owned(),
        command: line.to_owned(),
        output: beginning(&output),
    })
}

/// The shell becomes the program, so that its process number is the one we know.
fn line(before: &str, words: &[String]) -> String {
    format!("{before}exec {}", shell::join(words))
}

fn beginning(text: &str) -> String {
    text.trim().chars().take(LONGEST_EXCERPT).collect()
}

/// A program that runs. Dropped, it is killed.
#[derive(Debug)]
pub struct Running {
    what: String,
    child: Child,
    stdout: BufReader<ChildStdout>,
    errors: File,
    ended: bool,
    there: Option<RemoteProcess>,
}

/// Behind ssh our child is ssh, and the program another's.
#[derive(Debug)]
struct RemoteProcess {
    place: ShellTarget,
    process: u32,
}

impl RemoteProcess {
    fn signal(&self, signal: &str) {
        let mut command = self.place.command(&format!("kill -s {signal} {}", self.process));
        // It may have ended already.
        let _ = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
}

impl Running {
    /// Starts it behind ssh.
    pub(super) fn spawn_there(
        at: &ShellTarget,
        what: &str,
        words: &[String],
        stop: &Stop,
    ) -> Result<Self, Error> {
        let mut command = at.command(&line(NUMBER, words));
        // What interrupts us from the terminal is not for ssh: it is told when to end.
        command.process_group(0);
        let mut running = Self::spawn_command(command, what)?;
        let number = running.first_line(stop)?;
        let process = number.parse().map_err(|_| Error::UnexpectedOutput {
            program: "the shell there",
            why: "no process number".to_owned(),
            output: beginning(&number),
        })?;
        running.there = Some(RemoteProcess { place: at.clone(), process });
        Ok(running)
    }

    /// Starts it on this machine.
    pub(super) fn spawn(at: &ShellTarget, what: &str, words: &[String]) -> Result<Self, Error> {
        Self::spawn_command(at.command(&line("", words)), what)
    }

    fn spawn_command(mut command: Command, what: &str) -> Result<Self, Error> {
        let to_error = || Error::system(what);
        let errors = tempfile::tempfile().map_err(to_error())?;
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(errors.try_clone().map_err(to_error())?)
            .spawn()
            .map_err(to_error())?;
        let stdout =
            child.stdout.take().ok_or_else(|| to_error()(io::ErrorKind::BrokenPipe.into()))?;
        let stdout = BufReader::new(stdout);
        Ok(Self { what: what.to_owned(), child, stdout, errors, ended: false, there: None })
    }

    /// Is it over, by whatever it was ended?
    pub(crate) fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }

    /// Its process number, where it runs.
    pub fn process(&self) -> u32 {
        self.there.as_ref().map_or(self.child.id(), |there| there.process)
    }

    /// Waits for its first line.
    pub fn first_line(&mut self, stop: &Stop) -> Result<String, Error> {
        let mut line = String::new();
        // What came with an earlier line may be here already.
        let fd = self.stdout.get_ref().as_fd();
        if self.stdout.buffer().is_empty() && stop.readable_until(fd, Mono::NEVER) == Woken::Stopped
        {
            return Err(Error::Interrupted);
        }
        self.stdout.read_line(&mut line).map_err(Error::system(&self.what))?;
        if line.is_empty() { Err(self.failed()) } else { Ok(line.trim().to_owned()) }
    }

    /// Waits for its end, and gives what else it has printed. It must succeed.
    pub fn output(self, stop: &Stop) -> Result<String, Error> {
        let (text, failed) = self.result(stop)?;
        failed.map_or(Ok(text), Err)
    }

    /// Waits for its end, and gives what else it has printed, and how it has failed if it has.
    pub fn result(mut self, stop: &Stop) -> Result<(String, Option<Error>), Error> {
        let mut text = self.stdout.buffer().to_vec();
        let pipe = self.stdout.get_mut();
        let mut buffer = [0; 8192];
        loop {
            if stop.readable_until(pipe.as_fd(), Mono::NEVER) == Woken::Stopped {
                return Err(Error::Interrupted);
            }
            match pipe.read(&mut buffer).map_err(Error::system(&self.what))? {
                0 => break,
                count => text.extend_from_slice(&buffer[..count]),
            }
        }
        let status = self.child.wait().map_err(Error::system(&self.what))?;
        self.ended = true;
        let failed = (!status.success()).then(|| self.failed_with(&status.to_string()));
        let text = String::from_utf8(text).map_err(|error| Error::UnexpectedOutput {
            program: "a program of ours",
            why: error.to_string(),
            output: self.what.clone(),
        });
        Ok((text?, failed))
    }

    /// Tells it to end, and waits for that; gives what else it has printed.
    pub fn end(self, stop: &Stop) -> Result<String, Error> {
        self.terminate();
        self.output(stop)
    }

    /// Opens what the program prints, to be read while it runs.
    pub fn printed(&self) -> io::Result<File> {
        Ok(self.stdout.get_ref().as_fd().try_clone_to_owned()?.into())
    }

    /// Tells it to end, and gives what it has complained of. What it prints must be read meanwhile.
    pub fn complaints(mut self) -> Result<String, Error> {
        self.terminate();
        let status = self.child.wait().map_err(Error::system(&self.what))?;
        self.ended = true;
        if status.success() {
            Ok(self.complained())
        } else {
            Err(self.failed_with(&status.to_string()))
        }
    }

    fn terminate(&self) {
        if let Some(there) = &self.there {
            there.signal("TERM");
        } else if let Some(process) = Pid::from_raw(self.child.id().cast_signed()) {
            // It has not been waited for, so the number is still its.
            let _ = kill_process(process, Signal::TERM);
        }
    }

    fn complained(&mut self) -> String {
        let mut output = String::new();
        let _ = io::Seek::rewind(&mut self.errors);
        let _ = self.errors.read_to_string(&mut output);
        output
    }

    /// It has ended too early.
    pub(crate) fn failed(&mut self) -> Error {
        self.failed_with("no word of it")
    }

    /// The same where it is known how, for one that does not say it.
    fn failed_with(&mut self, how: &str) -> Error {
        let output = beginning(&self.complained());
        Error::Command {
            what: self.what.clone(),
            command: format!("process {}", self.child.id()),
            output: if output.is_empty() { how.to_owned() } else { output },
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.ended {
            // Where ssh has ended, the machine may be gone, and what it ran with it.
            if let (Some(there), Ok(None)) = (&self.there, self.child.try_wait()) {
                there.signal("KILL");
            }
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_fails_without_a_word_is_told_with_its_status_and_what_it_has_printed() {
        let stop = Stop::new().unwrap();
        let result = |line: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", line]);
            let (text, failed) =
                Running::spawn_command(command, "try").unwrap().result(&stop).unwrap();
            (text, failed.map(|it| it.of_one_run().unwrap()))
        };
        let printed = |text: &str, why: Option<&str>| (text.to_owned(), why.map(str::to_owned));
        assert_eq!(result("echo x"), printed("x\n", None));
        assert_eq!(result("echo x; exit 3"), printed("x\n", Some("try: exit status: 3")));
        assert_eq!(result("echo y >&2; exit 3"), printed("", Some("try: y")));
    }
}
