//! A child and what it started: one process group.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::pid_file::Identity;
use super::procfs::{self, Stat};

/// The process group that `leader` was started as.
///
/// Process ids are used again, group ids too. The group is ours as long as its leader is there, if
/// only as a zombie, or one of its members carries our mark in its environment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Group<'a> {
    pub(super) leader: Identity,
    /// `NAME=value`.
    pub(super) mark: &'a str,
}

impl Group<'_> {
    /// The leader, running or zombie; `None` when the pid is free or belongs to another process by now.
    fn leader(&self) -> io::Result<Option<Stat>> {
        let stat = procfs::stat(self.leader.pid)?;
        Ok(stat.filter(|stat| stat.started == self.leader.started))
    }

    pub(super) fn leader_runs(&self) -> io::Result<bool> {
        Ok(self.leader()?.is_some_and(|leader| !leader.zombie))
    }

    /// All of the group that still run.
    pub(super) fn members(&self) -> io::Result<Vec<Stat>> {
        let id = self.leader.pid.as_raw_nonzero().get();
        let mut group = procfs::all()?;
        group.retain(|process| process.group == id);
        let ours = self.leader()?.is_some()
            || group.iter().any(|it| procfs::has_environment(it.pid, self.mark) == Some(true));
        group.retain(|process| ours && !process.zombie);
        Ok(group)
    }

    /// Sends a signal to all processes of the group; an empty group is fine.
    pub(super) fn signal(&self, signal: Signal) -> io::Result<()> {
        if self.members()?.is_empty() {
            return Ok(());
        }
        match rustix::process::kill_process_group(self.leader.pid, signal) {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until none of the group runs.
    pub(super) async fn gone(&self) -> io::Result<()> {
        // Which may fork while we wait for one of them.
        while let Some(member) = self.members()?.first() {
            exited(member.pid).await?;
        }
        Ok(())
    }

    /// Waits until the leader does not run.
    pub(super) async fn leader_gone(&self) -> io::Result<()> {
        while self.leader_runs()? {
            exited(self.leader.pid).await?;
        }
        Ok(())
    }

    /// Takes the exit status of a leader that is our own ended child, which frees its pid.
    pub(super) fn reap(&self) -> Option<ExitStatus> {
        self.leader().ok()??.zombie.then_some(())?;
        match rustix::process::waitpid(Some(self.leader.pid), WaitOptions::NOHANG) {
            Ok(Some((_, status))) => Some(ExitStatus::from_raw(status.as_raw())),
            // The child of another process, since the proxy that started it is gone.
            Ok(None) | Err(_) => None,
        }
    }
}

/// Waits until a process has ended, as an event and not by asking again and again.
async fn exited(pid: Pid) -> io::Result<()> {
    match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
        Ok(process) => {
            #[expect(
                deprecated,
                reason = "its successor is unsafe: it asks that the descriptor stay open and the \
                          same, which an `OwnedFd` promises"
            )]
            let process = AsyncFd::with_interest(process, Interest::READABLE)?;
            process.readable().await.map(drop)
        }
        Err(Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
