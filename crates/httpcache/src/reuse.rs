//! May this stored response answer this request now? (RFC 9111, 4)

use crate::directives::RequestDirectives;
use crate::operator_rules::Rules;
use crate::request::RequestHead;
use crate::sharing::{Basis, Sender};
use crate::stored::Stored;
use crate::storing::is_absence;
use crate::time::Timestamp;
use http::header::CONTENT_LANGUAGE;
use http::{HeaderValue, Method};
use std::fmt;
use std::time::Duration;

/// How a stored response may be used for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usability {
    /// As it is.
    Fresh {
        /// How old it is.
        age: Duration,
    },
    /// After validation, or on the occasions in [`Stale::allowed`].
    Stale(Stale),
    /// It is fresh, but is to be validated first.
    Validate {
        /// What asks for the validation.
        wish: Wish,
        /// How old it is.
        age: Duration,
        /// When it may be used without. If a client wants validation, these are the occasions on
        /// which the origin would allow its use: whether a reload wakes a server is the caller's
        /// decision.
        allowed: Occasions,
    },
    /// Not for this request.
    Unusable(Mismatch),
}

impl Usability {
    /// Whether the response may be sent on an occasion without asking the origin first.
    pub fn allows(&self, occasion: Occasion) -> bool {
        match self {
            Self::Fresh { .. } => true,
            Self::Stale(stale) => stale.allowed.contains(occasion),
            Self::Validate { allowed, .. } => allowed.contains(occasion),
            Self::Unusable(_) => false,
        }
    }

    /// The same for a response that is not to be used before the origin has confirmed it, on no occasion.
    #[must_use]
    pub fn only_confirmed(self) -> Self {
        let allowed = Occasions::default();
        match self {
            Self::Fresh { age } => Self::Validate { wish: Wish::Client, age, allowed },
            Self::Validate { wish, age, .. } => Self::Validate { wish, age, allowed },
            Self::Stale(stale) => Self::Stale(Stale { allowed, ..stale }),
            Self::Unusable(_) => self,
        }
    }
}

/// A stale response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stale {
    /// How old it is.
    pub age: Duration,
    /// How long it has been stale.
    pub by: Duration,
    /// When it may be used all the same.
    pub allowed: Occasions,
    /// Whether `must-revalidate` or one of its kin forbids its use; if the origin does not answer,
    /// the client gets 504.
    pub must_revalidate: bool,
}

/// What asks to validate a fresh response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wish {
    /// The response says `no-cache`.
    Origin,
    /// The request says `no-cache`, or asks for a younger or longer-lived response.
    Client,
}

/// Why a stored response is not for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mismatch {
    /// Neither `GET` nor `HEAD`.
    Method,
    /// The fields that `Vary` names differ.
    Vary,
    /// The response may not be given to this sender ([`crate::sharing`]).
    Sender,
}

/// An occasion to use a response that would otherwise be validated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Occasion {
    /// At once, since the client takes it as it is (`max-stale`).
    ClientAccepts = 1,
    /// At once, while it is validated in the background (`stale-while-revalidate`).
    Revalidating = 2,
    /// The origin cannot be reached, or answers 500, 502, 503 or 504 (`stale-if-error`).
    OriginFails = 4,
    /// The origin sleeps (`grace_while_asleep`).
    OriginAsleep = 8,
}

/// A set of occasions.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Occasions(u8);

impl Occasions {
    const ALL: [Occasion; 4] = [
        Occasion::ClientAccepts,
        Occasion::Revalidating,
        Occasion::OriginFails,
        Occasion::OriginAsleep,
    ];

    /// Whether an occasion is in the set.
    pub const fn contains(self, occasion: Occasion) -> bool {
        self.0 & occasion as u8 != 0
    }

    /// Whether it is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    fn with(self, occasion: Occasion, allowed: bool) -> Self {
        Self(self.0 | if allowed { occasion as u8 } else { 0 })
    }
}

impl fmt::Debug for Occasions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(Self::ALL.iter().filter(|&&one| self.contains(one))).finish()
    }
}

impl Stored {
    /// How this response may be used for a request. It must have been found under the request's
    /// cache key; of several that may be used, the one with the latest [`Stored::date`] counts.
    ///
    /// Allocates nothing if the selecting fields match to the letter. `asked` is the request's
    /// [`RequestDirectives::parse`], done once for all candidates.
    pub fn usability(
        &self,
        request: &RequestHead<'_>,
        asked: &RequestDirectives,
        now: Timestamp,
        rules: &Rules,
    ) -> Usability {
        self.usability_for(Sender::of(request, rules), request, asked, now, rules)
    }

