//! Places in files that a probe can be attached to, and what a probe costs there.

use std::path::PathBuf;

/// Where in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Location {
    /// Bytes from its beginning.
    pub offset: u64,
    /// Where the program counts observers, so that it knows whether there are any.
    pub semaphore: Option<u64>,
}

impl Location {
    /// A place without a counter of observers.
    pub(crate) const fn at(offset: u64) -> Self {
        Self { offset, semaphore: None }
    }
}

/// A place in a file that a probe can be attached to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeSite {
    /// The file.
    pub path: PathBuf,
    /// Bytes from its beginning.
    pub offset: u64,
    /// Of a USDT probe, see [`Location`].
    pub semaphore: Option<u64>,
    /// Where else the same USDT probe is.
    pub also: Vec<Location>,
    /// The function's name as its author wrote it, or the address.
    pub name: String,
    /// What stands there.
    pub instruction: InstructionKind,
    /// Are there functions in the file that exceptions or panics may leave? A return probe on one of
    /// them, or on what calls them, aborts the program when one does.
    pub may_unwind: bool,
    /// Does the file know how to give code another stack (`sigaltstack`, `swapcontext`)? The kernel ends
    /// a program that returns there by a return probe, while functions on another stack wait for theirs.
    pub may_switch_stacks: bool,
}

impl ProbeSite {
    /// All locations of it.
    pub fn locations(&self) -> impl Iterator<Item = Location> {
        let first = Location { offset: self.offset, semaphore: self.semaphore };
        std::iter::once(first).chain(self.also.iter().copied())
    }
}

/// How the kernel gets past the instruction that a probe replaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstructionKind {
    /// Does nothing: skipped.
    Nop,
    /// `push`: the kernel does it itself.
    Push,
    /// A jump or call to a place that it names: the kernel does it itself.
    Jump,
    /// Any other: run out of line and stepped through, which is some twenty times dearer.
    Stepped,
}

/// What the first bytes of `code` are. Kernels before 6.16 or so step through longer `nop`s.
pub fn instruction_kind(code: &[u8]) -> InstructionKind {
    match code {
        // nop; nopl of any length. The kernel (6.18) does not treat endbr64 as one.
        [0x90, ..] | [0x66, 0x90, ..] | [0x0f, 0x1f, ..] | [0x66, 0x0f, 0x1f, ..] => {
            InstructionKind::Nop
        }
        // push of a register, with and without REX.
        [0x50..=0x57, ..] | [0x41, 0x50..=0x57, ..] => InstructionKind::Push,
        // jmp, call, conditional jumps.
        [0xe8 | 0xe9 | 0xeb | 0x70..=0x7f, ..] | [0x0f, 0x80..=0x8f, ..] => InstructionKind::Jump,
        _ => InstructionKind::Stepped,
    }
}
