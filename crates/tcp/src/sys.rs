//! Socket options without a safe binding: `TCP_INFO` in the length that this kernel has, the name of the
//! congestion control without a string of its own, `SO_MAX_PACING_RATE` in 64 bits, and the settings of busy
//! polling.
#![allow(
    unsafe_code,
    reason = "getsockopt, setsockopt and one ioctl, with a buffer of ours and its length, and nothing else"
)]

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use libc::{c_int, socklen_t};

use crate::info::TcpInfo;
use crate::wire::{NAME, Name};

/// Longer than `struct tcp_info` of any kernel so far: 6.18 has 296 bytes.
const LONGEST: usize = 512;

/// What the kernel says of a connection; nothing known where it does not say.
pub(crate) fn tcp_info(socket: impl AsFd) -> TcpInfo {
    let mut written = [0; LONGEST];
    let length = get(socket, libc::IPPROTO_TCP, libc::TCP_INFO, &mut written).unwrap_or(0);
    TcpInfo::from_kernel(&written[..length])
}

/// The congestion control of a socket.
pub(crate) fn congestion(socket: impl AsFd) -> Name {
    let mut written = [0; NAME];
    match get(socket, libc::IPPROTO_TCP, libc::TCP_CONGESTION, &mut written) {
        Ok(_) => Name::from_bytes(written).unwrap_or_default(),
        Err(_) => Name::default(),
    }
}

/// Sends at most this many bytes a second.
pub(crate) fn set_pacing(socket: impl AsFd, bytes_a_second: u64) -> io::Result<()> {
    let option = libc::SO_MAX_PACING_RATE;
    // Kernels before 4.20 take 32 bits and no more; they read the first half of a longer value.
    set(socket, libc::SOL_SOCKET, option, &bytes_a_second.to_ne_bytes())
}

/// Did what came to a socket come by a queue of a card that can be asked for more (NAPI)? Over loopback, and
/// over virtual cards whose packets are handed to the other end at once, it does not.
pub(crate) fn can_be_polled(socket: impl AsFd) -> bool {
    let mut written = [0; size_of::<u32>()];
    let read = get(socket, libc::SOL_SOCKET, libc::SO_INCOMING_NAPI_ID, &mut written);
    read.is_ok() && u32::from_ne_bytes(written) != 0
}

/// While a thread waits with this epoll, the kernel polls the network cards of its sockets for this long
/// before it sleeps; `SO_BUSY_POLL` alone is for reads.
pub(crate) fn set_busy_poll(epoll: impl AsFd, microseconds: u32) -> io::Result<()> {
    // A budget of 0 is the kernel's own.
    let wanted = libc::epoll_params {
        busy_poll_usecs: microseconds,
        busy_poll_budget: 0,
        prefer_busy_poll: 0,
        __pad: 0,
    };
    // SAFETY: the kernel reads the structure, which is there and as long as the number of the ioctl says.
    let result =
        unsafe { libc::ioctl(epoll.as_fd().as_raw_fd(), libc::EPIOCSPARAMS, &raw const wanted) };
    if result == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    Err(match error.raw_os_error() {
        Some(libc::ENOTTY) => io::Error::other("epoll polls cards from Linux 6.9 on"),
        _ => error,
    })
}

fn get(socket: impl AsFd, level: c_int, option: c_int, buffer: &mut [u8]) -> io::Result<usize> {
    let mut length = socklen_t::try_from(buffer.len()).unwrap_or(0);
    // SAFETY: the kernel writes at most `length` bytes, which are there; `length` is ours, too.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            option,
            buffer.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((length as usize).min(buffer.len()))
}

fn set(socket: impl AsFd, level: c_int, option: c_int, value: &[u8]) -> io::Result<()> {
    let length = socklen_t::try_from(value.len()).unwrap_or(0);
    // SAFETY: the kernel reads at most `length` bytes, which are there.
    let result = unsafe {
        libc::setsockopt(socket.as_fd().as_raw_fd(), level, option, value.as_ptr().cast(), length)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The port that a socket has on this machine.
pub(crate) fn local_port(socket: &socket2::Socket) -> Option<u16> {
    socket.local_addr().ok()?.as_socket().map(|address| address.port())
}

#[cfg(test)]
mod tests {
    use rustix::event::epoll;

    use super::*;

    #[test]
    fn an_epoll_polls_for_as_long_as_it_is_told() {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        if let Err(error) = set_busy_poll(&epoll, 50) {
            eprintln!("skipped: {error}");
            return;
        }
        for microseconds in [70, 0] {
            set_busy_poll(&epoll, microseconds).unwrap();
            let none = 0xFF;
            let mut found = libc::epoll_params {
                busy_poll_usecs: u32::MAX,
                busy_poll_budget: u16::MAX,
                prefer_busy_poll: none,
                __pad: none,
            };
            // SAFETY: the kernel writes the structure, which is there.
            let result = unsafe {
                libc::ioctl(epoll.as_fd().as_raw_fd(), libc::EPIOCGPARAMS, &raw mut found)
            };
            assert_eq!((result, found.busy_poll_usecs), (0, microseconds));
        }
        let file = std::fs::File::open("/proc/self/stat").unwrap();
        assert!(set_busy_poll(&file, 50).is_err(), "not an epoll");
    }
}
