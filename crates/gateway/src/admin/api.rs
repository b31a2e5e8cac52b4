//! `/api/v1`: the data that the dashboard shows, and the orders that it may give.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    ALLOW, AUTHORIZATION, CONTENT_TYPE, HOST, ORIGIN, RETRY_AFTER, WWW_AUTHENTICATE,
};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use nightwatt_energy::duration_text;
use nightwatt_host::secret::Secret;
use serde::Deserialize;
use serde_json::json;

use super::guard::{Guard, Refusal, SESSION, is_same};
use super::{JSON, respond};
use crate::control::{LONGEST_AWAKE, Order, Reply, obey};
use crate::gateway::Gateway;
use crate::mirror::orders::MirrorOrder;

type Answer = Response<Full<Bytes>>;

/// Bytes of a body: a longer one is not a sign-in.
const LONGEST_BODY: usize = 4096;

/// Time for the body to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// The client of a request.
#[derive(Clone, Copy)]
pub(super) struct Asker<'a> {
    pub(super) gateway: &'a Arc<Gateway>,
    pub(super) guard: &'a Guard,
    pub(super) client: IpAddr,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SignIn {
    password: String,
}

/// Answers a request below `/api/v1/`; `path` is the rest of its path.
pub(super) async fn answer(asker: Asker<'_>, request: Request<Incoming>, path: &str) -> Answer {
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    let writes = *request.method() == Method::POST;
    let query = request.uri().query().unwrap_or_default().to_owned();
    match path {
        "status" if reads => json_of(&asker.gateway.status()),
        "history" if reads => {
            let Some(days) = days(&query) else {
                let text = "`days` must be a whole number from 1 on: `days=31`.";
                return problem(StatusCode::BAD_REQUEST, text);
            };
            let now = asker.gateway.serving.clock.now().mono;
            let shown = bearer(request.headers());
            let known = shown.is_some_and(|token| asker.guard.knows(token, now));
            json_of(&asker.gateway.history(asker.guard.takes_orders(), known, days))
        }
        "status" | "history" => not_allowed("GET, HEAD"),
        _ if !is_post(path) => problem(StatusCode::NOT_FOUND, "There is nothing of this name."),
        _ if !writes => not_allowed("POST"),
        _ if is_foreign(request.headers()) => {
            problem(StatusCode::FORBIDDEN, "Orders are taken from the dashboard's own page only.")
        }
        "sign-in" => sign_in(asker, request).await,
        "sign-out" => {
            bearer(request.headers()).inspect(|token| asker.guard.sign_out(token));
            json_of(&json!({ "done": true }))
        }
        _ => {
            let now = asker.gateway.serving.clock.now().mono;
            let shown = bearer(request.headers());
            let admitted = if shown.is_some_and(|it| is_token_for(asker.gateway, path, it)) {
                Ok(())
            } else {
                asker.guard.admit(asker.client, shown, now)
            };
            match admitted {
                Ok(()) => {
                    let (gateway, client) = (Arc::clone(asker.gateway), asker.client);
                    let path = path.to_owned();
                    let obeyed = async move { order(&gateway, client, &path, &query).await };
                    // Hooks of web servers do not wait for the answer: an order is carried out whole also then.
                    tokio::spawn(obeyed).await.unwrap_or_else(|error| {
                        problem(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string())
                    })
                }
                Err(Refusal::Wait(time)) => refused(Refusal::Wait(time)),
                Err(_) if token_file(asker.gateway, path).is_some() => no_token(shown.is_some()),
                Err(refusal) => refused(refusal),
            }
        }
    }
}

/// `sign-in`, `sign-out`, `sites/NAME/ORDER`.
fn is_post(path: &str) -> bool {
    matches!(path, "sign-in" | "sign-out") || named(path).is_some()
}

/// Name and order.
fn named(path: &str) -> Option<(&str, &str)> {
    let (name, order) = path.strip_prefix("sites/")?.split_once('/')?;
    matches!(order, "wake" | "sleep" | "keep-awake" | "changed").then_some((name, order))
}

/// The name of a site, and the file with the token that permits one order: `changed`.
fn token_file<'a>(gateway: &'a Gateway, path: &'a str) -> Option<(&'a str, &'a PathBuf)> {
    let Some((name, "changed")) = named(path) else { return None };
    let site = gateway.serving.sites.iter().find(|site| *site.name == *name)?;
    Some((name, site.config.mirror.token_file.as_ref()?))
}

/// Whether this is the token for an order.
fn is_token_for(gateway: &Gateway, path: &str, shown: &str) -> bool {
    token_file(gateway, path).is_some_and(|(name, file)| match Secret::from_file(file) {
        Ok(token) => is_same(token.reveal(), shown),
        Err(error) => {
            gateway.serving.warn("token_file", name, move |count| {
                tracing::warn!(%error, count, "the token of a mirror cannot be read");
            });
            false
        }
    })
}

