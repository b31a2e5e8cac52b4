//! `nightwatt init`: asks for what a configuration needs, writes it, and explains it.

mod dialog;
mod draft;
mod look;
pub(crate) mod sla;
mod upgrade;

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use clap::{ValueEnum, ValueHint};
use nightwatt_gateway::Config;
use nightwatt_gateway::config::{MirrorUrl, SiteKind};
use nightwatt_power::wol::Mac;

use self::dialog::Dialog;
use self::draft::{Draft, Power};
use self::look::Server;
use super::check;
use crate::ExitStatus;
use crate::commands::{Group, Listed};
use crate::errors::Failure;
use crate::{output, values};

/// Write a first configuration, after a few questions
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Address of the server: `http://10.0.0.5:8080`
    #[arg(long, value_name = "URL")]
    pub(crate) origin: Option<String>,
    /// Host name of the site; may be given several times [default: any]
    #[arg(long = "host", value_name = "NAME")]
    pub(crate) hosts: Vec<String>,
    /// Address to listen on; may be given several times [default: port 80 of all addresses]
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = values::address)]
    pub(crate) listen: Vec<SocketAddr>,
    /// How the server is woken and put to sleep [default: agent; for a server on this machine systemd, or process
    /// where systemd does not run]
    #[arg(long, value_name = "HOW", value_enum)]
    pub(crate) power: Option<PowerChoice>,
    /// Target of `--power`: a MAC address (agent, ssh), a unit, a container, USER@HOST of a management controller
    /// (ipmi, redfish), a line (gpio), or a command line (process, command) [default: the server's MAC address, if
    /// this machine knows it]
    #[arg(long, value_name = "WHAT")]
    pub(crate) target: Option<String>,
    /// Power of the server awake and asleep, in watts: `43.3,1.6`
    #[arg(long, value_name = "ON,OFF")]
    pub(crate) watts: Option<String>,
    /// Kind of the site: does every visitor who is not logged in see the same? [default: unsure]
    #[arg(long, value_name = "KIND", value_enum)]
    pub(crate) kind: Option<KindChoice>,
    /// Whom a sleep may delay: visits a day (`3`), the longest wait (`10s`), both (`3 10s`), `tenth` of the requests
    /// within a day, or `any` [default: any for kind `app`, else tenth]
    #[arg(long, value_name = "WHOM")]
    pub(crate) sla: Option<String>,
    /// URL under which visitors read a site of kind `pages`. The mirror copies the pages of this host [default: the
    /// first `--host`; else the address of this machine]
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// Propose a kind for each site of a configuration that has none, from the contents of the disk cache. Writes
    /// it only with `--force`
    #[arg(long)]
    pub(crate) upgrade: bool,
    /// The file to write
    #[arg(short, long, value_name = "FILE", default_value = "nightwatt.toml", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,
    /// Ask nothing, and use the proposed answers
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Overwrite an existing file
    #[arg(long)]
    pub(crate) force: bool,
}

pub(crate) const LISTED: Listed = Listed::In(Group::Act);

const EXAMPLES: &str = "\
Examples:
  nightwatt init                                   # asks a few questions
  nightwatt init -o /etc/nightwatt/nightwatt.toml
  nightwatt init --yes --origin http://10.0.0.5:8080 --kind pages
  nightwatt init --yes --origin http://127.0.0.1:8081 --power docker \\
    --target web
  nightwatt init --yes --origin http://127.0.0.1:8081 --listen 127.0.0.1:8080 \\
    --power process --target 'python3 -m http.server 8081 --bind 127.0.0.1'
  nightwatt init --upgrade -o /etc/nightwatt/nightwatt.toml

`init` contacts the server to find out whether it answers and which MAC address it has, so the
server must be awake. It asks before it overwrites a file, unless you give `--force`.";

/// What kind of site it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum KindChoice {
    /// Every visitor who is not logged in sees the same: a blog, documentation, a wiki
    #[value(name = SiteKind::Pages.as_str())]
    Pages,
    /// Answers depend on the user: Nextcloud, Jellyfin, an API
    #[value(name = SiteKind::App.as_str())]
    App,
    /// Unknown: keep only answers that the server marks as cacheable
    Unsure,
}

