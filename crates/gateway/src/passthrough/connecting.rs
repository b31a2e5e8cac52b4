//! One connection on its way to its service: admitted, held while the server wakes, connected.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use nightwatt_clock::connect::connect_any;
use nightwatt_energy::time::{Mono, Now};
use nightwatt_policy::admission::{ClientClass, Route};
use nightwatt_policy::lifecycle::Phase;
use nightwatt_policy::manager::AdmissionRequest;
use nightwatt_traffic::ClientKey;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, lookup_host};

use super::accounting::target;
use super::tally::{Waiting, share_of};
use super::{Ahead, Outcome, Service, admission_request, broken_off};
use crate::config::{WakeOn, own};
use crate::exchange::{Exchange, WORD};
use crate::facts::RequestId;
use crate::forward::RETRY_EVERY;
use crate::greeting::{self, Greeting, Protocol};
use crate::hold::{Held, ToHold, hold};
use crate::origin::is_own_shortage;
use crate::pool::{Offer, Placed, Seat, ServerPool};
use crate::proxy_protocol;
use crate::request_body::Spooling;
use crate::serving::Serving;
use crate::site::STARTING;
use crate::supervisor::{ExchangeFor, Supervisor};
use crate::wake_cause::WakeCause;

/// The exchange that a connection has with its server, and that keeps the server awake; none in shadow mode on a
/// machine.
pub(super) type Hold = Option<Arc<Exchange>>;

/// The result of reaching a service: the hold of the server, and a connection to the service if there is one already.
type Reached = (Hold, Option<TcpStream>);

/// Why there is no connection to the service.
enum NotOpen {
    /// For a reason other than the service: this is the outcome for the client.
    Refused(Outcome),
    /// The service cannot be reached.
    Unreachable(std::io::Error),
}

/// Nothing is read from a client while its first data waits for the server.
struct Silent<'a>(&'a TcpStream);

impl Spooling for Silent<'_> {
    async fn fill(&mut self) -> bool {
        true
    }

    async fn gone(&self) {
        broken_off(self.0).await;
    }
}

/// One connection.
pub(super) struct Connecting<'a> {
    pub(super) serving: &'a Arc<Serving>,
    pub(super) service: &'a Service,
    /// The addresses where the gateway itself listens for services.
    own_addresses: &'a [SocketAddr],
    pub(super) client: SocketAddr,
    /// The name that it requested.
    pub(super) name: Option<String>,
    pub(super) arrived: Now,
    /// In shadow mode: how it would have been answered.
    pub(super) would: OnceLock<&'static str>,
}

impl<'a> Connecting<'a> {
    pub(super) fn new(
        serving: &'a Arc<Serving>,
        service: &'a Service,
        own_addresses: &'a [SocketAddr],
        client: SocketAddr,
        name: Option<String>,
    ) -> Self {
        let arrived = serving.clock.now();
        Self { serving, service, own_addresses, client, name, arrived, would: OnceLock::new() }
    }

    /// Returns when a reload shuts the client out of the service.
    pub(super) async fn shut_out(&self) {
        let (mut newest, client) = (self.service.newest.subscribe(), self.client.ip());
        let is_shut_out = newest.wait_for(|config| !config.lets_in(client)).await.is_ok();
        if !is_shut_out {
            std::future::pending::<()>().await;
        }
    }

    /// Admits the connection, if the service is for its client; waits for its server, and connects to its service.
    pub(super) async fn reach(
        &self,
        number: u64,
        ahead: &mut Ahead,
        held: &mut bool,
    ) -> Result<(TcpStream, Hold), Outcome> {
        // A reload may have come since the connection was accepted.
        if !self.service.newest.borrow().lets_in(self.client.ip()) {
            return Err(Outcome::Network);
        }
        self.first_byte(ahead).await?;
        let deadline = self.serving.clock.now().mono + self.serving.config.limits.hold;
        let entering = self.enter(number, deadline, ahead, held);
        match self.or_found(entering).await? {
            (exchange, Some(server)) => Ok((self.greet(server, ahead).await?, exchange)),
            (exchange, None) => self.connect(number, deadline, exchange, ahead, held).await,
        }
    }

