//! The site or machine that the files go to, behind a running gateway: it is woken, and kept awake while they are sent.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueHint;
use nightwatt_clock::Clock;
use nightwatt_clock::meter::monotonic;
use nightwatt_energy::time::Mono;
use nightwatt_gateway::control::Order;

use crate::args::{ConfigArgs, GatewayArgs};
use crate::control;
use crate::errors::Failure;
use crate::output;

/// Which one.
#[derive(Debug, clap::Args)]
pub(crate) struct SiteArgs {
    /// Wake this site or machine of a running `nightwatt serve` first, and keep it awake while sending
    #[arg(long, value_name = "NAME")]
    pub(crate) to_site: Option<String>,
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
    /// The gateway's control socket, instead of the one that the configuration names
    #[arg(long, value_name = "PATH", conflicts_with = "config", requires = "to_site", value_hint = ValueHint::FilePath)]
    pub(crate) socket: Option<PathBuf>,
}

/// It is held for this time after the last order: if this program is killed, its policy decides again then.
const HOLD: Duration = Duration::from_mins(3);
/// Time between two orders.
const RENEW: Duration = Duration::from_secs(30);
/// A machine that is not up by then does not come up.
const WAKE: Duration = Duration::from_mins(10);
/// Time between two looks at whether it is awake.
const LOOK: Duration = Duration::from_millis(250);

/// A site that is kept awake.
pub(crate) struct Kept {
    gateway: GatewayArgs,
    name: String,
    /// Tells this program's hold from others'.
    holder: u64,
    renew_at: Mono,
}

impl Kept {
    /// Wakes it, and waits until it is awake; nothing if no site was named.
    pub(crate) fn awake(args: &SiteArgs) -> Result<Option<Self>, Failure> {
        let Some(name) = args.to_site.clone() else { return Ok(None) };
        let gateway = GatewayArgs {
            config: ConfigArgs { config: args.config.config.clone() },
            socket: args.socket.clone(),
            json: false,
        };
        let mut holder = [0; 8];
        getrandom::fill(&mut holder)
            .map_err(|error| Failure::because("cannot draw a random number", &error))?;
        let holder = u64::from_le_bytes(holder);
        let mut kept = Self { gateway, name, holder, renew_at: Mono::ZERO };
        // It is there.
        kept.state()?;
        kept.hold()?;
        match kept.until_awake() {
            Ok(()) => Ok(Some(kept)),
            Err(failure) => {
                kept.release();
                Err(failure)
            }
        }
    }

    fn until_awake(&mut self) -> Result<(), Failure> {
        let clock = Clock::real();
        let runtime = clock.runtime().map_err(|error| Failure::because("cannot start", &error))?;
        let until = monotonic() + WAKE;
        loop {
            let state = self.state()?;
            let name = &self.name;
            match state.as_str() {
                "awake" => return Ok(()),
                "failed" => {
                    return Err(Failure::new(format!("`{name}` does not wake")).hint(format!(
                        "`nightwatt status {name}` says why, `nightwatt doctor` finds the cause"
                    )));
                }
                _ if monotonic() >= until => {
                    return Err(Failure::new(format!(
                        "`{name}` is still {state} after 10 minutes"
                    ))
                    .hint(format!("`nightwatt status {name}` shows what it is doing")));
                }
                _ => runtime.block_on(clock.sleep(LOOK)),
            }
            self.keep();
        }
    }

    fn state(&self) -> Result<String, Failure> {
        let status = control::status(&self.gateway)?;
        let sites = status.sites.into_iter().map(|site| (site.name, site.state));
        let machines = status.machines.into_iter().map(|machine| (machine.name, machine.state));
        let mut all: Vec<(String, String)> = sites.chain(machines).collect();
        let place = all.iter().position(|(name, _)| *name == self.name);
        let Some(place) = place else {
            let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
            return Err(Failure::new(format!("there is no site or machine `{}`", self.name))
                .into_usage()
                .hint(format!("there are: {}", names.join(", "))));
        };
        Ok(all.swap_remove(place).1)
    }

    fn hold(&mut self) -> Result<(), Failure> {
        self.renew_at = monotonic() + RENEW;
        let (site, holder) = (Some(self.name.clone()), self.holder);
        let order = Order::Hold { site, holder, seconds: HOLD.as_secs() };
        control::order(&self.gateway, &order)
    }

    /// Orders it again to stay awake when that is due.
    pub(crate) fn keep(&mut self) {
        if monotonic() >= self.renew_at
            && let Err(failure) = self.hold()
        {
            output::complain(&format!("warning: cannot keep `{}` awake\n{failure}", self.name));
        }
    }

    /// Lets it sleep if it was asleep before and nothing else wants it awake; else its policy decides.
    pub(crate) fn release(self) {
        let order = Order::Release { site: Some(self.name.clone()), holder: self.holder };
        if let Err(failure) = control::order(&self.gateway, &order) {
            output::complain(&format!("warning: cannot let `{}` sleep\n{failure}", self.name));
        }
    }
}
