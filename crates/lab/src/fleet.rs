//! `nightwatt fleet`: pools of servers, simulated under the policies that run them.

pub mod published;