    /// Waits for data from the client, if only that wakes the server, and the server is not awake.
    async fn first_byte(&self, ahead: &mut Ahead) -> Result<(), Outcome> {
        let (serving, service) = (self.serving, self.service);
        let Some(supervisor) = service.supervisor() else { return Ok(()) };
        let protocol = match service.config.wake_on {
            WakeOn::Connect => return Ok(()),
            WakeOn::FirstByte if !ahead.bytes.is_empty() => return Ok(()),
            WakeOn::FirstByte => None,
            WakeOn::Tls => Some(Protocol::Tls),
            WakeOn::Ssh => Some(Protocol::Ssh),
            WakeOn::Rdp => Some(Protocol::Rdp),
            WakeOn::Minecraft => Some(Protocol::Minecraft),
        };
        if serving.observe {
            return Ok(());
        }
        let deadline = self.arrived.mono + serving.config.limits.header_timeout;
        let mut phase = supervisor.phase();
        let is_answered = AtomicBool::new(false);
        let wakes = async {
            let _ = phase.wait_for(|phase| *phase == Phase::Awake).await;
            // What was answered from here is not forwarded too.
            if is_answered.load(Ordering::Relaxed) {
                std::future::pending::<()>().await;
            }
        };
        let said = async {
            let greeting = async {
                match protocol {
                    Some(protocol) => self.greeting(ahead, protocol, &is_answered).await,
                    None => more(ahead, ahead.room).await,
                }
            };
            tokio::select! {
                // If the server is awake, the service may send first.
                biased;
                () = wakes => Ok(()),
                said = greeting => said,
            }
        };
        let said = serving.clock.until(deadline, said).await.unwrap_or(Err(Outcome::Silent));
        if is_answered.load(Ordering::Relaxed) { Err(Outcome::Answered) } else { said }
    }

    /// Reads until it is certain that the client wakes the server, or that it does not.
    async fn greeting(
        &self,
        ahead: &mut Ahead,
        protocol: Protocol,
        is_answered: &AtomicBool,
    ) -> Result<(), Outcome> {
        loop {
            match greeting::read(protocol, &ahead.bytes) {
                Greeting::Wakes => return Ok(()),
                Greeting::Alien => return Err(Outcome::NoWake),
                Greeting::Incomplete => {}
                Greeting::Status { version, ping } => {
                    let answer = greeting::status_answer(version, &self.service.config.motd);
                    if !is_answered.swap(true, Ordering::Relaxed) {
                        send(ahead, &answer).await?;
                    }
                    if let Some(ping) = ping {
                        send(ahead, &greeting::ping_answer(ping)).await?;
                        return Err(Outcome::Answered);
                    }
                }
            }
            more(ahead, greeting::LONGEST).await?;
        }
    }

    /// Wakes the server if necessary, and waits for it, as for a request of a site.
    async fn enter(
        &self,
        number: u64,
        deadline: Mono,
        ahead: &mut impl Spooling,
        held: &mut bool,
    ) -> Result<Hold, Outcome> {
        let (serving, service) = (self.serving, self.service);
        let Some(supervisor) = service.supervisor() else { return Ok(None) };
        let admission_request = self.admission_request(number);
        let cause = || self.cause(number);
        if serving.observe {
            if let Some(shadow) = service.site().and_then(|site| site.shadow.as_ref()) {
                let _ = self.would.set(shadow.admit(&admission_request, cause));
            }
            return Ok(Some(self.begun(supervisor)));
        }
        // Subscribed before the connection is admitted, so that no later change is missed.
        let mut phase = supervisor.phase();
        match supervisor.admit(&admission_request, cause) {
            Route::Forward => Ok(Some(Exchange::begun(supervisor, self.requester()))),
            Route::Hold => {
                let full = supervisor.held() > serving.config.limits.held;
                let place = if full { None } else { self.waits(held).ok() };
                let Some(_place) = place else {
                    supervisor.gave_up(number);
                    return Err(Outcome::QueueFull);
                };
                let held = self.to_hold(number, deadline);
                held_to_the_end(hold(supervisor, &mut phase, held, ahead, &serving.clock).await)
            }
            Route::OverBudget { .. } => Err(Outcome::OverBudget),
            _ => Err(Outcome::WakeFailed),
        }
    }

