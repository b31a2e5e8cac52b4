//! What users write down for a mix or a trace, as text: lists of URLs, patterns, files of times.

use std::num::NonZeroU32;

use super::mix::MixEntry;

/// More different URLs than this are a mistake.
const MOST: usize = 5_000_000;

/// How a pattern becomes URLs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Patterns {
    /// `{page}` stands for 1 to this.
    pub pages: Option<NonZeroU32>,
    /// `{size}` stands for these numbers of bytes, with weights.
    pub sizes: Vec<(u64, f64)>,
    /// The n-th of the list or of the pages is asked for in proportion to `n^-zipf`.
    pub zipf: Option<f64>,
}

/// A list of URLs, one a line: `[WEIGHT] [METHOD] URL`; empty lines and what follows ` #` do not
/// count.
pub fn list(text: &str) -> Result<Vec<MixEntry>, String> {
    let mut wanted = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.split_once(" #").map_or(line, |(before, _)| before).trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = |why: &str| {
            let line = index + 1;
            format!("line {line} {why}; write `[WEIGHT] [METHOD] URL`, as in `3 GET http://host/a`")
        };
        let mut words: Vec<&str> = line.split_whitespace().collect();
        let url = words.pop().ok_or_else(|| wrong("is empty"))?;
        let mut one = MixEntry::page(url);
        if let Some(weight) = words.first().and_then(|word| word.parse::<f64>().ok()) {
            if !(weight.is_finite() && weight >= 0.0) {
                return Err(wrong("has a weight that is no number of 0 or more"));
            }
            one.weight = weight;
            words.remove(0);
        }
        if !words.is_empty() {
            words.remove(0).clone_into(&mut one.method);
        }
        if !words.is_empty() {
            return Err(wrong("has too many words"));
        }
        wanted.push(one);
    }
    if wanted.is_empty() {
        return Err("there is no URL in it".to_owned());
    }
    Ok(wanted)
}

/// All URLs of the patterns in `wanted`, in their order: of each its pages, and of each page its
/// sizes.
pub fn expand(wanted: &[MixEntry], patterns: &Patterns) -> Result<Vec<MixEntry>, String> {
    let has = |mark: &str| wanted.iter().any(|one| one.url.contains(mark));
    if patterns.pages.is_some() != has("{page}") {
        return Err("`--pages N` and `{page}` in a URL go together".to_owned());
    }
    if patterns.sizes.is_empty() == has("{size}") {
        return Err("`--sizes` and `{size}` in a URL go together".to_owned());
    }
    let pages = patterns.pages.map_or(1, NonZeroU32::get);
    let all = wanted.len().saturating_mul(pages as usize);
    if all.saturating_mul(patterns.sizes.len().max(1)) > MOST {
        return Err(format!("that makes more than {MOST} URLs"));
    }
    let mut found = Vec::with_capacity(all);
    let mut rank = 0.0_f64;
    for one in wanted {
        for page in 1..=pages {
            rank += 1.0;
            let popularity = patterns.zipf.map_or(1.0, |power| rank.powf(-power));
            let url = one.url.replace("{page}", &page.to_string());
            let weight = one.weight * popularity;
            if patterns.sizes.is_empty() {
                found.push(MixEntry { weight, url, method: one.method.clone() });
                continue;
            }
            for (size, share) in &patterns.sizes {
                let url = url.replace("{size}", &size.to_string());
                found.push(MixEntry { weight: weight * share, url, method: one.method.clone() });
            }
        }
    }
    Ok(found)
}

/// `1k=70,100k=25,1M=5`: numbers of bytes and how often, in units of 1000.
pub fn sizes(text: &str) -> Result<Vec<(u64, f64)>, String> {
    let wrong = || "write sizes and how often, as in `1k=70,100k=25,1M=5`".to_owned();
    let one = |part: &str| {
        let (size, weight) = part.trim().split_once('=').unwrap_or((part.trim(), "1"));
        let (digits, unit) = match size.as_bytes().last().ok_or_else(wrong)? {
            b'k' => (&size[..size.len() - 1], 1_000),
            b'M' => (&size[..size.len() - 1], 1_000_000),
            _ => (size, 1),
        };
        let size = digits.parse::<u64>().ok().and_then(|size| size.checked_mul(unit));
        let weight = weight.parse::<f64>().ok().filter(|it| it.is_finite() && *it >= 0.0);
        size.zip(weight).ok_or_else(wrong)
    };
    text.split(',').map(one).collect()
}

/// Times of a trace, and what is asked for at each if the file says it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Traced {
    /// Seconds, on any clock.
    pub times: Vec<f64>,
    /// Which of `targets`, for each time; empty where the file has times only.
    pub order: Vec<u32>,
    /// Method and target of what is asked for, each once.
    pub targets: Vec<(String, String)>,
}

