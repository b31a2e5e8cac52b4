//! The agent as it runs: sockets, authentication, the sequence, and a thread that does what may take long.
//!
//! The sockets' side never waits for anything else: what keeps the machine awake is found out, and the
//! machine put to sleep, in the worker's thread.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::task::Poll;

use nightwatt_clock::Clock;
use nightwatt_host::Host;
use nightwatt_host::files::{self, Access, Durability, Replacement};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tracing::{debug, error, info, warn};

use crate::Error;
use crate::authentication::{Authenticator, Ticket, Verdict};
use crate::client::nonce;
use crate::config::Config;
use crate::key::Key;
use crate::protocol::{Body, Facts, LONGEST, Message, Outcome, Reply};
use crate::record::{self, Entry, Record, RecordedEvent};
use crate::resumes::{Resumes, present};
use crate::sequence::{Action, SleepSequence, Terms};
use crate::worker::{Job, Report, Worker};

/// Room for messages that come while the agent looks elsewhere, and for those of a flood.
const RECEIVE_BUFFER: usize = 4 << 20;

/// Datagrams handled in a row before everything else has its turn.
const IN_A_ROW: usize = 64;

/// In the state directory: the greatest counter of an announcement.
const COUNTER: &str = "counter";

/// An agent that is set up and not yet running.
#[derive(Debug)]
pub struct Agent {
    config: Config,
    keys: Vec<Key>,
    sockets: Vec<UdpSocket>,
    record: Record,
    worker: Worker,
    boot: [u8; 16],
    host: Host,
}

impl Agent {
    /// Reads the keys, binds the sockets, opens the record. Must be called within a runtime.
    pub fn open(config: Config, host: &Host) -> Result<Self, Error> {
        let keys = keys(&config)?;
        let state = |source| Error::State { path: config.state_dir.clone(), source };
        let record = Record::open(&config.state_dir).map_err(state)?;
        let bind = |address: &SocketAddr| {
            bind(*address).map_err(|source| Error::Listen { address: *address, source })
        };
        let sockets = config.listen.iter().map(bind).collect::<Result<_, _>>()?;
        let worker = Worker::new(&config, host)
            .map_err(|source| Error::System { attempt: "start a thread".to_owned(), source })?;
        Ok(Self { keys, sockets, record, worker, boot: host.boot_id(), host: host.clone(), config })
    }

    /// Where it listens.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.sockets.iter().filter_map(|socket| socket.local_addr().ok()).collect()
    }

    /// Runs until `stop` ends.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<(), Error> {
        let secret = Key::new(&[nonce().0, nonce().0].concat()).ok_or_else(|| Error::System {
            attempt: "make a key".to_owned(),
            source: io::ErrorKind::Other.into(),
        })?;
        let Self { config, keys, sockets, record, worker, boot, host } = self;
        let (jobs, mut reports) = worker.start();
        let past = record::read(&config.state_dir).unwrap_or_default();
        let counter_file = config.state_dir.join(COUNTER);
        let counter = std::fs::read_to_string(&counter_file).ok();
        let counter = counter.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
        let mut sequence = SleepSequence::new(terms(&config, boot), present(), counter, nonce);
        recall(&mut sequence, &past);
        let authenticator = Authenticator::new(keys.clone(), secret);
        let mut agent = Running {
            config,
            keys,
            sockets,
            record,
            boot,
            host,
            sequence,
            authenticator,
            jobs,
            counter_file,
            counter_kept: counter,
        };
        let mut actions = Vec::new();
        let booted = past.last().is_none_or(|last| last.boot != record::boot_text(&boot));
        agent.sequence.counted(agent.host.suspends());
        agent.sequence.begin(present(), booted, &mut actions);
        let (clock, mut resumes) = (Clock::real(), Resumes::new());
        let mut stop = pin!(stop);
        loop {
            agent.perform(&mut actions).await;
            let now = present();
            let wait = agent.sequence.next().since(now.mono);
            tokio::select! {
                // What is at the end may come without end.
                biased;
                () = &mut stop => break,
                Some(report) = reports.recv() => agent.report(report, &mut actions),
                () = resumes.next(&clock) => {
                    agent.sequence.counted(agent.host.suspends());
                    agent.sequence.look(present(), &mut actions);
                }
                () = clock.sleep(wait), if wait < std::time::Duration::MAX => {}
                socket = readable(&agent.sockets) => agent.receive(socket, &mut actions).await,
            }
            agent.sequence.tick(present(), &mut actions);
        }
        agent.append(&Entry::new(present(), &agent.boot, RecordedEvent::Stopped));
        Ok(())
    }
}

