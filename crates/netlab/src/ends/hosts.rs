//! Two machines and the network that is there between them.

use std::fs::File;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::process::Stdio;
use std::sync::Mutex;

use nightwatt_clock::meter::Stop;
use nightwatt_environments::guard::Guard;
use nightwatt_environments::{KindConfig, Started, shell};

use super::agent::Agent;
use super::config::EndConfig;
use super::{CounterSource, End, Error, Pair, running};

/// Starts both.
pub(super) fn start(
    ends: &[EndConfig; 2],
    program: &Path,
    guard: &Guard,
    stop: &Stop,
) -> Result<([End; 2], Pair), Error> {
    let start = |end: &EndConfig| end.environment.start(0, None, guard, stop);
    let started = [start(&ends[0])?, start(&ends[1])?];
    let known = [named(&ends[0], &started[0])?, named(&ends[1], &started[1])?];
    let (known, names) = (&known, ["sender", "receiver"]);
    let mut made = Vec::new();
    for (place, started) in started.into_iter().enumerate() {
        let (end, name, other) = (&ends[place], names[place], 1 - place);
        let route = Route::to(known[other].as_deref(), &started);
        let address = known[place].clone().or_else(|| route.as_ref().ok()?.source.clone());
        let address = address.ok_or_else(|| {
            Error::Options(format!(
                "the {name} needs an `address` under which the other end reaches it"
            ))
        })?;
        let card = end.card.clone().or_else(|| route.ok()?.card);
        let card = card.ok_or_else(|| {
            Error::Options(format!("the {name} has no route to the other end: name its `card`"))
        })?;
        let program = carry(name, &started, end, program, false)?;
        let show_card = "PATH=$PATH:/usr/sbin:/sbin; ip link show dev";
        let line = format!("{show_card} {} >/dev/null && id -u", shell::quote(&card));
        let user = running::succeed(started.command(&line), &format!("look at the {name}"), &line)?;
        let agent = start_agent(name, &started, &program, &card, stop)?;
        let is_behind_ssh = !end.is_here();
        made.push(End {
            name,
            address,
            hardware_address: None,
            card,
            is_root: user.trim() == "0",
            program,
            started,
            counters_from: CounterSource::Agent {
                agent: Mutex::new(agent),
                is_behind_ssh,
                stop: stop.clone(),
            },
        });
    }
    let [sender, receiver] = <[End; 2]>::try_from(made).map_err(|_| Error::Interrupted)?;
    let is_here = ends.iter().any(EndConfig::is_here);
    let bare = bare(ends, [sender.is_root, receiver.is_root]);
    Ok(([sender, receiver], Pair::Hosts { is_here, bare }))
}

/// Why nothing is emulated, if nothing is.
fn bare(ends: &[EndConfig; 2], are_root: [bool; 2]) -> Option<String> {
    let names = ["sender", "receiver"];
    let all = |which: [bool; 2]| {
        let lacking = names.iter().zip(which).filter(|(_, has)| !has).map(|(name, _)| *name);
        let lacking: Vec<&str> = lacking.collect();
        (!lacking.is_empty()).then(|| lacking.join(" and the "))
    };
    if let Some(who) = all([ends[0].card.is_some(), ends[1].card.is_some()]) {
        return Some(format!("the {who} names no `card` that may be slowed down"));
    }
    all(are_root).map(|who| format!("we are not root at the {who}"))
}

/// The address of an end as far as it is told.
fn named(end: &EndConfig, started: &Started) -> Result<Option<String>, Error> {
    let name = match (&end.address, &end.environment.kind) {
        (Some(address), _) => address.clone(),
        (None, KindConfig::Host(_)) => return Ok(None),
        (None, _) => started.address(),
    };
    if let Ok(address) = name.parse::<IpAddr>() {
        return Ok(Some(address.to_string()));
    }
    let what = format!("find the address of {name}");
    let mut found = (name.as_str(), 0).to_socket_addrs().map_err(Error::system(what))?;
    let address = found.find(SocketAddr::is_ipv4).map(|it| it.ip().to_string());
    address.map(Some).ok_or_else(|| {
        Error::Options(format!("{name} has no address of IPv4; say which in `address`"))
    })
}

