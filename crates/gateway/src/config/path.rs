//! `[[site.path]]`: what is answered in another way below some path.

use std::collections::BTreeMap;
use std::collections::HashSet;
use std::path::PathBuf;

use http::{HeaderName, HeaderValue, StatusCode};
use serde::Deserialize;

use super::field_names::is_free;
use super::spellings::readings;
use super::{Config, Origin, SiteConfig, SiteLimits, Wrong, wrong};

/// Marks in `redirect` where what is behind the prefix is to be.
pub(crate) const REST: &str = "{rest}";

/// A path of a site, or all paths below one.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PathConfig {
    /// All paths that are this one, or below it: `"/files"`, `"/files/"`.
    pub prefix: Option<String>,
    /// This path alone.
    pub exact: Option<String>,
    /// Another port of the server: `"http://10.0.0.5:9000"`. It is woken and put to sleep with the site's.
    pub origin: Option<Origin>,
    /// The server gets the path without the prefix.
    pub strip_prefix: bool,
    /// Where clients are sent: `"/new/{rest}"`, `"https://example.org/"`.
    pub redirect: Option<String>,
    /// The status of `redirect` (default 308) or `text` (default 200).
    pub status: Option<u16>,
    /// Answer with this text.
    pub text: Option<String>,
    /// The type of `text`; default: `text/plain; charset=utf-8`.
    pub content_type: Option<String>,
    /// Answer with files of this folder.
    pub folder: Option<PathBuf>,
    /// The file for a path that ends with a slash.
    pub index: Option<String>,
    /// Fields of requests, before the server gets them.
    pub request_headers: HeaderRules,
    /// Fields of answers, before clients get them.
    pub response_headers: HeaderRules,
    /// Instead of the site's limits.
    pub limits: SiteLimits,
}

/// Fields to remove and to set.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HeaderRules {
    /// These are removed.
    pub remove: Vec<String>,
    /// These are set, instead of any that are there.
    pub set: BTreeMap<String, String>,
}

impl HeaderRules {
    /// Names and values that were checked.
    pub(crate) fn read(&self) -> (Vec<HeaderName>, Vec<(HeaderName, HeaderValue)>) {
        let removed = self.remove.iter().filter_map(|name| name.parse().ok());
        let set = self.set.iter().filter_map(|(name, value)| {
            Some((name.parse().ok()?, HeaderValue::from_str(value).ok()?))
        });
        (removed.collect(), set.collect())
    }

    fn check(&self, is_allowed: impl Fn(&str) -> bool) -> Result<(), Wrong> {
        for name in self.remove.iter().chain(self.set.keys()) {
            if name.parse::<HeaderName>().is_err() {
                return wrong("", format!("`{name}` is no name of a field"));
            }
            if !is_allowed(name) {
                let text = format!(
                    "`{name}` is a field by which nightwatt, caches or servers find the request, its client or its end: \
                     it cannot be changed"
                );
                return wrong("", text);
            }
        }
        match self.set.iter().find(|(_, value)| HeaderValue::from_str(value).is_err()) {
            Some((name, _)) => {
                wrong("", format!("the value of `{name}` has signs that no field may have"))
            }
            None => Ok(()),
        }
    }
}

