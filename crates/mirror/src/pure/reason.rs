//! Why something is not mirrored.

use nightwatt_httpcache::NotStorable;
use serde::{Deserialize, Serialize};

/// Makes [`Reason`] with its words, so that none can be forgotten.
macro_rules! reasons {
    ($($(#[$meta:meta])* $name:ident, $token:literal, $kind:ident, $text:literal;)+) => {
        /// Why an address is not mirrored.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum Reason {
            $(#[doc = $text] $(#[$meta])* $name,)+
        }

        impl Reason {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// One word, for metrics and logs.
            pub const fn token(self) -> &'static str {
                match self { $(Self::$name => $token,)+ }
            }

            /// A sentence for people, without a period.
            pub const fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)+ }
            }

            /// What it means for later.
            pub const fn kind(self) -> ReasonKind {
                match self { $(Self::$name => ReasonKind::$kind,)+ }
            }
        }
    };
}

/// What a [`Reason`] means for the next pass, and for `complete`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReasonKind {
    /// It follows from the address: it will never be fetched.
    ByAddress,
    /// It follows from the answer: the next pass looks at it again.
    ByAnswer,
    /// A bound was reached: what lies behind it is not known.
    ByBound,
    /// The server failed, or did not answer: nothing is known.
    ByFailure,
}

reasons! {
    OneTime, "one-time", ByAddress,
        "the address looks like a link for one person or for one use (token, key, code, confirm)";
    Action, "action", ByAddress,
        "the address looks like it changes something (log-out, delete, edit, cart, action)";
    Search, "search", ByAddress, "the address is a search, of which there is no end";
    Calendar, "calendar", ByAddress,
        "the address is a page of a calendar, of which there is no end";
    Personal, "personal", ByAddress,
        "the address belongs to the administration or to an account";
    Operator, "operator", ByAddress, "the operator excluded the address";
    Robots, "robots", ByAddress, "the group for nightwatt in robots.txt forbids the address";
    NotLinked, "not-linked", ByAddress,
        "a client requested the address, but no page links to it (queries and further pages are \
         mirrored only if a page links to them)";
    NotFollowed, "not-followed", ByAddress,
        "the page that links to the address asks not to follow (nofollow), or the link is a form";
    TooDeep, "too-deep", ByBound, "the address is too many links away from the start";
    Trap, "trap", ByBound,
        "there are too many addresses of the same form (an endless calendar, or filters that \
         combine)";
    PagesBound, "pages-bound", ByBound, "the mirror has as many pages as `pages` allows";
    StoreFull, "store-full", ByBound, "the mirror has as many bytes as `size_mb` allows";
    TooLarge, "too-large", ByBound, "the answer is larger than `page_size_mb` allows";
    NoStore, "no-store", ByAnswer, "the server says no-store";
    Private, "private", ByAnswer,
        "the server says private; `override` allows mirroring paths that are not";
    Status, "status", ByAnswer, "the server answers with a status that is not mirrored";
    Refused, "refused", ByAnswer,
        "the server closes the page: it answers 401 or 403, or redirects to a log-in";
    Differs, "differs", ByAnswer, "two fetches returned different bodies";
    Nonce, "nonce", ByAnswer,
        "the page has a nonce of a Content-Security-Policy, which must be new each time";
    FormToken, "form-token", ByAnswer,
        "the page has a form with a token against forged requests, which must be new each time";
    Varies, "varies", ByAnswer,
        "the answer depends on request fields in a way that a copy cannot (Vary)";
    Variants, "variants", ByBound, "the address has more variants than `variants` allows";
    Revalidate, "must-revalidate", ByAnswer,
        "the server demands to be asked each time; `override` allows mirroring the path";
    Stream, "stream", ByAnswer, "the answer is a stream without an end";
    Coding, "coding", ByAnswer, "the answer has a content coding that is unknown or broken";
    Torn, "torn", ByFailure, "the answer ended before its end";
    NotStorable, "not-storable", ByAnswer, "the rules of HTTP caching forbid storing the answer";
    ServerError, "server-error", ByFailure, "the server reports an error of its own";
    TimedOut, "timed-out", ByFailure,
        "the server did not send the whole answer in time; the next whole pass requests it again";
    Unreachable, "unreachable", ByFailure, "the server did not answer";
}

