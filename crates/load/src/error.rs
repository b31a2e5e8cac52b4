//! What keeps a replay, a load or an origin from running at all.

/// Why it did not start, or could not go on. What befalls a single request is an
/// [`ErrorKind`](crate::ErrorKind) in its outcome.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The base URL cannot be used.
    #[error("cannot replay against `{url}`: {why}")]
    BaseUrl {
        /// As given.
        url: String,
        /// What to do about it.
        why: &'static str,
    },
    /// The host of the base URL has no address.
    #[error("cannot find the address of `{host}`; check its name, or give an address")]
    Resolve {
        /// The name that was looked up.
        host: String,
        /// What the resolver said.
        #[source]
        source: std::io::Error,
    },
    /// Speed must be a positive number.
    #[error("cannot replay at speed {0}: give a positive number, 1 for the log's own pace")]
    Speed(f64),
    /// Virtual time jumps by itself; dividing intervals as well would only distort them.
    #[error("virtual time runs at speed 1: leave the speed out, it jumps over idle time by itself")]
    SpeedInVirtualTime,
    /// The record of served requests cannot be opened or written.
    #[error("cannot write the record of requests to `{path}`")]
    Record {
        /// Where it was to be.
        path: std::path::PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The files of the origin's site cannot be read.
    #[error("cannot read the files of the site from `{path}`: {source}")]
    Site {
        /// Where they are.
        path: std::path::PathBuf,
        /// What is wrong.
        source: std::io::Error,
    },
    /// The origin's socket failed.
    #[error("the origin's socket failed")]
    Socket(#[source] std::io::Error),
    /// A URL of the mix cannot be asked for.
    #[error("cannot ask for `{url}`: {why}")]
    Url {
        /// As given.
        url: String,
        /// What is wrong, and what to do about it.
        why: &'static str,
    },
    /// A header field cannot be sent.
    #[error("cannot send the field `{name}`: {why}")]
    Field {
        /// Its name, as given.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// There is not a single URL with a weight.
    #[error("there is nothing to ask for: give at least one URL with a weight above 0")]
    NothingToAsk,
    /// The system does not allow so many descriptors.
    #[error(
        "{wanted} connections need {needed} descriptors, and this system allows {allowed}; raise the \
         hard limit (`ulimit -Hn {needed}`, LimitNOFILE=), or use fewer `--connections`"
    )]
    Descriptors {
        /// Connections that were asked for.
        wanted: usize,
        /// Descriptors that they need, with our own.
        needed: u64,
        /// The hard limit.
        allowed: u64,
    },
    /// There are fewer ports than connections.
    #[error(
        "{wanted} connections need a port each, and this system has {ports} for them; widen \
         net.ipv4.ip_local_port_range, or use fewer `--connections`"
    )]
    Ports {
        /// Connections that were asked for.
        wanted: usize,
        /// Ports of the local range.
        ports: u64,
    },
    /// What is to be watched as the server is not there, or says nothing.
    #[error(
        "there is no {0} on this machine, or it may not be read; leave it out, or name another"
    )]
    NoServer(String),
    /// A thread of the generator could not be started, or could not wait.
    #[error("a thread of the load generator failed")]
    Threads(#[source] std::io::Error),
    /// A thread of the generator panicked: a bug.
    #[error("a thread of the load generator panicked; please report this")]
    Panicked,
}
