//! What a configuration may say, and where the messages point when it says something else.

use std::time::Duration;

use nightwatt_power::{ControllerConfig, DRIVERS, DriverConfig, probe};
use serde::Deserialize;

/// The part of the gateway's configuration that is ours.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    site: Vec<Site>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Site {
    power: ControllerConfig,
    probe: Option<probe::Config>,
}

fn read(text: &str) -> File {
    toml::from_str(text).unwrap_or_else(|error| panic!("{error}"))
}

/// The whole message: line, column, the line itself, and what is wrong.
fn refused(text: &str) -> String {
    toml::from_str::<File>(text).unwrap_err().to_string()
}

/// Each driver once.
const EACH: &str = r#"
[[site]]
probe = "tcp 10.0.0.5:22"
[site.power.process]
command = ["/usr/bin/node", "server.js"]
dir = "/srv/app"
env = { PORT = "8080" }
stop_signal = "SIGINT"
stop_timeout = "1m30s"
log = "/var/log/app.log"

[[site]]
probe = "controller"
[site.power.command]
wake = "wakeonlan 00:11:22:33:44:55"
sleep = "ssh root@web systemctl suspend"
probe = "ping -c1 -W1 web"
timeout = "10s"

[[site]]
[site.power.simulated]
wake_time = "1s"
never_wakes = true
[site.power.simulated.inner.process]
command = ["true"]
[site.probe.http]
url = "http://10.0.0.5:8080/health"
expect = [200, "300-399", 404]
timeout = "2s"

[[site]]
[site.power.wake.wol]
mac = ["52:54:00:12:34:56", "52-54-00-12-34-57"]
to = "10.0.0.255"
password = "c0:ff:ee:00"
[site.power.sleep.ssh]
host = "root@web"
identity = "/etc/nightwatt/id"

[[site]]
[site.power.ssh]
host = "hypervisor"
wake = "virsh start web"
sleep = "virsh shutdown web"

[[site]]
[site.power.systemd]
unit = "web.service"
host = "root@web"
sleep = "freeze"

[[site]]
[site.power.docker]
container = "web"
socket = "tcp://10.0.0.5:2375"
sleep = "pause"

[[site]]
[site.power.podman]
container = "web"
stop_timeout = "20s"

[[site]]
[site.power.libvirt]
domain = "web"
uri = "qemu+ssh://root@host/system"
sleep = "pmsuspend"

[[site]]
[site.power.qemu]
monitor = "tcp:[::1]:4444"
sleep = "powerdown"

[[site]]
[site.power.ipmi]
host = "10.0.0.9"
user = "power"
password_file = "/etc/nightwatt/bmc"
sleep = "off"
cipher = 3
privilege = "ADMINISTRATOR"

[[site]]
[site.power.redfish]
url = "https://10.0.0.9"
user = "power"
password_env = "BMC"
system = "1"
sleep = "force"
ca = "/etc/nightwatt/bmc.pem"

[[site]]
[site.power.gpio]
line = "/dev/gpiochip0:17"
press = "300ms"
sense = "power-led"

[[site]]
[site.power.wake.wol]
mac = "52:54:00:12:34:56"
[site.power.sleep.agent]
address = "10.0.0.2"
key = "/etc/nightwatt/web.key"
listen = "::"
"#;

#[test]
fn each_driver_has_a_table_of_its_name() {
    let file = read(EACH);
    let names: Vec<_> = file.site.iter().map(|site| site.power.name()).collect();
    let wanted = "process, command, simulated, wol + ssh, ssh, systemd, docker, podman, libvirt, qemu, \
                  ipmi, redfish, gpio, wol + agent";
    assert_eq!(names.join(", "), wanted);
    let mut drivers: Vec<_> = file.site.iter().flat_map(|site| site.power.drivers()).collect();
    drivers.dedup_by_key(|driver| driver.name());
    let known = |name| drivers.iter().any(|driver| driver.name() == name);
    assert!(DRIVERS.iter().all(|driver| known(driver.name)), "each is read here: {DRIVERS:?}");
    assert_eq!(file.site[0].probe, Some(probe::Config::tcp("10.0.0.5:22")));
    assert_eq!(file.site[1].probe, Some(probe::Config::Controller));
    let Some(probe::Config::Http(http)) = &file.site[2].probe else { panic!() };
    assert_eq!(http.timeout, Duration::from_secs(2));
    assert!(http.expect.as_ref().is_some_and(|ranges| ranges.len() == 3));
    let ControllerConfig::One(DriverConfig::Simulated(simulated)) = &file.site[2].power else {
        panic!()
    };
    assert_eq!(simulated.sleep_time, Duration::from_secs(5));
    assert!(simulated.inner.is_some());
}

