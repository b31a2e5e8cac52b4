//! Traps: sites with more addresses than pages. Endless calendars, filters that combine, lists without an end.
//!
//! Addresses of the same form are counted. The caller keeps the list of known addresses and counts each
//! address once.

use std::collections::HashMap;

use nightwatt_httpcache::Timestamp;

use super::address::{Address, plain};
use super::reason::Reason;
use super::refused_addresses::page_of;
use crate::discover::is_random;

/// Bounds on addresses of one form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrapRules {
    /// Addresses whose paths differ in numbers and random names alone.
    pub per_form: usize,
    /// Different queries of one path.
    pub queries_per_path: usize,
    /// Folders of one form whose names are random.
    pub random_folders: usize,
    /// Further pages of one list.
    pub pages_per_list: usize,
    /// Addresses in one folder.
    pub per_folder: usize,
    /// Segments of a path.
    pub segments: usize,
}

impl Default for TrapRules {
    fn default() -> Self {
        Self {
            per_form: 1000,
            queries_per_path: 200,
            random_folders: 200,
            pages_per_list: 200,
            per_folder: 5000,
            segments: 20,
        }
    }
}

/// How many addresses of each form are known.
#[derive(Clone, Debug, Default)]
pub struct TrapCounters {
    counts: HashMap<String, usize>,
    rules: TrapRules,
}

/// Calendars show days to come. Pages that are dated further ahead than this are theirs.
const AHEAD_DAYS: i64 = 62;

impl TrapCounters {
    /// Without any address.
    pub fn new(rules: TrapRules) -> Self {
        Self { counts: HashMap::new(), rules }
    }

    /// Counts an address, or says why it is one too many.
    pub fn count(&mut self, address: &Address, now: Timestamp) -> Result<(), Reason> {
        if is_far_ahead(address, now) {
            return Err(Reason::Calendar);
        }
        let segments: Vec<&str> = address.segments().collect();
        if segments.len() > self.rules.segments || repeats(&segments) {
            return Err(Reason::Trap);
        }
        let forms = self.forms(address, &segments);
        if forms.iter().any(|form| self.counts.get(&form.key).is_some_and(|it| *it >= form.most)) {
            return Err(Reason::Trap);
        }
        for form in forms {
            *self.counts.entry(form.key).or_default() += 1;
        }
        Ok(())
    }

    fn forms(&self, address: &Address, segments: &[&str]) -> Vec<Form> {
        let mut forms = Vec::with_capacity(3);
        let folders = segments.split_last().map_or(&[][..], |(_, folders)| folders);
        let folder = folders.iter().fold(String::new(), |path, it| path + "/" + form_of_name(it));
        forms.push(Form { key: format!("folder {folder}"), most: self.rules.per_folder });
        self.add_random_folders(folders, &mut forms);
        if names_page(address) {
            let key = format!("named {}", address.path());
            forms.push(Form { key, most: self.rules.per_folder });
            return forms;
        }
        if let Some(list) = page_of(address) {
            forms.push(Form { key: format!("list {list}"), most: self.rules.pages_per_list });
        } else if let Some(form) = without_numbers(segments) {
            forms.push(Form { key: format!("form {form}"), most: self.rules.per_form });
        }
        if address.query().is_some() {
            let key = format!("query {}", address.path());
            forms.push(Form { key, most: self.rules.queries_per_path });
        }
        forms
    }

    /// Of folders with random names (keys of sessions, commits), each counts once.
    fn add_random_folders(&self, folders: &[&str], forms: &mut Vec<Form>) {
        let (mut path, mut form) = (String::new(), String::new());
        for folder in folders {
            path.extend(["/", *folder]);
            form.extend(["/", form_of_name(folder)]);
            if !is_random_name(folder) {
                continue;
            }
            let own = format!("random {path}");
            if !self.counts.contains_key(&own) {
                let key = format!("random names {form}");
                forms.push(Form { key, most: self.rules.random_folders });
            }
            forms.push(Form { key: own, most: self.rules.per_folder });
        }
    }
}

struct Form {
    key: String,
    most: usize,
}

