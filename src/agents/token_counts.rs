//! Token counts of agents, by kind.
//!
//! # Invariants
//! - Each token has one kind. Some agents count cached tokens as a part of the input and thoughts as
//!   a part of the output, others apart; the sum that they report says which. Counts that fit no
//!   reading, or two different ones, have no kinds.

use crate::engine::conversation::TokenKinds;

/// What an agent reported. None: it did not.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TokenCounts {
    pub(super) total: u64,
    pub(super) input: u64,
    pub(super) output: u64,
    pub(super) cache_read: Option<u64>,
    pub(super) cache_write: Option<u64>,
    pub(super) thoughts: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CountedAs {
    Part,
    Apart,
}

impl TokenCounts {
    /// None without a count of cached tokens: most of the input of an agent is cached, and costs a
    /// fraction.
    pub(super) fn kinds(self) -> Option<TokenKinds> {
        use CountedAs::{Apart, Part};
        let cache_read = self.cache_read?;
        let readings = [(Part, Part), (Part, Apart), (Apart, Part), (Apart, Apart)];
        let mut fitting = readings
            .into_iter()
            .filter_map(|(cache, thoughts)| self.read(cache_read, cache, thoughts))
            .filter(|kinds| kinds.total() == self.total);
        let first = fitting.next()?;
        fitting.all(|other| other == first).then_some(first)
    }

    fn read(self, cache_read: u64, cache: CountedAs, thoughts: CountedAs) -> Option<TokenKinds> {
        let cache_write = self.cache_write.unwrap_or(0);
        let input = match cache {
            CountedAs::Part => self
                .input
                .checked_sub(cache_read)?
                .checked_sub(cache_write)?,
            CountedAs::Apart => self.input,
        };
        let output = match thoughts {
            CountedAs::Part => self.output,
            CountedAs::Apart => self.output.checked_add(self.thoughts.unwrap_or(0))?,
        };
        Some(TokenKinds {
            input,
            output,
            cache_read,
            cache_write,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(input: u64, output: u64, cache_read: u64, cache_write: u64) -> TokenKinds {
        TokenKinds {
            input,
            output,
            cache_read,
            cache_write,
        }
    }

    #[test]
    fn the_sum_says_what_is_a_part_of_what() {
        let counts = TokenCounts {
            total: 0,
            input: 300,
            output: 40,
            cache_read: Some(200),
            cache_write: Some(10),
            thoughts: Some(5),
        };
        let of = |total| TokenCounts { total, ..counts }.kinds();
        assert_eq!(of(340), Some(kinds(90, 40, 200, 10)), "both are parts");
        assert_eq!(of(345), Some(kinds(90, 45, 200, 10)), "thoughts are apart");
        assert_eq!(
            of(550),
            Some(kinds(300, 40, 200, 10)),
            "cached tokens are apart"
        );
        assert_eq!(of(555), Some(kinds(300, 45, 200, 10)), "both are apart");
        assert_eq!(of(400), None, "it fits nothing");
    }

    #[test]
    fn what_can_be_read_in_two_ways_or_lacks_the_cache_has_no_kinds() {
        let counts = TokenCounts {
            total: 125,
            input: 100,
            output: 20,
            cache_read: Some(5),
            thoughts: Some(5),
            ..TokenCounts::default()
        };
        assert_eq!(counts.kinds(), None);
        let uncached = TokenCounts {
            cache_read: Some(0),
            ..counts
        };
        assert_eq!(uncached.kinds(), Some(kinds(100, 25, 0, 0)));
        let unknown = TokenCounts {
            cache_read: None,
            ..counts
        };
        assert_eq!(unknown.kinds(), None);
    }
}
