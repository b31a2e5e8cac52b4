//! Virtual Ethernet cards whose wire is this process.
#![expect(unsafe_code, reason = "the one ioctl that makes a card; no crate of ours offers it")]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;

use rustix::fs::OFlags;
use rustix::ioctl::{Setter, ioctl, opcode};

/// `struct ifreq`: a name, and flags in a union of 24 bytes.
#[repr(C)]
struct Request {
    name: [u8; 16],
    flags: u16,
    rest: [u8; 22],
}

const IFF_TAP: u16 = 0x0002;
const IFF_NO_PI: u16 = 0x1000;
const TUNSETIFF: rustix::ioctl::Opcode = opcode::write::<i32>(b'T', 202);

/// Makes a card of that name in the network namespace of this thread; it is gone when the file is
/// closed. Reads and writes are whole frames, and do not block.
pub(super) fn make(name: &str) -> io::Result<File> {
    let mut request = Request { name: [0; 16], flags: IFF_TAP | IFF_NO_PI, rest: [0; 22] };
    let room = &mut request.name[..15];
    if name.is_empty() || name.len() > room.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    room[..name.len()].copy_from_slice(name.as_bytes());
    let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
    let file =
        OpenOptions::new().read(true).write(true).custom_flags(nonblocking).open("/dev/net/tun")?;
    // SAFETY: TUNSETIFF takes a pointer to a `struct ifreq`, which `Request` has the size and layout of
    // on all 64-bit and 32-bit machines (40 or 32 bytes, of which the kernel reads no more than it has).
    unsafe { ioctl(&file, Setter::<TUNSETIFF, Request>::new(request)) }?;
    Ok(file)
}
