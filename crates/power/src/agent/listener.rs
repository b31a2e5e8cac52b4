//! Announcements of agents: one socket and one thread for each address, however many listen there.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use nightwatt_agent::key::Key;
use nightwatt_agent::protocol::{Body, Event, LONGEST, Message, News, Refusal, Sealed};
use nightwatt_clock::meter::{Stamp, Stop, Woken};
use nightwatt_energy::time::Mono;
use nightwatt_host::files::{self, Access, Durability, Replacement};
use nightwatt_host::lock;
use tokio::sync::Notify;
use tracing::{debug, warn};

use crate::Heard;

/// Rejected datagrams are logged once in this time.
const QUIET: Duration = Duration::from_mins(1);

/// Why an ear rejects a datagram. The greater the value, the more checks the datagram passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
enum Ignored {
    #[error("from an address that is no agent's in the configuration")]
    Stranger,
    #[error("{0}")]
    Refused(Refusal),
    #[error("older than what was heard before")]
    Old,
}

/// What one driver hears.
#[derive(Debug)]
pub(super) struct Ear {
    key: Key,
    /// Of the agent. Two machines may have one key by mistake: the good-bye of one must not put the other
    /// to sleep.
    agent: IpAddr,
    /// Keeps the greatest counter. `None` in a process that only listens and does not act on announcements.
    file: Option<PathBuf>,
    state: Mutex<State>,
    news: Notify,
    leaving: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// The greatest counter so far.
    counter: u64,
    /// The last announcement that no caller has fetched yet.
    heard: Option<Heard>,
    leaves: bool,
}

impl Ear {
    /// For announcements of the agent at this address with this key; the file, if there is to be one, keeps
    /// the greatest counter.
    pub(super) fn new(key: Key, agent: IpAddr, file: Option<PathBuf>) -> io::Result<Arc<Self>> {
        let counter = match file.as_ref().map(fs::read_to_string) {
            Some(Ok(text)) => text.trim().parse().unwrap_or(0),
            Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            None | Some(Err(_)) => 0,
        };
        let state = Mutex::new(State { counter, ..State::default() });
        let agent = agent.to_canonical();
        Ok(Arc::new(Self { key, agent, file, state, news: Notify::new(), leaving: Notify::new() }))
    }

    /// The greatest counter so far.
    pub(super) fn counter(&self) -> u64 {
        lock(&self.state).counter
    }

    /// The agent itself says how far it has counted. All before its last announcement is stale; that one
    /// may still be on its way. If nothing was heard since it was asked (then the counter was `asked_at`),
    /// an agent that is behind us has lost its count: without its word we would never hear it again.
    pub(super) fn learn(&self, asked_at: u64, counter: u64) {
        let mut state = lock(&self.state);
        let before = counter.saturating_sub(1);
        let has_lost_count = counter < state.counter && state.counter == asked_at;
        if has_lost_count {
            warn!(agent = %self.agent, "the agent's counter of announcements has gone back: followed");
        }
        if before > state.counter || has_lost_count {
            state.counter = before;
            self.keep(before);
        }
    }

    /// The answer to an announcement. Nothing else comes of one that is repeated; one that is older is
    /// not answered, so that its agent can tell that it is not heard.
    fn receive(&self, from: IpAddr, datagram: &[u8]) -> Result<Vec<u8>, Ignored> {
        if from.to_canonical() != self.agent {
            return Err(Ignored::Stranger);
        }
        let message = Sealed::parse(datagram).and_then(|sealed| sealed.open(&self.key));
        let Message { nonce, body } = message.map_err(Ignored::Refused)?;
        let Body::News(news) = body else { return Err(Ignored::Refused(Refusal::Reflected)) };
        self.take(news)?;
        Ok(Message { nonce, body: Body::Ack(news.counter) }.seal(&self.key))
    }

