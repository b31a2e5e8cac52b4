//! The gateway among people who mean it harm, and among machines that fail: the real program, a
//! strict origin behind it, and clients that send what they like.
//!
//! What is refused, and how to run the long forms of these tests: `docs/hardening.md`.

mod answer;
mod content;
mod garbage;
mod gateway;
mod origin;
mod seed;
mod smuggling;
mod soak;
mod strict;
mod wire;
