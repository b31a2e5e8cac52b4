//! The prepared bytes.

use std::collections::HashMap;
use std::io;
use std::path::Path;

/// What one address answers.
pub(crate) enum Answers {
    /// The same to everybody.
    One(Vec<u8>),
    /// By path, without its slash.
    ByPath(HashMap<Vec<u8>, Vec<u8>>),
}

const NOT_FOUND: &[u8] = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";

impl Answers {
    /// A file is one answer, a folder as many as it has files.
    pub(crate) fn read(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref();
        if !path.is_dir() {
            return Ok(Self::One(std::fs::read(path)?));
        }
        let mut answers = HashMap::new();
        for file in path.read_dir()? {
            let file = file?;
            let name = file.file_name().into_encoded_bytes();
            answers.insert(name, std::fs::read(file.path())?);
        }
        Ok(Self::ByPath(answers))
    }

    /// The answer to that request's head.
    pub(crate) fn to(&self, head: &[u8]) -> &[u8] {
        match self {
            Self::One(answer) => answer,
            Self::ByPath(answers) => {
                let target = head.split(|&byte| byte == b' ').nth(1).unwrap_or_default();
                let path = target.split(|&byte| byte == b'?').next().unwrap_or_default();
                answers.get(path.get(1..).unwrap_or_default()).map_or(NOT_FOUND, Vec::as_slice)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_chooses_and_the_query_does_not() {
        let answers = Answers::ByPath(HashMap::from([(b"a".to_vec(), b"answer a".to_vec())]));
        assert_eq!(answers.to(b"GET /a HTTP/1.1\r\n\r\n"), b"answer a");
        assert_eq!(answers.to(b"GET /a?b HTTP/1.1\r\n\r\n"), b"answer a");
        assert_eq!(answers.to(b"GET /b HTTP/1.1\r\n\r\n"), NOT_FOUND);
        assert_eq!(answers.to(b"GET"), NOT_FOUND);
    }
}
