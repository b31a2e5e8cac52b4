//! Compressed answers in `nightwatt status`.

use nightwatt_gateway::status::CompressionStatus;

use super::row;
use crate::figures::{bytes, count, counted};

/// Rows about what was compressed since the start, and what was not, if there is any of it.
pub(super) fn rows(text: &mut String, it: Option<&CompressionStatus>) {
    let Some(it) = it else { return };
    let answers = it.answers.iter().filter(|(_, n)| **n > 0);
    let answers: Vec<String> =
        answers.map(|(coding, n)| format!("{} {coding}", count(*n))).collect();
    if !answers.is_empty() {
        let all = counted(it.answers.values().sum(), "answer");
        let (before, after) = (bytes(it.bytes_before), bytes(it.bytes_after));
        row(text, "compressed", &format!("{all}: {}; {before} became {after}", answers.join(", ")));
    }
    if it.no_room > 0 {
        let refused = counted(it.no_room, "answer");
        row(text, "uncompressed", &format!("{refused}, since too many others were compressed"));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn shown(answers: [(&str, u64); 3], no_room: u64) -> String {
        let answers = answers.map(|(coding, n)| (coding.to_owned(), n));
        let it = CompressionStatus {
            answers: answers.into(),
            bytes: BTreeMap::new(),
            bytes_before: 12_000_000,
            bytes_after: 3_400_000,
            no_room,
        };
        let mut text = String::new();
        rows(&mut text, Some(&it));
        text
    }

    #[test]
    fn the_row_has_codings_that_were_used_and_what_they_save() {
        assert_eq!(
            shown([("zstd", 1200), ("br", 0), ("gzip", 3)], 0),
            "  compressed    1,203 answers: 3 gzip, 1,200 zstd; 12.0 MB became 3.4 MB\n"
        );
        assert_eq!(
            shown([("zstd", 0), ("br", 1), ("gzip", 0)], 2),
            "  compressed    1 answer: 1 br; 12.0 MB became 3.4 MB\n  \
             uncompressed  2 answers, since too many others were compressed\n"
        );
    }

    #[test]
    fn before_the_first_answer_and_without_compression_there_is_no_row() {
        assert_eq!(shown([("zstd", 0), ("br", 0), ("gzip", 0)], 0), "");
        let mut text = String::new();
        rows(&mut text, None);
        assert_eq!(text, "");
    }
}