/// How a server is woken and put to sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PowerChoice {
    /// Woken by a magic packet, put to sleep by its nightwatt agent
    Agent,
    /// Woken by a magic packet, put to sleep by ssh
    Ssh,
    /// A systemd unit on this machine
    Systemd,
    /// A Docker container on this machine
    Docker,
    /// A process on this machine, started by nightwatt
    Process,
    /// The server's management controller, by ipmitool
    Ipmi,
    /// The server's management controller, by Redfish
    Redfish,
    /// A relay at the server's power button, on a GPIO line of this machine
    Gpio,
    /// A program of your own, called with `wake` or `sleep`
    Command,
}

impl PowerChoice {
    /// Asks for its target.
    const fn question(self) -> &'static str {
        match self {
            Self::Agent | Self::Ssh => "MAC address of its card?",
            Self::Systemd => "Name of the unit?",
            Self::Docker => "Name of the container?",
            Self::Process => {
                "Command that starts it in the foreground? (as `nginx -g 'daemon off;'`)"
            }
            Self::Ipmi | Self::Redfish => {
                "User and address of the management controller? (USER@HOST)"
            }
            Self::Gpio => "GPIO line of the relay? (as /dev/gpiochip0:17)",
            Self::Command => {
                "Program to call with `wake` or `sleep`? (as /usr/local/bin/web-power)"
            }
        }
    }

    /// What its target is, for an error.
    const fn form(self) -> &'static str {
        match self {
            Self::Agent | Self::Ssh => {
                "the MAC address of the server's card, such as 00:11:22:33:44:55"
            }
            Self::Systemd => "the name of the unit, such as web.service",
            Self::Docker => "the name of the container",
            Self::Process => "the command line that starts the server",
            Self::Ipmi | Self::Redfish => "USER@HOST of the management controller",
            Self::Gpio => "the GPIO line of the relay, such as /dev/gpiochip0:17",
            Self::Command => "the program to call with `wake` or `sleep`",
        }
    }

    /// Checks the answer to that.
    fn target(self, text: &str) -> Result<String, String> {
        if text.is_empty() {
            return Err(format!("this is needed: {}", self.question()));
        }
        let text = text.to_owned();
        match self {
            Self::Agent | Self::Ssh => Mac::try_from(text).map(|it| it.to_string()),
            Self::Systemd => unit(text),
            Self::Ipmi | Self::Redfish => match text.split_once('@') {
                Some((user, host)) if !user.is_empty() && !host.is_empty() => Ok(text),
                _ => Err(format!("`{text}` is not USER@HOST, as power@10.0.0.9")),
            },
            Self::Docker | Self::Process | Self::Gpio | Self::Command => Ok(text),
        }
    }
}

// Questions with several lines: the proposal is on the last one.

const POWER: &str = "\
4/7  How is it woken and put to sleep?
     agent, ssh                a magic packet wakes it
     systemd, docker, process  on this machine
     ipmi, redfish             by its management controller
     gpio                      by a relay
     command                   by a program of yours
    ";

const KIND: &str = "\
6/7  Does every visitor who is not logged in see the same?
     pages   yes, as of a blog or a wiki; few visitors wait, since a copy
             of the site answers while the server sleeps
     app     no, as of Nextcloud or an API; the server sleeps when idle,
             and the first request waits
     unsure  nothing is assumed
    ";

const URL: &str = "     Under which URL do visitors read it?
     Requests for other hosts and ports wake the server.
    ";

const SLA: &str = "\
7/7  Who may wait until the server is awake?
     3      this many visits a day
     10s    any, but the server sleeps only while it wakes within this time
     3 10s  both
     tenth  a tenth of the requests of a day
     any    every client, which saves most
    ";

/// The file that the systemd unit reads.
const OF_THE_SERVICE: &str = "/etc/nightwatt/nightwatt.toml";

/// Asks, writes, and explains what it wrote.
pub(crate) fn run(args: &Args) -> Result<ExitStatus, Failure> {
    if args.upgrade {
        return upgrade::run(args);
    }
    check_missing(args)?;
    let path = &args.output;
    let mut dialog = Dialog::new(io::stdin().lock(), args.yes);
    let mut over = args.force;
    if path.exists() && !over {
        let question = format!("{} is there already. Write over it?", path.display());
        over = dialog.ask(&question, "--force", None, Some("no"), yes_or_no)?;
        if !over {
            return Err(Failure::new(format!("{} exists already", path.display())).hint(
                "it was left as it is: `-o FILE` writes another one, `--force` writes over it",
            ));
        }
    }
    let draft = ask(args, &mut dialog)?;
    let text = draft.to_toml();
    let name = path.display().to_string();
    let config = Config::parse(&text, &name).map_err(|error| {
        Failure::because("these answers make no configuration", &error).into_usage()
    })?;
    write(path, &text, over)?;
    output::print(&format!(
        "wrote {name}\n\n{}\n{}",
        output::folded(&check::page(&name, &config, &[])),
        next(&draft, &name)
    ))?;
    Ok(ExitStatus::Success)
}

