//! Reads a recorded decision, or none if this version does not know it.
//!
//! A later version may decide something that this one cannot follow. The rules of this version then
//! apply, as for a journal that does not record the decision, instead of an error about the whole
//! journal.

use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::Value;

pub(crate) fn known_or_none<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    let recorded = Option::<Value>::deserialize(deserializer)?;
    Ok(recorded.and_then(|recorded| serde_json::from_value(recorded).ok()))
}
