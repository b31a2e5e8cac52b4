//! The proxy before machines that truly suspend: QEMU guests (`tools/vm/guest`, docs/test-machines.md).
//!
//! Slow, and needing root: run by `make test-vm`.

mod agent;
mod chain;
mod failures;
mod guest;
mod proxy;
mod qemu_guest;
mod send;
mod sleep_and_wake;
mod systemd_unit;
mod transient_unit;
mod wireguard;
