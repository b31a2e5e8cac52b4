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
    /// Longest first, without their `*`.
    prefixes: Vec<(&'static [u8], T)>,
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
        prefixes.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        let begins = (0..=SLOTS).map(|at| exact.partition_point(|(name, _)| slot(name) < at));
        let begins = begins.map(|begin| u16::try_from(begin).unwrap_or(u16::MAX)).collect();
        Self { exact, begins, prefixes, ignores_case }
    }

    /// The value of a name, if it is listed.
    pub(crate) fn find(&self, name: &[u8]) -> Option<T> {
        let at = slot(name);
        let (begin, end) = (usize::from(self.begins[at]), usize::from(self.begins[at + 1]));
        let exact = self.exact[begin..end].iter().find(|(known, _)| self.same(known, name));
        let begins_so =
            |known: &[u8]| name.len() >= known.len() && self.same(known, &name[..known.len()]);
        exact
            .or_else(|| self.prefixes.iter().find(|(known, _)| begins_so(known)))
            .map(|(_, value)| *value)
    }

    fn same(&self, known: &[u8], name: &[u8]) -> bool {
        if self.ignores_case { known.eq_ignore_ascii_case(name) } else { known == name }
    }
}

/// By length and some letters, whatever their case.
fn slot(name: &[u8]) -> usize {
    let letter = |at: usize| usize::from(name.get(at).map_or(0, |byte| byte | 0x20));
    let length = name.len();
    let sum =
        length + 7 * letter(0) + 31 * letter(length / 2) + 101 * letter(length.wrapping_sub(1));
    sum % SLOTS
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
        let names = [("x-*", 1), ("x-a-*", 2), ("x-a-b", 3), ("x-c", 4)];
        let table = Names::new(names.into_iter(), true);
        for (name, value) in [
            ("x-a-b", Some(3)),
            ("X-A-B", Some(3)),
            ("x-a-bc", Some(2)),
            ("x-a-", Some(2)),
            ("X-a", Some(1)),
            ("x-c", Some(4)),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(table.find(name.as_bytes()), value, "{name}");
        }
        let cookies = Names::new([("Ab", ())].into_iter(), false);
        assert_eq!(cookies.find(b"Ab"), Some(()));
        assert_eq!(cookies.find(b"ab"), None);
    }
}
