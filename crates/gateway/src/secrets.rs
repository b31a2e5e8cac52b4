//! Secrets in files: which other users of this machine can read them.

use std::path::Path;

use nightwatt_host::secret::exposed;

use crate::config::{Config, MeterConfig};

/// Secrets that every user of this machine can read, in words.
pub(crate) fn risks(config: &Config) -> Vec<String> {
    let certificates = config.tls.iter().flat_map(|tls| &tls.certificate);
    let keys = certificates.filter_map(|it| exposed(&it.key, "the private key"));
    let hooks = config.webhook.iter().filter_map(|it| it.secret_file.as_deref());
    let hooks = hooks.filter_map(|file| exposed(file, "the secret of a webhook"));
    let servers = config.site.iter().flat_map(|site| site.server.iter().map(|it| &it.power));
    let power = config.site.iter().map(|site| &site.power).chain(servers);
    let power = power.flatten().chain(config.machine.iter().map(|it| &it.power));
    let power = power.flat_map(nightwatt_power::ControllerConfig::exposed);
    let meters = config.site.iter().map(|site| &site.meter);
    let meters = meters.chain(config.machine.iter().map(|it| &it.meter)).chain([&config.meter]);
    let meters = meters.flatten().filter_map(MeterConfig::password_file);
    let meters = meters.filter_map(|file| exposed(Path::new(file), "the password of a meter"));
    let probes = config.site.iter().flat_map(|site| &site.in_use);
    let probes = probes.flat_map(|it| it.token_file.iter().chain(&it.password_file));
    let probes = probes.filter_map(|file| exposed(file, "the token of a probe of use"));
    let users = config.site.iter().filter_map(|site| site.access.as_ref()?.htpasswd.as_deref());
    let users = users.filter_map(|file| exposed(file, "the hashes of passwords"));
    let dns = config.tls.iter().filter_map(|tls| tls.acme.as_ref()?.dns.as_ref());
    let dns = dns.filter_map(|it| exposed(it.key_file.as_deref()?, "the key for updates of DNS"));
    let all = keys.chain(hooks).chain(power).chain(meters).chain(probes).chain(users).chain(dns);
    let mut risks: Vec<String> = all.collect();
    // For most receivers, the path of a webhook's URL is a password.
    let has_path = |url: &str| {
        url.parse::<http::Uri>().is_ok_and(|url| url.path().len() > 1 || url.query().is_some())
    };
    if let Some(file) = &config.file
        && config.webhook.iter().any(|hook| has_path(&hook.url))
    {
        risks.extend(exposed(file, "addresses of webhooks"));
    }
    risks
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions, write};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn files_with_secrets_that_everybody_can_read_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let text = format!(
            "listen = [\"127.0.0.1:0\"]\n\
             webhook = [{{ url = \"https://hooks.test/T0/secret\", secret_file = \"{0}/hook\" }}]\n\
             [tls]\nlisten = [\"127.0.0.1:0\"]\n\
             [[tls.certificate]]\nchain = \"{0}/chain\"\nkey = \"{0}/key\"\n\
             [[site]]\nname = \"blog\"\norigin = \"http://127.0.0.1:1\"\n\
             power.ipmi = {{ host = \"10.0.0.9\", user = \"me\", password_file = \"{0}/bmc\" }}\n\
             meter = {{ driver = \"shelly\", address = \"http://10.0.0.8\", password-file = \"{0}/meter\" }}\n",
            dir.path().display()
        );
        for file in ["hook", "chain", "key", "bmc", "meter"] {
            write(path(file), "correct horse battery").unwrap();
        }
        write(path("nightwatt.toml"), text).unwrap();
        let config = Config::load(&path("nightwatt.toml")).unwrap();
        let secrets = ["key", "hook", "bmc", "meter", "nightwatt.toml"];
        let with_mode = |mode| {
            for secret in secrets {
                set_permissions(path(secret), Permissions::from_mode(mode)).unwrap();
            }
            risks(&config)
        };
        assert_eq!(with_mode(0o640), [""; 0]);
        let told = with_mode(0o644);
        assert_eq!(told.len(), secrets.len(), "{told:?}");
        for (told, file) in told.iter().zip(secrets) {
            assert!(told.contains(&format!("chmod 640 {}", path(file).display())), "{told}");
        }
    }
}
