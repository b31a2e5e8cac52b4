//! The kernel's half: loaded, attached, read.

use std::fs;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use libbpf_rs::{
    Link, Map, MapCore, MapFlags, MapMut, Object, ObjectBuilder, OpenObject, PrintLevel,
};

use crate::error::Error;

/// Aligned as libbpf reads it.
#[repr(C, align(8))]
struct Aligned<T: ?Sized>(T);

static PROGRAM: &Aligned<[u8]> =
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/sched.bpf.o")));

const BTF: &str = "/sys/kernel/btf/vmlinux";
const SCHED_EXT: &str = "/sys/kernel/sched_ext";

/// The name of the map through which launchers speak to the scheduler.
pub(crate) const WANTED: &str = "nw_wanted";

/// What cannot be changed after loading; the layout of `settings` in `sched.bpf.c`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) quantum_ns: u64,
    pub(crate) bound_quanta: u64,
    /// `enum policy` there.
    pub(crate) policy: u32,
    pub(crate) counts: bool,
    pub(crate) traces: bool,
}

impl Settings {
    fn bytes(self) -> Vec<u8> {
        let words = [
            self.policy.to_ne_bytes(),
            u32::from(self.counts).to_ne_bytes(),
            u32::from(self.traces).to_ne_bytes(),
            [0; 4],
        ];
        let numbers = [self.quantum_ns.to_ne_bytes(), self.bound_quanta.to_ne_bytes()];
        [numbers.concat(), words.concat()].concat()
    }
}

/// Programs in the kernel. When this is dropped, or this process ends, the kernel takes the tasks back.
#[derive(Debug)]
pub(crate) struct Loaded {
    object: Object,
    link: Option<Link>,
}

impl Loaded {
    /// Loads all programs, which the verifier checks, and schedules nothing yet.
    pub(crate) fn load(settings: Settings) -> Result<Self, Error> {
        if !Path::new(BTF).exists() {
            return Err(Error::NoBtf);
        }
        if !Path::new(SCHED_EXT).exists() {
            return Err(Error::NoSchedExt);
        }
        complaints().clear();
        libbpf_rs::set_print(Some((PrintLevel::Warn, hear)));
        let opened = ObjectBuilder::default()
            .name("nightwatt")
            .and_then(|builder| builder.open_memory(&PROGRAM.0));
        let loaded = opened.and_then(|mut object| {
            prepare(&mut object, settings)?;
            object.load()
        });
        let object = loaded.map_err(refused("load the scheduler"))?;
        Ok(Self { object, link: None })
    }

    /// From now on it schedules the tasks of the policy SCHED_EXT.
    pub(crate) fn attach(&mut self) -> Result<(), Error> {
        let attached = self.map_mut("nightwatt").attach_struct_ops();
        self.link = Some(attached.map_err(|source| match loaded_scheduler() {
            Some(name) => Error::Busy(name),
            None => refused("start the scheduler")(source),
        })?);
        Ok(())
    }

    /// The kernel takes the tasks back. What was counted is still there.
    pub(crate) fn detach(&mut self) {
        self.link = None;
    }

    pub(crate) fn map(&self, name: &str) -> Map<'_> {
        let mut maps = self.object.maps();
        maps.find(|map| map.name() == name).expect("the object has a map of that name")
    }

    fn map_mut(&mut self, name: &str) -> MapMut<'_> {
        let mut maps = self.object.maps_mut();
        maps.find(|map| map.name() == name).expect("the object has a map of that name")
    }

    /// An element of an array; zeros where the kernel has none.
    pub(crate) fn element(&self, map: &str, index: u32) -> Result<Vec<u8>, Error> {
        let map = self.map(map);
        let value = map.lookup(&index.to_ne_bytes(), MapFlags::ANY);
        let value = value.map_err(refused("read what the scheduler counted"))?;
        Ok(value.unwrap_or_else(|| vec![0; map.value_size() as usize]))
    }

    pub(crate) fn set(&self, map: &str, index: u32, value: &[u8]) -> Result<(), Error> {
        let set = self.map(map).update(&index.to_ne_bytes(), value, MapFlags::ANY);
        set.map_err(refused("hand figures to the scheduler"))
    }

    pub(crate) fn object(&self) -> &Object {
        &self.object
    }
}

fn prepare(object: &mut OpenObject, settings: Settings) -> Result<(), libbpf_rs::Error> {
    let cpus = libbpf_rs::num_possible_cpus()? as u32;
    for mut map in object.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        if name == "cpus" || name == "counters" {
            map.set_max_entries(cpus)?;
        } else if name.ends_with(".rodata")
            && let Some(value) = map.initial_value_mut()
        {
            let bytes = settings.bytes();
            value[..bytes.len()].copy_from_slice(&bytes);
        }
    }
    Ok(())
}

/// The scheduler that the kernel runs in place of its own.
pub(crate) fn loaded_scheduler() -> Option<String> {
    let name = fs::read_to_string(format!("{SCHED_EXT}/root/ops")).ok()?;
    Some(name.trim().to_owned())
}

/// The number at a place, counted in words of 8 bytes.
pub(crate) fn word(bytes: &[u8], place: usize) -> u64 {
    let word = bytes.get(8 * place..8 * place + 8).and_then(|word| word.try_into().ok());
    word.map_or(0, u64::from_ne_bytes)
}

/// What libbpf wrote since it was asked last: the verifier's log.
fn complaints() -> MutexGuard<'static, String> {
    static COMPLAINTS: Mutex<String> = Mutex::new(String::new());
    COMPLAINTS.lock().unwrap_or_else(PoisonError::into_inner)
}

#[expect(clippy::needless_pass_by_value, reason = "what libbpf-rs calls takes a String")]
fn hear(_: PrintLevel, text: String) {
    complaints().push_str(&text);
}

pub(crate) fn refused(what: &'static str) -> impl Fn(libbpf_rs::Error) -> Error {
    move |source| {
        let text = complaints().clone();
        let log: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let last = log[log.len().saturating_sub(8)..].iter().map(|line| (*line).to_owned());
        Error::Kernel { what, source, log: last.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_laid_out_as_in_the_kernels_half() {
        let settings = Settings {
            quantum_ns: 0x0102_0304_0506_0708,
            bound_quanta: 9,
            policy: 2,
            counts: true,
            traces: false,
        };
        let bytes = settings.bytes();
        assert_eq!(bytes.len(), 8 + 8 + 4 * 4);
        assert_eq!((word(&bytes, 0), word(&bytes, 1)), (0x0102_0304_0506_0708, 9));
        assert_eq!(bytes[16..24], [2_u32.to_ne_bytes(), 1_u32.to_ne_bytes()].concat());
        assert_eq!(word(&bytes, 99), 0, "beyond the end");
    }
}
