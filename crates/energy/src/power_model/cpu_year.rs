//! When a processor came out, from its name or its family and model.
//!
//! Makers number their processors by generation, so that the name gives the year within about one.
//! Hypervisors often hide the name and seldom the family and model that CPUID gives, which stand for
//! the design. The years are those of the generations' launches, as the makers' product pages have
//! them.

use super::machine::Machine;

/// Families that number by pattern: a word of the name, a pattern for the start of another, and the
/// year. `#` is a digit, `?` any letter or digit; no digit may follow. The first that fits counts.
const PATTERNS: &[(&str, &str, u16)] = &[
    ("epyc", "7??1", 2017),
    ("epyc", "3??1", 2018),
    ("epyc", "7??2", 2019),
    ("epyc", "7??3", 2021),
    ("epyc", "9??4", 2022),
    ("epyc", "8??4", 2023),
    ("epyc", "4??4", 2024),
    ("epyc", "9??5", 2024),
    ("epyc", "4??5", 2025),
    ("opteron", "22##", 2006),
    ("opteron", "82##", 2006),
    ("opteron", "43##", 2012),
    ("opteron", "63##", 2012),
    ("opteron", "#3##", 2008),
    ("opteron", "24##", 2009),
    ("opteron", "84##", 2009),
    ("opteron", "#1##", 2010),
    ("opteron", "#2##", 2011),
    ("xeon", "e-21##", 2018),
    ("xeon", "e-22##", 2019),
    ("xeon", "e-23##", 2021),
    ("xeon", "e-24##", 2023),
    ("xeon", "d-15##", 2015),
    ("xeon", "d-21##", 2018),
    ("xeon", "d-17##", 2022),
    ("xeon", "d-27##", 2022),
    ("xeon", "w-21##", 2017),
    ("xeon", "w-22##", 2019),
    ("xeon", "w-32##", 2019),
    ("xeon", "w-33##", 2021),
    ("xeon", "w#-24##", 2023),
    ("xeon", "w#-34##", 2023),
    ("xeon", "67##e", 2024),
    ("xeon", "69##e", 2024),
    ("xeon", "69##p", 2024),
    ("xeon", "67##p", 2025),
    ("xeon", "65##p", 2025),
    ("xeon", "63##p", 2025),
    ("xeon", "848#", 2023),
    ("xeon", "859#", 2023),
    ("platinum", "#1##", 2017),
    ("platinum", "#2##", 2019),
    ("platinum", "#3##", 2021),
    ("platinum", "#4##", 2023),
    ("platinum", "#5##", 2023),
    ("gold", "#1##", 2017),
    ("gold", "#2##", 2019),
    ("gold", "#3##", 2021),
    ("gold", "#4##", 2023),
    ("gold", "#5##", 2023),
    ("silver", "#1##", 2017),
    ("silver", "#2##", 2019),
    ("silver", "#3##", 2021),
    ("silver", "#4##", 2023),
    ("silver", "#5##", 2023),
    ("bronze", "#1##", 2017),
    ("bronze", "#2##", 2019),
    ("bronze", "#4##", 2023),
    ("core", "i#-###", 2010),
    ("core", "i#-2###", 2011),
    ("core", "i#-3###", 2012),
    ("core", "i#-4###", 2013),
    ("core", "i#-5###", 2015),
    ("core", "i#-6###", 2015),
    ("core", "i#-7###", 2017),
    ("core", "i#-8###", 2017),
    ("core", "i#-9###", 2018),
    ("core", "i#-10###", 2020),
    ("core", "i#-11###", 2021),
    ("core", "i#-12###", 2021),
    ("core", "i#-13###", 2022),
    ("core", "i#-14###", 2023),
    ("ultra", "1##", 2023),
    ("ultra", "2##", 2025),
    ("ryzen", "1###", 2017),
    ("ryzen", "2###", 2018),
    ("ryzen", "3###", 2019),
    ("ryzen", "4###", 2020),
    ("ryzen", "5###", 2020),
    ("ryzen", "7###", 2022),
    ("ryzen", "8###", 2024),
    ("ryzen", "9###", 2024),
];

/// The Xeons before 2012 have four digits, of which two tell the generation, and perhaps a letter
/// before them.
const OLD_XEONS: &[(&str, u16)] = &[
    ("30##", 2006),
    ("31##", 2008),
    ("32##", 2007),
    ("33##", 2008),
    ("34##", 2009),
    ("50##", 2006),
    ("51##", 2006),
    ("52##", 2007),
    ("53##", 2007),
    ("54##", 2007),
    ("55##", 2009),
    ("56##", 2010),
    ("65##", 2010),
    ("70##", 2005),
    ("71##", 2006),
    ("73##", 2007),
    ("74##", 2008),
    ("75##", 2010),
];

