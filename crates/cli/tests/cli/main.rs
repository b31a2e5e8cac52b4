//! The binary, as its users meet it: real processes, real sockets, real signals.
//!
//! One harness ([`harness`]), one file per story.

mod agent;
mod analyze;
mod analyze_edges;
mod bad_input;
mod calibrate;
mod caliper;
mod caliper_events;
mod caliper_markers;
mod client;
mod compare;
mod control;
mod corun;
mod crashes;
mod demo;
mod disk;
mod failing_servers;
mod first_use;
mod fleet;
mod guide;
mod harness;
mod init;
mod install;
mod learning;
mod load;
mod measure;
mod meter_checks;
mod mining;
mod mirror_live;
mod observe;
mod operate;
mod operate_load;
mod pool;
mod published;
mod readme;
mod real_logs;
mod replay;
mod sampled;
mod send;
mod sleep_and_wake;
mod tcp;
mod tcp_where;
mod upgrade;
mod words;
