//! How a server takes a request.

/// How a server takes a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It does what was asked.
    Fine,
    /// It speaks another version.
    Version,
    /// A field of the request is wrong.
    Malformed,
    /// Its kernel does not have that congestion control.
    Congestion,
    /// It has as many connections as it may.
    Full,
    /// Its kernel refused an option.
    Option,
    /// It does not know the session any more.
    Session,
}

impl Status {
    const ALL: [Self; 7] = [
        Self::Fine,
        Self::Version,
        Self::Malformed,
        Self::Congestion,
        Self::Full,
        Self::Option,
        Self::Session,
    ];

    pub(crate) fn of(byte: u8) -> Option<Self> {
        Self::ALL.get(usize::from(byte)).copied()
    }
}
