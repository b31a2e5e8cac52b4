//! Announcements of agents: one socket and one thread for each address, however many listen there.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;

use nightwatt_agent::key::Key;
use nightwatt_agent::protocol::{Body, Event, LONGEST, Message, News, Sealed};
use nightwatt_clock::meter::{Stop, Woken};
use nightwatt_model::time::Mono;
use tokio::sync::Notify;
use tracing::{debug, warn};

use crate::Heard;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What one driver hears.
#[derive(Debug)]
pub(super) struct Ear {
    key: Key,
    /// Of the agent. Two machines may have one key by mistake: the good-bye of one must not put the other
    /// to sleep.
    agent: IpAddr,
    file: PathBuf,
    state: Mutex<State>,
    news: Notify,
    leaving: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// The greatest counter so far.
    counter: u64,
    /// The last announcement that nobody has asked for yet.
    heard: Option<Heard>,
    leaves: bool,
}

impl Ear {
    /// For announcements of the agent at this address with this key; the file keeps the greatest counter.
    pub(super) fn new(key: Key, agent: IpAddr, file: PathBuf) -> io::Result<Arc<Self>> {
        let counter = match fs::read_to_string(&file) {
            Ok(text) => text.trim().parse().unwrap_or(0),
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => return Err(error),
        };
        let state = Mutex::new(State { counter, ..State::default() });
        let agent = agent.to_canonical();
        Ok(Arc::new(Self { key, agent, file, state, news: Notify::new(), leaving: Notify::new() }))
    }

    /// The agent itself says how far it has counted. All before its last announcement is stale; that one
    /// may still be on its way.
    pub(super) fn learn(&self, counter: u64) {
        let mut state = lock(&self.state);
        let before = counter.saturating_sub(1);
        if before > state.counter {
            state.counter = before;
            self.keep(before);
        }
    }

    /// The answer to an announcement, if it is one; for one that was heard before too, but then nothing
    /// else comes of it.
    fn receive(&self, from: IpAddr, datagram: &[u8]) -> Option<Vec<u8>> {
        if from.to_canonical() != self.agent {
            return None;
        }
        let message = Sealed::parse(datagram).and_then(|sealed| sealed.open(&self.key)).ok()?;
        let Message { nonce, body: Body::News(news) } = message else { return None };
        self.take(news);
        Some(Message { nonce, body: Body::Ack(news.counter) }.seal(&self.key))
    }

    fn take(&self, news: News) {
        let mut state = lock(&self.state);
        if news.counter <= state.counter {
            return;
        }
        state.counter = news.counter;
        self.keep(news.counter);
        debug!(event = ?news.event, "an agent announces");
        let leaves = news.event == Event::Leaving;
        state.leaves = leaves;
        state.heard = Some(if leaves { Heard::Leaving } else { Heard::Back });
        drop(state);
        if leaves {
            self.leaving.notify_one();
        }
        self.news.notify_one();
    }

    /// A counter that is lost costs no more than a recorded announcement believed once.
    fn keep(&self, counter: u64) {
        let new = self.file.with_extension("new");
        let kept = self
            .file
            .parent()
            .map_or(Ok(()), fs::create_dir_all)
            .and_then(|()| fs::write(&new, counter.to_string()))
            .and_then(|()| fs::rename(&new, &self.file));
        if let Err(error) = kept {
            warn!(%error, file = %self.file.display(), "cannot keep the counter of announcements");
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

/// A socket with its thread. Both end when nobody listens any more.
#[derive(Debug)]
pub(super) struct Listener {
    ears: Arc<Mutex<Vec<Weak<Ear>>>>,
    stop: Stop,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stop.stop();
        // Whoever listens there next must find the address free.
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
    while stop.readable_until(socket.as_fd(), Mono::NEVER) == Woken::Readable {
        let Ok((length, from)) = socket.recv_from(&mut buffer) else { continue };
        let all: Vec<Arc<Ear>> = {
            let mut ears = lock(ears);
            ears.retain(|ear| ear.strong_count() > 0);
            ears.iter().filter_map(Weak::upgrade).collect()
        };
        let answers = all.iter().filter_map(|ear| ear.receive(from.ip(), &buffer[..length]));
        // Sites with one key are all told; one answer is enough.
        if let Some(answer) = answers.collect::<Vec<_>>().first() {
            let _ = socket.send_to(answer, from);
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
        let ear = Ear::new(key.clone(), agent, dir.path().join("counter")).unwrap();
        let news = News { event: Event::Leaving, boot: [1; 16], counter: 5, wall_ms: 0 };
        let good_bye = Message { nonce: Nonce([1; 16]), body: Body::News(news) }.seal(&key);
        assert_eq!(ear.receive(other, &good_bye), None);
        assert_eq!(lock(&ear.state).heard, None);
        // As a socket of both kinds of addresses has it.
        assert!(ear.receive("::ffff:10.0.0.2".parse().unwrap(), &good_bye).is_some());
        assert_eq!(lock(&ear.state).heard, Some(Heard::Leaving));
    }
}
