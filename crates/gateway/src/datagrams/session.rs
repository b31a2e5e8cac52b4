//! One session: admitted, held while the server wakes, forwarded and answered.

use std::convert::Infallible;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use nightwatt_energy::time::{Mono, Now};
use nightwatt_policy::admission::{ClientClass, Route};
use nightwatt_policy::datagrams::{self, Entry};
use nightwatt_policy::lifecycle::Phase;
use nightwatt_policy::passage::Due;
use nightwatt_traffic::ClientKey;
use tokio::io::Interest;
use tokio::sync::{mpsc, oneshot};
use tokio::task::coop::consume_budget;

use super::held::{Datagram, Waiting};
use super::server_socket::ServerSocket;
use super::socket::{LONGEST, Socket};
use super::tally::{Counted, Dropped, Outcome};
use super::{Service, Source, look_up};
use crate::access_log::Answered;
use crate::config::own;
use crate::exchange::Exchange;
use crate::facts::RequestId;
use crate::forward::RETRY_EVERY;
use crate::hold::{Held, ToHold, hold};
use crate::origin::is_own_shortage;
use crate::passthrough::accounting::Ended;
use crate::passthrough::line::falls_asleep;
use crate::passthrough::{Stopped, admission_request, stops};
use crate::request_body::Spooling;
use crate::serving::Serving;
use crate::site::STARTING;
use crate::supervisor::{ExchangeFor, Supervisor};
use crate::wake_cause::WakeCause;

/// Datagrams of a session that are sent a second time while a service on a server that has just woken does not listen
/// yet.
const KEPT: usize = 4;

/// Bytes of such datagrams, which are not among those that are held.
const KEPT_BYTES: usize = 16 << 10;

/// Nothing of a client is read while it waits, and a client cannot be seen to leave.
struct NothingToRead;

impl Spooling for NothingToRead {
    async fn fill(&mut self) -> bool {
        true
    }
}

/// Keeps the server awake.
type Hold = Option<Arc<Exchange>>;

/// A client of a service, and the socket for it.
pub(super) struct Client {
    pub(super) service: Arc<Service>,
    pub(super) socket: Arc<Socket>,
    pub(super) key: Source,
    /// Whether it is a stranger that waits for the server.
    pub(super) waits: Arc<AtomicBool>,
}

/// One session.
pub(super) struct Session {
    serving: Arc<Serving>,
    service: Arc<Service>,
    socket: Arc<Socket>,
    key: Source,
    waits: Arc<AtomicBool>,
    /// The addresses where nightwatt itself listens for datagrams.
    own_addresses: Vec<SocketAddr>,
    number: u64,
    arrived: Now,
    /// In shadow mode: how it would have been answered.
    would: OnceLock<&'static str>,
}

/// What a session knows of its end.
#[derive(Default)]
struct Ending {
    /// When its first datagram was forwarded, and whether it had to wait for that.
    forwarded: Option<Mono>,
    was_held: bool,
    is_answered: bool,
    /// Bytes to the client.
    sent: u64,
}

/// A session that is forwarded.
struct Forwarded<'a> {
    session: &'a Session,
    pace: datagrams::Session,
    server: ServerSocket,
    hold: Hold,
    /// Counts it among those that keep the server awake.
    counted: Option<Counted<'a>>,
    /// The address of this machine that the client uses.
    here: Option<IpAddr>,
    /// The first datagrams since the server has woken, until it answers; and when they are sent again.
    first: Vec<Box<[u8]>>,
    again: Mono,
    /// When they are of no use any more.
    stale: Mono,
}

impl Session {
    pub(super) fn new(
        serving: &Arc<Serving>,
        client: Client,
        own_addresses: Vec<SocketAddr>,
    ) -> Self {
        let Client { service, socket, key, waits } = client;
        Self {
            arrived: serving.clock.now(),
            serving: Arc::clone(serving),
            number: Supervisor::next_id(),
            would: OnceLock::new(),
            own_addresses,
            service,
            socket,
            key,
            waits,
        }
    }

    pub(super) const fn number(&self) -> u64 {
        self.number
    }

    /// The client.
    const fn client(&self) -> SocketAddr {
        self.key.1
    }

    /// Handles the whole session; accounts for it at its end.
    pub(super) async fn run(
        self,
        entry: Entry,
        mut inbox: mpsc::Receiver<Datagram>,
        displaced: oneshot::Receiver<Infallible>,
        stopped: Stopped,
    ) {
        let mut ending = Ending::default();
        let outcome = {
            let work = std::pin::pin!(self.forward_until_end(entry, &mut inbox, &mut ending));
            tokio::select! {
                biased;
                outcome = work => outcome,
                _ = displaced => Outcome::Displaced,
                () = stops(&stopped) => Outcome::Stopped,
            }
        };
        self.service.table().close(&self.key, self.number);
        self.service.tally.count(outcome);
        // What it has not forwarded is lost.
        inbox.close();
        while inbox.try_recv().is_ok() {
            self.service.tally.drops(Dropped::Unsent);
        }
        // Sessions of invented addresses would fill the log.
        if ending.is_answered || entry == Entry::Wake {
            self.write_down(outcome, &ending);
        }
    }

