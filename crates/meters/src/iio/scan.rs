//! Records of an IIO buffer: one value of each channel that was switched on.
//! Linux: `Documentation/driver-api/iio/buffers.rst` and `Documentation/ABI/testing/sysfs-bus-iio`.

use std::str::FromStr;

/// How one value lies in a record: `le:s12/16>>4` is twelve bits with a sign, in sixteen, from bit 4 on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Element {
    big_endian: bool,
    signed: bool,
    bits: u32,
    /// Bytes that it takes: 1, 2, 4 or 8.
    storage: usize,
    shift: u32,
}

impl FromStr for Element {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no type of a scan element as `le:s12/16>>4`");
        let parse = || {
            let (order, rest) = text.split_once(':')?;
            let big_endian = match order {
                "be" => true,
                "le" => false,
                _ => return None,
            };
            // Whether a value is extended to its storage (S, U) makes no difference once it is masked.
            let signed = rest.starts_with(['s', 'S']);
            let rest = rest.strip_prefix(['s', 'S', 'u', 'U'])?;
            let (bits, rest) = rest.split_once('/')?;
            let (storage, shift) = rest.split_once(">>").unwrap_or((rest, "0"));
            let (bits, storage, shift): (u32, u32, u32) =
                (bits.parse().ok()?, storage.parse().ok()?, shift.parse().ok()?);
            let fits = matches!(storage, 8 | 16 | 32 | 64)
                && (1..=storage).contains(&bits)
                && shift <= storage - bits;
            fits.then_some(Self { big_endian, signed, bits, storage: storage as usize / 8, shift })
        };
        parse().ok_or_else(wrong)
    }
}

impl Element {
    /// The value in its bytes; one that does not fit is the largest that does.
    fn value(self, bytes: &[u8]) -> i64 {
        let take = |raw: u64, &byte: &u8| raw << 8 | u64::from(byte);
        let raw = if self.big_endian {
            bytes.iter().fold(0, take)
        } else {
            bytes.iter().rev().fold(0, take)
        };
        let unused = 64 - self.bits;
        let top = raw >> self.shift << unused;
        if self.signed {
            top.cast_signed() >> unused
        } else {
            i64::try_from(top >> unused).unwrap_or(i64::MAX)
        }
    }
}

/// Records of a buffer. Every value lies at a multiple of its own size, and so does every record of
/// the size of its largest value.
#[derive(Debug, Clone)]
pub struct Scan {
    elements: Vec<(Element, usize)>,
    length: usize,
    /// A record that was cut.
    partial: Vec<u8>,
    values: Vec<i64>,
}

impl Scan {
    /// Records of these elements, in the order of their indices.
    pub fn new(elements: &[Element]) -> Self {
        let mut end = 0_usize;
        let place = |element: &Element| {
            let at = end.next_multiple_of(element.storage);
            end = at + element.storage;
            (*element, at)
        };
        let elements: Vec<_> = elements.iter().map(place).collect();
        let widest = elements.iter().map(|(element, _)| element.storage).max().unwrap_or(1);
        let length = end.next_multiple_of(widest);
        let (partial, values) = (Vec::with_capacity(length), vec![0; elements.len()]);
        Self { elements, length, partial, values }
    }

    /// Bytes of a record.
    pub const fn length(&self) -> usize {
        self.length
    }

    /// Takes bytes as they come; how they are cut makes no difference. Gives the values of each record.
    pub fn feed(&mut self, mut bytes: &[u8], mut record: impl FnMut(&[i64])) {
        if self.length == 0 {
            return;
        }
        while !bytes.is_empty() {
            let missing = self.length - self.partial.len();
            let (part, rest) = bytes.split_at(missing.min(bytes.len()));
            self.partial.extend_from_slice(part);
            bytes = rest;
            if self.partial.len() < self.length {
                return;
            }
            for (value, (element, at)) in self.values.iter_mut().zip(&self.elements) {
                *value = element.value(&self.partial[*at..*at + element.storage]);
            }
            record(&self.values);
            self.partial.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(kind: &str, bytes: &[u8]) -> i64 {
        let element: Element = kind.parse().unwrap();
        let (mut scan, mut values) = (Scan::new(&[element]), Vec::new());
        assert_eq!(scan.length(), bytes.len());
        scan.feed(bytes, |record| values.extend_from_slice(record));
        let [value] = values[..] else { panic!("{values:?}") };
        value
    }

    #[test]
    fn values_are_where_their_type_says() {
        for (kind, bytes, expected) in [
            ("le:s12/16>>4", &[0xf0, 0x7f][..], 2047),
            ("le:s12/16>>4", &[0x0f, 0x80], -2048),
            ("le:s12/16>>4", &[0xff, 0xff], -1),
            ("be:s12/16>>4", &[0x80, 0x0f], -2048),
            ("le:u12/16>>4", &[0x0f, 0x80], 2048),
            ("be:u24/32>>8", &[0x12, 0x34, 0x56, 0x99], 0x12_3456),
            ("be:s24/32>>0", &[0x99, 0xff, 0xff, 0xfe], -2),
            ("le:u16/16", &[0xe2, 0x04], 1250),
            ("le:U16/16>>0", &[0x50, 0x0c], 3152),
            ("be:u8/8>>0", &[0xc8], 200),
            ("le:s8/8>>0", &[0xc8], -56),
            ("le:s64/64>>0", &[0xff; 8], -1),
            ("le:u64/64>>0", &[0xff; 8], i64::MAX),
            ("le:s64/64>>0", &[0x15, 0xcd, 0x5b, 0x07, 0, 0, 0, 0], 123_456_789),
        ] {
            assert_eq!(value(kind, bytes), expected, "{kind}");
        }
    }

    #[test]
    fn types_that_cannot_be_are_refused() {
        for wrong in [
            "",
            "le",
            "le:s12",
            "me:s12/16",
            "le:x12/16",
            "le:s17/16",
            "le:s0/16",
            "le:s12/16>>5",
            "le:s12/12",
            "le:s16/16X2>>0",
            "le:s12/16>>4294967295",
        ] {
            assert!(wrong.parse::<Element>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn values_are_aligned_to_their_size_and_records_to_the_largest() {
        let kinds = ["le:u8/8", "le:u16/16", "be:u8/8", "le:s64/64"];
        let elements: Vec<Element> = kinds.iter().map(|kind| kind.parse().unwrap()).collect();
        let mut scan = Scan::new(&elements);
        // 0: u8, 2: u16, 4: u8, 8: s64.
        assert_eq!(scan.length(), 16);
        let record: Vec<u8> =
            vec![7, 0xee, 0x34, 0x12, 9, 0xee, 0xee, 0xee, 0xfe, 255, 255, 255, 255, 255, 255, 255];
        let stream = record.repeat(3);
        for cut in [1, 5, 16, 48] {
            let mut records = Vec::new();
            for chunk in stream.chunks(cut) {
                scan.feed(chunk, |values| records.push(values.to_vec()));
            }
            assert_eq!(records, vec![vec![7, 0x1234, 9, -2]; 3], "cut by {cut}");
        }
        // The time stamp first in the record: nothing is left out before it, but something behind.
        let elements: Vec<Element> = kinds.iter().rev().map(|kind| kind.parse().unwrap()).collect();
        assert_eq!(Scan::new(&elements).length(), 16);
        let three: Vec<Element> = kinds[..3].iter().map(|kind| kind.parse().unwrap()).collect();
        assert_eq!(Scan::new(&three).length(), 6);
    }
}
