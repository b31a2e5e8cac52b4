//! The sleeping proxy: a caching reverse proxy that lets the server behind it sleep.
//!
//! ```text
//! listen -> slow_path -> (store | answers | origin) -> body -> client
//!                  \-> supervisor (power manager, controller, probe, journal, lessons)
//! ```
//!
//! Decisions are made in `nightwatt_policy`, and those about caching in `nightwatt_httpcache`. This crate has the
//! sockets, bodies and files.

mod accept;
mod access_log;
mod accounting;
mod acme;
mod admin;
pub mod admittance;
mod answers;
mod authority;
mod body;
mod client_facts;
pub mod client_hello;
mod client_limits;
pub mod clients;
mod common;
pub mod compress;
pub mod config;
pub mod containers;
pub mod control;
mod dashboard_history;
mod datagrams;
pub mod disk_cache;
pub mod dns_update;
mod error;
mod exchange;
mod facts;
mod fast_path;
mod forward;
mod forwarded;
mod front;
mod gate;
mod gateway;
pub mod greeting;
mod hand_over;
mod hand_over_error;
mod health;
mod hit;
mod hold;
mod http2;
mod https;
pub mod in_use;
mod inspect;
mod job_runner;
mod jobs;
pub mod ledger_file;
pub mod lessons;
mod listen;
mod live;
mod look_over;
mod machine;
mod magic_packets;
mod mark;
pub mod metering;
mod metrics;
pub mod mirror;
mod opening;
mod origin;
mod own_request;
mod passthrough;
mod paths;
mod places;
mod pool;
mod ports;
mod prefetch_queue;
mod presence;
mod private;
mod proofs;
pub mod proxy_protocol;
mod question;
mod refresh;
mod refresh_queue;
mod refusing;
mod reload;
mod repeated_warnings;
mod request_body;
mod request_rules;
mod retiring;
mod running;
mod secrets;
mod serving;
mod shadow;
mod shared_fetches;
mod site;
mod slow_path;
mod state_dir;
pub mod status;
mod store;
mod successor;
mod supervisor;
pub mod tls;
mod tunnel;
mod waiting_page;
mod wake_cause;
mod warm_up;
pub mod webhooks;

pub use access_log::{Answered, Extras};
pub use config::Config;
pub use error::{ConfigError, StartError};
pub use gateway::{Gateway, Options};
pub use hand_over::{Predecessor, Taker};
pub use hand_over_error::HandOverError;
pub use listen::Inherited;
pub use own_request::REFRESH_ID;
pub use reload::ReloadError;
pub use running::Running;
pub use status::{ReloadStatus, Reloaded};
