//! Old spellings of options: accepted with a note until the release after 0.1.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// An option with a new spelling.
struct Renamed {
    /// Its command, such as `tcp lab`.
    command: &'static str,
    old: &'static str,
    /// An option, or the name of a positional argument.
    new: &'static str,
}

const fn renamed(command: &'static str, old: &'static str, new: &'static str) -> Renamed {
    Renamed { command, old, new }
}

const RENAMED: &[Renamed] = &[
    renamed("calibrate states", "-c", "--cycles"),
    renamed("calibrate storage", "--patience", "--timeout"),
    renamed("calibrate sync align", "-c", "--channel"),
    renamed("calibrate sync align", "-r", "--rate"),
    renamed("compare", "--out", "--output"),
    renamed("corun", "--out", "--output"),
    renamed("demo", "--out", "--output"),
    renamed("doctor", "--patience", "--timeout"),
    renamed("doctor", "--site", "SITE"),
    renamed("fleet", "--sla", "--answer-within"),
    renamed("load", "-c", "--connections"),
    renamed("load", "-r", "--rate"),
    renamed("load", "--csv", "--rows"),
    renamed("man", "--out", "--output"),
    renamed("mining", "--report", "--html"),
    renamed("origin", "--site", "--files"),
    renamed("published", "--csv", "--table"),
    renamed("replay", "--csv", "--rows"),
    renamed("reproduce", "--report", "--html"),
    renamed("schedule", "--for", "--goal"),
    renamed("sleep", "--patience", "--timeout"),
    renamed("tcp fetch", "-c", "--connections"),
    renamed("tcp fetch", "-m", "-s"),
    renamed("tcp fetch", "--csv", "--rows"),
    renamed("tcp helps", "-c", "--connections"),
    renamed("tcp lab", "-c", "--connections"),
    renamed("wake", "--patience", "--timeout"),
];

impl Renamed {
    /// Whether a command line, which begins with the program, is that of its command.
    fn is_of(&self, line: &[OsString]) -> bool {
        let mut words = line.iter().skip(1);
        self.command.split(' ').all(|wanted| words.next().is_some_and(|word| word == wanted))
    }

    /// What replaces a word of the command line, if that is this option: one word, or none before the value of a
    /// positional argument.
    fn replace(&self, word: &OsStr) -> Option<Vec<OsString>> {
        let rest = word.as_bytes().strip_prefix(self.old.as_bytes())?;
        let value = match rest {
            [] => None,
            [b'=', value @ ..] => Some(value),
            // A short option may be followed directly by its value: `-c10`.
            value if !self.old.starts_with("--") => Some(value),
            _ => return None,
        };
        let option = self.new.starts_with('-').then_some(self.new.as_bytes());
        let parts: Vec<&[u8]> = option.into_iter().chain(value).collect();
        Some(if parts.is_empty() { vec![] } else { vec![OsString::from_vec(parts.join(&b'='))] })
    }

    fn note(&self) -> String {
        let Self { command, old, new } = self;
        let what = if new.starts_with('-') { "" } else { "the argument " };
        format!(
            "note: `{old}` of `{command}` is now {what}`{new}`; the next release rejects `{old}`"
        )
    }
}

/// A command line in today's spelling. Passes each old spelling to `note`, in words.
pub(crate) fn renewed(
    line: impl IntoIterator<Item = OsString>,
    mut note: impl FnMut(&str),
) -> Vec<OsString> {
    let mut line: Vec<OsString> = line.into_iter().collect();
    let renamed: Vec<&Renamed> = RENAMED.iter().filter(|it| it.is_of(&line)).collect();
    // What comes after `--` belongs to another program.
    let end = line.iter().position(|word| word == "--").unwrap_or(line.len());
    let others = line.split_off(end);
    let ours = line.into_iter().flat_map(|word| {
        match renamed.iter().find_map(|it| Some((it, it.replace(&word)?))) {
            Some((it, new)) => {
                note(&it.note());
                new
            }
            None => vec![word],
        }
    });
    ours.chain(others).collect()
}

#[cfg(test)]
mod tests {
    use clap::Command;

    use super::*;
    use crate::help;

    fn new_line(line: &str) -> String {
        let words = renewed(line.split(' ').map(OsString::from), |_| {});
        words.join(OsStr::new(" ")).into_string().unwrap()
    }

    #[test]
    fn old_spellings_are_replaced_and_nothing_else() {
        for (old, new) in [
            ("nightwatt load URL -c 10 -r5", "nightwatt load URL --connections 10 --rate=5"),
            ("nightwatt load URL --csv=a.csv", "nightwatt load URL --rows=a.csv"),
            ("nightwatt tcp fetch HOST -m 7 -n 9", "nightwatt tcp fetch HOST -s 7 -n 9"),
            ("nightwatt fleet size LOG --sla 1s", "nightwatt fleet size LOG --answer-within 1s"),
            ("nightwatt doctor -c FILE --site blog", "nightwatt doctor -c FILE blog"),
            ("nightwatt doctor --site=blog -c FILE", "nightwatt doctor blog -c FILE"),
            (
                "nightwatt sleep blog --wait --patience=5m",
                "nightwatt sleep blog --wait --timeout=5m",
            ),
            ("nightwatt wake --wait --patience 5m", "nightwatt wake --wait --timeout 5m"),
            ("nightwatt doctor --cycle 3 --patience 5m", "nightwatt doctor --cycle 3 --timeout 5m"),
            (
                "nightwatt calibrate storage --log L --writes W --patience 10s",
                "nightwatt calibrate storage --log L --writes W --timeout 10s",
            ),
            ("nightwatt corun --out D -- a --out b", "nightwatt corun --output D -- a --out b"),
        ] {
            assert_eq!(new_line(old), new);
        }
        for same in [
            "nightwatt compare PLAN --output D",
            "nightwatt status -c FILE",
            "nightwatt analyze LOG --csv DIR",
            "nightwatt analyze LOG --sla 3",
            "nightwatt tcp where -- compare --out",
        ] {
            assert_eq!(new_line(same), same);
        }
    }

    #[test]
    fn each_old_spelling_is_noted_by_its_name() {
        let mut notes = Vec::new();
        let line = ["nightwatt", "man", "--out", "DIR"].map(OsString::from);
        renewed(line, |note| notes.push(note.to_owned()));
        assert_eq!(notes.len(), 1);
        assert!(notes[0].contains("`--out`") && notes[0].contains("`--output`"), "{notes:?}");
    }

    #[test]
    fn new_spellings_exist_and_old_ones_do_not() {
        let program = help::command();
        let has = |command: &Command, name: &str| {
            command.get_arguments().any(|it| {
                it.get_long().is_some_and(|long| name == format!("--{long}"))
                    || it.get_short().is_some_and(|short| name == format!("-{short}"))
                    || it.is_positional() && it.get_id().as_str().to_uppercase() == name
            })
        };
        for it in RENAMED {
            let mut words = it.command.split(' ');
            let command =
                words.try_fold(&program, |command, word| command.find_subcommand(word)).unwrap();
            assert!(has(command, it.new), "{} {}", it.command, it.new);
            assert!(!has(command, it.old), "{} {}", it.command, it.old);
        }
    }
}