/// Which way packets go.
#[derive(Debug, PartialEq, Eq)]
struct Route {
    card: Option<String>,
    source: Option<String>,
}

impl Route {
    fn to(other: Option<&str>, from: &Started) -> Result<Self, Error> {
        let other = other.ok_or_else(|| Error::Options("no address".to_owned()))?;
        let line = format!("PATH=$PATH:/usr/sbin:/sbin ip -o route get {}", shell::quote(other));
        running::succeed(from.command(&line), "find the route to the other end", &line)
            .map(|output| Self::read(&output))
    }

    /// As `ip -o route get` writes it.
    fn read(output: &str) -> Self {
        let words: Vec<&str> = output.split_whitespace().collect();
        let behind = |name: &str| {
            let at = words.iter().position(|word| *word == name)?;
            words.get(at + 1).map(|word| (*word).to_owned())
        };
        Self { card: behind("dev"), source: behind("src") }
    }
}

/// Copies our own program to an end that lacks it, unless the copy exists already (`is_copied`). Returns
/// its path there. The copy is removed with the folder.
pub(super) fn carry(
    end: &str,
    started: &Started,
    config: &EndConfig,
    program: &Path,
    is_copied: bool,
) -> Result<String, Error> {
    let copy = format!("{}/nightwatt", started.scratch());
    let there = match (&config.program, &config.environment.kind) {
        (Some(named), _) => named.clone(),
        (None, KindConfig::Host(_)) => program.display().to_string(),
        (None, _) if is_copied => copy,
        (None, _) => {
            let there = copy;
            let file = File::open(program).map_err(Error::system("read our own program"))?;
            let line = format!("cat >{0} && chmod 755 {0}", shell::quote(&there));
            let what = format!("carry our own program to the {end}");
            running::succeed_with(started.command(&line), Stdio::from(file), &what, &line)?;
            there
        }
    };
    let line = format!("{} --version", shell::quote(&there));
    running::succeed(started.command(&line), &format!("run our own program at the {end}"), &line)
        .map_err(|error| {
            Error::Options(format!(
                "{error}; name one that runs there: `program = \"/usr/bin/nightwatt\"` in its table of `--ends`"
            ))
        })?;
    Ok(there)
}

pub(super) fn start_agent(
    end: &'static str,
    started: &Started,
    program: &str,
    card: &str,
    stop: &Stop,
) -> Result<Agent, Error> {
    let mut agent = Agent::start(end, started.place(), program, card, stop)?;
    agent.send(&super::CounterRequest::default())?;
    agent.receive()?;
    Ok(agent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_has_a_card_and_an_address() {
        // iproute2 6.1.
        let said = "10.1.0.2 via 10.0.0.254 dev eth1 src 10.0.0.1 uid 0 \\    cache \n";
        let (card, source) = (Some("eth1".to_owned()), Some("10.0.0.1".to_owned()));
        assert_eq!(Route::read(said), Route { card, source });
        assert_eq!(Route::read(""), Route { card: None, source: None });
    }

    #[test]
    fn nothing_is_emulated_unless_both_name_a_card_and_let_us_do_so() {
        let end = |card: Option<&str>| {
            let end = EndConfig::from_words("sender", "ssh:a").unwrap();
            EndConfig { card: card.map(str::to_owned), ..end }
        };
        let named = [end(Some("eth1")), end(Some("eth2"))];
        assert_eq!(bare(&named, [true, true]), None);
        assert!(bare(&named, [true, false]).unwrap().contains("root at the receiver"));
        assert!(bare(&named, [false, false]).unwrap().contains("sender and the receiver"));
        let unnamed = [end(None), end(Some("eth2"))];
        assert!(bare(&unnamed, [true, true]).unwrap().contains("sender names no `card`"));
    }
}