    fn write_down(&self, outcome: Outcome, ending: &Ending) {
        let config = &self.service.config;
        let through = if ending.was_held { Answered::Held } else { Answered::Server };
        let ended = Ended {
            number: self.number,
            client: self.client(),
            arrived: self.arrived,
            method: "UDP",
            service: (&config.name, &config.on),
            name: None,
            outcome: outcome.as_str(),
            refused: outcome.in_log(),
            settled: ending.forwarded.unwrap_or_else(|| self.serving.clock.now().mono),
            through: ending.forwarded.map(|_| through),
            bytes: ending.sent,
            would: self.would.get().copied(),
        };
        ended.write_down(&self.serving);
    }

    async fn forward_until_end(
        &self,
        entry: Entry,
        inbox: &mut mpsc::Receiver<Datagram>,
        ending: &mut Ending,
    ) -> Outcome {
        ending.was_held = entry != Entry::Forward;
        let hold = match self.enter(entry, self.number).await {
            Ok(hold) => hold,
            Err(outcome) => return outcome,
        };
        let server = match self.open().await {
            Ok(server) => server,
            Err(outcome) => return outcome,
        };
        let now = self.serving.clock.now().mono;
        ending.forwarded = Some(now);
        let mut forwarded = Forwarded {
            session: self,
            pace: datagrams::Session::new(self.service.config.pace(), now),
            server,
            hold: None,
            counted: None,
            here: None,
            first: Vec::new(),
            again: Mono::NEVER,
            stale: Mono::NEVER,
        };
        if hold.is_some() {
            forwarded.keep(hold);
        }
        forwarded.run(inbox, ending).await
    }

    /// The supervisor of the server, unless it is not touched.
    fn watched(&self) -> Option<&Arc<Supervisor>> {
        self.service.supervisor().filter(|_| !self.serving.observe)
    }

    fn requester(&self) -> ExchangeFor {
        ExchangeFor::Client { network: self.network() }
    }

    fn network(&self) -> u64 {
        ClientKey::from(self.client().ip()).network()
    }

    /// Wakes the server if necessary, and waits for it.
    async fn enter(&self, entry: Entry, number: u64) -> Result<Hold, Outcome> {
        let Some(supervisor) = self.watched() else {
            let shadow = self.service.ground.site().and_then(|site| site.shadow.as_ref());
            if let Some(shadow) = shadow.filter(|_| self.serving.observe) {
                let admission_request = admission_request(number, self.client().ip());
                let _ = self.would.set(shadow.admit(&admission_request, || self.cause(number)));
            }
            return Ok(None);
        };
        match entry {
            Entry::Forward => Ok(None),
            Entry::Wait => {
                let (_held, _waiting) = (self.waits(), Waiting::new(&self.waits));
                self.joins(supervisor).await.map(|()| None)
            }
            Entry::Wake => self.wake(supervisor, number).await,
        }
    }

    /// Requests the server as a request of a site does, and waits for it.
    async fn wake(&self, supervisor: &Arc<Supervisor>, number: u64) -> Result<Hold, Outcome> {
        // Subscribed before the session is admitted, so that no later change is missed.
        let mut phase = supervisor.phase();
        let admission_request = admission_request(number, self.client().ip());
        match supervisor.admit(&admission_request, || self.cause(number)) {
            Route::Forward => Ok(Some(Exchange::begun(supervisor, self.requester()))),
            // It may be that only its probe fails, and this service is up: then the client need not wait.
            Route::Hold if supervisor.may_be_up() => {
                supervisor.gave_up(number);
                supervisor.begin_for(self.requester());
                Ok(Some(Exchange::begun(supervisor, self.requester())))
            }
            Route::Hold => {
                if supervisor.held() > self.serving.config.limits.held {
                    supervisor.gave_up(number);
                    return Err(Outcome::QueueFull);
                }
                let _held = self.waits();
                let deadline = self.serving.clock.now().mono + self.serving.config.limits.hold;
                let to_hold = ToHold { number, network: self.network(), deadline };
                let clock = &self.serving.clock;
                match hold(supervisor, &mut phase, to_hold, &mut NothingToRead, clock).await {
                    Held::Awake(exchange) => Ok(Some(exchange)),
                    Held::TooLong => Err(Outcome::HeldTooLong),
                    Held::Failed | Held::Left => Err(Outcome::WakeFailed),
                }
            }
            Route::OverBudget { .. } => Err(Outcome::OverBudget),
            _ => Err(Outcome::WakeFailed),
        }
    }