/// Whether a page of another site sends the request. Browsers report that; other programs do not.
fn is_foreign(headers: &HeaderMap) -> bool {
    let text =
        |value: Option<&HeaderValue>| value.and_then(|it| it.to_str().ok()).map(str::to_owned);
    let site = text(headers.get("sec-fetch-site"));
    if site.is_some_and(|site| !matches!(site.as_str(), "same-origin" | "none")) {
        return true;
    }
    let Some(origin) = headers.get(ORIGIN) else { return false };
    let host = text(headers.get(HOST)).unwrap_or_default();
    let named = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
    named.is_none_or(|(_, from)| !from.eq_ignore_ascii_case(&host))
}

/// `Authorization: Bearer …`
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

async fn sign_in(asker: Asker<'_>, request: Request<Incoming>) -> Answer {
    let clock = &asker.gateway.serving.clock;
    let body = Limited::new(request.into_body(), LONGEST_BODY).collect();
    // As for heads: under a virtual clock no client is slow.
    let body =
        if clock.is_virtual() { Ok(body.await) } else { clock.timeout(BODY_TIMEOUT, body).await };
    let Ok(Ok(body)) = body else {
        return problem(StatusCode::BAD_REQUEST, "The body is too long, too slow or broken off.");
    };
    let Ok(SignIn { password }) = serde_json::from_slice(&body.to_bytes()) else {
        return problem(StatusCode::BAD_REQUEST, "This is no sign-in: send {\"password\": \"…\"}.");
    };
    match asker.guard.sign_in(asker.client, &password, clock.now().mono) {
        Ok(token) => {
            tracing::info!(client = %asker.client, "signed in to the dashboard");
            json_of(&json!({ "token": token, "expires_s": SESSION.as_secs() }))
        }
        Err(refusal) => {
            let client = asker.client;
            asker.gateway.serving.warn("sign-in", "", move |count| {
                tracing::warn!(%client, ?refusal, count, "sign-ins to the dashboard refused");
            });
            refused(refusal)
        }
    }
}

async fn order(gateway: &Gateway, client: IpAddr, path: &str, query: &str) -> Answer {
    let Some((name, what)) = named(path) else { return not_allowed("POST") };
    if what == "changed" {
        return changed(gateway, client, name, query).await;
    }
    let site = Some(name.to_owned());
    let order = match what {
        "wake" => Order::Wake { site },
        "sleep" => Order::Sleep { site },
        _ => {
            let text = parameter(query, "for").unwrap_or("1h");
            match duration_text::parse(text) {
                Ok(time) if !time.is_zero() && time <= LONGEST_AWAKE => {
                    Order::StayAwake { site, seconds: time.as_secs().max(1) }
                }
                Ok(_) => {
                    let text = "`for` must be more than nothing and no more than a week: `for=2h`.";
                    return problem(StatusCode::BAD_REQUEST, text);
                }
                Err(why) => return problem(StatusCode::BAD_REQUEST, &why),
            }
        }
    };
    if !gateway.has(name) {
        return problem(StatusCode::NOT_FOUND, "There is no site, server or machine of this name.");
    }
    if let Reply::Error(why) = obey(gateway, &order).await {
        return problem(StatusCode::CONFLICT, &why);
    }
    tracing::info!(%client, site = name, order = what, "order from the dashboard");
    json_of(&json!({ "done": true }))
}

/// The content of a site has changed, below these paths or everywhere: its pages are fetched again at once.
async fn changed(gateway: &Gateway, client: IpAddr, name: &str, query: &str) -> Answer {
    let site = Some(name.to_owned());
    let places = match changed_paths(query) {
        Ok(places) => places,
        Err(why) => return problem(StatusCode::BAD_REQUEST, &why),
    };
    let all = places.is_empty();
    let purge = Order::Purge { site: site.clone(), places, prefix: !all, all };
    let fetch = Order::Mirror { site, ask: MirrorOrder::Fetch };
    let mut purged = 0;
    for order in [purge, fetch] {
        match obey(gateway, &order).await {
            Reply::Error(why) => return problem(StatusCode::CONFLICT, &why),
            Reply::Purged(count) => purged = count,
            _ => {}
        }
    }
    tracing::info!(%client, site = name, purged, "changed content reported");
    json_of(&json!({ "done": true, "purged": purged }))
}

