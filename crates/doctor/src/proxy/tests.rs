//! A proxy made of files and of programs that answer as they are told to: nothing is sent anywhere.

use std::fs;

use tempfile::TempDir;

use super::super::Verdict;
use super::*;

/// What `ip -json route get 10.0.0.2` prints on the machine's own network (iproute2 6.1).
const NEIGHBOUR: &str =
    r#"[{"dst":"10.0.0.2","dev":"eth0","prefsrc":"10.0.0.1","flags":[],"uid":0,"cache":[]}]"#;

/// And where a router is between.
const BEHIND: &str = r#"[{"dst":"10.0.0.2","gateway":"192.168.1.1","dev":"eth0","prefsrc":"192.168.1.7","flags":[],"uid":0,"cache":[]}]"#;

/// What `ip -json neigh show to 10.0.0.2` prints of a card that the kernel has spoken to.
const CARD: &str =
    r#"[{"dst":"10.0.0.2","dev":"eth0","lladdr":"52:54:00:ab:cd:ef","state":["REACHABLE"]}]"#;

#[derive(Clone, Copy)]
struct Proxy {
    route: &'static str,
    card: &'static str,
    programs: &'static [&'static str],
}

const PROXY: Proxy = Proxy { route: NEIGHBOUR, card: CARD, programs: &["ip", "ssh"] };

impl Proxy {
    fn place(self, dir: &TempDir) -> HostView {
        HostView::new(dir.path().to_owned(), move |program, arguments| {
            let printed = match (program, arguments) {
                ("ip", ["-json", "route", "get", "10.0.0.2"]) => self.route,
                ("ip", ["-json", "neigh", "show", "to", "10.0.0.2"]) => self.card,
                ("sh", ["-c", script]) => {
                    let (_, asked) = script.rsplit_once(' ').unwrap();
                    return self.programs.contains(&asked).then(|| format!("/usr/bin/{asked}\n"));
                }
                other => panic!("{other:?}"),
            };
            (!printed.is_empty()).then(|| printed.to_owned())
        })
    }
}

fn config(origin: &str, wol: &str) -> Config {
    let text = format!(
        "listen = [\"127.0.0.1:0\"]\n[[site]]\nname = \"web\"\norigin = \"http://{origin}\"\n\
         [site.power.wake.wol]\n{wol}\n[site.power.sleep.ssh]\nhost = \"root@{origin}\"\n"
    );
    Config::parse(&text, "test").unwrap()
}

const RIGHT_CARD: &str = "mac = \"52:54:00:AB:CD:EF\"";

/// What is found of the way to 10.0.0.2, by what it is about.
fn ways(proxy: Proxy, wol: &str) -> Vec<(String, Verdict, String)> {
    let dir = tempfile::tempdir().unwrap();
    let config = config("10.0.0.2", wol);
    let targets = Target::all(&config);
    let address = targets[0].address().unwrap();
    let found = way(&targets[0], address, &proxy.place(&dir));
    found.into_iter().map(|it| (it.about, it.verdict, it.found)).collect()
}

#[test]
fn a_neighbour_with_the_card_that_is_configured_is_well() {
    let found = ways(PROXY, RIGHT_CARD);
    let verdicts: Vec<_> = found.iter().map(|it| (it.0.as_str(), it.1)).collect();
    assert_eq!(verdicts, [("way", Verdict::Good), ("card", Verdict::Good)], "{found:?}");
}

#[test]
fn a_magic_packet_to_another_card_is_told_of() {
    let found = ways(PROXY, "mac = \"52:54:00:00:00:01\"");
    let (about, verdict, words) = &found[1];
    assert_eq!((about.as_str(), *verdict), ("card", Verdict::Bad));
    assert!(words.contains("52:54:00:ab:cd:ef") && words.contains("52:54:00:00:00:01"), "{words}");
    // One of several is enough.
    let found = ways(PROXY, "mac = [\"52:54:00:00:00:01\", \"52:54:00:ab:cd:ef\"]");
    assert_eq!(found[1].1, Verdict::Good);
    // A machine that the kernel has not spoken to: nothing is said of its card.
    assert_eq!(ways(Proxy { card: "[]", ..PROXY }, RIGHT_CARD).len(), 1);
}

#[test]
fn a_router_on_the_way_passes_no_broadcast_on() {
    let behind = Proxy { route: BEHIND, card: "[]", ..PROXY };
    let found = ways(behind, RIGHT_CARD);
    assert_eq!((found.len(), found[0].1), (1, Verdict::Bad), "{found:?}");
    assert!(found[0].2.contains("192.168.1.1"), "{found:?}");
    let raw = format!("{RIGHT_CARD}\nraw = true\ninterface = \"eth0\"\nto = \"10.0.0.255:9\"");
    assert_eq!(ways(behind, &raw)[0].1, Verdict::Bad, "frames end at routers");
    let directed = format!("{RIGHT_CARD}\nto = \"10.0.0.255:9\"");
    assert_eq!(ways(behind, &directed)[0].1, Verdict::Note);
}

#[test]
fn without_ip_the_way_is_not_known() {
    for route in ["", "[]", "not JSON"] {
        let found = ways(Proxy { route, ..PROXY }, RIGHT_CARD);
        assert_eq!((found.len(), found[0].1), (1, Verdict::Unknown), "{route}");
    }
}

