//! What is known of a request before it is answered.

use crate::arrival::Arrival;
use crate::client_key::ClientKey;

/// What is known of a request before it is answered.
#[derive(Debug, Clone, Copy)]
pub struct ClientFacts<'a> {
    /// The client that sends the request.
    pub client: ClientKey,
    /// `User-Agent`.
    pub agent: Option<&'a str>,
    /// `GET`.
    pub method: &'a str,
    /// Request target: `/index.html?a=b`.
    pub target: &'a str,
    /// `Host`; logs do not know.
    pub host: Option<&'a str>,
    /// `Referer`.
    pub referer: Option<&'a str>,
    /// Whether `Accept` wants a page more than anything else; logs do not know.
    pub accepts_html: Option<bool>,
    /// A keyed hash of what the client shows to be let in (`Authorization`, a token); never 0.
    pub credential: Option<u64>,
    /// What `Sec-Fetch-*` says.
    pub fetch: Fetch,
}

/// What a browser reports of a request in `Sec-Fetch-*`. Any client can send that, so it only ever helps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fetch {
    /// Nothing, or nothing that matters.
    #[default]
    Unknown,
    /// A page of another site has it ask, and not for a document: its reader knows nothing of it.
    PartOfAnotherSite,
    /// A user opens a page.
    Navigation,
}

impl<'a> From<&'a Arrival> for ClientFacts<'a> {
    fn from(arrival: &'a Arrival) -> Self {
        Self {
            client: ClientKey::from(arrival.client.as_str()),
            agent: arrival.agent.as_deref(),
            method: &arrival.method,
            target: &arrival.target,
            host: None,
            referer: arrival.referer.as_deref(),
            accepts_html: None,
            credential: None,
            fetch: Fetch::Unknown,
        }
    }
}