/// With `--yes`, names all options that have no proposal and are missing, at once.
fn check_missing(args: &Args) -> Result<(), Failure> {
    let asks_target = |power: &PowerChoice| {
        args.target.is_none() && !matches!(power, PowerChoice::Agent | PowerChoice::Ssh)
    };
    let missing = [
        args.origin.is_none().then(|| "`--origin`: URL of the server".to_owned()),
        args.power
            .as_ref()
            .filter(|it| asks_target(it))
            .map(|it| format!("`--target`: {}", it.form())),
    ];
    let missing: Vec<String> = missing.into_iter().flatten().collect();
    if !args.yes || missing.is_empty() {
        return Ok(());
    }
    let list = missing.join("\n  ");
    let text = format!("`--yes` asks no questions, and these options are missing:\n  {list}");
    Err(Failure::new(text).into_usage().hint("`nightwatt init --help` has examples"))
}

/// The questions.
fn ask(args: &Args, dialog: &mut Dialog<impl io::BufRead>) -> Result<Draft, Failure> {
    let origin = "1/7  Where does the server answer? (http://HOST:PORT, or https)";
    let server = dialog.ask(origin, "--origin", args.origin.as_deref(), None, Server::find)?;
    output::complain(&format!("     {}", server.words()));

    let hosts = "2/7  By which names do people ask for it? (with spaces between; none: by any)";
    let said = (!args.hosts.is_empty()).then(|| args.hosts.join(" "));
    let hosts = dialog.ask(hosts, "--host", said.as_deref(), Some(""), names)?;
    if !hosts.is_empty() {
        output::complain(
            "     requests by any other name or address get 421 (Misdirected Request)",
        );
    }

    let listen = listeners(args, dialog, &server)?;
    let power = power(args, dialog, &server)?;

    let watts = "5/7  What does it draw awake and asleep, in watts? (ON,OFF)";
    let watts =
        dialog.ask(watts, "--watts", args.watts.as_deref(), Some("43.3,1.6"), draft::watts)?;

    let said = args.kind.as_ref().map(name_of);
    let proposed = name_of(&KindChoice::Unsure);
    let kind = dialog.ask(KIND, "--kind", said.as_deref(), Some(&proposed), |text| {
        KindChoice::from_str(text, true)
            .map_err(|_| format!("`{text}` is not one of {}", names_of::<KindChoice>()))
    })?;
    let url = match kind {
        KindChoice::Pages => mirror_url(args, dialog, &Reached { hosts: &hosts, listen: &listen })?,
        KindChoice::App | KindChoice::Unsure => None,
    };
    let proposed = sla::proposed(kind);
    let sla = dialog
        .ask(SLA, "--sla", args.sla.as_deref(), Some(proposed), |text| sla::read(text, kind))?;
    let is_root = rustix::process::geteuid().is_root();
    Ok(Draft { server, hosts, listen, power, watts, kind, sla, url, is_root })
}

/// Where nightwatt listens: not where the server does.
fn listeners(
    args: &Args,
    dialog: &mut Dialog<impl io::BufRead>,
    server: &Server,
) -> Result<Vec<SocketAddr>, Failure> {
    let listen = "3/7  Where is nightwatt to listen?";
    let texts: Vec<String> = args.listen.iter().map(ToString::to_string).collect();
    let said = (!texts.is_empty()).then(|| texts.join(" "));
    let is_root = rustix::process::geteuid().is_root();
    let is_typed = said.is_none() && !args.yes;
    let everywhere = everywhere(is_root, server, is_typed);
    let listen = dialog.ask(listen, "--listen", said.as_deref(), Some(&everywhere), |text| {
        let all = addresses(text)?;
        match server.listener_at_it(&all) {
            Some(own) if is_typed => Err(format!(
                "{own} is where the server itself answers: move it to another port, or listen at {}",
                beside(own)
            )),
            _ => Ok(all),
        }
    })?;
    if let Some(own) = server.listener_at_it(&listen) {
        let origin = args.origin.as_deref().unwrap_or(&server.origin);
        let text = format!("`--origin {origin}` is where nightwatt itself would listen ({own})");
        let other = beside(own);
        return Err(Failure::new(text)
            .into_usage()
            .hint(format!("move the server to another port, or give `--listen {other}`")));
    }
    Ok(listen)
}

