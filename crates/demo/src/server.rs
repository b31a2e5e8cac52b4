//! The server of the play: a real process, with the scenario's times around its start and stop.

use std::net::SocketAddr;
use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_policy::scenario::Server;
use nightwatt_power::process::{self, Process};
use nightwatt_power::{ConfigError, Context, Controller, Error, Observed, Work};
use tokio::net::TcpStream;

/// How long, in real time, the process may take until it listens.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Between two looks whether it listens yet.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// A process that takes as long as a machine to wake and to fall asleep.
#[derive(Debug)]
pub(super) struct PacedProcess {
    process: Process,
    address: SocketAddr,
    clock: Clock,
    wake_time: Duration,
    sleep_time: Duration,
}

impl PacedProcess {
    pub(super) fn new(
        command: &process::Config,
        address: SocketAddr,
        server: &Server,
        context: &Context,
    ) -> Result<Self, ConfigError> {
        Ok(Self {
            process: command.build(context)?,
            address,
            clock: context.clock.clone(),
            wake_time: server.wake_time,
            sleep_time: server.sleep_time,
        })
    }

    /// Starts the process and waits until it listens. That is real work, during which virtual time
    /// stands still: a machine's `wake_time` has it in already.
    pub(super) async fn start(&self) -> Result<(), Error> {
        let _debt = self.clock.owe();
        self.process.wake().await?;
        #[expect(clippy::disallowed_methods, reason = "the process lives in real time")]
        let listening = tokio::time::timeout(TIMEOUT, async {
            while !self.listens().await && self.process.state().await? == Observed::Up {
                tokio::time::sleep(LOOK_EVERY).await;
            }
            Ok(())
        });
        // If it never does, the proxy's probe will find out and say so.
        listening.await.unwrap_or(Ok(()))
    }

    /// Does it answer?
    pub(super) async fn listens(&self) -> bool {
        TcpStream::connect(self.address).await.is_ok()
    }

    /// Stops the process.
    pub(super) async fn stop(&self) -> Result<(), Error> {
        self.process.sleep().await
    }
}

/// The proxy and the stage hold the same server.
#[derive(Debug, Clone)]
pub(super) struct Shared(pub(super) std::sync::Arc<PacedProcess>);

impl Controller for Shared {
    fn wake(&self) -> Work<'_, ()> {
        Box::pin(async {
            self.0.clock.sleep(self.0.wake_time).await;
            self.0.start().await
        })
    }

    fn sleep(&self) -> Work<'_, ()> {
        Box::pin(async {
            self.0.stop().await?;
            self.0.clock.sleep(self.0.sleep_time).await;
            Ok(())
        })
    }

    fn state(&self) -> Work<'_, Observed> {
        self.0.process.state()
    }
}
