//! Real programs through a sleeping machine by UDP: DNS.

use std::net::SocketAddr;
use std::process::Command;

use nightwatt_needs::{command, programs};

use crate::acme_dns::Bind;
use crate::datagrams::status;
use crate::passthrough_programs::{run, services, succeeded};
use crate::stage::{asleep, secs};

/// `dig`, which asks once for the address of this name.
fn dig(at: SocketAddr, name: &str) -> Command {
    let mut dig = command("dig");
    dig.args(["-r", "+tries=1", "+time=60", "+short", "@127.0.0.1", "-p"]);
    dig.arg(at.port().to_string()).args([name, "A"]);
    dig
}

#[test]
fn a_question_of_dig_wakes_the_server_of_bind_and_its_answer_comes() {
    if !programs(&["dig"]) {
        return;
    }
    let Some(bind) = Bind::start() else { return };
    let table = format!(
        "[[udp]]\nname = \"dns\"\nlisten = [\"127.0.0.1:0\"]\non = \"blog\"\norigin = \"{}\"\n",
        bind.at
    );
    // Long enough for the question to be held.
    let setup = asleep().real().power(|power| power.wake_time = secs(1));
    services(setup, table).play(async |stage| {
        let at = stage.running().udp_addresses[0];
        let asked = || bind.log().matches("query: ns.example.org IN A").count();
        assert_eq!((stage.state().as_str(), stage.commands(), asked()), ("asleep", (0, 0), 0));
        assert_eq!(succeeded(&run(dig(at, "ns.example.org")).await), "127.0.0.1\n");
        assert_eq!((stage.commands().0, asked()), (1, 1), "{}", bind.log());
        let it = status(stage);
        assert_eq!((it.sessions, it.received, it.sent, it.waited), (1, 1, 1, 1), "{it:?}");
        // The next one comes from another port.
        assert_eq!(succeeded(&run(dig(at, "ns.example.org")).await), "127.0.0.1\n");
        let it = status(stage);
        assert_eq!((it.sessions, it.received, it.sent, it.waited), (2, 2, 2, 1), "{it:?}");
        assert_eq!((stage.commands().0, asked()), (1, 2), "{}", bind.log());
    });
}
