//! The keys of an object in a script, removed one by one.
//!
//! Owns the messages about unknown and wrong keys. Does not know which keys exist.

use serde_json::{Map, Value};

use crate::step::{self, Step};

/// A mistake in a script, with its place.
pub(crate) type Wrong = String;

/// An object with its remaining keys.
pub(crate) struct Fields {
    /// The place in the script, for messages.
    pub(crate) place: String,
    left: Map<String, Value>,
}

impl Fields {
    pub(crate) fn of(value: Value, place: &str) -> Result<Self, Wrong> {
        let Value::Object(left) = value else {
            return Err(format!("{place} must be an object"));
        };
        Ok(Self {
            place: place.to_owned(),
            left,
        })
    }

    pub(crate) fn take(&mut self, key: &str) -> Option<Value> {
        self.left.remove(key)
    }

    pub(crate) fn text(&mut self, key: &str) -> Result<Option<String>, Wrong> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.must_be(key, "a text")),
        }
    }

    pub(crate) fn number(&mut self, key: &str) -> Result<Option<usize>, Wrong> {
        let Some(value) = self.take(key) else {
            return Ok(None);
        };
        let number = value
            .as_u64()
            .and_then(|number| usize::try_from(number).ok());
        number
            .map(Some)
            .ok_or_else(|| self.must_be(key, "a number"))
    }

    pub(crate) fn yes_or_no(&mut self, key: &str) -> Result<Option<bool>, Wrong> {
        let Some(value) = self.take(key) else {
            return Ok(None);
        };
        value
            .as_bool()
            .map(Some)
            .ok_or_else(|| self.must_be(key, "true or false"))
    }

    /// Whether the key of a step without a value is present: `{"hang": true}`.
    pub(crate) fn yes(&mut self, key: &str) -> Result<bool, Wrong> {
        match self.take(key) {
            None => Ok(false),
            Some(Value::Bool(true)) => Ok(true),
            Some(_) => Err(self.must_be(key, "true")),
        }
    }

    pub(crate) fn steps(&mut self, key: &str) -> Result<Option<Vec<Step>>, Wrong> {
        let place = self.place_of(key);
        self.take(key)
            .map(|value| step::list(value, &place))
            .transpose()
    }

    pub(crate) fn object(&mut self, key: &str) -> Result<Option<Fields>, Wrong> {
        let place = self.place_of(key);
        self.take(key)
            .map(|value| Fields::of(value, &place))
            .transpose()
    }

    /// Fails if a required value is missing.
    pub(crate) fn needed<T>(&self, key: &str, value: Option<T>) -> Result<T, Wrong> {
        value.ok_or_else(|| format!("{} needs `{key}`", self.place))
    }

    /// Fails if a key is left.
    pub(crate) fn done(self) -> Result<(), Wrong> {
        match self.left.keys().next() {
            None => Ok(()),
            Some(key) => Err(format!("{} has an unknown key `{key}`", self.place)),
        }
    }

    pub(crate) fn into_rest(self) -> Map<String, Value> {
        self.left
    }

    fn place_of(&self, key: &str) -> String {
        if self.place.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.place)
        }
    }

    fn must_be(&self, key: &str, what: &str) -> Wrong {
        format!("{} must be {what}", self.place_of(key))
    }
}
