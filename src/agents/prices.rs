//! What a turn probably cost, if its agent reports its tokens and no cost.
//!
//! Owns the table of prices: the built-in one (`assets/prices.yaml`), changed by the user's own. Does
//! not count tokens: that is what the agents do.
//!
//! # Invariants
//! - A turn is estimated once, when it ends. So a later change of the prices changes no journal, and
//!   every surface shows the same amount.
//! - Nothing is guessed: without a known model, a price for each kind of its tokens, or a table that
//!   can be read, the cost is unknown.
//! - No table is read before a turn needs one.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use crate::{
    agents::{Agent, AgentObserver, BoxFuture, PermissionRequest, TurnRequest},
    engine::{
        conversation::{AgentUpdate, ConversationMode, TokenKinds, TurnEnd, TurnFailure},
        policy::MODEL,
    },
    process::run::ProcessGroup,
};

const BUILT_IN: &str = include_str!("../../assets/prices.yaml");

/// Prices per this many tokens.
const MILLION: f64 = 1_000_000.0;

/// Why the user's own table cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PriceError {
    #[error("cannot read {}: {cause}", .path.display())]
    Unreadable { path: PathBuf, cause: io::Error },
    /// The YAML parser's message, with the line.
    #[error("{}: {message}", .path.display())]
    Malformed { path: PathBuf, message: String },
}

/// Prices by the names of models, some of them patterns.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceTable {
    /// When they were looked up.
    #[serde(default)]
    date: Option<String>,
    models: BTreeMap<String, PriceEntry>,
}

/// What a table says about a model.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(from = "Option<ModelPrices>")]
enum PriceEntry {
    Known(ModelPrices),
    /// The user removed its prices.
    Unknown,
}

impl From<Option<ModelPrices>> for PriceEntry {
    fn from(prices: Option<ModelPrices>) -> Self {
        prices.map_or(Self::Unknown, Self::Known)
    }
}

impl PriceEntry {
    const fn prices(self) -> Option<ModelPrices> {
        match self {
            Self::Known(prices) => Some(prices),
            Self::Unknown => None,
        }
    }
}

/// In dollars per million tokens. None: unknown.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelPrices {
    input: f64,
    output: f64,
    #[serde(default)]
    cache_read: Option<f64>,
    #[serde(default)]
    cache_write: Option<f64>,
}

impl ModelPrices {
    fn cost(self, kinds: TokenKinds) -> Option<f64> {
        let parts = [
            (kinds.input, Some(self.input)),
            (kinds.output, Some(self.output)),
            (kinds.cache_read, self.cache_read),
            (kinds.cache_write, self.cache_write),
        ];
        #[expect(clippy::cast_precision_loss, reason = "no turn has 2^53 tokens")]
        let cost = |(tokens, price): (u64, Option<f64>)| match tokens {
            0 => Some(0.0),
            tokens => Some(tokens as f64 * price? / MILLION),
        };
        parts.into_iter().map(cost).sum()
    }

    fn is_sensible(&self) -> bool {
        let cached = [self.cache_read, self.cache_write];
        [self.input, self.output]
            .into_iter()
            .chain(cached.into_iter().flatten())
            .all(|price| price.is_finite() && price >= 0.0)
    }
}

impl PriceTable {
    /// The user's own table. None if there is no such file.
    pub fn read(path: &Path) -> Result<Option<Self>, PriceError> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(cause) => {
                let path = path.to_owned();
                return Err(PriceError::Unreadable { path, cause });
            }
        };
        Self::parse(&text).map(Some).map_err(|message| {
            let path = path.to_owned();
            PriceError::Malformed { path, message }
        })
    }

    fn parse(text: &str) -> Result<Self, String> {
        let options = serde_yaml::options! {
            duplicate_keys: serde_yaml::DuplicateKeyPolicy::Error,
        };
        let table: Self = serde_yaml::from_str_with_options(text, options).map_err(|error| {
            let message = error.render();
            message.trim_start_matches("error: ").replace("<input>", "")
        })?;
        let wrong = table
            .models
            .iter()
            .find(|(_, entry)| entry.prices().is_some_and(|prices| !prices.is_sensible()));
        match wrong {
            Some((name, _)) => Err(format!(
                "the prices of `{name}` must be numbers from 0, in dollars per million tokens"
            )),
            None => Ok(table),
        }
    }

    /// The entry under the longest name that fits.
    fn entry(&self, model: &str) -> Option<PriceEntry> {
        let fits = |name: &&String| fast_glob::glob_match(name.to_lowercase(), model);
        let names = self.models.keys().filter(fits);
        // A name without a pattern is an exact one.
        let best = names.max_by_key(|name| (name.eq_ignore_ascii_case(model), name.len()))?;
        self.models.get(best).copied()
    }
}

