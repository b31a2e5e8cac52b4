//! Against a stand-in for `systemctl` that keeps the state of one unit, and against what the real
//! program says where systemd does not run. In a guest with systemd: `make test-vm`.

use nightwatt_needs::program;
use nightwatt_power::systemd::{Config, Systemd};
use nightwatt_power::{Controller, Error, Observed};

use crate::Rig;
use crate::daemon::stub;

/// Its unit is `web.service`, its state two files.
const SYSTEMCTL: &str = r#"cd "$(dirname "$0")"
while case $1 in -*) true ;; *) false ;; esac; do shift; done
for unit; do :; done
echo "$1 $unit" >> told
if [ "$unit" != web.service ]; then
  [ "$1" = show ] && printf 'LoadState=not-found\nActiveState=inactive\nFreezerState=running\n' && exit 0
  echo "Failed to $1 $unit: Unit $unit not found." >&2; exit 5
fi
case $1 in
show) printf 'LoadState=loaded\nActiveState=%s\nFreezerState=%s\n' $(cat active) $(cat freezer) ;;
start) [ ! -e broken ] || { echo "Job for $unit failed because the control process exited with error code." >&2; exit 1; }
  echo active > active ;;
stop) echo inactive > active ;;
freeze) echo frozen > freezer ;;
thaw) echo running > freezer ;;
*) exit 1 ;;
esac"#;

fn build(rig: &Rig, options: &str) -> Systemd {
    let program = stub(rig, "systemctl", SYSTEMCTL);
    let text = format!("program = \"{}\"\n{options}", program.display());
    toml::from_str::<Config>(&text).unwrap().build(&rig.context()).unwrap()
}

fn told(rig: &Rig) -> Vec<String> {
    let told = std::fs::read_to_string(rig.path("told")).unwrap();
    std::fs::remove_file(rig.path("told")).unwrap();
    let changes = told.lines().filter(|line| !line.starts_with("show"));
    changes.map(|line| line.strip_suffix(" web.service").unwrap().to_owned()).collect()
}

#[test]
fn a_unit_is_stopped_and_started_or_frozen_and_thawed_once() {
    let rig = Rig::new();
    std::fs::write(rig.path("freezer"), "running").unwrap();
    for (options, commands, asleep) in [
        ("", ["stop", "start"], Observed::Down),
        ("sleep = \"freeze\"\n", ["freeze", "thaw"], Observed::Frozen),
    ] {
        std::fs::write(rig.path("active"), "active").unwrap();
        let unit = build(&rig, &format!("{options}unit = \"web.service\""));
        rig.run(async {
            unit.wake().await.unwrap();
            assert_eq!(unit.state().await.unwrap(), Observed::Up);
            unit.sleep().await.unwrap();
            unit.sleep().await.unwrap();
            assert_eq!(unit.state().await.unwrap(), asleep);
            unit.wake().await.unwrap();
            assert_eq!(unit.state().await.unwrap(), Observed::Up);
        });
        assert_eq!(told(&rig), commands);
    }
    std::fs::write(rig.path("active"), "deactivating").unwrap();
    let unit = build(&rig, "unit = \"web.service\"");
    assert_eq!(rig.run(unit.state()).unwrap(), Observed::Unknown);
}

#[test]
fn a_unit_that_is_not_there_or_does_not_start_is_told_with_what_helps() {
    let rig = Rig::new();
    let error = rig.run(build(&rig, "unit = \"wep.service\"").wake()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "systemctl refuses to control wep.service: there is no such unit"
    );
    assert!(error.hint().contains("list-unit-files"));
    std::fs::write(rig.path("active"), "failed").unwrap();
    std::fs::write(rig.path("freezer"), "running").unwrap();
    std::fs::write(rig.path("broken"), "").unwrap();
    let error = rig.run(build(&rig, "unit = \"web.service\"").wake()).unwrap_err();
    assert!(error.hint().contains("journalctl"), "{error}: {}", error.hint());
}

#[test]
fn where_systemd_does_not_run_the_real_program_says_so() {
    if std::path::Path::new("/run/systemd/system").exists() {
        println!("skipped: systemd runs here");
        return;
    }
    let Some(program) = program("systemctl") else { return };
    let rig = Rig::new();
    let text = format!("unit = \"web.service\"\nprogram = \"{}\"", program.display());
    let unit = toml::from_str::<Config>(&text).unwrap().build(&rig.context()).unwrap();
    let error = rig.run(unit.wake()).unwrap_err();
    assert!(matches!(error, Error::Refused { .. }), "{error}");
    assert!(error.hint().contains("runs without systemd"), "{error}: {}", error.hint());
}
