//! Numbers and texts in the body of a message: little-endian, with a length before what has no fixed one.

use super::error::MessageError;

/// Takes fields from a body.
#[derive(Debug)]
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Fields<'a> {
    pub(super) fn bytes(&mut self, count: usize) -> Result<&'a [u8], MessageError> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(MessageError::Short)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], MessageError> {
        let mut array = [0; N];
        array.copy_from_slice(self.bytes(N)?);
        Ok(array)
    }

    pub(super) fn u8(&mut self) -> Result<u8, MessageError> {
        Ok(self.array::<1>()?[0])
    }

    pub(super) fn u16(&mut self) -> Result<u16, MessageError> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, MessageError> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, MessageError> {
        self.array().map(u64::from_le_bytes)
    }

    pub(super) fn i64(&mut self) -> Result<i64, MessageError> {
        self.array().map(i64::from_le_bytes)
    }

    /// An amount: 0 or more, or unknown.
    pub(super) fn amount(&mut self) -> Result<Option<f64>, MessageError> {
        let value = f64::from_bits(self.u64()?);
        match value.to_bits() {
            UNKNOWN => Ok(None),
            _ if value.is_finite() && value.is_sign_positive() => Ok(Some(value)),
            _ => Err(MessageError::Value("an amount")),
        }
    }

    pub(super) fn session(&mut self) -> Result<[u8; 16], MessageError> {
        self.array()
    }

    /// Bytes with their length before them, at most so many.
    pub(super) fn short(&mut self, most: usize) -> Result<&'a [u8], MessageError> {
        let length = usize::from(self.u16()?);
        if length > most {
            return Err(MessageError::Value("a length"));
        }
        self.bytes(length)
    }

    pub(super) fn text(&mut self, most: usize) -> Result<String, MessageError> {
        let bytes = self.short(most)?;
        let text = std::str::from_utf8(bytes).map_err(|_| MessageError::Value("a text"))?;
        Ok(text.to_owned())
    }

    pub(super) fn end(self) -> Result<(), MessageError> {
        if self.0.is_empty() { Ok(()) } else { Err(MessageError::Long) }
    }
}

/// How an unknown amount is written.
const UNKNOWN: u64 = u64::MAX;

/// Writes fields to a body.
#[derive(Debug, Default)]
pub(super) struct Body(pub(super) Vec<u8>);

impl Body {
    pub(super) fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    pub(super) fn u8(self, value: u8) -> Self {
        self.bytes(&[value])
    }

    pub(super) fn u16(self, value: u16) -> Self {
        self.bytes(&value.to_le_bytes())
    }

    pub(super) fn u32(self, value: u32) -> Self {
        self.bytes(&value.to_le_bytes())
    }

    pub(super) fn u64(self, value: u64) -> Self {
        self.bytes(&value.to_le_bytes())
    }

    pub(super) fn i64(self, value: i64) -> Self {
        self.bytes(&value.to_le_bytes())
    }

    pub(super) fn amount(self, value: Option<f64>) -> Self {
        let known = value.filter(|value| value.is_finite() && *value >= 0.0);
        // 0 has two signs, of which one is read.
        self.u64(known.map_or(UNKNOWN, |value| (value + 0.0).abs().to_bits()))
    }

    /// Cut to what may be sent.
    pub(super) fn short(self, bytes: &[u8], most: usize) -> Self {
        let bytes = &bytes[..bytes.len().min(most)];
        self.u16(u16::try_from(bytes.len()).unwrap_or(0)).bytes(bytes)
    }

    pub(super) fn text(self, text: &str, most: usize) -> Self {
        let end = text.floor_char_boundary(most.min(text.len()));
        self.short(&text.as_bytes()[..end], most)
    }
}
