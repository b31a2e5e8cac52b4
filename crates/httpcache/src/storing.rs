//! May this response be stored? (RFC 9111, 3)

use crate::directives::{RequestDirectives, ResponseDirectives};
use crate::freshness::{Freshness, is_heuristically_cacheable};
use crate::operator_rules::{Fill, Rules, is_for_crawlers};
use crate::reference;
use crate::request::RequestHead;
use crate::sharing::{Basis, Filler, Sender};
use crate::vary::Vary;
use http::header::{CONTENT_LOCATION, CONTENT_TYPE, EXPIRES, SET_COOKIE, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue, Method, StatusCode};

/// Why a response is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum NotStorable {
    /// The method is neither `GET` nor a `POST` whose response stands for the resource.
    #[error("the method's responses are not cached")]
    Method,
    /// The request said `no-store`.
    #[error("the client asked that nothing be stored")]
    RequestNoStore,
    /// An interim response, or a switch of protocols.
    #[error("not a final response")]
    Interim,
    /// 206 with less than the whole.
    #[error("parts of a response are not stored")]
    Partial,
    /// 304: belongs to a response that is stored already.
    #[error("not modified: nothing new to store")]
    NotModified,
    /// `must-understand` with a status that this cache has no rules for.
    #[error("the origin asks that its status be understood, and it is unknown")]
    NotUnderstood,
    /// The response said `no-store`.
    #[error("the origin says no-store")]
    NoStore,
    /// The response said `private`.
    #[error("the origin says private")]
    Private,
    /// The request has content, or names another place than its key: it passes the cache by.
    #[error(
        "an answer to a request with content, or one that means another place than its address"
    )]
    Bypass,
    /// The request asked for a fragment, and `Vary` does not say so.
    #[error("an answer to a request for a fragment, which `Vary` does not name")]
    Fragment,
    /// The request carried a field that may name its sender, and the response is not marked as public.
    #[error(
        "an answer to a request with a field that may name its sender; `public`, `s-maxage` or \
         `must-revalidate` allows storing it"
    )]
    Authorization,
    /// The response sets a cookie.
    #[error("sets a cookie; `store_set_cookie` allows storing it")]
    SetCookie,
    /// The request carried a cookie, and the response is not marked as public.
    #[error("an answer to a request with cookies; `public` or `s-maxage` allows storing it")]
    Cookie,
    /// `Vary: *`.
    #[error("varies on everything")]
    VaryAny,
    /// The body is in a transfer coding other than `chunked`.
    #[error("an unknown transfer coding")]
    TransferCoding,
    /// `text/event-stream`: it has no end to wait for.
    #[error("a stream of events")]
    EventStream,
    /// The origin did not mark it, and the site's operator allows no assumptions.
    #[error(
        "the server gives no lifetime and does not say public; `kind` or `ttl` allows assuming one"
    )]
    Unmarked,
    /// The origin did not mark it: only the proxy's own request may fill the cache with it.
    #[error(
        "the server gives no lifetime and does not say public: the proxy asks for it by itself"
    )]
    NotOwnRequest,
    /// An error that speaks of the request, or of a bad moment, and not of the resource.
    #[error("an error that one request has met with")]
    ClientError,
    /// Neither an explicit lifetime nor a status that may be cached without one.
    #[error("no lifetime given, and the status does not allow guessing one")]
    NoLifetime,
    /// Stale at once, without a validator, and with no grace: it could never be used.
    #[error("stale at once and cannot be validated")]
    Useless,
}

