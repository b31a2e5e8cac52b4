//! One connection on its way to its service: admitted, held while the server wakes, connected.

use std::net::SocketAddr;
use std::sync::Arc;

use nightwatt_model::policy::admission::{self, Cached, ClientClass, Route, Want};
use nightwatt_model::policy::manager::Knock;
use nightwatt_model::time::{Mono, Now};
use nightwatt_model::visit::Visitor;
use nightwatt_traffic::ClientKey;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::books::{Ended, target};
use super::line::Line;
use super::{Ahead, Outcome, Service, Stopped, close, stops};
use crate::access::Answered;
use crate::facts::RequestId;
use crate::forward::{Exchange, RETRY_EVERY, STARTING};
use crate::gateway::Gateway;
use crate::hold::{Held, Spooling, hold};
use crate::journal::WakeCause;
use crate::pool::{Offer, Placed, Seat, ServerPool};
use crate::proxy::WORD;
use crate::proxy_protocol;
use crate::supervisor::Supervisor;

/// What a connection has of its server: an exchange, which keeps that awake; none in shadow mode on a
/// machine.
pub(super) type Hold = Option<Arc<Exchange>>;

/// One connection.
pub(super) struct Course<'a> {
    pub(super) gateway: &'a Arc<Gateway>,
    pub(super) service: &'a Service,
    client: SocketAddr,
    /// The name it asked for.
    name: Option<String>,
    arrived: Now,
}

impl<'a> Course<'a> {
    pub(super) fn new(
        gateway: &'a Arc<Gateway>,
        service: &'a Service,
        client: SocketAddr,
        name: Option<String>,
    ) -> Self {
        let arrived = gateway.clock.now();
        Self { gateway, service, client, name, arrived }
    }

    /// The whole of it; written down at its end.
    pub(super) async fn run(&self, mut ahead: Ahead, is_tls: bool, stopped: &Stopped) {
        let number = Supervisor::next_id();
        let deadline = self.arrived.mono + self.gateway.config.limits.hold;
        let mut held = false;
        let reach = async {
            let exchange = self.enter(number, deadline, &mut ahead, &mut held).await?;
            self.connect(number, deadline, exchange, &mut ahead, &mut held).await
        };
        let reached = tokio::select! {
            biased;
            reached = reach => reached,
            () = stops(stopped) => Err(Outcome::Stopped),
        };
        let settled = self.gateway.clock.now().mono;
        let was_put_through = reached.is_ok();
        let (outcome, bytes) = match reached {
            Ok((server, exchange)) => {
                let line = Line::new(self, exchange);
                let Ahead { stream, bytes, .. } = ahead;
                let outcome = line.run((stream, bytes), server, stopped).await;
                (outcome, line.sent())
            }
            Err(outcome) => {
                close(ahead.stream, is_tls.then_some(outcome)).await;
                (outcome, 0)
            }
        };
        let (config, through) =
            (&self.service.config, if held { Answered::Held } else { Answered::Server });
        self.service.tally.count(outcome);
        let ended = Ended {
            number,
            client: self.client,
            arrived: self.arrived,
            service: (&config.name, &config.on),
            name: self.name.as_deref(),
            outcome,
            settled,
            through: was_put_through.then_some(through),
            bytes,
        };
        ended.write_down(self.gateway);
    }

    /// Has the server woken if need be, and waits for it: as a request of a site would.
    pub(super) async fn enter(
        &self,
        number: u64,
        deadline: Mono,
        ahead: &mut impl Spooling,
        held: &mut bool,
    ) -> Result<Hold, Outcome> {
        let (gateway, service) = (self.gateway, self.service);
        let Some(supervisor) = service.supervisor(gateway) else { return Ok(None) };
        let knock = self.knock(number);
        let cause = || self.cause(number);
        if gateway.observe {
            supervisor.begin();
            if let Some(shadow) = service.site(gateway).and_then(|site| site.shadow.as_ref()) {
                shadow.admit(&knock, cause);
            }
            return Ok(Some(Exchange::begun(supervisor, ClientClass::Api)));
        }
        // Asked for before the connection is admitted, so that no change after it is missed.
        let mut phase = supervisor.phase();
        match supervisor.admit(&knock, cause) {
            Route::Forward => Ok(Some(Exchange::begun(supervisor, ClientClass::Api))),
            Route::Hold => {
                let full = supervisor.held() > gateway.config.limits.held;
                let place = service.tally.holds(service.config.held).filter(|_| !full);
                let Some(_place) = place else {
                    supervisor.gave_up(number);
                    return Err(Outcome::QueueFull);
                };
                *held = true;
                let held = (number, deadline);
                held_to_the_end(hold(supervisor, &mut phase, held, ahead, &gateway.clock).await)
            }
            Route::OverBudget(_) => Err(Outcome::OverBudget),
            _ => Err(Outcome::WakeFailed),
        }
    }

