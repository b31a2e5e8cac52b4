//! Files that are for nightwatt alone, and that a `folder` of `[[site.path]]` would give to clients.

use std::path::{Path, PathBuf};

use nightwatt_power::{ControllerConfig, DriverConfig};

use super::path::is_hidden;
use super::{Config, MeterConfig, SiteConfig, Wrong, wrong};

/// A file or folder.
struct Named {
    /// What an error calls it.
    what: &'static str,
    path: PathBuf,
}

/// A file that a key names; nothing if it names none.
fn named(what: &'static str, file: Option<impl AsRef<Path>>) -> Option<Named> {
    file.map(|file| Named { what, path: file.as_ref().to_owned() })
}

/// Where a path leads, as far as it is there now.
fn real(path: &Path) -> PathBuf {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let there = whole.ancestors().find_map(|above| Some((above, above.canonicalize().ok()?)));
    there.map_or(whole.clone(), |(above, real)| {
        whole.strip_prefix(above).map_or(whole.clone(), |rest| real.join(rest))
    })
}

/// The steps from a folder to what is in it; nothing if it is elsewhere.
fn below(path: &Path, folder: &Path) -> Option<PathBuf> {
    Some(real(path).strip_prefix(real(folder)).ok()?.to_owned())
}

/// Whether clients get a file of this folder: those that are hidden they do not get.
fn is_given_out(file: &Path, folder: &Path) -> bool {
    below(file, folder)
        .is_some_and(|steps| !steps.iter().any(|step| is_hidden(&step.to_string_lossy())))
}

fn of_power(power: &ControllerConfig) -> Vec<Named> {
    let of_driver = |driver: &DriverConfig| match driver {
        DriverConfig::Agent(config) => named("`power.agent.key`", Some(&config.key)),
        DriverConfig::Process(config) => named("`power.process.log`", config.log.as_ref()),
        DriverConfig::Ssh(config) => named("`power.ssh.identity`", config.identity.as_ref()),
        DriverConfig::Ipmi(config) => {
            named("`power.ipmi.password_file`", config.password_file.as_ref())
        }
        DriverConfig::Redfish(config) => {
            named("`power.redfish.password_file`", config.password_file.as_ref())
        }
        _ => None,
    };
    power.drivers().into_iter().filter_map(of_driver).collect()
}

fn of_meter(meter: &MeterConfig) -> Option<Named> {
    named("`meter.password-file`", meter.password_file())
}

fn of_site(site: &SiteConfig) -> Vec<Named> {
    let powers = site.server.iter().map(|it| &it.power).chain([&site.power]);
    let mut files: Vec<Named> = powers.flatten().flat_map(of_power).collect();
    files.extend(site.meter.as_ref().and_then(of_meter));
    if let Some(access) = &site.access {
        files.extend(named("`site.access.htpasswd`", access.htpasswd.as_ref()));
    }
    for probe in &site.in_use {
        files.extend(named("`site.in_use.token_file`", probe.token_file.as_ref()));
        files.extend(named("`site.in_use.password_file`", probe.password_file.as_ref()));
    }
    files.extend(named("`site.mirror.token_file`", site.mirror.token_file.as_ref()));
    files
}

impl Config {
    /// Secrets, and files about clients. Pages for errors and for waiting are for clients: a folder may have them.
    fn own_files(&self) -> Vec<Named> {
        let mut files: Vec<Named> = self.site.iter().flat_map(of_site).collect();
        for machine in &self.machine {
            files.extend(of_power(&machine.power));
            files.extend(machine.meter.as_ref().and_then(of_meter));
        }
        files.extend(self.meter.as_ref().and_then(of_meter));
        if let Some(tls) = &self.tls {
            // Those by ACME are below `state_dir`.
            let given = tls.certificate.iter().filter(|it| it.acme.is_empty());
            files.extend(given.filter_map(|it| named("`tls.certificate.key`", Some(&it.key))));
            let dns = tls.acme.as_ref().and_then(|acme| acme.dns.as_ref());
            let key = dns.and_then(|dns| dns.key_file.as_ref());
            files.extend(named("`tls.acme.dns.key_file`", key));
        }
        let hooks = self.webhook.iter().map(|it| it.secret_file.as_ref());
        files.extend(hooks.filter_map(|file| named("`webhook.secret_file`", file)));
        let admin = self.admin.as_ref().and_then(|admin| admin.password_file.as_ref());
        files.extend(named("`admin.password_file`", admin));
        files.extend(named("`access_log`", self.access_log.as_ref()));
        files.extend(named("the configuration itself", self.file.as_ref()));
        files
    }