/// Fields of answers that say where they end, or what the cache has done.
const OF_ANSWERS: [&str; 10] = [
    "age",
    "cache-status",
    "connection",
    "content-encoding",
    "content-length",
    "content-range",
    "nightwatt-answer",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Fields of files by which caches and clients compare them.
const OF_FILES: [&str; 2] = ["etag", "last-modified"];

/// Whether a step of a path names what clients do not get.
pub(crate) fn is_hidden(step: &str) -> bool {
    step.starts_with('.') && step != ".well-known"
}

impl PathConfig {
    /// The path that it is, or begins with.
    pub fn name(&self) -> &str {
        self.exact.as_deref().or(self.prefix.as_deref()).unwrap_or_default()
    }

    /// Whether a path is this one, or below it.
    pub(crate) fn is_for(&self, path: &str) -> bool {
        if let Some(exact) = &self.exact {
            return path == exact;
        }
        let prefix = self.name();
        path.strip_prefix(prefix)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || prefix.ends_with('/'))
    }

    /// Whether it needs the server.
    pub fn asks_server(&self) -> bool {
        self.redirect.is_none() && self.text.is_none() && self.folder.is_none()
    }

    fn check_name(&self, taken: &mut HashSet<String>) -> Result<(), Wrong> {
        let (key, name) = match (&self.prefix, &self.exact) {
            (Some(prefix), None) => ("prefix", prefix),
            (None, Some(exact)) => ("exact", exact),
            _ => {
                return wrong(
                    "",
                    "write `prefix = \"/files/\"` or `exact = \"/feed\"`, one of the two",
                );
            }
        };
        if readings(name).iter().any(|it| it != name) || name.contains(['?', '#']) {
            let text = format!(
                "`{name}` is no plain path: begin it with `/`, and write no `.` or `..` step, `//`, `;`, `%`, `?` or `#`"
            );
            return wrong(key, text);
        }
        if !taken.insert(format!("{key} {}", name.trim_end_matches('/'))) {
            return wrong(key, format!("two tables are for `{name}`: write one"));
        }
        Ok(())
    }

    fn check_folder(&self) -> Result<(), Wrong> {
        let Some(folder) = &self.folder else { return Ok(()) };
        if self.prefix.is_none() {
            let text = "a folder needs `prefix`: its files are below that";
            return wrong("folder", text);
        }
        if folder.is_relative() || folder.parent().is_none() {
            let text = format!(
                "`{}` cannot be served: write the whole path of a folder, below `/`",
                folder.display()
            );
            return wrong("folder", text);
        }
        Ok(())
    }

    fn check_answer(&self) -> Result<(), Wrong> {
        let ways = [
            ("redirect", self.redirect.is_some()),
            ("text", self.text.is_some()),
            ("folder", self.folder.is_some()),
            ("origin", self.origin.is_some()),
        ];
        let mut named = ways.iter().filter(|it| it.1).map(|it| it.0);
        if let (Some(first), Some(second)) = (named.next(), named.next()) {
            return wrong(second, format!("`{first}` and `{second}` are two answers: take one"));
        }
        if self.strip_prefix && self.prefix.is_none() {
            return wrong("strip_prefix", "`strip_prefix` needs `prefix`");
        }
        if self.strip_prefix
            && let Some((key, _)) = ways[..3].iter().find(|it| it.1)
        {
            let text = format!(
                "`strip_prefix` is for what the server answers, with `prefix` and, if you like, `origin`: leave out \
                 `strip_prefix` or `{key}`"
            );
            return wrong("strip_prefix", text);
        }
        self.check_folder()?;
        let status = self.status.unwrap_or(200);
        match (&self.redirect, self.status) {
            (None, Some(_)) if self.text.is_none() => {
                return wrong(
                    "status",
                    "`status` is that of `redirect` or `text`: write one of them",
                );
            }
            (Some(_), Some(status)) if !matches!(status, 301 | 302 | 303 | 307 | 308) => {
                let text = format!(
                    "{status} does not redirect: 308 and 301 are for good, 307, 302 and 303 for now"
                );
                return wrong("status", text);
            }
            (None, _) if status < 200 || StatusCode::from_u16(status).is_err() || status > 599 => {
                return wrong("status", format!("{status} is no status of an answer: 200 to 599"));
            }
            (None, _) => self.check_content(status)?,
            _ => {}
        }
        if let Some(redirect) = &self.redirect {
            check_redirect(redirect)?;
        }
        let only = [
            ("content_type", self.content_type.is_some(), self.text.is_some(), "text"),
            ("index", self.index.is_some(), self.folder.is_some(), "folder"),
        ];
        if let Some((key, _, _, needs)) = only.iter().find(|it| it.1 && !it.2) {
            return wrong(*key, format!("`{key}` has no effect without `{needs}`"));
        }
        if self.content_type.as_ref().is_some_and(|it| HeaderValue::from_str(it).is_err()) {
            return wrong("content_type", "the value has signs that no field may have");
        }
        let is_plain = |name: &String| !name.is_empty() && !name.contains('/') && name != "..";
        if let Some(index) = self.index.as_ref().filter(|it| !is_plain(it)) {
            return wrong("index", format!("`{index}` is no name of a file"));
        }
        Ok(())
    }

    /// Whether answers with this status may have the text (RFC 9110, 15.3.5, 15.3.6 and 15.4.5).
    fn check_content(&self, status: u16) -> Result<(), Wrong> {
        let is_empty = self.text.as_ref().is_none_or(String::is_empty);
        match status {
            204 | 205 if !is_empty => {
                let text = format!(
                    "answers with status {status} have no content: write `text = \"\"`, or another status, as 200"
                );
                wrong("status", text)
            }
            304 => {
                let text = "304 has no content, and is only for clients that have the text already: write another \
                            status, as 200";
                wrong("status", text)
            }
            _ => Ok(()),
        }
    }

    fn check(&self, site: &SiteConfig, taken: &mut HashSet<String>) -> Result<(), Wrong> {
        self.check_name(taken)?;
        self.check_answer()?;
        if self.origin.is_some() && !site.server.is_empty() {
            let text = "a site with several servers has no other origin by path: each of them would need one";
            return wrong("origin", text);
        }
        let has_server = self.asks_server();
        if !has_server
            && (self.limits != SiteLimits::default()
                || self.request_headers != HeaderRules::default())
        {
            let text = "`limits` and `request_headers` are for what the server answers, and it does not answer here";
            return wrong("limits", text);
        }
        let is_of_request = |name: &str| {
            let own = ["authorization", "cookie"].iter().any(|it| name.eq_ignore_ascii_case(it));
            own || is_free(name)
        };
        let of_request = self.request_headers.check(is_of_request);
        of_request.map_err(|it| it.within("request_headers"))?;
        let of_files = if self.folder.is_some() { &OF_FILES[..] } else { &[] };
        let kept = OF_ANSWERS.iter().chain(of_files);
        let is_of_answer = |name: &str| !kept.clone().any(|it| name.eq_ignore_ascii_case(it));
        let of_answer = self.response_headers.check(is_of_answer);
        of_answer.map_err(|it| it.within("response_headers"))?;
        self.limits.check()
    }
}

