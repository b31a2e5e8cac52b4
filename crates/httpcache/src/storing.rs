//! May this response be stored? (RFC 9111, 3)

use crate::directives::{RequestDirectives, ResponseDirectives};
use crate::freshness::is_heuristically_cacheable;
use crate::reference;
use crate::request::RequestHead;
use crate::rules::Rules;
use http::header::{
    AUTHORIZATION, CONTENT_LOCATION, CONTENT_TYPE, EXPIRES, SET_COOKIE, TRANSFER_ENCODING,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

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
    /// The request was authorized, and the response is not marked as for everybody.
    #[error(
        "an answer to an authorized request; `public`, `s-maxage` or `must-revalidate` allows storing it"
    )]
    Authorization,
    /// The response sets a cookie.
    #[error("sets a cookie; `store_set_cookie` allows storing it")]
    SetCookie,
    /// The request carried a cookie, and the response is not marked as for everybody.
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
            Self::Authorization => "authorization",
            Self::SetCookie => "set-cookie",
            Self::Cookie => "cookie",
            Self::VaryAny => "vary-any",
            Self::TransferCoding => "transfer-coding",
            Self::EventStream => "event-stream",
            Self::NoLifetime => "no-lifetime",
            Self::Useless => "useless",
        }
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
    /// Never by an answer to a request with cookies or credentials: many a site says `private` to
    /// those who are logged in, and its pages for everybody else stay what they were.
    pub fn condemns_stored(self, request: &RequestHead<'_>, rules: &Rules) -> bool {
        matches!(self, Self::NoStore | Self::Private | Self::VaryAny)
            && !request.headers.contains_key(AUTHORIZATION)
            && !request.is_personal(rules)
    }
}

/// Fields by which requests say who sends them. But for the first no RFC knows them; many an interface
/// does, and its answers are no less personal for that.
const CREDENTIALS: [HeaderName; 6] = [
    AUTHORIZATION,
    HeaderName::from_static("x-api-key"),
    HeaderName::from_static("api-key"),
    HeaderName::from_static("x-auth-token"),
    HeaderName::from_static("x-access-token"),
    HeaderName::from_static("x-amz-security-token"),
];

/// What the origin did to bring about what is to be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// It sent a response.
    Answered,
    /// It confirmed a stored response, by 304 or in answer to `HEAD`. What is stored then came from
    /// an earlier request, and cookies in this one have no part in it.
    Confirmed,
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    let kind = kind.split(|byte| *byte == b';').next().unwrap_or_default();
    kind.trim_ascii().eq_ignore_ascii_case(b"text/event-stream")
}

/// Whether a response may be stored, so far as its own usefulness is not asked.
pub(crate) fn judge(
    request: &RequestHead<'_>,
    status: StatusCode,
    headers: &HeaderMap,
    directives: &ResponseDirectives,
    rules: &Rules,
    origin: Origin,
) -> Result<(), NotStorable> {
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
    judge_privacy(request, headers, directives, rules, origin)?;
    let explicit = directives.s_maxage.or(directives.max_age).is_some()
        || directives.public
        || headers.contains_key(EXPIRES);
    if !explicit && !is_heuristically_cacheable(status) {
        return Err(NotStorable::NoLifetime);
    }
    Ok(())
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

/// Whose response it is.
fn judge_privacy(
    request: &RequestHead<'_>,
    headers: &HeaderMap,
    directives: &ResponseDirectives,
    rules: &Rules,
    origin: Origin,
) -> Result<(), NotStorable> {
    if directives.private {
        return Err(NotStorable::Private);
    }
    let for_all = directives.public || directives.s_maxage.is_some();
    let authorized = CREDENTIALS.iter().any(|name| request.headers.contains_key(name));
    if authorized && !for_all && !directives.must_revalidate {
        return Err(NotStorable::Authorization);
    }
    // `Set-Cookie2` is not looked for: browsers have not read it for many years (RFC 6265, 9.3).
    let sets_cookie = headers.contains_key(SET_COOKIE)
        && !directives.withheld.contains(&SET_COOKIE)
        && !rules.store_set_cookie;
    if sets_cookie {
        return Err(NotStorable::SetCookie);
    }
    if !for_all && origin == Origin::Answered && request.is_personal(rules) {
        return Err(NotStorable::Cookie);
    }
    Ok(())
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