/// Whether the query has one parameter, by which scripts name their pages: `/doku.php?id=start`, `/?p=17`.
fn names_page(address: &Address) -> bool {
    const NAMES: [&str; 9] =
        ["id", "p", "title", "page_id", "article", "topic", "t", "post", "name"];
    let mut parameters = address.parameters().map(|it| plain(it.name));
    let is_name = parameters.next().is_some_and(|it| NAMES.contains(&it.as_str()));
    is_name && parameters.next().is_none()
}

/// A path with `#` for each run of digits and for each random name; `None` if it has no digit.
fn without_numbers(segments: &[&str]) -> Option<String> {
    if !segments.iter().any(|segment| segment.bytes().any(|byte| byte.is_ascii_digit())) {
        return None;
    }
    let mut form = String::new();
    for segment in segments {
        form.push('/');
        for letter in form_of_name(segment).chars() {
            if !letter.is_ascii_digit() {
                form.push(letter);
            } else if !form.ends_with('#') {
                form.push('#');
            }
        }
    }
    Some(form)
}

/// `#` for a random name.
fn form_of_name(segment: &str) -> &str {
    if is_random_name(segment) { "#" } else { segment }
}

/// Whether a name is a key: a run of hexadecimal digits, as commits and UUIDs have, or a long one in which letters and
/// digits take turns. Titles have hyphens or few numbers, and files have endings.
fn is_random_name(segment: &str) -> bool {
    let is_hex = |byte: u8| byte.is_ascii_hexdigit() || byte == b'-';
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let bytes = segment.as_bytes();
    let turns = bytes.windows(2).filter(|it| it[0].is_ascii_digit() != it[1].is_ascii_digit());
    is_random(segment)
        && (segment.bytes().all(is_hex)
            || segment.len() >= 16 && segment.bytes().all(is_word) && turns.count() >= 4)
}

/// Relative links that are wrong lead deeper and deeper: `/a/b/a/b/a/b`.
fn repeats(segments: &[&str]) -> bool {
    let run = |length: usize| {
        let runs = segments.windows(length * 3);
        let is_thrice = |run: &[&str]| {
            run[..length] == run[length..2 * length] && run[..length] == run[2 * length..]
        };
        runs.into_iter().any(is_thrice)
    };
    (1..=3).any(run)
}

/// Whether the path names a day or a month that is far ahead: `/2031/05/` or `/events/2031-05-07`.
fn is_far_ahead(address: &Address, now: Timestamp) -> bool {
    let mut numbers = Vec::new();
    for part in address.path().split(['/', '-', '_', '.']) {
        let is_number = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        numbers.push(if is_number { Digits::of(part) } else { None });
    }
    numbers.windows(2).any(|pair| {
        let [Some(year), Some(month)] = pair else { return false };
        let is_month = year.count == 4 && month.count <= 2 && (1..=12).contains(&month.value);
        let is_year = (1900..2500).contains(&year.value);
        is_month && is_year && days_until(year.value, month.value, now) > AHEAD_DAYS
    })
}

struct Digits {
    count: usize,
    value: i64,
}

impl Digits {
    fn of(text: &str) -> Option<Self> {
        (text.len() <= 4).then_some(())?;
        Some(Self { count: text.len(), value: text.parse().ok()? })
    }
}