/// Another address for nightwatt where the server has this one.
fn beside(own: SocketAddr) -> SocketAddr {
    SocketAddr::new(own.ip(), if own.port() == 8080 { 8000 } else { 8080 })
}

/// The listeners to propose: ports below 1024 are for root, and the server may be at another. Without a question,
/// port 80 stays: visitors would not find another, and the user has not seen it.
fn everywhere(is_root: bool, server: &Server, is_asked: bool) -> String {
    let usual = SocketAddr::from(([0, 0, 0, 0], 80));
    let is_taken = is_asked && server.listener_at_it(&[usual]).is_some();
    let port = match (is_root && !is_taken, server.address.port()) {
        (true, _) => 80,
        (false, 8080) => 8000,
        (false, _) => 8080,
    };
    format!("0.0.0.0:{port} [::]:{port}")
}

/// How the server is woken and put to sleep.
fn power(
    args: &Args,
    dialog: &mut Dialog<impl io::BufRead>,
    server: &Server,
) -> Result<Power, Failure> {
    let said = args.power.as_ref().map(name_of);
    let proposed = name_of(&server.power(Path::new(look::SYSTEMD).is_dir()));
    let power = dialog.ask(POWER, "--power", said.as_deref(), Some(&proposed), |text| {
        PowerChoice::from_str(text, true)
            .map_err(|_| format!("`{text}` is not one of {}", names_of::<PowerChoice>()))
    })?;
    let proposed = match power {
        PowerChoice::Agent | PowerChoice::Ssh => server.mac(),
        _ => None,
    };
    if args.yes && args.target.is_none() && proposed.is_none() {
        let text = "`--yes` asks no questions, and `--target` is missing";
        let form = format!("for `--power {}`: {}", name_of(&power), power.form());
        return Err(Failure::new(text).into_usage().hint(form));
    }
    let question = format!("     {}", power.question());
    let target = dialog
        .ask(&question, "--target", args.target.as_deref(), proposed, |text| power.target(text))?;
    Ok(Power { choice: power, target })
}

/// How visitors reach the site.
struct Reached<'a> {
    hosts: &'a [String],
    listen: &'a [SocketAddr],
}

/// Where the pages of the mirror are. It follows from the host names, unless there are none.
fn mirror_url(
    args: &Args,
    dialog: &mut Dialog<impl io::BufRead>,
    reached: &Reached<'_>,
) -> Result<Option<String>, Failure> {
    if args.url.is_none() && !reached.hosts.is_empty() {
        return Ok(None);
    }
    let proposed = look::own_url(reached.listen);
    let read = MirrorUrl::site_of;
    dialog.ask(URL, "--url", args.url.as_deref(), Some(&proposed), read).map(Some)
}

