//! Objects that have a key twice: `serde_json` keeps the last value in silence.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, de};
use serde_json::{Map, Value};

/// A value with all that objects hold.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Doubled {
    /// The second value of a key `name`, where it is another than the first, is called `name#2`, and so on.
    pub(crate) value: Value,
    /// Pointers to such keys.
    pub(crate) keys: Vec<String>,
}

impl<'de> Deserialize<'de> for Doubled {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut keys = Vec::new();
        let value = At { place: String::new(), keys: &mut keys }.deserialize(deserializer)?;
        Ok(Self { value, keys })
    }
}

/// What is at a place.
struct At<'a> {
    place: String,
    keys: &'a mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for At<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for At<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        loop {
            let place = format!("{}/{}", self.place, list.len());
            match items.next_element_seed(At { place, keys: &mut *self.keys })? {
                Some(item) => list.push(item),
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = fields.next_key::<String>()? {
            let place = format!("{}/{}", self.place, key.replace('~', "~0").replace('/', "~1"));
            let value =
                fields.next_value_seed(At { place: place.clone(), keys: &mut *self.keys })?;
            if object.get(&key).is_none_or(|first| *first == value) {
                object.insert(key, value);
                continue;
            }
            self.keys.push(place);
            let name = (2..).map(|number| format!("{key}#{number}"));
            let name = name.into_iter().find(|name| !object.contains_key(name));
            object.extend(name.map(|name| (name, value)));
        }
        Ok(Value::Object(object))
    }
}