impl Reason {
    /// The same for what the rules of the cache say.
    pub const fn of_rules(why: NotStorable) -> Self {
        match why {
            NotStorable::NoStore => Self::NoStore,
            NotStorable::Private => Self::Private,
            NotStorable::VaryAny => Self::Varies,
            NotStorable::EventStream => Self::Stream,
            NotStorable::ClientError | NotStorable::NoLifetime => Self::Status,
            _ => Self::NotStorable,
        }
    }

    /// Whether the answer that was mirrored before must go at once.
    ///
    /// A server that fails says nothing about its pages, and a bound of ours does not make them wrong.
    pub const fn deletes(self) -> bool {
        !matches!(self.kind(), ReasonKind::ByFailure) && !matches!(self, Self::StoreFull)
    }

    /// Whether it follows from the address and the rules alone: other rules or another day may lift it.
    pub const fn is_by_rules(self) -> bool {
        matches!(
            self,
            Self::OneTime
                | Self::Action
                | Self::Search
                | Self::Calendar
                | Self::Personal
                | Self::Operator
        )
    }

    /// Whether it keeps an address from being fetched at all. It is looked at again each time that the address comes up.
    pub const fn is_before_fetch(self) -> bool {
        matches!(self.kind(), ReasonKind::ByAddress)
            || matches!(self, Self::TooDeep | Self::PagesBound | Self::Trap)
    }

    /// Whether the links of the page are not known: what lies below its address may exist.
    pub const fn hides_links(self) -> bool {
        !matches!(
            self,
            Self::StoreFull
                | Self::NoStore
                | Self::Private
                | Self::Differs
                | Self::Nonce
                | Self::FormToken
                | Self::Varies
                | Self::Variants
                | Self::Revalidate
                | Self::Stream
                | Self::NotStorable
        )
    }

    /// Whether the server says that there is nothing for everyone: then no cache keeps what it had either.
    pub const fn closes(self) -> bool {
        matches!(self, Self::Refused | Self::Status | Self::NoStore | Self::Private)
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_reason_has_its_own_words_and_is_stored_by_its_name() {
        let tokens: BTreeSet<_> = Reason::ALL.iter().map(|it| it.token()).collect();
        let texts: BTreeSet<_> = Reason::ALL.iter().map(|it| it.text()).collect();
        assert_eq!((tokens.len(), texts.len()), (Reason::ALL.len(), Reason::ALL.len()));
        for reason in Reason::ALL {
            let json = serde_json::to_string(reason).unwrap();
            assert_eq!(serde_json::from_str::<Reason>(&json).unwrap(), *reason);
            assert!(!reason.text().ends_with('.'), "{reason}");
        }
        assert_eq!(serde_json::to_string(&Reason::OneTime).unwrap(), "\"one-time\"");
    }

    #[test]
    fn what_the_server_forbids_deletes_and_its_failures_do_not() {
        assert!(Reason::NoStore.deletes() && Reason::Refused.deletes());
        assert!(!Reason::ServerError.deletes() && !Reason::Torn.deletes());
        assert!(!Reason::Unreachable.deletes() && !Reason::StoreFull.deletes());
        assert!(!Reason::TimedOut.deletes() && Reason::TimedOut.hides_links());
        assert!(Reason::Refused.closes() && Reason::Private.closes());
        assert!(!Reason::Nonce.closes() && !Reason::Unreachable.closes());
    }

    #[test]
    fn what_was_not_read_may_lead_anywhere() {
        for reason in [Reason::Operator, Reason::Robots, Reason::Refused, Reason::NotFollowed] {
            assert!(reason.hides_links(), "{reason}");
        }
        assert!(!Reason::FormToken.hides_links() && !Reason::Private.hides_links());
        assert!(Reason::Calendar.is_by_rules() && !Reason::Robots.is_by_rules());
    }
}
