//! Where a site has several servers: a place for a request, and another when a server has failed.

use std::sync::Arc;
use std::time::Duration;

use http::{Response, StatusCode};

use super::Asked;
use crate::access::Answered;
use crate::answers;
use crate::body::Answer;
use crate::forward::Exchange;
use crate::hold::Spool;
use crate::pool::{Placed, ServerPool};

impl Asked<'_> {
    /// Finds a place for an exchange, if its site has a pool; says whether that took a wait.
    pub(super) async fn first_place(
        &self,
        exchange: &Exchange,
        spool: &mut Spool,
        answered: &mut Answered,
    ) -> Result<bool, (Response<Answer>, Answered)> {
        let Some(pool) = &self.site().pool else { return Ok(false) };
        // Who was held for the pool to wake is not sent away now.
        let again = *answered == Answered::Held;
        let waited = self.placed(pool, again, exchange, spool).await?;
        if waited {
            *answered = Answered::Held;
        }
        Ok(waited)
    }

    /// Another exchange for a request whose server has failed: with a server that is well, which may be
    /// the same.
    pub(super) async fn elsewhere(
        &self,
        exchange: Arc<Exchange>,
        spool: &mut Spool,
        answered: &mut Answered,
    ) -> Result<Arc<Exchange>, (Response<Answer>, Answered)> {
        let next = exchange.anew();
        drop(exchange);
        if let Some(pool) = &self.site().pool {
            pool.count_resent();
            if self.placed(pool, true, &next, spool).await? {
                *answered = Answered::Held;
            }
        }
        Ok(next)
    }

    /// Finds a place in the pool for an exchange; says whether that took a wait, or gives the answer
    /// for a request that has none.
    async fn placed(
        &self,
        pool: &Arc<ServerPool>,
        again: bool,
        exchange: &Exchange,
        spool: &mut Spool,
    ) -> Result<bool, (Response<Answer>, Answered)> {
        // Who was with a server for long has not waited in line for long.
        let now = self.gateway.clock.now().mono;
        let since = if again { now } else { self.facts.arrived.mono };
        let deadline = since + self.gateway.config.limits.hold;
        let (seat, waited) = match pool.place(again, spool, deadline).await {
            Placed::At(seat) => (seat, false),
            Placed::Waited(seat) => (seat, true),
            Placed::Refused => {
                let text = "All servers are busy, and so many wait already. Please come back soon.";
                let after = Duration::from_secs(1).max(pool.may_have_room_in());
                let answer = answers::later(StatusCode::SERVICE_UNAVAILABLE, after, text);
                return Err((answer, Answered::Unavailable));
            }
            Placed::TooLong => {
                let text = "No server had a place in time.";
                let answer = answers::sentence(StatusCode::GATEWAY_TIMEOUT, text);
                return Err((answer, Answered::Timeout));
            }
        };
        exchange.sit(seat);
        Ok(waited)
    }
}
