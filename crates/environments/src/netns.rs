//! A network of its own: a pair of virtual cards ties it to the host, with the delay and loss that
//! are set. Or nothing ties it, and the caller makes its network.
//! Files, processes and the kernel are the host's.

use std::collections::BTreeSet;
use std::fmt::Write;

use serde::Deserialize;

use crate::Error;
use crate::needs::Needs;
use crate::start::{Created, FoundBy, Start};
use crate::started::Started;

/// What it needs where it is made.
pub(crate) const NEEDS: Needs = Needs {
    root: true,
    programs: &[
        ("ip", "install iproute2 and util-linux"),
        ("unshare", "install iproute2 and util-linux"),
        ("nsenter", "install iproute2 and util-linux"),
    ],
};

/// How good the network is, in both directions.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// As `tc` writes it: `"100mbit"`.
    pub rate: Option<String>,
    /// As `tc` writes it: `"10ms"`. It needs the kernel's netem.
    pub delay: Option<String>,
    /// The share of packets that are lost, from 0 to 1.
    pub loss: Option<f64>,
    /// A pair of cards ties it to the host. Without one, nothing goes in or out, and the fact
    /// [`NAMESPACE`] is the path of the namespace, for callers that put something into it.
    #[serde(default = "tied")]
    pub tied: bool,
}

/// The fact that names the namespace of a network that is not tied to the host: a file under `/proc`.
pub const NAMESPACE: &str = "namespace";

const fn tied() -> bool {
    true
}

const KEEP: &str = "ip link set lo up; echo $$; exec sleep 2147483647 >/dev/null 2>&1";

/// Pairs of addresses in 198.18.0.0/15, which RFC 2544 sets aside for measuring.
const PAIRS: u64 = 1 << 15;

impl Config {
    pub(crate) fn start(&self, mut start: Start<'_>) -> Result<Started, Error> {
        start.need(NEEDS)?;
        let folder = start.folder(FoundBy::WhoKnowsIt)?;
        let mut prefix = start.in_scope(true)?;
        let mut keeper = prefix.clone();
        keeper.extend(["unshare", "--net", "/bin/sh", "-c", KEEP].map(str::to_owned));
        let pid = start.background("make a network of its own", &folder, &keeper, 1)?.join("");
        if !self.tied {
            return self.leave_alone(start, prefix, &folder, &pid);
        }
        let number = free_pair(&start)?;
        let name = format!("nwe{:x}", number_of(&start.id));
        let [first, second] = [1, 2].map(|host| address(number, host));
        start.protect(&format!("[ ! -e /sys/class/net/{name} ] || ip link del {name}"))?;
        let enter = format!("nsenter --net=/proc/{pid}/ns/net");
        // The alias shows to whom the card belongs.
        let id = &start.id;
        let mut line = format!(
            "set -e\nip link add {name} type veth peer name eth0 netns {pid}\n\
             ip link set {name} alias {id}\n\
             ip address add {first}/30 dev {name}\nip link set {name} up\n\
             {enter} ip address add {second}/30 dev eth0\n{enter} ip link set eth0 up\n\
             {enter} ip route add default via {first}\n"
        );
        self.worsen(&mut line, &name, &enter).map_err(|why| start.refuse(why))?;
        start.run("tie it to the host", &line)?;
        let namespace = format!("--net=/proc/{pid}/ns/net");
        prefix.extend(["nsenter", &namespace, "/bin/sh", "-c"].map(str::to_owned));
        let place = start.place.within("a network of its own", prefix);
        let mut facts = Vec::new();
        let settings = [("rate", &self.rate), ("delay", &self.delay)];
        facts.extend(
            settings
                .iter()
                .filter_map(|(name, value)| Some(((*name).to_owned(), (*value).clone()?))),
        );
        facts.extend(self.loss.map(|loss| ("loss".to_owned(), loss.to_string())));
        let scratch = format!("{folder}/scratch");
        start.ready(Created { place, address: second, ports: Vec::new(), scratch, facts })
    }

