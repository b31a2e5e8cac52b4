//! Replays against the log-backed origin and against a proxy of a few lines; load against servers that
//! misbehave.

mod follow_ups;
mod generator;
mod origin;
mod replays;
mod stage;
