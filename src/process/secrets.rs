//! The secrets of this process: what hooks and agents print is masked where creel reads it.
//!
//! Owns which variables are secrets, and the patterns of the session. Does not search a text: see
//! [`crate::text::SecretMask`]. A process has one environment and hosts one session, so it has one
//! mask.
//!
//! # Invariants
//! - No message contains a secret, not even one about a pattern.

use std::{
    borrow::Cow,
    env,
    path::Path,
    sync::{Arc, PoisonError, RwLock},
};

use serde_json::Value;

use crate::text::{SecretMask, StreamMask, VALUE_MIN};

static CURRENT: RwLock<Option<Arc<SecretMask>>> = RwLock::new(None);

/// What the name of a variable with a secret ends in, after an underscore or at once.
const WORDS: [&str; 14] = [
    "TOKEN",
    "TOKENS",
    "KEY",
    "KEYS",
    "SECRET",
    "SECRETS",
    "PASSWORD",
    "PASSWORDS",
    "PASSWD",
    "PASSPHRASE",
    "PASS",
    "PWD",
    "CREDENTIAL",
    "CREDENTIALS",
];
/// Ends of words that mean the same: `APIKEY`, `AUTHTOKEN`, `PGPASSWORD`.
const ENDS: [&str; 5] = ["APIKEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD"];
/// Last words that say that the value is none: `KEY_FILE`, `TOKEN_URL`.
const ABOUT: [&str; 9] = [
    "FILE", "PATH", "DIR", "URL", "HOST", "NAME", "SOCK", "COMMAND", "TYPE",
];

/// Masks what these patterns match, too. They are the plan's, which was checked.
pub fn use_patterns(patterns: &[String]) {
    let mask = build(patterns);
    *CURRENT.write().unwrap_or_else(PoisonError::into_inner) = Some(mask);
}

/// Masks the pieces of one stream.
pub fn stream() -> StreamMask {
    StreamMask::new(mask())
}

pub fn masked(text: &str) -> Cow<'_, str> {
    mask().text(text)
}

pub fn masked_bytes(bytes: &[u8]) -> Cow<'_, [u8]> {
    mask().bytes(bytes)
}

/// Masks a text in place. Returns whether it had secrets.
pub fn mask_text(text: &mut String) -> bool {
    let Cow::Owned(masked) = masked(text) else {
        return false;
    };
    *text = masked;
    true
}

/// Masks each part of a path on its own, so that it stays where it is. Returns whether it had
/// secrets.
pub fn mask_path(path: &mut String) -> bool {
    if matches!(masked(path), Cow::Borrowed(_)) {
        return false;
    }
    let parts: Vec<Cow<'_, str>> = path.split('/').map(masked).collect();
    let masked = parts.join("/");
    let is_changed = masked != *path;
    *path = masked;
    is_changed
}

/// Masks all texts in a value, but not the names of its fields. Returns whether it had secrets.
pub fn mask_value(value: &mut Value) -> bool {
    match value {
        Value::String(text) => mask_text(text),
        Value::Array(values) => values
            .iter_mut()
            .fold(false, |any, it| mask_value(it) | any),
        Value::Object(fields) => fields
            .iter_mut()
            .fold(false, |any, (_, it)| mask_value(it) | any),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn mask() -> Arc<SecretMask> {
    let known = CURRENT.read().unwrap_or_else(PoisonError::into_inner);
    if let Some(mask) = &*known {
        return mask.clone();
    }
    drop(known);
    let mut current = CURRENT.write().unwrap_or_else(PoisonError::into_inner);
    current.get_or_insert_with(|| build(&[])).clone()
}

/// If all patterns together are too large, each of them is left out, rather than the tokens.
fn build(patterns: &[String]) -> Arc<SecretMask> {
    let values =
        values(env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        }));
    let attempts = [(&values[..], patterns), (&values[..], &[]), (&[], &[])];
    let mut masks = attempts
        .iter()
        .map(|(values, patterns)| SecretMask::new(values, patterns));
    let mask = masks.find_map(Result::ok);
    Arc::new(mask.expect("the forms of well-known tokens are regular expressions"))
}

/// The secrets among the variables of a process.
fn values(variables: impl Iterator<Item = (String, String)>) -> Vec<String> {
    variables
        .filter(|(name, value)| is_secret_name(name) && may_be_secret(value))
        .map(|(_, value)| value)
        .collect()
}

fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let words: Vec<&str> = name.split('_').collect();
    let is_about = words.last().is_some_and(|last| ABOUT.contains(last));
    !is_about && words.iter().any(|word| is_secret_word(word))
}

fn is_secret_word(word: &str) -> bool {
    WORDS.contains(&word) || ENDS.iter().any(|end| word.ends_with(end))
}

/// Not a number, and not the path of something that exists.
fn may_be_secret(value: &str) -> bool {
    value.trim().len() >= VALUE_MIN
        && !value.bytes().all(|byte| byte.is_ascii_digit())
        && !(value.starts_with('/') && Path::new(value).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_known_by_the_names_of_their_variables() {
        for name in [
            "GITHUB_TOKEN",
            "ANTHROPIC_API_KEY",
            "AWS_SECRET_ACCESS_KEY",
            "PGPASSWORD",
            "db_password",
            "DB_PWD",
            "NPM_AUTHTOKEN",
            "STRIPE_APIKEY_TEST",
            "DEPLOY_CREDENTIALS",
        ] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in [
            "PATH",
            "MONKEY",
            "XKB_KEYBOARD",
            "TOKENIZERS_PARALLELISM",
            "SSH_KEY_FILE",
            "TOKEN_URL",
            "COMPASS",
        ] {
            assert!(!is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn short_values_numbers_and_existing_paths_are_no_secrets() {
        let found = |value: &str| {
            let variables = [("MY_TOKEN".to_owned(), value.to_owned())];
            !values(variables.into_iter()).is_empty()
        };
        assert!(found("hunter2hunter2"));
        for value in [
            "",
            "true",
            "1234567",
            "32000000000",
            "/usr/bin",
            "       x       ",
        ] {
            assert!(!found(value), "{value}");
        }
    }
}
