//! What a request asks for and got, as far as copies of it are concerned.

use crate::entries::Slot;

/// What a request asks for and got, as far as the cache is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resource {
    /// Names it: a hash of its address.
    pub key: u64,
    /// Its number, if the caller numbers them; caches are quicker then.
    pub slot: Slot,
    /// Bytes of the answer.
    pub bytes: u64,
    /// Asked for by GET or HEAD: may be answered from the cache.
    pub is_read: bool,
    /// The answer may be stored (status and method).
    pub storable: bool,
    /// What a mirror may do with it, if there is one.
    pub mirror: Mirrorable,
}

/// What the mirror may do with a request, and what its answer shows; decided where the log is read, with
/// the rules that `serve` has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mirrorable {
    /// The mirror may answer it if its URL was asked for before.
    pub if_requested_before: bool,
    /// The mirror may answer it the first time, if it has crawled the site: the answer shows that the page
    /// exists, and its URL needs no earlier request.
    pub if_crawled: bool,
    /// The mirror may answer it the first time, if it knows that there is nothing.
    pub if_gone: bool,
    /// What the answer shows.
    pub shows: Shows,
}

impl Mirrorable {
    /// The mirror has nothing to do with it.
    pub const NOTHING: Self = Self {
        if_requested_before: false,
        if_crawled: false,
        if_gone: false,
        shows: Shows::Nothing,
    };
}

/// What an answer shows of its URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shows {
    /// Nothing that the mirror would keep or forget.
    Nothing,
    /// A page, or a redirect.
    Page,
    /// A part of pages: image, style, script.
    Part,
    /// That there is nothing.
    Gone,
    /// That not everyone may see it: the mirror forgets it.
    Refused,
    /// That something on the site has changed.
    Change,
}
