//! What listeners serve connections with, as one configuration has it.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::passthrough::{Door, Services};
use crate::serving::Serving;
use crate::tls::Tls;

/// What listeners serve connections with. After a reload another one stands in its place.
pub(crate) struct Front {
    pub(crate) serving: Arc<Serving>,
    pub(crate) tls: Option<Arc<Tls>>,
    /// What is passed through.
    pub(crate) services: Arc<Services>,
    /// What is behind each address at which connections for services come in.
    pub(crate) doors: Vec<(SocketAddr, Arc<Door>)>,
}
