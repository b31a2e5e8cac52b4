//! Who may come in, and who may wake the server.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::header::{CACHE_CONTROL, SET_COOKIE};
use http::request::Parts;
use http::{HeaderValue, Response, StatusCode};
use nightwatt_httpcache::CacheKey;
use nightwatt_httpcache::sharing::FieldNames;
use nightwatt_policy::admission::{self, Cached, ClientClass, Route, Want};
use nightwatt_policy::manager::AdmissionRequest;

use super::SiteRequest;
use crate::access_log::Answered;
use crate::accounting::{CLIENT_LEFT, How, close};
use crate::admittance::{self, Comer, Denial, Refused, Shown};
use crate::answers;
use crate::body::Answer;
use crate::facts::Facts;
use crate::https;
use crate::serving::Serving;
use crate::site::Site;

/// A client that came in.
#[derive(Default)]
pub(super) struct Entered {
    /// What its fields reveal, with those that a service has added.
    pub(super) names: FieldNames,
    /// Cookies that the service sets.
    cookies: Vec<HeaderValue>,
}

impl Entered {
    /// Gives the client its cookies, and what is only for this client to no cache.
    pub(super) fn send_cookies(self, response: &mut Response<Answer>) {
        if self.cookies.is_empty() {
            return;
        }
        let headers = response.headers_mut();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-store"));
        // For some caches these take precedence.
        headers.remove("cdn-cache-control");
        headers.remove("surrogate-control");
        for cookie in self.cookies {
            headers.append(SET_COOKIE, cookie);
        }
    }
}

/// Lets a client in, and notes by what; else the answer to it.
pub(super) async fn enter(
    serving: &Arc<Serving>,
    index: usize,
    facts: &Arc<Facts>,
    shown: Shown,
    parts: &mut Parts,
    names: FieldNames,
) -> Result<Entered, (Response<Answer>, How)> {
    let site = &serving.sites[index];
    let entered = Entered { names, cookies: Vec::new() };
    let Some(admittance) = &site.admittance else { return Ok(entered) };
    let comer = Comer::of(facts);
    let refused =
        |denial: Denial| (admittance.answer(denial), how(ClientClass::Api, denial.rule()));
    admittance.by_network(comer).map_err(refused)?;
    // A password must not cross the network before the client uses TLS.
    if is_redirected(serving, site, facts) {
        return Ok(entered);
    }
    admittance.by_certificate(facts.vouchers.as_deref()).map_err(refused)?;
    let pass = admittance.pass_of(comer, &shown);
    let guess = Guess::of(serving, index, facts);
    let checked = Arc::clone(&guess);
    let found = move |is_right| {
        let _ = checked.is_right.set(is_right);
    };
    let admitted = admittance.by_password(comer, shown, &serving.clock, found).await;
    let asked = match admitted {
        Ok(()) => admittance.by_service(comer, facts, &parts.headers, &serving.clock).await,
        Err(denial) => Err(Refused::By(denial)),
    };
    guess.is_answered.store(true, Ordering::Relaxed);
    let service = asked.map_err(|why| match why {
        Refused::By(denial) => refused(denial),
        Refused::Answer(response) => (*response, how(ClientClass::Api, Denial::Forward.rule())),
        Refused::NotAsked(why) => {
            serving.warn_of(site, &facts.id, "the service of `access.forward` failed", &why);
            refused(Denial::NotAsked)
        }
    })?;
    parts.extensions.insert(pass);
    let names = service.fields.keys().try_fold(names, |names, name| names.with(name, true));
    parts.headers.extend(service.fields);
    Ok(Entered { names: names.unwrap_or_default(), cookies: service.cookies })
}

/// A client that shows a password. Its request keeps this, and so does the check of the password: one that leaves
/// before the result is logged with the result all the same.
struct Guess {
    serving: Arc<Serving>,
    index: usize,
    facts: Arc<Facts>,
    is_right: OnceLock<bool>,
    is_answered: AtomicBool,
}