/// The name of a choice on the command line.
fn name_of(choice: &impl ValueEnum) -> String {
    choice.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// All names of a kind, separated by commas.
fn names_of<T: ValueEnum>() -> String {
    let names: Vec<String> = T::value_variants().iter().map(name_of).collect();
    names.join(", ")
}

fn yes_or_no(text: &str) -> Result<bool, String> {
    match text {
        "y" | "yes" => Ok(true),
        "n" | "no" => Ok(false),
        _ => Err("`yes` or `no`?".to_owned()),
    }
}

/// Completes a unit name as systemctl does: `nginx` is `nginx.service`.
fn unit(name: String) -> Result<String, String> {
    // A user who enters a command line here learns where it belongs.
    if name.contains([' ', '/']) {
        return Err(format!(
            "`{name}` is no name of a unit, as `web.service`: a command line is for `--power process`"
        ));
    }
    Ok(if name.contains('.') { name } else { name + ".service" })
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split([' ', ',']).filter(|word| !word.is_empty())
}

fn names(text: &str) -> Result<Vec<String>, String> {
    let is_name = |name: &str| {
        name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_'))
    };
    match words(text).find(|name| !is_name(name)) {
        Some(name) => Err(format!("`{name}` is no host name: write it as blog.example.org")),
        None => Ok(words(text).map(str::to_owned).collect()),
    }
}

fn addresses(text: &str) -> Result<Vec<SocketAddr>, String> {
    let all: Vec<SocketAddr> = words(text).map(values::address).collect::<Result<_, _>>()?;
    if all.is_empty() { Err("at least one is needed".to_owned()) } else { Ok(all) }
}

/// Writes the whole file or none of it: the new file replaces the old one at the end.
fn write(path: &Path, text: &str, over: bool) -> Result<(), Failure> {
    let failed = |error: &io::Error| {
        Failure::because(format!("cannot write {}", path.display()), error)
            .hint("`-o FILE` writes it elsewhere; in /etc as root")
    };
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(|error| failed(&error))?;
    let written = tempfile::NamedTempFile::new_in(folder).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        // The file holds no secrets, and `nightwatt status` of other users reads it.
        file.as_file().set_permissions(fs::Permissions::from_mode(0o644))?;
        let saved = if over { file.persist(path) } else { file.persist_noclobber(path) };
        saved.map(drop).map_err(|error| error.error)
    });
    written.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            Failure::new(format!("{} has come into being meanwhile", path.display()))
        }
        _ => failed(&error),
    })
}

/// The next steps for the user.
fn next(draft: &Draft, name: &str) -> String {
    let key = "  nightwatt agent key -o /etc/nightwatt/agent.key   # the same file on both machines: docs/agent.md\n";
    let polkit = "  # as a service nightwatt is not root: polkit must let it stop and start the unit (docs/guide.md)\n";
    let process = "  # as a service nightwatt stops it with itself, and confines it: better a unit and `systemd` (docs/operate.md)\n";
    let password = format!(
        "  # write the password of the management controller into {} (mode 600)\n",
        draft::BMC_PASSWORD
    );
    let first = match draft.power.choice {
        PowerChoice::Agent => key,
        PowerChoice::Ipmi | PowerChoice::Redfish => password.as_str(),
        PowerChoice::Systemd => polkit,
        PowerChoice::Process => process,
        _ => "",
    };
    let service = if name == OF_THE_SERVICE { "  systemctl enable --now nightwatt\n" } else { "" };
    format!(
        "next:\n{first}  nightwatt doctor -c {name}            # does everything work that it needs?\n  \
         nightwatt serve -c {name} --observe   # see first what it would do\n{service}"
    )
}

#[cfg(test)]
mod tests {
    use nightwatt_power::DRIVERS;

    use super::*;

    #[test]
    fn only_root_is_proposed_a_port_below_1024() {
        let at = |url: &str| Server::find(url).unwrap();
        let other = at("http://127.0.0.1:9");
        assert_eq!(everywhere(true, &other, true), "0.0.0.0:80 [::]:80");
        assert_eq!(everywhere(false, &other, true), "0.0.0.0:8080 [::]:8080");
        assert_eq!(everywhere(false, &at("http://127.0.0.1:8080"), true), "0.0.0.0:8000 [::]:8000");
        // Where the server has port 80 itself, its question proposes another.
        let here = at("http://127.0.0.1");
        assert_eq!(everywhere(true, &here, true), "0.0.0.0:8080 [::]:8080");
        assert_eq!(everywhere(true, &here, false), "0.0.0.0:80 [::]:80");
    }

    #[test]
    fn questions_fit_a_terminal() {
        for question in [POWER, KIND, URL, SLA] {
            assert!(question.lines().all(|line| line.chars().count() <= 76), "{question}");
            assert!(question.ends_with("\n    "), "the proposal is in its column: {question}");
        }
        assert!(URL.starts_with("     Under"), "{URL}");
        for choice in PowerChoice::value_variants() {
            assert!(choice.question().len() <= 76, "{}", choice.question());
            assert!(POWER.contains(&name_of(choice)), "{}", name_of(choice));
        }
        for choice in KindChoice::value_variants() {
            assert!(KIND.contains(&name_of(choice)), "{}", name_of(choice));
        }
    }

    #[test]
    fn every_choice_is_a_driver() {
        for choice in PowerChoice::value_variants() {
            let name = name_of(choice);
            assert!(DRIVERS.iter().any(|driver| driver.name == name), "{name}");
        }
    }
}
