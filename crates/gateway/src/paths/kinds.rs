//! The media type of a file, by the end of its name.

/// Ends of names, and types.
const KINDS: [(&str, &str); 88] = [
    ("7z", "application/x-7z-compressed"),
    ("aac", "audio/aac"),
    ("apk", "application/vnd.android.package-archive"),
    ("apng", "image/apng"),
    ("atom", "application/atom+xml"),
    ("avif", "image/avif"),
    ("bin", "application/octet-stream"),
    ("bmp", "image/bmp"),
    ("cbz", "application/vnd.comicbook+zip"),
    ("css", "text/css; charset=utf-8"),
    ("csv", "text/csv; charset=utf-8"),
    ("deb", "application/vnd.debian.binary-package"),
    ("docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    ("eot", "application/vnd.ms-fontobject"),
    ("epub", "application/epub+zip"),
    ("flac", "audio/flac"),
    ("geojson", "application/geo+json"),
    ("gif", "image/gif"),
    ("gz", "application/gzip"),
    ("heic", "image/heic"),
    ("heif", "image/heif"),
    ("htm", "text/html; charset=utf-8"),
    ("html", "text/html; charset=utf-8"),
    ("ico", "image/x-icon"),
    ("ics", "text/calendar; charset=utf-8"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("js", "text/javascript; charset=utf-8"),
    ("json", "application/json"),
    ("jsonld", "application/ld+json"),
    ("jxl", "image/jxl"),
    ("log", "text/plain; charset=utf-8"),
    ("m3u8", "application/vnd.apple.mpegurl"),
    ("m4a", "audio/mp4"),
    ("m4s", "video/iso.segment"),
    ("m4v", "video/mp4"),
    ("map", "application/json"),
    ("md", "text/markdown; charset=utf-8"),
    ("mjs", "text/javascript; charset=utf-8"),
    ("mkv", "video/x-matroska"),
    ("mov", "video/quicktime"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("mpd", "application/dash+xml"),
    ("mpeg", "video/mpeg"),
    ("mpg", "video/mpeg"),
    ("odp", "application/vnd.oasis.opendocument.presentation"),
    ("ods", "application/vnd.oasis.opendocument.spreadsheet"),
    ("odt", "application/vnd.oasis.opendocument.text"),
    ("oga", "audio/ogg"),
    ("ogg", "audio/ogg"),
    ("ogv", "video/ogg"),
    ("opus", "audio/ogg"),
    ("otf", "font/otf"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    ("pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"),
    ("rar", "application/vnd.rar"),
    ("rss", "application/rss+xml"),
    ("rtf", "application/rtf"),
    ("svg", "image/svg+xml"),
    ("tar", "application/x-tar"),
    ("tgz", "application/gzip"),
    ("tif", "image/tiff"),
    ("tiff", "image/tiff"),
    ("toml", "application/toml"),
    ("torrent", "application/x-bittorrent"),
    ("ts", "video/mp2t"),
    ("ttf", "font/ttf"),
    ("txt", "text/plain; charset=utf-8"),
    ("vcf", "text/vcard; charset=utf-8"),
    ("vtt", "text/vtt"),
    ("wasm", "application/wasm"),
    ("wav", "audio/wav"),
    ("weba", "audio/webm"),
    ("webm", "video/webm"),
    ("webmanifest", "application/manifest+json"),
    ("webp", "image/webp"),
    ("woff", "font/woff"),
    ("woff2", "font/woff2"),
    ("xhtml", "application/xhtml+xml"),
    ("xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    ("xml", "application/xml"),
    ("xz", "application/x-xz"),
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
    ("zip", "application/zip"),
    ("zst", "application/zstd"),
];

/// The type of a file with this name.
pub(super) fn of(name: &str) -> &'static str {
    let end = name.rsplit_once('.').map(|(_, end)| end).unwrap_or_default();
    let known = KINDS.iter().find(|(known, _)| end.eq_ignore_ascii_case(known));
    known.map_or("application/octet-stream", |(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_is_that_of_the_end_of_the_name_in_any_case() {
        for (name, kind) in [
            ("clip.vtt", "text/vtt"),
            ("live/index.m3u8", "application/vnd.apple.mpegurl"),
            ("live/1.ts", "video/mp2t"),
            ("build.log", "text/plain; charset=utf-8"),
            ("compose.yaml", "application/yaml"),
            ("compose.YML", "application/yaml"),
            ("IMG_0001.HEIC", "image/heic"),
            ("old.bmp", "image/bmp"),
            ("a.jxl", "image/jxl"),
            ("a.tar.gz", "application/gzip"),
            ("app.js.map", "application/json"),
            ("html", "application/octet-stream"),
            ("a.b/c", "application/octet-stream"),
            ("a.", "application/octet-stream"),
        ] {
            assert_eq!(of(name), kind, "{name}");
        }
    }

    #[test]
    fn each_end_is_in_the_table_once_in_order_and_in_small_letters() {
        for pair in KINDS.windows(2) {
            assert!(pair[0].0 < pair[1].0, "{} before {}", pair[0].0, pair[1].0);
        }
        for (end, kind) in KINDS {
            assert_eq!(end, end.to_ascii_lowercase());
            assert!(http::HeaderValue::from_static(kind).to_str().is_ok_and(|it| it.contains('/')));
        }
    }
}
