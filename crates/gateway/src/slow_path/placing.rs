//! Where a site has several servers: a place for a request, and another when a server has failed.

use std::sync::Arc;
use std::time::Duration;

use http::{Response, StatusCode};

use super::{CacheLookup, SiteRequest};
use crate::access_log::Answered;
use crate::answers;
use crate::body::Answer;
use crate::exchange::Exchange;
use crate::hold::Spool;
use crate::pool::{Offer, Placed, Seat, ServerPool};

impl SiteRequest<'_> {
    /// Finds a place for an exchange, if its site has a pool; returns whether it had to wait.
    pub(super) async fn first_place(
        &self,
        exchange: &Exchange,
        spool: &mut Spool,
        answered: &mut Answered,
    ) -> Result<bool, (Response<Answer>, Answered)> {
        let Some(pool) = &self.site().pool else { return Ok(false) };
        // A request that was held for the pool to wake is not rejected now.
        let offer = match *answered {
            _ if self.is_guest() => Offer::Guest { failed_at: None },
            Answered::Held => Offer::Held,
            _ => Offer::New,
        };
        let waited = self.placed(pool, offer, exchange, spool).await?;
        if waited {
            *answered = Answered::Held;
        }
        Ok(waited)
    }

    /// The answer to a request without a place: a stored one, if that is allowed when a server fails, otherwise an
    /// error.
    pub(super) fn without_place(
        &self,
        lookup: CacheLookup,
        refused: Response<Answer>,
        answered: Answered,
    ) -> (Response<Answer>, Answered) {
        if let Some(found) = lookup.fresh() {
            // Another request has fetched the same meanwhile.
            return self.cache_answer(found, Answered::Cache);
        }
        let forwarding = self.forwarding(lookup, None);
        forwarding.stale_instead().map_or((refused, answered), |stale| (stale, Answered::Stale))
    }

    /// Another exchange for a request whose server has failed: with another server, or with the same one if it is well
    /// and no other has a place.
    pub(super) async fn elsewhere(
        &self,
        exchange: Arc<Exchange>,
        spool: &mut Spool,
        answered: &mut Answered,
    ) -> Result<Arc<Exchange>, (Response<Answer>, Answered)> {
        let next = exchange.at_another_server();
        let failed_at = exchange.seat().map(Seat::server);
        let offer = match failed_at {
            _ if self.is_guest() => Offer::Guest { failed_at },
            Some(server) => Offer::FailedAt(server),
            None => Offer::Held,
        };
        drop(exchange);
        if let Some(pool) = &self.site().pool {
            pool.count_resent();
            if self.placed(pool, offer, &next, spool).await? {
                *answered = Answered::Held;
            }
        }
        Ok(next)
    }

    /// Whether no server is to be woken for it: for crawlers and scanners, and by the rules of access. (In shadow mode
    /// none is.)
    pub(super) fn is_guest(&self) -> bool {
        let may_wake = self.class.is_admitted() && self.may_wake();
        !(self.serving.observe || may_wake)
    }

    /// Finds a place in the pool for an exchange; returns whether it had to wait, or the answer for a request without a
    /// place.
    async fn placed(
        &self,
        pool: &Arc<ServerPool>,
        offer: Offer,
        exchange: &Exchange,
        spool: &mut Spool,
    ) -> Result<bool, (Response<Answer>, Answered)> {
        // A request that was at a server for long has not waited in line for long.
        let now = self.serving.clock.now().mono;
        let is_new = matches!(offer, Offer::New | Offer::Guest { failed_at: None });
        let since = if is_new { self.facts.arrived.mono } else { now };
        let deadline = since + self.serving.config.limits.hold;
        let (seat, waited) = match pool.place(offer, spool, deadline).await {
            Placed::At(seat) => (seat, false),
            Placed::Waited(seat) => (seat, true),
            Placed::Refused => {
                let text = "All servers are busy, and so many wait already. Please come back soon.";
                let after = Duration::from_secs(1).max(pool.may_have_room_in());
                let answer = answers::later(StatusCode::SERVICE_UNAVAILABLE, after, text);
                return Err((answer, Answered::Unavailable));
            }
            // (A client that has left does not read the answer.)
            Placed::TooLong | Placed::Left => {
                let text = "No server had a place in time.";
                let answer = answers::sentence(StatusCode::GATEWAY_TIMEOUT, text);
                return Err((answer, Answered::Timeout));
            }
        };
        exchange.sit(seat);
        Ok(waited)
    }
}
