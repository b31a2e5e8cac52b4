//! Addresses of programs, and where in their files they are.

use std::ops::Range;

use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSegment};

/// The bytes of code between two addresses.
pub(crate) fn code_at<'a>(
    elf: &ElfFile64<'_, Endianness>,
    data: &'a [u8],
    range: &Range<u64>,
) -> Option<&'a [u8]> {
    let begin = usize::try_from(file_offset(elf, range.start)?).ok()?;
    let length = usize::try_from(range.end.checked_sub(range.start)?).ok()?;
    data.get(begin..begin.checked_add(length)?)
}

/// Where in the file an address is.
pub(crate) fn file_offset(elf: &ElfFile64<'_, Endianness>, address: u64) -> Option<u64> {
    elf.segments().find_map(|segment| {
        let inside = address.checked_sub(segment.address())?;
        let (offset, length) = segment.file_range();
        (inside < length).then_some(offset + inside)
    })
}
