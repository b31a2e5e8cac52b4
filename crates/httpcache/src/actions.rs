//! Which paths look as if a request for them did something: no `GET` of the proxy's own goes there.
//!
//! Servers at home do act upon a `GET`: `/reboot`, `/items/5/approve`, `/light/on`. Words decide, and only for
//! paths that a program answers:
//!
//! * A file that web servers send as it is does nothing, whatever its name. But a page that logs out may be one
//!   (`/logout.html`, below `/index.php/` for one).
//! * Below a folder of articles (`/docs/`, `/blog/`, `/2026/`) a word is what the article is about, unless a number
//!   stands before it (`/articles/5/publish`) or it is written as programs write names (`deletePost`, `delete_page`).
//! * A segment of four words or more is the title of an article.
//!
//! A page that is kept out by mistake costs a wake-up when a visitor opens it. An action that is carried out by
//! mistake cannot be taken back. So of a doubtful word that is no usual name of a page, the path is an action.

use crate::key::without_escapes;

/// Endings of files that web servers send as they are.
pub const FILES: &[&str] = &[
    "html", "htm", "xhtml", "txt", "md", "xml", "pdf", "epub", "png", "jpg", "jpeg", "gif", "webp",
    "avif", "svg", "ico", "js", "mjs", "css", "map", "woff", "woff2", "ttf", "mp3", "mp4", "webm",
    "ogg", "zip", "gz", "csv",
];

/// Endings of programs.
const PROGRAMS: [&str; 10] =
    ["php", "cgi", "asp", "aspx", "jsp", "pl", "do", "action", "cfm", "exe"];

/// Folders whose pages are about a word, and do not do what it says.
const ARTICLES: &[&str] = &[
    "docs",
    "doc",
    "documentation",
    "man",
    "guide",
    "guides",
    "help",
    "wiki",
    "blog",
    "blogs",
    "news",
    "article",
    "articles",
    "tutorial",
    "tutorials",
    "reference",
    "faq",
    "kb",
    "learn",
    "handbook",
    "about",
    "category",
    "categories",
    "tag",
    "tags",
    "stories",
    "press",
];

/// Words that do something as the first or the last of three at most: `/delete_all`, `/deletePost`, `/user-ban`.
const VERBS: &[&str] = &[
    "delete",
    "remove",
    "destroy",
    "erase",
    "trash",
    "purge",
    "flush",
    "clear",
    "empty",
    "reset",
    "reboot",
    "shutdown",
    "poweroff",
    "restart",
    "approve",
    "accept",
    "reject",
    "decline",
    "deny",
    "publish",
    "unpublish",
    "ban",
    "unban",
    "unlock",
    "revoke",
    "cancel",
    "verify",
    "invite",
    "vote",
    "upvote",
    "downvote",
    "subscribe",
    "unsubscribe",
    "activate",
    "deactivate",
    "enable",
    "disable",
    "toggle",
    "restore",
    "rollback",
    "deploy",
    "confirm",
    "trigger",
    "kill",
    "terminate",
    "rotate",
    "regenerate",
    "refund",
    "execute",
    // In German and French, with and without what stands above letters.
    "loeschen",
    "löschen",
    "entfernen",
    "bearbeiten",
    "aktivieren",
    "deaktivieren",
    "freigeben",
    "sperren",
    "entsperren",
    "abstimmen",
    "stornieren",
    "kuendigen",
    "kündigen",
    "bestaetigen",
    "bestätigen",
    "zuruecksetzen",
    "zurücksetzen",
    "abbestellen",
    "einschalten",
    "ausschalten",
    "umschalten",
    "neustarten",
    "herunterfahren",
    "supprimer",
    "effacer",
    "retirer",
    "annuler",
    "valider",
    "confirmer",
    "publier",
    "activer",
    "desactiver",
    "désactiver",
    "reinitialiser",
    "réinitialiser",
    "redemarrer",
    "redémarrer",
    "eteindre",
    "éteindre",
    "allumer",
    "desabonner",
    "désabonner",
    "desinscrire",
    "désinscrire",
];

/// Segments that do something as a whole, without what separates their words.
const COMMANDS: &[&str] = &[
    "del",
    "rm",
    "sleep",
    "wake",
    "suspend",
    "hibernate",
    "emptytrash",
    "emptycart",
    "poweroff",
    "poweron",
    "poweronoff",
    "wakeup",
    "wol",
    "pause",
    "skip",
    "mute",
    "unmute",
    "markasspam",
    "shutdown",
    "markread",
    "markasread",
    "markallread",
    "markallasread",
    "markunread",
    "thumbsup",
    "thumbsdown",
    "addtocart",
];

