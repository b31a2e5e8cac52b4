//! What every report carries: style, scripts, and the hashes by which the page allows them.

use sha2::{Digest, Sha256};

/// Chart.js, unchanged except for its last line, which names a map of the source that is not there.
const CHART_JS: &str = include_str!("../../../web/vendor/chart.js-4.6.1/chart.umd.min.js");
const CHARTS: &str = include_str!("../../../web/report/charts.js");
const PAGE: &str = include_str!("../../../web/report/page.js");
pub(crate) const STYLE: &str = include_str!("../../../web/report/report.css");

/// The scripts of a page: without charts it needs no library.
pub(crate) fn scripts(charts: bool) -> Vec<&'static str> {
    let library = CHART_JS.split("\n//# sourceMappingURL=").next().unwrap_or(CHART_JS);
    if charts { vec![library, CHARTS, PAGE] } else { vec![PAGE] }
}

/// The Content-Security-Policy of a page: these scripts, this style, and nothing from anywhere.
/// (Pictures by `data:` are for the empty icon, without which browsers ask for `favicon.ico`.)
pub(crate) fn policy(scripts: &[&str]) -> String {
    let hashes: Vec<String> = scripts.iter().map(|script| source(script)).collect();
    format!(
        "default-src 'none'; script-src {}; style-src {}; img-src data:; base-uri 'none'; \
         form-action 'none'",
        hashes.join(" "),
        source(STYLE)
    )
}

/// A source expression of CSP level 3: `'sha256-…'`.
fn source(text: &str) -> String {
    format!("'sha256-{}'", base64(&Sha256::digest(text.as_bytes())))
}

/// Base 64 of RFC 4648, section 4.
fn base64(bytes: &[u8]) -> String {
    let digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group = (0..3).fold(0_u32, |group, index| {
            group << 8 | u32::from(chunk.get(index).copied().unwrap_or(0))
        });
        for place in 0..4 {
            // One byte fills two digits, two bytes three, three bytes four.
            out.push(if place <= chunk.len() {
                char::from(digits[(group >> (18 - 6 * place) & 63) as usize])
            } else {
                '='
            });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_the_one_that_was_released() {
        let hash = base64(&Sha256::digest(CHART_JS.as_bytes()));
        // As in web/vendor/chart.js-4.6.1/ORIGIN.md: if this fails, take the file from there again.
        assert_eq!(hash, "hzZMwrKnamaEkp59a4Cxiol3lNs4QAyv8fzxeRxpJdI=");
    }

    #[test]
    fn base64_is_that_of_rfc_4648() {
        // Section 10.
        for (plain, coded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
        // The empty script: the example of CSP's own hash algorithm everywhere.
        assert_eq!(source(""), "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='");
    }

    #[test]
    fn scripts_and_style_can_stand_inside_of_html() {
        for script in scripts(true) {
            let lower = script.to_ascii_lowercase();
            assert!(!lower.contains("</script") && !lower.contains("<!--"));
            assert!(!script.contains("sourceMappingURL") && !script.contains('\r'));
        }
        assert!(!STYLE.to_ascii_lowercase().contains("</style") && !STYLE.contains("url("));
    }

    #[test]
    fn the_licence_notices_go_with_the_library() {
        let library = scripts(true)[0];
        for notice in ["Chart.js Contributors", "Jukka Kurkela", "Released under the MIT License"] {
            assert!(library.contains(notice), "{notice}");
        }
    }

    /// Contrast of two colours as WCAG 2.2 defines it (relative luminance of sRGB).
    fn contrast(one: &str, other: &str) -> f64 {
        let luminance = |colour: &str| {
            let channel = |at: usize| {
                let value = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
                if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
            };
            0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
        };
        let (one, other) = (luminance(one) + 0.05, luminance(other) + 0.05);
        one.max(other) / one.min(other)
    }

    #[test]
    fn colours_can_be_told_from_the_ground_light_and_dark() {
        assert!((contrast("#000000", "#ffffff") - 21.0).abs() < 1e-9);
        let rules: Vec<&str> = STYLE.split('}').filter(|it| it.contains("--ground:")).collect();
        assert_eq!(rules.len(), 3, "light, dark, and light again on paper");
        for rule in rules {
            let colour = |name: &str| {
                let start = rule.find(&format!("{name}:")).unwrap() + name.len() + 1;
                rule[start..].split(';').next().unwrap().trim()
            };
            let ground = colour("--ground");
            // Success criteria 1.4.3 (text: 4.5) and 1.4.11 (graphics: 3).
            for text in ["--ink", "--quiet", "--link"] {
                assert!(contrast(colour(text), ground) >= 4.5, "{text} in {rule}");
            }
            for index in 0..7 {
                let name = format!("--series-{index}");
                let contrast = contrast(colour(&name), ground);
                assert!(contrast >= 3.0, "{name}: {contrast:.2} in {rule}");
            }
        }
    }
}
