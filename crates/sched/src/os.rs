//! Calls that no safe crate has.
#![expect(unsafe_code, reason = "signalfd and sched_setscheduler have no safe wrapper")]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::ptr;

/// The policy of tasks that a sched_ext scheduler gets (include/uapi/linux/sched.h).
const SCHED_EXT: libc::c_int = 7;

/// Becomes readable when SIGINT, SIGTERM or SIGHUP comes, which end nothing by themselves from now on.
pub(crate) fn ending_signals() -> io::Result<OwnedFd> {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset initialises the set, and the other calls only read and write it.
    let file = unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        if libc::sigprocmask(libc::SIG_BLOCK, set.as_ptr(), ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
        libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC)
    };
    if file < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made it, and nothing else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(file) })
}

/// From now on a sched_ext scheduler schedules this process, and what it starts.
pub(crate) fn become_ext() -> io::Result<()> {
    // SAFETY: all fields are numbers, for which 0 is valid; the policy wants a priority of 0.
    let parameters: libc::sched_param = unsafe { MaybeUninit::zeroed().assume_init() };
    // SAFETY: the kernel only reads the parameters.
    match unsafe { libc::sched_setscheduler(0, SCHED_EXT, &raw const parameters) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
