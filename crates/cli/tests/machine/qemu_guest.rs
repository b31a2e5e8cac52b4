//! A guest that truly suspends and powers off, over QMP.

use nightwatt_clock::Clock;
use nightwatt_power::qemu::{Config, Qemu};
use nightwatt_power::{Context, Controller, Observed};

use crate::guest::Guest;

fn controller(guest: &Guest, options: &str) -> Qemu {
    let context =
        Context { clock: Clock::real(), state_dir: guest.path("state"), site: "site".to_owned() };
    let text = format!("monitor = \"{}\"\n{options}", guest.text("qmp"));
    toml::from_str::<Config>(&text).unwrap().build(&context).unwrap()
}

/// Does the guest's web server answer?
fn answers(guest: &Guest) -> bool {
    let url = format!("http://{}/", guest.text("guest/address"));
    let mut curl = guest.beside_proxy("curl");
    curl.args([
        "--silent",
        "--fail",
        "--output",
        "/dev/null",
        "--retry",
        "60",
        "--retry-delay",
        "1",
    ]);
    curl.args(["--retry-connrefused", "--retry-all-errors", "--max-time", "120", &url]);
    curl.status().unwrap().success()
}

#[test]
#[ignore = "make test-vm: starts a guest"]
fn a_guest_that_has_suspended_is_woken_and_one_that_is_off_is_turned_on_by_qmp() {
    let Some(guest) = Guest::up(&[]) else { return };
    let stopping = controller(&guest, "");
    let off = controller(&guest, "sleep = \"powerdown\"");
    let clock = Clock::real();
    clock.runtime().unwrap().block_on(async {
        assert!(answers(&guest));
        assert_eq!(stopping.state().await.unwrap(), Observed::Up);
        guest.exec("(sleep 0.2; echo mem >/sys/power/state) >/dev/null 2>&1 &");
        guest.wait("SUSPEND", 1);
        assert_eq!(stopping.state().await.unwrap(), Observed::Down);
        stopping.sleep().await.unwrap();
        stopping.wake().await.unwrap();
        guest.wait("WAKEUP", 1);
        assert!(answers(&guest), "it has resumed");
        stopping.sleep().await.unwrap();
        assert_eq!(stopping.state().await.unwrap(), Observed::Down);
        stopping.wake().await.unwrap();
        assert!(answers(&guest), "it goes on");
        // acpid in the guest obeys the power button.
        off.sleep().await.unwrap();
        guest.wait("SHUTDOWN", 1);
        assert_eq!(off.state().await.unwrap(), Observed::Down);
        off.wake().await.unwrap();
        assert_eq!(off.state().await.unwrap(), Observed::Up);
        assert!(answers(&guest), "it has started anew");
    });
}
