//! The rules, told as exchanges between a client, the cache and an origin.
//!
//! The cases follow the RFCs and the ideas of the public suite `http-tests/cache-tests`.

mod answering;
mod changing;
mod freshness;
mod harness;
mod properties;
mod reuse;
mod storing;
mod validation;
