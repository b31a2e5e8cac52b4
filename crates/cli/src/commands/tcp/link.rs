//! `nightwatt tcp link`: what the laboratory runs at the ends of a link, and between them. Each says
//! `ready` when it is, and a JSON object at its end.

use std::io::{self, Write};
use std::time::Duration;

use nightwatt_netlab::ends::agent;
use nightwatt_netlab::probe::{self, Asking};
use nightwatt_netlab::relay::{Relay, Way};

use crate::ExitStatus;
use crate::args::{TcpLinkArgs, TcpLinkStep};
use crate::errors::Failure;
use crate::{output, signals};

/// Does one of them.
pub(crate) fn run(args: &TcpLinkArgs) -> Result<ExitStatus, Failure> {
    let stop = signals::stop_on_signals()?;
    match &args.step {
        TcpLinkStep::Relay { first, second, card, delay_us, rate, queue, loss, seed } => {
            let way = |seed| Way {
                delay: Duration::from_micros(*delay_us),
                bits_per_second: *rate,
                queue: *queue,
                loss: *loss,
                seed,
            };
            let relay = Relay {
                namespaces: [first.clone(), second.clone()],
                card: card.clone(),
                ways: [way(*seed), way(!*seed)],
            };
            let relayed =
                relay.run(&stop, || say("ready")).map_err(|it| super::lab::failure(&it))?;
            output::say_json(&relayed)?;
        }
        TcpLinkStep::Count { card } => {
            agent::answer(card, io::stdin().lock(), io::stdout().lock(), &stop)
                .map_err(|it| super::lab::failure(&it))?;
        }
        TcpLinkStep::Answer { listen } => {
            probe::answer(*listen, &stop, |at| say(&format!("ready {at}")))
                .map_err(|it| super::lab::failure(&it))?;
        }
        TcpLinkStep::Ask { asking } => {
            let asking: Asking = serde_json::from_str(asking).map_err(|error| {
                Failure::because("what is to be asked is no JSON object of that form", &error)
                    .into_usage()
            })?;
            say("ready").map_err(|error| Failure::because("cannot say that it begins", &error))?;
            let probed = probe::ask(&asking, &stop).map_err(|it| super::lab::failure(&it))?;
            output::say_json(&probed)?;
        }
    }
    Ok(ExitStatus::Success)
}

/// Whoever waits for it hears it at once.
fn say(line: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{line}")?;
    stdout.flush()
}
