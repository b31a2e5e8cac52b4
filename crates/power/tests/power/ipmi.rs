//! `ipmitool` against `ipmi_sim` of `OpenIPMI`, whose chassis is a script that keeps its state.

use std::net::SocketAddr;
use std::process::Command;

use nightwatt_needs::program;
use nightwatt_power::ipmi::{Config, Ipmi};
use nightwatt_power::{ConfigError, Controller, Error, Observed};

use crate::Rig;
use crate::daemon::{Daemon, stub};

const PASSWORD: &str = "tellnobody";

/// A management controller, and where it listens.
fn controller(rig: &Rig) -> Option<(Daemon, SocketAddr)> {
    let (simulator, _) = (program("ipmi_sim")?, program("ipmitool")?);
    let address = nightwatt_needs::free_udp_address();
    let (host, port) = (address.ip(), address.port());
    // `get power`, `set power 1`, `set shutdown 1`. What it was told to do is kept.
    let chassis = stub(
        rig,
        "chassis",
        "cd \"$(dirname \"$0\")\"\necho \"$*\" | sed 's/.*\\(get\\|set\\)/\\1/' >> told\n\
         case \"$*\" in\n*'get power'*) echo power:$(cat power) ;;\n\
         *'set power 1'*) echo 1 > power ;;\n*'set power 0'* | *'set shutdown 1'*) echo 0 > power ;;\nesac",
    );
    std::fs::write(rig.path("power"), "0\n").unwrap();
    let config = format!(
        "name \"bmc\"\nset_working_mc 0x20\nstartlan 1\naddr {host} {port}\npriv_limit admin\n\
         allowed_auths_admin none md2 md5 straight\nguid a123456789abcdefa123456789abcdef\nendlan\n\
         chassis_control \"{}\"\nuser 2 true \"power\" \"{PASSWORD}\" admin 10 none md2 md5 straight\n\
         user 3 true \"guest\" \"{PASSWORD}\" user 10 none md2 md5 straight\n",
        chassis.display()
    );
    std::fs::write(rig.path("lan.conf"), config).unwrap();
    let commands = "mc_setbmc 0x20\nmc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02 persist_sdr\n\
                    mc_enable 0x20\n";
    std::fs::write(rig.path("commands"), commands).unwrap();
    let mut simulator = Command::new(simulator);
    simulator.arg("-c").arg(rig.path("lan.conf")).arg("-f").arg(rig.path("commands"));
    simulator.arg("-s").arg(rig.path("")).arg("-n");
    let mut daemon = Daemon::start(rig, &mut simulator);
    let ipmi = config_of(rig, address, PASSWORD, "").build(&rig.context()).unwrap();
    daemon.ready(rig, || rig.run(ipmi.state()).ok());
    Some((daemon, address))
}

fn config_of(rig: &Rig, at: SocketAddr, password: &str, options: &str) -> Config {
    let (host, port) = (at.ip(), at.port());
    let file = rig.path("password");
    std::fs::write(&file, format!("{password}\n")).unwrap();
    let text = format!(
        "host = \"{host}\"\nuser = \"power\"\nport = {port}\ncipher = 3\npassword_file = \"{}\"\n{options}",
        file.display()
    );
    toml::from_str(&text).unwrap()
}

fn told(rig: &Rig) -> Vec<String> {
    let told = std::fs::read_to_string(rig.path("told")).unwrap();
    std::fs::remove_file(rig.path("told")).unwrap();
    told.lines().filter(|line| line.starts_with("set")).map(str::to_owned).collect()
}

