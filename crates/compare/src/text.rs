//! Figures and reasons in words.

/// Of a reason of many lines how it ended, and what was wrong: the last line that speaks of an error, else
/// the last of all.
pub fn in_a_line(why: &str) -> String {
    // What to try is of no use without what is wrong.
    let says = |line: &&str| !line.is_empty() && !line.starts_with("hint:");
    let mut lines = why.lines().map(str::trim).filter(says);
    let first = lines.next().unwrap_or_default();
    let rest: Vec<&str> = lines.collect();
    let speaks = |line: &&&str| {
        let line = line.to_lowercase();
        ["error", "fatal", "cannot", "failed"].iter().any(|word| line.contains(word))
            && !line.contains("more information")
    };
    let Some(last) = rest.iter().rev().find(speaks).or(rest.last()) else {
        return first.to_owned();
    };
    let ending = ENDINGS.iter().find_map(|ending| {
        let from = first.find(ending)? + ending.len();
        let until = first[from..].find(':').map_or(first.len(), |at| from + at);
        Some(&first[..until])
    });
    ending.map_or_else(|| (*last).to_owned(), |ending| format!("{ending}: {last}"))
}

/// What stands before what is known of a command's end.
const ENDINGS: [&str; 5] = [
    "exit status: ",
    "exit status ",
    "killed by signal ",
    "it took longer than ",
    "time limit of ",
];

/// `energy_per_operation` as people say it.
pub(crate) fn words(figure: &str) -> String {
    figure.replace('_', " ")
}

/// A share in per cent, without the digits that binary fractions add.
pub fn percent(share: f64) -> f64 {
    (share * 1e8).round() / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seven_per_cent_are_seven() {
        assert_eq!(percent(0.07).to_string(), "7");
        assert_eq!(percent(0.0125).to_string(), "1.25");
    }
}
