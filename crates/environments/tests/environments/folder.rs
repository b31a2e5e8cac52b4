//! The folder of an environment: nothing goes with it that is only mounted there.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use nightwatt_environments::Started;
use nightwatt_environments::guard::Guard;

use crate::rig::{Daemon, Rig, inside, root};

/// An environment that runs on the host, with a folder of the same disk mounted in its scratch folder.
fn with_a_mount(rig: &Rig, guard: &Guard) -> Started {
    let precious = rig.path("precious");
    fs::create_dir(&precious).unwrap();
    fs::write(precious.join("note"), "kept").unwrap();
    let started = rig.start("kind = \"host\"", guard);
    let line = format!(
        "cd {} && mkdir -p \"a b\" c/d && mount --bind {precious} \"a b\" && mount --bind {precious} \"a b\" \
         && mount -t tmpfs tmpfs c && mkdir c/d && mount --bind {precious} c/d",
        started.scratch(),
        precious = precious.display()
    );
    inside(&started, &line);
    started
}

#[test]
fn what_is_mounted_in_its_scratch_folder_is_unmounted_and_not_deleted() {
    if root().is_none() {
        return;
    }
    for by_guardian in [true, false] {
        let rig = Rig::new();
        let guard = rig.guard();
        let started = with_a_mount(&rig, &guard);
        if by_guardian {
            guard.finish().unwrap();
            drop(started);
        } else {
            started.stop().unwrap();
            guard.finish().unwrap();
        }
        assert_eq!(fs::read_to_string(rig.path("precious/note")).unwrap(), "kept");
        rig.left("of the mounts");
    }
}

#[test]
fn where_a_mount_cannot_be_ended_the_folder_stays_and_that_is_told() {
    if root().is_none() {
        return;
    }
    let rig = Rig::new();
    let guard = rig.guard();
    let started = with_a_mount(&rig, &guard);
    // Somebody else, who works in it.
    let at = Path::new(&started.scratch()).join("a b");
    let user = Command::new("sleep").arg("1000").current_dir(&at).stdin(Stdio::null()).spawn();
    let user = Daemon(user.unwrap());
    let error = started.stop().unwrap_err().to_string();
    assert!(error.contains("a\\040b"), "as the kernel writes it: {error}");
    assert_eq!(fs::read_to_string(rig.path("precious/note")).unwrap(), "kept");
    assert_eq!(fs::read_to_string(at.join("note")).unwrap(), "kept", "it is still mounted");
    drop(user);
    guard.finish().unwrap();
    assert_eq!(fs::read_to_string(rig.path("precious/note")).unwrap(), "kept");
    rig.left("once it was free");
}
