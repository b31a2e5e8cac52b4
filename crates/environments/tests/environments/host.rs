//! The host, and what needs no engine: chroot and bubblewrap.

use std::process::Command;

use rustix::process::Signal;

use crate::rig::{Rig, free_port, inside, memory_is_limited, program, root};

#[test]
fn the_host_is_an_environment() {
    let rig = Rig::new();
    rig.try_all("kind = \"host\"");
    let guard = rig.guard();
    let started = rig.start("kind = \"host\"", &guard);
    rig.serves(&started, free_port(), "from the host");
}

#[test]
fn the_host_can_be_as_small_as_a_guest() {
    if root().is_none() {
        return;
    }
    let rig = Rig::new();
    let guard = rig.guard();
    let started = rig.start("kind = \"host\"\ncpus = 1\nmemory = \"96 MiB\"", &guard);
    assert_eq!(inside(&started, "nproc"), "1");
    memory_is_limited(&started);
    let second =
        rig.config("kind = \"host\"\ncpus = 1\npin = [0]").start(1, None, &guard, &rig.stop);
    assert_eq!(inside(&second.unwrap(), "taskset -pc $$ | sed 's/.*: //'"), "0");
}

#[test]
fn what_leaves_its_session_is_ended_too() {
    let rig = Rig::new();
    let guard = rig.guard();
    let started = rig.start("kind = \"host\"", &guard);
    // As PostgreSQL does: a session of its own, and a parent that has ended. `env -i` takes the mark off.
    inside(
        &started,
        "setsid sleep 1000 >/dev/null 2>&1 & (env -i setsid sh -c 'sleep 1000' >/dev/null 2>&1 &)",
    );
    started.stop().unwrap();
    let left = rig.inventory(&[std::process::id()]);
    assert!(!left.iter().any(|line| line.starts_with("process")), "{left:?}");
}

#[test]
fn a_chroot_of_the_hosts_own_root_is_its_own() {
    if root().is_none() {
        return;
    }
    let rig = Rig::new();
    rig.try_all("kind = \"chroot\"");
    let guard = rig.guard();
    let started = rig.start("kind = \"chroot\"\ncpus = 1\nmemory = \"96 MiB\"", &guard);
    assert_eq!(inside(&started, "nproc"), "1");
    memory_is_limited(&started);
    rig.serves(&started, free_port(), "from a chroot");
    inside(&started, "echo x >/etc/nightwatt-was-here; test -e /etc/nightwatt-was-here");
    assert!(
        !std::path::Path::new("/etc/nightwatt-was-here").exists(),
        "the host's root stays as it is"
    );
}

#[test]
fn bubblewrap_needs_no_engine() {
    if program("bwrap").is_none() {
        return;
    }
    let rig = Rig::new();
    rig.try_all("kind = \"bubblewrap\"");
    let guard = rig.guard();
    let started = rig.start("kind = \"bubblewrap\"\ncpus = 1", &guard);
    let second =
        rig.config("kind = \"bubblewrap\"\ncpus = 1").start(1, None, &guard, &rig.stop).unwrap();
    assert_eq!(inside(&started, "nproc; cat /proc/1/comm"), "1\nbwrap");
    rig.serves(&started, free_port(), "from bubblewrap");
    rig.serves(&second, free_port(), "from another");
}

/// Without root there is no cgroup here: what was started is found by the mark in its environment.
#[test]
fn without_root_all_is_ended_too() {
    if root().is_none() {
        return;
    }
    let rig = Rig::new();
    let nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    let mut plan = format!("[[environment]]\n{}", rig.text("kind = \"host\"\ncopies = 2"));
    let tried = Command::new(nobody[0])
        .args(&nobody[1..])
        .args(["bwrap", "--ro-bind", "/", "/", "true"])
        .output();
    if tried.is_ok_and(|output| output.status.success()) {
        let other = rig.text("kind = \"bubblewrap\"").replace("name = \"it\"", "name = \"other\"");
        plan = format!("{plan}[[environment]]\n{other}");
    } else {
        eprintln!("skipped in part: bubblewrap does not run without root here");
    }
    rig.holder_is_ended_as(&plan, Signal::KILL, &nobody);
}