impl NotStorable {
    /// One word for `Cache-Status` (`detail`) and for logs.
    pub fn token(self) -> &'static str {
        match self {
            Self::Method => "method",
            Self::RequestNoStore => "request-no-store",
            Self::Interim => "interim",
            Self::Partial => "partial",
            Self::NotModified => "not-modified",
            Self::NotUnderstood => "not-understood",
            Self::NoStore => "no-store",
            Self::Private => "private",
            Self::Bypass => "request-bypass",
            Self::Fragment => "fragment",
            Self::Authorization => "authorization",
            Self::SetCookie => "set-cookie",
            Self::Cookie => "cookie",
            Self::VaryAny => "vary-any",
            Self::TransferCoding => "transfer-coding",
            Self::EventStream => "event-stream",
            Self::Unmarked => "unmarked",
            Self::NotOwnRequest => "not-own-request",
            Self::ClientError => "error",
            Self::NoLifetime => "no-lifetime",
            Self::Useless => "useless",
        }
    }

    /// Whether the operator or the client could change it: then `Cache-Status` names it. What the origin
    /// itself has said is in its own fields.
    pub fn is_of_the_rules(self) -> bool {
        matches!(
            self,
            Self::Bypass
                | Self::Fragment
                | Self::Authorization
                | Self::SetCookie
                | Self::Cookie
                | Self::Unmarked
                | Self::NotOwnRequest
        )
    }

    /// Whether the origin means it of the resource: the next answer, to whatever request, will most likely
    /// not be stored either.
    pub fn is_of_the_resource(self, status: StatusCode) -> bool {
        let is_meant = matches!(
            self,
            Self::NoStore | Self::Private | Self::SetCookie | Self::VaryAny | Self::EventStream
        );
        // What a request has brought upon itself, or a bad moment, says nothing of the others.
        is_meant && (status.is_success() || status.is_redirection())
    }

    /// Whether what is stored under the same key should go as well: the origin has said that the
    /// resource is not for caches, which was not so when the stored response was made.
    ///
    /// Only an answer to an anonymous request counts: many sites say `private` to logged-in users, while
    /// their pages for everyone else stay what they were. An error never counts: it says nothing of the
    /// resource.
    pub fn condemns_stored(self, sender: Sender, status: StatusCode) -> bool {
        matches!(self, Self::NoStore | Self::Private | Self::VaryAny)
            && sender.is_anonymous()
            && (status.is_success() || status.is_redirection())
    }
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    let kind = kind.split(|byte| *byte == b';').next().unwrap_or_default();
    kind.trim_ascii().eq_ignore_ascii_case(b"text/event-stream")
}

/// What [`judge`] looks at.
#[derive(Clone, Copy)]
pub(crate) struct Candidate<'a> {
    pub(crate) request: &'a RequestHead<'a>,
    pub(crate) filler: Filler,
    pub(crate) status: StatusCode,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) directives: &'a ResponseDirectives,
    pub(crate) vary: &'a Vary,
    pub(crate) freshness: &'a Freshness,
}

/// Whether a response may be stored, and on which basis, so far as its own usefulness is not asked.
pub(crate) fn judge(candidate: &Candidate<'_>, rules: &Rules) -> Result<Basis, NotStorable> {
    let Candidate { request, status, headers, directives, .. } = *candidate;
    judge_kind(request, status, headers, directives)?;
    if is_event_stream(headers) {
        return Err(NotStorable::EventStream);
    }
    if RequestDirectives::parse(request.headers).no_store {
        return Err(NotStorable::RequestNoStore);
    }
    // `must-understand` overrules `no-store` for caches that know the status (RFC 9111, 5.2.2.3).
    if directives.must_understand && !is_understood(status) {
        return Err(NotStorable::NotUnderstood);
    }
    if directives.no_store && !directives.must_understand {
        return Err(NotStorable::NoStore);
    }
    judge_privacy(candidate, rules)?;
    let by_clients = candidate.filler == Filler::Client && rules.fill == Fill::Clients;
    // What a request has brought upon itself says nothing of others, whatever lifetime it has.
    let is_own_fault = status.is_client_error() && !is_heuristically_cacheable(status);
    if (is_own_fault || status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED)
        && !by_clients
    {
        return Err(NotStorable::ClientError);
    }
    // A lifetime of nothing is no leave to share.
    let Freshness { source, lifetime, .. } = *candidate.freshness;
    if directives.public || source.is_explicit() && !lifetime.is_zero() {
        return Ok(Basis::Marked);
    }
    if !is_heuristically_cacheable(status) {
        return Err(NotStorable::NoLifetime);
    }
    if !rules.assumes {
        let is_kept = rules.crawler_files
            && candidate.filler == Filler::Proxy
            && is_for_crawlers(request.path_and_query);
        return if is_kept { Ok(Basis::ForCrawlers) } else { Err(NotStorable::Unmarked) };
    }
    let is_error = status.is_client_error() || status.is_server_error();
    match (candidate.filler, rules.fill) {
        // That something is not there is worth knowing; other errors speak of the request.
        _ if is_error && !is_absence(status) && rules.negative_ttl.is_none() && !by_clients => {
            Err(NotStorable::NoLifetime)
        }
        (Filler::Proxy, _) => Ok(Basis::OwnRequest),
        (Filler::Client, Fill::Clients) if Sender::of(request, rules).is_anonymous() => {
            Ok(Basis::ClientRequest)
        }
        (Filler::Client, _) => Err(NotStorable::NotOwnRequest),
    }
}

