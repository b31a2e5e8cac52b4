//! The memory's file, and the socket that it is handed over through.

use std::ffi::c_int;
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicU64};

use super::{Acquire, Relaxed, Release};

/// A file of ours. Whether it is still there is told by what it is: a program may close all files.
pub(super) struct Kept {
    file: AtomicI32,
    device: AtomicU64,
    inode: AtomicU64,
}

impl Kept {
    pub(super) const fn new() -> Self {
        Self { file: AtomicI32::new(-1), device: AtomicU64::new(0), inode: AtomicU64::new(0) }
    }

    pub(super) fn keep(&self, file: c_int) {
        let (device, inode) = identity(file).unwrap_or_default();
        self.device.store(device, Relaxed);
        self.inode.store(inode, Relaxed);
        self.file.store(file, Release);
    }

    /// Its number, unless there is another now.
    pub(super) fn there(&self) -> Option<c_int> {
        let file = self.file.load(Acquire);
        let is = (self.device.load(Relaxed), self.inode.load(Relaxed));
        (identity(file)? == is).then_some(file)
    }

    pub(super) fn close(&self) {
        if let Some(file) = self.there() {
            // SAFETY: it is ours, and no other thread knows of it.
            unsafe { libc::close(file) };
        }
        self.file.store(-1, Relaxed);
    }
}

/// Its device and inode.
fn identity(file: c_int) -> Option<(u64, u64)> {
    // SAFETY: a plain struct, for which all zeros are a value, and which lives until the call returns.
    unsafe {
        let mut stat: libc::stat = mem::zeroed();
        let is_there = file >= 0 && libc::fstat(file, &raw mut stat) == 0;
        is_there.then_some((stat.st_dev, stat.st_ino))
    }
}

/// Not where a program that has closed its standard files believes these to be. Below 0: no file.
pub(super) fn above_standard(file: c_int) -> c_int {
    if !(0..=2).contains(&file) {
        return file;
    }
    // SAFETY: it is ours, and no other thread knows of it.
    unsafe {
        let above = libc::fcntl(file, libc::F_DUPFD_CLOEXEC, 3);
        libc::close(file);
        above
    }
}

/// A larger file would kill the program (SIGXFSZ).
pub(super) fn may_be_as_large_as(size: usize) -> bool {
    let mut most = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: it writes into what it is given.
    unsafe {
        libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut most) == 0 && most.rlim_cur >= size as u64
    }
}

/// Hands the memory to the reader that waits at that socket; within a second or not at all.
pub(super) fn report(file: c_int, reader: &[u8]) -> Option<c_int> {
    let name = reader.strip_prefix(b"@").filter(|name| !name.is_empty())?;
    // SAFETY: plain structs of the C library, for which all zeros are a value; what is passed lives
    // until the calls return.
    unsafe {
        let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
        let to = above_standard(libc::socket(libc::AF_UNIX, kind, 0));
        if to < 0 {
            return None;
        }
        let mut address: libc::sockaddr_un = mem::zeroed();
        address.sun_family = libc::AF_UNIX as libc::sa_family_t;
        ptr::copy_nonoverlapping(
            name.as_ptr(),
            address.sun_path.as_mut_ptr().add(1).cast(),
            name.len(),
        );
        let timeout = libc::timeval { tv_sec: 1, tv_usec: 0 };
        let size = size_of::<libc::timeval>() as libc::socklen_t;
        libc::setsockopt(
            to,
            libc::SOL_SOCKET,
            libc::SO_SNDTIMEO,
            (&raw const timeout).cast(),
            size,
        );
        let mut byte = *b"m";
        let mut text = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
        let mut rights = [0_u64; 8];
        let mut message: libc::msghdr = mem::zeroed();
        message.msg_iov = &raw mut text;
        message.msg_iovlen = 1;
        message.msg_control = rights.as_mut_ptr().cast();
        let four = size_of::<c_int>() as u32;
        message.msg_controllen = libc::CMSG_SPACE(four) as _;
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(four) as _;
        ptr::write_unaligned(libc::CMSG_DATA(header).cast::<c_int>(), file);
        let length = mem::offset_of!(libc::sockaddr_un, sun_path) + reader.len();
        let is_sent = libc::connect(to, (&raw const address).cast(), length as libc::socklen_t)
            == 0
            && libc::sendmsg(to, &raw const message, libc::MSG_NOSIGNAL) == 1;
        if is_sent {
            return Some(to);
        }
        libc::close(to);
        None
    }
}
