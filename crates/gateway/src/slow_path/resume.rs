//! The slow path of a request that has begun on the fast path.

use std::sync::Arc;

use http::{Request, Response};
use nightwatt_http1::Incoming;

use super::{CacheLookup, Client, SiteRequest};
use crate::access_log::Answered;
use crate::accounting::{How, close};
use crate::body::Answer;
use crate::exchange::Admitted;
use crate::facts::{Facts, Peer};
use crate::hold::Spool;
use crate::question;
use crate::serving::Serving;

/// Answers a request that was admitted already, and sent to the server.
pub(crate) async fn resume(
    serving: Arc<Serving>,
    peer: Peer,
    request: Request<Incoming>,
    admitted: Admitted,
) -> Response<Answer> {
    let Admitted { site: index, class, arrived, number, needs_server, exchange } = admitted;
    let (mut parts, body) = request.into_parts();
    question::drop_what_connection_names(&mut parts.headers);
    let facts = Arc::new(Facts::of(&serving.config, peer, &parts, arrived, number));
    let names = question::drop_what_is_not_passed_on(&mut parts.headers, facts.trusted);
    let mut client = Client { serving: &serving, index, facts: &facts, class, stays: false };
    let (response, answered) = {
        let asked = SiteRequest::new(&serving, index, &facts, &parts, class, names);
        let lookup = CacheLookup { key: asked.cache_key(), found: None };
        let phase = asked.site().supervisor.phase();
        let spool = Spool::unkept(body);
        Box::pin(asked.through(lookup, spool, exchange, phase, Answered::Server)).await
    };
    client.stays = true;
    let how = How { needs_server, ..How::by_itself(class, answered) };
    close(&serving, Some(index), &facts, response, how)
}
