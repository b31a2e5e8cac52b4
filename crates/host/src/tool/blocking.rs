//! Programs for threads that may block.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};

use nightwatt_clock::meter::{Stop, Woken};
use nightwatt_energy::time::Mono;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

/// What ends the wait for a program, besides its end.
#[derive(Debug, Clone, Copy)]
pub struct Limits<'a> {
    /// The program is not needed any more.
    pub stop: &'a Stop,
    /// It had enough time.
    pub until: Mono,
    /// Maximum size of its output in bytes.
    pub longest: usize,
}

/// How the wait for a program ended.
#[derive(Debug)]
pub enum Finished {
    /// The program has ended.
    Ended(ExitStatus),
    /// It was not done in time.
    TimedOut,
    /// It is not needed any more.
    Stopped,
    /// It printed too much.
    TooLong,
}

/// A program in a process group of its own. Dropped before it ended, it is killed with all it started.
#[derive(Debug)]
pub struct Running {
    child: Child,
    ended: bool,
}

impl Running {
    /// Starts a program. Signals from the terminal do not reach it.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        let child = command.process_group(0).spawn()?;
        Ok(Self { child, ended: false })
    }

    /// The process.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Adds to `printed` what comes from `output`, until the program and all that share its output have
    /// closed it; then waits for the program.
    pub fn finish(
        &mut self,
        output: &mut (impl Read + AsFd),
        printed: &mut Vec<u8>,
        limits: Limits<'_>,
    ) -> io::Result<Finished> {
        let mut buffer = [0; 4096];
        loop {
            match limits.stop.readable_until(output.as_fd(), limits.until) {
                Woken::Readable => {}
                Woken::TimedOut => return Ok(Finished::TimedOut),
                Woken::Stopped => return Ok(Finished::Stopped),
            }
            match output.read(&mut buffer)? {
                0 => break,
                count => printed.extend_from_slice(&buffer[..count]),
            }
            if printed.len() > limits.longest {
                return Ok(Finished::TooLong);
            }
        }
        let pidfd = pidfd_open(Pid::from_child(&self.child), PidfdFlags::empty())?;
        match limits.stop.readable_until(pidfd.as_fd(), limits.until) {
            Woken::Readable => {
                let status = self.child.wait()?;
                self.ended = true;
                Ok(Finished::Ended(status))
            }
            Woken::TimedOut => Ok(Finished::TimedOut),
            Woken::Stopped => Ok(Finished::Stopped),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        // It has not been waited for, so the number is still its own.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
    }
}
