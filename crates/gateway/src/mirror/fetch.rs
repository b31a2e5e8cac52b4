//! One request of the mirror: anonymous, conditional if the page is mirrored, with a limit of its size.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::VIA;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use http_body_util::BodyExt;
use nightwatt_httpcache::status::CACHE_STATUS;
use nightwatt_httpcache::{Filler, Times};
use nightwatt_mirror::pure::address::Address;
use nightwatt_mirror::pure::admit::{Answer, Ended};
use nightwatt_policy::admission::ClientClass;

use super::base::Base;
use crate::body;
use crate::exchange::Exchange;
use crate::forward::Forwarding;
use crate::hold::Spool;
use crate::own_request::{Fields, OwnRequest, OwnTarget};
use crate::request_body::Kept;
use crate::serving::Serving;
use crate::store::Requester;

/// Time limit of a request: the server's sleep waits for it.
const LONGEST: Duration = Duration::from_secs(30);

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoAnswer {
    /// The server cannot be reached, or broke off.
    Failed,
    /// It took too long.
    TimedOut,
    /// The pass was given up first.
    GivenUp,
}

/// Sends requests to the server of a site.
#[derive(Clone, Copy)]
pub(super) struct Fetcher<'a> {
    pub(super) serving: &'a Arc<Serving>,
    /// Index of the site.
    pub(super) site: usize,
    pub(super) base: &'a Base,
    pub(super) exchange: &'a Arc<Exchange>,
    /// Maximum length of a body; longer ones are not read to their end.
    pub(super) page_size: u64,
}

impl Fetcher<'_> {
    /// Requests an address with these fields. `unshared`: on a new connection.
    pub(super) async fn fetch(
        &self,
        address: &Address,
        fields: HeaderMap,
        unshared: bool,
    ) -> Result<Answer, NoAnswer> {
        let (serving, base) = (self.serving, self.base);
        let (secure, authority) = (base.secure, base.authority.as_str());
        let target = OwnTarget { secure, authority, target: address.as_str() };
        let sent: Fields =
            fields.iter().map(|(name, value)| (name.clone(), Some(value.clone()))).collect();
        let requested = serving.timestamp();
        let Some(request) = OwnRequest::at(&target, sent, serving.clock.now()) else {
            return Ok(cannot_be_requested(fields, Times::at(requested)));
        };
        let forwarding = Forwarding {
            serving,
            site: self.site,
            facts: &request.facts,
            parts: &request.parts,
            key: None,
            found: None,
            shared_fetch: Mutex::default(),
            // The cache stores nothing of it.
            requester: Requester::Of(ClientClass::Crawler),
            filler: Filler::Proxy,
            expected: None,
        };
        let asking = async {
            let (spool, exchange) = (Spool::again(Kept::default()), Arc::clone(self.exchange));
            let response = forwarding.run(spool, exchange, unshared).await.ok()?;
            let times = Times { requested, received: serving.timestamp() };
            let (mut head, body) = response.into_parts();
            // Added by the proxy itself.
            remove_last(&mut head.headers, &VIA);
            remove_last(&mut head.headers, &CACHE_STATUS);
            let (body, ended) = read(body, self.page_size).await;
            let (status, headers) = (head.status, head.headers);
            Some(Answer { asked: fields, status, headers, body, ended, times })
        };
        let answer = Box::pin(serving.clock.timeout(LONGEST, asking)).await;
        answer.map_err(|_| NoAnswer::TimedOut)?.ok_or(NoAnswer::Failed)
    }
}

/// Stands for the answer to an address that cannot be requested: it is not mirrored.
fn cannot_be_requested(asked: HeaderMap, times: Times) -> Answer {
    Answer {
        asked,
        status: StatusCode::BAD_REQUEST,
        headers: HeaderMap::new(),
        body: Bytes::new(),
        ended: Ended::Whole,
        times,
    }
}

fn remove_last(headers: &mut HeaderMap, name: &HeaderName) {
    let mut values: Vec<HeaderValue> = headers.get_all(name).iter().cloned().collect();
    values.pop();
    headers.remove(name);
    for value in values {
        headers.append(name.clone(), value);
    }
}

async fn read(mut body: body::Answer, most: u64) -> (Bytes, Ended) {
    if http_body::Body::size_hint(&body).lower() > most {
        return (Bytes::new(), Ended::TooLong);
    }
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return (Bytes::new(), Ended::Torn) };
        let Ok(part) = frame.into_data() else { continue };
        if whole.len() as u64 + part.len() as u64 > most {
            return (Bytes::new(), Ended::TooLong);
        }
        whole.extend_from_slice(&part);
    }
    (whole.freeze(), Ended::Whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_fields_the_last_one_is_ours() {
        let mut headers = HeaderMap::new();
        for value in ["1.1 theirs", "1.1 nightwatt"] {
            headers.append(VIA, HeaderValue::from_static(value));
        }
        remove_last(&mut headers, &VIA);
        assert_eq!(headers.get_all(VIA).iter().collect::<Vec<_>>(), ["1.1 theirs"]);
        remove_last(&mut headers, &VIA);
        assert!(headers.is_empty());
        remove_last(&mut headers, &VIA);
    }
}
