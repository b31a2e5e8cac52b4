//! `virsh` against a real libvirtd with a folder of its own for all that it keeps, and a QEMU guest
//! without an operating system: it never obeys a shutdown, and cannot suspend by itself. Those states
//! come from a stand-in for `virsh`, and from docs/test-machines.md.

use std::process::Command;

use nightwatt_needs::program;
use nightwatt_power::libvirt::{Config, Libvirt};
use nightwatt_power::{Controller, Error, Observed};

use crate::Rig;
use crate::daemon::{Daemon, is_root, output, stub};

/// In a mount namespace of its own the daemon neither sees nor changes what this machine's has.
const PRIVATE: &str = r#"set -e
D=$1
printf 'stdio_handler="file"\nsecurity_driver="none"\nuser="root"\ngroup="root"\ncgroup_controllers=[]\nremember_owner=0\n' > $D/qemu.conf
printf 'unix_sock_dir="%s"\nauth_unix_rw="none"\nauth_unix_ro="none"\n' $D > $D/libvirtd.conf
for place in etc run var/lib var/log var/cache; do
  mkdir -p $D/$place /$place/libvirt
  mount --bind $D/$place /$place/libvirt
done
cp $D/qemu.conf /etc/libvirt/
exec libvirtd -f $D/libvirtd.conf -p $D/pid"#;

const GUEST: &str = "<domain type='qemu'><name>web</name><memory unit='MiB'>32</memory>\
    <os><type arch='x86_64' machine='pc'>hvm</type></os><features><acpi/></features>\
    <pm><suspend-to-mem enabled='yes'/></pm><devices>\
    <emulator>/usr/bin/qemu-system-x86_64</emulator><controller type='usb' model='none'/>\
    <memballoon model='none'/></devices></domain>";

struct Host<'a> {
    rig: &'a Rig,
    uri: String,
    daemon: Daemon,
}

impl<'a> Host<'a> {
    fn start(rig: &'a Rig) -> Option<Self> {
        program("libvirtd")?;
        program("virsh")?;
        program("qemu-system-x86_64")?;
        if !is_root() {
            return None;
        }
        let dir = rig.path("");
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", PRIVATE, "sh"]).arg(&dir);
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
        let daemon = Daemon::start(rig, &mut command);
        let uri = format!("qemu:///system?socket={}libvirt-sock", dir.display());
        let mut host = Self { rig, uri, daemon };
        let mut ask = host.virsh(&["uri"]);
        host.daemon.ready(rig, || ask.output().unwrap().status.success().then_some(()));
        std::fs::write(rig.path("guest.xml"), GUEST).unwrap();
        output(host.virsh(&["define"]).arg(rig.path("guest.xml")));
        Some(host)
    }

    fn virsh(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("virsh");
        command.args(["-c", &self.uri]).args(arguments);
        command
    }

    fn state(&self) -> String {
        output(&mut self.virsh(&["domstate", "web"])).trim().to_owned()
    }

    fn config(&self, options: &str) -> Config {
        let text = format!("uri = \"{}\"\ntimeout = \"1m\"\n{options}", self.uri);
        toml::from_str(&text).unwrap()
    }

    fn build(&self, options: &str) -> Libvirt {
        let config = self.config(&format!("domain = \"web\"\n{options}"));
        config.build(&self.rig.context()).unwrap()
    }
}

impl Drop for Host<'_> {
    fn drop(&mut self) {
        // The guest would outlive its daemon.
        let _ = self.virsh(&["destroy", "web"]).output();
    }
}

#[test]
fn a_real_guest_is_started_paused_resumed_saved_and_restored() {
    let rig = Rig::new();
    let Some(host) = Host::start(&rig) else { return };
    let guest = host.build("sleep = \"suspend\"");
    rig.run(async {
        assert_eq!(guest.state().await.unwrap(), Observed::Down, "it is off");
        guest.sleep().await.unwrap();
        guest.wake().await.unwrap();
        assert_eq!(
            (guest.state().await.unwrap(), host.state().as_str()),
            (Observed::Up, "running")
        );
        guest.wake().await.unwrap();
        guest.sleep().await.unwrap();
        assert_eq!(
            (guest.state().await.unwrap(), host.state().as_str()),
            (Observed::Down, "paused")
        );
        guest.sleep().await.unwrap();
        guest.wake().await.unwrap();
        assert_eq!(host.state(), "running");
        let saved = host.build("sleep = \"managedsave\"");
        saved.sleep().await.unwrap();
        assert_eq!(host.state(), "shut off");
        assert_eq!(saved.state().await.unwrap(), Observed::Down);
        saved.wake().await.unwrap();
        assert_eq!(host.state(), "running");
        let said = output(&mut host.virsh(&["domstate", "--reason", "web"]));
        assert_eq!(said.trim(), "running (restored)", "with its memory");
        // It has no operating system that would obey; the command is all.
        host.build("").sleep().await.unwrap();
        assert_eq!(guest.state().await.unwrap(), Observed::Up);
    });
}

