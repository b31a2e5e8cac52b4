//! Words and lines of the POSIX shell.

/// A word as the shell reads it back.
pub fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    // The login shell of another machine may be zsh, to which `=name` is the path of a program.
    if !word.is_empty() && !word.starts_with('=') && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// A line of such words.
pub fn join<T: AsRef<str>>(words: impl IntoIterator<Item = T>) -> String {
    let words: Vec<_> = words.into_iter().map(|word| quote(word.as_ref())).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn the_shell_reads_back_what_was_quoted() {
        let words =
            ["", "plain", "two words", "it's", "$HOME `date` \\ \"x\"", "a\nb", "*", "~", "é"];
        let line = format!("printf '%s\\0' {}", join(words));
        let output = Command::new("/bin/sh").args(["-c", &line]).output().unwrap();
        let read = String::from_utf8(output.stdout).unwrap();
        assert_eq!(read.split_terminator('\0').collect::<Vec<_>>(), words);
    }

    #[test]
    fn words_that_mean_themselves_to_any_shell_are_not_quoted() {
        assert_eq!(
            join(["env", "A=b", "=ls", "/a-b_c.d", "it's"]),
            r"env A=b '=ls' /a-b_c.d 'it'\''s'"
        );
    }
}
