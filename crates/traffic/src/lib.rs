//! Logs in, requests out: readers, client classes, generated traffic.
//!
//! A log line becomes a [`Record`] without copying ([`clf`]); [`LogReader`] streams files of any
//! size in constant memory and counts what it could not read; [`Classifier`] says what kind of
//! client asked, for the live proxy and for the analysis of a log alike; [`SyntheticSite`] makes
//! traffic where there is no log.
//!
//! Nothing here reads a clock: the time is an argument, or comes from the log.

pub mod address;
pub mod arrival;
pub mod classifier;
mod classifier_config;
pub mod clf;
mod clf_time;
pub mod client;
mod client_key;
mod client_state;
pub mod container;
pub mod counts;
pub mod crawlers;
mod decompress;
mod detect;
mod encoding;
pub mod error;
mod escapes;
mod facts;
mod fields;
mod formats;
mod hash;
mod json;
pub mod line_parser;
mod login_attempts;
mod objects;
pub mod per_second;
pub mod reader;
pub mod record;
pub mod rule;
pub mod scan;
mod scanner_paths;
mod spans;
pub mod summary;
pub mod suspected_crawlers;
pub mod synthetic;
mod template;
pub mod traits;
mod w3c;
mod when;

pub use arrival::Arrival;
pub use classifier::{Classifier, ClassifierConfig, ClientFacts, ClientKey, Fetch, Verdict};
pub use classifier::{FailedLogIns, Known};
pub use client::ClientFrom;
pub use container::Container;
pub use crawlers::{AgentKind, CrawlerTable};
pub use error::Error;
pub use line_parser::{Format, Reading};
pub use login_attempts::Reply;
pub use per_second::PerSecond;
pub use reader::{Counts, LogReader, arrivals};
pub use record::{Line, Record};
pub use rule::Rule;
pub use scan::{Logged, scan};
pub use summary::Summary;
pub use suspected_crawlers::Suspects;
pub use synthetic::SyntheticSite;
pub use template::Pattern;
pub use traits::{Rules, Traits};