    /// Nothing ties it to the host.
    fn leave_alone(
        &self,
        start: Start<'_>,
        mut prefix: Vec<String>,
        folder: &str,
        pid: &str,
    ) -> Result<Started, Error> {
        if self.rate.is_some() || self.delay.is_some() || self.loss.is_some() {
            return Err(start.refuse("`rate`, `delay` and `loss` are of the tie to the host"));
        }
        let namespace = format!("/proc/{pid}/ns/net");
        let enter = ["nsenter", &format!("--net={namespace}"), "/bin/sh", "-c"].map(str::to_owned);
        prefix.extend(enter);
        let place = start.place.within("a network of its own", prefix);
        let facts = vec![(NAMESPACE.to_owned(), namespace)];
        let (address, scratch) = ("127.0.0.1".to_owned(), format!("{folder}/scratch"));
        start.ready(Created { place, address, ports: Vec::new(), scratch, facts })
    }

    /// Each end sends slowly and late; what comes in within is lost, and what goes out.
    fn worsen(&self, line: &mut String, name: &str, enter: &str) -> Result<(), String> {
        for (before, card) in [(String::new(), name), (format!("{enter} "), "eth0")] {
            let mut parent = "root";
            if let Some(delay) = &self.delay {
                let delay = crate::shell::quote(delay);
                let _ = writeln!(
                    line,
                    "{before}tc qdisc add dev {card} root handle 1: netem delay {delay} limit 100000"
                );
                parent = "parent 1:";
            }
            if let Some(rate) = &self.rate {
                let rate = crate::shell::quote(rate);
                // As much in one go as leaves in a few milliseconds at a gigabit.
                let _ = writeln!(
                    line,
                    "{before}tc qdisc add dev {card} {parent} tbf rate {rate} burst 256k latency 50ms"
                );
            }
        }
        if let Some(loss) = self.loss {
            if !(0.0..=1.0).contains(&loss) {
                return Err(format!("loss {loss}: write a share from 0 to 1"));
            }
            let of_million = (loss * 1e6).round();
            // nft refuses what is always so.
            let chance = if of_million < 1e6 {
                format!("numgen random mod 1000000 < {of_million} ")
            } else {
                String::new()
            };
            for hook in ["input", "output"] {
                let rule = format!(
                    "table inet loss_{hook} {{ chain it {{ type filter hook {hook} priority 0; oifname != \"lo\" \
                     iifname != \"lo\" {chance}drop; }}; }}"
                );
                let _ = writeln!(line, "printf '%s\\n' '{rule}' | {enter} nft -f -");
            }
        }
        Ok(())
    }
}

/// A number of its own for each name.
fn number_of(id: &str) -> u64 {
    // FNV-1a; a card's name has room for twelve digits.
    let hash = id.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    hash & 0xffff_ffff_ffff
}

fn address(pair: u64, host: u64) -> String {
    let at = pair * 4 + host;
    format!("198.{}.{}.{}", 18 + (at >> 16), at >> 8 & 0xff, at & 0xff)
}

/// A pair of addresses that no card on that machine has.
fn free_pair(start: &Start<'_>) -> Result<u64, Error> {
    let output = start.run("ask for its addresses", "ip -o -4 address")?;
    let taken: BTreeSet<&str> =
        output.split_whitespace().filter_map(|word| word.strip_suffix("/30")).collect();
    let first = number_of(&start.id) % PAIRS;
    let mut pairs = (first..PAIRS).chain(0..first);
    let free = pairs.find(|pair| !taken.contains(address(*pair, 1).as_str()));
    free.ok_or_else(|| start.refuse("all addresses of 198.18.0.0/15 are taken"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_set_aside_for_measuring() {
        assert_eq!(address(0, 1), "198.18.0.1");
        assert_eq!(address(1, 2), "198.18.0.6");
        assert_eq!(address(PAIRS - 1, 2), "198.19.255.254", "the last that RFC 2544 sets aside");
    }
}
