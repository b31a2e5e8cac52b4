//! Words that are spelled alike.

/// At most a third of the letters of a misspelling are wrong.
const MOST_WRONG_LETTERS: usize = 3;

/// Whether one word is probably a misspelling of the other. Two letters in the wrong order count as one.
pub fn is_alike(one: &str, other: &str) -> bool {
    let [of_one, of_other] = [one, other].map(|it| it.chars().count());
    let letters = of_one.max(of_other).max(MOST_WRONG_LETTERS);
    let is_alike = |wrong: usize| wrong * MOST_WRONG_LETTERS <= letters;
    // The difference of lengths is counted at once; it is enough to tell most names apart.
    is_alike(of_one.abs_diff(of_other)) && is_alike(strsim::damerau_levenshtein(one, other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_third_of_the_letters_may_be_wrong() {
        for (one, other) in [("wrok", "work"), ("main", "mian"), ("compres", "compress")] {
            assert!(is_alike(one, other), "{one} {other}");
        }
        for (one, other) in [("work", "walk_on"), ("main", "make"), ("", "work")] {
            assert!(!is_alike(one, other), "{one} {other}");
        }
    }
}
