//! Options of a connection's socket.

use std::io;

use socket2::Socket;

use crate::sys;
use crate::wire::Name;

/// What is set of a socket; what is 0 or empty is left as the system has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SocketOptions {
    /// Congestion control.
    pub congestion: Name,
    /// Send at most this many bytes a second.
    pub pacing: u64,
    /// Send buffer, bytes (the kernel doubles it for its own needs).
    pub send_buffer: u32,
    /// Receive buffer, bytes (the kernel doubles it for its own needs).
    pub receive_buffer: u32,
    /// Look at the card for this many microseconds before sleeping; the loop's epoll does so as well.
    pub busy_poll: u32,
    /// Send small pieces at once.
    pub nodelay: bool,
    /// The largest segment, bytes.
    pub mss: u16,
}

impl SocketOptions {
    /// Sets them all; returns which was refused.
    pub(crate) fn set(&self, socket: &Socket) -> Result<(), (&'static str, io::Error)> {
        let option = |name: &'static str, wanted: bool, set: &dyn Fn() -> io::Result<()>| {
            if wanted { set().map_err(|error| (name, error)) } else { Ok(()) }
        };
        let congestion = || socket.set_tcp_congestion(self.congestion.as_str().as_bytes());
        option("--congestion", !self.congestion.is_none(), &congestion)?;
        option("--pacing", self.pacing > 0, &|| sys::set_pacing(socket, self.pacing))?;
        let send = self.send_buffer as usize;
        option("--send-buffer", send > 0, &|| socket.set_send_buffer_size(send))?;
        let receive = self.receive_buffer as usize;
        option("--receive-buffer", receive > 0, &|| socket.set_recv_buffer_size(receive))?;
        option("--busy-poll", self.busy_poll > 0, &|| socket.set_busy_poll(self.busy_poll))?;
        option("--nodelay", self.nodelay, &|| socket.set_tcp_nodelay(true))?;
        option("--mss", self.mss > 0, &|| socket.set_tcp_mss(u32::from(self.mss)))
    }
}