static BUILT_IN_PRICES: LazyLock<PriceTable> =
    LazyLock::new(|| PriceTable::parse(BUILT_IN).expect("a test reads the built-in table"));

/// What a model's name can be in a table: as it is, and without what is not part of it in the
/// provider's API.
fn names(model: &str) -> impl Iterator<Item = String> {
    let whole = model.trim().to_lowercase();
    // `gpt-5.5[medium]`
    let bare = whole.split('[').next().unwrap_or_default().to_owned();
    // `openai/gpt-5.5`
    let short = bare.rsplit('/').next().unwrap_or_default().to_owned();
    let undated = without_date(&short).to_owned();
    [whole, bare, short, undated].into_iter()
}

/// Without a date at the end: `-20251001`, `-2025-10-01` or `@20251001`.
fn without_date(name: &str) -> &str {
    let digits = |text: &str, count| text.len() == count && is_number(text);
    let plain = name
        .rsplit_once(['-', '@'])
        .filter(|(_, date)| digits(date, 8));
    let parts: Vec<&str> = name.rsplitn(4, '-').collect();
    match (plain, &parts[..]) {
        (Some((name, _)), _) => name,
        (None, [day, month, year, name])
            if digits(day, 2) && digits(month, 2) && digits(year, 4) =>
        {
            name
        }
        (None, _) => name,
    }
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

/// What these tokens of a model cost. None if no price of it is known.
fn estimate(own: Option<&PriceTable>, model: &str, kinds: TokenKinds) -> Option<f64> {
    let tables = own.into_iter().chain([&*BUILT_IN_PRICES]);
    let mut found = tables.flat_map(|table| names(model).filter_map(|name| table.entry(&name)));
    found.next()?.prices()?.cost(kinds)
}

/// An agent whose turns get an estimate if it reports their tokens and not their cost.
pub(super) struct PricedAgent {
    agent: Box<dyn Agent>,
    /// The user's own table.
    own: Option<PathBuf>,
    /// The model in the agent's options.
    configured: Option<String>,
    /// The model that it named last.
    reported: Option<String>,
    has_warned: bool,
}

impl PricedAgent {
    pub(super) fn new(
        agent: Box<dyn Agent>,
        own: Option<PathBuf>,
        configured: Option<String>,
    ) -> Self {
        Self {
            agent,
            own,
            configured,
            reported: None,
            has_warned: false,
        }
    }

    /// The estimate of a turn, or why there cannot be one.
    fn estimate(&self, model: &str, kinds: TokenKinds) -> Result<Option<f64>, PriceError> {
        let own = self.own.as_deref().map(PriceTable::read).transpose()?;
        Ok(estimate(own.flatten().as_ref(), model, kinds))
    }

    async fn one_turn(
        &mut self,
        request: TurnRequest,
        updates: &mut dyn AgentObserver,
        cancel: &CancellationToken,
    ) -> Result<TurnEnd, TurnFailure> {
        if request.conversation == ConversationMode::New {
            self.reported = None;
        }
        let chosen = request.model.clone();
        let mut listener = ModelListener {
            updates,
            named: None,
        };
        let mut ended = self.agent.turn(request, &mut listener, cancel).await;
        let named = listener.named;
        // What the agent names in the turn is what it used. Otherwise creel's choice of this turn is
        // newer than what the agent named before.
        let model = named.clone().or(chosen).or_else(|| self.reported.clone());
        self.reported = named.or_else(|| self.reported.take());
        let Some(model) = model.or_else(|| self.configured.clone()) else {
            return ended;
        };
        let spent = match &mut ended {
            Ok(end) => &mut end.spent,
            Err(failure) => &mut failure.spent,
        };
        let (None, Some(kinds)) = (spent.cost, spent.token_kinds) else {
            return ended;
        };
        match self.estimate(&model, kinds) {
            Ok(cost) => spent.cost_estimated = cost,
            Err(error) if !self.has_warned => {
                self.has_warned = true;
                let text = format!(
                    "{error}\n  creel cannot estimate what turns cost. Correct the file or remove it"
                );
                updates.update(AgentUpdate::Warned(text)).await;
            }
            Err(_) => {}
        }
        ended
    }
}

impl Agent for PricedAgent {
    fn turn<'a>(
        &'a mut self,
        request: TurnRequest,
        updates: &'a mut dyn AgentObserver,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<TurnEnd, TurnFailure>> {
        Box::pin(self.one_turn(request, updates, cancel))
    }

    fn shutdown(&mut self) -> BoxFuture<'_, ()> {
        self.agent.shutdown()
    }
}

/// Passes everything on and notices the model.
struct ModelListener<'a> {
    updates: &'a mut dyn AgentObserver,
    named: Option<String>,
}

