//! Errors as users read them: what failed, why, and what to do next.

use std::error::Error;
use std::fmt;

/// An error, taken apart: the same words on the command line and in Python.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explained {
    /// What failed.
    pub what: String,
    /// Why, from the outside in.
    pub causes: Vec<String>,
    /// What to do next, if that is known.
    pub hint: Option<String>,
}

impl Explained {
    /// Takes an error apart. Advice behind the last `;` of a message is the hint. (One within back quotes belongs to
    /// what is quoted.)
    pub fn of(error: &dyn Error) -> Self {
        let mut said = chain(error);
        let hint = said.iter_mut().find_map(advice);
        let what = said.remove(0);
        Self { what, causes: said, hint }
    }

    /// What failed and why, in one line.
    pub fn one_line(error: &dyn Error) -> String {
        chain(error).join(": ")
    }

    /// What failed, in the caller's words, because of this.
    pub fn because(what: impl Into<String>, cause: &dyn Error) -> Self {
        Self { causes: chain(cause), ..Self::new(what) }
    }

    /// What failed, and no cause is known.
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), causes: Vec::new(), hint: None }
    }

    /// Adds what to do next; the present hint stays if there is no other.
    #[must_use]
    pub fn maybe_hint(self, hint: Option<&str>) -> Self {
        Self { hint: hint.map(str::to_owned).or(self.hint), ..self }
    }
}

impl fmt::Display for Explained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        for cause in &self.causes {
            write!(f, "\n  because: {cause}")?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "\nhint: {hint}")?;
        }
        Ok(())
    }
}

/// Splits the advice off a message of the form `what is wrong; what to try`. (Not off messages that quote a file with
/// its line breaks.)
fn advice(message: &mut String) -> Option<String> {
    let is_quoted = |at: usize| !message[..at].matches('`').count().is_multiple_of(2);
    let mut ends = message.rmatch_indices("; ").map(|(at, _)| at);
    let at = ends.find(|at| !is_quoted(*at)).filter(|_| !message.contains('\n'))?;
    let advice = message[at + 2..].to_owned();
    message.truncate(at);
    Some(advice)
}

/// The error and its causes, without repetition: many errors quote their cause in their own message. Has at least one
/// element.
fn chain(error: &dyn Error) -> Vec<String> {
    let mut said: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let text = error.to_string();
        next = error.source();
        let quoted = format!(": {text}");
        match said.last_mut() {
            Some(last) if last.ends_with(&quoted) || last.contains(&format!("{quoted}; ")) => {
                *last = last.replacen(&quoted, "", 1);
                said.push(text);
            }
            // Quoted in the middle of a sentence: leave it there.
            Some(last) if last.contains(&text) => {}
            _ => said.push(text),
        }
    }
    said
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[derive(Debug)]
    struct Outer(&'static str, io::Error);

    impl fmt::Display for Outer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(&self.0.replace("{}", &self.1.to_string()))
        }
    }

    impl Error for Outer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.1)
        }
    }

    fn rendered(template: &'static str) -> String {
        Explained::of(&Outer(template, io::Error::other("the disk is on fire"))).to_string()
    }

    #[test]
    fn in_one_line_causes_follow_after_colons() {
        let error = Outer("cannot read a.log", io::Error::other("the disk is on fire"));
        assert_eq!(Explained::one_line(&error), "cannot read a.log: the disk is on fire");
        let error = Outer("cannot read a.log: {}", io::Error::other("the disk is on fire"));
        assert_eq!(Explained::one_line(&error), "cannot read a.log: the disk is on fire");
    }

    #[test]
    fn a_cause_is_told_once_wherever_the_message_quotes_it() {
        let apart = "cannot read a.log\n  because: the disk is on fire";
        assert_eq!(rendered("cannot read a.log"), apart);
        assert_eq!(rendered("cannot read a.log: {}"), apart);
        assert_eq!(
            rendered("cannot read a.log: {}; fetch water"),
            format!("{apart}\nhint: fetch water")
        );
        assert_eq!(
            rendered("line 3 is `a; b`: {}; fetch `w; x`"),
            "line 3 is `a; b`\n  because: the disk is on fire\nhint: fetch `w; x`"
        );
        assert_eq!(rendered("line 3 is `a; b` ({})"), "line 3 is `a; b` (the disk is on fire)");
        assert_eq!(rendered("cannot ({}) read a.log"), "cannot (the disk is on fire) read a.log");
    }
}
