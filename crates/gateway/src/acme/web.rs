//! HTTP to an authority: one connection per request, about a dozen per order.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use nightwatt_host::http::send;
use rustls::ClientConfig;

/// HTTP requests to servers that this TLS configuration trusts.
pub(super) struct Web(pub(super) Arc<ClientConfig>);

impl HttpClient for Web {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let tls = Arc::clone(&self.0);
        Box::pin(async move {
            let answer = send(Some(&tls), request).await;
            answer.map(BytesResponse::from).map_err(|error| Error::Other(Box::new(error)))
        })
    }
}
