//! The one binary: nightwatt
fn main() {}
