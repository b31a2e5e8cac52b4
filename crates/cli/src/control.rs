//! Communicates with a running gateway over its local socket.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_gateway::clients::{ClientStatus, Forgiven};
use nightwatt_gateway::control::{self, ControlError, Order, Reply};
use nightwatt_gateway::mirror::orders::MirrorReply;
use nightwatt_gateway::status::Status;
use nightwatt_gateway::{Config, ConfigError, Reloaded};
use serde_json::json;

use crate::ExitStatus;
use crate::args::{ClientArgs, ConfigArgs, GatewayArgs};
use crate::errors::Failure;
use crate::output;

/// A gateway that does not answer within this time hangs.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Reads the configuration.
pub(crate) fn load(args: &ConfigArgs) -> Result<Config, Failure> {
    Config::load(&args.config).map_err(|error| unusable(args, &error))
}

/// The same for a gateway that serves with it.
pub(crate) fn load_to_serve(args: &ConfigArgs) -> Result<Config, Failure> {
    Config::load_to_serve(&args.config).map_err(|error| unusable(args, &error))
}

fn unusable(args: &ConfigArgs, error: &ConfigError) -> Failure {
    let path = args.config.display();
    let hint = match error {
        ConfigError::Unreadable { source, .. } if source.kind() == ErrorKind::IsADirectory => {
            format!("it is a folder: name the file, as in `-c {path}/nightwatt.toml`")
        }
        ConfigError::Unreadable { source, .. } if source.kind() == ErrorKind::InvalidData => {
            "it is not a text in UTF-8: `-c FILE` names a configuration".to_owned()
        }
        ConfigError::Unreadable { .. } => {
            "run `nightwatt init` to write one, or give its path with `-c FILE`".to_owned()
        }
        ConfigError::Invalid { .. } => {
            format!("correct it, then `nightwatt check -c {path}` says what it means")
        }
    };
    Failure::usage(error).hint(hint)
}

/// Asks for the gateway's status.
pub(crate) fn status(args: &GatewayArgs) -> Result<Status, Failure> {
    match ask(args, &Order::Status)? {
        Reply::Status(status) => Ok(*status),
        Reply::Error(message) => Err(refused(message)),
        _ => Err(unexpected()),
    }
}

/// Asks what the sites know about a client.
pub(crate) fn why(args: &ClientArgs) -> Result<Vec<ClientStatus>, Failure> {
    let ClientArgs { client, agent, site, gateway } = args;
    let (client, agent, site) = (client.to_string(), agent.clone(), site.clone());
    match ask(gateway, &Order::Why { client, agent, site })? {
        Reply::Why(known) => Ok(known),
        Reply::Error(message) => Err(refused(message)),
        _ => Err(unexpected()),
    }
}

/// Makes the gateway forget what a client did, and restore its budgets.
pub(crate) fn forgive(args: &ClientArgs) -> Result<Forgiven, Failure> {
    let ClientArgs { client, agent, site, gateway } = args;
    let (client, agent, site) = (client.to_string(), agent.clone(), site.clone());
    match ask(gateway, &Order::Forgive { client, agent, site })? {
        Reply::Forgiven(forgiven) => Ok(forgiven),
        Reply::Error(message) => Err(refused(message)),
        _ => Err(unexpected()),
    }
}

/// Makes the gateway forget stored answers; returns how many.
pub(crate) fn purge(args: &GatewayArgs, order: &Order) -> Result<usize, Failure> {
    match ask(args, order)? {
        Reply::Purged(count) => Ok(count),
        Reply::Error(message) => Err(without_hint(message)),
        _ => Err(unexpected()),
    }
}

/// Sends an order about mirrors; returns what the gateway answers.
pub(crate) fn mirror(args: &GatewayArgs, order: &Order) -> Result<MirrorReply, Failure> {
    match ask(args, order)? {
        Reply::Mirror(reply) => Ok(*reply),
        Reply::Error(message) => Err(without_hint(message)),
        _ => Err(unexpected()),
    }
}

/// Makes the gateway read its configuration again; returns what changed.
pub(crate) fn reload(args: &GatewayArgs) -> Result<Reloaded, Failure> {
    match ask(args, &Order::Reload)? {
        Reply::Reloaded(done) => Ok(done),
        Reply::Error(message) => Err(without_hint(message)),
        _ => Err(unexpected()),
    }
}

/// Sends an order, and reports that the gateway accepted it.
pub(crate) fn command(
    args: &GatewayArgs,
    order: &Order,
    done: &str,
) -> Result<ExitStatus, Failure> {
    self::order(args, order)?;
    if args.json {
        output::print_json(&json!({ "done": true, "order": order }))?;
    } else {
        output::print(done)?;
    }
    Ok(ExitStatus::Success)
}

/// Sends an order.
pub(crate) fn order(args: &GatewayArgs, order: &Order) -> Result<(), Failure> {
    match ask(args, order)? {
        Reply::Error(message) => Err(refused(message)),
        _ => Ok(()),
    }
}

fn unexpected() -> Failure {
    Failure::new("the gateway answered something else than it was asked")
}

/// What the gateway does not do, or a name that it does not know: a mistake on the command line.
fn without_hint(message: String) -> Failure {
    let is_about_name = control::is_about_name(&message);
    let failure = Failure::new(message);
    if is_about_name { failure.into_usage() } else { failure }
}

fn refused(message: String) -> Failure {
    if control::is_about_name(&message) {
        return without_hint(message);
    }
    Failure::new(message).hint("`nightwatt status` shows its sites and what they are doing")
}

fn ask(args: &GatewayArgs, order: &Order) -> Result<Reply, Failure> {
    let socket = socket(args)?;
    let clock = Clock::real();
    let runtime = clock.runtime().map_err(|error| Failure::because("cannot start", &error))?;
    let asked = async { clock.timeout(TIMEOUT, control::ask(&socket, order)).await };
    match runtime.block_on(asked) {
        Ok(Ok(reply)) => Ok(reply),
        Ok(Err(error)) => {
            let hint = hint(&error, args);
            Err(Failure::failed(&error).hint(hint))
        }
        Err(_) => Err(Failure::new(format!(
            "the gateway at {} did not answer within 10 s",
            socket.display()
        ))
        .hint("its log on stderr may say why; restart it if it hangs: the ledger survives that")),
    }
}

fn socket(args: &GatewayArgs) -> Result<PathBuf, Failure> {
    match &args.socket {
        Some(path) => Ok(path.clone()),
        None => Config::find_control_socket(&args.config.config)
            .map_err(|error| unusable(&args.config, &error)),
    }
}

fn hint(error: &ControlError, args: &GatewayArgs) -> String {
    match error {
        ControlError::Unreachable { source, .. }
            if source.kind() == ErrorKind::PermissionDenied =>
        {
            "only root and the user that the gateway runs as may open its socket".to_owned()
        }
        ControlError::Unreachable { .. } if args.socket.is_some() => {
            "start one with `nightwatt serve`; the configuration of one that runs says where its socket is: \
             `control_socket`, or `control.sock` in `state_dir`"
                .to_owned()
        }
        ControlError::Unreachable { .. } => format!(
            "start one with `nightwatt serve -c {}`, or say with `--socket` where it listens: still at \
             the old place, if `state_dir` or `control_socket` was just changed",
            args.config.config.display()
        ),
        ControlError::Broken(_) => {
            "it may just be stopping: try again, and look at its log on stderr".to_owned()
        }
        ControlError::Misunderstood(_) => {
            "restart the gateway with this version: its ledger goes on".to_owned()
        }
    }
}