impl Gateway {
    /// Whether a site, a server of a pool or a machine has this name.
    fn has(&self, name: &str) -> bool {
        let in_pool = |pool: &crate::pool::ServerPool| pool.called(name).is_some();
        self.machines.iter().any(|it| *it.name == *name)
            || self
                .serving
                .sites
                .iter()
                .any(|it| *it.name == *name || it.pool.as_deref().is_some_and(in_pool))
    }
}

fn refused(refusal: Refusal) -> Answer {
    match refusal {
        Refusal::NoOrders => problem(
            StatusCode::FORBIDDEN,
            "No orders are taken here: the configuration has no `admin.password_file`. On the machine \
             itself `nightwatt wake|sleep|stay-awake` give them.",
        ),
        Refusal::Unknown => unauthorized("Sign in first."),
        Refusal::Wrong => unauthorized("The password is wrong."),
        Refusal::Wait(time) => {
            let seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
            let text = format!("Too many wrong passwords: try again in {seconds} s.");
            let mut response = problem(StatusCode::TOO_MANY_REQUESTS, &text);
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
            response
        }
    }
}

/// To a report of changes without the right token.
fn no_token(is_shown: bool) -> Answer {
    let text = if is_shown {
        "This is not the token of `token_file`: its first line is the token."
    } else {
        "The token of `token_file` is missing: send `Authorization: Bearer TOKEN`."
    };
    unauthorized(text)
}

fn unauthorized(text: &str) -> Answer {
    let mut response = problem(StatusCode::UNAUTHORIZED, text);
    response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}

/// The requested days of history; there may be fewer.
fn days(query: &str) -> Option<usize> {
    parameter(query, "days").map_or(Some(31), |text| text.parse().ok().filter(|days| *days > 0))
}

fn parameter<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
}

/// The paths that have changed, as a mirror has them.
fn changed_paths(query: &str) -> Result<Vec<String>, String> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let path = |pair: &str| match pair.split_once('=') {
        Some(("path", text)) => decoded_path(text).ok_or_else(|| {
            format!("`path={text}` is no path: write it like `path=/news/`, with `%26` for `&`.")
        }),
        _ => Err(format!("`{pair}` is unknown: only `path=/news/` may be given, once or more.")),
    };
    pairs.map(path).collect()
}

/// Undoes the escapes of the query. What a request line cannot contain is escaped again.
fn decoded_path(text: &str) -> Option<String> {
    let mut path = String::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        let mut byte = first;
        rest = behind;
        if first == b'%' {
            let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
            byte = u8::from_str_radix(digits, 16).ok()?;
            rest = &rest[2..];
        }
        // A path that is escaped itself, as in `/caf%C3%A9`, comes out as it went in.
        if byte.is_ascii_graphic() && byte != b'#' {
            path.push(char::from(byte));
        } else {
            let _ = write!(path, "%{byte:02X}");
        }
    }
    path.starts_with('/').then_some(path)
}

fn json_of(value: &impl serde::Serialize) -> Answer {
    respond(StatusCode::OK, JSON, serde_json::to_vec(value).unwrap_or_default())
}

fn not_allowed(methods: &'static str) -> Answer {
    let mut response = problem(StatusCode::METHOD_NOT_ALLOWED, &format!("Only {methods}."));
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
    response
}

/// RFC 9457.
pub(super) fn problem(status: StatusCode, detail: &str) -> Answer {
    let title = status.canonical_reason().unwrap_or_default();
    let body = json!({ "title": title, "status": status.as_u16(), "detail": detail });
    let mut response = respond(status, JSON, serde_json::to_vec(&body).unwrap_or_default());
    let kind = HeaderValue::from_static("application/problem+json");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_have_changed_are_read_as_they_were_meant() {
        let paths = |query| changed_paths(query).map(|it| it.join(" "));
        for (query, expected) in [
            ("", ""),
            ("path=/news/&path=/feed.xml", "/news/ /feed.xml"),
            ("path=%2Fnews%2F", "/news/"),
            ("path=/caf%C3%A9", "/caf%C3%A9"),
            ("path=/a%20b", "/a%20b"),
            ("path=/list%3Fx=1%26y=2", "/list?x=1&y=2"),
            ("path=/a%2520b", "/a%20b"),
        ] {
            assert_eq!(paths(query).as_deref(), Ok(expected), "{query}");
        }
        for (wrong, named) in [
            ("paths=/news/", "paths=/news/"),
            ("path=/news/&site=blog", "site=blog"),
            ("all", "all"),
            ("path=", "path="),
            ("path=news", "path=news"),
            ("path=/a%2", "path=/a%2"),
            ("path=/a%zz", "path=/a%zz"),
        ] {
            let why = paths(wrong).unwrap_err();
            assert!(why.contains(&format!("`{named}`")), "{wrong}: {why}");
        }
    }
}