    /// Checks that no folder for clients holds one of these files, or nightwatt's own folders.
    pub(super) fn check_folders(&self) -> Result<(), Wrong> {
        let disk = self.cache.disk.as_ref().map(|disk| disk.folder(&self.state_dir));
        let state_dir = named("`state_dir`", Some(&self.state_dir));
        let folders = [state_dir, named("`cache.disk.directory`", disk)];
        let files = self.own_files();
        for (at, site) in self.site.iter().enumerate() {
            for (index, path) in site.path.iter().enumerate() {
                let Some(folder) = path.folder.as_deref() else { continue };
                let overlaps =
                    |own: &Path| is_given_out(own, folder) || below(folder, own).is_some();
                let file = files.iter().find(|it| is_given_out(&it.path, folder));
                let held = folders.iter().flatten().find(|it| overlaps(&it.path));
                let Some(Named { what, path: own }) = file.or(held) else { continue };
                let text = format!(
                    "`{}` would give out {what}, which is {}: write a folder that has only what all clients may \
                     read, or move that elsewhere",
                    folder.display(),
                    own.display()
                );
                return wrong(format!("site.{at}.path.{index}.folder"), text);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// Loads a configuration with a folder of files; `DIR` stands for the folder that it is in itself.
    fn load(folder: &str, top: &str, tables: &str) -> Result<Config, String> {
        let dir = tempfile::tempdir().unwrap();
        let text = format!(
            "listen = [\"127.0.0.1:0\"]\n{top}\n[[site]]\nname = \"blog\"\n\
             origin = \"http://127.0.0.1:1\"\npower.simulated = {{}}\n[[site.path]]\nprefix = \"/f\"\n\
             folder = \"{folder}\"\n{tables}\n"
        );
        let text = text.replace("DIR", &dir.path().display().to_string());
        for name in ["www", "state", "own"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        symlink("www", dir.path().join("link")).unwrap();
        let users = "ann:$5$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5\n";
        for name in ["www/users", "own/users", "www/503.html"] {
            fs::write(dir.path().join(name), users).unwrap();
        }
        let file = dir.path().join("nightwatt.toml");
        fs::write(&file, text).unwrap();
        let loaded = Config::load(&file).map_err(|error| error.to_string());
        loaded.map_err(|said| said.replace(&dir.path().display().to_string(), "DIR"))
    }

    const STATE: &str = "state_dir = \"DIR/state\"\n";

    /// A line at the top and a table, of which one names a file, and what the error calls that.
    const FILES: [(&str, &str, &str); 10] = [
        ("access_log = \"FILE\"", "", "`access_log`"),
        ("", "[site.access]\nhtpasswd = \"FILE\"", "`site.access.htpasswd`"),
        (
            "",
            "[[site.in_use]]\npreset = \"plex\"\ntoken_file = \"FILE\"",
            "`site.in_use.token_file`",
        ),
        ("", "[site.mirror]\ntoken_file = \"FILE\"", "`site.mirror.token_file`"),
        ("", "[[webhook]]\nurl = \"http://a\"\nsecret_file = \"FILE\"", "`webhook.secret_file`"),
        (
            "",
            "[admin]\nlisten = \"127.0.0.1:0\"\npassword_file = \"FILE\"",
            "`admin.password_file`",
        ),
        (
            "",
            "[tls]\nlisten = [\"127.0.0.1:0\"]\ncertificate = [{ chain = \"/c.pem\", key = \"FILE\" }]",
            "`tls.certificate.key`",
        ),
        (
            "",
            "[site.meter]\ndriver = \"shelly\"\naddress = \"http://10.0.0.8\"\npassword-file = \"FILE\"",
            "`meter.password-file`",
        ),
        (
            "",
            "[[machine]]\nname = \"box\"\nprobe = \"tcp 10.0.0.5:22\"\n\
             power.ipmi = { host = \"10.0.0.9\", user = \"me\", password_file = \"FILE\" }",
            "`power.ipmi.password_file`",
        ),
        (
            "",
            "[[machine]]\nname = \"box\"\nprobe = \"tcp 10.0.0.5:22\"\n\
             [machine.power.wake.wol]\nmac = \"00:00:5e:00:53:01\"\n\
             [machine.power.sleep.ssh]\nhost = \"root@box\"\nidentity = \"FILE\"",
            "`power.ssh.identity`",
        ),
    ];

    #[test]
    fn a_folder_with_a_file_that_is_for_nightwatt_alone_is_refused_with_key_and_file() {
        for (top, tables, key) in FILES {
            let load = |folder: &str, file: &str| {
                let top = format!("{STATE}{}", top.replace("FILE", file));
                load(folder, &top, &tables.replace("FILE", file)).map(drop)
            };
            let wanted = format!("would give out {key}, which is DIR/www/users");
            for folder in ["DIR/www", "DIR/link", "DIR/www/."] {
                let said = load(folder, "DIR/www/users").unwrap_err();
                assert!(said.contains(&wanted), "{key} in {folder}: {said}");
                assert!(said.starts_with("DIR/nightwatt.toml:10:"), "{said}");
            }
            assert_eq!(load("DIR/www", "DIR/own/users"), Ok(()), "{key}");
        }
    }

    #[test]
    fn a_folder_with_the_configuration_or_over_own_folders_is_refused() {
        for (folder, state, what) in [
            (
                "DIR",
                "/nightwatt-test/state",
                "the configuration itself, which is DIR/nightwatt.toml",
            ),
            ("DIR/link", "DIR/www/x", "`state_dir`, which is DIR/www/x"),
        ] {
            let said = load(folder, &format!("state_dir = \"{state}\"\n"), "").unwrap_err();
            assert!(said.contains(&format!("would give out {what}")), "{folder}: {said}");
        }
        // Links count for what is not there yet as well.
        let disk = "[cache.disk]\ndirectory = \"DIR/link/x/cache\"";
        let said = load("DIR/www", STATE, disk).unwrap_err();
        assert!(said.contains("`cache.disk.directory`, which is DIR/link/x/cache"), "{said}");
        let disk = "[cache.disk]\ndirectory = \"DIR/www/cache\"";
        let said = load("DIR/www", STATE, disk).unwrap_err();
        assert!(said.contains("`cache.disk.directory`, which is DIR/www/cache"), "{said}");
    }

    #[test]
    fn what_clients_do_not_get_may_be_in_a_folder() {
        for file in ["DIR/www/.htpasswd", "DIR/www/.private/users", "DIR/www/../own/users"] {
            let table = format!("[[site.in_use]]\npreset = \"plex\"\ntoken_file = \"{file}\"");
            assert_eq!(load("DIR/www", STATE, &table).map(drop), Ok(()), "{file}");
        }
        let table = "[[site.in_use]]\npreset = \"plex\"\ntoken_file = \"DIR/www/.well-known/t\"";
        assert!(load("DIR/www", STATE, table).is_err());
    }
}
