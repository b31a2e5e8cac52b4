//! Mistakes in the features of the front door: `check` shows the line with its key and value, and what to do next.

use serde_json::{Value, json};

use crate::check_front_door::{SITE, Written, part, says};
use crate::harness::told;

/// What `check` writes about a configuration that cannot be used.
fn refused(lines: &str) -> String {
    let written = Written::site(&format!("{lines}\n"));
    let [page, json] = [written.check(&[]), written.check(&["--json"])];
    for output in [&page, &json] {
        assert_eq!(output.status.code(), Some(2), "{lines}: {}", told(output));
    }
    assert!(page.stdout.is_empty(), "{lines}: {}", told(&page));
    let object: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(object["good"], Value::Bool(false), "{lines}: {object}");
    told(&page)
}

#[test]
fn programs_get_an_object_with_the_place_of_a_mistake() {
    let written = Written::site("nonsense = 1\n");
    let output = written.check(&["--json"]);
    assert_eq!(output.status.code(), Some(2), "{}", told(&output));
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    let error = object["error"].as_str().unwrap();
    let place = format!("{}/n.toml:9:1: ", written.dir());
    assert!(error.starts_with(&place) && error.contains("nonsense"), "{error}");
    assert_eq!(object, json!({ "good": false, "error": error }));
    // People see the same.
    let shown = String::from_utf8(output.stderr).unwrap();
    assert_eq!(shown.trim_end(), format!("error: {error}"));
}

/// Each of these lines is refused: shows that line, which has the key and the value, and says what would be right.
#[track_caller]
fn all_are_refused(mistakes: &[(&str, &str, &str)]) {
    for (lines, shown, wanted) in mistakes {
        let said = refused(lines);
        let whole = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(whole.contains(wanted), "{lines}: no {wanted:?} in {said}");
        assert!(whole.contains("n.toml:") && whole.contains("hint: "), "{lines}: {said}");
        assert!(whole.contains(&format!(" | {shown} ")), "{lines}: no {shown:?} in {said}");
    }
}

#[test]
fn hours_and_holidays_that_cannot_be_read_are_named_with_an_example() {
    let example = "Write days and times, as in `mon-fri 08:00-18:00`";
    let no_times = format!(
        "`site.scenario.awake`: `noon` are no hours: `noon` are no two times of day. {example}"
    );
    let no_days = format!(
        "`site.scenario.never_sleep`: `weekend 08:00-10:00` are no hours: `weekend` are no days (mon, tue, wed, thu, \
         fri, sat, sun). {example}"
    );
    all_are_refused(&[
        ("scenario.awake = [\"noon\"]", "scenario.awake = [\"noon\"]", no_times.as_str()),
        (
            "[site.scenario]\nnever_sleep = [\"weekend 08:00-10:00\"]",
            "never_sleep = [\"weekend 08:00-10:00\"]",
            no_days.as_str(),
        ),
        (
            "[site.scenario]\nholidays = \"/no/days.ics\"",
            "holidays = \"/no/days.ics\"",
            "`site.scenario.holidays` is /no/days.ics, but it has no effect without `awake`: write the hours",
        ),
        (
            "[site.scenario]\nawake = [\"08:00-10:00\"]\nholidays = \"/no/days.ics\"",
            "holidays = \"/no/days.ics\"",
            "`site.scenario.holidays` is /no/days.ics: cannot read it: No such file or directory (os error 2). Save a \
             calendar there",
        ),
    ]);
}

#[test]
fn access_without_its_files_or_beside_what_goes_around_it_is_refused() {
    all_are_refused(&[
        (
            "[site.access]\nhtpasswd = \"/no/users\"",
            "htpasswd = \"/no/users\"",
            "`site.access.htpasswd` is /no/users: cannot read it: No such file or directory (os error 2). Write one with \
             `htpasswd -B -c FILE USER`, or correct the path",
        ),
        (
            "[site.access]\nhtpasswd = \"DIR/n.toml\"",
            "htpasswd =",
            "n.toml: line 1: its hash is not bcrypt, argon2 or SHA-crypt",
        ),
        (
            "[site.access]\ncertificate_ca = \"/no/ca.pem\"",
            "certificate_ca = \"/no/ca.pem\"",
            "`site.access.certificate_ca` needs TLS, by which clients show their certificates: add a `[tls]` table",
        ),
        (
            "[site.access]\nforward = { url = \"auth.example\" }",
            "forward = { url = \"auth.example\" }",
            "`site.access.forward.url`: `auth.example` is no address of a service: write `http://` or `https://`",
        ),
        (
            "[gate]\nlisten = [\"127.0.0.1:9181\"]\n[site.access]\ndeny = [\"10.0.0.0/8\"]",
            "[site.access]",
            "let that proxy control the access, and leave out `[site.access]` or `[gate]`",
        ),
    ]);
}

