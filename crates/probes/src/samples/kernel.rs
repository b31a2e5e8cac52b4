//! The kernel's own functions.

use std::fs;

/// By address. Without the right to see addresses there is but one, `[kernel]`.
pub(super) struct KernelSymbols(Vec<(u64, String)>);

impl KernelSymbols {
    /// As the running kernel tells.
    pub(super) fn read() -> Self {
        Self::of(&fs::read_to_string("/proc/kallsyms").unwrap_or_default())
    }

    /// `ffffffff81000000 T _stext`
    fn of(text: &str) -> Self {
        let function = |line: &str| {
            let mut fields = line.split_ascii_whitespace();
            let address = u64::from_str_radix(fields.next()?, 16).ok()?;
            let is_code = matches!(fields.next()?, "t" | "T" | "w" | "W");
            (is_code && address > 0).then_some((address, fields.next()?.to_owned()))
        };
        let mut found: Vec<(u64, String)> = text.lines().filter_map(function).collect();
        found.sort_by_key(|(address, _)| *address);
        found.dedup_by_key(|(address, _)| *address);
        Self(found)
    }

    /// The number of the function that an address is in.
    pub(super) fn at(&self, address: u64) -> usize {
        self.0.partition_point(|(begin, _)| *begin <= address)
    }

    pub(super) fn name(&self, number: usize) -> &str {
        let place = number.checked_sub(1);
        place.and_then(|place| self.0.get(place)).map_or("[kernel]", |(_, name)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_in_the_function_that_begins_before_it() {
        let text = "ffffffff81000040 T second\nffffffff81000000 T first\nffffffff81000020 d data\n";
        let symbols = KernelSymbols::of(text);
        let name = |address| symbols.name(symbols.at(address));
        assert_eq!(name(0xffff_ffff_8100_0030), "first");
        assert_eq!(name(0xffff_ffff_8100_0040), "second");
        assert_eq!(name(0x1000), "[kernel]");
        let hidden = KernelSymbols::of("0000000000000000 T first\n");
        assert_eq!(hidden.name(hidden.at(0xffff_ffff_8100_0000)), "[kernel]");
    }
}
