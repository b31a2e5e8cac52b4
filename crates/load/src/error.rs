//! What keeps a replay or an origin from running at all.

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
    /// The origin's socket failed.
    #[error("the origin's socket failed")]
    Socket(#[source] std::io::Error),
}