    /// Requests the server again for a connection that was put through, and had released its server. It was admitted
    /// before: it uses no other connection's place, and neither the limit of held connections nor the wake budget of
    /// its client ends it. Over the budget it waits until the budget allows a wake-up, or another client has woken the
    /// server.
    pub(super) async fn ask_again(&self, client: &TcpStream) -> Result<Hold, Outcome> {
        let (serving, service) = (self.serving, self.service);
        let Some(supervisor) = service.supervisor() else { return Ok(None) };
        if serving.observe {
            return Ok(Some(self.begun(supervisor)));
        }
        loop {
            let number = Supervisor::next_id();
            let mut phase = supervisor.phase();
            let budget = match supervisor
                .admit(&self.admission_request(number), || self.cause(number))
            {
                Route::Forward => return Ok(Some(Exchange::begun(supervisor, self.requester()))),
                Route::Hold => {
                    let _place = service.tally.holds(usize::MAX, true);
                    let deadline = serving.clock.now().mono + serving.config.limits.hold;
                    let held = self.to_hold(number, deadline);
                    let (mut client, clock) = (Silent(client), &serving.clock);
                    let held = hold(supervisor, &mut phase, held, &mut client, clock);
                    let waiting = async { held_to_the_end(held.await) };
                    return self.or_found(waiting).await.map(|(exchange, _)| exchange);
                }
                Route::OverBudget { wait, .. } => wait,
                _ => {
                    let refused = async { Err(Outcome::WakeFailed) };
                    return self.or_found(refused).await.map(|(exchange, _)| exchange);
                }
            };
            tokio::select! {
                () = serving.clock.sleep(budget) => {}
                _ = phase.wait_for(|phase| *phase == Phase::Awake) => {}
                () = broken_off(client) => return Err(Outcome::Broken),
            }
        }
    }

    /// The result of waiting for the server, or a connection to the service. A server whose probe fails may be up, and
    /// the service on it too: SSH is how its web server is repaired. So this tries to connect to the service itself
    /// while it is uncertain that the server sleeps, and before it rejects a client because the server did not wake.
    async fn or_found(
        &self,
        waiting: impl Future<Output = Result<Hold, Outcome>>,
    ) -> Result<Reached, Outcome> {
        let may_be_up = async {
            match self.lone_server().filter(|it| it.may_be_up()) {
                Some(supervisor) => self.found_up(supervisor).await,
                None => None,
            }
        };
        let waited = tokio::select! {
            // First, since it wakes the server.
            biased;
            waited = waiting => waited,
            Some(reached) = may_be_up => return Ok(reached),
        };
        match waited {
            Err(outcome @ (Outcome::WakeFailed | Outcome::HeldTooLong)) => {
                let Some(supervisor) = self.lone_server() else { return Err(outcome) };
                self.found_up(supervisor).await.ok_or(outcome)
            }
            waited => Ok((waited?, None)),
        }
    }

