//! Rules for every text.

use super::Finding;

pub(super) fn check(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let mut say = |rule, advice: &str| {
            let (path, advice) = (path.to_owned(), advice.to_owned());
            findings.push(Finding { path, line: number + 1, rule, weight: 1, advice });
        };
        if line.contains('\t') {
            say("tab", "write spaces (in a literal: `\\t`)");
        } else if line.ends_with(char::is_whitespace) {
            say("trailing space", "remove it");
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unseen_characters_are_found_where_they_are() {
        let found = check("a.md", "fine\nnot fine \n\tneither\n");
        let found: Vec<_> = found.iter().map(|finding| (finding.line, finding.rule)).collect();
        assert_eq!(found, [(2, "trailing space"), (3, "tab")]);
    }
}