#[test]
fn power_goes_on_and_off_and_what_is_done_is_not_done_again() {
    let rig = Rig::new();
    let Some((_daemon, at)) = controller(&rig) else { return };
    let build = |options| config_of(&rig, at, PASSWORD, options).build(&rig.context()).unwrap();
    let state = |ipmi: &Ipmi| rig.run(ipmi.state()).unwrap();
    for (options, command) in [("", "set shutdown 1"), ("sleep = \"off\"", "set power 0")] {
        let ipmi = build(options);
        assert_eq!(state(&ipmi), Observed::Down);
        rig.run(ipmi.sleep()).unwrap();
        rig.run(ipmi.wake()).unwrap();
        assert_eq!(state(&ipmi), Observed::Up);
        rig.run(ipmi.wake()).unwrap();
        rig.run(ipmi.remind()).unwrap();
        rig.run(ipmi.sleep()).unwrap();
        assert_eq!(state(&ipmi), Observed::Down);
        assert_eq!(told(&rig), ["set power 1", command]);
    }
}

#[test]
fn a_wrong_password_a_wrong_cipher_and_no_controller_each_have_their_cure() {
    let rig = Rig::new();
    let Some((daemon, at)) = controller(&rig) else { return };
    let refused = |password: &str, options: &str| {
        let config = config_of(&rig, at, password, options);
        rig.run(config.build(&rig.context()).unwrap().wake()).unwrap_err()
    };
    let error = refused("telleverybody", "");
    assert!(error.hint().contains("its password"), "{error}: {}", error.hint());
    let begin = format!("ipmitool -H {} refuses to chassis power", at.ip());
    assert!(error.to_string().starts_with(&begin), "{error}");
    assert!(!format!("{error:?}{error}").contains("everybody"), "{error:?}");
    drop(daemon);
    let error = refused(PASSWORD, "");
    assert!(error.hint().contains("check `host`"), "{error}: {}", error.hint());
    let error = refused(PASSWORD, "timeout = \"50ms\"");
    assert!(matches!(error, Error::Silent { .. }) && error.retryable(), "{error}");
    assert!(error.hint().contains("UDP port 623"), "{}", error.hint());
}

#[test]
fn the_password_is_in_the_environment_and_not_among_the_arguments() {
    let rig = Rig::new();
    let program = stub(
        &rig,
        "ipmitool",
        "echo \"$*\" > \"$(dirname \"$0\")/arguments\"\n[ \"$IPMI_PASSWORD\" = tellnobody ] || exit 1\n\
         echo Chassis Power is on",
    );
    let options = format!("program = \"{}\"", program.display());
    let config = config_of(&rig, "127.0.0.1:700".parse().unwrap(), PASSWORD, &options);
    let ipmi = config.build(&rig.context()).unwrap();
    assert_eq!(rig.run(ipmi.state()).unwrap(), Observed::Up);
    let arguments = std::fs::read_to_string(rig.path("arguments")).unwrap();
    assert_eq!(
        arguments.trim(),
        "-I lanplus -H 127.0.0.1 -p 700 -U power -C 3 -L OPERATOR -E -N 1 -R 3 chassis power status"
    );
    assert!(!format!("{ipmi:?}{config:?}").contains(PASSWORD));
}

#[test]
fn what_is_missing_is_told_before_and_what_makes_no_sense_after() {
    let rig = Rig::new();
    let mut config = config_of(
        &rig,
        "127.0.0.1:700".parse().unwrap(),
        PASSWORD,
        "program = \"/nowhere/ipmitool\"",
    );
    let error = rig.run(config.build(&rig.context()).unwrap().state()).unwrap_err();
    assert_eq!(error.to_string(), "there is no program `/nowhere/ipmitool` here");
    assert!(!error.retryable() && error.hint().contains("apt-get install ipmitool"));
    config.program = stub(&rig, "garbage", "printf '\\033[31mpower is \\007'; exit 0");
    let error = rig.run(config.build(&rig.context()).unwrap().state()).unwrap_err();
    assert!(matches!(error, Error::Nonsense { .. }), "{error}");
    assert!(!error.to_string().contains(|c: char| c.is_control()), "{error:?}");
    config.password_file = Some(rig.path("nothing"));
    let error = config.build(&rig.context()).unwrap_err();
    assert!(matches!(error, ConfigError::File { .. }) && error.hint().contains("may read it"));
}
