//! What kind of client sends a request: one answer for the live proxy and for a log.

use std::sync::Arc;
use std::time::Duration;

use nightwatt_energy::time::{Mono, Now};
use nightwatt_policy::admission::ClientClass;

pub use crate::classifier_config::ClassifierConfig;
pub use crate::client_key::ClientKey;
use crate::client_state::{Client, Marks, Recent, within};
pub use crate::facts::{ClientFacts, Fetch};
use crate::login_attempts::{Guesses, Reply};
use crate::rule::Rule;
use crate::scanner_paths::Existing;
use crate::traits::{AgentMemo, Rules, Traits};

mod known;

pub use self::known::{FailedLogIns, Known};

/// How long a client that read `robots.txt` counts as a robot.
const ROBOT_FOR: Duration = Duration::from_hours(24);

/// A client may open a scanners' path once in this time, as long as the site has not answered it with success.
const OPENED_ONCE_IN: Duration = Duration::from_hours(1);

/// A program whose misses were at no path of scanners does not count as one for longer.
const PROGRAM_SCANS_FOR: Duration = Duration::from_mins(15);

/// Whether a client with this answer has asked in vain.
const fn is_miss(status: u16) -> bool {
    matches!(status, 400 | 403 | 404 | 405 | 410)
}

/// A navigation ends that a client counts as a scanner, but only once in this time: any program can claim
/// to navigate.
const CLEARED_ONCE_IN: Duration = Duration::from_hours(24);

/// What a request's client is, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    /// The rule that decides, and with it the class.
    pub rule: Rule,
    /// A browser, a program that is listed or that the operator names, or a client that the server
    /// has answered with success before.
    pub recognised: bool,
    /// When the rule ends to hold, if that is known.
    pub until: Option<Mono>,
}

impl Verdict {
    const fn of(rule: Rule) -> Self {
        Self { rule, recognised: true, until: None }
    }

    /// The class.
    pub const fn class(&self) -> ClientClass {
        self.rule.class()
    }
}

/// Tells classes of clients, by what they say and by what they did. A client is an address with an
/// agent: others behind the same address are judged by themselves.
///
/// The first of these that holds:
/// 1. `Monitor`: GET or HEAD of a path of health checks ([`ClassifierConfig::monitor_paths`]);
/// 2. `Api`: an agent of the operator's own, or one of [`ClassifierConfig::webhook_paths`];
/// 3. `Api`: an authority that looks for a proof at `/.well-known/acme-challenge/` or `pki-validation/`; and the
///    robot of a hub that asks whether a feed's address is right (`WebSub`, `hub.mode` and `hub.challenge`);
/// 4. `Monitor`: an agent of the operator's, or a monitor by the table; `Crawler`: an agent of the
///    operator's, or a crawler by the table ([`CrawlerTable`](crate::CrawlerTable)). What an agent of the
///    table sends by another method than GET, HEAD or OPTIONS is never a crawler's or monitor's: it is
///    lost if it is refused. (But `WordPress` calling its own `wp-cron.php` is a crawler.)
/// 5. `Scanner`: a client that missed too much (see [`Classifier::learn`]);
/// 6. `Scanner`: a path that only scanners ask for and that has never been answered with success here, unless
///    a browser says that it opens it (once an hour), or a page of this site needs it; by POST and the
///    like, one that was answered with 404;
/// 7. `Scanner`: a log-in of an address that tried and failed three times, at the same path, unless a browser
///    that has not failed there itself opens it (once an hour);
/// 8. `Crawler`: a client that asked for `/robots.txt` in the last 24 hours. A browser does not ask for it
///    by itself; one whose user does counts as a robot until it asks for a part of a page (image, style,
///    script) from a page of the site, or navigates by its own word;
/// 9. `Api`: a sender of webhooks or a server of the fediverse by the table, a program that builds or
///    syncs, a library (curl, python-requests), or no agent at all;
/// 10. `Human`: an agent in the form of a browser's, `Mozilla/5.0 (platform) ...`, unless it asks by
///     HEAD, as link checkers do and browsers do not; and any agent that wants HTML most;
/// 11. `Api`: the rest.
///
/// Rules 5 to 7 do not hold for a client that shows a credential which has earned a 2xx from the server.
///
/// What agents say is believed: a robot in the guise of a browser is a person until it misses much
/// or reads `robots.txt`.
#[derive(Debug)]
pub struct Classifier {
    rules: Arc<Rules>,
    /// Scanners' paths that this site has.
    existing: Existing,
    /// Scanners' paths that it has not, by hash.
    absent: Recent<()>,
    clients: Recent<Client>,
    /// Credentials that the server has honoured.
    credentials: Recent<()>,
    guesses: Guesses,
    agents: AgentMemo,
}

