//! The sleeping proxy: a caching reverse proxy that lets the server behind it sleep.
//!
//! ```text
//! listen -> proxy -> (store | answers | origin) -> body -> client
//!              \-> supervisor (power manager, controller, probe, journal, lessons)
//! ```
//!
//! What is decided is decided in `nightwatt_model::policy`; what may be cached, in
//! `nightwatt_httpcache`. Here are sockets, bodies and files.

mod access;
mod admin;
mod answers;
mod authority;
mod body;
mod books;
pub mod client_hello;
mod client_limits;
pub mod config;
pub mod control;
mod error;
mod facts;
mod flights;
mod forward;
mod gateway;
mod health;
mod hit;
mod hold;
mod https;
pub mod journal;
pub mod lessons;
mod listen;
mod machine;
pub mod metering;
mod metrics;
mod origin;
mod passthrough;
mod past;
mod pool;
mod proxy;
mod proxy_protocol;
mod question;
mod quick;
mod refresh;
mod shadow;
mod site;
pub mod status;
mod store;
mod supervisor;
pub mod tls;
mod tunnel;
mod waiting;
mod warm_up;
mod wishes;

pub use access::{Answered, Extras};
pub use config::Config;
pub use error::{ConfigError, StartError};
pub use gateway::{Gateway, Options, Running};
pub use refresh::REFRESH_ID;
