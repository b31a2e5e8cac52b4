//! Which paths look as if a request for them did something: no `GET` of the proxy's own goes there.
//!
//! Servers at home do act upon a `GET`: `/reboot`, `/items/5/approve`, `/light/on`. Words decide, and only for
//! paths that a program answers:
//!
//! * A file that web servers send as it is does nothing, whatever its name.
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
    "logout",
    "signout",
];

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
];

/// Whether a request for this path may do something.
pub fn is_action(path: &str) -> bool {
    // As often as two proxies and a server do it.
    let plain = without_escapes(&without_escapes(&without_escapes(path)));
    let segments: Vec<&str> = plain.split('/').filter(|it| !it.is_empty()).collect();
    if segments.last().is_some_and(|last| is_file(last)) {
        return false;
    }
    let above_articles = segments.iter().take_while(|it| !holds_articles(it)).count();
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
    if COMMANDS.contains(&&*words.concat()) {
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
        || SWITCHES.contains(&word) && (is_program || beside.iter().any(|it| !is_language(it)))
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
mod tests {
    use super::*;

    /// Those that a mirror requested when it was attacked, and some more.
    const ACTIONS: &[&str] = &[
        "/reboot",
        "/shutdown",
        "/poweroff",
        "/power-off",
        "/cgi-bin/reboot.cgi",
        "/api/restart",
        "/delete_all",
        "/deletePost/5",
        "/delete-post/5",
        "/remove-item/3",
        "/del/5",
        "/rm/5",
        "/items/5/approve",
        "/items/5/accept",
        "/items/5/reject",
        "/reset/5",
        "/users/5/ban",
        "/verify/abc123",
        "/invite/xyz",
        "/purge-cache",
        "/emptytrash",
        "/empty-trash",
        "/flush",
        "/clear",
        "/door/open",
        "/light/on",
        "/api/light/off",
        "/lock/5",
        "/unlock/5",
        "/install.php",
        "/setup.php",
        "/backup/run",
        "/start/job",
        "/stop/job",
        "/post/5/publish",
        "/mark-as-read/7",
        "/forum/markread.php",
        "/mark_all_as_read",
        "/thumbs-up/3",
        "/upvote/3",
        "/rate/5",
        "/claim/3",
        "/join/3",
        "/leave/3",
        "/book/3",
        "/sleep",
        "/wake",
        "/api/v1/run",
        "/jobs/5/start",
        "/jobs/5/stop/",
        "/DELETE/5",
        "/%64elete/5",
        "/%2564elete/5",
        "/plugins/7/install",
        "/orders/5/cancel",
        "/Items/5/Approve.aspx",
        "/clear-cache.php",
        "/bulk-delete",
        "/ajax/user_delete",
        "/sites/3/deploy",
        "/garage/close",
        "/toggle/3",
        "/alarm/arm",
        "/subscribe/9",
        "/newsletter/confirm/9",
        "/run.cgi",
        "/start.do",
        "/comments/8/restore",
        "/log-out",
        "/sign_out",
        "/add-to-cart",
        "/addToCart/5",
        "/articles/5/publish",
        "/articles/deletePost/5",
        "/api/v1/articles/5/upvote",
        "/news/5/unpublish",
        "/topics/12/lock",
        "/blog/5/ban",
        "/recipes/5/reset",
        "/tag/5/remove-all",
        "/wiki/delete_page",
        "/manual/on",
        "/light-on",
        "/turn-off",
        "/switch_on",
        "/openDoor",
        "/garage-open",
        "/start-backup",
        "/run-job",
        "/gate/trigger",
        "/wol/aa",
        "/wakeup",
        "/kill/5",
        "/token/rotate",
        "/order/5/refund",
        "/pay/5",
        "/mail/send",
        "/job/5/execute",
        "/tasks/5/done",
        "/mark_as_spam/5",
        "/queue/add/5",
        "/pause",
    ];

    /// Those that stay, beside files.
    const PAGES: &[&str] = &[
        "/",
        "/docs/install/",
        "/docs/install",
        "/docs/cli/run",
        "/docs/reference/start/",
        "/en/docs/setup",
        "/about/opening-hours",
        "/about/open",
        "/download",
        "/downloads/",
        "/news/run-for-charity-2024",
        "/run-for-charity-2024/",
        "/blog/reset",
        "/blog/how-to-reset-your-router",
        "/how-to-delete-all-your-data/",
        "/2024/05/stop",
        "/2024/05/12/approve",
        "/wiki/Sleep",
        "/wiki/Reboot",
        "/wiki/Reset_(album)",
        "/man/rm",
        "/tag/sleep",
        "/category/open/",
        "/install/",
        "/setup",
        "/start",
        "/en/start/",
        "/pt-br/start",
        "/join",
        "/book/",
        "/book/chapter-one/",
        "/run/",
        "/on/",
        "/open",
        "/rates",
        "/opening-hours",
        "/open-source",
        "/starters/5",
        "/restaurants/3",
        "/cleaners",
        "/keyboards/",
        "/bands/3",
        "/bookings/",
        "/invitations-and-cards",
        "/recovery",
        "/contact",
        "/products/5",
        "/sleeping-bags/7",
        "/start-here",
        "/wiki/Kill_Bill",
        "/docs/v2/install",
        "/2026/reboot",
        "/about/restart",
    ];

    const STATIC_FILES: &[&str] = &[
        "/blog/how-to-reset-your-router.html",
        "/reboot.html",
        "/img/delete.png",
        "/open/logo.svg",
        "/start/app.js",
        "/manual/install.pdf",
    ];

    #[test]
    fn what_a_word_says_it_does_it_may_do() {
        for path in ACTIONS {
            assert!(is_action(path), "{path}");
        }
    }

    #[test]
    fn articles_files_and_usual_pages_do_nothing() {
        for path in PAGES.iter().chain(STATIC_FILES) {
            assert!(!is_action(path), "{path}");
        }
    }

    #[test]
    fn words_are_the_same_however_they_are_joined() {
        for text in ["deletePost", "delete-post", "delete_post", "Delete.Post", "delete%post"] {
            assert_eq!(words(text), ["delete", "post"], "{text}");
        }
        assert_eq!(words("HTML5"), ["html5"]);
        assert!(words("--").is_empty());
    }
}