#[test]
fn an_unknown_key_is_reported_on_its_own_line() {
    let message = refused(
        "[[site]]\n[site.power.process]\ncommand = [\"a\"]\nstop_timout = \"5s\"\nlog = \"x\"\n",
    );
    assert!(message.contains("line 4, column 1"), "{message}");
    assert!(message.contains("stop_timout = \"5s\""), "{message}");
    assert!(message.contains("unknown field `stop_timout`, expected one of"), "{message}");
}

#[test]
fn what_runs_on_this_machine_is_told_from_what_runs_elsewhere() {
    let is_here = |power: &str| {
        let file = read(&format!("[[site]]\n[site.power.{power}\n"));
        file.site[0].power.is_on_this_machine()
    };
    for (power, here) in [
        ("process]\ncommand = [\"a\"]", true),
        ("ssh]\nhost = \"host\"\nwake = \"a\"", false),
        ("systemd]\nunit = \"a.service\"", true),
        ("systemd]\nunit = \"a.service\"\nhost = \"web\"", false),
        ("libvirt]\ndomain = \"web\"", true),
        ("libvirt]\ndomain = \"web\"\nuri = \"qemu+unix:///session\"", true),
        ("libvirt]\ndomain = \"web\"\nuri = \"qemu+ssh://host/system\"", false),
        ("docker]\ncontainer = \"web\"", true),
        ("docker]\ncontainer = \"web\"\nsocket = \"tcp://localhost:2375\"", true),
        ("podman]\ncontainer = \"web\"\nsocket = \"tcp://10.0.0.5:8888\"", false),
        ("qemu]\nmonitor = \"/run/web.qmp\"", true),
        ("qemu]\nmonitor = \"tcp:[::1]:4444\"", true),
        ("qemu]\nmonitor = \"tcp:10.0.0.5:4444\"", false),
        ("ipmi]\nhost = \"h\"\nuser = \"u\"\npassword_env = \"P\"", false),
    ] {
        assert_eq!(is_here(power), here, "{power}");
    }
}

/// Refused with these words, which point at that line.
fn assert_refused(text: &str, line: usize, what: &str) {
    let message = refused(text);
    assert!(message.contains(&format!("line {line},")), "wanted line {line}:\n{message}");
    assert!(message.contains(what), "wanted `{what}`:\n{message}");
}

#[test]
fn mistakes_are_reported_where_they_are() {
    let power = "[[site]]\n[site.power.process]\ncommand = [\"a\"]\n";
    for (text, line, what) in [
        ("[[site]]\n[site.power.proces]\ncommand = [\"a\"]\n", 2, "unknown variant `proces`"),
        ("[[site]]\n[site.power.process]\nlog = \"x\"\n", 2, "missing field `command`"),
        ("[[site]]\n[site.power.process]\ncommand = []\n", 3, "the command is empty"),
        (&format!("{power}stop_signal = \"STOP\"\n"), 4, "`STOP` is no signal to stop with"),
        (&format!("{power}stop_timeout = \"5 parsecs\"\n"), 4, "not a duration"),
        (&format!("{power}stop_timeout = 5\n"), 4, "`5` has no unit"),
        (
            &format!("{power}[site.power.command]\nwake = \"a\"\nsleep = \"b\"\n"),
            2,
            "two drivers, `command` and `process`",
        ),
        ("[[site]]\n[site.power]\n", 2, "no driver: name one of `process`, `command`"),
        ("[[site]]\npower = \"process\"\n", 2, "a table named after a driver"),
        ("[[site]]\n[site.power.command]\nwake = \" \"\nsleep = \"a\"\n", 3, "command is empty"),
        ("[[site]]\n[site.power.simulated.inner.process]\ncomand = [\"a\"]\n", 3, "`comand`"),
        (
            "[[site]]\n[site.power.wol]\nmac = \"52:54:00:12:34:56\"\n",
            2,
            "`wol` cannot put a server to sleep: write `[site.power.wake.wol]`",
        ),
        (
            "[[site]]\n[site.power.wake.wol]\nmac = \"52:54:00:12:34:56\"\n",
            2,
            "and not how it sleeps: add `[site.power.sleep.DRIVER]`",
        ),
        (
            &format!("{power}[site.power.wake.wol]\nmac = \"52:54:00:12:34:56\"\n"),
            2,
            "`process` stands beside `wake` or `sleep`",
        ),
        ("[[site]]\n[site.power.ssh]\nhost = \"root@web\"\n", 2, "what wakes the server?"),
        ("[[site]]\n[site.power.sleep.ssh]\nhost = \"-oProxyCommand=x\"\n", 3, "is no host"),
        (
            "[[site]]\n[site.power.wake.wol]\nmac = \"52:54:00:12:34\"\n",
            3,
            "no address of a network",
        ),
        ("[[site]]\n[site.power.wake.wol]\nmac = []\n", 3, "there is no address"),
        (
            "[[site]]\n[site.power.wake.wol]\nmac = \"52:54:00:12:34:56\"\nto = \"web\"\n",
            4,
            "names are not looked up",
        ),
        (&format!("{power}[site.probe.http]\nurl = \"ftp://web/\"\n"), 5, "or with `https`"),
        (&format!("{power}[site.probe.http]\nurl = \"http://web/\"\nexpct = 1\n"), 6, "`expct`"),
        (
            &format!("{power}[site.probe.http]\nurl = \"http://web/\"\nexpect = [200, 99]\n"),
            6,
            "`99` is not a status",
        ),
        (&format!("{power}[site.probe.tcp]\naddress = \"web\"\n"), 5, "`web` is not HOST:PORT"),
        (&format!("[[site]]\nprobe = \"ping web\"\n{}", &power[9..]), 2, "is not a probe"),
        (&format!("[[site]]\nprobe = 7\n{}", &power[9..]), 2, "a line as `tcp HOST:PORT`"),
    ] {
        assert_refused(text, line, what);
    }
}

