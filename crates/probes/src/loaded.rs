//! The kernel's half of whatever it is: loaded, found by name, attached, read.

use std::fs;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use libbpf_rs::{
    ErrorKind, Link, Map, MapCore, Object, ObjectBuilder, OpenObject, PrintLevel, ProgramMut,
};

use crate::error::ProbeError;

/// `BPF_F_TEST_RUN_ON_CPU`: the program runs on the CPU that is named.
pub(crate) const ON_CPU: u32 = 1;

/// Aligned as libbpf reads it.
#[repr(C, align(8))]
pub(crate) struct Aligned<T: ?Sized>(pub(crate) T);

/// The machine's own PID namespace: `PROC_PID_INIT_INO` of the kernel.
const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";

/// An error where we know processes by other numbers than programs in the kernel do.
pub(crate) fn same_process_numbers() -> Result<(), ProbeError> {
    match fs::read_link("/proc/self/ns/pid") {
        Ok(own) if own != Path::new(FIRST_PID_NAMESPACE) => Err(ProbeError::PidNamespace),
        _ => Ok(()),
    }
}

/// Programs in the kernel, and where they are attached. Both end when this is dropped, and by the kernel
/// if we are killed.
pub(crate) struct Loaded {
    object: Object,
    pub(crate) links: Vec<Link>,
}

impl Loaded {
    /// Loads an object; `prepare` may set what cannot be changed later.
    pub(crate) fn load(
        name: &str,
        code: &Aligned<[u8]>,
        prepare: impl FnOnce(&mut OpenObject) -> Result<(), libbpf_rs::Error>,
    ) -> Result<Self, ProbeError> {
        if !Path::new("/sys/kernel/btf/vmlinux").exists() {
            return Err(ProbeError::NoBtf);
        }
        complaints().clear();
        libbpf_rs::set_print(Some((PrintLevel::Warn, hear)));
        let opened =
            ObjectBuilder::default().name(name).and_then(|builder| builder.open_memory(&code.0));
        let loaded = opened.and_then(|mut object| {
            prepare(&mut object)?;
            object.load()
        });
        let object = loaded.map_err(|source| {
            let complaints = complaints();
            // A verifier that refuses a program says so by the same number.
            if source.kind() == ErrorKind::PermissionDenied && !complaints.contains("LOAD LOG") {
                ProbeError::Denied { source }
            } else {
                ProbeError::NotLoaded { source, said: reasons(&complaints) }
            }
        })?;
        Ok(Self { object, links: Vec::new() })
    }

    /// Attaches programs to what their sections name. `what` is what that is for.
    pub(crate) fn attach(
        &mut self,
        programs: &[&str],
        what: &'static str,
    ) -> Result<(), ProbeError> {
        for name in programs {
            let link = self.program(name).attach_trace();
            self.links.push(link.map_err(refused(what))?);
        }
        Ok(())
    }

    pub(crate) fn map(&self, name: &str) -> Map<'_> {
        let mut maps = self.object.maps();
        maps.find(|map| map.name() == name).expect("the object has a map of that name")
    }

    /// How often the kernel skipped one of these programs, because it ran on the same CPU already: for a task that
    /// was preempted in it (Linux 7.0 and later), or that was interrupted.
    pub(crate) fn missed(&self, programs: &[&str]) -> u64 {
        let ours = self.object.progs().filter(|it| programs.iter().any(|name| it.name() == *name));
        let files = ours.map(|it| format!("/proc/self/fdinfo/{}", it.as_fd().as_raw_fd()));
        files.map(|file| misses(&fs::read_to_string(file).unwrap_or_default())).sum()
    }

    pub(crate) fn program(&mut self, name: &str) -> ProgramMut<'_> {
        let mut programs = self.object.progs_mut();
        programs
            .find(|program| program.name() == name)
            .expect("the object has a program of that name")
    }
}

/// How often the kernel skipped a program, as the file of its descriptor in `/proc/self/fdinfo` says.
fn misses(fdinfo: &str) -> u64 {
    let count = fdinfo.lines().find_map(|line| line.strip_prefix("recursion_misses:"));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

/// What libbpf said since it was asked last: the verifier's log, and which program it is of.
fn complaints() -> MutexGuard<'static, String> {
    static COMPLAINTS: Mutex<String> = Mutex::new(String::new());
    COMPLAINTS.lock().unwrap_or_else(PoisonError::into_inner)
}

#[expect(clippy::needless_pass_by_value, reason = "what libbpf-rs calls takes a String")]
fn hear(_: PrintLevel, text: String) {
    complaints().push_str(&text);
}

/// The lines that tell why: of a verifier's log of thousands, those before its statistics.
fn reasons(complaints: &str) -> Vec<String> {
    let is_reason = |line: &&str| {
        let noise =
            ["-- ", "processed ", "verification time", "stack depth", "libbpf: failed to load"];
        !line.trim().is_empty() && !noise.iter().any(|noise| line.starts_with(noise))
    };
    let log: Vec<&str> = complaints.lines().filter(is_reason).collect();
    log[log.len().saturating_sub(4)..].iter().map(|line| (*line).to_owned()).collect()
}

pub(crate) fn refused(what: &'static str) -> impl Fn(libbpf_rs::Error) -> ProbeError {
    move |source| ProbeError::Refused { what: what.to_owned(), source }
}

/// Eight bytes of a value, by the number of the word.
pub(crate) fn word(value: &[u8], number: usize) -> u64 {
    let bytes = value.get(8 * number..8 * number + 8);
    bytes.and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_ne_bytes)
}

/// Four bytes of a value, at a place in bytes.
pub(crate) fn half_word(value: &[u8], at: usize) -> u32 {
    let bytes = value.get(at..at + 4);
    bytes.and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Linux 6.18 writes it.
    #[test]
    fn runs_that_the_kernel_skipped_are_read() {
        let fdinfo = "pos:\t0\nflags:\t02000002\nprog_type:\t26\nprog_jited:\t1\nrun_cnt:\t0\n\
                      recursion_misses:\t338\nverified_insns:\t91\n";
        assert_eq!(misses(fdinfo), 338);
        assert_eq!(misses("prog_type:\t26\n"), 0);
    }
}