/// The keys of the proxies, in their order. Fails if one cannot be read, or two are the same.
pub fn keys(config: &Config) -> Result<Vec<Key>, Error> {
    let mut keys = Vec::<Key>::with_capacity(config.proxy.len());
    for proxy in &config.proxy {
        let key = Key::read(&proxy.key)?;
        if let Some(same) = keys.iter().position(|other| other.id() == key.id()) {
            let first = config.proxy[same].name.clone();
            return Err(Error::KeyShared { first, second: proxy.name.clone() });
        }
        keys.push(key);
    }
    Ok(keys)
}

fn terms(config: &Config, boot: [u8; 16]) -> Terms {
    let wants = config.proxy.iter().enumerate().filter(|(_, proxy)| proxy.announce.is_some());
    Terms {
        names: config.proxy.iter().map(|proxy| proxy.name.clone()).collect(),
        listeners: wants.map(|(index, _)| index).collect(),
        how: config.sleep.how,
        within: config.sleep.time_allowed(),
        grace: config.alarm.grace,
        for_work: config.alarm.lead.saturating_add(config.alarm.stay),
        awaits_ready: config.ready.is_some(),
        boot,
    }
}

/// When the machine last slept, from the record.
fn recall(sequence: &mut SleepSequence, past: &[Entry]) {
    let last = |is: fn(&RecordedEvent) -> bool| {
        past.iter().rev().find(|entry| is(&entry.what)).map_or(0, |entry| entry.at_ms)
    };
    let resumed =
        last(|what| matches!(what, RecordedEvent::Resumed { .. } | RecordedEvent::Booted));
    sequence.recall(last(|what| matches!(what, RecordedEvent::Suspending { .. })), resumed);
}

fn bind(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    // As much of it as the system gives.
    let _ = socket.set_recv_buffer_size(RECEIVE_BUFFER);
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    UdpSocket::from_std(socket.into())
}

/// The index of a socket that has something, or failed.
async fn readable(sockets: &[UdpSocket]) -> usize {
    poll_fn(|cx| {
        let ready = sockets.iter().position(|socket| socket.poll_recv_ready(cx).is_ready());
        ready.map_or(Poll::Pending, Poll::Ready)
    })
    .await
}

struct Running {
    config: Config,
    keys: Vec<Key>,
    sockets: Vec<UdpSocket>,
    record: Record,
    boot: [u8; 16],
    host: Host,
    sequence: SleepSequence,
    authenticator: Authenticator,
    jobs: mpsc::UnboundedSender<Job>,
    counter_file: PathBuf,
    counter_kept: u64,
}

impl Running {
    async fn receive(&mut self, index: usize, actions: &mut Vec<Action>) {
        let mut buffer = [0; LONGEST + 1];
        for _ in 0..IN_A_ROW {
            let (length, from) = match self.sockets[index].try_recv_from(&mut buffer) {
                Ok(received) => received,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // An ICMP error about a message that we sent earlier.
                Err(_) => continue,
            };
            let now = present();
            let since_boot = now.mono.0 + now.suspended;
            match self.authenticator.receive(since_boot, index, from, &buffer[..length]) {
                Verdict::Silence => {}
                Verdict::Answer(datagram) => self.send(index, &datagram, from).await,
                Verdict::Order(ticket, verb) => {
                    self.sequence.counted(self.host.suspends());
                    debug!(%from, ?verb, proxy = %self.config.proxy[ticket.proxy].name, "an order");
                    self.sequence.order(now, ticket, verb, actions);
                    self.perform(actions).await;
                }
                Verdict::Heard { proxy, nonce } => {
                    self.sequence.acknowledged(now, proxy, nonce, actions);
                }
            }
        }
        let now = present();
        if let Some(counts) = self.authenticator.refused(now.mono.0 + now.suspended) {
            warn!(total = self.authenticator.refused_total(), "refused messages: {counts}");
        }
    }

    fn report(&mut self, report: Report, actions: &mut Vec<Action>) {
        self.sequence.counted(self.host.suspends());
        let now = present();
        match report {
            Report::Checked(reasons) => self.sequence.checked(now, reasons, actions),
            Report::Armed(outcome) => self.sequence.armed(now, outcome, actions),
            Report::Returned(outcome) => self.sequence.returned(now, outcome, actions),
            Report::Ready => self.sequence.ready(now, actions),
        }
    }