/// Segments that log out, without what separates their words: as files too, since such pages act upon being opened.
const LOG_OUTS: &[&str] = &[
    "logout",
    "logoff",
    "logmeout",
    "signout",
    "signoff",
    "signmeout",
    "endsession",
    "abmelden",
    "ausloggen",
    "deconnexion",
    "déconnexion",
    "deconnecter",
    "déconnecter",
];

/// What is ended in `/session/end`.
const SESSIONS: &[&str] =
    &["session", "sessions", "auth", "sso", "oidc", "login", "account", "user"];

/// Segments that set or change what stands beside them. Unlike those of `SWITCHES`, they are also parts of names
/// (`tea-set`, `acme-inc`).
const SETTERS: &[&str] = &["set", "inc", "increment", "decrement"];

/// Segments that do something to what stands beside them, and are pages alone: `/door/open`, `/start/job`. The same as
/// the first or the last of two words: `/light-on`, `/openDoor`.
const SWITCHES: &[&str] = &[
    "on", "off", "open", "close", "lock", "start", "stop", "run", "arm", "turn", "switch", "send",
];

/// Pages whose names look like those.
const NO_SWITCHES: &[&str] = &[
    "opensource",
    "openday",
    "openhouse",
    "openhours",
    "openaccess",
    "opendata",
    "starthere",
    "startpage",
    "addon",
    "signon",
    "handson",
    "followon",
    "oneoff",
    "kickoff",
];

/// The same where what stands beside them is a number, or where a program has this name: `/join/3`, `/install.php`.
const THINGS: &[&str] = &[
    "install",
    "uninstall",
    "setup",
    "upgrade",
    "backup",
    "book",
    "join",
    "leave",
    "rate",
    "claim",
    "follow",
    "pay",
    "done",
    "move",
    "merge",
    "add",
    "spam",
    "gpio",
    "relay",
];

/// Names of parameters that do something, whatever their value is, if they have one: `?turn=on`, `?act=del`.
const ACTING_PARAMETERS: &[&str] = &[
    "act",
    "cmnd",
    "del",
    "turn",
    "on",
    "off",
    "set",
    "switchcmd",
    "rollback",
    "led",
    "relay",
    "gpio",
    "loeschen",
    "löschen",
    "entfernen",
    "supprimer",
];

/// Last segments of paths that do something if a query says what: `/set?led=1`, `/poll?answer=2`.
const ACTING_WITH_QUERY: &[&str] = &["set", "poll", "umfrage", "sondage"];

/// Parameters with which those only show another page, or the same one.
const SHOWING_PARAMETERS: &[&str] = &["page", "p", "id", "lang", "v", "ver", "sort"];

/// Text as a server behind two proxies may see it.
fn plain(text: &str) -> String {
    without_escapes(&without_escapes(&without_escapes(text)))
}

/// Whether a request for this path may do something.
pub fn is_action(path: &str) -> bool {
    let plain = plain(path);
    let segments: Vec<&str> = plain.split('/').filter(|it| !it.is_empty()).collect();
    let above_articles = segments.iter().take_while(|it| !holds_articles(it)).count();
    if segments[..above_articles].iter().any(|segment| logs_out(segment)) {
        return true;
    }
    if segments.last().is_some_and(|last| is_file(last)) {
        return false;
    }
    // Below a year there are months, days and titles.
    let has_years = segments.get(above_articles).is_some_and(|it| is_year(it));
    (0..segments.len()).any(|at| {
        let before = at.checked_sub(1).and_then(|at| segments.get(at));
        let is_article = at >= above_articles
            && !is_name_in_a_program(segments[at])
            && (has_years || !before.is_some_and(is_number));
        let beside: Vec<&str> = before.into_iter().chain(segments.get(at + 1)).copied().collect();
        !is_article && acts(segments[at], &beside)
    })
}

/// Whether a request with this path and query may do something by what its parameters say.
pub fn is_action_by_query(path_and_query: &str) -> bool {
    let Some((path, query)) = path_and_query.split_once('?') else { return false };
    let pairs = query.split(['&', ';']).filter_map(|pair| pair.split_once('='));
    let with_value = pairs.filter(|(_, value)| !value.is_empty());
    let names: Vec<String> = with_value.map(|(name, _)| plain(name).to_lowercase()).collect();
    let is_one_of = |list: &[&str], name: &String| list.contains(&name.as_str());
    if names.iter().any(|name| is_one_of(ACTING_PARAMETERS, name)) {
        return true;
    }
    let path = plain(path).to_lowercase();
    let last = path.split('/').rfind(|it| !it.is_empty()).unwrap_or_default();
    ACTING_WITH_QUERY.contains(&last)
        && names.iter().any(|name| !is_one_of(SHOWING_PARAMETERS, name))
}

