//! Connects to the first address of a device that answers.

use nightwatt_clock::connect::connect_blocking;
use ureq::unversioned::transport::{ConnectionDetails, Connector, TcpConnector, Transport};

/// Passes only the address that answers first on to [`TcpConnector`], which tries several one after the other and
/// gives the first of two two thirds of the time.
#[derive(Debug, Default)]
pub(super) struct FirstToAnswer(TcpConnector);

impl<In: Transport> Connector<In> for FirstToAnswer {
    type Out = <TcpConnector as Connector<In>>::Out;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        chained: Option<In>,
    ) -> Result<Option<Self::Out>, ureq::Error> {
        if details.addrs.len() < 2 || chained.is_some() {
            return self.0.connect(details, chained);
        }
        let first =
            connect_blocking(details.addrs.iter().copied(), *details.timeout.after)?.peer_addr()?;
        let mut addrs = details.resolver.empty();
        addrs.push(first);
        let details = ConnectionDetails {
            addrs,
            uri: details.uri,
            config: details.config,
            request_level: details.request_level,
            resolver: details.resolver,
            now: details.now,
            timeout: details.timeout,
            current_time: details.current_time.clone(),
            run_connector: details.run_connector.clone(),
            register_shutdown: details.register_shutdown.clone(),
        };
        self.0.connect(&details, chained)
    }
}