#[test]
fn what_libvirt_complains_of_comes_with_its_cure() {
    let rig = Rig::new();
    let Some(host) = Host::start(&rig) else { return };
    let guest = host.build("sleep = \"pmsuspend\"");
    rig.run(guest.wake()).unwrap();
    let error = rig.run(guest.sleep()).unwrap_err();
    assert!(error.to_string().contains("dompmsuspend --domain web --target mem"), "{error}");
    assert!(error.hint().contains("qemu-guest-agent"), "{error}: {}", error.hint());
    let refused = |config: Config| {
        let error = rig.run(config.build(&rig.context()).unwrap().wake()).unwrap_err();
        assert!(matches!(error, Error::Refused { .. }) && error.retryable(), "{error}");
        error
    };
    let error = refused(host.config("domain = \"wep\""));
    assert!(error.hint().contains("virsh list --all"), "{error}: {}", error.hint());
    let mut config = host.config("domain = \"web\"");
    config.uri = format!("qemu:///system?socket={}", rig.path("nothing").display());
    let error = refused(config.clone());
    assert!(error.hint().contains("start libvirtd"), "{error}: {}", error.hint());
    config.uri = host.uri.replace("qemu:", "cubes:");
    let error = refused(config);
    assert!(error.hint().contains("check `uri`"), "{error}: {}", error.hint());
}

/// Its guest `web` has the state that a file says; what it was told is kept.
const VIRSH: &str = r#"cd "$(dirname "$0")"
shift 2
echo "$*" >> told
case $1 in
domstate) cat state ;;
start | resume | dompmwakeup) echo running > state ;;
*) exit 1 ;;
esac"#;

#[test]
fn what_wakes_a_guest_goes_by_its_state() {
    let rig = Rig::new();
    let program = stub(&rig, "virsh", VIRSH);
    let text = format!("domain = \"web\"\nprogram = \"{}\"", program.display());
    let guest = toml::from_str::<Config>(&text).unwrap().build(&rig.context()).unwrap();
    for (state, command, observed) in [
        ("running", None, Observed::Up),
        ("idle", None, Observed::Up),
        ("shut off", Some("start"), Observed::Down),
        ("paused", Some("resume"), Observed::Down),
        ("pmsuspended", Some("dompmwakeup"), Observed::Down),
        ("in shutdown", None, Observed::Unknown),
    ] {
        std::fs::write(rig.path("state"), format!("{state}\n\n")).unwrap();
        assert_eq!(rig.run(guest.state()).unwrap(), observed, "{state}");
        std::fs::write(rig.path("told"), "").unwrap();
        rig.run(guest.wake()).unwrap();
        let told = std::fs::read_to_string(rig.path("told")).unwrap();
        let ask = "domstate --domain web";
        let wanted = command.map(|it| format!("{it} --domain web"));
        let wanted = [Some(ask.to_owned()), wanted];
        assert!(told.lines().eq(wanted.iter().flatten()), "{state}: {told}");
    }
    std::fs::write(rig.path("state"), "crashed\n").unwrap();
    let error = rig.run(guest.wake()).unwrap_err();
    assert!(error.hint().contains("virsh destroy"), "{error}: {}", error.hint());
    std::fs::write(rig.path("state"), "levitating\n").unwrap();
    assert!(matches!(rig.run(guest.state()).unwrap_err(), Error::Nonsense { .. }));
}

#[test]
fn a_guest_that_was_still_shutting_down_when_it_was_to_wake_is_started_once_it_is_off() {
    let rig = Rig::in_virtual_time();
    let program = stub(&rig, "virsh", VIRSH);
    let text = format!("domain = \"web\"\nprogram = \"{}\"", program.display());
    let guest = toml::from_str::<Config>(&text).unwrap().build(&rig.context()).unwrap();
    let told = |what: &str| std::fs::read_to_string(rig.path("told")).unwrap().contains(what);
    std::fs::write(rig.path("state"), "running\n").unwrap();
    rig.run(async {
        guest.wake().await.unwrap();
        std::fs::write(rig.path("state"), "shut off\n").unwrap();
        guest.remind().await.unwrap();
        assert!(!told("start"), "not at each probe");
        rig.clock.sleep(std::time::Duration::from_secs(5)).await;
        guest.remind().await.unwrap();
        assert!(told("start --domain web"));
    });
}
