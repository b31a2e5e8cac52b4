//! Client and server on this machine, through real sockets.

mod broken;
mod counts;
mod harness;
mod kernel;
mod namespace;
#[path = "../own_network/mod.rs"]
mod own_network;
