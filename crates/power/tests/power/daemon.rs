//! Other people's daemons, started for a test and ended with it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::Rig;

/// Are we root? Says that the test is skipped where we are not.
pub(crate) fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        eprintln!("skipped: not root");
    }
    is_root
}

/// A daemon, killed when dropped.
pub(crate) struct Daemon {
    child: Child,
    log: PathBuf,
}

impl Daemon {
    pub(crate) fn start(rig: &Rig, command: &mut Command) -> Self {
        let name = Path::new(command.get_program()).file_name().unwrap().to_owned();
        let log = rig.path("").join(name).with_extension("log");
        let out = std::fs::File::create(&log).unwrap();
        let child = command
            .stdin(Stdio::null())
            .stdout(out.try_clone().unwrap())
            .stderr(out)
            .spawn()
            .unwrap();
        Self { child, log }
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    /// Asks until the answer is something: nothing else says that a daemon is ready.
    pub(crate) fn ready<T>(&mut self, rig: &Rig, mut ask: impl FnMut() -> Option<T>) -> T {
        for _ in 0..1200 {
            if let Some(answer) = ask() {
                return answer;
            }
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none(), "it has ended: {}", self.log());
            rig.run(rig.clock.sleep(Duration::from_millis(50)));
        }
        panic!("{}", self.log());
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A program in the rig's folder that does what the script says.
pub(crate) fn stub(rig: &Rig, name: &str, script: &str) -> PathBuf {
    let (source, program) = (rig.path("source"), rig.path(name));
    std::fs::write(&source, format!("#!/bin/sh\n{script}\n")).unwrap();
    // Another process writes it: a file that a child of another test inherited for writing could not
    // be run.
    let made = Command::new("install").args(["-m", "755"]).arg(source).arg(&program).status();
    assert!(made.unwrap().success());
    program
}

/// Runs a program to its end: what it printed.
pub(crate) fn output(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{command:?}: {said}");
    said
}
