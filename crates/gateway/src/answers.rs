//! The proxy's own answers.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use nightwatt_policy::admission::Budget;
use nightwatt_policy::lifecycle::Phase;

use crate::body::Answer;
use crate::origin::OriginError;

/// Path at which the waiting page requests the server's state.
pub(crate) const STATE_PATH: &str = "/.nightwatt/state";

/// The content of an answer, however it is sent.
pub(crate) const LIMITED: &str = "This client asks too often. Please wait.";
pub(crate) const COME_BACK: &str = "The server sleeps. Come back later: it will be awake then.";
pub(crate) const REFUSED: &str = "The server sleeps, and this client does not wake it: it has asked for too much that is \
                                  not there, or for what only scanners ask for, or tried too many passwords.";
pub(crate) const OVER_SHARE: &str = "This client has too many requests that wait for the server. Please come back when it is awake.";
pub(crate) const TOO_LATE: &str = "The server was asleep and did not wake in time.";
pub(crate) const BREAKS_OFF: &str =
    "The server is up, but closes each connection before it has answered. Please try again.";
pub(crate) const UNAVAILABLE: &str =
    "The server cannot be reached, or does not wake. It will be tried again.";

/// For a client that does not wake the server because this budget is spent.
pub(crate) const fn over_budget(budget: Budget) -> &'static str {
    match budget {
        Budget::Client => "This client has woken the server too often. Please wait.",
        Budget::Network => "Clients of this network have woken the server too often. Please wait.",
        Budget::AwakeTime => {
            "This client alone has kept the server awake for too long, and it sleeps now. Please wait, or come \
             back when it is awake."
        }
        Budget::Unrecognised => {
            "Clients that are not known here have woken the server too often. Please wait."
        }
        Budget::UnrecognisedOfNetwork => {
            "Clients at this address that are not known here have woken the server too often. Please wait."
        }
        Budget::Proofs => {
            "The server was woken too often for proofs of authorities of certificates. Please wait."
        }
    }
}

/// Never cached: it holds for this moment only.
fn passing(status: StatusCode, kind: &'static str, text: String) -> Response<Answer> {
    let mut response = Response::new(Answer::whole(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// The content of one of our own answers, for callers that need it in another form.
#[derive(Debug, Clone)]
struct PlainText(String);

/// A plain sentence that describes the problem.
pub(crate) fn sentence(status: StatusCode, text: &str) -> Response<Answer> {
    let mut response = passing(status, "text/plain; charset=utf-8", format!("{text}\n"));
    response.extensions_mut().insert(PlainText(text.to_owned()));
    response
}

/// The proof that an authority requests, verbatim.
pub(crate) fn proof(text: String) -> Response<Answer> {
    passing(StatusCode::OK, "application/octet-stream", text)
}

/// The same for programs, if it is such a sentence: problem details (RFC 9457).
pub(crate) fn for_programs(mut response: Response<Answer>) -> Response<Answer> {
    let Some(PlainText(text)) = response.extensions_mut().remove() else { return response };
    let status = response.status();
    let problem = serde_json::json!({
        "type": "about:blank",
        "title": status.canonical_reason().unwrap_or_default(),
        "status": status.as_u16(),
        "detail": text,
    });
    let kind = HeaderValue::from_static("application/problem+json");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response.map(|_| Answer::whole(problem.to_string()))
}

/// The same for people, if the site has a page of its own for it.
pub(crate) fn for_people(mut response: Response<Answer>, page: Option<Bytes>) -> Response<Answer> {
    let Some(page) = page.filter(|_| response.extensions().get::<PlainText>().is_some()) else {
        return response;
    };
    let kind = HeaderValue::from_static("text/html; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response.map(|_| Answer::whole(page))
}

/// The same, with the time after which to retry.
pub(crate) fn later(status: StatusCode, after: Duration, text: &str) -> Response<Answer> {
    let mut response = sentence(status, text);
    response.headers_mut().insert(RETRY_AFTER, seconds(after).into());
    response
}

/// Whole seconds, rounded up: coming back too early is refused again.
pub(crate) fn seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

/// For a server that failed and is not tried again.
pub(crate) fn failure(error: &OriginError) -> Response<Answer> {
    let (status, text) = match error {
        OriginError::Distrusted(..) => (
            StatusCode::BAD_GATEWAY,
            "The proxy does not trust the certificate of the server, or found no TLS there.",
        ),
        OriginError::TimedOut(_) => {
            (StatusCode::GATEWAY_TIMEOUT, "The server did not answer in time.")
        }
        OriginError::Malformed(_) => (
            StatusCode::BAD_GATEWAY,
            "What the server answered is not well-formed HTTP. The request may have been acted upon: look \
             before you send it again.",
        ),
        _ => (
            StatusCode::BAD_GATEWAY,
            "The connection to the server broke before it had answered. The request may have been acted \
             upon: look before you send it again.",
        ),
    };
    sentence(status, text)
}

/// A waiting page that reloads after this many seconds.
pub(crate) fn waiting(page: String, seconds: u64) -> Response<Answer> {
    let mut response = passing(StatusCode::SERVICE_UNAVAILABLE, "text/html; charset=utf-8", page);
    response.headers_mut().insert(RETRY_AFTER, seconds.into());
    response
}

/// The answer to the waiting page's request for the state.
pub(crate) fn state(phase: Phase, retry_after: Duration) -> Response<Answer> {
    let json =
        serde_json::json!({ "state": phase.as_str(), "retry_after_s": seconds(retry_after) });
    passing(StatusCode::OK, "application/json", json.to_string())
}

/// For a health check: the state of the site or service; and if it is not healthy, when to ask again.
pub(crate) fn health(text: String, retry_after: Option<Duration>) -> Response<Answer> {
    let status = retry_after.map_or(StatusCode::OK, |_| StatusCode::SERVICE_UNAVAILABLE);
    let mut response = passing(status, "text/plain; charset=utf-8", text);
    if let Some(after) = retry_after {
        response.headers_mut().insert(RETRY_AFTER, seconds(after).into());
    }
    response
}

/// For a browser that requests an icon: it is not available now.
pub(crate) fn no_icon() -> Response<Answer> {
    let mut response = Response::new(Answer::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("max-age=60"));
    response
}