/// Days until a month begins; a month is taken to be a twelfth of a year.
fn days_until(year: i64, month: i64, now: Timestamp) -> i64 {
    let then = (year - 1970) * 365_2425 / 10_000 + (month - 1) * 365 / 12;
    then - i64::try_from(now.as_secs() / 86_400).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 22 June 2026.
    const NOW: Timestamp = Timestamp::from_secs(1_782_086_400);

    fn counted(counters: &mut TrapCounters, text: &str) -> Result<(), Reason> {
        counters.count(&Address::new(text).unwrap(), NOW)
    }

    fn first_refused(form: impl Fn(usize) -> String) -> Option<usize> {
        let mut counters = TrapCounters::new(TrapRules::default());
        (0..20_000).find(|number| counted(&mut counters, &form(*number)).is_err())
    }

    #[test]
    fn the_bounds_are_those_of_the_rules() {
        assert_eq!(first_refused(|it| format!("/events/{}/{}/", it / 12, it % 12)), Some(1000));
        assert_eq!(first_refused(|it| format!("/shop?color={it}&size=m")), Some(200));
        assert_eq!(first_refused(|it| format!("/blog/page/{it}/")), Some(200));
        assert_eq!(first_refused(|it| format!("/list?start={it}0")), Some(200));
        assert_eq!(first_refused(|it| format!("/doku.php?id=w{it}")), Some(5000));
        assert_eq!(first_refused(|it| format!("/?p={it}")), Some(5000));
        assert_eq!(first_refused(|it| format!("/?id={it}&sort=x")), Some(200));
        let word = |number: usize| number.to_string().replace(|_: char| true, "x");
        let letters = |number: usize| {
            let letter = |digit: u8| char::from(b'a' + digit - b'0');
            number.to_string().bytes().map(letter).collect::<String>() + &word(number)
        };
        assert_eq!(first_refused(|it| format!("/wiki/{}", letters(it))), Some(5000));
    }

    #[test]
    fn folders_with_random_names_are_one_form() {
        let hex = |it: usize| format!("a{:023x}{it:08x}", it.wrapping_mul(0x9e37_79b9));
        assert_eq!(first_refused(|it| format!("/in4/{}/home", hex(it))), Some(200));
        let key = |it: usize| format!("k9Qz{it:04}x7Lm2Pw4");
        assert_eq!(first_refused(|it| format!("/s/{}/{}/", key(it), it % 7)), Some(200));
        assert_eq!(first_refused(|it| format!("/repo/commit/{}", hex(it))), Some(1000));
        // Those below one such folder are as many as in any other: the name of a build.
        let word = |it: usize| {
            let letter = |digit: u8| char::from(b'a' + digit - b'0');
            it.to_string().bytes().map(letter).collect::<String>()
        };
        let build = "/static/9f8a7c6b5d4e3f2a1b0c";
        assert_eq!(first_refused(|it| format!("{build}/{}.js", word(it))), Some(5000));
    }

    #[test]
    fn titles_versions_and_files_are_no_random_names() {
        for random in [
            "d41d8cd98f00b204e9800998ecf8427e",
            "3f2504e0-4f89-11d3-9a0c-0305e82c3301",
            "9f8a7c6b5d4e",
            "k9Qz0001x7Lm2Pw4",
        ] {
            assert!(is_random_name(random), "{random}");
        }
        for named in [
            "top-10-things-to-do-in-2024",
            "2024-05-12",
            "iphone-15-pro-max-256gb-2024",
            "app-3f2a9c1b77aa.js",
            "20240512T101112Z",
            "v1.2.3-rc4",
            "documentation",
            "report2024final",
        ] {
            assert!(!is_random_name(named), "{named}");
        }
    }

    #[test]
    fn filters_that_combine_are_one_path() {
        let filter = |it: usize| {
            let names = ["color", "size", "brand", "price", "year", "sort", "stock"];
            let chosen = names.iter().enumerate().filter(|(bit, _)| it & (1 << bit) != 0);
            let chosen: Vec<String> =
                chosen.map(|(_, name)| format!("{name}={}", it / 128)).collect();
            format!("/shop?{}", chosen.join("&"))
        };
        assert_eq!(first_refused(filter), Some(200));
    }

    #[test]
    fn links_that_lead_deeper_and_deeper_end() {
        let mut counters = TrapCounters::default();
        assert_eq!(counted(&mut counters, "/a/b/a/b"), Ok(()));
        assert_eq!(counted(&mut counters, "/a/b/a/b/a/b"), Err(Reason::Trap));
        assert_eq!(counted(&mut counters, "/x/x/x"), Err(Reason::Trap));
        let deep: String = (b'a'..=b'z').flat_map(|letter| ['/', char::from(letter)]).collect();
        assert_eq!(counted(&mut counters, &deep), Err(Reason::Trap));
    }

    #[test]
    fn days_that_are_far_ahead_are_a_calendars() {
        let mut counters = TrapCounters::new(TrapRules::default());
        for ahead in ["/2026/10/", "/events/2031-05-07", "/2027/1/", "/a/2499/12/x"] {
            assert_eq!(counted(&mut counters, ahead), Err(Reason::Calendar), "{ahead}");
        }
        for not_ahead in ["/2026/07/", "/1999/12/31/party", "/rfc/9110/12", "/2027-trends", "/9999"]
        {
            assert_eq!(counted(&mut counters, not_ahead), Ok(()), "{not_ahead}");
        }
    }
}