    /// The supervisor of the server, if there is only one server, and it is supervised.
    fn lone_server(&self) -> Option<&'a Arc<Supervisor>> {
        let is_pool = self.service.site().is_some_and(|site| site.pool.is_some());
        self.service.supervisor().filter(|_| !self.serving.observe && !is_pool)
    }

    /// A connection to the service on a server that does not answer itself.
    async fn found_up(&self, supervisor: &Arc<Supervisor>) -> Option<Reached> {
        let server = self.open(&self.authority(None)).await.ok()?;
        Some((Some(self.begun(supervisor)), Some(server)))
    }

    /// A place among the held connections, of which each client has a share.
    fn waits(&self, held: &mut bool) -> Result<Waiting<'a>, Outcome> {
        let (tally, most) = (&self.service.tally, self.service.config.held);
        let client = self.client.ip();
        let share = if self.serving.client_limits.is_exempt(client) {
            None
        } else {
            let number = ClientKey::from(client).number();
            Some(tally.shares.take(number, share_of(most)).ok_or(Outcome::QueueFull)?)
        };
        let counted = tally.holds(most, !*held).ok_or(Outcome::QueueFull)?;
        *held = true;
        Ok(Waiting { _counted: counted, _share: share })
    }

    /// The network of the client, which is charged for the awake time.
    pub(super) fn network(&self) -> u64 {
        ClientKey::from(self.client.ip()).network()
    }

    fn requester(&self) -> ExchangeFor {
        ExchangeFor::Client { network: self.network() }
    }

    fn to_hold(&self, number: u64, deadline: Mono) -> ToHold {
        ToHold { number, network: self.network(), deadline }
    }

    /// Begins an exchange with a server, whatever its state.
    pub(super) fn begun(&self, supervisor: &Arc<Supervisor>) -> Arc<Exchange> {
        let requester = self.requester();
        supervisor.begin_for(requester);
        Exchange::begun(supervisor, requester)
    }

    fn admission_request(&self, number: u64) -> AdmissionRequest {
        admission_request(number, self.client.ip())
    }

    fn cause(&self, number: u64) -> WakeCause {
        WakeCause::Request {
            id: RequestId { at: self.arrived.wall, number }.to_string(),
            client: self.client.ip().to_canonical().to_string(),
            class: ClientClass::Api.as_str().to_owned(),
            agent: None,
            line: format!("TCP {}", target(&self.service.config.name, self.name.as_deref())),
        }
    }

    /// A connection to the service, to which everything from the client so far is sent. A server that turns out to be
    /// gone is reported, and waited for; so is a service that has not started yet.
    async fn connect(
        &self,
        number: u64,
        deadline: Mono,
        mut exchange: Hold,
        ahead: &mut Ahead,
        held: &mut bool,
    ) -> Result<(TcpStream, Hold), Outcome> {
        let (serving, service) = (self.serving, self.service);
        let pool = service.site().and_then(|site| site.pool.as_ref());
        let mut offer = if *held { Offer::Held } else { Offer::New };
        // Acquired once, however many times this waits.
        let mut place = None;
        loop {
            if let (Some(pool), Some(exchange)) = (pool, &exchange)
                && exchange.seat().is_none()
            {
                *held |= self.place(pool, offer, exchange, ahead, deadline).await?;
            }
            let authority = self.authority(exchange.as_deref());
            let error = match unless_left(ahead, self.open(&authority)).await? {
                Ok(server) => return Ok((self.greet(server, ahead).await?, exchange)),
                Err(NotOpen::Refused(outcome)) => return Err(outcome),
                Err(NotOpen::Unreachable(error)) => error,
            };
            let service_name = &service.config.name;
            tracing::debug!(service = %service_name, %error, "the service could not be reached");
            if serving.clock.now().mono >= deadline {
                return Err(Outcome::Unreachable);
            }
            let Some(supervisor) = service.supervisor().filter(|_| !serving.observe) else {
                return Err(Outcome::Unreachable);
            };
            let seat = exchange.as_deref().and_then(Exchange::seat);
            let at = seat.map_or(supervisor, Seat::supervisor);
            if unless_left(ahead, at.ask_after(WORD)).await? {
                // The server is awake. If it has just woken, the service may not have started yet.
                if !at.woke_within(STARTING) {
                    return Err(Outcome::Unreachable);
                }
                if place.is_none() {
                    place = Some(self.waits(held)?);
                }
                let pause = serving.clock.parked(serving.clock.sleep(RETRY_EVERY));
                unless_left(ahead, pause).await?;
                continue;
            }
            if let Some(seat) = seat {
                // Try again, at another server if one has a place.
                if matches!(offer, Offer::FailedAt(_)) {
                    return Err(Outcome::Unreachable);
                }
                offer = Offer::FailedAt(seat.server());
                exchange = exchange.as_deref().map(Exchange::at_another_server);
                continue;
            }
            let mut phase = supervisor.phase();
            drop(exchange.take());
            if place.is_none() {
                place = Some(self.waits(held)?);
            }
            let visitor = Some(self.admission_request(number).visitor);
            if !supervisor.rejoin(number, visitor, || self.cause(number)) {
                return Err(Outcome::WakeFailed);
            }
            let waiting = self.to_hold(number, deadline);
            let outcome = hold(supervisor, &mut phase, waiting, ahead, &serving.clock).await;
            exchange = held_to_the_end(outcome)?;
        }
    }

    /// A place at a server of a pool; returns whether it had to wait.
    async fn place(
        &self,
        pool: &Arc<ServerPool>,
        offer: Offer,
        exchange: &Exchange,
        ahead: &mut Ahead,
        deadline: Mono,
    ) -> Result<bool, Outcome> {
        let (seat, waited) = match pool.place(offer, ahead, deadline).await {
            Placed::At(seat) => (seat, false),
            Placed::Waited(seat) => (seat, true),
            Placed::Refused => return Err(Outcome::QueueFull),
            Placed::TooLong => return Err(Outcome::HeldTooLong),
            Placed::Left => return Err(Outcome::Left),
        };
        seat.becomes_tunnel();
        exchange.sit(seat);
        Ok(waited)
    }

    /// The address of the service: in a pool, at the server that has the place.
    fn authority(&self, exchange: Option<&Exchange>) -> String {
        let origin = &self.service.config.origin;
        if let Some(seat) = exchange.and_then(Exchange::seat) {
            return origin.at(seat.origin().authority());
        }
        let site = self.service.site();
        origin.at(site.map_or("", |site| site.origin.authority()))
    }

    async fn open(&self, authority: &str) -> Result<TcpStream, NotOpen> {
        let serving = self.serving;
        let connecting = async {
            let at: Vec<SocketAddr> =
                lookup_host(authority).await.map_err(NotOpen::Unreachable)?.collect();
            if let Some(at) = at.iter().find(|at| own::listens(self.own_addresses, **at)) {
                let (service, at) = (self.service.config.name.clone(), *at);
                serving.warn("loop", &self.service.config.name, move |count| {
                    tracing::error!(
                        service,
                        %at,
                        count,
                        hint = "give `origin` the address at which the service itself listens",
                        "`origin` is where nightwatt itself listens: its connections would loop forever"
                    );
                });
                return Err(NotOpen::Refused(Outcome::Loops));
            }
            connect_any(&serving.clock, at).await.map_err(|error| self.not_open(error))
        };
        let server = serving.clock.timeout(serving.config.limits.connect_timeout, connecting).await;
        let timed_out = |_| Err(NotOpen::Unreachable(std::io::ErrorKind::TimedOut.into()));
        server.unwrap_or_else(timed_out)
    }

    /// A lack of resources on this machine is not the service's fault, and reveals nothing about its server.
    fn not_open(&self, error: std::io::Error) -> NotOpen {
        if !is_own_shortage(&error) {
            return NotOpen::Unreachable(error);
        }
        let service = self.service.config.name.clone();
        self.serving.warn("shortage", &self.service.config.name, move |count| {
            tracing::warn!(
                service,
                %error,
                count,
                hint = "raise LimitNOFILE or `ulimit -n`, or lower `limits.connections`: a connection that is \
                        passed through takes two descriptors",
                "cannot connect to services: this machine is out of descriptors, ports or memory"
            );
        });
        NotOpen::Refused(Outcome::Exhausted)
    }

    /// Sends the first bytes: the PROXY protocol header, and what arrived while the connection was held.
    async fn greet(&self, mut server: TcpStream, ahead: &Ahead) -> Result<TcpStream, Outcome> {
        let _ = server.set_nodelay(true);
        if let Some(version) = self.service.config.send_proxy_protocol {
            let here = ahead.stream.local_addr().map_err(|_| Outcome::Left)?;
            let header = proxy_protocol::write(version, self.client, here);
            // A new connection accepts this much at once.
            server.write_all(&header).await.map_err(|_| Outcome::Unreachable)?;
        }
        Ok(server)
    }
}

