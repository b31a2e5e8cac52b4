//! The spellings of a path that servers take for the same.

/// How many times a path is decoded: servers decode once, and some twice.
const DECODED: usize = 2;

/// The spellings of the same path that servers may see in it: decoded, and with its steps resolved. The first is the
/// path as it was sent.
pub fn readings(path: &str) -> Vec<String> {
    let mut readings = vec![path.to_owned(), resolved(path)];
    let mut text = path.to_owned();
    for _ in 0..DECODED {
        text = decoded(&text);
        readings.push(resolved(&text));
    }
    readings
}

/// Decodes escapes once. What is not UTF-8 then is replaced: it is no part of any configured path.
pub(crate) fn decoded(path: &str) -> String {
    let bytes = path.as_bytes();
    let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while let Some(&byte) = bytes.get(at) {
        let hex = |at: usize| bytes.get(at).and_then(|it| char::from(*it).to_digit(16));
        if let (b'%', Some(high), Some(low)) = (byte, hex(at + 1), hex(at + 2)) {
            // Two digits are one byte.
            out.push((high * 16 + low) as u8);
            at += 3;
        } else {
            out.push(byte);
            at += 1;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Resolves `.`, `..`, empty steps and the parameters of steps, and takes a backslash for a slash.
fn resolved(path: &str) -> String {
    let mut steps: Vec<&str> = Vec::new();
    let ends_with_slash = path.ends_with(['/', '\\']);
    for step in path.split(['/', '\\']) {
        let step = step.split([';', '\0']).next().unwrap_or_default();
        match step {
            "" | "." => {}
            ".." => {
                steps.pop();
            }
            step => steps.push(step),
        }
    }
    let slash = if ends_with_slash && !steps.is_empty() { "/" } else { "" };
    format!("/{}{slash}", steps.join("/"))
}
