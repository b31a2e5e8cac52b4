//! Against sushy-tools' emulator over HTTPS (`tools/sushy`), and against peers that speak otherwise.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::Command;

use nightwatt_needs::program;
use nightwatt_power::redfish::{Config, Redfish};
use nightwatt_power::{ConfigError, Controller, Error, Observed};

use crate::Rig;
use crate::daemon::{Daemon, output};

const PASSWORD: &str = "tellnobody";

/// As its own program does, but that states change on the next second and not 1 to 11 s later.
const EMULATOR: &str = "import random, sys; random.randint = lambda *_: 0; \
                        from sushy_tools.emulator.main import main; sys.exit(main())";

/// Writes a user with a password as the emulator wants it.
const USER: &str = "import bcrypt, sys; \
                    print('power:' + bcrypt.hashpw(sys.argv[1].encode(), bcrypt.gensalt(4)).decode())";

struct Bmc<'a> {
    rig: &'a Rig,
    address: SocketAddr,
    fingerprint: String,
    daemon: Daemon,
}

impl<'a> Bmc<'a> {
    /// With that many systems, all of them off.
    fn start(rig: &'a Rig, systems: usize) -> Option<Self> {
        let Some(python) = std::env::var_os("NIGHTWATT_SUSHY") else {
            eprintln!("skipped: NIGHTWATT_SUSHY names no Python with sushy-tools (tools/sushy)");
            return None;
        };
        program("openssl")?;
        let path = |name: &str| rig.path(name).display().to_string();
        certificate(rig);
        let mut openssl = Command::new("openssl");
        openssl.args(["x509", "-noout", "-fingerprint", "-sha256", "-in", &path("cert.pem")]);
        let fingerprint = output(&mut openssl).trim().to_owned();
        let user = output(Command::new(&python).args(["-c", USER, PASSWORD]));
        std::fs::write(rig.path("users"), user).unwrap();
        std::fs::create_dir(rig.path("state")).unwrap();
        let address = nightwatt_needs::free_address();
        let (host, port) = (address.ip(), address.port());
        let system = |number| {
            format!(
                "{{'uuid': 'aaaaaaaa-0000-0000-0000-00000000000{number}', 'name': 'web{number}', \
                 'power_state': 'Off', 'nics': []}}"
            )
        };
        let systems: Vec<_> = (0..systems).map(system).collect();
        let config = format!(
            "SUSHY_EMULATOR_LISTEN_IP = '{host}'\nSUSHY_EMULATOR_LISTEN_PORT = {port}\n\
             SUSHY_EMULATOR_FAKE_DRIVER = True\nSUSHY_EMULATOR_STATE_DIR = '{}'\n\
             SUSHY_EMULATOR_SSL_CERT = '{}'\nSUSHY_EMULATOR_SSL_KEY = '{}'\n\
             SUSHY_EMULATOR_AUTH_FILE = '{}'\nSUSHY_EMULATOR_FAKE_SYSTEMS = [{}]\n",
            path("state"),
            path("cert.pem"),
            path("key.pem"),
            path("users"),
            systems.join(", ")
        );
        std::fs::write(rig.path("conf.py"), config).unwrap();
        let mut emulator = Command::new(python);
        emulator.args(["-c", EMULATOR, "--fake", "--config", &path("conf.py")]);
        let daemon = Daemon::start(rig, &mut emulator);
        let mut bmc = Self { rig, address, fingerprint, daemon };
        let probe = bmc.build(&format!("fingerprint = \"{}\"", bmc.fingerprint));
        bmc.daemon.ready(rig, || match rig.run(probe.state()) {
            Err(Error::Unreachable { .. }) => None,
            _ => Some(()),
        });
        Some(bmc)
    }

    fn config(&self, password: &str, options: &str) -> Config {
        let file = self.rig.path("password");
        std::fs::write(&file, password).unwrap();
        let text = format!(
            "url = \"https://{}\"\nuser = \"power\"\npassword_file = \"{}\"\n{options}",
            self.address,
            file.display()
        );
        toml::from_str(&text).unwrap()
    }

    fn build(&self, options: &str) -> Redfish {
        self.config(PASSWORD, options).build(&self.rig.context()).unwrap()
    }