/// Agents remembered.
const AGENTS: usize = 1024;

/// Credentials remembered, and paths that are not there: 40 bytes each.
const CREDENTIALS: usize = 4096;
const ABSENT: usize = 1024;

impl Default for Classifier {
    fn default() -> Self {
        Self::new(ClassifierConfig::default())
    }
}

impl Classifier {
    /// With nothing learned yet.
    pub fn new(config: ClassifierConfig) -> Self {
        Self::with_rules(Arc::new(Rules::new(config)))
    }

    /// With nothing learned yet, by rules that others use as well.
    pub fn with_rules(rules: Arc<Rules>) -> Self {
        Self {
            existing: Existing::default(),
            absent: Recent::new(ABSENT),
            clients: Recent::new(rules.config().clients),
            credentials: Recent::new(CREDENTIALS),
            guesses: Guesses::default(),
            agents: AgentMemo::new(AGENTS),
            rules,
        }
    }

    /// The class of a request's client.
    pub fn classify(&mut self, now: Now, facts: &ClientFacts<'_>) -> ClientClass {
        self.judge(now, facts).class()
    }

    /// What a request's client is, and why.
    pub fn judge(&mut self, now: Now, facts: &ClientFacts<'_>) -> Verdict {
        let traits = self.traits(facts);
        self.judge_of(now.mono, &traits)
    }

    /// What the rules make of a request, by itself.
    pub fn traits(&mut self, facts: &ClientFacts<'_>) -> Traits {
        self.rules.traits(&mut self.agents, facts)
    }

    /// As [`Classifier::classify`], where the traits are known: they must have been taken by rules
    /// of the same config.
    pub fn class_of(&mut self, now: Mono, traits: &Traits) -> ClientClass {
        self.judge_of(now, traits).class()
    }

    /// As [`Classifier::judge`], where the traits are known.
    pub fn judge_of(&mut self, now: Mono, traits: &Traits) -> Verdict {
        if traits.decided().is_none()
            && self.existing.counts(traits.scanner_rules())
            && !self.is_honoured(traits)
            && !self.is_of_this_site(now, traits)
        {
            return Verdict::of(Rule::ScannerPath);
        }
        self.judge_beside_paths(now, traits)
    }

    /// Whether the client asks for a scanners' path as a site's owner does when logging in to a site that has
    /// just been set up: by opening it, once an hour, or by a page of this site that needs it. The wake
    /// budget bounds both.
    fn is_of_this_site(&mut self, now: Mono, traits: &Traits) -> bool {
        if !traits.may_be_owners() {
            return false;
        }
        if traits.is_part_of_page() {
            return true;
        }
        let opened = &mut self.client(traits).marks.opened;
        let may = opened.is_none_or(|then| !within(now, then, OPENED_ONCE_IN));
        if may {
            *opened = Some(now);
        }
        may
    }

    /// As [`Classifier::judge_of`], except for the rules about paths ([`Traits::scanner_rules`]): for
    /// callers that keep account of their own of what the site has answered.
    pub fn judge_beside_paths(&mut self, now: Mono, traits: &Traits) -> Verdict {
        let decided = traits.decided().map(Verdict::of);
        let verdict = decided.or_else(|| self.remembered(now, traits));
        let verdict = verdict.unwrap_or_else(|| Verdict::of(traits.rest()));
        let recognised = !verdict.rule.is_for_anybody()
            || self.is_honoured(traits)
            || self.has_succeeded(traits);
        Verdict { recognised, ..verdict }
    }

