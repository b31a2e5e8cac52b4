//! Names of functions, and patterns that fit them.

/// As its author wrote it. A name that no compiler changed stays.
pub(crate) fn demangled(raw: &str) -> String {
    if let Ok(name) = rustc_demangle::try_demangle(raw) {
        // Without the hash that tells instances apart.
        return format!("{name:#}");
    }
    let symbol = cpp_demangle::Symbol::new(raw).ok();
    symbol.and_then(|symbol| symbol.demangle().ok()).unwrap_or_else(|| raw.to_owned())
}

/// What a user may call a function: `int ns::work<int>(int)` is `ns::work<int>` and `ns::work`, too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Names {
    /// As its author wrote it.
    pub(crate) whole: String,
    /// Of C++: without result and arguments, and without the arguments of templates.
    shorter: Vec<String>,
}

impl Names {
    /// Of a name as the linker has it.
    pub(crate) fn of(raw: &str) -> Self {
        let whole = demangled(raw);
        let is_cpp = raw.starts_with("_Z") && rustc_demangle::try_demangle(raw).is_err();
        let mut shorter = Vec::new();
        if is_cpp {
            let name = tight(without_result(without_arguments(&whole)));
            shorter = vec![tight(&whole), without_templates(&name), name];
        }
        Self { whole, shorter }
    }

    /// Is it one of its names?
    pub(crate) fn is(&self, wanted: &str) -> bool {
        self.whole == wanted || self.shorter.contains(&tight(wanted))
    }

    /// Does a pattern with `*` fit one of its names?
    pub(crate) fn fit(&self, pattern: &str) -> bool {
        fits(pattern, &self.whole) || {
            let pattern = tight(pattern);
            self.shorter.iter().any(|name| fits(&pattern, name))
        }
    }
}

/// `vector<vector<int> >` as most write it now: `vector<vector<int>>`.
fn tight(name: &str) -> String {
    name.replace(" >", ">")
}

/// What may stand behind the arguments of a function.
const BEHIND_ARGUMENTS: [&str; 4] = ["const", "volatile", "&", "&&"];

/// `F::operator()(int) const` is `F::operator()`, and `(anonymous namespace)::f` stays.
fn without_arguments(name: &str) -> &str {
    let Some(close) = name.rfind(')') else { return name };
    let behind = name[close + 1..].split(" [").next().unwrap_or_default();
    if !behind.split_whitespace().all(|word| BEHIND_ARGUMENTS.contains(&word)) {
        return name;
    }
    let mut depth = 0;
    let opens = name[..=close].rfind(|letter| {
        depth += i32::from(letter == ')') - i32::from(letter == '(');
        depth == 0
    });
    // `operator()` itself, of which no arguments are told, stays.
    let before = opens.map_or(name, |at| &name[..at]);
    if before.ends_with("operator") { name } else { before }
}

/// Where `operator` stands as a word, outside of all brackets.
fn operator_at(name: &str) -> Option<usize> {
    let is_word = |at: usize| {
        let part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let bytes = name.as_bytes();
        !at.checked_sub(1).and_then(|at| bytes.get(at)).is_some_and(part)
            && !bytes.get(at + "operator".len()).is_some_and(part)
    };
    name.match_indices("operator")
        .map(|(at, _)| at)
        .find(|at| is_word(*at) && depth(&name[..*at]) == 0)
}

fn depth(text: &str) -> i32 {
    let of = |byte| match byte {
        b'<' | b'(' | b'{' | b'[' => 1,
        b'>' | b')' | b'}' | b']' => -1,
        _ => 0,
    };
    text.bytes().map(of).sum()
}

/// `std::vector<int> ns::make<int>` is `ns::make<int>`: templates are named with what they return.
fn without_result(name: &str) -> &str {
    let end = operator_at(name).unwrap_or(name.len());
    let mut blanks = name[..end].match_indices(' ').map(|(at, _)| at);
    let last = blanks.rfind(|at| depth(&name[..*at]) == 0);
    last.map_or(name, |at| &name[at + 1..])
}

/// `Box<int>::get` is `Box::get`, `f[abi:cxx11]` is `f`, and `F::operator<` stays.
fn without_templates(name: &str) -> String {
    let (front, operator) = name.split_at(operator_at(name).unwrap_or(name.len()));
    let mut depth = 0;
    let mut plain = String::new();
    for letter in front.replace("[abi:", "<").replace(']', ">").chars() {
        depth += i32::from(letter == '<');
        if depth == 0 {
            plain.push(letter);
        }
        depth -= i32::from(letter == '>');
    }
    plain + operator
}

/// Does a pattern with `*` fit?
pub(crate) fn fits(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else {
        return false;
    };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_as_in_a_shell() {
        for (pattern, name) in
            [("work", "work"), ("wo*", "work"), ("*rk", "work"), ("w*r*", "work"), ("*", "")]
        {
            assert!(fits(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in
            [("work", "works"), ("wo", "work"), ("*rk", "works"), ("w*x*", "work")]
        {
            assert!(!fits(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn names_are_read_as_their_authors_wrote_them() {
        assert_eq!(demangled("_ZN2ns4workEi"), "ns::work(int)");
        assert_eq!(demangled("_ZN4prog4work17h0123456789abcdefE"), "prog::work");
        assert_eq!(demangled("work"), "work");
    }

    /// Beside each name as GCC 12 makes it (`nm`), what users call the function.
    #[test]
    fn a_function_of_cpp_is_known_by_every_name_that_users_give_it() {
        for (raw, names) in [
            ("_ZN2ns4workEi", &["ns::work", "ns::work(int)", "ns::*"][..]),
            ("_ZN12_GLOBAL__N_11fEi", &["(anonymous namespace)::f", "*::f"]),
            ("_ZN1FclEi", &["F::operator()", "F::operator()(int)", "F::*"]),
            ("_ZNK1FltEi", &["F::operator<", "F::operator<(int) const"]),
            ("_ZNK1FcvlEv", &["F::operator long", "F::*"]),
            ("_Z4workIiET_S0_", &["work", "work<int>", "int work<int>(int)", "wo*"]),
            ("_ZN3BoxIiE3getEi", &["Box::get", "Box<int>::get", "Box::*"]),
            (
                "_ZN2ns4makeIiEESt6vectorIT_SaIS2_EEPFviES2_",
                &["ns::make", "ns::make<int>", "ns::*"],
            ),
            ("_ZNK3lamMUliE_clEi", &["lam::{lambda(int)#1}::operator()"]),
            (
                "_ZN3BoxISt6vectorIiSaIiEEE3getES2_",
                &["Box::get", "Box<std::vector<int, std::allocator<int>>>::get"],
            ),
            ("_Z4textB5cxx11v", &["text", "text[abi:cxx11]"]),
        ] {
            let known = Names::of(raw);
            for name in names {
                assert!(known.fit(name), "{name}: {known:?}");
            }
            assert!(!known.fit("int") && !known.fit("std") && !known.fit("operator"), "{known:?}");
        }
        let (c, rust) = (Names::of("work"), Names::of("_ZN4prog4work17h0123456789abcdefE"));
        assert!(c.fit("work") && c.shorter.is_empty() && rust.fit("prog::work"));
        assert!(
            Names::of("_ZN1FmlEi").is("F::operator*") && !Names::of("_ZN1FclEi").is("F::operator*")
        );
    }
}
