//! Usage as text for people.

use super::text::counted;
use crate::engine::{
    budget::{BudgetUsage, ConversationUsage},
    conversation::TurnUsage,
};

/// Tokens and money, as far as the agent reported them.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct UsageTotals {
    pub tokens: u64,
    /// In dollars.
    pub cost: f64,
}

impl UsageTotals {
    /// Adds the usage of a turn.
    pub fn add(&mut self, spent: TurnUsage) {
        self.tokens = self.tokens.saturating_add(spent.tokens.unwrap_or(0));
        self.cost += spent.cost.unwrap_or(0.0).max(0.0);
    }

    /// `12.3k tokens · $0.42`, or whichever of the two is known.
    pub fn words(self) -> Option<String> {
        let count = (self.tokens > 0).then(|| tokens(self.tokens));
        let cost = (self.cost > 0.0).then(|| money(self.cost));
        let known: Vec<String> = count.into_iter().chain(cost).collect();
        (!known.is_empty()).then(|| known.join(" · "))
    }

    /// The same, to append to another text.
    pub fn suffix(self) -> String {
        self.words()
            .map(|words| format!(" · {words}"))
            .unwrap_or_default()
    }
}

impl From<TurnUsage> for UsageTotals {
    fn from(spent: TurnUsage) -> Self {
        let mut used = Self::default();
        used.add(spent);
        used
    }
}

impl From<&ConversationUsage> for UsageTotals {
    fn from(part: &ConversationUsage) -> Self {
        Self {
            tokens: part.tokens,
            cost: part.cost,
        }
    }
}

impl From<&BudgetUsage> for UsageTotals {
    fn from(account: &BudgetUsage) -> Self {
        Self {
            tokens: account.tokens,
            cost: account.cost,
        }
    }
}

/// Tokens: all digits up to 9,999, then thousands and millions.
pub fn tokens(count: u64) -> String {
    match count {
        0..10_000 => counted(count, "token"),
        10_000..1_000_000 => format!("{}.{}k tokens", count / 1_000, count % 1_000 / 100),
        _ => format!(
            "{}.{}M tokens",
            count / 1_000_000,
            count % 1_000_000 / 100_000
        ),
    }
}

/// The same in a few characters: `41k tok`.
pub fn short_tokens(count: u64) -> String {
    match count {
        0..1_000 => format!("{count} tok"),
        1_000..1_000_000 => format!("{}k tok", count / 1_000),
        _ => format!("{}.{}M tok", count / 1_000_000, count % 1_000_000 / 100_000),
    }
}

/// Money. An amount below one cent is not shown as zero.
pub fn money(cost: f64) -> String {
    if cost > 0.0 && cost < 0.01 {
        "<$0.01".into()
    } else {
        format!("${cost:.2}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_said_in_the_units_of_their_size() {
        assert_eq!(
            [0, 1, 9_999, 10_000, 12_345, 999_999, 2_500_000].map(tokens),
            [
                "0 tokens",
                "1 token",
                "9999 tokens",
                "10.0k tokens",
                "12.3k tokens",
                "999.9k tokens",
                "2.5M tokens"
            ]
        );
        assert_eq!(
            [0.0, 0.001, 0.01, 1.239, 12.0].map(money),
            ["$0.00", "<$0.01", "$0.01", "$1.24", "$12.00"]
        );
    }

    #[test]
    fn what_is_unknown_is_not_said() {
        assert_eq!(UsageTotals::default().words(), None);
        assert_eq!(
            UsageTotals {
                tokens: 12_345,
                cost: 0.42
            }
            .suffix(),
            " · 12.3k tokens · $0.42"
        );
        assert_eq!(
            UsageTotals::from(TurnUsage {
                tokens: None,
                cost: Some(0.5)
            })
            .suffix(),
            " · $0.50"
        );
    }
}