impl Traced {
    /// One more request.
    pub fn push(&mut self, time: f64, known: Option<u32>, method: &str, target: &str) -> u32 {
        let index = known.unwrap_or_else(|| {
            self.targets.push((method.to_owned(), target.to_owned()));
            self.targets.len() as u32 - 1
        });
        self.times.push(time);
        self.order.push(index);
        index
    }

    /// In order of time.
    pub fn sort(&mut self) {
        if self.order.is_empty() {
            return self.times.sort_by(f64::total_cmp);
        }
        let mut both: Vec<(f64, u32)> =
            self.times.iter().copied().zip(self.order.iter().copied()).collect();
        both.sort_by(|one, other| one.0.total_cmp(&other.0));
        (self.times, self.order) = both.into_iter().unzip();
    }
}

/// Does this look like a file of times? Its first line that says anything begins with a number and
/// goes on like no log.
pub fn is_times(text: &str) -> bool {
    let first = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
    let words: Vec<&str> = first.map_or(Vec::new(), |line| line.split_whitespace().collect());
    words.len() == 1 && words[0].parse::<f64>().is_ok()
}

/// Seconds, one a line.
pub fn times(text: &str) -> Result<Vec<f64>, String> {
    let mut times = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let time = line.parse::<f64>().ok().filter(|time| time.is_finite());
        times.push(time.ok_or_else(|| format!("line {} is no number of seconds", index + 1))?);
    }
    Ok(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_weights_methods_and_remarks() {
        let list = list(
            "# pages\n\nhttp://a/\n 3 http://a/b # often\n0.5 POST http://a/c\nHEAD http://a/d\n",
        );
        let wanted = |weight, method: &str, url: &str| MixEntry {
            weight,
            method: method.to_owned(),
            url: url.to_owned(),
        };
        let expected = [
            wanted(1.0, "GET", "http://a/"),
            wanted(3.0, "GET", "http://a/b"),
            wanted(0.5, "POST", "http://a/c"),
            wanted(1.0, "HEAD", "http://a/d"),
        ];
        assert_eq!(list.unwrap(), expected);
        assert!(super::list("# nothing\n").unwrap_err().contains("no URL"));
        assert!(
            super::list("http://a/\n1 GET it http://b/").unwrap_err().starts_with("line 2 has")
        );
        assert!(super::list("-1 http://a/").unwrap_err().contains("weight"));
    }

    #[test]
    fn patterns_become_pages_by_rank_and_sizes_by_share() {
        let patterns = Patterns {
            pages: NonZeroU32::new(2),
            sizes: sizes("1k=3, 2M=1").unwrap(),
            zipf: Some(1.0),
        };
        let expanded = expand(&[MixEntry::page("http://a/{page}?{size}")], &patterns).unwrap();
        let told: Vec<String> =
            expanded.iter().map(|one| format!("{} {}", one.weight, one.url)).collect();
        assert_eq!(
            told,
            [
                "3 http://a/1?1000",
                "1 http://a/1?2000000",
                "1.5 http://a/2?1000",
                "0.5 http://a/2?2000000"
            ]
        );
        let page = [MixEntry::page("http://a/{page}")];
        assert!(expand(&page, &Patterns::default()).unwrap_err().contains("{page}"));
        let many = Patterns { pages: NonZeroU32::new(u32::MAX), ..Patterns::default() };
        assert!(expand(&page, &many).unwrap_err().contains("more than"));
        assert!(sizes("1k=a").is_err() && sizes("").is_err() && sizes("99999999999999M").is_err());
    }

    #[test]
    fn a_file_of_times_is_told_from_a_log() {
        assert!(is_times("# s\n0.5\n1\n"));
        assert!(!is_times("10.0.0.1 - - [03/Mar/2012:06:26:42 -0800] \"GET / HTTP/1.1\" 200 1"));
        assert_eq!(times("1\n\n# x\n0.25\n"), Ok(vec![1.0, 0.25]));
        assert_eq!(times("1\ninf\n"), Err("line 2 is no number of seconds".to_owned()));
    }

    #[test]
    fn a_trace_is_put_in_order_with_what_is_asked_for() {
        let mut traced = Traced::default();
        let b = traced.push(2.0, None, "GET", "/b");
        traced.push(1.0, None, "GET", "/a");
        traced.push(3.0, Some(b), "GET", "/b");
        traced.sort();
        assert_eq!((traced.times, traced.order), (vec![1.0, 2.0, 3.0], vec![1, 0, 0]));
        assert_eq!(traced.targets.len(), 2);
    }
}