    fn becomes(&mut self, redfish: &Redfish, state: Observed) {
        let rig = self.rig;
        self.daemon.ready(rig, || (rig.run(redfish.state()).unwrap() == state).then_some(()));
    }

    /// The ways in which it was told to reset a system, as far as it obeyed.
    fn resets(&self) -> usize {
        let log = self.daemon.log();
        log.lines()
            .filter(|line| line.contains("ComputerSystem.Reset") && line.contains("204"))
            .count()
    }
}

/// A key and a self-signed certificate.
fn certificate(rig: &Rig) {
    let path = |name: &str| rig.path(name).display().to_string();
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]);
    openssl.args(["-nodes", "-days", "2", "-subj", "/CN=bmc"]);
    openssl.args(["-addext", &format!("subjectAltName=IP:{}", nightwatt_needs::own_address())]);
    openssl.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
    openssl.args(["-keyout", &path("key.pem"), "-out", &path("cert.pem")]);
    output(&mut openssl);
}

#[test]
fn a_system_is_found_and_its_power_goes_on_and_off_over_https() {
    let rig = Rig::new();
    let Some(mut bmc) = Bmc::start(&rig, 1) else { return };
    let ca = format!("ca = \"{}\"", rig.path("cert.pem").display());
    let pinned = format!("sleep = \"force\"\nfingerprint = \"{}\"", bmc.fingerprint);
    for options in [ca, pinned] {
        let redfish = bmc.build(&options);
        let before = bmc.resets();
        assert_eq!(rig.run(redfish.state()).unwrap(), Observed::Down);
        rig.run(redfish.sleep()).unwrap();
        assert_eq!(bmc.resets(), before, "it is off already");
        rig.run(redfish.wake()).unwrap();
        bmc.becomes(&redfish, Observed::Up);
        rig.run(redfish.wake()).unwrap();
        rig.run(redfish.sleep()).unwrap();
        bmc.becomes(&redfish, Observed::Down);
        assert_eq!(bmc.resets(), before + 2);
    }
}

#[test]
fn a_wrong_password_a_strange_certificate_and_several_systems_each_have_their_cure() {
    let rig = Rig::new();
    let Some(bmc) = Bmc::start(&rig, 2) else { return };
    let pin = format!("fingerprint = \"{}\"", bmc.fingerprint);
    let refused = |config: Config| {
        let redfish = config.build(&rig.context()).unwrap();
        assert!(!format!("{redfish:?}{config:?}").contains(PASSWORD), "{redfish:?}");
        let error = rig.run(redfish.wake()).unwrap_err();
        assert!(!error.to_string().contains("tell"), "{error}");
        error
    };
    let error = refused(bmc.config("telleverybody", &pin));
    assert!(error.to_string().contains("Incorrect username or password (status 401)"), "{error}");
    assert!(error.hint().contains("ConfigureComponents"), "{}", error.hint());
    let error = refused(bmc.config(PASSWORD, ""));
    assert!(error.to_string().ends_with("prove who it is: no trusted authority signed it"));
    assert!(error.hint().contains("set `fingerprint`"), "{}", error.hint());
    let other = bmc.fingerprint.replace(['0', '1', '2'], "3");
    let error = refused(bmc.config(PASSWORD, &format!("fingerprint = \"{other}\"")));
    assert!(error.to_string().ends_with("its certificate has another fingerprint"), "{error}");
    let error = refused(bmc.config(PASSWORD, &pin));
    assert!(error.to_string().contains("/redfish/v1/Systems/aaaaaaaa-"), "{error}");
    assert!(error.hint().contains("set `system`"), "{}", error.hint());
    let system = |name: &str| bmc.config(PASSWORD, &format!("{pin}\nsystem = \"{name}\""));
    assert!(refused(system("nobody")).hint().contains("set `system`"));
    let chosen = system("aaaaaaaa-0000-0000-0000-000000000001").build(&rig.context()).unwrap();
    assert_eq!(rig.run(chosen.state()).unwrap(), Observed::Down);
}