fn check_redirect(redirect: &str) -> Result<(), Wrong> {
    let plain = |byte: u8| byte.is_ascii_graphic() && !b"\"<>\\^`".contains(&byte);
    let is_address = ["http://", "https://", "/"].iter().any(|it| redirect.starts_with(it))
        && !redirect.starts_with("//")
        && redirect.bytes().all(plain);
    // Behind a host, the rest of a path would be a part of the name.
    let known = redirect.replace(REST, "");
    if known.contains(['{', '}']) {
        let text = format!("`{redirect}`: only `{REST}` is replaced in an address");
        return wrong("redirect", text);
    }
    let is_safe = match redirect.split_once("://") {
        Some((_, rest)) => !rest.split('/').next().unwrap_or_default().contains(['{', '}']),
        None => true,
    };
    if is_address && is_safe {
        return Ok(());
    }
    let text = format!(
        "`{redirect}` is no place to go: write a path or an address, as in `/new/{REST}` or `https://example.org/{REST}`"
    );
    wrong("redirect", text)
}

impl SiteConfig {
    /// Warns of paths whose `origin` seems to be on another machine than the site's server.
    pub fn path_risks(&self) -> Vec<String> {
        let is_loopback = |origin: &Origin| nightwatt_power::probe::is_loopback(&origin.authority);
        let is_here = |origin: &Origin| {
            origin.host().eq_ignore_ascii_case(self.origin.host())
                || is_loopback(origin) && is_loopback(&self.origin)
        };
        let named = self.path.iter().filter_map(|it| Some((it.name(), it.origin.as_ref()?)));
        let elsewhere = named.filter(|(_, origin)| !is_here(origin));
        elsewhere
            .map(|(name, origin)| {
                format!(
                    "`origin` of the path `{name}` is at {}, and the server of the site at {}: if that is another \
                     machine, waking this server does not wake it. Write another `[[site]]` for it",
                    origin.host(),
                    self.origin.host()
                )
            })
            .collect()
    }

