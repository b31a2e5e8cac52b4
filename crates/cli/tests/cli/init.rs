//! A first configuration: asked for, written, understood, used.

use std::fs;
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use nightwatt_gateway::Config;
use nightwatt_gateway::config::{MirrorUrl, SiteKind};

use crate::harness::{NIGHTWATT, free_address, nightwatt, program, told};

/// Answers what is asked by these lines.
fn answered(dir: &Path, lines: impl AsRef<[u8]>, args: &[&str]) -> Output {
    let mut child = program()
        .arg("init")
        .args(args)
        .current_dir(dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The command may end before it has read everything.
    let _ = child.stdin.take().unwrap().write_all(lines.as_ref());
    child.wait_with_output().unwrap()
}

fn written(dir: &Path) -> Config {
    Config::load(&dir.join("nightwatt.toml")).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn six_questions_make_a_configuration() {
    let dir = tempfile::tempdir().unwrap();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let origin = format!("http://{}", server.local_addr().unwrap());
    let lines = format!(
        "{origin}\nblog.example.org, www.blog.example.org\n127.0.0.1:8080\nssh\n\
                         52:54:00:12:34:56\n80,2\npages\n3 10s\n"
    );
    let output = answered(dir.path(), &lines, &[]);
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    let said = told(&output);
    for words in
        ["takes connections", "wrote nightwatt.toml", "nightwatt.toml is good: 1 site", "doctor -c"]
    {
        assert!(said.contains(words), "{words} in {said}");
    }
    let config = written(dir.path());
    let site = &config.site[0];
    assert_eq!((site.name.as_str(), site.hosts.len()), ("blog", 2));
    assert_eq!(site.kind, Some(SiteKind::Pages));
    assert_eq!(config.listen, ["127.0.0.1:8080".parse::<SocketAddr>().unwrap()]);
    let text = fs::read_to_string(dir.path().join("nightwatt.toml")).unwrap();
    assert!(
        text.contains("mac = \"52:54:00:12:34:56\"") && text.contains("host = \"root@127.0.0.1\""),
        "{text}"
    );
    assert!(text.contains("on_w = 80.0\noff_w = 2.0"), "{text}");
    assert!(text.contains("visits_per_day = 3\nlongest_wait = \"10s\""), "{text}");
    // What `check` says of it is what was said.
    let check = program().args(["check"]).current_dir(dir.path()).output().unwrap();
    let check = String::from_utf8(check.stdout).unwrap();
    assert!(said.contains(check.trim()), "{check}\n{said}");
}

/// A site of pages gets a mirror, whatever the answers were: then `check` says of which pages, and warns of nothing.
#[test]
fn pages_have_a_mirror_of_the_url_that_visitors_use() {
    for (lines, args, url) in [
        // No name: it is asked for, and a wrong answer is asked for again.
        (
            "\n127.0.0.1:8080\ncommand\ntrue\n\npages\nftp://x\nhttp://Blog.lan\n",
            &[][..],
            "http://blog.lan",
        ),
        ("\n127.0.0.1:8080\ncommand\ntrue\n\npages\n\n", &[], "http://127.0.0.1:8080"),
        // A name says it, with the port that a browser names.
        ("blog.example\n0.0.0.0:8080\ncommand\ntrue\n\npages\n", &[], "http://blog.example:8080"),
        ("blog.example\n0.0.0.0:80\ncommand\ntrue\n\npages\n", &[], "http://blog.example"),
        (
            "blog.example\n0.0.0.0:8080\ncommand\ntrue\n\npages\n",
            &["--url", "https://blog.example"],
            "https://blog.example",
        ),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let lines = format!("http://127.0.0.2:9\n{lines}\n");
        let output = answered(dir.path(), &lines, args);
        let said = told(&output);
        assert_eq!(output.status.code(), Some(0), "{said}");
        let config = written(dir.path());
        let known = MirrorUrl::Known(url.to_owned());
        assert_eq!(config.mirror_url(&config.site[0]), known, "{said}");
        let in_one_line = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(in_one_line.contains(&format!(" of {url}; answers at most")), "{said}");
        assert!(!said.contains("no mirror"), "{said}");
    }
    let dir = tempfile::tempdir().unwrap();
    let args =
        ["--yes", "--origin", "http://127.0.0.2:9", "--power", "command", "--target", "true"];
    let output = answered(dir.path(), "", &[&args[..], &["--kind", "pages"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    let config = written(dir.path());
    assert_ne!(config.mirror_url(&config.site[0]), MirrorUrl::Unknown);
}

#[test]
fn a_wrong_answer_is_asked_for_again_and_an_empty_one_is_what_was_proposed() {
    let dir = tempfile::tempdir().unwrap();
    let origin = format!("http://{}", free_address());
    // What is proposed for a server here depends on the machine.
    let is_systemd = Path::new("/run/systemd/system").is_dir();
    let (power, target) =
        if is_systemd { ("systemd", "web") } else { ("process", "python3 -m http.server 'a b'") };
    let lines =
        format!("ftp://10.0.0.5\n{origin}\n\nnowhere\n\nsteam\n\n\n{target}\n1,2\n\nblog\n\n\n");
    let output = answered(dir.path(), &lines, &[]);
    let said = told(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    for words in [
        "`ftp://10.0.0.5` is not an origin",
        "does not answer now",
        "`nowhere` is not an address",
        "`steam` is not one of",
        "this is needed",
        "draws more awake than asleep",
        "`blog` is not one of pages, app, unsure",
        "`kind` is not set",
    ] {
        assert!(said.contains(words), "{words} in {said}");
    }
    let config = written(dir.path());
    assert_eq!(config.listen.len(), 2, "all addresses");
    assert_eq!(config.site[0].power.as_ref().unwrap().name(), power);
    assert!((config.scenario.server.on_w - 43.3).abs() < 1e-9);
}

/// What is a child of nightwatt is confined as that is, and stopped with it.
#[test]
fn a_server_of_this_machine_is_a_unit_where_systemd_runs_and_a_process_elsewhere() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root may show a program another /run");
        return;
    }
    for (run, option, power) in [
        ("mkdir -p /run/systemd/system", None, "systemd"),
        ("true", None, "process"),
        ("mkdir -p /run/systemd/system", Some("--power=process"), "process"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let script = format!("mount -t tmpfs tmpfs /run && {run} && exec \"$@\"");
        let output = Command::new("unshare")
            .args(["--mount", "--propagation", "private", "sh", "-c", &script, "sh", NIGHTWATT])
            .args(["init", "--yes", "--origin", "http://127.0.0.2:9", "--target", "web"])
            .args(option)
            .current_dir(dir.path())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", told(&output));
        assert_eq!(written(dir.path()).site[0].power.as_ref().unwrap().name(), power);
    }
}

#[test]
fn what_is_there_is_written_over_only_when_somebody_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("nightwatt.toml");
    fs::write(&path, "precious").unwrap();
    let origin = format!("http://{}", free_address());
    let args = ["--yes", "--origin", &origin, "--target", "true"];
    for (lines, args) in [("", &args[..]), ("no\n", &args[..0]), ("\n", &args[..0])] {
        let output = answered(dir.path(), lines, args);
        assert_eq!(output.status.code(), Some(1), "{}", told(&output));
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    }
    let forced = answered(dir.path(), "", &[&args[..], &["--force"]].concat());
    assert_eq!(forced.status.code(), Some(0), "{}", told(&forced));
    assert_eq!(written(dir.path()).site.len(), 1);
    let over = answered(dir.path(), "yes\n", &args[1..]);
    assert_eq!(over.status.code(), Some(1), "the other answers are missing: {}", told(&over));
}

#[test]
fn answers_that_end_too_early_write_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let output = answered(dir.path(), "http://127.0.0.2:9\n", &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(told(&output).contains("nothing was written"), "{}", told(&output));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn without_questions_what_is_missing_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let output = answered(dir.path(), "", &["--yes"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        told(&output).contains("these options are missing:\n  `--origin`: URL of the server"),
        "{}",
        told(&output)
    );
    let agent = ["--yes", "--origin", "http://127.0.0.2:9", "--power", "agent"];
    let output = answered(dir.path(), "", &agent);
    assert!(told(&output).contains("`--target` is missing"), "{}", told(&output));
    let form = "for `--power agent`: the MAC address";
    assert!(told(&output).contains(form), "{}", told(&output));
    let bad = ["--yes", "--origin", "http://127.0.0.2:9", "--power", "agent", "--target", "x"];
    let output = answered(dir.path(), "", &bad);
    assert_eq!(output.status.code(), Some(2), "{}", told(&output));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "nothing was written");
}

#[test]
fn the_dashboard_gets_another_port_where_its_usual_one_is_taken() {
    for (origin, listen, admin) in [
        ("http://127.0.0.2:9", "127.0.0.1:8080", 9180),
        ("http://127.0.0.2:9", "127.0.0.1:9180", 9181),
        ("http://127.0.0.2:9181", "127.0.0.1:9180", 9182),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let args = ["--yes", "--origin", origin, "--listen", listen, "--power", "command"];
        let output = answered(dir.path(), "", &[&args[..], &["--target", "true"]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", told(&output));
        assert_eq!(written(dir.path()).admin.unwrap().listen.port(), admin, "{listen}");
    }
}

#[test]
fn a_unit_needs_no_suffix_and_names_a_site_that_has_no_name() {
    let dir = tempfile::tempdir().unwrap();
    let lines = "http://127.0.0.2:9\n\n\nsystemd\npython3 -m http.server\nnginx\n\napp\n\n";
    let output = answered(dir.path(), lines, &[]);
    let said = told(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("a command line is for `--power process`"), "{said}");
    assert!(said.contains("polkit"), "{said}");
    assert_eq!(written(dir.path()).site[0].name, "nginx");
    let text = fs::read_to_string(dir.path().join("nightwatt.toml")).unwrap();
    assert!(text.contains("unit = \"nginx.service\""), "{text}");
}

#[test]
fn a_card_that_cannot_be_and_bytes_that_are_no_text_are_asked_for_again() {
    let dir = tempfile::tempdir().unwrap();
    let lines = b"http://127.0.0.2:9\nbl\xf6g.example\nblog.example\n\nagent\n52:54:00:12:34\n\
                  01:00:5e:00:00:01\n52-54-00-12-34-56\n\n\n\n";
    let output = answered(dir.path(), lines, &[]);
    let said = told(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    for words in [
        "not text in UTF-8: type it again",
        "`52:54:00:12:34` is no address of a network card",
        "`01:00:5e:00:00:01` is no address of a network card",
    ] {
        assert!(said.contains(words), "{words} in {said}");
    }
    assert_eq!(written(dir.path()).site[0].name, "blog");
    let text = fs::read_to_string(dir.path().join("nightwatt.toml")).unwrap();
    assert!(text.contains("mac = \"52:54:00:12:34:56\""), "{text}");
}

#[test]
fn whatever_the_server_is_called_makes_a_name_that_a_site_may_have() {
    for (origin, power, target, name) in [
        ("http://[::1]:9", "process", "true", "localhost"),
        ("http://127.0.0.2:9", "process", "true", "127.0.0.2"),
        ("localhost:9", "process", "true", "localhost"),
        ("http://localhost:9", "docker", "web", "web"),
        ("http://127.0.0.2:9", "systemd", r"my\x2dblog.service", "my-x2dblog"),
        ("http://[::]:9", "process", "true", "site"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let args = ["--yes", "--origin", origin, "--power", power, "--target", target];
        let output = answered(dir.path(), "", &args);
        assert_eq!(output.status.code(), Some(0), "{origin}: {}", told(&output));
        assert_eq!(written(dir.path()).site[0].name, name);
    }
}

/// Any shell's words and quotes in a command line come through.
#[test]
fn each_kind_of_power_makes_a_configuration_that_check_takes() {
    for (power, target) in [
        ("agent", "52:54:00:12:34:56"),
        ("ssh", "52:54:00:12:34:56"),
        ("systemd", "web.service"),
        ("docker", "web"),
        ("ipmi", "power@10.0.0.9"),
        ("redfish", "power@10.0.0.9"),
        ("gpio", "/dev/gpiochip0:17"),
        ("command", "/usr/local/bin/web-power --quiet"),
        ("process", r#"sh -c 'echo "a\\b" \n'"#),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("new/nightwatt.toml");
        let output = nightwatt(&[
            "init",
            "--yes",
            "--origin",
            "http://127.0.0.2:9",
            "--host",
            "a.example",
            "--power",
            power,
            "--target",
            target,
            "-o",
            file.to_str().unwrap(),
        ]);
        assert_eq!(output.status.code(), Some(0), "{power}: {}", told(&output));
        let config = Config::load(&file).unwrap();
        assert_eq!(config.site[0].name, "a");
    }
}

#[test]
fn an_upgrade_proposes_a_kind_by_what_was_stored_and_writes_only_when_told() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("nightwatt.toml");
    let site = |name: &str| {
        format!(
            "[[site]]\nname = \"{name}\"\nhosts = [\"{name}.example\"]\norigin = \"http://127.0.0.2:9\"\n\
             power.simulated = {{}}\n"
        )
    };
    let text = format!(
        "listen = [\"127.0.0.1:0\"]\nstate_dir = \"{}\"\n{}{}{}{}kind = \"app\"\n",
        dir.path().display(),
        site("blog"),
        site("api"),
        site("quiet"),
        site("known"),
    );
    fs::write(&file, &text).unwrap();
    fs::create_dir(dir.path().join("cache")).unwrap();
    let stored = r#"{"blog": {"pages": 40, "data": 1, "files": 90, "marked": 80},
                     "api": {"pages": 1, "data": 30, "files": 2, "marked": 0}}"#;
    fs::write(dir.path().join("cache/earlier-version.json"), stored).unwrap();
    let upgrade = |more: &[&str]| {
        let args = ["init", "--upgrade", "-o", file.to_str().unwrap()];
        let output = nightwatt(&[&args[..], more].concat());
        assert_eq!(output.status.code(), Some(0), "{}", told(&output));
        told(&output)
    };
    let said = upgrade(&[]);
    for words in [
        "40 answers of HTML, 1 answer of JSON or XML",
        "the server marked 80 of these 131",
        "proposed: kind = \"pages\"",
        "proposed: kind = \"app\"",
        "site quiet\n  the disk cache holds too little",
        "--force",
    ] {
        assert!(said.contains(words), "{words} in {said}");
    }
    assert!(!said.contains("site known"), "{said}");
    assert_eq!(fs::read_to_string(&file).unwrap(), text, "nothing was written");
    upgrade(&["--force"]);
    let config = Config::load(&file).unwrap();
    let kinds: Vec<_> = config.site.iter().map(|site| site.kind).collect();
    assert_eq!(kinds, [Some(SiteKind::Pages), Some(SiteKind::App), None, Some(SiteKind::App)]);
}

#[test]
fn a_server_where_nightwatt_would_listen_is_refused_with_another_address() {
    let dir = tempfile::tempdir().unwrap();
    let here = ["--yes", "--origin", "http://127.0.0.1:80", "--power", "docker", "--target", "web"];
    // By default an ordinary user listens at 8080.
    let output = answered(dir.path(), "", &[&here[..], &["--listen", "0.0.0.0:80"]].concat());
    let wanted = "error: `--origin http://127.0.0.1:80` is where nightwatt itself would listen (0.0.0.0:80)\n\
                  hint: move the server to another port, or give `--listen 0.0.0.0:8080`";
    assert!(told(&output).contains(wanted), "{}", told(&output));
    assert_eq!(output.status.code(), Some(2));
    // Where it is asked, what is wrong is told with what would be right, and proposed.
    let lines = "http://127.0.0.1:80\n\n0.0.0.0:80\n\ncommand\ntrue\n\n\n\n";
    let asked = answered(dir.path(), lines, &[]);
    let wanted = "0.0.0.0:80 is where the server itself answers: move it to another port, or listen \
                  at 0.0.0.0:8080";
    assert!(told(&asked).contains(wanted), "{}", told(&asked));
    assert_eq!(asked.status.code(), Some(0), "{}", told(&asked));
    assert!(written(dir.path()).listen.iter().all(|it| it.port() == 8080));
    fs::remove_file(dir.path().join("nightwatt.toml")).unwrap();
    let moved = [&here[..], &["--listen", "0.0.0.0:8080"]].concat();
    assert_eq!(answered(dir.path(), "", &moved).status.code(), Some(0));
    let bare = answered(dir.path(), "", &["--yes", "--listen", "18080"]);
    assert!(told(&bare).contains("write ADDRESS:PORT, such as 0.0.0.0:18080"), "{}", told(&bare));
}
