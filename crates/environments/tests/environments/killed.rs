//! Whoever starts environments is killed at any moment.

use std::time::Duration;

use rustix::process::Signal;

use crate::containers::podman;
use crate::rig::{Rig, program, root};

#[test]
fn killed_at_any_moment_of_its_start_nothing_is_left() {
    let engines =
        [("bwrap", "bubblewrap"), ("podman", "podman"), ("runc", "runc"), ("ip", "iproute2")];
    let more = [("systemd-nspawn", "systemd-container"), ("lxc-execute", "lxc")];
    if engines.iter().chain(&more).any(|(name, package)| program(name, package).is_none())
        || root().is_none()
    {
        return;
    }
    let rig = Rig::new();
    let kinds = ["host", "chroot", "bubblewrap", "netns", "nspawn", "lxc"];
    let mut options: Vec<_> = kinds.iter().map(|kind| format!("kind = \"{kind}\"")).collect();
    options.push(podman(&rig, ""));
    let tables: Vec<_> =
        options.iter().map(|options| format!("[[environment]]\n{}", rig.text(options))).collect();
    let plan = tables.concat();
    // As a whole it comes up, and is gone.
    rig.holder_is_ended(&plan, Signal::TERM);
    // The start takes about a second where little else runs; moments that are no multiples of anything.
    for step in 0..20 {
        rig.starter_is_killed(&plan, Duration::from_millis(3 + 59 * step));
    }
}
