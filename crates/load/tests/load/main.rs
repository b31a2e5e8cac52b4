//! Replays against the log-backed origin and against a proxy of a few lines.

mod follow_ups;
mod origin;
mod replays;
mod stage;
