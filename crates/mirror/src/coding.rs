//! Content codings: packing and unpacking of whole bodies, within bounds.

use std::io::{Read, Write};

use http::HeaderMap;
use http::header::CONTENT_ENCODING;

/// A content coding (RFC 9110, 8.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Coding {
    /// None.
    Identity,
    /// gzip (RFC 1952).
    Gzip,
    /// Brotli (RFC 7932).
    Brotli,
    /// Zstandard (RFC 8878).
    Zstd,
}

/// Why a body could not be unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodingError {
    /// It is not what its coding says.
    #[error("the body is not in its coding")]
    Broken,
    /// It would be longer than allowed.
    #[error("the body is too long once it is unpacked")]
    TooLong,
}

impl Coding {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Identity, Self::Gzip, Self::Brotli, Self::Zstd];

    /// As fields name it.
    pub const fn token(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Gzip => "gzip",
            Self::Brotli => "br",
            Self::Zstd => "zstd",
        }
    }

    /// The coding of that name in any case.
    pub fn of_token(token: &[u8]) -> Option<Self> {
        if token.eq_ignore_ascii_case(b"x-gzip") {
            return Some(Self::Gzip);
        }
        Self::ALL.into_iter().find(|it| token.eq_ignore_ascii_case(it.token().as_bytes()))
    }

    /// The one coding of an answer; `None` if it has several, or one that is unknown.
    pub fn of_answer(headers: &HeaderMap) -> Option<Self> {
        let lines = headers.get_all(CONTENT_ENCODING).iter();
        let codings = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
        let mut codings = codings.map(<[u8]>::trim_ascii).filter(|it| !it.is_empty());
        match (codings.next(), codings.next()) {
            (None, _) => Some(Self::Identity),
            (Some(only), None) => Self::of_token(only),
            _ => None,
        }
    }
}

/// Undoes a coding.
///
/// # Errors
///
/// If the body is broken, or longer than `most` bytes.
pub fn unpack(coding: Coding, body: &[u8], most: u64) -> Result<Vec<u8>, CodingError> {
    match coding {
        Coding::Identity if body.len() as u64 > most => Err(CodingError::TooLong),
        Coding::Identity => Ok(body.to_vec()),
        Coding::Gzip => read(flate2::read::MultiGzDecoder::new(body), most),
        Coding::Brotli => read(brotli::Decompressor::new(body, BUFFER), most),
        Coding::Zstd => {
            let mut body = body;
            let decoder = ruzstd::decoding::StreamingDecoder::new(&mut body);
            read(decoder.map_err(|_| CodingError::Broken)?, most)
        }
    }
}

const BUFFER: usize = 16 << 10;

fn read(from: impl Read, most: u64) -> Result<Vec<u8>, CodingError> {
    let mut body = Vec::new();
    from.take(most.saturating_add(1)).read_to_end(&mut body).map_err(|_| CodingError::Broken)?;
    if body.len() as u64 > most { Err(CodingError::TooLong) } else { Ok(body) }
}

/// How much effort packing is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// Once, for what is kept and sent many times.
    Store,
    /// For one answer, while a client waits.
    Answer,
}

/// Packs a body; `None` if writing to memory fails, which it does not.
pub fn pack(coding: Coding, body: &[u8], effort: Effort) -> Option<Vec<u8>> {
    match coding {
        Coding::Identity => Some(body.to_vec()),
        Coding::Gzip => {
            let level = if effort == Effort::Store { 6 } else { 3 };
            let level = flate2::Compression::new(level);
            let mut packer = flate2::write::GzEncoder::new(Vec::new(), level);
            packer.write_all(body).ok()?;
            packer.finish().ok()
        }
        Coding::Brotli => {
            let quality = if effort == Effort::Store { 4 } else { 2 };
            let mut packer = brotli::CompressorWriter::new(Vec::new(), BUFFER, quality, 22);
            packer.write_all(body).ok()?;
            // It ends the stream.
            Some(packer.into_inner())
        }
        Coding::Zstd => {
            let level = ruzstd::encoding::CompressionLevel::Fastest;
            Some(ruzstd::encoding::compress_to_vec(body, level))
        }
    }
}

/// Whether bodies of a media type become smaller by packing.
pub fn is_worth_packing(media: &str) -> bool {
    const TYPES: [&str; 14] = [
        "application/javascript",
        "application/x-javascript",
        "application/ecmascript",
        "application/json",
        "application/ld+json",
        "application/manifest+json",
        "application/xml",
        "application/wasm",
        "application/rtf",
        "application/x-ndjson",
        "application/vnd.ms-fontobject",
        "font/ttf",
        "font/otf",
        "image/x-icon",
    ];
    media.starts_with("text/")
        || media.ends_with("+xml")
        || media.ends_with("+json")
        || TYPES.contains(&media)
        || matches!(media, "image/bmp" | "image/vnd.microsoft.icon")
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use proptest::prelude::*;

    #[test]
    fn what_is_packed_is_unpacked_within_its_bound() {
        let text = b"to be or not to be ".repeat(500);
        for coding in Coding::ALL {
            for effort in [Effort::Store, Effort::Answer] {
                let packed = pack(coding, &text, effort).unwrap();
                assert_eq!(unpack(coding, &packed, text.len() as u64).unwrap(), text);
                let most = text.len() as u64 - 1;
                assert_eq!(unpack(coding, &packed, most), Err(CodingError::TooLong), "{coding:?}");
                assert!(coding == Coding::Identity || packed.len() < text.len() / 10);
            }
        }
    }

    #[test]
    fn a_bomb_is_not_unpacked_whole() {
        let zeros = vec![0; 64 << 20];
        for coding in [Coding::Gzip, Coding::Brotli, Coding::Zstd] {
            let bomb = pack(coding, &zeros, Effort::Answer).unwrap();
            assert!(bomb.len() < 1 << 20, "{coding:?}");
            assert_eq!(unpack(coding, &bomb, 1 << 20), Err(CodingError::TooLong));
        }
    }

    #[test]
    fn one_known_coding_is_one() {
        let of = |lines: &[&str]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(CONTENT_ENCODING, HeaderValue::from_str(line).unwrap());
            }
            Coding::of_answer(&headers)
        };
        assert_eq!(of(&[]), Some(Coding::Identity));
        assert_eq!(of(&["GZip"]), Some(Coding::Gzip));
        assert_eq!(of(&["x-gzip, "]), Some(Coding::Gzip));
        assert_eq!(of(&["gzip, br"]), None);
        assert_eq!(of(&["gzip", "gzip"]), None);
        assert_eq!(of(&["deflate"]), None);
    }

    proptest! {
        #[test]
        fn garbage_is_broken_or_short(body in proptest::collection::vec(any::<u8>(), 0..200)) {
            for coding in Coding::ALL {
                if let Ok(text) = unpack(coding, &body, 1000) {
                    prop_assert!(text.len() <= 1000);
                }
            }
        }
    }
}