impl Guess {
    fn of(serving: &Arc<Serving>, index: usize, facts: &Arc<Facts>) -> Arc<Self> {
        let (serving, facts) = (Arc::clone(serving), Arc::clone(facts));
        let (is_right, is_answered) = (OnceLock::new(), AtomicBool::new(false));
        Arc::new(Self { serving, index, facts, is_right, is_answered })
    }
}

impl Drop for Guess {
    fn drop(&mut self) {
        if *self.is_answered.get_mut() {
            return;
        }
        let how = match self.is_right.get() {
            None => how(ClientClass::Api, admittance::LEFT),
            Some(false) => how(ClientClass::Api, Denial::WrongPassword.rule()),
            Some(true) => How::by_itself(ClientClass::Api, Answered::Gone),
        };
        let mut nothing = Response::new(Answer::empty());
        *nothing.status_mut() = CLIENT_LEFT;
        close(&self.serving, Some(self.index), &self.facts, nothing, how);
    }
}

fn is_redirected(serving: &Serving, site: &Site, facts: &Facts) -> bool {
    facts.path() != answers::STATE_PATH
        && https::redirect(&serving.config, &site.config, facts).is_some()
}

const fn how(class: ClientClass, rule: &'static str) -> How {
    How { rule: Some(rule), ..How::by_itself(class, Answered::Denied) }
}

impl SiteRequest<'_> {
    /// Whether its client may wake the server.
    pub(super) fn may_wake(&self) -> bool {
        let admittance = self.site().admittance.as_ref();
        admittance.is_none_or(|it| it.config().may_wake(self.facts.certain_client()))
    }

    /// Admits a request; nothing if the server would have to be woken, and its client may not do that.
    pub(super) fn admit(&self, request: &AdmissionRequest) -> Option<Route> {
        let admission::Request { want, cached, .. } = request.request;
        if self.serving.observe {
            return Some(self.pass_on(cached));
        }
        let supervisor = &self.site().supervisor;
        let wakes_none = cached != Cached::Nothing || matches!(want, Want::Icon | Want::Health);
        if wakes_none || self.may_wake() {
            return Some(supervisor.admit(request, || self.wake_cause()));
        }
        supervisor.admit_awake(request).then_some(Route::Forward)
    }

    /// The answer to a client that may come in, but not wake the server.
    pub(super) fn asleep_for_it(&self) -> (Response<Answer>, How) {
        let (status, after) = (StatusCode::SERVICE_UNAVAILABLE, admittance::ASK_AGAIN);
        let response = answers::later(status, after, admittance::NO_WAKE);
        (response, how(self.class, admittance::NEVER_WAKE))
    }

    /// Waits for the server, which turned out to be gone. False where it cannot, or where this request wakes no server:
    /// of a crawler's, only that for `/robots.txt` does.
    pub(super) fn waits_again(&self) -> bool {
        let is_for_robots = self.class == ClientClass::Crawler && self.want() == Want::Robots;
        let wakes = self.may_wake() && (self.class.is_admitted() || is_for_robots);
        let Facts { number, visitor, .. } = *self.facts;
        let supervisor = &self.site().supervisor;
        wakes && supervisor.rejoin(number, Some(visitor), || self.wake_cause())
    }

    /// The answer to a request that wakes no server, and found it gone.
    pub(super) fn gone_for_guest(&self) -> (Response<Answer>, Answered) {
        match self.class {
            ClientClass::Crawler => {
                let after = self.site().supervisor.appointment();
                self.appointment(self.cache_key().as_ref(), after)
            }
            ClientClass::Scanner => (self.scanner_answer(), Answered::Scanner),
            _ => (self.asleep_for_it().0, Answered::Denied),
        }
    }

    /// A crawler is to come back then.
    pub(super) fn appointment(
        &self,
        key: Option<&CacheKey>,
        after: Duration,
    ) -> (Response<Answer>, Answered) {
        self.wish(key);
        let status = StatusCode::SERVICE_UNAVAILABLE;
        (answers::later(status, after, answers::COME_BACK), Answered::Crawler)
    }
}
