//! Services that only clients of their protocol wake: TLS, SSH, RDP, Minecraft.

use std::io::ErrorKind;

use tokio::io::AsyncWriteExt;

use crate::passthrough::{Caller, echo, outcome, with_echo};
use crate::stage::{asleep, awake};

/// A log-in to Minecraft 1.21 at `a.example`, by Alice.
const JOINS: &[u8] = b"\x10\x00\xff\x05\x09a.example\x63\xdd\x02\x07\x00\x05Alice";

/// What a list of servers asks first.
const ASKS: &[u8] = b"\x10\x00\xff\x05\x09a.example\x63\xdd\x01\x01\x00";

const RDP: &[u8] = b"\x03\x00\x00\x13\x0e\xe0\x00\x00\x00\x00\x00\x01\x00\x08\x00\x0b\x00\x00\x00";

#[test]
fn a_client_of_the_protocol_wakes_and_what_it_said_arrives_whole() {
    for (kind, said) in
        [("ssh", b"SSH-2.0-OpenSSH_9.2p1\r\n".as_slice()), ("rdp", RDP), ("minecraft", JOINS)]
    {
        let (setup, listener) = with_echo(asleep(), &format!("wake_on = \"{kind}\""));
        setup.play(async |stage| {
            let _heard = echo(listener);
            let mut caller = Caller::connect(stage).await;
            let (first, rest) = said.split_at(said.len() - 1);
            caller.say(stage, first).await;
            assert_eq!(stage.state(), "asleep", "{kind}: not all of it has come");
            caller.say(stage, rest).await;
            assert_eq!(stage.state(), "waking", "{kind}");
            stage.at(5).await;
            assert_eq!(caller.hears(stage, said.len()).await, said, "{kind}");
        });
    }
}

#[test]
fn others_wake_nothing() {
    for kind in ["tls", "ssh", "rdp", "minecraft"] {
        let (setup, listener) = with_echo(asleep(), &format!("wake_on = \"{kind}\""));
        setup.play(async |stage| {
            let _heard = echo(listener);
            for said in
                [b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".as_slice(), &[0; 100], b"\xfe\x01", b"\n\n"]
            {
                let mut caller = Caller::connect(stage).await;
                caller.say(stage, said).await;
                if said.len() > 2 {
                    assert_eq!(caller.rest(stage).await, Err(ErrorKind::ConnectionReset), "{kind}");
                }
            }
            let silent = Caller::connect(stage).await;
            stage.at(3600).await;
            drop(silent);
            assert_eq!((stage.state().as_str(), stage.commands()), ("asleep", (0, 0)), "{kind}");
            assert!(outcome(stage, "no-wake") >= 3 && outcome(stage, "silent") >= 1, "{kind}");
        });
    }
}

#[test]
fn while_the_server_is_awake_all_come_through() {
    let (setup, listener) = with_echo(awake(), "wake_on = \"ssh\"");
    setup.play(async |stage| {
        let _heard = echo(listener);
        let mut caller = Caller::connect(stage).await;
        caller.say(stage, b"anything").await;
        assert_eq!(caller.hears(stage, 8).await, b"anything");
    });
}

#[test]
fn a_list_of_servers_shows_that_it_sleeps_and_does_not_wake_it() {
    let lines = "wake_on = \"minecraft\"\nmotd = \"Join to wake it\"";
    let (setup, listener) = with_echo(asleep(), lines);
    setup.play(async |stage| {
        let echoed = echo(listener);
        let mut caller = Caller::connect(stage).await;
        caller.say(stage, ASKS).await;
        // The length, the number 0, the length of the text, the text.
        let head = caller.hears(stage, 3).await;
        let length = usize::from(head[2]);
        assert!(length < 128, "one byte is enough for it");
        assert_eq!((usize::from(head[0]), head[1]), (length + 2, 0));
        let status: serde_json::Value =
            serde_json::from_slice(&caller.hears(stage, length).await).unwrap();
        assert_eq!(status["description"]["text"], "Join to wake it");
        assert_eq!(
            (&status["version"]["protocol"], &status["players"]["max"]),
            (&767.into(), &0.into())
        );
        caller.say(stage, b"\x09\x0112345678").await;
        assert_eq!(caller.hears(stage, 10).await, b"\x09\x0112345678");
        caller.0.shutdown().await.unwrap();
        assert_eq!(caller.rest(stage).await, Ok(Vec::new()));
        assert_eq!((stage.state().as_str(), outcome(stage, "answered")), ("asleep", 1));
        assert!(echoed.lock().unwrap().is_empty());
        let line = stage.log().pop().unwrap();
        assert!(line.contains("\"TCP echo HTTP/1.1\" 200 "), "{line}");
    });
}

#[test]
fn a_status_that_was_answered_is_not_forwarded_when_the_server_wakes() {
    let (setup, listener) = with_echo(asleep(), "wake_on = \"minecraft\"");
    setup.play(async |stage| {
        let heard = echo(listener);
        let mut asks = Caller::connect(stage).await;
        asks.say(stage, ASKS).await;
        let length = usize::from(asks.hears(stage, 3).await[2]);
        asks.hears(stage, length).await;
        let mut joins = Caller::connect(stage).await;
        joins.say(stage, JOINS).await;
        stage.at(6).await;
        assert_eq!(joins.hears(stage, JOINS.len()).await, JOINS);
        assert_eq!(heard.lock().unwrap().len(), 1);
        // It sends no ping.
        stage.at(120).await;
        assert_eq!((outcome(stage, "answered"), outcome(stage, "silent")), (1, 0));
        assert_eq!(heard.lock().unwrap().len(), 1);
    });
}