    /// Waits for the server that another client has woken.
    async fn joins(&self, supervisor: &Supervisor) -> Result<(), Outcome> {
        let (clock, mut phase) = (&self.serving.clock, supervisor.phase());
        let deadline = clock.now().mono + self.serving.config.limits.hold;
        let comes = phase.wait_for(|phase| *phase != Phase::Waking);
        match clock.until(deadline, comes).await {
            Ok(Ok(phase)) if *phase == Phase::Awake => Ok(()),
            Ok(_) => Err(Outcome::WakeFailed),
            Err(_) => Err(Outcome::HeldTooLong),
        }
    }

    fn waits(&self) -> Counted<'_> {
        let tally = &self.service.tally;
        tally.waited.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Counted::new(&tally.held)
    }

    fn cause(&self, number: u64) -> WakeCause {
        WakeCause::Request {
            id: RequestId { at: self.arrived.wall, number }.to_string(),
            client: self.client().ip().to_canonical().to_string(),
            class: ClientClass::Api.as_str().to_owned(),
            agent: None,
            line: format!("UDP {}", self.service.config.name),
        }
    }

    /// A socket to the service.
    async fn open(&self) -> Result<ServerSocket, Outcome> {
        let (service, serving) = (&self.service, &self.serving);
        let at = look_up::address(service, serving).await.ok_or(Outcome::Unreachable)?;
        if own::listens(&self.own_addresses, at) {
            let name = service.config.name.clone();
            serving.warn("loop", &service.config.name, move |count| {
                tracing::error!(
                    service = name,
                    %at,
                    count,
                    hint = "give `origin` the address at which the service itself listens",
                    "`origin` is where nightwatt itself listens: its datagrams would loop forever"
                );
            });
            return Err(Outcome::Loops);
        }
        ServerSocket::open(at, &service.ports, &serving.clock).map_err(|error| {
            if is_own_shortage(&error) { Outcome::Exhausted } else { Outcome::Unreachable }
        })
    }
}

impl<'a> Forwarded<'a> {
    fn now(&self) -> Mono {
        self.session.serving.clock.now().mono
    }

    /// Counts from now on.
    fn keep(&mut self, hold: Hold) {
        let session: &'a Session = self.session;
        self.pace.keep(self.now());
        self.counted.get_or_insert_with(|| Counted::new(&session.service.tally.active));
        // The one before ends after this one has begun.
        drop(std::mem::replace(&mut self.hold, hold));
    }

    /// Does not count from now on.
    fn let_go(&mut self) {
        self.pace.let_go();
        self.counted = None;
        self.hold = None;
    }

    /// Forwards until the session ends.
    async fn run(&mut self, inbox: &mut mpsc::Receiver<Datagram>, ending: &mut Ending) -> Outcome {
        let session = self.session;
        let clock = &session.serving.clock;
        loop {
            let goes = async {
                match session.watched().filter(|_| self.pace.keeps()) {
                    Some(supervisor) => falls_asleep(supervisor).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = goes => self.let_go(),
                ready = self.server.ready(Interest::READABLE | Interest::ERROR) => {
                    if ready.is_ok() {
                        self.take_error();
                        self.answers(ending).await;
                    }
                }
                datagram = inbox.recv() => {
                    let Some(datagram) = datagram else { return Outcome::Displaced };
                    if let Err(outcome) = self.forward(datagram).await {
                        return outcome;
                    }
                }
                () = clock.sleep_until(self.again) => self.repeat().await,
                () = clock.sleep_until(self.stale) => self.forget(),
                () = clock.sleep_until(self.pace.next_timer()) => match self.pace.tick(self.now()) {
                    Some(Due::Close) if self.pace.is_answered() => return Outcome::Idle,
                    Some(Due::Close) => return Outcome::Unanswered,
                    Some(Due::LetGo) => self.let_go(),
                    None => {}
                },
            }
        }
    }

    /// Forwards a datagram of the client; requests the server if it sleeps.
    async fn forward(&mut self, datagram: Datagram) -> Result<(), Outcome> {
        let session = self.session;
        let begins = self.pace.from_client(self.now());
        self.here = datagram.here;
        if !self.pace.keeps() {
            let (client, observe) = (session.client().ip(), session.serving.observe);
            let entry = session.service.entry(self.now(), client, &datagram.bytes, observe);
            match entry {
                Ok(Entry::Forward) => {
                    if begins {
                        self.counts();
                    }
                }
                Ok(entry) => {
                    let hold = session.enter(entry, Supervisor::next_id()).await?;
                    if hold.is_some() {
                        self.keep(hold);
                    }
                }
                Err(refusal) => {
                    session.service.tally.drops(refusal.into());
                    return Ok(());
                }
            }
        }
        // It is held no longer.
        let Datagram { bytes, place, .. } = datagram;
        self.send(&bytes).await;
        drop(place);
        self.keep_first(bytes);
        Ok(())
    }

    /// Keeps one of the first datagrams, if the server has just woken: then it may have to be sent again.
    fn keep_first(&mut self, bytes: Box<[u8]>) {
        let kept: usize = self.first.iter().map(|it| it.len()).sum();
        let has_room = self.first.len() < KEPT && kept + bytes.len() <= KEPT_BYTES;
        let has_woken = || self.session.watched().is_some_and(|it| it.woke_within(STARTING));
        if !self.pace.is_answered() && has_room && has_woken() {
            if self.first.is_empty() {
                self.stale = self.now() + STARTING;
            }
            self.first.push(bytes);
        }
    }

    /// The first datagrams are not sent again.
    fn forget(&mut self) {
        (self.first, self.again, self.stale) = (Vec::new(), Mono::NEVER, Mono::NEVER);
    }

    /// Sends a datagram for the first time.
    async fn send(&mut self, datagram: &[u8]) {
        let tally = &self.session.service.tally;
        match self.try_send(datagram).await {
            Ok(()) => tally.receives(datagram.len()),
            Err(error) => {
                tally.drops(Dropped::Unsent);
                tracing::debug!(service = self.session.service.config.name, %error, "a datagram was not sent");
                if let Some(supervisor) = self.session.watched().filter(|_| self.pace.keeps()) {
                    supervisor.unreachable();
                }
            }
        }
    }

    async fn try_send(&mut self, datagram: &[u8]) -> std::io::Result<()> {
        let mut sent = self.server.send(datagram).await;
        if sent.as_ref().is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused) {
            // That was the answer to an earlier one.
            self.refused();
            sent = self.server.send(datagram).await;
        }
        sent.map(drop)
    }

