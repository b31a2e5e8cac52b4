//! The file with the counts: lines of `key = count`, and comments.

/// A line of the file.
#[derive(Debug)]
pub(super) struct Count {
    pub(super) key: String,
    pub(super) most: usize,
    /// From 1.
    pub(super) line: usize,
}

#[derive(Debug)]
pub(super) struct Counts(Vec<Count>);

impl Counts {
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let mut counts: Vec<Count> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line_number = index + 1;
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let parsed = line.split_once('=').and_then(|(key, count)| {
                let most = count.trim().parse().ok()?;
                Some(Count { key: key.trim().to_owned(), most, line: line_number })
            });
            let Some(count) = parsed else {
                return Err(format!("{}:{line_number}: not `key = count`: {line}", super::COUNTS));
            };
            if counts.iter().any(|it| it.key == count.key) {
                return Err(format!("{}:{line_number}: `{}` again", super::COUNTS, count.key));
            }
            counts.push(count);
        }
        Ok(Self(counts))
    }

    /// 0 if there is no line.
    pub(super) fn of(&self, key: &str) -> usize {
        self.0.iter().find(|count| count.key == key).map_or(0, |count| count.most)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Count> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_counts_is_read() {
        let counts = Counts::read("# Why.\n\ncycles.gateway = 72\ntuples = 3\n").unwrap();
        assert_eq!(counts.of("cycles.gateway"), 72);
        assert_eq!(counts.of("cycles.savings"), 0);
        assert!(counts.iter().map(|it| it.line).eq([3, 4]));
    }

    #[test]
    fn what_is_no_count_is_an_error() {
        assert!(Counts::read("tuples = 3\ntuples: 3\n").unwrap_err().contains(":2: not"));
        assert!(Counts::read("tuples = -1\n").is_err());
        assert!(Counts::read("tuples = 1\ntuples = 2\n").unwrap_err().contains("again"));
    }
}
