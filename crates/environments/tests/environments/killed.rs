//! The process that starts environments is killed at any moment.

use std::fmt::Write;
use std::fs;
use std::process::Command;
use std::time::Duration;

use nightwatt_clock::meter::monotonic;
use nightwatt_needs::programs;
use rustix::process::Signal;

use crate::containers::podman;
use crate::rig::{Rig, WITHOUT_IMAGES, root};

#[test]
fn killed_at_any_moment_of_its_start_nothing_is_left() {
    let engines = ["bwrap", "podman", "runc", "ip", "systemd-nspawn", "lxc-execute"];
    if !programs(&engines) || root().is_none() {
        return;
    }
    let rig = Rig::new();
    let mut options: Vec<_> =
        WITHOUT_IMAGES.iter().map(|kind| format!("kind = \"{kind}\"")).collect();
    options.push(podman(&rig, ""));
    let tables: Vec<_> =
        options.iter().map(|options| format!("[[environment]]\n{}", rig.text(options))).collect();
    let plan = tables.concat();
    // As a whole it comes up, and is gone.
    rig.holder_is_ended(&plan, Signal::TERM);
    // The start takes about a second where little else runs; moments that are no multiples of anything.
    for step in 0..12 {
        let after = Duration::from_millis(3 + 97 * step);
        rig.starter_is_killed(&plan, &[], &format!("after {after:?}"), || {
            rig.stop.wait_until(monotonic() + after);
        });
    }
}

/// A stand-in for podman that takes its time, and makes its container as its last act.
const SLOW_ENGINE: &str = r#"#!/bin/sh
case "$*" in
  *inspect*) [ -e "$AT/container" ] && echo 1 ;;
  *create*) touch "$AT/begun"; sleep 1000; touch "$AT/container" ;;
  *rm*) rm "$AT/container" ;;
esac
"#;

#[test]
fn what_is_half_made_is_not_finished_behind_our_back() {
    let rig = Rig::new();
    let at = rig.path("work").display().to_string();
    fs::write(rig.path("engine"), SLOW_ENGINE).unwrap();
    // Another process writes it: a file that a child of another test inherited for writing could not
    // be run.
    let mut install = Command::new("install");
    install.args(["-m", "755"]).args([rig.path("engine"), rig.path("podman")]);
    assert!(install.status().unwrap().success());
    let plan = format!("[[environment]]\n{}", rig.text("kind = \"podman\""));
    let path = format!("PATH={}:{}", rig.path("").display(), std::env::var("PATH").unwrap());
    let begun = rig.path("work/begun");
    rig.starter_is_killed(
        &plan,
        &["env", &format!("AT={at}"), &path],
        "while the engine works",
        || {
            rig.until(|| begun.exists());
            fs::remove_file(&begun).unwrap();
        },
    );
}

#[test]
fn settings_are_restored_however_the_run_ends() {
    let rig = Rig::new();
    let environment = format!("[[environment]]\n{}", rig.text("kind = \"host\""));
    for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::KILL] {
        let mut plan = String::new();
        for (name, before) in [("scheduler", "mq-deadline"), ("governor", "powersave")] {
            let path = rig.path(name);
            fs::write(&path, format!("{before}\n")).unwrap();
            for value in ["none", "performance"] {
                let file = path.display();
                let _ = write!(
                    plan,
                    "[[setting]]\nvalue = \"{value}\"\nset = {{ kind = \"file\", path = \"{file}\" }}\n"
                );
            }
        }
        rig.holder_is_ended_with(&format!("{environment}{plan}"), signal, &[], || {
            assert_eq!(fs::read_to_string(rig.path("governor")).unwrap(), "performance\n");
        });
        assert_eq!(
            fs::read_to_string(rig.path("scheduler")).unwrap(),
            "mq-deadline\n",
            "{signal:?}"
        );
        assert_eq!(fs::read_to_string(rig.path("governor")).unwrap(), "powersave\n", "{signal:?}");
    }
}
