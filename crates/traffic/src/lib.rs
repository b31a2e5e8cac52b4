//! Logs in, requests out: readers, client classes, generated traffic.
//!
//! A log line becomes a [`Record`] without copying ([`clf`]); [`LogReader`] streams files of any
//! size in constant memory and counts what it could not read; [`Classifier`] says what kind of
//! client asked, for the live proxy and for the analysis of a log alike; [`SyntheticSite`] makes
//! traffic where there is no log.
//!
//! Nothing here reads a clock: the time is an argument, or comes from the log.

pub mod arrival;
mod civil;
pub mod classes;
pub mod clf;
pub mod crawlers;
pub mod error;
mod hash;
mod misses;
pub mod reader;
pub mod record;
mod scanner_paths;
pub mod synthetic;
pub mod traits;

pub use arrival::Arrival;
pub use classes::{Classifier, ClassifierConfig, ClientFacts, ClientKey};
pub use crawlers::{AgentKind, CrawlerTable};
pub use error::Error;
pub use reader::{Counts, LogReader, arrivals};
pub use record::{Line, Record};
pub use synthetic::SyntheticSite;
pub use traits::{Rules, Traits};