#[test]
fn paths_that_overlap_and_compression_that_is_off_are_refused() {
    all_are_refused(&[
        (
            "[[site.path]]\nprefix = \"/files\"\ntext = \"a\"\n[[site.path]]\nprefix = \"/files/\"\ntext = \"b\"",
            "prefix = \"/files/\"",
            "two tables are for `/files/`: write one",
        ),
        (
            "[[site.path]]\nprefix = \"/files\"\nredirect = \"/b\"\ntext = \"a\"",
            "text = \"a\"",
            "`redirect` and `text` are two answers: take one",
        ),
        (
            "[site.compression]\nmin_bytes = 10",
            "[site.compression]",
            "the table has no effect: add `enabled = true`",
        ),
        (
            "[site.compression]\nenabled = true\ntypes = [\"html\"]",
            "types = [\"html\"]",
            "`html` is no media type: write `text/html`, or `text/*`",
        ),
    ]);
}

#[test]
fn probes_without_a_question_and_services_without_a_server_are_refused() {
    let service = |kind: &str, more: &str| {
        format!(
            "[[{kind}]]\nname = \"a\"\nlisten = [\"127.0.0.1:2222\"]\norigin = \"10.0.0.5:22\"\n{more}"
        )
    };
    let telnet = service("tcp", "on = \"blog\"\nwake_on = \"telnet\"");
    let nowhere = service("udp", "on = \"nas\"");
    let motd = service("tcp", "on = \"blog\"\nmotd = \"Join to wake it\"");
    let key = service("udp", "on = \"blog\"\nwireguard_key = \"abc\"");
    all_are_refused(&[
        (
            "[[site.in_use]]\nevery = \"5m\"",
            "[[site.in_use]]",
            "what is asked? Write `preset = \"jellyfin\"` (emby, plex, home-assistant, transmission), `url = ",
        ),
        (
            telnet.as_str(),
            "wake_on = \"telnet\"",
            "`tcp.wake_on` is `telnet`, but must be one of `connect`, `first-byte`, `tls`, `ssh`, `rdp`, `minecraft`",
        ),
        (
            motd.as_str(),
            "motd = \"Join to wake it\"",
            "`tcp.motd` has no effect without `wake_on = \"minecraft\"`: add that, or leave out `motd`",
        ),
        (
            nowhere.as_str(),
            "on = \"nas\"",
            "there is no `[[site]]` or `[[machine]]` called `nas`: on whose server is it?",
        ),
        (
            key.as_str(),
            "wireguard_key = \"abc\"",
            "`udp.wireguard_key`: `abc` is not a key of WireGuard: write the server's public key, as `wg show",
        ),
        (
            "[magic_packets]",
            "[magic_packets]",
            "no card's address is known: write `power.wake.wol` for one, or leave this table out",
        ),
        // What is wrong elsewhere is not shown at the containers.
        (
            "[magic_packets]\n[containers]\npodman = \"/run/podman/podman.sock\"",
            "[magic_packets]",
            "no card's address is known: write `power.wake.wol` for one, or leave this table out",
        ),
        (
            "[containers]",
            "[containers]",
            "whose containers? Write `podman = \"/run/podman/podman.sock\"` or `docker = ",
        ),
    ]);
}

#[test]
fn proofs_by_dns_without_their_key_are_refused() {
    let tls = "[tls]\nlisten = [\"127.0.0.1:8443\"]\ncertificate = [{ acme = [\"blog.example\"] }]\n\
               acme.terms_agreed = true\n[tls.acme.dns]\nserver = \"192.0.2.1:53\"\n";
    let missing = format!("{tls}key_file = \"/no/key\"");
    let both = format!("{tls}hook = [\"/bin/true\"]");
    all_are_refused(&[
        (
            tls,
            "[tls.acme.dns]",
            "`server` takes signed updates only: write both `server` and `key_file`",
        ),
        (
            missing.as_str(),
            "key_file = \"/no/key\"",
            "`tls.acme.dns.key_file` is /no/key: cannot read it: No such file or directory (os error 2). Write the key \
             there",
        ),
        (
            both.as_str(),
            "[tls.acme.dns]",
            "or `hook` (a program that changes records), one of the two",
        ),
    ]);
}