/// Method, status and framing.
fn judge_kind(
    request: &RequestHead<'_>,
    status: StatusCode,
    headers: &HeaderMap,
    directives: &ResponseDirectives,
) -> Result<(), NotStorable> {
    let storable = *request.method == Method::GET
        || *request.method == Method::POST && stands_for_resource(request, headers, directives);
    if !storable {
        return Err(NotStorable::Method);
    }
    match status {
        // By a client's own conditions and ranges.
        StatusCode::PRECONDITION_FAILED
        | StatusCode::RANGE_NOT_SATISFIABLE
        | StatusCode::EXPECTATION_FAILED => return Err(NotStorable::ClientError),
        _ if status.is_informational() => return Err(NotStorable::Interim),
        StatusCode::PARTIAL_CONTENT => return Err(NotStorable::Partial),
        StatusCode::NOT_MODIFIED => return Err(NotStorable::NotModified),
        _ => {}
    }
    let codings = headers.get_all(TRANSFER_ENCODING).iter();
    let mut codings = codings.flat_map(|line| line.as_bytes().split(|&b| b == b','));
    if codings.any(|coding| !coding.trim_ascii().eq_ignore_ascii_case(b"chunked")) {
        return Err(NotStorable::TransferCoding);
    }
    Ok(())
}

/// Whether the origin lets what it told one sender be given to all. Where the operator overrules
/// revalidation, the need for it is no leave to share.
pub(crate) fn is_for_all(directives: &ResponseDirectives, rules: &Rules) -> bool {
    directives.public || directives.s_maxage.is_some() && rules.respect_must_revalidate
}

/// Whose response it is.
fn judge_privacy(candidate: &Candidate<'_>, rules: &Rules) -> Result<(), NotStorable> {
    let Candidate { request, headers, directives, vary, .. } = *candidate;
    if directives.private {
        return Err(NotStorable::Private);
    }
    let Vary::On(varies) = vary else { return Err(NotStorable::VaryAny) };
    let sender = Sender::beyond(varies, request, rules);
    let for_all = is_for_all(directives, rules);
    // What is posted may name its sender, as any field may.
    let is_post = *request.method == Method::POST && !sender.has(Sender::ROUTED);
    let may_be_posted = is_post && (for_all || rules.fill == Fill::Clients);
    if sender.bypasses_cache() && !may_be_posted {
        return Err(NotStorable::Bypass);
    }
    let is_bound = directives.must_revalidate && rules.respect_must_revalidate;
    if sender.has(Sender::FIELD) && !for_all && !is_bound {
        return Err(NotStorable::Authorization);
    }
    // `Set-Cookie2` is not looked for: browsers have not read it for many years (RFC 6265, 9.3).
    let sets_cookie = headers.contains_key(SET_COOKIE)
        && !directives.withheld.contains(&SET_COOKIE)
        && !rules.store_set_cookie;
    if sets_cookie {
        return Err(NotStorable::SetCookie);
    }
    if sender.has(Sender::COOKIE) && !for_all {
        return Err(NotStorable::Cookie);
    }
    if sender.has(Sender::FRAGMENT) {
        return Err(NotStorable::Fragment);
    }
    Ok(())
}

/// Whether a status says that there is nothing at this address.
pub fn is_absence(status: StatusCode) -> bool {
    matches!(status, StatusCode::NOT_FOUND | StatusCode::GONE)
}

/// Statuses whose caching rules this crate implements.
fn is_understood(status: StatusCode) -> bool {
    is_heuristically_cacheable(status)
        || matches!(
            status.as_u16(),
            201 | 202 | 205 | 302 | 303 | 307 | 400..=403 | 406..=413 | 415..=417 | 421 | 422
                | 425 | 426 | 428 | 429 | 431 | 451 | 500 | 502..=505 | 511
        )
}

/// Whether the response to a `POST` is what a later `GET` would get: it says so by a
/// `Content-Location` that is the target itself, and has a lifetime (RFC 9110, 9.3.3).
fn stands_for_resource(
    request: &RequestHead<'_>,
    headers: &HeaderMap,
    directives: &ResponseDirectives,
) -> bool {
    let explicit = directives.s_maxage.or(directives.max_age).is_some();
    let location = headers.get(CONTENT_LOCATION).and_then(|value| value.to_str().ok());
    (explicit || headers.contains_key(EXPIRES))
        && location.is_some_and(|location| {
            reference::resolve(request.authority, request.path_and_query, location)
                .is_some_and(|found| found == request.path_and_query)
        })
}