    /// The server's machine answers that nothing listens there. If it has just woken, the service may not have started
    /// yet.
    fn refused(&mut self) {
        let has_woken = self.session.watched().is_some_and(|it| it.woke_within(STARTING));
        if has_woken && !self.first.is_empty() && self.again == Mono::NEVER {
            self.again = self.now() + RETRY_EVERY;
        }
    }

    /// Notes what the network has answered to an earlier datagram, which is not among the datagrams to read.
    fn take_error(&mut self) {
        let server = &self.server;
        let mut error = None;
        let _ = server.try_io(Interest::ERROR, || {
            error = server.take_error()?;
            // So that it is waited for again.
            Err::<(), _>(ErrorKind::WouldBlock.into())
        });
        if error.is_some_and(|it| it.kind() == ErrorKind::ConnectionRefused) {
            self.refused();
        }
    }

    /// Sends the first datagrams again.
    async fn repeat(&mut self) {
        self.again = Mono::NEVER;
        for datagram in std::mem::take(&mut self.first) {
            if self.try_send(&datagram).await.is_ok() {
                self.session.service.tally.sends_again();
            }
            self.first.push(datagram);
        }
    }

    /// Passes on what the server has sent.
    async fn answers(&mut self, ending: &mut Ending) {
        let session = self.session;
        // Freed while no datagrams come.
        let mut buffer = Vec::with_capacity(LONGEST);
        loop {
            buffer.clear();
            match self.server.try_recv_buf(&mut buffer) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                    self.refused();
                    continue;
                }
                Err(_) => return,
            }
            self.answered(ending);
            match session.socket.send(&buffer, session.client(), self.here) {
                Ok(()) => {
                    session.service.tally.sends(buffer.len());
                    ending.sent += buffer.len() as u64;
                }
                Err(_) => session.service.tally.drops(Dropped::Unsent),
            }
            // Lets other tasks run.
            consume_budget().await;
        }
    }

    /// The server has sent something.
    fn answered(&mut self, ending: &mut Ending) {
        let session = self.session;
        if !self.pace.is_answered() {
            session.service.table().answered(&session.key, session.number);
            self.forget();
        }
        ending.is_answered = true;
        if self.pace.from_server(self.now()) {
            self.counts();
        }
    }

    /// The session counts as a request, if its server is awake; a server that sends may be up, whatever is believed.
    fn counts(&mut self) {
        let session = self.session;
        let Some(supervisor) = session.watched() else {
            self.keep(None);
            return;
        };
        let admission_request = admission_request(Supervisor::next_id(), session.client().ip());
        let hold = if supervisor.admit_awake(&admission_request) {
            Some(Exchange::begun(supervisor, session.requester()))
        } else {
            Exchange::begin(supervisor, session.network()).or_else(|| {
                supervisor.may_be_up().then(|| {
                    supervisor.begin_for(session.requester());
                    Exchange::begun(supervisor, session.requester())
                })
            })
        };
        if hold.is_some() {
            self.keep(hold);
        }
    }
}
