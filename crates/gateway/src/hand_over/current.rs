//! What the running process does in a hand-over.

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nightwatt_policy::lifecycle::Handed;
use tokio::task::JoinSet;

use super::{LetGo, MOST_SOCKETS, Offer, TIMEOUT, Taker, VERSION, Word};
use crate::control::Taken;
use crate::disk_cache;
use crate::hand_over_error::HandOverError;
use crate::ledger_file::Journal;
use crate::ports::Port;
use crate::running::{Running, drive_disk, side_jobs};
use crate::successor::Successor;
use crate::supervisor::{Supervisor, end};

impl Running {
    /// Lets another process take over. If this succeeds, only [`leave`](Running::leave) remains to be called.
    ///
    /// # Errors
    ///
    /// If the other process fails. Then everything continues as before.
    pub async fn hand_over(&mut self, taker: &mut Taker) -> Result<(), HandOverError> {
        if self.gateway.serving.observe {
            let why =
                "in shadow mode (--observe) nothing is handed over: stop it and start it again";
            return Err(HandOverError::Refused(why.to_owned()));
        }
        let admin = self.admin_post.as_ref();
        let admin = admin.map(|it| (it.configured, it.socket.as_fd()));
        let posts =
            self.posts.iter().filter_map(|it| Some((it.configured, it.socket()?))).chain(admin);
        let (addresses, mut sockets): (Vec<_>, Vec<_>) = posts.unzip();
        sockets.insert(0, self.control.socket());
        sockets.extend(self.ports.iter().map(Port::socket));
        let datagrams = self.ports.iter().map(|it| it.configured).collect();
        sockets.extend(self.lock.as_ref().map(AsFd::as_fd));
        if sockets.len() > MOST_SOCKETS {
            return Err(HandOverError::Sockets(sockets.len()));
        }
        let control = self.control.path().to_owned();
        taker.offer(&Offer { version: VERSION, control, addresses, datagrams }, &sockets).await?;
        drop(sockets);
        let Word::LetGo = taker.word(&self.gateway.serving.clock).await? else {
            return Err(HandOverError::Ended);
        };
        self.let_go(taker).await?;
        match self.finish(taker).await {
            Ok(ours) => {
                // The next process keeps it.
                self.lock = None;
                if ours == self.control.path() {
                    self.control.disown();
                }
                Ok(())
            }
            Err(error) => {
                self.take_back().await;
                Err(error)
            }
        }
    }

    /// Stops accepting, closes ledgers, and reports the state of servers.
    async fn let_go(&mut self, taker: &mut Taker) -> Result<(), HandOverError> {
        // Jobs that run go on here, and none begins any more.
        self.gateway.jobs.hand_over(true);
        // While no client waits for it.
        for job in self.disk_job.take().into_iter().chain(self.side_jobs.drain(..)) {
            end(job).await;
        }
        if let Some(disk) = &self.gateway.disk {
            disk_cache::write_back(disk, &self.gateway.stores()).await;
        }
        self.posts.iter().for_each(crate::listen::Post::pause);
        self.ports.iter().for_each(Port::pause);
        self.control.pause().await;
        if let Some(admin) = &mut self.admin_post {
            admin.pause().await;
        }
        for retiring in std::mem::take(&mut self.retiring) {
            retiring.end().await;
        }
        let used = self.gateway.supervisors().filter(|it| *it.busy().borrow());
        let busy = used.map(|it| it.name().to_owned()).collect();
        let servers = self.park().await;
        if let Some(disk) = &self.gateway.disk {
            disk.let_go(Arc::new(Taken::at(self.control.path()))).await;
        }
        let there = self.gateway.serving.sites.iter().filter(|it| it.presence.is_there());
        let let_through = there.map(|it| it.name.to_string()).collect();
        let udp_ports = self.gateway.front.datagrams.ports.all();
        let mut line = serde_json::to_vec(&LetGo { servers, busy, let_through, udp_ports })?;
        line.push(b'\n');
        let told = tokio::io::AsyncWriteExt::write_all(&mut taker.stream, &line).await;
        if let Err(error) = told {
            self.take_back().await;
            return Err(error.into());
        }
        Ok(())
    }

    /// Releases all servers at the same time: each may have to wait for a command.
    async fn park(&self) -> HashMap<String, Handed> {
        let mut parking = JoinSet::new();
        for supervisor in self.gateway.supervisors() {
            let successor = Successor::new(supervisor, self.control.path());
            let (supervisor, server_control) =
                (Arc::clone(supervisor), successor.server_control(supervisor.clock()));
            parking.spawn(async move {
                let handed = supervisor.park(server_control).await;
                Some((supervisor.name().to_owned(), handed?))
            });
        }
        parking.join_all().await.into_iter().flatten().collect()
    }

    /// Waits until the other process serves, and keeps its servers awake as long as a client is served here.
    async fn finish(&mut self, taker: &mut Taker) -> Result<PathBuf, HandOverError> {
        let Word::Done(ours) = taker.word(&self.gateway.serving.clock).await? else {
            return Err(HandOverError::Ended);
        };
        for supervisor in self.gateway.supervisors() {
            let borrowing = crate::successor::borrow(Arc::clone(supervisor), ours.clone());
            let jobs = self.jobs.entry(supervisor.name().to_owned()).or_default();
            jobs.push(tokio::spawn(borrowing));
        }
        Ok(ours)
    }

    /// The other process failed: continues here.
    async fn take_back(&mut self) {
        let gateway = &self.gateway;
        gateway.jobs.hand_over(false);
        let state_dir = &gateway.serving.config.state_dir;
        for supervisor in gateway.supervisors() {
            supervisor.resume(journal(supervisor, state_dir, self.durable));
        }
        if let Some(disk) = &gateway.disk
            && let Err(error) = disk.take_back(TIMEOUT).await
        {
            tracing::error!(
                %error,
                "the disk cache could not be opened again: this process goes on without it; what changes \
                 meanwhile it does not know, so remove its directory before the next start"
            );
        }
        let live = self.present.gateway();
        self.disk_job = drive_disk(&live);
        self.side_jobs = side_jobs(&live, &self.watched);
        self.posts.iter().for_each(crate::listen::Post::go_on);
        self.ports.iter().for_each(Port::go_on);
        let control = self.control.go_on();
        let admin = self.admin_post.as_mut().map_or(Ok(()), |admin| admin.go_on(&live));
        if let Err(error) = control.and(admin) {
            tracing::error!(
                %error,
                "the control socket or the admin address no longer answers: restart the process"
            );
        }
        tracing::warn!("the process that was to take over has failed: this one goes on");
    }
}

/// Opens the journal of a server again. Its bill was kept in this process.
fn journal(supervisor: &Supervisor, state_dir: &Path, durable: bool) -> Option<Journal> {
    let path = state_dir.join(format!("{}.ledger.jsonl", supervisor.name()));
    let opened = Journal::reopen(&path, durable);
    if let Err(error) = &opened {
        tracing::error!(site = supervisor.name(), %error, "the ledger could not be opened again");
    }
    opened.ok()
}
