//! Open-loop clients and the log-backed origin.
//!
//! [`replay()`] sends the requests of a log at the log's times, never waiting for earlier answers,
//! and behaves as the clients behind the log would: browsers sit out a waiting page, crawlers that
//! honour `Retry-After` come back. Each request leaves one [`Outcome`]; [`ReplaySummary`] counts
//! them in the form of the published table, [`Cdf`] shows the delays, [`CsvWriter`] keeps them all.
//!
//! A log has no bodies and no headers: [`serve_origin`] is the server that answers each replayed
//! request with the logged status and size.
//!
//! [`generate`](mod@generate) makes load of its own: requests at the times of a process of arrivals,
//! from a thread or several that keep to those times whatever the server does.

mod agreed;
pub mod answer;
pub mod cdf;
pub mod csv;
mod error;
mod exchange;
pub mod generate;
pub mod origin;
pub mod outcome;
mod pool;
mod refusals;
pub mod replay;
mod request;
pub mod site;
pub mod summary;
mod target;
mod visit;
mod waiting_pages;

pub use agreed::etag_of;
pub use answer::Answer;
pub use cdf::Cdf;
pub use csv::CsvWriter;

pub use error::Error;
pub use origin::{BadGateway, CacheRule, CacheRules, OriginOptions, read_statuses, serve_origin};
pub use outcome::{ErrorKind, Outcome, RequestKind};
pub use replay::{
    ClassOf, Lag, Options, Progress, Returning, Run, Unsendable, Waiting, replay, speed_for,
};
pub use site::SiteFiles;
pub use summary::{ReplaySummary, ServiceTime};
pub use target::Target;
