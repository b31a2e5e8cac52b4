//! Which programs a script of the shell starts, as far as its words tell.

/// Words before a program, which is the next one.
const BEFORE: &str = "! do elif else env exec if nice nohup setsid then time until while";

/// What the shell does itself, and words that no program follows.
const OWN: &str = ". : [ alias break case cd command continue done echo esac eval exit export fi for in kill local \
    printf pwd read return set shift source test times trap true false type ulimit umask unset wait";

/// The text of a literal: the usual escapes, and what `format!` fills in is no program.
pub(super) fn unescaped(literal: &str) -> String {
    let mut text = String::new();
    let mut rest = literal.chars();
    while let Some(c) = rest.next() {
        if c != '\\' {
            text.push(c);
            continue;
        }
        match rest.next() {
            Some('n') => text.push('\n'),
            // A literal goes on in the next line.
            Some('\n') | None => {}
            Some(other) => text.push(other),
        }
    }
    text
}

/// The programs that a script starts.
pub(super) fn programs(script: &str) -> Vec<String> {
    // A single word may be anything, and this is Python.
    if !script.trim().contains(char::is_whitespace) || script.starts_with("import ") {
        return Vec::new();
    }
    let bare = without_quoted(script);
    let commands = bare.split(['\n', ';', '&', '|', '(', ')', '`']);
    commands.filter_map(program_of).map(str::to_owned).collect()
}

/// What is quoted is an argument.
fn without_quoted(script: &str) -> String {
    let mut bare = String::new();
    let mut quote = None;
    for c in script.chars() {
        match quote {
            Some(end) if c == end => quote = None,
            Some(_) => {}
            None if c == '\'' || c == '"' => {
                quote = Some(c);
                // It is a word, and no program.
                bare.push('Q');
            }
            None => bare.push(c),
        }
    }
    bare
}

/// The program of one command.
fn program_of(command: &str) -> Option<&str> {
    let is_among = |list: &str, word: &str| list.split_whitespace().any(|it| it == word);
    let is_set = |word: &str| word.contains('=') || word.starts_with('-') || word == "{";
    let mut words = command.split_whitespace();
    let program = words.find(|word| !is_set(word) && !is_among(BEFORE, word))?;
    let mut letters = program.chars();
    let is_name = letters.next()?.is_ascii_lowercase()
        && letters.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "._+-".contains(c));
    (is_name && !is_among(OWN, program)).then_some(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_word_of_each_command_is_a_program() {
        assert_eq!(programs("ip link set lo up && sysctl -qw 'a=1 b'"), ["ip", "sysctl"]);
        assert_eq!(programs("A=1 frob x | wc -l >y; cd z"), ["frob", "wc"]);
        assert_eq!(programs("if grep -q a b; then exec setpriv --x; fi"), ["grep", "setpriv"]);
        assert_eq!(programs("for i in a b; do { touch $i; } ; done"), ["touch"]);
        assert_eq!(programs("x=$(readlink y) \"$0\" serve"), ["readlink"]);
        assert_eq!(programs("$0 serve; {program} --now; /bin/ls"), [""; 0]);
    }

    #[test]
    fn a_literal_is_read_as_rust_reads_it() {
        assert_eq!(unescaped(r#"echo \"a\"\nls"#), "echo \"a\"\nls");
        assert_eq!(unescaped("a \\\n  b"), "a   b");
    }
}