/// Whether a segment logs out: as a whole, whatever separates its words. A picture of that name does not.
fn logs_out(segment: &str) -> bool {
    let (stem, ending) = segment.rsplit_once('.').unwrap_or((segment, ""));
    let ending = ending.to_ascii_lowercase();
    let is_page = matches!(ending.as_str(), "html" | "htm" | "xhtml");
    let stem = if is_page || PROGRAMS.contains(&&*ending) { stem } else { segment };
    LOG_OUTS.contains(&&*words(stem).concat())
}

/// Whether a segment has parameters without a query: `/win&T=2`.
fn has_parameters(segment: &str) -> bool {
    segment.split_once('&').is_some_and(|(_, parameters)| parameters.contains('='))
}

fn is_number(segment: &&str) -> bool {
    segment.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_numbered(segment: &&str) -> bool {
    segment.bytes().any(|byte| byte.is_ascii_digit())
}

/// `deletePost`, `delete_page`; titles begin with a capital letter (`Reset_(album)`), or have hyphens.
fn is_name_in_a_program(segment: &str) -> bool {
    let has_capital = segment.chars().any(char::is_uppercase);
    segment.starts_with(char::is_lowercase) && (segment.contains('_') || has_capital)
}

/// Whether a segment has the name of a file that is sent as it is.
fn is_file(segment: &str) -> bool {
    let ending = segment.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
    ending.is_some_and(|ending| FILES.contains(&&*ending))
}

/// Whether a segment is a folder of articles: by its name, or as the year of a blog.
fn holds_articles(segment: &str) -> bool {
    is_year(segment) || ARTICLES.contains(&&*segment.to_ascii_lowercase())
}

fn is_year(segment: &str) -> bool {
    segment.len() == 4
        && segment.bytes().all(|it| it.is_ascii_digit())
        && (segment.starts_with("19") || segment.starts_with("20"))
}

/// Whether a segment does something, with these beside it.
fn acts(segment: &str, beside: &[&str]) -> bool {
    let (stem, ending) = segment.rsplit_once('.').unwrap_or((segment, ""));
    let is_program = PROGRAMS.contains(&&*ending.to_ascii_lowercase());
    let words = words(if is_program { stem } else { segment });
    let whole = words.concat();
    if COMMANDS.contains(&&*whole) || LOG_OUTS.contains(&&*whole) || has_parameters(segment) {
        return true;
    }
    let [first, .., last] = words.as_slice() else {
        return words.first().is_some_and(|word| acts_alone(word, is_program, beside));
    };
    let any_of = |list: &[&str]| [first, last].iter().any(|word| list.contains(&word.as_str()));
    words.len() <= 3 && any_of(VERBS)
        || words.len() == 2 && any_of(SWITCHES) && !NO_SWITCHES.contains(&&*words.concat())
}

/// The same for a segment of one word.
fn acts_alone(word: &str, is_program: bool, beside: &[&str]) -> bool {
    VERBS.contains(&word)
        || [SWITCHES, SETTERS].iter().any(|list| list.contains(&word))
            && (is_program || beside.iter().any(|it| !is_language(it)))
        || word == "end" && beside.iter().any(|it| SESSIONS.contains(&&*it.to_ascii_lowercase()))
        || THINGS.contains(&word) && (is_program || beside.iter().any(is_numbered))
}

/// Whether a segment chooses a language: `en`, `pt-br`.
fn is_language(segment: &str) -> bool {
    let mut parts = segment.split(['-', '_']);
    let is_short = |part: &str| part.len() == 2 && part.bytes().all(|it| it.is_ascii_alphabetic());
    parts.clone().count() <= 2 && parts.all(is_short)
}

/// The words of a segment in lower case: `deletePost`, `delete-post` and `delete_post` have the same.
fn words(segment: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for letter in segment.chars() {
        if !letter.is_alphanumeric() || letter.is_uppercase() && was_lower {
            words.push(String::new());
        }
        was_lower = letter.is_lowercase();
        if letter.is_alphanumeric() {
            words.last_mut().expect("it is never empty").extend(letter.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests;
