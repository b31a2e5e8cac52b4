//! Certificates by ACME with proofs in DNS: from Pebble, which asks BIND, which takes our updates.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use nightwatt_gateway::config::{DnsConfig, Proof, TsigKey};
use nightwatt_gateway::dns_update;
use nightwatt_needs::{command, programs};

use crate::acme::{Authority, eventually, free, pause, problem};
use crate::origin::ok;
use crate::passthrough_programs::{port, succeeded};
use crate::stage::asleep;

const RECORD: &str = "_acme-challenge.lan.example.org";

/// BIND, as the primary server of a zone, which takes updates of one record by one key.
pub(crate) struct Bind {
    child: Child,
    pub(crate) at: SocketAddr,
    dir: tempfile::TempDir,
}

impl Drop for Bind {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Bind {
    /// None if it is not here.
    pub(crate) fn start() -> Option<Self> {
        if !programs(&["named", "tsig-keygen", "nsupdate"]) {
            return None;
        }
        // It listens only at addresses of network interfaces: another test may get the port first.
        let started = (0..10).find_map(|_| {
            let at = port().1;
            Self::start_at(at)
        });
        Some(started.expect("a port that no other program gets"))
    }

    /// None if another program has this address, by UDP or by TCP.
    fn start_at(at: SocketAddr) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        for key in ["acme.example", "other.example"] {
            let text = succeeded(
                &command("tsig-keygen").args(["-a", "hmac-sha256", key]).output().unwrap(),
            );
            std::fs::write(path(key), text).unwrap();
        }
        let here = dir.path().display();
        let text = format!(
            "options {{ directory \"{here}\"; listen-on port {port} {{ 127.0.0.1; }}; listen-on-v6 {{ none; }};\n\
             recursion no; querylog yes; pid-file none; session-keyfile \"{here}/session\"; managed-keys-directory \"{here}\";\n\
             dnssec-validation no; }};\ncontrols {{ }};\ninclude \"{here}/acme.example\";\n\
             zone \"example.org\" {{ type primary; file \"{here}/zone\";\n\
             update-policy {{ grant acme.example name {RECORD} TXT; }}; }};\n",
            port = at.port(),
        );
        std::fs::write(path("named.conf"), text).unwrap();
        let zone = "$TTL 60\n@ IN SOA ns.example.org. me.example.org. 1 60 60 60 60\n@ IN NS ns.example.org.\n\
                    ns IN A 127.0.0.1\n";
        std::fs::write(path("zone"), zone).unwrap();
        let log = std::fs::File::create(path("log")).unwrap();
        let mut named = command("named");
        named.args(["-g", "-4", "-c"]).arg(path("named.conf")).stdin(Stdio::null());
        named.stdout(log.try_clone().unwrap()).stderr(log);
        let it = Self { child: named.spawn().unwrap(), at, dir };
        let is_taken =
            || ["interface ignored", "address in use"].iter().any(|why| it.log().contains(why));
        let up = || it.log().contains("all zones loaded") && TcpStream::connect(at).is_ok();
        assert!((0..600).any(|_| is_taken() || up() || pause()), "{}", it.log());
        if is_taken() { None } else { Some(it) }
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Changes records by updates with the key of this name.
    fn by_updates(&self, key: &str) -> DnsConfig {
        let file = self.path(key);
        let key = TsigKey::parse(&std::fs::read_to_string(&file).unwrap()).unwrap();
        DnsConfig {
            server: Some(self.at.to_string()),
            key_file: Some(file),
            key: Some(key),
            hook: None,
            hook_timeout: Duration::from_mins(1),
            check: None,
            propagation: Duration::from_secs(20),
        }
    }