    /// What follows from what the client did before.
    fn remembered(&mut self, now: Mono, traits: &Traits) -> Option<Verdict> {
        let marks = self.clients.known(traits.who()).map_or_else(Marks::default, |it| it.marks);
        let scans = now < marks.scanner_until && !self.clears(now, traits, marks);
        if !self.is_honoured(traits) {
            if scans {
                let until = Some(marks.scanner_until);
                return Some(Verdict { until, ..Verdict::of(Rule::Misses) });
            }
            if traits.is_unsafe() && self.absent.known(traits.path).is_some() {
                return Some(Verdict::of(Rule::ScannerPath));
            }
            if let Some(until) = self.guesses_until(now, traits) {
                let until = Some(until);
                return Some(Verdict { until, ..Verdict::of(Rule::LogInGuessing) });
            }
        }
        self.reads_robots_txt(now, traits, marks.robots)
    }

    /// When a request is no guess of a password any more, if it is one.
    fn guesses_until(&mut self, now: Mono, traits: &Traits) -> Option<Mono> {
        let posted = traits.posted().filter(|_| !self.commands_wordpress(traits))?;
        self.guesses.end(now, &posted)
    }

    /// Whether an app sends a command to `WordPress`: it has fetched something else before, as guessers do not.
    fn commands_wordpress(&self, traits: &Traits) -> bool {
        traits.is_xml_rpc() && self.has_succeeded(traits)
    }

    /// Whether the server has answered the client with success.
    fn has_succeeded(&self, traits: &Traits) -> bool {
        self.clients.known(traits.who()).is_some_and(|client| client.succeeded)
    }

    /// Whether a person opens a page, and so ends that the client counts as a scanner.
    fn clears(&mut self, now: Mono, traits: &Traits, marks: Marks) -> bool {
        let may = marks.cleared.is_none_or(|then| !within(now, then, CLEARED_ONCE_IN));
        let opens = traits.is_navigation() && traits.looks_human() && traits.scanner_rules() == 0;
        if may && opens {
            let client = self.client(traits);
            client.forgive();
            client.marks.cleared = Some(now);
        }
        may && opens
    }

    /// Whether it shows a credential that the server has honoured.
    fn is_honoured(&self, traits: &Traits) -> bool {
        traits.credential != 0 && self.credentials.known(traits.credential).is_some()
    }

    /// Takes in how the server answered a request; answers that the proxy invented itself (a 503
    /// while the site sleeps) say nothing about a client and must not come here.
    ///
    /// A miss is 400, 403, 404, 405 or 410 to GET, HEAD or POST. A client that had at least
    /// `scanner_misses` in the last ten minutes (counted in spans of two, so 8 to 10), and at least
    /// `scanner_share` of its requests, is a scanner for `scanner_for_s` after its last miss; for at most 15
    /// minutes if it has no browser's agent and has missed no path that scanners ask for. Two misses on
    /// paths that scanners ask for are enough. These do not count: what browsers and robots ask for by
    /// themselves (`/favicon.ico` and the like), a target missed just before, a part of a page
    /// (image, style, script) asked for from a page of this site (where `Host` is not known: from
    /// any page), so a broken page does not make scanners of its readers; and what is missed by a program
    /// that builds or syncs by the table, that the server has let change something (PUT, DELETE and the
    /// like), or that shows a credential which it has honoured.
    ///
    /// Of what a page of another site has a browser ask for, nothing is learned: where `Sec-Fetch-*` is missing,
    /// that is what names another host in `Referer` and does not want a page.
    pub fn learn(&mut self, now: Now, facts: &ClientFacts<'_>, reply: impl Into<Reply>) {
        let reply = reply.into();
        let traits = self.traits_to_learn(facts, reply.status);
        self.learn_of(now.mono, &traits, reply);
    }

    /// As [`Classifier::traits`], of a request that was answered. Only of a miss it matters whether a page of another
    /// site asked by the word of `Referer` alone, so hits do not look.
    pub fn traits_to_learn(&mut self, facts: &ClientFacts<'_>, status: u16) -> Traits {
        let traits = self.traits(facts);
        if is_miss(status) { traits.of_miss(facts) } else { traits }
    }