/// What is answered to each path, over HTTP: the whole of it.
fn peer(answers: Vec<(&'static str, &'static str)>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut asked = [0; 4096];
            let count = stream.read(&mut asked).unwrap();
            let asked = String::from_utf8_lossy(&asked[..count]).into_owned();
            let path = asked.split(' ').nth(1).unwrap();
            let body = answers.iter().find(|(known, _)| *known == path).unwrap().1;
            let length = body.len();
            // The client may disconnect once it has read enough.
            let _ = if body.starts_with("HTTP") {
                stream.write_all(body.as_bytes())
            } else {
                write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}")
            };
            if body.is_empty() {
                // It sends no answer until the client has given up waiting.
                let _ = std::io::copy(&mut stream, &mut std::io::sink());
            }
        }
    });
    format!("http://{address}")
}

const ROOT: &str = "{\"Systems\": {\"@odata.id\": \"/s\"}}";
const ONE: &str = "{\"Members\": [{\"@odata.id\": \"/s/1\"}]}";

#[test]
fn whoever_speaks_otherwise_is_not_believed() {
    let rig = Rig::new();
    let ask = |answers: &[(&'static str, &'static str)], options: &str| {
        let text = format!("url = \"{}\"\n{options}", peer(answers.to_vec()));
        let redfish = toml::from_str::<Config>(&text).unwrap().build(&rig.context()).unwrap();
        rig.run(redfish.wake()).unwrap_err()
    };
    let error = ask(&[("/redfish/v1/", "<html>hello")], "");
    assert!(matches!(error, Error::Nonsense { .. }), "{error}");
    assert!(error.to_string().contains("`<html>hello`"), "{error}");
    let elsewhere = "{\"Systems\": {\"@odata.id\": \"https://evil/s\"}}";
    let error = ask(&[("/redfish/v1/", elsewhere)], "");
    assert!(error.to_string().contains("its systems are elsewhere"), "{error}");
    let away = "HTTP/1.1 302 Found\r\nLocation: http://evil/\r\nContent-Length: 0\r\n\r\n";
    let error = ask(&[("/redfish/v1/", away)], "");
    assert!(error.hint().contains("redirects are not followed"), "{error}");
    let error = ask(
        &[("/redfish/v1/", "HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\n")],
        "timeout = \"50ms\"",
    );
    assert!(matches!(error, Error::Silent { .. } | Error::Nonsense { .. }), "{error}");
    let none = [("/redfish/v1/", ROOT), ("/s", "{\"Members\": []}")];
    let error = ask(&none, "");
    assert!(error.hint().contains("may not be shown any"), "{error}");
    let cannot = "{\"PowerState\": \"Off\"}";
    let bare = [("/redfish/v1/", ROOT), ("/s", ONE), ("/s/1", cannot)];
    let error = ask(&bare, "");
    assert!(error.to_string().contains("no action `#ComputerSystem.Reset`"), "{error}");
    let silent = [("/redfish/v1/", "")];
    let error = ask(&silent, "timeout = \"50ms\"");
    assert!(matches!(error, Error::Silent { .. } | Error::Nonsense { .. }), "{error}");
}

#[test]
fn certificates_that_are_none_are_told_before_anything_is_sent() {
    let rig = Rig::new();
    let build = |ca: &std::path::Path| {
        let text = format!("url = \"https://127.0.0.1:1\"\nca = \"{}\"", ca.display());
        toml::from_str::<Config>(&text).unwrap().build(&rig.context())
    };
    let error = build(&rig.path("nothing")).unwrap_err();
    assert!(matches!(error, ConfigError::File { .. }), "{error}");
    let file = rig.path("ca.pem");
    for text in ["", "hello", "-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n"]
    {
        std::fs::write(&file, text).unwrap();
        let error = build(&file).unwrap_err();
        assert!(matches!(error, ConfigError::Certificate { .. }), "{error}");
        assert!(error.hint().contains("openssl s_client"), "{error}");
    }
    std::fs::remove_file(&file).unwrap();
    let redfish: Config = toml::from_str("url = \"https://127.0.0.1:1\"").unwrap();
    let error = rig.run(redfish.build(&rig.context()).unwrap().state()).unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }) && error.retryable(), "{error}");
    assert!(error.hint().contains("check `url`"), "{}", error.hint());
}
