//! Experiments. So far one: the demo, a day (or a log) of requests against a site behind the
//! sleeping proxy, and the bill at the end.

pub mod demo;
mod error;

pub use error::Error;
