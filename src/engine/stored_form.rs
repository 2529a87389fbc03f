//! How parts of the session's state are stored in a snapshot, where the plain JSON form would lose
//! something.
//!
//! Owns only the form, not when a snapshot is written or whether it is used.

use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::Value;

/// Whether a value can be left out. Records of earlier versions do not have it.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A number as its bits: as a decimal it would not always read back as the same number.
pub(crate) mod exact_float {
    use serde::{Deserialize, Deserializer, Serialize as _, Serializer};

    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde passes a reference"
    )]
    pub(crate) fn serialize<S: Serializer>(number: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        number.to_bits().serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        u64::deserialize(deserializer).map(f64::from_bits)
    }
}

/// A map as a list of pairs: keys in JSON are texts.
pub(crate) mod pairs {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<K: Serialize, V: Serialize, S: Serializer>(
        map: &BTreeMap<K, V>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(map)
    }

    pub(crate) fn deserialize<
        'de,
        K: Deserialize<'de> + Ord,
        V: Deserialize<'de>,
        D: Deserializer<'de>,
    >(
        deserializer: D,
    ) -> Result<BTreeMap<K, V>, D::Error> {
        Vec::<(K, V)>::deserialize(deserializer).map(|pairs| pairs.into_iter().collect())
    }
}

pub(crate) fn known_or_none<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    let recorded = Option::<Value>::deserialize(deserializer)?;
    Ok(recorded.and_then(|recorded| serde_json::from_value(recorded).ok()))
}