    /// The same, where it is known what the request says of its sender ([`Sender::of`]).
    pub fn usability_for(
        &self,
        sender: Sender,
        request: &RequestHead<'_>,
        asked: &RequestDirectives,
        now: Timestamp,
        rules: &Rules,
    ) -> Usability {
        if *request.method != Method::GET && *request.method != Method::HEAD {
            return Usability::Unusable(Mismatch::Method);
        }
        if !self.is_for(sender, request, rules) {
            return Usability::Unusable(Mismatch::Sender);
        }
        let language = self.headers().get(CONTENT_LANGUAGE).map(HeaderValue::as_bytes);
        if !self.selecting().matches(request.headers, language, &rules.cookies) {
            return Usability::Unusable(Mismatch::Vary);
        }
        let age = self.age(now);
        if !self.is_fresh(now) {
            let by = self.freshness().staleness(now);
            let allowed = self.occasions(by, sender, asked, rules);
            let must_revalidate = self.must_revalidate();
            return Usability::Stale(Stale { age, by, allowed, must_revalidate });
        }
        if self.constraints.validate_always {
            let allowed = self.occasions(Duration::ZERO, sender, asked, rules);
            return Usability::Validate { wish: Wish::Origin, age, allowed };
        }
        if rules.heed_requests && self.is_too_old_for(asked, age) {
            // The response itself is fresh: whatever keeps it from being used is the client's wish.
            let allowed = Occasions::default()
                .with(Occasion::OriginFails, true)
                .with(Occasion::OriginAsleep, true);
            return Usability::Validate { wish: Wish::Client, age, allowed };
        }
        Usability::Fresh { age }
    }

    /// Whether it may be used once it is stale, within grace, while the origin sleeps: then it pays to
    /// renew it while the origin is awake.
    pub fn serves_asleep(&self, rules: &Rules) -> bool {
        let plain = RequestDirectives::default();
        let allowed = self.occasions(Duration::ZERO, Sender::ANONYMOUS, &plain, rules);
        allowed.contains(Occasion::OriginAsleep)
    }

    /// Whether the client wants a fresh response validated.
    fn is_too_old_for(&self, asked: &RequestDirectives, age: Duration) -> bool {
        let left = self.freshness().lifetime.saturating_sub(age);
        // A reload sends `max-age=0` and means it, even in the second the response came in.
        asked.no_cache
            || asked.max_age.is_some_and(|oldest| oldest.is_zero() || age > oldest)
            || asked.min_fresh.is_some_and(|least| left < least)
    }

    /// When a response that has been stale for `by`, or always wants validation, may be used.
    ///
    /// Past what the origin itself allows it is assumed that nothing has changed. That is for anonymous
    /// senders, unless the response is the same for everyone (`public`).
    fn occasions(
        &self,
        by: Duration,
        sender: Sender,
        asked: &RequestDirectives,
        rules: &Rules,
    ) -> Occasions {
        // An origin's failure does not outlive its lifetime: the next answer may be better.
        if self.status().is_server_error() {
            return Occasions::default();
        }
        let may_assume = sender.is_anonymous() || self.constraints.public;
        let grace = rules.grace_while_asleep;
        let asleep = may_assume && (self.constraints.pinned || by <= grace && !grace.is_zero());
        if self.is_bare_error() {
            // That nothing is there was found out by asking for just that.
            let is_absence = self.basis() == Basis::OwnRequest && is_absence(self.status());
            let asleep = asleep && is_absence && !self.must_revalidate();
            return Occasions::default().with(Occasion::OriginAsleep, asleep);
        }
        if self.must_revalidate() {
            let asleep = asleep && !rules.respect_must_revalidate;
            return Occasions::default().with(Occasion::OriginAsleep, asleep);
        }
        let heeded = if rules.heed_requests { *asked } else { RequestDirectives::default() };
        let at_once = !heeded.no_cache && heeded.min_fresh.is_none();
        let young = heeded.max_age.is_none();
        let within = |window: Option<Duration>| window.is_some_and(|window| by < window);
        let assumed = may_assume.then_some(rules.stale_if_error);
        let if_error = self.constraints.stale_if_error.or(assumed);
        Occasions::default()
            .with(
                Occasion::ClientAccepts,
                at_once && heeded.max_stale.is_some_and(|most| by <= most),
            )
            .with(
                Occasion::Revalidating,
                at_once && young && within(self.constraints.stale_while_revalidate),
            )
            .with(Occasion::OriginFails, within(if_error))
            .with(Occasion::OriginAsleep, asleep)
    }
}
