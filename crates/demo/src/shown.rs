//! The play before an audience: its day passes slowly enough to be watched, and its stage stays until
//! the audience leaves.

use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_clock::meter::Stop;

/// The dashboard's password for commands. It protects nothing: the server is a process of the demo's own,
/// and the address belongs to this machine unless the user sets another one.
pub const PASSWORD: &str = "sleep-well-demo";

/// Interval between two steps of the clock.
const STEP: Duration = Duration::from_millis(40);

/// What is shown, and for how long.
#[derive(Debug, Clone)]
pub struct Shown {
    /// Where the dashboard is to be.
    pub address: SocketAddr,
    /// How long a day takes to watch; nothing: as long as it has to.
    pub day_in: Duration,
    /// Called when all requests are answered; from then on time passes as in reality.
    pub day_is_over: fn(),
    /// Says when the audience leaves.
    pub stop: Stop,
}

impl Shown {
    /// Lets virtual time pass at this many times the speed of real time, or as it wants to, until the
    /// audience leaves.
    pub(super) async fn pace(&self, clock: &Clock, times: Option<f64>) {
        let real = Clock::real();
        let mut still = times.map(|_| clock.owe());
        let mut last = real.now().mono;
        while !self.stop.is_stopped() {
            real.sleep(STEP).await;
            let now = real.now().mono;
            if let Some(times) = times.filter(|_| clock.is_virtual()) {
                let target = clock.now().mono + now.since(last).mul_f64(times);
                drop(still.take());
                clock.sleep_until(target).await;
                still = Some(clock.owe());
            }
            last = now;
        }
        drop(still);
    }

    /// How many times faster than real time the day passes.
    pub(super) fn speed(&self) -> Option<f64> {
        let day = Duration::from_hours(24).as_secs_f64();
        (!self.day_in.is_zero()).then(|| day / self.day_in.as_secs_f64())
    }
}

/// A file with the password.
pub(super) fn password_file(dir: &Path) -> std::io::Result<PathBuf> {
    let path = dir.join("dashboard.password");
    let mut options = std::fs::File::options();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&path)?;
    writeln!(file, "{PASSWORD}")?;
    Ok(path)
}