    fn take(&self, news: News) -> Result<(), Ignored> {
        let mut state = lock(&self.state);
        if news.counter < state.counter {
            return Err(Ignored::Old);
        }
        if news.counter == state.counter {
            return Ok(());
        }
        state.counter = news.counter;
        self.keep(news.counter);
        debug!(event = ?news.event, "an agent announces");
        let heard = match news.event {
            Event::Leaving => Heard::Leaving,
            Event::StayedAwake => Heard::StayedAwake,
            Event::Back | Event::Ready => Heard::Back,
        };
        let leaves = heard == Heard::Leaving;
        state.leaves = leaves;
        state.heard = Some(heard);
        drop(state);
        if leaves {
            self.leaving.notify_one();
        }
        self.news.notify_one();
        Ok(())
    }

    /// A counter that is lost costs no more than a recorded announcement believed once.
    fn keep(&self, counter: u64) {
        let Some(file) = &self.file else { return };
        let how = Replacement { access: Access::Usual, durability: Durability::ThisBoot };
        let kept = file
            .parent()
            .map_or(Ok(()), fs::create_dir_all)
            .and_then(|()| files::replace(file, how, counter.to_string().as_bytes()));
        if let Err(error) = kept {
            warn!(%error, file = %file.display(), "cannot keep the counter of announcements");
        }
    }

    /// Waits for the next announcement, or takes the last.
    pub(super) async fn next(&self) -> Heard {
        self.wait(&self.news, |state| state.heard.take()).await
    }

    /// What was said before is of no interest.
    pub(super) fn forget_leaving(&self) {
        lock(&self.state).leaves = false;
    }

    /// Ends when the machine has said that it leaves.
    pub(super) async fn leaves(&self) {
        self.wait(&self.leaving, |state| state.leaves.then_some(())).await;
    }

    async fn wait<T>(&self, told: &Notify, take: impl Fn(&mut State) -> Option<T>) -> T {
        loop {
            if let Some(taken) = take(&mut lock(&self.state)) {
                return taken;
            }
            told.notified().await;
        }
    }
}

/// A socket with its thread. Both end when the last reference is dropped.
#[derive(Debug)]
pub(super) struct Listener {
    ears: Arc<Mutex<Vec<Weak<Ear>>>>,
    stop: Stop,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stop.stop();
        // The next listener on this address must find it free.
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

static LISTENERS: LazyLock<Mutex<HashMap<SocketAddr, Weak<Listener>>>> =
    LazyLock::new(Mutex::default);

/// The ear hears what comes to this address, for as long as the listener is kept.
pub(super) fn attach(address: SocketAddr, ear: &Arc<Ear>) -> io::Result<Arc<Listener>> {
    let mut listeners = lock(&LISTENERS);
    if let Some(listener) = listeners.get(&address).and_then(Weak::upgrade) {
        lock(&listener.ears).push(Arc::downgrade(ear));
        return Ok(listener);
    }
    let socket = UdpSocket::bind(address)?;
    socket.set_nonblocking(true)?;
    let ears = Arc::new(Mutex::new(vec![Arc::downgrade(ear)]));
    let (stop, theirs) = (Stop::new()?, Arc::clone(&ears));
    let told = stop.clone();
    let listen = move || listen(&socket, &told, &theirs);
    let thread = std::thread::Builder::new().name("announcements".to_owned()).spawn(listen)?;
    let listener = Arc::new(Listener { ears, stop, thread: Some(thread) });
    listeners.insert(address, Arc::downgrade(&listener));
    Ok(listener)
}

fn listen(socket: &UdpSocket, stop: &Stop, ears: &Mutex<Vec<Weak<Ear>>>) {
    let mut buffer = [0; LONGEST + 1];
    let mut silence = Silence::default();
    while stop.readable_until(socket.as_fd(), Mono::NEVER) == Woken::Readable {
        let Ok((length, from)) = socket.recv_from(&mut buffer) else { continue };
        let all: Vec<Arc<Ear>> = {
            let mut ears = lock(ears);
            ears.retain(|ear| ear.strong_count() > 0);
            ears.iter().filter_map(Weak::upgrade).collect()
        };
        let heard: Vec<_> =
            all.iter().map(|ear| ear.receive(from.ip(), &buffer[..length])).collect();
        // Sites with one key are all told; one answer is enough.
        if let Some(answer) = heard.iter().flatten().next() {
            let _ = socket.send_to(answer, from);
        } else if let Some(why) = heard.into_iter().filter_map(Result::err).max() {
            silence.count(Stamp::now().mono, from, why);
        }
    }
}

/// Counts rejected datagrams. Logs the first one at once and then one line per [`QUIET`]: they may be a flood.
#[derive(Debug, Default)]
struct Silence {
    ignored: u64,
    quiet_until: Mono,
}

impl Silence {
    fn count(&mut self, now: Mono, from: SocketAddr, why: Ignored) {
        self.ignored += 1;
        if now >= self.quiet_until {
            self.quiet_until = now + QUIET;
            warn!(%from, %why, ignored = self.ignored, "announcements rejected");
        }
    }
}

#[cfg(test)]
mod tests {
    use nightwatt_agent::protocol::Nonce;

