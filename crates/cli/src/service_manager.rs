//! Notifies systemd of the state of the service, and receives the sockets that systemd opened for it.
//!
//! Each notification is one datagram: `READY=1`, `RELOADING=1`, `STOPPING=1`, `WATCHDOG=1` (`sd_notify(3)`). Without a
//! service manager nothing is sent.
#![expect(
    unsafe_code,
    reason = "descriptors that a process is started with are known by their numbers only"
)]

use std::net::{SocketAddr, TcpListener};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixDatagram};
use std::time::Duration;

use nightwatt_clock::meter::monotonic;
use nightwatt_gateway::Inherited;
use rustix::io::FdFlags;

use crate::errors::Failure;

/// The first descriptor that is handed over (`sd_listen_fds(3)`).
const FIRST: RawFd = 3;

/// The service manager that started this process, if it wants to be notified.
pub(crate) struct ServiceManager {
    to: Option<(UnixDatagram, UnixAddr)>,
    watchdog: Option<Duration>,
}

impl ServiceManager {
    /// Reads the environment (`NOTIFY_SOCKET`, `WATCHDOG_USEC`).
    pub(crate) fn from_environment() -> Result<Self, Failure> {
        let variable = |name| std::env::var(name).ok().filter(|it| !it.is_empty());
        let Some(name) = variable("NOTIFY_SOCKET") else {
            return Ok(Self { to: None, watchdog: None });
        };
        let address = match name.strip_prefix('@') {
            Some(name) => UnixAddr::from_abstract_name(name),
            None => UnixAddr::from_pathname(&name),
        };
        let socket = UnixDatagram::unbound();
        let to = address.and_then(|address| Ok((socket?, address)));
        let to = to.map_err(|error| {
            Failure::because(format!("cannot use NOTIFY_SOCKET `{name}`"), &error)
                .hint("systemd sets it; elsewhere unset it")
        })?;
        to.0.set_nonblocking(true)
            .map_err(|error| Failure::because("cannot use NOTIFY_SOCKET", &error))?;
        // Ignore a watchdog that is meant for another process.
        let own = std::process::id().to_string();
        let is_ours = variable("WATCHDOG_PID").is_none_or(|pid| pid == own);
        let every = variable("WATCHDOG_USEC").filter(|_| is_ours).and_then(|it| it.parse().ok());
        let watchdog = every.filter(|it| *it > 0).map(Duration::from_micros);
        Ok(Self { to: Some(to), watchdog })
    }

    /// How often the service manager wants to hear that the service is alive: half of its watchdog timeout.
    pub(crate) fn hears_every(&self) -> Option<Duration> {
        self.watchdog.map(|it| it / 2)
    }

    fn notify(&self, state: &str) {
        if let Some((socket, address)) = &self.to
            && let Err(error) = socket.send_to_addr(state.as_bytes(), address)
        {
            tracing::warn!(%error, "the service manager does not hear us");
        }
    }

    /// The service is ready.
    pub(crate) fn ready(&self) {
        self.notify("READY=1\nSTATUS=serving");
    }

    /// The service reads its configuration again; [`ready`](Self::ready) ends that.
    pub(crate) fn reloading(&self) {
        let now = monotonic().0.as_micros();
        self.notify(&format!(
            "RELOADING=1\nMONOTONIC_USEC={now}\nSTATUS=reading the configuration"
        ));
    }

    /// The service is alive: notifies the watchdog.
    pub(crate) fn well(&self) {
        self.notify("WATCHDOG=1");
    }

    /// The service is stopping.
    pub(crate) fn stopping(&self) {
        self.notify("STOPPING=1\nSTATUS=letting running exchanges end");
    }

    /// Another process is the service from now on.
    pub(crate) fn replaced_by(&self, pid: i32) {
        self.notify(&format!("MAINPID={pid}\nREADY=1\nSTATUS=serving, after a hand-over"));
    }
}

/// Removes from the environment what is meant for this process alone: child processes must neither send notifications
/// in its name nor be stopped by its watchdog.
pub(crate) fn forget_environment() {
    for name in [
        "NOTIFY_SOCKET",
        "WATCHDOG_USEC",
        "WATCHDOG_PID",
        "LISTEN_FDS",
        "LISTEN_PID",
        "LISTEN_FDNAMES",
    ] {
        // SAFETY: this is called at the start, while there is no other thread.
        unsafe { std::env::remove_var(name) };
    }
}

/// The sockets that systemd opened for this process (`LISTEN_FDS`), by the addresses they listen on. Must be called
/// once, before anything else is opened.
pub(crate) fn sockets() -> Result<Inherited, Failure> {
    let number = |name| std::env::var(name).ok().and_then(|it| it.parse::<u32>().ok());
    let is_ours = number("LISTEN_PID") == Some(std::process::id());
    let count = number("LISTEN_FDS").filter(|_| is_ours).unwrap_or(0);
    let last = FIRST.saturating_add(i32::try_from(count).unwrap_or(0));
    let sockets: Result<Vec<_>, Failure> = (FIRST..last).map(adopt).collect();
    Ok(Inherited::new(sockets?))
}

fn adopt(number: RawFd) -> Result<(SocketAddr, TcpListener), Failure> {
    let wrong = |error: std::io::Error| {
        Failure::because(format!("descriptor {number} of LISTEN_FDS is no TCP socket"), &error)
            .hint("the .socket unit may have `ListenStream=ADDRESS:PORT` only")
    };
    // SAFETY: LISTEN_PID says that these descriptors were opened for this process; nothing else here knows
    // their numbers, and this is called once, before anything is opened.
    let socket = unsafe { OwnedFd::from_raw_fd(number) };
    // Child processes must not keep it open.
    rustix::io::fcntl_setfd(&socket, FdFlags::CLOEXEC).map_err(|error| wrong(error.into()))?;
    let listener = TcpListener::from(socket);
    let address = listener.local_addr().map_err(wrong)?;
    Ok((address, listener))
}
