//! What listeners need to serve connections, for one configuration.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::datagrams;
use crate::passthrough::{PassthroughListener, Services};
use crate::serving::Serving;
use crate::tls::Tls;

/// What listeners need to serve connections. A reload replaces it.
pub(crate) struct Front {
    pub(crate) serving: Arc<Serving>,
    pub(crate) tls: Option<Arc<Tls>>,
    /// The services that are passed through.
    pub(crate) services: Arc<Services>,
    /// The services of datagrams.
    pub(crate) datagrams: Arc<datagrams::Services>,
    /// The services behind each address for connections that are passed through.
    pub(crate) passthrough_listeners: Vec<(SocketAddr, Arc<PassthroughListener>)>,
}