#[test]
fn a_probe_or_a_page_without_its_file_names_site_and_file() {
    for (lines, what, hint) in [
        (
            "[[site.in_use]]\npreset = \"plex\"\ntoken_file = \"/no/token\"",
            "`in_use` of site `blog`: the probe `plex` cannot be asked: `token_file`: cannot read /no/token: No such file",
            "hint: check that the files it names are there and that this user may read them",
        ),
        (
            "[[site.in_use]]\nurl = \"https://10.0.0.7/state\"\nca = \"/no/ca.pem\"",
            "cannot be asked: `ca`: cannot read /no/ca.pem: No such file",
            "hint: check that the files it names are there and that this user may read them",
        ),
        (
            "[admin]\nlisten = \"127.0.0.1:9180\"\npassword_file = \"/no/password\"",
            "`admin.password_file`: the dashboard's password in /no/password: No such file",
            "hint: write one, for this user alone",
        ),
        (
            "[[webhook]]\nurl = \"http://127.0.0.1:1/\"\nsecret_file = \"/no/secret\"",
            "`webhook.secret_file` of http://127.0.0.1:1/…: the secret cannot be read from /no/secret because: No such \
             file",
            "hint: check that the file exists and that this user may read it",
        ),
        (
            "error_pages = { 503 = \"/no/page.html\" }",
            "`error_pages` of site `blog`: cannot read /no/page.html",
            "hint: check that the file is there and that this user may read it",
        ),
    ] {
        let said = refused(lines);
        let whole = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(whole.contains(what) && whole.contains(hint), "{lines}: {said}");
    }
}

#[test]
fn a_controller_a_server_and_a_mirror_name_the_keys_of_their_files() {
    let machine = "[[machine]]\nname = \"box\"\nprobe = \"tcp 10.0.0.5:22\"\npower.ipmi = { host = \"10.0.0.9\", \
                   user = \"me\", password_file = \"/no/bmc\" }\n";
    let lines = format!("kind = \"pages\"\nmirror.token_file = \"/no/token\"\n{machine}");
    let written = Written::site(&lines);
    let page = written.page();
    let wanted = "careful `password_file`: cannot read /no/bmc: No such file";
    says(&part(&page, "machine box"), &[wanted]);
    let wanted = "careful `site.mirror.token_file` of site `blog`: cannot read /no/token: No such file or directory \
                  (os error 2). No program can report changes while nightwatt cannot read a token there";
    says(&part(&page, "listens on"), &[wanted]);
    let ca = SITE.replace("http://127.0.0.1:1", "https://127.0.0.1:1");
    let written = Written::new(&format!("{ca}origin_tls.ca = \"/no/ca.pem\"\n"));
    let output = written.check(&[]);
    assert_eq!(output.status.code(), Some(2), "{}", told(&output));
    let said = told(&output).split_whitespace().collect::<Vec<_>>().join(" ");
    let file = "`origin_tls.ca`: cannot read /no/ca.pem";
    says(&said, &["site `blog`", file, "No such file", "hint: "]);
}

#[test]
fn a_meter_whose_password_is_missing_is_named_with_its_table() {
    let meter = "{ driver = \"shelly\", address = \"http://10.0.0.8\", password-file = \"FILE\" }";
    let there = format!("meter = {}\n", meter.replace("FILE", "DIR/token"));
    assert_eq!(Written::site(&there).json()["careful"], json!([]));
    let missing = |name: &str| meter.replace("FILE", &format!("/no/{name}"));
    let machine =
        "[[machine]]\nname = \"box\"\nprobe = \"tcp 10.0.0.5:22\"\npower.simulated = {}\n";
    let lines = format!("meter = {}\n{machine}meter = {}\n", missing("a"), missing("b"));
    let written = Written::new(&format!("meter = {}\n{SITE}{lines}", missing("own")));
    let said = written.json();
    let careful: Vec<&str> =
        said["careful"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let named = ["`meter.", "`site.meter.", "`machine.meter."];
    let files = ["/no/own", "/no/a", "/no/b"];
    assert_eq!(careful.len(), named.len(), "{careful:?}");
    for ((told, table), file) in careful.iter().zip(named).zip(files) {
        assert!(told.starts_with(&format!("{table}password-file`")), "{told}");
        assert!(told.contains(&format!("cannot read {file}: No such file")), "{told}");
    }
    says(&part(&written.page(), "listens on"), &["careful `meter.password-file`: cannot read"]);
}
