//! Decisions, as state machines without input or output.
//!
//! Each takes events and a [`Now`](crate::time::Now), and writes actions into the caller's buffer.

pub mod admission;
pub mod awake_budget;
pub mod connections;
pub mod fleet;
pub mod lifecycle;
pub mod manager;
pub mod passage;
pub mod rate;
pub mod sleep;