#[test]
fn each_driver_has_its_program_or_that_is_bad() {
    let config = config("10.0.0.2", RIGHT_CARD);
    let dir = tempfile::tempdir().unwrap();
    let found = |there: &'static [&'static str]| {
        let place = Proxy { programs: there, ..PROXY }.place(&dir);
        let found = programs(&Target::all(&config)[0], &place);
        found.into_iter().map(|it| (it.about, it.verdict, it.cure)).collect::<Vec<_>>()
    };
    let all = found(&["ssh", "ip"]);
    assert!(all.len() == 2 && all.iter().all(|it| it.1 == Verdict::Good), "{all:?}");
    let some = found(&["ip"]);
    let bad: Vec<_> = some.iter().filter(|it| it.1 == Verdict::Bad).collect();
    assert!(bad.len() == 1 && bad[0].0 == "program ssh", "{some:?}");
    assert!(bad[0].2.as_ref().unwrap().contains("openssh-client"), "{some:?}");
}

#[test]
fn a_name_that_the_sleeper_itself_answers_for_is_bad() {
    let verdict = |origin: &str| {
        let config = config(origin, RIGHT_CARD);
        name(&Target::all(&config)[0]).unwrap().verdict
    };
    // Decided before any is looked up.
    for origin in ["web.local", "Web.LOCAL", "web.local."] {
        assert_eq!(verdict(origin), Verdict::Bad, "{origin}");
    }
    assert_eq!(verdict("10.0.0.2"), Verdict::Good);
}

#[test]
fn capabilities_that_are_missing_are_named() {
    let found = |effective: &str| {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("proc/self")).unwrap();
        let status = format!("Name:\tnightwatt\nCapPrm:\t{effective}\nCapEff:\t{effective}\n");
        fs::write(dir.path().join("proc/self/status"), status).unwrap();
        let found = capabilities(&PROXY.place(&dir));
        (found.verdict, found.found)
    };
    // CAP_NET_ADMIN is 12, CAP_NET_RAW 13 (linux/capability.h).
    assert_eq!(found("0000000000003000").0, Verdict::Good);
    let (verdict, words) = found("0000000000001000");
    assert!(verdict == Verdict::Note && words.ends_with("CAP_NET_RAW"), "{words}");
    let (verdict, words) = found("0000000000000000");
    assert!(verdict == Verdict::Note && words.contains("CAP_NET_ADMIN and"), "{words}");
    assert_eq!(found("many").0, Verdict::Unknown);
}

#[test]
fn what_another_started_where_a_process_is_to_listen_is_bad() {
    let dir = tempfile::tempdir().unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let text = format!(
        "listen = [\"127.0.0.1:0\"]\nstate_dir = \"{}\"\n[[site]]\nname = \"web\"\n\
         origin = \"http://{address}\"\nprobe = \"tcp {address}\"\n[site.power.process]\n\
         command = [\"sleep\", \"1000\"]\n",
        dir.path().display()
    );
    let config = Config::parse(&text, "test").unwrap();
    let target = Target::of_site(&config.site[0]).swap_remove(0);
    let clock = Clock::real();
    let runtime = clock.runtime().unwrap();
    let verdict = |target: &Target<'_>| {
        let findings = runtime.block_on(reach(target, &config, &clock));
        findings.iter().find(|it| it.about == "controller").unwrap().verdict
    };
    assert_eq!(target.stranger(&config), Some(address.to_string()));
    assert_eq!(verdict(&target), Verdict::Bad);
    // The test's own listener stands for what the child listens on.
    let controller = target.controller(&config, &clock).unwrap().unwrap();
    runtime.block_on(controller.wake()).unwrap();
    assert_eq!((target.stranger(&config), verdict(&target)), (None, Verdict::Good));
    runtime.block_on(controller.sleep()).unwrap();
    drop(listener);
    assert_eq!((target.stranger(&config), verdict(&target)), (None, Verdict::Good));
}

#[test]
fn commands_begin_with_programs_that_are_there() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("opt")).unwrap();
    fs::write(dir.path().join("opt/plain"), "").unwrap();
    let found = |wake: &str, sleep: &str| {
        let text = format!(
            "listen = [\"127.0.0.1:0\"]\n[[site]]\nname = \"web\"\norigin = \"http://10.0.0.2\"\n\
             [site.power.command]\nwake = \"{wake}\"\nsleep = \"{sleep}\"\n"
        );
        let config = Config::parse(&text, "test").unwrap();
        let found = commands(&Target::all(&config)[0], &PROXY.place(&dir));
        found.into_iter().map(|it| (it.about, it.verdict, it.found)).collect::<Vec<_>>()
    };
    let both = found("/no/such/power.sh wake", "A=1 /opt/plain");
    let bad = |it: &(String, Verdict, String)| {
        assert_eq!(it.1, Verdict::Bad, "{it:?}");
        format!("{}: {}", it.0, it.2)
    };
    assert_eq!(bad(&both[0]), "wake: /no/such/power.sh: no such file");
    assert_eq!(bad(&both[1]), "sleep: /opt/plain: is not executable");
    assert_eq!(both[2].1, Verdict::Note, "{both:?}");
    // A name is looked up as the shell does; what only the shell understands is left to it.
    let names = found("wakeonlan 00:11", "ssh root@web poweroff");
    assert_eq!(bad(&names[0]), "wake: wakeonlan: no such program");
    assert_eq!(names[1].1, Verdict::Good, "{names:?}");
    let shell = found("(sleep 1; true)", "$HOME/power.sh");
    assert!(shell.len() == 1 && shell[0].0 == "commands", "{shell:?}");
}