/// Year of versions 1, 2, ... of the Xeon E3, E5 and E7.
const XEON_E: [(&str, &[u16]); 3] = [
    ("e3-", &[2011, 2012, 2013, 2015, 2015, 2017]),
    ("e5-", &[2012, 2013, 2014, 2016]),
    ("e7-", &[2011, 2014, 2015, 2016]),
];

/// Names of designs, as hypervisors and Arm's identification registers give them. The years are
/// those of the servers.
const DESIGNS: &[(&str, u16)] = &[
    ("altra max", 2021),
    ("altra", 2020),
    ("ampereone", 2024),
    ("grace", 2023),
    ("neoverse-n1", 2020),
    ("neoverse-v1", 2021),
    ("neoverse-n2", 2023),
    ("neoverse-v2", 2023),
    ("rome", 2019),
    ("milan", 2021),
    ("genoa", 2022),
    ("nehalem", 2009),
    ("westmere", 2010),
    ("sandybridge", 2012),
    ("ivybridge", 2013),
    ("haswell", 2014),
    ("broadwell", 2016),
    ("skylake", 2017),
    ("cascadelake", 2019),
    ("icelake", 2021),
    ("sapphirerapids", 2023),
    ("graniterapids", 2024),
];

/// CPUID family and model of server processors, as Linux prints them (`cpu family` and `model` in
/// `/proc/cpuinfo`), named in `arch/x86/include/asm/intel-family.h` for Intel.
const NUMBERS: &[(u32, u32, u16)] = &[
    (6, 15, 2006),
    (6, 23, 2007),
    (6, 26, 2009),
    (6, 44, 2010),
    (6, 46, 2010),
    (6, 47, 2011),
    (6, 45, 2012),
    (6, 62, 2013),
    (6, 63, 2014),
    (6, 79, 2016),
    // Skylake (2017) and its heirs up to 2020.
    (6, 85, 2018),
    (6, 106, 2021),
    (6, 108, 2022),
    (6, 143, 2023),
    (6, 207, 2023),
    (6, 173, 2024),
    (6, 175, 2024),
    (16, 2, 2008),
    (16, 4, 2008),
    (16, 8, 2009),
    (16, 9, 2010),
    (21, 1, 2011),
    (21, 2, 2012),
    (23, 1, 2017),
    (23, 49, 2019),
    (25, 1, 2021),
    (25, 17, 2022),
    (25, 160, 2023),
    (26, 2, 2024),
    (26, 17, 2024),
];

impl Machine {
    /// The year in which its processor came out, within about one: by its name, else by its family
    /// and model. `None` where neither tells.
    pub fn cpu_year(&self) -> Option<u16> {
        let by_number = || {
            let known = |(family, model, _): &&(u32, u32, u16)| {
                (*family, *model) == (self.cpu_family, self.cpu_model)
            };
            NUMBERS.iter().find(known).map(|&(_, _, year)| year)
        };
        cpu_year(&self.cpu).or_else(by_number)
    }

    /// Its processor is of AMD's design.
    pub(super) fn is_amd(&self) -> bool {
        let name = plain(&self.cpu);
        // Intel's are of families 6 and 15, as AMD's were before 2007.
        self.cpu_family > 15
            || ["amd", "epyc", "opteron", "ryzen"].iter().any(|part| name.contains(part))
    }
}

/// The year in which a processor of this name came out, within about one. `None` where the name does
/// not tell.
fn cpu_year(name: &str) -> Option<u16> {
    let name = plain(name);
    let words: Vec<&str> = name.split(' ').collect();
    xeon_e(&words)
        .or_else(|| by_pattern(&words))
        .or_else(|| DESIGNS.iter().find(|(part, _)| name.contains(part)).map(|&(_, year)| year))
        .or_else(|| old_xeon(&words))
}

/// Small letters, without marks of trade, one space between words.
fn plain(name: &str) -> String {
    let small = name.to_lowercase();
    let bare = ["(r)", "(tm)", "\u{ae}", "\u{2122}"]
        .iter()
        .fold(small, |name, mark| name.replace(mark, " "));
    let words = bare.split([',', '(', ')', '@', ' ']).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ")
}

fn by_pattern(words: &[&str]) -> Option<u16> {
    let fits = |(family, pattern, _): &&(&str, &str, u16)| {
        words.contains(family) && words.iter().any(|word| starts(word, pattern))
    };
    PATTERNS.iter().find(fits).map(|&(_, _, year)| year)
}

/// The word starts as the pattern says, and no digit follows.
fn starts(word: &str, pattern: &str) -> bool {
    let mut letters = word.chars();
    let as_said = pattern.chars().all(|wanted| {
        letters.next().is_some_and(|letter| match wanted {
            '#' => letter.is_ascii_digit(),
            '?' => letter.is_ascii_alphanumeric(),
            _ => letter == wanted,
        })
    });
    as_said && !letters.next().is_some_and(|letter| letter.is_ascii_digit())
}

