//! What befalls a single connection.

use std::fmt;

use rustix::io::Errno;
use serde::{Serialize, Serializer};

use crate::status::Status;

/// Why a connection did not do what it was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// No server listens there.
    Refused,
    /// The peer, or something between, cut it.
    Reset,
    /// No answer to the handshake.
    ConnectTimeout,
    /// Nothing moved for as long as it may.
    Stalled,
    /// No descriptor, or no memory for a socket.
    Descriptors,
    /// No local port is free.
    Ports,
    /// There is no way there.
    Unreachable,
    /// The peer closed it before it was through.
    Closed,
    /// The peer speaks something else.
    NotNightwatt,
    /// The peer is of another version.
    Version,
    /// The server said no.
    Denied(Status),
    /// The payload is not the pattern, or a message makes no sense.
    Corrupt,
    /// There came more than was asked for, or the server has seen another number than was sent.
    Count,
    /// Our kernel refused an option of the socket.
    Option,
    /// It was cut off by us: the run was over.
    Cut,
}

impl Fault {
    /// All but the kinds of refusals, by code.
    const ALL: [Self; 15] = [
        Self::Refused,
        Self::Reset,
        Self::ConnectTimeout,
        Self::Stalled,
        Self::Descriptors,
        Self::Ports,
        Self::Unreachable,
        Self::Closed,
        Self::NotNightwatt,
        Self::Version,
        Self::Denied(Status::Malformed),
        Self::Corrupt,
        Self::Count,
        Self::Option,
        Self::Cut,
    ];

    /// Its place in counts, and its code in reports.
    pub(crate) fn code(self) -> usize {
        let same = |other: &Self| {
            matches!((self, other), (Self::Denied(_), Self::Denied(_))) || *other == self
        };
        Self::ALL.iter().position(same).unwrap_or(0)
    }

    /// The one with a code.
    pub(crate) fn of(code: usize) -> Option<Self> {
        Self::ALL.get(code).copied()
    }

    /// How many there are to count.
    pub(crate) const COUNT: usize = Self::ALL.len();

    /// In one word, as in `--json`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Reset => "reset",
            Self::ConnectTimeout => "connect-timeout",
            Self::Stalled => "stalled",
            Self::Descriptors => "descriptors",
            Self::Ports => "ports",
            Self::Unreachable => "unreachable",
            Self::Closed => "closed",
            Self::NotNightwatt => "not-nightwatt",
            Self::Version => "version",
            Self::Denied(_) => "denied",
            Self::Corrupt => "corrupt",
            Self::Count => "count",
            Self::Option => "option",
            Self::Cut => "cut",
        }
    }

    /// Would every other connection fare the same?
    pub(crate) const fn ends_the_run(self) -> bool {
        matches!(
            self,
            Self::Descriptors | Self::Ports | Self::NotNightwatt | Self::Version | Self::Option
        ) || matches!(
            self,
            Self::Denied(Status::Version | Status::Malformed | Status::Congestion | Status::Option)
        )
    }

    /// Of what a system call said of a connection.
    pub(crate) fn of_errno(errno: Errno) -> Self {
        match errno {
            Errno::CONNREFUSED => Self::Refused,
            Errno::TIMEDOUT => Self::ConnectTimeout,
            Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM => Self::Descriptors,
            // connect(2) has both for "all ports of the local range are in use".
            Errno::ADDRNOTAVAIL | Errno::AGAIN => Self::Ports,
            Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::NETDOWN | Errno::HOSTDOWN => {
                Self::Unreachable
            }
            _ => Self::Reset,
        }
    }
}

impl Serialize for Fault {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Refused => "no program listens there (connection refused)",
            Self::Reset => "the connection was reset",
            Self::ConnectTimeout => "the server does not answer the handshake",
            Self::Stalled => "nothing moved for longer than `--timeout`",
            Self::Descriptors => "no descriptor was free",
            Self::Ports => "no local port was free",
            Self::Unreachable => "there is no way there",
            Self::Closed => "the server went away before the end",
            Self::NotNightwatt => "what answers there is no `nightwatt tcp serve`",
            Self::Version => "the server speaks another version of the protocol",
            Self::Denied(_) => "the server refused",
            Self::Corrupt => "what came is not what was sent",
            Self::Count => "the two ends have counted different numbers of bytes",
            Self::Option => "this kernel refused an option of the socket",
            Self::Cut => "it was cut off at the end of the run",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_lead_back_to_their_faults() {
        for (code, fault) in Fault::ALL.into_iter().enumerate() {
            assert_eq!((fault.code(), Fault::of(code)), (code, Some(fault)));
        }
        assert_eq!(Fault::Denied(Status::Full).code(), Fault::Denied(Status::Malformed).code());
        assert_eq!(Fault::of(Fault::COUNT), None);
    }

    #[test]
    fn what_connect_says_is_told_by_its_kind() {
        // connect(2): "All port numbers in the ephemeral port range are currently in use."
        assert_eq!(Fault::of_errno(Errno::ADDRNOTAVAIL), Fault::Ports);
        assert_eq!(Fault::of_errno(Errno::CONNREFUSED), Fault::Refused);
        assert_eq!(Fault::of_errno(Errno::MFILE), Fault::Descriptors);
        assert_eq!(Fault::of_errno(Errno::HOSTUNREACH), Fault::Unreachable);
    }
}