    use super::*;

    #[test]
    fn the_good_bye_of_another_machine_with_the_same_key_is_not_heard() {
        let dir = tempfile::tempdir().unwrap();
        let key = Key::new(&[1; 32]).unwrap();
        let [agent, other] = ["10.0.0.2", "10.0.0.3"].map(|ip| ip.parse::<IpAddr>().unwrap());
        let ear = Ear::new(key.clone(), agent, Some(dir.path().join("counter"))).unwrap();
        let good_bye = good_bye(&key, 5);
        assert_eq!(ear.receive(other, &good_bye), Err(Ignored::Stranger));
        assert_eq!(lock(&ear.state).heard, None);
        // As a socket of both kinds of addresses has it.
        assert!(ear.receive("::ffff:10.0.0.2".parse().unwrap(), &good_bye).is_ok());
        assert_eq!(lock(&ear.state).heard, Some(Heard::Leaving));
    }

    #[test]
    fn an_agent_that_lost_its_count_is_heard_again_once_it_has_answered() {
        let dir = tempfile::tempdir().unwrap();
        let (key, file) = (Key::new(&[1; 32]).unwrap(), dir.path().join("counter"));
        fs::write(&file, "1000").unwrap();
        let agent = "10.0.0.2".parse().unwrap();
        let ear = Ear::new(key.clone(), agent, Some(file.clone())).unwrap();
        assert_eq!(ear.receive(agent, &good_bye(&key, 8)), Err(Ignored::Old));
        assert_eq!(lock(&ear.state).heard, None);
        // It was asked before the last announcement came, which it did not know of then.
        ear.learn(999, 7);
        assert_eq!(ear.counter(), 1000);
        ear.learn(1000, 8);
        assert_eq!(ear.receive(agent, &good_bye(&key, 7)), Ok(ack(&key, 7)), "a repetition");
        assert_eq!(lock(&ear.state).heard, None);
        assert_eq!(ear.receive(agent, &good_bye(&key, 8)), Ok(ack(&key, 8)));
        assert_eq!(lock(&ear.state).heard, Some(Heard::Leaving));
        assert_eq!(fs::read_to_string(&file).unwrap(), "8");
    }

    #[test]
    fn a_flood_of_strangers_is_told_of_once_a_minute() {
        let mut silence = Silence::default();
        let from = "10.0.0.9:7386".parse().unwrap();
        let told = (0..1000).filter(|tenth| {
            let now = Mono(Duration::from_millis(100 * tenth));
            let before = silence.quiet_until;
            silence.count(now, from, Ignored::Stranger);
            silence.quiet_until != before
        });
        assert_eq!(told.collect::<Vec<_>>(), [0, 600]);
        assert_eq!(silence.ignored, 1000);
    }

    fn good_bye(key: &Key, counter: u64) -> Vec<u8> {
        let news = News { event: Event::Leaving, boot: [1; 16], counter, wall_ms: 0 };
        Message { nonce: Nonce([1; 16]), body: Body::News(news) }.seal(key)
    }

    fn ack(key: &Key, counter: u64) -> Vec<u8> {
        Message { nonce: Nonce([1; 16]), body: Body::Ack(counter) }.seal(key)
    }
}
