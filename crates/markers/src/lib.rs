//! Sections of a program that `nightwatt caliper --markers` measures.
//!
//! ```
//! fn parse(text: &str) -> usize {
//!     let _section = nightwatt_markers::section!("parse");
//!     text.len()
//! } // it ends here, also by `?` and by a panic
//! # assert_eq!(parse("a b"), 3);
//! ```
//!
//! While no reader is attached, a marker is two loads and a branch. While one is, a marker reads the clock
//! and writes 16 bytes into memory that this process shares with nightwatt; the kernel is not entered. A
//! marker never waits: where there is no room it only counts the call.
//!
//! A section ends in the thread in which it began, so an async task must not hold one across an
//! `await`: [`Guard`] cannot be sent to another thread. Not for signal handlers. On anything but Linux
//! markers do nothing.
//!
//! `include/nightwatt.h` is the same for C and C++.

#[cfg(target_os = "linux")]
mod shared;

#[cfg(not(target_os = "linux"))]
mod shared {
    pub(crate) struct Site;
    impl Site {
        pub(crate) const fn new() -> Self {
            Self
        }
        pub(crate) fn begin(&self, _: &'static str) {}
        pub(crate) fn end(&self, _: &'static str) {}
    }
}

use std::marker::PhantomData;

use shared::Site;

/// A section of code.
///
/// ```
/// static PARSE: nightwatt_markers::Section = nightwatt_markers::Section::new("parse");
/// PARSE.begin();
/// PARSE.end();
/// ```
pub struct Section {
    name: &'static str,
    site: Site,
}

impl Section {
    /// Two sections of one name are one. A process may have 256, with names up to 63 bytes.
    pub const fn new(name: &'static str) -> Self {
        Self { name, site: Site::new() }
    }

    /// It begins in this thread.
    #[inline]
    pub fn begin(&self) {
        self.site.begin(self.name);
    }

    /// It ends in this thread: the last one of this name that began.
    #[inline]
    pub fn end(&self) {
        self.site.end(self.name);
    }

    /// It begins, and ends when the guard is dropped.
    #[inline]
    #[must_use = "the section ends when this is dropped: `let _section = ...`"]
    pub fn enter(&self) -> Guard<'_> {
        self.begin();
        Guard { section: self, _stays_here: PhantomData }
    }
}

/// A section that ends when this is dropped.
pub struct Guard<'a> {
    section: &'a Section,
    /// What it ends began in this thread.
    _stays_here: PhantomData<*const ()>,
}

impl Drop for Guard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.section.end();
    }
}

/// Begins the section of that name, which ends with the value: `let _section = section!("parse");`
#[macro_export]
macro_rules! section {
    ($name:literal) => {{
        static SECTION: $crate::Section = $crate::Section::new($name);
        SECTION.enter()
    }};
}