    /// The number of texts that it has for the record.
    fn texts(&self) -> usize {
        let question = dns_update::text_query(7, RECORD);
        let mut stream = TcpStream::connect(self.at).unwrap();
        let length = u16::try_from(question.len()).unwrap().to_be_bytes();
        stream.write_all(&[&length, &question[..]].concat()).unwrap();
        let mut length = [0; 2];
        stream.read_exact(&mut length).unwrap();
        let mut answer = vec![0; u16::from_be_bytes(length).into()];
        stream.read_exact(&mut answer).unwrap();
        let answer = dns_update::read(&answer).unwrap();
        answer.is_for(7).unwrap();
        answer.records.iter().filter(|it| it.kind == 16).count()
    }
}

#[test]
fn a_name_with_a_star_is_proved_by_a_signed_update_and_the_record_is_removed() {
    let Some(bind) = Bind::start() else { return };
    let ports = [free(), free()];
    let Some(authority) = Authority::start_with(ports[0], ports[1], 3600, bind.at) else { return };
    // Both names are proved by records of one name.
    let names = ["*.lan.example.org", "lan.example.org"];
    let how = Some(bind.by_updates("acme.example"));
    authority.gives_by(asleep().real(), ports, Proof::Dns, how, &names).play(async |stage| {
        stage.origin.says(ok("page"));
        eventually("a certificate", &authority, stage, || problem(stage).is_none()).await;
        assert_eq!(stage.commands(), (0, 0), "no proof wakes the server");
        let mut got = stage.tls().certificates.remove(0).names;
        got.sort();
        assert_eq!(got, names, "{}", bind.log());
        let page = authority.page_of(stage, "any.lan.example.org").await;
        assert_eq!(page.as_deref(), Ok("page"));
        assert_eq!(bind.texts(), 0, "{}", bind.log());
        let log = bind.log();
        assert!(log.matches("adding an RR at").count() >= 2, "it had both: {log}");
        // Our own questions come by TCP (`T` among the flags).
        let is_authority = |line: &&str| {
            let flags = line.split(" IN TXT ").nth(1);
            line.contains(RECORD) && flags.is_some_and(|it| !it.contains('T'))
        };
        let asked = log.lines().position(|line| is_authority(&line));
        let added = log.lines().enumerate().filter(|(_, line)| line.contains("adding an RR at"));
        let last = added.map(|(at, _)| at).max();
        assert!(asked.is_some() && last < asked, "all are there before the authority asks: {log}");
        assert!(!stage.config.state_dir.join("acme/records.json").exists());
    });
}

#[test]
fn a_key_that_the_server_does_not_know_is_reported() {
    let Some(bind) = Bind::start() else { return };
    let ports = [free(), free()];
    let Some(authority) = Authority::start_with(ports[0], ports[1], 3600, bind.at) else { return };
    let how = Some(bind.by_updates("other.example"));
    authority.gives_by(asleep().real(), ports, Proof::Dns, how, &["lan.example.org"]).play(
        async |stage| {
            let is_reported = || problem(stage).is_some_and(|it| it.contains("NOTAUTH"));
            eventually("the refusal", &authority, stage, is_reported).await;
            let said = problem(stage).unwrap();
            assert!(said.contains(RECORD) && said.contains(&bind.at.to_string()), "{said}");
            assert!(
                stage.config.state_dir.join("acme/records.json").exists(),
                "the refusal is not signed, so the record may be there: it is removed later"
            );
        },
    );
}

/// A hook that changes the record by `nsupdate`.
fn hook(bind: &Bind, dir: &Path) -> Vec<String> {
    let script = dir.join("hook");
    let text = format!(
        "case $NIGHTWATT_ACTION in add) what=add ;; remove) what=delete ;; *) exit 3 ;; esac\n\
         printf 'server 127.0.0.1 {}\\nzone example.org\\nupdate %s %s 60 TXT %s\\nsend\\n' \
         $what $NIGHTWATT_NAME. $NIGHTWATT_VALUE | {} -k {}\n",
        bind.at.port(),
        nightwatt_needs::program("nsupdate").unwrap().display(),
        bind.path("acme.example").display(),
    );
    std::fs::write(&script, text).unwrap();
    vec!["/bin/sh".to_owned(), script.display().to_string()]
}

#[test]
fn a_hook_changes_the_record_and_it_is_removed_after_a_failure_too() {
    let Some(bind) = Bind::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    let by_hook = DnsConfig {
        server: None,
        key_file: None,
        key: None,
        hook: Some(hook(&bind, dir.path())),
        check: Some(vec![bind.at.to_string()]),
        ..bind.by_updates("acme.example")
    };
    for asks_bind in [true, false] {
        let ports = [free(), free()];
        let asked = if asks_bind { bind.at } else { free() };
        let Some(authority) = Authority::start_with(ports[0], ports[1], 3600, asked) else {
            return;
        };
        let how = Some(by_hook.clone());
        let before = bind.log().matches("adding an RR at").count();
        authority.gives_by(asleep().real(), ports, Proof::Dns, how, &["lan.example.org"]).play(
            async |stage| {
                let is_over = || match problem(stage) {
                    None => asks_bind,
                    Some(why) => why.contains("no new one was got: lan.example.org: "),
                };
                eventually("an outcome", &authority, stage, is_over).await;
                assert_eq!(problem(stage).is_none(), asks_bind);
                assert_eq!(bind.texts(), 0, "{}", bind.log());
            },
        );
        assert_eq!(bind.log().matches("adding an RR at").count(), before + 1);
    }
}

#[test]
fn a_hook_that_fails_is_reported_with_its_last_words() {
    let Some(bind) = Bind::start() else { return };
    let ports = [free(), free()];
    let Some(authority) = Authority::start_with(ports[0], ports[1], 3600, bind.at) else { return };
    let by_hook = DnsConfig {
        server: None,
        key_file: None,
        key: None,
        hook: Some(["/bin/sh", "-c", "echo no such zone >&2; exit 4"].map(str::to_owned).to_vec()),
        check: None,
        ..bind.by_updates("acme.example")
    };
    let how = Some(by_hook);
    authority.gives_by(asleep().real(), ports, Proof::Dns, how, &["lan.example.org"]).play(
        async |stage| {
            let is_reported = || problem(stage).is_some_and(|it| it.contains("no such zone"));
            eventually("the failure", &authority, stage, is_reported).await;
            let said = problem(stage).unwrap();
            assert!(said.contains("exit status: 4") && said.contains(RECORD), "{said}");
        },
    );
}