/// Reads some bytes of the client.
async fn more(ahead: &mut Ahead, most: usize) -> Result<(), Outcome> {
    let mut part = bytes::BufMut::limit(&mut ahead.bytes, most);
    match ahead.stream.read_buf(&mut part).await {
        Ok(length) if length > 0 => Ok(()),
        _ => Err(Outcome::Left),
    }
}

async fn send(ahead: &mut Ahead, bytes: &[u8]) -> Result<(), Outcome> {
    ahead.stream.write_all(bytes).await.map_err(|_| Outcome::Left)
}

/// The result of `work`, unless the client leaves before.
async fn unless_left<T>(ahead: &mut Ahead, work: impl Future<Output = T>) -> Result<T, Outcome> {
    let leaves = async {
        if ahead.fill().await {
            ahead.gone().await;
        }
    };
    tokio::select! {
        biased;
        done = work => Ok(done),
        () = leaves => Err(Outcome::Left),
    }
}

fn held_to_the_end(held: Held) -> Result<Hold, Outcome> {
    match held {
        Held::Awake(exchange) => Ok(Some(exchange)),
        Held::Failed => Err(Outcome::WakeFailed),
        Held::TooLong => Err(Outcome::HeldTooLong),
        Held::Left => Err(Outcome::Left),
    }
}
