//! Connections that stop speaking HTTP.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use crate::transport::Wire;

/// A client's connection after `101 Switching Protocols`.
pub struct Upgraded {
    /// The connection.
    pub stream: Box<dyn Wire>,
    /// What the client had sent already, behind its request.
    pub read_ahead: Bytes,
}

type Run = Box<dyn FnOnce(Upgraded) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// What becomes of the connection after an answer of status 101: one of its extensions.
#[derive(Clone)]
pub struct Tunnel(Arc<Mutex<Option<Run>>>);

impl Tunnel {
    /// Drives the connection to its end.
    pub fn new<F>(run: impl FnOnce(Upgraded) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let run: Run = Box::new(move |upgraded| Box::pin(run(upgraded)));
        Self(Arc::new(Mutex::new(Some(run))))
    }

    pub(crate) async fn run(self, upgraded: Upgraded) {
        let run = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(run) = run {
            run(upgraded).await;
        }
    }
}

impl std::fmt::Debug for Tunnel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tunnel").finish_non_exhaustive()
    }
}