#[test]
fn mistakes_in_settings_of_drivers_are_reported_where_they_are() {
    for (driver, line, what) in [
        ("[[site]]\n[site.power.systemd]\nunit = \"*\"\n", 3, "no name of a unit"),
        ("[[site]]\n[site.power.systemd]\nunit = \"--force.service\"\n", 3, "no name of a unit"),
        ("[[site]]\n[site.power.systemd]\nunit = \"web\"\n", 3, "as `web.service`"),
        ("[[site]]\n[site.power.libvirt]\ndomain = \"7\"\n", 3, "changes with each start"),
        ("[[site]]\n[site.power.libvirt]\ndomain = \"--all\"\n", 3, "no name of a guest"),
        (
            "[[site]]\n[site.power.libvirt]\ndomain = \"web\"\nuri = \"qemu+ssh://u:p@h/system\"\n",
            4,
            "`uri` holds a password",
        ),
        ("[[site]]\n[site.power.docker]\ncontainer = \"../x\"\n", 3, "no name of a container"),
        (
            "[[site]]\n[site.power.podman]\ncontainer = \"a\"\nsocket = \"x\"\n",
            4,
            "whole path of a socket",
        ),
        (
            "[[site]]\n[site.power.redfish]\nurl = \"http://bmc\"\nuser = \"u\"\npassword_env = \"P\"\n",
            2,
            "read by everybody in between",
        ),
        (
            "[[site]]\n[site.power.redfish]\nurl = \"https://bmc\"\nuser = \"u\"\n",
            2,
            "belong together",
        ),
        ("[[site]]\n[site.power.redfish]\nurl = \"https://u:p@bmc\"\n", 3, "say `user`"),
        (
            "[[site]]\n[site.power.redfish]\nurl = \"https://bmc\"\nfingerprint = \"AB\"\n",
            4,
            "32 bytes",
        ),
        ("[[site]]\n[site.power.gpio]\nline = \"/dev/gpiochip0\"\n", 3, "is no line"),
        ("[[site]]\n[site.power.gpio]\nline = \"a\"\npress = \"1m\"\n", 4, "up to 30s"),
        ("[[site]]\n[site.power.qemu]\nmonitor = \"web.qmp\"\n", 3, "whole path of a socket"),
        ("[[site]]\n[site.power.qemu]\nmonitor = \"tcp:web\"\n", 3, "`web` is not HOST:PORT"),
        ("[[site]]\n[site.power.ipmi]\nhost = \"h\"\nuser = \"u\"\n", 2, "needs a password"),
        (
            "[[site]]\n[site.power.ipmi]\nhost = \"h\"\nuser = \"u\"\npassword_env = \"A\"\npassword_file = \"b\"\n",
            2,
            "one is enough",
        ),
        ("[[site]]\n[site.power.ipmi]\nhost = \"-v\"\nuser = \"u\"\n", 3, "no dash in front"),
    ] {
        assert_refused(driver, line, what);
    }
}