/// `E5-2660 v2`, `E5-2660V2`, `E3-1265LV2`; without a version it is the first.
fn xeon_e(words: &[&str]) -> Option<u16> {
    for (place, word) in words.iter().enumerate() {
        for (family, years) in XEON_E {
            let Some(number) = word.strip_prefix(family) else { continue };
            if !starts(number, "####") {
                continue;
            }
            let next = words.get(place + 1).copied().unwrap_or_default();
            let version = number.split_once('v').or_else(|| next.split_once('v'));
            let version = version.map_or(Some(1), |(_, digit)| digit.parse::<usize>().ok());
            return years.get(version?.checked_sub(1)?).copied();
        }
    }
    None
}

fn old_xeon(words: &[&str]) -> Option<u16> {
    // A letter and a number, such as X3360, was never anything else.
    let xeon = words.contains(&"xeon");
    words.iter().find_map(|word| {
        let number = word.trim_start_matches(['e', 'l', 'w', 'x']);
        let lettered = number.len() + 1 == word.len();
        let known = OLD_XEONS.iter().find(|(pattern, _)| starts(number, pattern));
        known.filter(|_| lettered || (xeon && number == *word)).map(|&(_, year)| year)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn years_are_those_of_the_launches() {
        // Launch quarters from ark.intel.com and amd.com.
        for (name, year) in [
            ("Intel(R) Xeon(R) Platinum 8259CL CPU @ 2.50GHz", 2019),
            ("Intel(R) Xeon(R) Gold 6140 CPU @ 2.30GHz", 2017),
            ("Intel(R) Xeon(R) CPU E5-2660 v2 @ 2.20GHz", 2013),
            ("Intel Xeon E3-1265LV2", 2012),
            ("Intel(R) Xeon(R) CPU E5-2670 0 @ 2.60GHz", 2012),
            ("Intel(R) Xeon(R) CPU           X5670  @ 2.93GHz", 2010),
            ("Intel X3350", 2008),
            ("Intel Xeon 5160", 2006),
            ("Intel(R) Xeon(R) E-2388G CPU @ 3.20GHz", 2021),
            ("Intel Xeon 6780E", 2024),
            ("Intel Xeon 8592+", 2023),
            ("AMD EPYC 7763 64-Core Processor", 2021),
            ("AMD EPYC 7B12", 2019),
            ("AMD EPYC-Rome Processor", 2019),
            ("AMD EPYC 9965 192-Core Processor", 2024),
            ("AMD Opteron(tm) Processor 6174", 2010),
            ("Quad-Core AMD Opteron(r) Processor 8376 HE", 2008),
            ("Intel(R) Core(TM) i7-2700K CPU @ 3.50GHz", 2011),
            ("12th Gen Intel(R) Core(TM) i5-12400", 2021),
            ("Intel Core i3-540", 2010),
            ("AMD Ryzen 7 5800X 8-Core Processor", 2020),
            ("Ampere\u{ae} Altra\u{ae} Max 64-Bit Multi-Core Processor M128-30", 2021),
            ("Intel Xeon Processor (Cascadelake)", 2019),
            ("Intel Xeon Processor (Skylake, IBRS)", 2017),
            ("Neoverse-N1", 2020),
        ] {
            assert_eq!(cpu_year(name), Some(year), "{name}");
        }
    }

    #[test]
    fn where_the_name_is_hidden_family_and_model_tell_the_year() {
        // A guest of KVM on an Ice Lake server, and one on EPYC 7003.
        let intel = Machine {
            cpu: "Intel(R) Xeon(R) Processor @ 2.80GHz".to_owned(),
            cpu_family: 6,
            cpu_model: 106,
            ..Machine::default()
        };
        assert_eq!(intel.cpu_year(), Some(2021));
        assert!(!intel.is_amd());
        let amd = Machine { cpu: String::new(), cpu_family: 25, cpu_model: 1, ..intel };
        assert_eq!(amd.cpu_year(), Some(2021));
        assert!(amd.is_amd());
        assert_eq!(Machine::default().cpu_year(), None);
    }

    #[test]
    fn a_name_that_tells_nothing_gives_no_year() {
        for name in [
            "",
            "QEMU Virtual CPU version 2.5+",
            "Intel Xeon",
            "Intel(R) Xeon(R) Processor @ 2.20GHz",
            "Common KVM processor",
            "E5-",
            "Intel Xeon E5-2600 v9",
            "v",
            "xeon e3-v",
            "\u{fffd}\u{130}",
        ] {
            assert_eq!(cpu_year(name), None, "{name}");
        }
    }
}
