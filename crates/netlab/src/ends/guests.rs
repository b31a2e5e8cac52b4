//! Two guests of QEMU, each with a second card, and a stream between the two that is their wire: it loses
//! nothing, and what waits in it waits in the sender's card. It is a socket in a folder of ours.

use std::path::Path;
use std::sync::Mutex;

use nightwatt_clock::meter::Stop;
use nightwatt_environments::guard::{Guard, Undo};
use nightwatt_environments::{KindConfig, shell};

use super::config::EndConfig;
use super::hosts::{carry, start_agent};
use super::{CounterSource, End, Error};

/// Address and hardware address: RFC 2544 sets 198.18.0.0/15 aside for measuring, and the others are
/// locally administered.
pub(super) const SENDER: [&str; 2] = ["198.18.0.1", "02:00:00:00:00:01"];

/// The same of the other end.
pub(super) const RECEIVER: [&str; 2] = ["198.18.0.2", "02:00:00:00:00:02"];

/// Prints the name of the card with the hardware address.
const FIND: &str = "for card in /sys/class/net/*; do \
    [ \"$(cat $card/address)\" != ADDRESS ] || echo ${card##*/}; done";

/// Copies our own program from the disk that it is there; with zeros behind it, which do no harm.
const COPY: &str = "for disk in /sys/block/*; do \
    [ \"$(cat $disk/serial 2>/dev/null)\" != nightwatt ] || found=/dev/${disk##*/}; done; \
    cat \"$found\" >FOLDER/nightwatt && chmod 755 FOLDER/nightwatt";

/// Starts both; the one that listens first.
pub(super) fn start(
    ends: &[EndConfig; 2],
    socket: &Path,
    program: &Path,
    guard: &Guard,
    stop: &Stop,
) -> Result<([End; 2], Undo), Error> {
    let socket = socket.display().to_string();
    let undo = guard.protect(&format!("rm -f {}", shell::quote(&socket)))?;
    let one = |name, place: usize, [address, hardware]: [&str; 2]| {
        let mut config = ends[place].environment.clone();
        if let KindConfig::Qemu(qemu) = &mut config.kind {
            qemu.arguments.extend(wire(&socket, place == 0, &qemu.card, hardware));
            qemu.arguments.extend(disk(program));
        }
        let started = config.start(0, None, guard, stop)?;
        // Emulated CPUs take long to decipher what comes by ssh.
        let copy = COPY.replace("FOLDER", &shell::quote(&started.scratch()));
        let copied = super::running::succeed(started.command(&copy), "copy our program", &copy);
        let program = carry(name, &started, &ends[place], program, copied.is_ok())?;
        let find = FIND.replace("ADDRESS", hardware);
        let what = "find the card of the link in the guest";
        let found = super::running::succeed(started.command(&find), what, &find)?;
        let card = found.trim().to_owned();
        if card.is_empty() {
            return Err(Error::Options(format!(
                "the {name} sees no second card: its kernel lacks the driver of the first one's kind"
            )));
        }
        let agent = start_agent(name, &started, &program, &card, stop)?;
        Ok(End {
            name,
            address: address.to_owned(),
            hardware_address: Some(hardware.to_owned()),
            card,
            is_root: true,
            program,
            started,
            counters_from: CounterSource::Agent {
                agent: Mutex::new(agent),
                is_behind_ssh: true,
                stop: stop.clone(),
            },
        })
    };
    Ok(([one("sender", 0, SENDER)?, one("receiver", 1, RECEIVER)?], undo))
}

/// What QEMU is told of it.
fn wire(socket: &str, listens: bool, card: &str, hardware: &str) -> [String; 4] {
    let server = if listens { "on" } else { "off" };
    // A comma in a value is written twice.
    let path = socket.replace(',', ",,");
    [
        "-netdev".to_owned(),
        format!("stream,id=link,server={server},addr.type=unix,addr.path={path}"),
        "-device".to_owned(),
        format!("{card},netdev=link,mac={hardware}"),
    ]
}

/// Our own program as a disk that cannot be written to. In the last slot but one it is found last: the
/// guest's own disks keep their names.
fn disk(program: &Path) -> [String; 4] {
    let path = program.display().to_string().replace(',', ",,");
    [
        "-drive".to_owned(),
        format!("file={path},if=none,id=nightwatt,format=raw,readonly=on"),
        "-device".to_owned(),
        "virtio-blk-pci,drive=nightwatt,serial=nightwatt,addr=0x1e".to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_guest_listens_and_the_other_calls() {
        let [_, first, _, card] = wire("/run/a,b", true, "e1000", SENDER[1]);
        assert_eq!(first, "stream,id=link,server=on,addr.type=unix,addr.path=/run/a,,b");
        assert_eq!(card, "e1000,netdev=link,mac=02:00:00:00:00:01");
        assert!(wire("/x", false, "e1000", RECEIVER[1])[1].contains("server=off"));
    }
}