impl AgentObserver for ModelListener<'_> {
    fn update(&mut self, update: AgentUpdate) -> BoxFuture<'_, ()> {
        if let AgentUpdate::Noted { what, text } = &update
            && what == MODEL
        {
            self.named = Some(text.clone());
        }
        self.updates.update(update)
    }

    fn permission(&mut self, request: PermissionRequest) -> BoxFuture<'_, ()> {
        self.updates.permission(request)
    }

    fn process(&mut self, group: ProcessGroup) {
        self.updates.process(group);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: TokenKinds = TokenKinds {
        input: 1_000_000,
        output: 100_000,
        cache_read: 2_000_000,
        cache_write: 0,
    };

    fn own(text: &str) -> PriceTable {
        PriceTable::parse(text).expect("a table")
    }

    /// In thousandths of a cent: floats are not exact.
    fn amount(cost: Option<f64>) -> Option<String> {
        cost.map(|cost| format!("{cost:.5}"))
    }

    #[test]
    fn every_built_in_price_has_a_date_and_all_that_an_estimate_needs() {
        let table = &*BUILT_IN_PRICES;
        let date = table.date.as_deref().unwrap_or_default();
        assert!(date.parse::<jiff::civil::Date>().is_ok(), "{date}");
        for (name, prices) in &table.models {
            let prices = prices
                .prices()
                .unwrap_or_else(|| panic!("{name} has no prices"));
            let read = prices.cache_read.unwrap_or_else(|| panic!("{name}"));
            assert!(
                read < prices.input && prices.input < prices.output,
                "{name}"
            );
            if let Some(write) = prices.cache_write {
                assert!(
                    (prices.input..=prices.input * 1.25).contains(&write),
                    "{name}"
                );
            }
        }
    }

    #[test]
    fn a_model_is_found_by_the_names_that_agents_use() {
        let cost = |model: &str| amount(estimate(None, model, KINDS));
        let gpt = cost("gpt-5.5");
        assert_eq!(gpt.as_deref(), Some("9.00000"));
        for name in [
            "GPT-5.5",
            "gpt-5.5[medium]",
            "openai/gpt-5.5",
            "openrouter/openai/gpt-5.5",
            "gpt-5.5-2026-04-23",
        ] {
            assert_eq!(cost(name), gpt, "{name}");
        }
        let opus = cost("claude-opus-4-5");
        assert_eq!(opus.as_deref(), Some("8.50000"));
        assert_eq!(cost("claude-opus-4-5-20251101"), opus);
        assert_eq!(cost("claude-opus-4-8@20260301"), opus);
        assert_ne!(cost("claude-opus-4-20250514"), opus);
        for unknown in [
            "",
            "default",
            "opus",
            "gpt-5.5-pro",
            "gpt-5.6",
            "claude-opus-4-55",
            "gemini-2.5-pro-exp",
            "[",
        ] {
            assert_eq!(cost(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn the_users_own_prices_come_first_and_the_longest_name_counts() {
        let table = own(
            "date: 2026-12-01\nmodels:\n  gpt-5.5: { input: 1, output: 0, cache_read: 0 }\n  \
             'my-*': { input: 2, output: 0, cache_read: 0 }\n  my-big-*: { input: 3, output: 0, cache_read: 0 }\n  gpt-5: null\n",
        );
        let cost = |model: &str| amount(estimate(Some(&table), model, KINDS));
        assert_eq!(cost("gpt-5.5").as_deref(), Some("1.00000"));
        assert_eq!(cost("my-model").as_deref(), Some("2.00000"));
        assert_eq!(cost("my-big-model").as_deref(), Some("3.00000"));
        assert_eq!(cost("gpt-5"), None);
        assert_eq!(
            cost("gpt-5-codex"),
            amount(estimate(None, "gpt-5-codex", KINDS))
        );
    }

    #[test]
    fn tokens_without_a_price_make_the_cost_unknown() {
        let table = own("models: { m: { input: 1, output: 2 } }");
        let cost = |kinds| amount(estimate(Some(&table), "m", kinds));
        let plain = TokenKinds {
            cache_read: 0,
            ..KINDS
        };
        assert_eq!(cost(plain).as_deref(), Some("1.20000"));
        assert_eq!(cost(KINDS), None);
    }

    #[test]
    fn a_table_that_cannot_be_read_says_where_and_why() {
        let why = |text: &str| PriceTable::parse(text).expect_err("a mistake");
        assert!(why("models: { m: { input: 1, outptu: 2 } }").contains("outptu"));
        assert!(why("models: { m: { input: -1, output: 2 } }").contains("`m`"));
        assert!(why("models: { m: { input: .nan, output: 2 } }").contains("`m`"));
        let two = "models:\n  m: { input: 1, output: 2 }\n  m: { input: 1, output: 2 }\n";
        assert!(why(two).contains('3'), "{}", why(two));
        let missing = PriceTable::read(Path::new("/does/not/exist"));
        assert!(missing.is_ok_and(|table| table.is_none()));
        assert!(PriceTable::read(Path::new("/")).is_err());
    }
}
