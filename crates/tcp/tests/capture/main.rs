//! Captures, beside what is known of them: packets by hand, tshark, and the kernel's own counts.

mod compared;
mod formats;
mod made;
#[path = "../own_network/mod.rs"]
mod own_network;
mod peers;
mod rules;