    fn knock(&self, number: u64) -> Knock {
        let address = self.client.ip().to_canonical();
        Knock {
            id: number,
            visitor: Visitor::new(&address.to_string(), None),
            client: ClientKey::from(address).number(),
            request: admission::Request {
                class: ClientClass::Api,
                want: Want::Other,
                cached: Cached::Nothing,
            },
        }
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

    /// A connection to the service, with all that the client has said so far on its way. A server that
    /// turns out to be gone is reported, and waited for.
    async fn connect(
        &self,
        number: u64,
        deadline: Mono,
        mut exchange: Hold,
        ahead: &mut Ahead,
        held: &mut bool,
    ) -> Result<(TcpStream, Hold), Outcome> {
        let (gateway, service) = (self.gateway, self.service);
        let pool = service.site(gateway).and_then(|site| site.pool.as_ref());
        let mut offer = if *held { Offer::Held } else { Offer::New };
        loop {
            if let (Some(pool), Some(exchange)) = (pool, &exchange)
                && exchange.seat().is_none()
            {
                *held |= self.place(pool, offer, exchange, ahead, deadline).await?;
            }
            let authority = self.authority(exchange.as_deref());
            let error = match self.open(&authority).await {
                Ok(server) => return Ok((self.greet(server, ahead).await?, exchange)),
                Err(error) => error,
            };
            let service_name = &service.config.name;
            tracing::debug!(service = %service_name, %error, "the service could not be reached");
            if gateway.clock.now().mono >= deadline {
                return Err(Outcome::Unreachable);
            }
            let Some(supervisor) = service.supervisor(gateway).filter(|_| !gateway.observe) else {
                return Err(Outcome::Unreachable);
            };
            let seat = exchange.as_deref().and_then(Exchange::seat);
            let at = seat.map_or(supervisor, Seat::supervisor);
            if at.ask_after(WORD).await {
                // It is awake. Only just? Then the service may not have begun.
                if !at.woke_within(STARTING) {
                    return Err(Outcome::Unreachable);
                }
                gateway.clock.parked(gateway.clock.sleep(RETRY_EVERY)).await;
                continue;
            }
            if let Some(seat) = seat {
                // Once more, at another server if there is one with a place.
                if matches!(offer, Offer::FailedAt(_)) {
                    return Err(Outcome::Unreachable);
                }
                offer = Offer::FailedAt(seat.server());
                exchange = exchange.as_deref().map(Exchange::anew);
                continue;
            }
            let mut phase = supervisor.phase();
            drop(exchange.take());
            let place = service.tally.holds(service.config.held).ok_or(Outcome::QueueFull)?;
            if !supervisor.rejoin(number, || self.cause(number)) {
                return Err(Outcome::WakeFailed);
            }
            *held = true;
            let waiting = (number, deadline);
            let outcome = hold(supervisor, &mut phase, waiting, ahead, &gateway.clock).await;
            exchange = held_to_the_end(outcome)?;
            drop(place);
        }
    }

    /// A place at a server of a pool; says whether that took a wait.
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

    /// Where the service is: at the server that has the place, of a pool.
    fn authority(&self, exchange: Option<&Exchange>) -> String {
        let origin = &self.service.config.origin;
        if let Some(seat) = exchange.and_then(Exchange::seat) {
            return origin.at(seat.origin().authority());
        }
        let site = self.service.site(self.gateway);
        origin.at(site.map_or("", |site| site.origin.authority()))
    }

    async fn open(&self, authority: &str) -> std::io::Result<TcpStream> {
        let limit = self.gateway.config.limits.connect_timeout;
        let connecting = TcpStream::connect(authority);
        let server = self.gateway.clock.timeout(limit, connecting).await;
        server.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()))
    }

    /// The first bytes: whose connection it is, and what came while it was held.
    async fn greet(&self, mut server: TcpStream, ahead: &mut Ahead) -> Result<TcpStream, Outcome> {
        let _ = server.set_nodelay(true);
        if let Some(version) = self.service.config.send_proxy_protocol {
            let here = ahead.stream.local_addr().map_err(|_| Outcome::Left)?;
            let header = proxy_protocol::write(version, self.client, here);
            // A new connection takes so much at once.
            server.write_all(&header).await.map_err(|_| Outcome::Unreachable)?;
        }
        Ok(server)
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