    /// Does what is to be done, and sends what is to be announced.
    async fn perform(&mut self, actions: &mut Vec<Action>) {
        for action in std::mem::take(actions) {
            match action {
                Action::Check => self.job(Job::Check),
                Action::Arm => self.job(Job::Arm),
                Action::Disarm => self.job(Job::Disarm),
                Action::FallAsleep => self.job(Job::FallAsleep),
                Action::AwaitReady => self.job(Job::AwaitReady),
                Action::Reply(ticket, outcome, texts) => self.reply(ticket, outcome, texts).await,
                Action::Record(entry) => {
                    info!(event = %serde_json::to_string(&entry.what).unwrap_or_default(), "state");
                    self.append(&entry);
                }
            }
        }
        let due = self.sequence.due(present());
        for proxy in self.sequence.unheard() {
            let proxy = &self.config.proxy[proxy];
            warn!(
                proxy = proxy.name,
                to = proxy.announce.map(tracing::field::display),
                hint = "check that nightwatt runs there, with `listen` in `[site.power.sleep.agent]` and the \
                        same key, and that no firewall drops UDP; its log lists what it refused",
                "no answer to an announcement"
            );
        }
        if self.counter_kept != self.sequence.counter() {
            self.counter_kept = self.sequence.counter();
            self.keep_counter(self.counter_kept);
        }
        for (proxy, news, nonce) in due {
            let Some(to) = self.config.proxy[proxy].announce else { continue };
            debug!(%to, event = ?news.event, "announcing");
            let message = Message { nonce, body: Body::News(news) };
            self.announce(&message.seal(&self.keys[proxy]), to).await;
        }
    }

    fn job(&self, job: Job) {
        // The worker ends only with the agent.
        let _ = self.jobs.send(job);
    }

    async fn reply(&mut self, ticket: Ticket, outcome: Outcome, texts: Vec<String>) {
        let now = present();
        let millis = |time: std::time::Duration| time.as_millis() as u64;
        let (fell_asleep_ms, resumed_ms) = self.sequence.times_ms();
        let facts = Facts {
            boot: self.boot,
            counter: self.sequence.counter(),
            awake_ms: millis(now.mono.0),
            suspended_ms: millis(now.suspended),
            wall_ms: now.wall_ns.div_euclid(1_000_000),
            fell_asleep_ms,
            resumed_ms,
        };
        let reply = Reply { outcome, facts, texts };
        let datagram = self.authenticator.answer(now.mono.0 + now.suspended, &ticket, reply);
        self.send(ticket.socket, &datagram, ticket.from).await;
    }

    /// What cannot be sent is lost, as it may be on any network.
    async fn send(&self, socket: usize, datagram: &[u8], to: SocketAddr) {
        if let Err(error) = self.sockets[socket].send_to(datagram, to).await {
            debug!(%to, %error, "cannot send");
        }
    }

    /// Through the first socket that can: one of the loopback cannot reach another machine.
    async fn announce(&self, datagram: &[u8], to: SocketAddr) {
        for socket in &self.sockets {
            let fits = socket.local_addr().is_ok_and(|ours| ours.is_ipv4() == to.is_ipv4());
            if fits && socket.send_to(datagram, to).await.is_ok() {
                return;
            }
        }
        debug!(%to, "cannot announce");
    }

    fn append(&self, entry: &Entry) {
        if let Err(error) = self.record.append(entry) {
            error!(%error, "cannot write the record of states; is the disk full?");
        }
    }

    /// Written before it is used: a counter that goes back would make proxies deaf.
    fn keep_counter(&self, counter: u64) {
        let how = Replacement { access: Access::Usual, durability: Durability::Kept };
        let kept = files::replace(&self.counter_file, how, counter.to_string().as_bytes());
        if let Err(error) = kept {
            error!(%error, "cannot keep the counter of announcements");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn two_proxies_with_one_key_are_refused_and_so_is_a_key_that_cannot_be_used() {
        let dir = tempfile::tempdir().unwrap();
        let [one, copy, other] = ["one", "copy", "other"].map(|name| dir.path().join(name));
        crate::key::write(&one, &crate::key::generate().unwrap()).unwrap();
        std::fs::copy(&one, &copy).unwrap();
        crate::key::write(&other, &crate::key::generate().unwrap()).unwrap();
        let read = |second: &std::path::Path| {
            let text = format!(
                "listen = [\"127.0.0.1\"]\n[[proxy]]\nname = \"porch\"\nkey = \"{}\"\n[[proxy]]\nname = \
                 \"attic\"\nkey = \"{}\"\n",
                one.display(),
                second.display()
            );
            keys(&Config::parse(&text, "agent.toml").unwrap())
        };
        assert_eq!(read(&other).unwrap().len(), 2);
        let error = read(&copy).unwrap_err();
        assert_eq!(error.to_string(), "the proxies `porch` and `attic` have the same key");
        assert!(error.hint().contains("nightwatt agent key"));
        std::fs::set_permissions(&other, std::fs::Permissions::from_mode(0o604)).unwrap();
        assert!(matches!(read(&other), Err(Error::KeyExposed { .. })));
        std::fs::remove_file(&other).unwrap();
        assert!(matches!(read(&other), Err(Error::KeyFile { .. })));
    }
}
