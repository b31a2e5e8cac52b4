//! Lists of names, some of which stand for all names that begin so.

/// Slots of the hash table; a power of two.
const SLOTS: usize = 1024;

/// Names with a value each. Exact names win over prefixes, longer prefixes over shorter ones.
///
/// A lookup compares one or two candidates: hits of the cache pay for one per header field.
#[derive(Debug)]
pub(crate) struct Names<T> {
    /// Sorted by slot.
    exact: Vec<(&'static [u8], T)>,
    /// Where each slot begins in `exact`; one more than there are slots.
    begins: Vec<u16>,
    /// Without their `*`: those that begin with the same letters together, the longest of them first.
    prefixes: Vec<(&'static [u8], T)>,
    /// Where each slot begins in `prefixes`.
    prefixes_begin: Vec<u16>,
    ignores_case: bool,
}

impl<T: Copy> Names<T> {
    /// A table of `names`; a `*` at the end of one stands for any ending.
    pub(crate) fn new(names: impl Iterator<Item = (&'static str, T)>, ignores_case: bool) -> Self {
        let (mut exact, mut prefixes) = (Vec::new(), Vec::new());
        for (name, value) in names {
            match name.strip_suffix('*') {
                Some(start) => prefixes.push((start.as_bytes(), value)),
                None => exact.push((name.as_bytes(), value)),
            }
        }
        exact.sort_by_key(|(name, _)| slot(name));
        prefixes.sort_by_key(|(name, _)| (slot_of_start(name), std::cmp::Reverse(name.len())));
        let (begins, prefixes_begin) = (begins(&exact, slot), begins(&prefixes, slot_of_start));
        Self { exact, begins, prefixes, prefixes_begin, ignores_case }
    }

    /// The value of a name, if it is listed.
    pub(crate) fn find(&self, name: &[u8]) -> Option<T> {
        let within =
            |begins: &[u16], at: usize| usize::from(begins[at])..usize::from(begins[at + 1]);
        let mut candidates = self.exact[within(&self.begins, slot(name))].iter();
        let exact = candidates.find(|(known, _)| self.same(known, name));
        let begins_so =
            |known: &[u8]| name.len() >= known.len() && self.same(known, &name[..known.len()]);
        let longest_prefix = || {
            let prefixes = &self.prefixes[within(&self.prefixes_begin, slot_of_start(name))];
            prefixes.iter().find(|(known, _)| begins_so(known))
        };
        exact.or_else(longest_prefix).map(|(_, value)| *value)
    }

    fn same(&self, known: &[u8], name: &[u8]) -> bool {
        if self.ignores_case { same_letters(known, name) } else { known == name }
    }
}

/// Whether two names are the same except for the case of letters, eight bytes at a time. No two characters of
/// field names differ in that bit alone, except `^` and `~`, which no known name has.
fn same_letters(known: &[u8], name: &[u8]) -> bool {
    const CASE: u64 = u64::from_ne_bytes([0x20; 8]);
    if known.len() != name.len() {
        return false;
    }
    let differ = |one: &[u8; 8], other: &[u8; 8]| {
        (u64::from_ne_bytes(*one) ^ u64::from_ne_bytes(*other)) & !CASE
    };
    let (Some(one), Some(other)) = (known.last_chunk(), name.last_chunk()) else {
        return known.eq_ignore_ascii_case(name);
    };
    // The last eight may overlap those before them.
    let (ones, others) = (known.as_chunks().0, name.as_chunks().0);
    let differences = ones
        .iter()
        .zip(others)
        .fold(differ(one, other), |differences, (one, other)| differences | differ(one, other));
    differences == 0
}

/// Where each slot begins in names that are sorted by slot.
fn begins<T>(names: &[(&'static [u8], T)], slot: impl Fn(&[u8]) -> usize) -> Vec<u16> {
    let begins = (0..=SLOTS).map(|at| names.partition_point(|(name, _)| slot(name) < at));
    begins.map(|begin| u16::try_from(begin).unwrap_or(u16::MAX)).collect()
}

/// By the first three letters, whatever their case: no prefix is shorter.
fn slot_of_start(name: &[u8]) -> usize {
    let start = name.first_chunk::<4>().map_or_else(
        || name.iter().take(3).rev().fold(0, |start, byte| (start << 8) | u32::from(*byte)),
        |start| u32::from_le_bytes(*start) & 0x00ff_ffff,
    );
    // Of names with less than three letters the rest is zero, with this bit as without.
    mixed(u64::from(start | 0x0020_2020))
}

/// By length and the first and last letters, whatever their case.
fn slot(name: &[u8]) -> usize {
    const CASE: u64 = u64::from_ne_bytes([0x20; 8]);
    let ends = match (name.first_chunk(), name.last_chunk()) {
        (Some(first), Some(last)) => {
            let [first, last] = [first, last].map(|ends| u64::from_le_bytes(*ends) | CASE);
            first ^ last.rotate_left(29)
        }
        _ => name.iter().fold(0, |letters, byte| (letters << 8) | u64::from(byte | 0x20)),
    };
    mixed(ends ^ name.len() as u64)
}

/// The upper bits of a product depend on all bits of the number (Knuth's multiplicative hashing).
fn mixed(letters: u64) -> usize {
    (letters.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - SLOTS.ilog2())) as usize
}

/// The lines of a data file, each split at its tabs; `#` begins a remark.
pub(crate) fn rows<const COLUMNS: usize>(
    text: &'static str,
) -> impl Iterator<Item = [&'static str; COLUMNS]> {
    text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(|line| {
        let mut columns = line.split('\t');
        std::array::from_fn(|_| columns.next().unwrap_or_default())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_names_win_over_prefixes_and_long_prefixes_over_short_ones() {
        let names = [("x-a*", 1), ("x-a-*", 2), ("x-a-b", 3), ("x-c", 4)];
        let table = Names::new(names.into_iter(), true);
        for (name, value) in [
            ("x-a-b", Some(3)),
            ("X-A-B", Some(3)),
            ("x-a-bc", Some(2)),
            ("x-a-", Some(2)),
            ("X-a", Some(1)),
            ("x-ab", Some(1)),
            ("x-b", None),
            ("x-c", Some(4)),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(table.find(name.as_bytes()), value, "{name}");
        }
        let long = Names::new([("if-unmodified-since", 1), ("range", 2)].into_iter(), true);
        assert_eq!(long.find(b"If-Unmodified-Since"), Some(1));
        assert_eq!(long.find(b"if-unmodified-sinca"), None);
        assert_eq!(long.find(b"ig-unmodified-since"), None);
        assert_eq!((long.find(b"RANGE"), long.find(b"rangf")), (Some(2), None));
        let cookies = Names::new([("Ab", ())].into_iter(), false);
        assert_eq!(cookies.find(b"Ab"), Some(()));
        assert_eq!(cookies.find(b"ab"), None);
    }
}