    /// Checks its paths.
    pub(super) fn check_paths(&self, config: &Config) -> Result<(), Wrong> {
        let mut taken = HashSet::new();
        for (index, path) in self.path.iter().enumerate() {
            path.check(self, &mut taken).map_err(|it| it.within(format_args!("path.{index}")))?;
            let state = &config.state_dir;
            if let Some(folder) = path.folder.as_ref()
                && (state.starts_with(folder) || folder.starts_with(state))
            {
                let text = format!(
                    "`{}` would give out files of nightwatt: `state_dir` is {}",
                    folder.display(),
                    state.display()
                );
                return wrong(format!("path.{index}.folder"), text);
            }
        }
        self.check_redirects(config)?;
        if !self.path.is_empty() && config.gate.is_some() {
            let text = "another proxy asks by `[gate]`, and its requests do not come through here: let that proxy \
                        answer by path, and leave out `[[site.path]]` or `[gate]`";
            return wrong("path", text);
        }
        for status in self.error_pages.keys() {
            if !status.parse::<u16>().is_ok_and(|it| (400..600).contains(&it)) {
                let text = format!(
                    "`{status}` is no status of an error: write `503 = \"/path/to/page.html\"`"
                );
                return wrong("error_pages", text);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;

    fn parse(lines: &str) -> Result<Config, String> {
        let text = format!(
            "listen = [\"127.0.0.1:0\"]\n[[site]]\nname = \"blog\"\norigin = \"http://127.0.0.1:1\"\n\
             power.simulated = {{}}\n[[site.path]]\n{lines}\n"
        );
        Config::parse(&text, "test.toml").map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_ambiguous_unsafe_or_without_effect_is_refused() {
        for (lines, why) in [
            ("text = \"x\"", "one of the two"),
            ("prefix = \"/a\"\nexact = \"/a\"", "one of the two"),
            ("prefix = \"a\"", "no plain path"),
            ("prefix = \"/a/../b\"", "no plain path"),
            ("prefix = \"/a//b\"", "no plain path"),
            ("prefix = \"/a%2fb\"", "no plain path"),
            ("prefix = \"/a;b\"", "no plain path"),
            ("exact = \"/a?b\"", "no plain path"),
            ("prefix = \"/a\"\n[[site.path]]\nprefix = \"/a/\"", "two tables"),
            ("prefix = \"/a\"\nredirect = \"/b\"\ntext = \"x\"", "two answers"),
            ("prefix = \"/a\"\nredirect = \"//evil.example\"", "no place to go"),
            ("prefix = \"/a\"\nredirect = \"https://{rest}\"", "no place to go"),
            ("prefix = \"/a\"\nredirect = \"https://a{rest}/\"", "no place to go"),
            ("prefix = \"/a\"\nredirect = \"javascript:x\"", "no place to go"),
            ("prefix = \"/a\"\nredirect = \"/b\"\nstatus = 200", "does not redirect"),
            ("prefix = \"/a\"\nstatus = 404", "write one of them"),
            ("prefix = \"/a\"\ntext = \"x\"\nstatus = 101", "no status of an answer"),
            ("prefix = \"/a\"\ntext = \"x\"\nstatus = 204", "status 204 have no content"),
            ("prefix = \"/a\"\ntext = \"x\"\nstatus = 205", "status 205 have no content"),
            ("prefix = \"/a\"\ntext = \"x\"\nstatus = 304", "304 has no content"),
            ("prefix = \"/a\"\ntext = \"\"\nstatus = 304", "304 has no content"),
            ("exact = \"/a\"\nstrip_prefix = true", "needs `prefix`"),
            (
                "prefix = \"/a\"\ntext = \"x\"\nstrip_prefix = true",
                "with `prefix` and, if you like, `origin`: leave out `strip_prefix` or `text`",
            ),
            (
                "prefix = \"/a\"\nstrip_prefix = true\nredirect = \"/b/{rest}\"",
                "leave out `strip_prefix` or `redirect`",
            ),
            ("prefix = \"/a\"\nindex = \"x\"", "without `folder`"),
            ("exact = \"/a\"\nfolder = \"/srv\"", "needs `prefix`"),
            ("prefix = \"/a\"\nfolder = \"/\"", "cannot be served"),
            ("prefix = \"/a\"\nfolder = \"srv\"", "cannot be served"),
            ("prefix = \"/a\"\nfolder = \"/var\"", "files of nightwatt"),
            ("prefix = \"/a\"\nfolder = \"/var/lib/nightwatt/x\"", "files of nightwatt"),
            ("prefix = \"/a\"\nredirect = \"/b/{path}\"", "only `{rest}` is replaced"),
            ("prefix = \"/a\"\nfolder = \"/srv\"\nindex = \"../x\"", "no name of a file"),
            ("prefix = \"/a\"\ntext = \"x\"\nlimits.body_bytes = 1", "does not answer here"),
            ("prefix = \"/a\"\nrequest_headers.set = { Host = \"x\" }", "cannot be changed"),
            (
                "prefix = \"/a\"\nrequest_headers.set = { X-Forwarded-For = \"x\" }",
                "cannot be changed",
            ),
            (
                "prefix = \"/a\"\nresponse_headers.set = { Content-Length = \"1\" }",
                "cannot be changed",
            ),
            (
                "prefix = \"/a\"\nfolder = \"/srv\"\nresponse_headers.set = { ETag = \"1\" }",
                "`ETag` is a field",
            ),
            ("prefix = \"/a\"\nresponse_headers.set = { \"a b\" = \"1\" }", "no name of a field"),
            ("prefix = \"/a\"\nresponse_headers.set = { A = \"\\u0000\" }", "no field may have"),
            ("prefix = \"/a\"\nlimits.origin_timeout = \"0s\"", "longer than 0"),
        ] {
            let said = parse(lines).unwrap_err();
            assert!(said.starts_with("test.toml:") && said.contains(why), "{lines}: {said}");
        }
        for lines in [
            "prefix = \"/\"\nresponse_headers.set = { X-Frame-Options = \"DENY\" }",
            "prefix = \"/api/\"\norigin = \"http://127.0.0.1:2\"\nstrip_prefix = true",
            "exact = \"/old\"\nredirect = \"https://example.org/{rest}\"\nstatus = 301",
            "exact = \"/generate_204\"\ntext = \"\"\nstatus = 204",
            "exact = \"/reset\"\ntext = \"\"\nstatus = 205",
        ] {
            assert!(parse(lines).is_ok(), "{lines}: {:?}", parse(lines).map(drop));
        }
    }

    #[test]
    fn a_path_on_another_machine_is_warned_of_and_another_port_is_not() {
        for (origin, is_other) in [
            ("http://10.0.0.9:9000", true),
            ("http://nas.example:9000", true),
            ("http://127.0.0.1:9000", false),
            ("https://localhost:9000", false),
            ("http://[::1]:9000", false),
        ] {
            let config = parse(&format!("prefix = \"/api/\"\norigin = \"{origin}\"")).unwrap();
            let risks = config.site[0].path_risks();
            assert_eq!(risks.len(), usize::from(is_other), "{origin}: {risks:?}");
            let named = |it: &String| it.contains("`/api/`") && it.contains("does not wake it");
            assert!(risks.iter().all(named), "{risks:?}");
        }
        let same = parse("prefix = \"/api/\"\nstrip_prefix = true").unwrap();
        assert_eq!(same.site[0].path_risks(), [""; 0]);
    }
}
