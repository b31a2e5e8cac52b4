//! The folder of an environment: who may enter it, what it may be called, and that nothing goes with it
//! that is only mounted there.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use nightwatt_environments::Started;
use nightwatt_environments::guard::Guard;

use crate::containers::podman;
use crate::rig::{
    Daemon, Rig, WITHOUT_IMAGES, commands_are_run, inside, output, program, root, scratch_is_empty,
};

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
    // Another process that works in it.
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

const NOBODY: [&str; 4] = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];

/// In a folder that every user may write to, root could follow another user's symbolic link.
#[test]
fn nobody_finds_the_scratch_folder_who_is_not_told_where_it_is() {
    if program("ip").and(program("bwrap")).and(root()).is_none() {
        return;
    }
    let rig = Rig::new();
    let work = rig.path("work").display().to_string();
    for kind in WITHOUT_IMAGES {
        if kind == "nspawn" && program("systemd-nspawn").is_none()
            || kind == "lxc" && program("lxc-execute").is_none()
        {
            continue;
        }
        let guard = rig.guard();
        let started = rig.start(&format!("kind = \"{kind}\""), &guard);
        let find = format!("find {work} -mindepth 1");
        let mut theirs = Command::new(NOBODY[0]);
        theirs.args(&NOBODY[1..]).args(["sh", "-c", &format!("{find}; true")]);
        let seen = output(theirs.stderr(Stdio::null()));
        assert_eq!(seen.lines().count(), 1, "{kind}: {seen}");
        let name = seen.trim();
        assert!(!Path::new(name).join("scratch").exists() || !searchable(name), "{kind}: {name}");
        // Who is told works there: a database that refuses to be root.
        let arguments = if kind == "bubblewrap" { "true" } else { &NOBODY.join(" ") };
        inside(&started, &format!("{arguments} touch {}/theirs", started.scratch()));
        started.stop().unwrap();
    }
}

/// By others than its owner.
fn searchable(folder: &str) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(folder).unwrap().permissions().mode() & 0o011 != 0
}

#[test]
fn the_name_of_its_folder_may_have_blanks_and_quotes() {
    let here = program("bwrap").and(program("lxc-execute"));
    let here = here.and(program("systemd-nspawn")).and(program("ip"));
    if here.and(program("podman")).and(program("runc")).and(root()).is_none() {
        return;
    }
    let rig = Rig::new();
    let scratch = rig.path("work/it's \"a  b\" $x");
    fs::create_dir(&scratch).unwrap();
    let mut options: Vec<_> =
        WITHOUT_IMAGES.iter().map(|kind| format!("kind = \"{kind}\"")).collect();
    options.push(podman(&rig, ""));
    for options in options {
        let guard = rig.guard();
        let config: nightwatt_environments::EnvironmentConfig =
            toml::from_str(&Rig::text_at(&scratch, &options)).unwrap();
        let started = config.start(0, None, &guard, &rig.stop);
        let started = started.unwrap_or_else(|error| panic!("{options}: {error}"));
        commands_are_run(&started);
        scratch_is_empty(&started);
        started.stop().unwrap_or_else(|error| panic!("{options}: {error}"));
        guard.finish().unwrap();
        assert_eq!(fs::read_dir(&scratch).unwrap().count(), 0, "{options}");
    }
    fs::remove_dir(&scratch).unwrap();
    rig.left("of any");
}
