//! As much of HTTP/1.1 as client and origin need, byte by byte: nothing in it is polite.

use tokio::io::{AsyncRead, AsyncReadExt};

/// Bytes read ahead of what was asked for, and the lines of the trailers that were read last.
#[derive(Debug, Default)]
pub(crate) struct Ahead(Vec<u8>, pub(crate) Vec<String>);

impl Ahead {
    async fn more<R: AsyncRead + Unpin>(&mut self, reader: &mut R) -> bool {
        matches!(reader.read_buf(&mut self.0).await, Ok(count) if count > 0)
    }

    /// Up to and with `end`; nothing if the stream ends before.
    pub(crate) async fn until<R: AsyncRead + Unpin>(
        &mut self,
        reader: &mut R,
        end: &[u8],
    ) -> Option<Vec<u8>> {
        loop {
            let found = self.0.windows(end.len()).position(|window| window == end);
            if let Some(at) = found {
                return Some(self.0.drain(..at + end.len()).collect());
            }
            if !self.more(reader).await {
                return None;
            }
        }
    }

    /// So many bytes, or fewer if the stream ends before.
    pub(crate) async fn exactly<R: AsyncRead + Unpin>(
        &mut self,
        reader: &mut R,
        count: usize,
    ) -> Vec<u8> {
        while self.0.len() < count && self.more(reader).await {}
        let count = count.min(self.0.len());
        self.0.drain(..count).collect()
    }

    /// Whatever comes, to the end of the stream.
    pub(crate) async fn rest<R: AsyncRead + Unpin>(&mut self, reader: &mut R) -> Vec<u8> {
        while self.more(reader).await {}
        std::mem::take(&mut self.0)
    }

    /// What is there, at least one byte; nothing at the end of the stream.
    pub(crate) async fn some<R: AsyncRead + Unpin>(&mut self, reader: &mut R) -> Vec<u8> {
        if self.0.is_empty() {
            self.more(reader).await;
        }
        std::mem::take(&mut self.0)
    }

    /// A chunked body, and whether it came to its proper end.
    pub(crate) async fn chunked<R: AsyncRead + Unpin>(
        &mut self,
        reader: &mut R,
    ) -> (Vec<u8>, bool) {
        let mut body = Vec::new();
        loop {
            let Some(line) = self.until(reader, b"\r\n").await else { return (body, false) };
            let line = String::from_utf8_lossy(&line);
            let size = line.trim().split(';').next().unwrap_or_default();
            let Ok(size) = usize::from_str_radix(size, 16) else { return (body, false) };
            if size == 0 {
                return (body, self.trailers(reader).await);
            }
            let part = self.exactly(reader, size).await;
            let whole = part.len() == size;
            body.extend(part);
            if !whole || self.until(reader, b"\r\n").await.is_none() {
                return (body, false);
            }
        }
    }

    /// Trailers, up to and with the empty line. False if that does not come.
    async fn trailers<R: AsyncRead + Unpin>(&mut self, reader: &mut R) -> bool {
        self.1.clear();
        loop {
            let Some(line) = self.until(reader, b"\r\n").await else { return false };
            if line == b"\r\n" {
                return true;
            }
            self.1.push(String::from_utf8_lossy(&line).trim().to_owned());
        }
    }

    /// A body framed as these fields say, and whether it came to its proper end. `to_end`: without
    /// a word about its length, it goes on to the end of the stream.
    pub(crate) async fn body<R: AsyncRead + Unpin>(
        &mut self,
        reader: &mut R,
        fields: &Fields,
        to_end: bool,
    ) -> (Vec<u8>, bool) {
        if fields.get("transfer-encoding").is_some() {
            return self.chunked(reader).await;
        }
        match fields.get("content-length").map(str::parse::<usize>) {
            Some(Ok(length)) => {
                let body = self.exactly(reader, length).await;
                let whole = body.len() == length;
                (body, whole)
            }
            Some(Err(_)) => (Vec::new(), false),
            None if to_end => (self.rest(reader).await, true),
            None => (Vec::new(), true),
        }
    }
}

/// Header fields in their order, names in lower case.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fields(pub(crate) Vec<(String, String)>);

impl Fields {
    /// First line and fields of a head.
    pub(crate) fn of_head(head: &[u8]) -> (String, Self) {
        let text = String::from_utf8_lossy(head);
        let mut lines = text.split("\r\n");
        let first = lines.next().unwrap_or_default().to_owned();
        let fields = lines.filter_map(|line| line.split_once(':'));
        let fields = fields
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        (first, Self(fields))
    }

    /// The value of a field that must not be there twice.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let all = self.all(name);
        assert!(all.len() < 2, "{name} is there {} times: {all:?}", all.len());
        all.first().copied()
    }

    /// Every value of a field.
    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        self.0.iter().filter(|(own, _)| own == name).map(|(_, value)| value.as_str()).collect()
    }
}
