//! What the site offers.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_distr::{LogNormal, Zipf};

/// A file of some size.
pub(super) struct File {
    pub(super) path: String,
    pub(super) bytes: u64,
}

/// A page and the images that only it shows.
pub(super) struct Page {
    pub(super) file: File,
    pub(super) images: Vec<File>,
}

/// A file of the site, and where it leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteFile {
    /// Its path.
    pub target: String,
    /// Its size; a page whose links need more is larger.
    pub bytes: u64,
    /// Paths that it links to or shows.
    pub links: Vec<String>,
}

/// Pages by popularity, and what all of them share.
pub(super) struct Site {
    pub(super) pages: Vec<Page>,
    pub(super) shared: Vec<File>,
    popularity: Zipf<f64>,
}

/// Pages that a page links to, besides the front page.
const LINKS: usize = 10;

/// Where the site's pages say they are.
pub(super) const ORIGIN: &str = "https://site.example";

impl Site {
    pub(super) fn new(pages: u32, random: &mut ChaCha8Rng) -> Self {
        let pages = pages.max(1);
        Self {
            popularity: Zipf::new(f64::from(pages), 1.0).expect("at least one page, exponent 1"),
            shared: [
                ("/assets/main.css", 20e3),
                ("/assets/print.css", 4e3),
                ("/assets/app.js", 60e3),
                ("/assets/menu.js", 12e3),
            ]
            .map(|(path, median)| File { path: path.to_owned(), bytes: size(random, median, 0.3) })
            .into(),
            pages: (0..pages).map(|rank| page(random, rank)).collect(),
        }
    }

    /// All files: what pages show, what only programs request, and what only other sites' links lead to, too.
    pub(super) fn files(&self) -> Vec<SiteFile> {
        let path = |file: &File| file.path.clone();
        let plain =
            |target: &str, bytes| SiteFile { target: target.to_owned(), bytes, links: Vec::new() };
        let sitemap = self.pages.iter().map(|page| path(&page.file)).collect();
        let mut files = vec![
            SiteFile {
                target: "/robots.txt".to_owned(),
                bytes: 120,
                links: vec!["/sitemap.xml".to_owned()],
            },
            SiteFile { target: "/sitemap.xml".to_owned(), bytes: 0, links: sitemap },
            plain("/favicon.ico", 1150),
            plain("/thanks", 2100),
            plain("/api/status.json", 350),
            plain("/healthz", 2),
        ];
        files.extend(self.shared.iter().map(|it| plain(&it.path, it.bytes)));
        for (rank, page) in self.pages.iter().enumerate() {
            let first = (LINKS * rank + 1).min(self.pages.len());
            let linked = &self.pages[first..self.pages.len().min(first + LINKS)];
            let parts = self.shared.iter().chain(&page.images);
            let pages = [&self.pages[0]].into_iter().chain(linked).map(|it| &it.file);
            let links = parts.chain(pages).map(path).collect();
            files.push(SiteFile { target: path(&page.file), bytes: page.file.bytes, links });
            files.extend(page.images.iter().map(|it| plain(&it.path, it.bytes)));
        }
        files
    }

    /// A page, by popularity.
    pub(super) fn popular(&self, random: &mut ChaCha8Rng) -> &Page {
        let rank = random.sample(self.popularity) as usize;
        &self.pages[rank.clamp(1, self.pages.len()) - 1]
    }

    /// Any page, each as likely.
    pub(super) fn any(&self, random: &mut ChaCha8Rng) -> &Page {
        let pages = u32::try_from(self.pages.len()).unwrap_or(u32::MAX);
        &self.pages[random.random_range(0..pages) as usize]
    }
}

fn page(random: &mut ChaCha8Rng, rank: u32) -> Page {
    let path = match rank {
        0 => "/".to_owned(),
        1 => "/about".to_owned(),
        _ => format!("/posts/{}/{rank}", 2010 + random.random_range(0u32..16)),
    };
    let images = random.random_range(0u32..9);
    Page {
        file: File { path, bytes: size(random, 8e3, 0.6) },
        images: (0..images)
            .map(|image| File {
                path: format!("/images/{rank}-{image}.jpg"),
                bytes: size(random, 40e3, 1.0),
            })
            .collect(),
    }
}

/// A log-normal size of this median, between 200 B and 5 MB.
fn size(random: &mut ChaCha8Rng, median: f64, sigma: f64) -> u64 {
    let sizes = LogNormal::new(median.ln(), sigma).expect("a finite sigma");
    random.sample(sizes).clamp(200.0, 5e6) as u64
}
