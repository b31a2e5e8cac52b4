//! The kernel's half of whatever it is: loaded, found by name, attached, read.

use std::path::Path;

use libbpf_rs::{ErrorKind, Link, Map, MapCore, Object, ObjectBuilder, OpenObject, ProgramMut};

use crate::error::ProbeError;

/// Aligned as libbpf reads it.
#[repr(C, align(8))]
pub(crate) struct Aligned<T: ?Sized>(pub(crate) T);

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
        // What goes wrong is told by our errors.
        libbpf_rs::set_print(None);
        let opened =
            ObjectBuilder::default().name(name).and_then(|builder| builder.open_memory(&code.0));
        let loaded = opened.and_then(|mut object| {
            prepare(&mut object)?;
            object.load()
        });
        let object = loaded.map_err(|source| {
            if source.kind() == ErrorKind::PermissionDenied {
                ProbeError::Denied { source }
            } else {
                refused("load its programs")(source)
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

    pub(crate) fn program(&mut self, name: &str) -> ProgramMut<'_> {
        let mut programs = self.object.progs_mut();
        programs
            .find(|program| program.name() == name)
            .expect("the object has a program of that name")
    }
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
