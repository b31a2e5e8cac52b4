//! The sleeping proxy: a caching reverse proxy that lets the server behind it sleep.
//!
//! ```text
//! listen -> proxy -> (store | answers | origin) -> body -> client
//!              \-> supervisor (power manager, controller, probe, journal, lessons)
//! ```
//!
//! What is decided is decided in `nightwatt_model::policy`; what may be cached, in
//! `nightwatt_httpcache`. Here are sockets, bodies and files.

mod accept;
mod access;
mod acme;
mod admin;
mod answers;
mod authority;
mod body;
mod books;
mod client_facts;
pub mod client_hello;
mod client_limits;
pub mod clients;
pub mod config;
pub mod control;
pub mod disk_cache;
mod error;
mod exchange;
mod facts;
mod flights;
mod forward;
mod forwarded;
mod gate;
mod gateway;
mod hand_over;
mod hand_over_error;
mod health;
mod hit;
mod hold;
mod http2;
mod https;
pub mod journal;
pub mod lessons;
mod listen;
mod live;
mod machine;
pub mod metering;
mod metrics;
mod opening;
mod origin;
mod own_request;
mod passthrough;
mod past;
mod pool;
mod private;
mod proxy;
pub mod proxy_protocol;
mod question;
mod quick;
mod refresh;
mod refusing;
mod reload;
mod repeats;
mod request_rules;
mod running;
mod secrets;
mod shadow;
mod site;
mod state_dir;
pub mod status;
mod store;
mod successor;
mod supervisor;
pub mod tls;
mod tunnel;
mod waiting;
mod warm_up;
pub mod webhooks;
mod wishes;

pub use access::{Answered, Extras};
pub use config::Config;
pub use error::{ConfigError, StartError};
pub use gateway::{Gateway, Options};
pub use hand_over::{Predecessor, Taker};
pub use hand_over_error::HandOverError;
pub use listen::Inherited;
pub use own_request::REFRESH_ID;
pub use reload::{ReloadError, ReloadStatus, Reloaded};
pub use running::Running;
