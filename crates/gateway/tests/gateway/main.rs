//! The sleeping proxy, told as stories: a client that speaks raw HTTP/1.1 on one side, an origin
//! that does what it is told (and misbehaves when told so) on the other, a server whose power is
//! simulated between them.

mod acme;
mod answers;
mod caching;
mod client;
mod connections;
mod dashboard;
mod disk_cache;
mod failure;
mod forgetting;
mod gate;
mod gates;
mod health;
mod http2;
mod http2_smuggling;
mod hygiene;
mod learning;
mod ledger;
mod limits;
mod machines;
mod metering;
mod metrics;
mod operator;
mod origin;
mod origin_http2;
mod origin_http2_trouble;
mod origin_tls;
mod passing;
mod passthrough;
mod passthrough_programs;
mod passthrough_trouble;
mod pool;
mod pool_trouble;
mod reloading;
mod sharing;
mod short_pass;
mod short_way;
mod site_rules;
mod sleeping;
mod stage;
mod tls;
mod waking;
mod warming;
mod webhooks;
mod wire;