    /// As [`Classifier::learn`], where the traits are known.
    pub fn learn_of(&mut self, now: Mono, traits: &Traits, reply: impl Into<Reply>) {
        let reply = reply.into();
        let status = reply.status;
        if traits.is_from_another_site() {
            return;
        }
        let credential = traits.credential;
        match status {
            200..=299 if credential != 0 => *self.credentials.touch(credential) = (),
            401 if credential != 0 => self.credentials.remove(credential),
            _ => {}
        }
        let posted = traits.posted().filter(|_| !self.commands_wordpress(traits));
        if let Some(posted) = posted {
            self.guesses.answered(now, &posted, reply);
        }
        let writes = traits.is_unsafe() && !traits.is_post() && status < 300;
        // `xmlrpc.php` answers a wrong password with 200 too.
        let succeeds = status < 400 && !traits.is_xml_rpc();
        if let Some(client) = self.count(now, traits, status).filter(|_| succeeds) {
            client.succeeded = true;
            client.writes |= writes;
        }
    }

    /// As [`Classifier::learn_of`], of an answer that the cache gave: that is no merit of its client.
    pub fn learn_cached(&mut self, now: Mono, traits: &Traits, status: u16) {
        if !traits.is_from_another_site() {
            self.count(now, traits, status);
        }
    }

    /// Counts an answer for its client. Returns the client, if it did not miss.
    fn count(&mut self, now: Mono, traits: &Traits, status: u16) -> Option<&mut Client> {
        if matches!(status, 200..=399 | 401) {
            self.existing.answered(traits.hits);
        }
        if !is_miss(status) {
            let client = self.client(traits);
            client.hit(now);
            return Some(client);
        }
        let by_rule = self.existing.counts(traits.hits.rules());
        if by_rule && matches!(status, 404 | 410) {
            self.absent.touch(traits.path);
        }
        if traits.is_asked_by_itself() || traits.is_part_of_page() || self.may_miss(traits) {
            return None;
        }
        let config = self.rules.config();
        let (needed, most) = (config.scanner_misses, config.scanner_share);
        let scanner_for = Duration::from_secs(config.scanner_for_s);
        let client = self.client(traits);
        client.scans |= by_rule;
        // Many a program that no table lists looks for what may not be there, but for none of that.
        let may_look = !client.scans && !traits.is_browser();
        let scanner_for = if may_look { scanner_for.min(PROGRAM_SCANS_FOR) } else { scanner_for };
        let weight = if by_rule { needed.div_ceil(2).max(1) } else { 1 };
        client.miss(now, traits.target, weight);
        let (misses, share) = client.misses();
        let was = now < client.marks.scanner_until;
        if !was {
            client.marks.scanner_since = now;
        }
        // A scanner stays one by any miss.
        if misses >= needed && share >= most || was {
            client.marks.scanner_until = now + scanner_for;
        }
        None
    }

    /// Whether misses say nothing about this client.
    fn may_miss(&self, traits: &Traits) -> bool {
        traits.is_client()
            || traits.is_unsafe() && !traits.is_post()
            || self.is_honoured(traits)
            || self.clients.known(traits.who()).is_some_and(|client| client.writes)
    }

    fn client(&mut self, traits: &Traits) -> &mut Client {
        let client = self.clients.touch(traits.who());
        (client.address, client.agent) = (traits.client, traits.agent);
        client
    }

    /// Whether a client is known as a scanner, with this agent.
    pub fn is_scanner(&mut self, now: Mono, facts: &ClientFacts<'_>) -> bool {
        let traits = self.rules.traits(&mut self.agents, facts);
        self.clients.known(traits.who()).is_some_and(|client| now < client.marks.scanner_until)
    }

    /// Clients that something is remembered of.
    pub fn clients(&self) -> usize {
        self.clients.len()
    }

    /// `read_at`: when the client last asked for `robots.txt` before, if it did.
    fn reads_robots_txt(
        &mut self,
        now: Mono,
        traits: &Traits,
        mut read_at: Option<Mono>,
    ) -> Option<Verdict> {
        if traits.is_robots_txt() && !traits.is_unsafe() && !traits.is_from_another_site() {
            read_at = Some(now);
            self.client(traits).marks.robots = read_at;
        }
        let read_at = read_at.filter(|then| within(now, *then, ROBOT_FOR))?;
        let opens = traits.is_part_of_page() || traits.is_navigation() && !traits.is_robots_txt();
        if traits.looks_human() && opens {
            self.client(traits).marks.robots = None;
            return None;
        }
        let verdict = Verdict { until: Some(read_at + ROBOT_FOR), ..Verdict::of(Rule::RobotsTxt) };
        (!traits.is_unsafe()).then_some(verdict)
    }
}

#[cfg(test)]
#[path = "classes_tests.rs"]
mod tests;
