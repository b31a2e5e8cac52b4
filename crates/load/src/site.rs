//! The files of a site, so that the log-backed origin can be crawled.
//!
//! A text with one line per file: path, bytes and the paths it leads to, separated by tabs. Pages get their links as
//! HTML, `robots.txt` and XML as sitemaps; a pattern fills what is missing to the size.

use std::collections::HashMap;
use std::fmt::Write;
use std::path::Path;

use bytes::Bytes;
use http::Uri;
use nightwatt_traffic::synthetic::SiteFile;

use crate::error::Error;
use crate::request::looks_like_page;

/// The files of a site, by path.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SiteFiles(HashMap<String, SiteFile>);

impl FromIterator<SiteFile> for SiteFiles {
    fn from_iter<T: IntoIterator<Item = SiteFile>>(files: T) -> Self {
        Self(files.into_iter().map(|file| (file.target.clone(), file)).collect())
    }
}

impl SiteFiles {
    /// Reads the form that [`Self::text`] writes.
    pub fn read(path: &Path) -> Result<Self, Error> {
        read_lines(path, "PATH, BYTES, LINK...", |line| {
            let mut fields = line.split('\t').map(str::to_owned);
            let target = fields.next().filter(|it| it.starts_with('/'))?;
            let bytes = fields.next()?.parse().ok()?;
            Some(SiteFile { target, bytes, links: fields.collect() })
        })
    }

    /// As text, in the order of paths.
    pub fn text(&self) -> String {
        let mut files: Vec<&SiteFile> = self.0.values().collect();
        files.sort_unstable_by(|a, b| a.target.cmp(&b.target));
        let mut text = String::new();
        for SiteFile { target, bytes, links } in files {
            // Writing to a String cannot fail.
            let _ = write!(text, "{target}\t{bytes}");
            for link in links {
                text.extend(["\t", link]);
            }
            text.push('\n');
        }
        text
    }

    fn find(&self, uri: &Uri) -> Option<&SiteFile> {
        self.0.get(uri.path_and_query()?.as_str())
    }

    /// Whether there is such a file.
    pub(crate) fn has(&self, uri: &Uri) -> bool {
        self.find(uri).is_some()
    }

    /// How the body of a file begins, and its size.
    pub(crate) fn body(&self, uri: &Uri, host: &str) -> Option<(Bytes, u64)> {
        let file = self.find(uri)?;
        let text = match media_type(&file.target) {
            "text/html" => page(file),
            "application/xml" => sitemap(file, host),
            "text/plain" => robots(file, host),
            _ => String::new(),
        };
        let size = file.bytes.max(text.len() as u64);
        Some((text.into(), size))
    }
}

/// Reads a text line by line. A line that `read` does not understand is an error that names it and its `form`.
pub(crate) fn read_lines<T, C: FromIterator<T>>(
    path: &Path,
    form: &str,
    read: impl Fn(&str) -> Option<T>,
) -> Result<C, Error> {
    let failed = |source| Error::Site { path: path.into(), source };
    let text = std::fs::read_to_string(path).map_err(failed)?;
    let lines = text.lines().enumerate().map(|(index, line)| {
        read(line).ok_or_else(|| {
            let number = index + 1;
            let what = format!("line {number} is not `{form}`, by tabs: `{line}`");
            failed(std::io::Error::other(what))
        })
    });
    lines.collect()
}

/// By the end of a path.
pub(crate) fn media_type(path: &str) -> &'static str {
    if looks_like_page(path) {
        return "text/html";
    }
    match path.rsplit_once('.').map_or("", |(_, extension)| extension) {
        "css" => "text/css",
        "jpg" | "jpeg" => "image/jpeg",
        "js" => "text/javascript",
        "json" => "application/json",
        "txt" => "text/plain",
        "xml" => "application/xml",
        _ => "application/octet-stream",
    }
}

fn page(file: &SiteFile) -> String {
    let mut html = format!("<!doctype html><title>{}</title>\n", file.target);
    for link in &file.links {
        // Writing to a String cannot fail.
        let _ = match media_type(link) {
            "text/css" => writeln!(html, "<link rel=\"stylesheet\" href=\"{link}\">"),
            "text/javascript" => writeln!(html, "<script src=\"{link}\"></script>"),
            "image/jpeg" => writeln!(html, "<img src=\"{link}\">"),
            _ => writeln!(html, "<a href=\"{link}\">{link}</a>"),
        };
    }
    html
}

fn sitemap(file: &SiteFile, host: &str) -> String {
    let urls = file.links.iter().map(|link| format!("<url><loc>http://{host}{link}</loc></url>\n"));
    let urls: String = urls.collect();
    let space = "http://www.sitemaps.org/schemas/sitemap/0.9";
    format!("<?xml version=\"1.0\"?>\n<urlset xmlns=\"{space}\">\n{urls}</urlset>\n")
}

fn robots(file: &SiteFile, host: &str) -> String {
    let sitemaps = file.links.iter().map(|link| format!("Sitemap: http://{host}{link}\n"));
    format!("User-agent: *\nDisallow:\n{}", sitemaps.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(target: &str, bytes: u64, links: &[&str]) -> SiteFile {
        let links = links.iter().map(|it| (*it).to_owned()).collect();
        SiteFile { target: target.to_owned(), bytes, links }
    }

    #[test]
    fn a_site_is_read_as_it_was_written_and_a_bad_line_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("site.tsv");
        let files: SiteFiles =
            [file("/", 900, &["/a", "/b.css"]), file("/a", 0, &[])].into_iter().collect();
        std::fs::write(&path, files.text()).unwrap();
        assert_eq!(SiteFiles::read(&path).unwrap(), files);
        std::fs::write(&path, "/\t1\n/a\tmany\n").unwrap();
        let error = SiteFiles::read(&path).unwrap_err().to_string();
        assert!(error.contains("line 2") && error.contains("many"), "{error}");
    }

    #[test]
    fn bodies_begin_with_links_and_have_the_size_of_the_file() {
        let files: SiteFiles = [
            file("/", 900, &["/a", "/b.css", "/c.js", "/d.jpg"]),
            file("/robots.txt", 10, &["/sitemap.xml"]),
            file("/sitemap.xml", 0, &["/", "/a"]),
            file("/d.jpg", 7, &[]),
        ]
        .into_iter()
        .collect();
        let body = |target: &'static str| {
            let (text, size) = files.body(&Uri::from_static(target), "blog.example").unwrap();
            (String::from_utf8(text.to_vec()).unwrap(), size)
        };
        let (html, size) = body("/");
        for link in
            ["<a href=\"/a\">", "href=\"/b.css\"", "<script src=\"/c.js\">", "<img src=\"/d.jpg\">"]
        {
            assert!(html.contains(link), "{html}");
        }
        assert_eq!(size, 900);
        let (robots, size) = body("/robots.txt");
        assert!(robots.ends_with("Sitemap: http://blog.example/sitemap.xml\n"), "{robots}");
        assert_eq!(size, robots.len() as u64, "it needs more than the size of the file");
        assert!(body("/sitemap.xml").0.contains("<loc>http://blog.example/a</loc>"));
        assert_eq!(body("/d.jpg"), (String::new(), 7));
        assert!(files.body(&Uri::from_static("/?a"), "x").is_none());
    }
}
