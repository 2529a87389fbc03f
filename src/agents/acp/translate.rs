//! Translates an agent's updates into creel's types.
//!
//! Owns the meaning of every kind of update, and what is known about each tool call: agents send
//! titles, kinds and contents late, in parts, or without a start. Does not read anything: see
//! [`super::reader`].
//!
//! # Invariants
//! - An unknown kind becomes a note, never an error.
//! - The size of one call is bounded, and a repetition is not forwarded.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "the protocol's enums grow, and what is new must not be an error"
)]

use std::collections::{HashMap, HashSet, hash_map::Entry};

use agent_client_protocol::v1::schema as s;
use serde::Deserialize as _;
use serde_json::Value;

use super::options;
use crate::{
    agents::{
        INPUT_MAX, LONG_MAX, NOTE_MAX, OUTPUT_MAX, is_recorded_in_part, limited, limited_input,
        mcp_tools::ToolCallDetails, token_counts::TokenCounts, unified,
    },
    engine::{
        budget::ConversationUsage,
        conversation::{
            AgentUpdate, ContextUsage, FileLocation, PermissionOption, PermissionOptionKind,
            PlanEntry, StopReason, TokenKinds, ToolCall, ToolKind, ToolStatus, TurnUsage,
        },
        permission::tool_call::{self, files_in},
        policy::{MODEL, UsageScope},
        turn::{MODELS_NOTE, SOME_MODELS_NOTE},
    },
};

/// Bytes of an input that hooks get.
const WHOLE_MAX: usize = 8 << 20;
/// Bytes of the list of models.
const MODELS_MAX: usize = LONG_MAX;
/// Characters of a kind of update that creel does not know.
const KIND_MAX: usize = 64;
/// Whether the diffs of a call have the line numbers of their files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EditPlaces {
    Known,
    Unknown,
}

#[derive(Debug, Default)]
pub(super) struct AcpConversation {
    calls: HashMap<String, ToolCall>,
    /// What the agent reports about each call beyond the [`ToolCall`].
    details: HashMap<String, ToolCallDetails>,
    /// Calls that the agent has only announced: their titles say nothing yet.
    announced: HashSet<String>,
    /// Calls whose diffs have the line numbers of their files: later diffs of the agent do not.
    placed: HashSet<String>,
    /// The tokens of the sub-agent that each call started.
    delegated: HashMap<String, u64>,
    /// The last note of each kind, so that only changes are forwarded.
    notes: HashMap<String, String>,
    /// The cost of the conversation so far, as the agent reports it.
    cost: Option<f64>,
    /// The usage that was already attributed to earlier turns.
    pub(super) tally: ConversationUsage,
    /// Its tokens by kind, if these are all of them.
    tally_kinds: TokenKinds,
    /// The tokens of this turn so far, for agents that report them during the turn.
    in_turn: Option<u64>,
    /// The same by kind, if these are all of them.
    kinds_in_turn: TokenKinds,
    /// The options that the agent offers, with their current values. None until it lists them.
    options: Option<Vec<s::SessionConfigOption>>,
}

impl AcpConversation {
    /// Continues a conversation that has used this much already.
    pub(super) fn new(tally: ConversationUsage) -> Self {
        Self {
            tally,
            ..Self::default()
        }
    }

    pub(super) fn options(&self) -> &[s::SessionConfigOption] {
        self.options.as_deref().unwrap_or_default()
    }

    pub(super) const fn options_mut(&mut self) -> &mut Option<Vec<s::SessionConfigOption>> {
        &mut self.options
    }

    /// The agent's model and the models that it offers, as far as that is news.
    pub(super) fn models(&mut self) -> Vec<AgentUpdate> {
        let all = options::offered(self.options());
        let Some(model) = all.into_iter().find(|option| option.name == MODEL) else {
            return Vec::new();
        };
        let (mut names, mut what) = (String::new(), MODELS_NOTE);
        for name in model.values.iter().map(|value| value.name.as_str()) {
            if names.len() + name.len() >= MODELS_MAX {
                what = SOME_MODELS_NOTE;
                break;
            }
            names += name;
            names.push('\n');
        }
        let offered = self.news(what, names.trim_end().to_owned());
        let current = self.note(MODEL, &model.current);
        offered.into_iter().chain(current).collect()
    }

    /// Translates an update. Empty if it says nothing new.
    pub(super) fn update(&mut self, update: &Value) -> Vec<AgentUpdate> {
        let kind = update["sessionUpdate"].as_str().unwrap_or_default();
        match s::SessionUpdate::deserialize(update) {
            Ok(s::SessionUpdate::ConfigOptionUpdate(new)) => {
                self.options = Some(new.config_options);
                self.models()
            }
            Ok(typed) => self.typed(typed, kind, update).into_iter().collect(),
            Err(error) => {
                tracing::debug!("creel does not understand an update from the agent: {error}");
                self.unknown(kind, update).into_iter().collect()
            }
        }
    }

    /// The prefix keeps an agent from writing creel's own notes.
    fn unknown(&mut self, kind: &str, update: &Value) -> Option<AgentUpdate> {
        let kind: String = kind.chars().take(KIND_MAX).collect();
        self.note(&format!("unknown:{kind}"), &update.to_string())
    }

    fn typed(
        &mut self,
        update: s::SessionUpdate,
        kind: &str,
        value: &Value,
    ) -> Option<AgentUpdate> {
        match update {
            s::SessionUpdate::AgentMessageChunk(chunk) => {
                self.count(&value["_meta"]["usage"]);
                Some(text_of(&chunk.content))
                    .filter(|text| !text.is_empty())
                    .map(AgentUpdate::Message)
            }
            s::SessionUpdate::AgentThoughtChunk(chunk) => {
                self.count(&value["_meta"]["usage"]);
                Some(text_of(&chunk.content))
                    .filter(|text| !text.is_empty())
                    .map(AgentUpdate::Thought)
            }
            s::SessionUpdate::ToolCall(call) => self.called(call),
            s::SessionUpdate::ToolCallUpdate(call) => self.progressed(call),
            s::SessionUpdate::Plan(plan) => Some(AgentUpdate::Planned(
                plan.entries.iter().map(entry).collect(),
            )),
            s::SessionUpdate::UsageUpdate(usage) => {
                self.cost = usage.cost.map(|cost| cost.amount).or(self.cost);
                Some(AgentUpdate::Used(ContextUsage {
                    used: usage.used,
                    size: usage.size,
                }))
            }
            s::SessionUpdate::CurrentModeUpdate(mode) => {
                self.note("mode", &mode.current_mode_id.to_string())
            }
            // The prompt of creel, and commands for users of the agent's own screen.
            s::SessionUpdate::UserMessageChunk(_)
            | s::SessionUpdate::AvailableCommandsUpdate(_)
            | s::SessionUpdate::CompactionSummaryChunk(_) => None,
            // The title repeats the prompt.
            s::SessionUpdate::SessionInfoUpdate(_) => {
                error(value).and_then(|error| self.note("trouble", &error))
            }
            s::SessionUpdate::Notice(notice) => {
                let text = [Some(notice.title), notice.description]
                    .into_iter()
                    .flatten()
                    .collect::<Vec<_>>()
                    .join(": ");
                self.note("notice", &text)
            }
            s::SessionUpdate::CompactionUpdate(update) => self.compacts(&update),
            _ => self.unknown(kind, value),
        }
    }

    /// The agent makes room in its conversation.
    fn compacts(&mut self, update: &s::CompactionUpdate) -> Option<AgentUpdate> {
        let text = match update.status {
            s::CompactionStatus::InProgress => "the agent summarizes its conversation",
            s::CompactionStatus::Completed => "the agent continues with a summary",
            _ => "the agent could not summarize its conversation",
        };
        self.note("compaction", text)
    }

    /// Some agents report the usage of each model request, and nothing at the end.
    fn count(&mut self, usage: &Value) {
        let number = |name: &str| usage[name].as_u64();
        let both =
            || Some(number("inputTokens")?.saturating_add(number("outputTokens").unwrap_or(0)));
        if let Some(tokens) = number("totalTokens").or_else(both) {
            self.in_turn = Some(self.in_turn.unwrap_or(0).saturating_add(tokens));
            let kinds = kinds_of(usage, tokens).unwrap_or_default();
            self.kinds_in_turn = self.kinds_in_turn.plus(kinds);
        }
    }

    fn note(&mut self, what: &str, text: &str) -> Option<AgentUpdate> {
        self.news(what, limited(text, NOTE_MAX))
    }

    fn news(&mut self, what: &str, text: String) -> Option<AgentUpdate> {
        if text.is_empty() || self.notes.get(what) == Some(&text) {
            return None;
        }
        self.notes.insert(what.to_owned(), text.clone());
        Some(AgentUpdate::Noted {
            what: what.to_owned(),
            text,
        })
    }

    fn called(&mut self, call: s::ToolCall) -> Option<AgentUpdate> {
        let fields = s::ToolCallUpdateFields::new()
            .kind(call.kind)
            .status(call.status)
            .title(call.title)
            .name(call.name)
            .content(call.content)
            .locations(call.locations)
            .raw_input(call.raw_input)
            .raw_output(call.raw_output);
        self.learn(&call.tool_call_id, fields, call.meta.as_ref())
    }

    fn progressed(&mut self, call: s::ToolCallUpdate) -> Option<AgentUpdate> {
        self.learn(&call.tool_call_id, call.fields, call.meta.as_ref())
    }

    fn learn(
        &mut self,
        id: &s::ToolCallId,
        fields: s::ToolCallUpdateFields,
        meta: Option<&s::Meta>,
    ) -> Option<AgentUpdate> {
        let delegated = meta.and_then(subagent_tokens);
        self.delegated
            .extend(delegated.map(|tokens| (id.to_string(), tokens)));
        let details = self.details.entry(id.to_string()).or_default();
        learn_details(details, &fields, meta);
        let name = details.name.clone();
        match self.calls.entry(id.to_string()) {
            Entry::Vacant(place) => {
                let mut call = ToolCall {
                    call: id.to_string(),
                    title: "a tool".to_owned(),
                    name,
                    ..ToolCall::default()
                };
                let is_announced = is_announcement(&fields);
                take_in(&mut call, fields, meta);
                let call = place.insert(call).clone();
                if is_announced {
                    self.announced.insert(id.to_string());
                    return None;
                }
                Some(AgentUpdate::ToolCalled(call))
            }
            Entry::Occupied(mut place) => {
                let before = place.get().clone();
                take_in(place.get_mut(), fields, meta);
                place.get_mut().name = name;
                if self.placed.contains(&*id.0) {
                    place.get_mut().diff.clone_from(&before.diff);
                }
                if self.announced.remove(&id.to_string()) {
                    return Some(AgentUpdate::ToolCalled(place.get().clone()));
                }
                (before != *place.get()).then(|| AgentUpdate::ToolUpdated(place.get().clone()))
            }
        }
    }

    /// The call that a permission request is about, as far as it is known.
    /// The flag says whether it was only announced so far.
    pub(super) fn asked(
        &mut self,
        call: s::ToolCallUpdate,
        places: EditPlaces,
    ) -> (ToolCall, ToolCallDetails, bool) {
        let id = call.tool_call_id.to_string();
        let was_announced = self.announced.remove(&id);
        self.learn(&call.tool_call_id, call.fields, call.meta.as_ref());
        if places == EditPlaces::Known {
            self.placed.insert(id.clone());
        }
        (
            self.calls.get(&id).cloned().unwrap_or_default(),
            self.details.get(&id).cloned().unwrap_or_default(),
            was_announced,
        )
    }

    pub(super) fn has_calls(&self) -> bool {
        !self.calls.is_empty()
    }

    /// Begins a turn: calls of the last one get no more updates.
    pub(super) fn next_turn(&mut self) {
        self.calls.clear();
        self.details.clear();
        self.announced.clear();
        self.placed.clear();
        self.delegated.clear();
        self.in_turn = None;
        self.kinds_in_turn = TokenKinds::default();
    }

    /// The usage of the turn, including what the agent reported before its end.
    pub(super) fn spent(&mut self, response: &s::PromptResponse, about: UsageScope) -> TurnUsage {
        let delegated: u64 = self.delegated.values().sum();
        let own = reported_tokens(response).or(self.in_turn);
        // What an agent reports for each model includes its sub-agents.
        let reported = own
            .map(|own| own.saturating_add(delegated))
            .max(tokens_of_models(response));
        // The agent's counter can have restarted together with its process.
        let tokens = match about {
            UsageScope::Turn | UsageScope::Call => reported,
            UsageScope::Conversation => {
                reported.map(|all| all.checked_sub(self.tally.tokens).unwrap_or(all))
            }
        };
        // Sub-agents whose tokens have no kinds make those of the turn unknown.
        let kinds = reported_kinds(response)
            .or_else(|| self.in_turn.map(|_| self.kinds_in_turn))
            .filter(|kinds| Some(kinds.total()) == reported);
        let is_continued = reported.is_some_and(|all| all >= self.tally.tokens);
        let of_turn = match about {
            UsageScope::Call => None,
            UsageScope::Conversation if is_continued => {
                kinds.and_then(|kinds| kinds.since(self.tally_kinds))
            }
            UsageScope::Turn | UsageScope::Conversation => kinds,
        };
        let token_kinds = of_turn.filter(|kinds| Some(kinds.total()) == tokens);
        if about == UsageScope::Conversation && reported.is_some() {
            self.tally_kinds = kinds.unwrap_or_default();
        }
        let cost = self.cost.map(|all| {
            if all >= self.tally.cost {
                all - self.tally.cost
            } else {
                all
            }
        });
        self.tally = ConversationUsage {
            tokens: match about {
                UsageScope::Turn | UsageScope::Call => {
                    self.tally.tokens.saturating_add(tokens.unwrap_or(0))
                }
                UsageScope::Conversation => reported.unwrap_or(self.tally.tokens),
            },
            cost: self.cost.unwrap_or(self.tally.cost),
        };
        TurnUsage {
            tokens,
            cost,
            token_kinds,
            cost_estimated: None,
        }
    }
}

/// Whether a call has nothing but a general title: some agents send what it is about with the next
/// update.
fn is_announcement(fields: &s::ToolCallUpdateFields) -> bool {
    let says_nothing = |input: &Value| {
        let keys = input.as_object().map(|fields| fields.keys());
        keys.is_some_and(|mut keys| keys.all(|key| key == "cwd"))
    };
    fields.status == Some(s::ToolCallStatus::Pending)
        && fields.content.as_ref().is_none_or(Vec::is_empty)
        && fields.locations.as_ref().is_none_or(Vec::is_empty)
        && fields.raw_input.as_ref().is_some_and(says_nothing)
}

fn learn_details(
    details: &mut ToolCallDetails,
    fields: &s::ToolCallUpdateFields,
    meta: Option<&s::Meta>,
) {
    if let Some(meta) = meta {
        details.learn_meta(meta);
    }
    if let Some(name) = &fields.name {
        details.name = Some(limited(name, NOTE_MAX));
    }
    details.shortened |= fields
        .title
        .as_ref()
        .is_some_and(|title| is_recorded_in_part(title, NOTE_MAX));
    if let Some(input) = &fields.raw_input {
        details.learn_input(input);
        // The limit applies to the input as shown, which has more spaces.
        details.shortened |= is_recorded_in_part(&format!("{input:#}"), INPUT_MAX);
        let whole = details.shortened.then(|| input.to_string());
        details.whole = whole.filter(|text| text.len() <= WHOLE_MAX);
    }
}

fn take_in(call: &mut ToolCall, fields: s::ToolCallUpdateFields, meta: Option<&s::Meta>) {
    if let Some(title) = fields.title.filter(|title| !title.trim().is_empty()) {
        call.title = limited(&title, NOTE_MAX);
    }
    if let Some(kind) = fields.kind {
        call.kind = Some(tool_kind(kind));
    }
    if let Some(status) = fields.status {
        call.status = tool_status(status);
    }
    if let Some(locations) = fields.locations.filter(|locations| !locations.is_empty()) {
        let place = |l: &s::ToolCallLocation| FileLocation {
            path: l.path.display().to_string(),
            line: l.line,
        };
        call.locations = locations.iter().map(place).collect();
    }
    let named = fields.raw_input.as_ref().map(files_in).unwrap_or_default();
    if let Some(input) = fields.raw_input {
        arguments(call, input);
    }
    let content = fields.content.unwrap_or_default();
    // Long arguments are recorded without their end.
    let read = files_in(&tool_call::input(call));
    let places = call.locations.iter().map(|place| &place.path);
    let known: Vec<String> = places.chain(&read).chain(&call.files).cloned().collect();
    let changed = content.iter().filter_map(changed_file);
    let new = named.into_iter().chain(changed);
    call.files.extend(new.filter(|file| !known.contains(file)));
    let diffs: String = content.iter().filter_map(diff).collect();
    if !diffs.is_empty() {
        call.diff = Some(limited(&diffs, LONG_MAX));
    }
    let printed = content
        .iter()
        .filter_map(printed)
        .collect::<Vec<_>>()
        .join("\n");
    let delta = meta
        .and_then(|meta| meta.get("terminal_output_delta"))
        .and_then(|delta| delta["data"].as_str());
    if !printed.is_empty() {
        call.output = Some(limited(&printed, OUTPUT_MAX));
    } else if let Some(delta) = delta {
        let before = call.output.take().unwrap_or_default();
        call.output = Some(limited(&(before + delta), OUTPUT_MAX));
    } else if let Some(output) = fields.raw_output.as_ref().and_then(raw_text) {
        call.output = Some(limited(output, OUTPUT_MAX));
    }
}

/// Sets the arguments of a call. A diff is shown as a diff, and a command is part of the title,
/// because the user decides by them.
fn arguments(call: &mut ToolCall, mut input: Value) {
    if let Some(fields) = input.as_object_mut() {
        if let Some(diff) = fields.get("diff").and_then(Value::as_str) {
            call.diff.get_or_insert_with(|| limited(diff, LONG_MAX));
            fields.remove("diff");
        }
        let command = fields.get("command").and_then(Value::as_str);
        if let Some(command) = command.filter(|line| !call.title.contains(*line)) {
            // One word is only the name of a tool that runs commands.
            let is_name = !call.title.contains(char::is_whitespace);
            call.title = if is_name && call.kind == Some(ToolKind::Execute) {
                limited(command, NOTE_MAX)
            } else {
                limited(&format!("{}: {command}", call.title), NOTE_MAX)
            };
        }
        if fields.is_empty() {
            return;
        }
    }
    call.input = Some(limited_input(&input));
}

fn raw_text(output: &Value) -> Option<&str> {
    output
        .as_str()
        .or_else(|| output["output"].as_str())
        .filter(|text| !text.is_empty())
}

fn changed_file(content: &s::ToolCallContent) -> Option<String> {
    let s::ToolCallContent::Diff(diff) = content else {
        return None;
    };
    Some(diff.path.display().to_string())
}

fn diff(content: &s::ToolCallContent) -> Option<String> {
    let s::ToolCallContent::Diff(diff) = content else {
        return None;
    };
    Some(unified(
        &diff.path.display().to_string(),
        diff.old_text.as_deref().unwrap_or_default(),
        &diff.new_text,
    ))
}

fn printed(content: &s::ToolCallContent) -> Option<String> {
    match content {
        s::ToolCallContent::Content(content) => {
            Some(text_of(&content.content)).filter(|text| !text.is_empty())
        }
        _ => None,
    }
}

fn text_of(content: &s::ContentBlock) -> String {
    match content {
        s::ContentBlock::Text(text) => text.text.clone(),
        s::ContentBlock::Image(_) => "[image]".to_owned(),
        s::ContentBlock::Audio(_) => "[audio]".to_owned(),
        s::ContentBlock::ResourceLink(link) => format!("[{}]", link.uri),
        _ => "[resource]".to_owned(),
    }
}

fn entry(entry: &s::PlanEntry) -> PlanEntry {
    let status = match entry.status {
        s::PlanEntryStatus::InProgress => ToolStatus::InProgress,
        s::PlanEntryStatus::Completed => ToolStatus::Completed,
        _ => ToolStatus::Pending,
    };
    PlanEntry {
        content: limited(&entry.content, NOTE_MAX),
        status,
    }
}

/// The error that some agents report while they retry a request to their model.
fn error(update: &Value) -> Option<String> {
    let mut errors = update["_meta"]
        .as_object()?
        .values()
        .filter_map(|theirs| theirs.get("error"));
    let text = |error: &Value| {
        let parts = [&error["message"], &error["additionalDetails"]]
            .into_iter()
            .filter_map(Value::as_str);
        Some(parts.collect::<Vec<_>>().join(": ")).filter(|text| !text.is_empty())
    };
    errors.find_map(text)
}

fn tool_kind(kind: s::ToolKind) -> ToolKind {
    match kind {
        s::ToolKind::Read => ToolKind::Read,
        s::ToolKind::Edit => ToolKind::Edit,
        s::ToolKind::Delete => ToolKind::Delete,
        s::ToolKind::Move => ToolKind::Move,
        s::ToolKind::Search => ToolKind::Search,
        s::ToolKind::Execute => ToolKind::Execute,
        s::ToolKind::Think => ToolKind::Think,
        s::ToolKind::Fetch => ToolKind::Fetch,
        s::ToolKind::SwitchMode => ToolKind::SwitchMode,
        _ => ToolKind::Other,
    }
}

fn tool_status(status: s::ToolCallStatus) -> ToolStatus {
    match status {
        s::ToolCallStatus::InProgress => ToolStatus::InProgress,
        s::ToolCallStatus::Completed => ToolStatus::Completed,
        s::ToolCallStatus::Failed => ToolStatus::Failed,
        _ => ToolStatus::Pending,
    }
}

pub(super) fn options(options: Vec<s::PermissionOption>) -> Vec<PermissionOption> {
    let one = |option: s::PermissionOption| {
        let kind = match option.kind {
            s::PermissionOptionKind::AllowOnce => PermissionOptionKind::AllowOnce,
            s::PermissionOptionKind::AllowAlways => PermissionOptionKind::AllowAlways,
            s::PermissionOptionKind::RejectAlways => PermissionOptionKind::RejectAlways,
            // An unknown kind is certainly not a plain yes.
            _ => PermissionOptionKind::RejectOnce,
        };
        PermissionOption {
            id: option.option_id.to_string(),
            name: option.name,
            kind,
        }
    };
    options.into_iter().map(one).collect()
}

pub(super) fn stop_reason(reason: s::StopReason) -> StopReason {
    match reason {
        s::StopReason::MaxTokens => StopReason::MaxTokens,
        s::StopReason::MaxTurnRequests => StopReason::MaxTurnRequests,
        s::StopReason::Refusal => StopReason::Refusal,
        s::StopReason::Cancelled => StopReason::Cancelled,
        _ => StopReason::EndTurn,
    }
}

/// The tokens that a sub-agent has used, as the call that started it reports them.
fn subagent_tokens(meta: &s::Meta) -> Option<u64> {
    meta.get("claudeCode")?["toolResponse"]["totalTokens"].as_u64()
}

/// The tokens of the turn, added up over all models.
fn tokens_of_models(response: &s::PromptResponse) -> Option<u64> {
    let quota = response.meta.as_ref()?.get("quota")?;
    let models = quota["model_usage"].as_array()?.iter();
    let counts = models.filter_map(|model| {
        let count = |name: &str| model["token_count"][name].as_u64();
        let both = || Some(count("input_tokens")?.saturating_add(count("output_tokens")?));
        count("totalTokens").or_else(both)
    });
    counts.reduce(u64::saturating_add)
}

/// The kinds of tokens, from the field that has their count.
fn reported_kinds(response: &s::PromptResponse) -> Option<TokenKinds> {
    if let Some(usage) = &response.usage {
        let counts = TokenCounts {
            total: usage.total_tokens,
            input: usage.input_tokens,
            output: usage.output_tokens,
            cache_read: usage.cached_read_tokens,
            cache_write: usage.cached_write_tokens,
            thoughts: usage.thought_tokens,
        };
        return counts.kinds();
    }
    let count = &response.meta.as_ref()?.get("quota")?["token_count"];
    kinds_of(count, count["totalTokens"].as_u64()?)
}

/// The kinds of tokens in one of the fields that agents use instead of the protocol's.
fn kinds_of(usage: &Value, total: u64) -> Option<TokenKinds> {
    let count = |names: &[&str]| names.iter().find_map(|name| usage[*name].as_u64());
    let counts = TokenCounts {
        total,
        input: count(&["inputTokens"])?,
        output: count(&["outputTokens"])?,
        cache_read: count(&["cachedReadTokens", "cachedInputTokens"]),
        cache_write: count(&["cachedWriteTokens", "cacheWriteInputTokens"]),
        thoughts: count(&["thoughtTokens", "reasoningOutputTokens"]),
    };
    counts.kinds()
}

/// The tokens of the turn: from the protocol's field, or from the fields that some agents use
/// instead.
fn reported_tokens(response: &s::PromptResponse) -> Option<u64> {
    let elsewhere = response
        .meta
        .as_ref()
        .and_then(|meta| meta.get("quota"))
        .map(|quota| &quota["token_count"]);
    let count = |name: &str| elsewhere.and_then(|count| count[name].as_u64());
    let sum = || match (count("input_tokens"), count("output_tokens")) {
        (None, None) => None,
        (input, output) => Some(input.unwrap_or(0).saturating_add(output.unwrap_or(0))),
    };
    response
        .usage
        .as_ref()
        .map(|usage| usage.total_tokens)
        .or_else(|| count("totalTokens"))
        .or_else(sum)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn reported(updates: &[Value]) -> Vec<AgentUpdate> {
        let mut book = AcpConversation::default();
        updates
            .iter()
            .flat_map(|update| book.update(update))
            .collect()
    }

    #[test]
    fn a_call_is_shown_when_it_says_what_it_is_about_and_repetitions_are_not_passed_on() {
        let updates = reported(&[
            json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Preparing…", "name": "Write", "kind": "edit", "rawInput": {}}),
            json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "Write a.py",
                "locations": [{"path": "/p/a.py", "line": 3}],
                "content": [{"type": "diff", "path": "/p/a.py", "oldText": "a\n", "newText": "b\n"}]}),
            json!({"sessionUpdate": "tool_call_update", "toolCallId": "c"}),
            json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed", "rawOutput": "ok"}),
            json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed", "rawOutput": "ok"}),
        ]);
        let [
            AgentUpdate::ToolCalled(first),
            AgentUpdate::ToolUpdated(last),
        ] = &updates[..]
        else {
            panic!("{updates:?}")
        };
        assert_eq!(
            (first.title.as_str(), first.kind, first.name.as_deref()),
            ("Write a.py", Some(ToolKind::Edit), Some("Write"))
        );
        assert_eq!(
            first.locations,
            [FileLocation {
                path: "/p/a.py".into(),
                line: Some(3)
            }]
        );
        assert!(
            first
                .diff
                .as_deref()
                .is_some_and(|diff| diff.contains("-a\n+b")),
            "{:?}",
            first.diff
        );
        assert_eq!(
            (last.status, last.output.as_deref()),
            (ToolStatus::Completed, Some("ok"))
        );
        assert_eq!(
            (last.title.as_str(), &last.diff),
            ("Write a.py", &first.diff)
        );
    }

    #[test]
    fn a_command_is_shown_as_it_is_and_not_by_the_name_of_its_tool() {
        let bash = |more: Value| {
            let mut update =
                json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "name": "Bash"});
            let fields = update.as_object_mut().expect("an object");
            fields.extend(more.as_object().cloned().unwrap_or_default());
            update
        };
        let start = json!({"sessionUpdate": "tool_call", "title": "Terminal", "kind": "execute", "status": "pending", "rawInput": {}});
        for rest in [
            json!({"title": "cargo test", "rawInput": {"command": "cargo test"}}),
            json!({"rawInput": {"command": "cargo test"}}),
        ] {
            let updates = reported(&[bash(start.clone()), bash(rest)]);
            let titles: Vec<&str> = updates
                .iter()
                .map(|update| match update {
                    AgentUpdate::ToolCalled(call) => call.title.as_str(),
                    other => panic!("{other:?}"),
                })
                .collect();
            assert_eq!(titles, ["cargo test"]);
        }
    }

    #[test]
    fn the_tokens_of_sub_agents_count() {
        let used = |updates: &[Value], response: Value| {
            let mut book = AcpConversation::default();
            for update in updates {
                book.update(update);
            }
            let response = s::PromptResponse::deserialize(response).expect("a response");
            book.spent(&response, UsageScope::Turn).tokens
        };
        let usage = json!({"totalTokens": 240, "inputTokens": 200, "outputTokens": 40});
        let agent = |tokens: u64| {
            json!({"sessionUpdate": "tool_call_update", "toolCallId": "a", "_meta": {"claudeCode": {"toolName": "Agent",
                "toolResponse": {"status": "completed", "totalTokens": tokens, "totalToolUseCount": 2}}}})
        };
        let response = json!({"stopReason": "end_turn", "usage": usage});
        assert_eq!(used(&[agent(100), agent(100)], response), Some(340));
        let count = |tokens: u64| json!({"model": "m", "token_count": {"totalTokens": tokens}});
        let response = json!({"stopReason": "end_turn", "usage": usage,
            "_meta": {"quota": {"token_count": {"totalTokens": 240}, "model_usage": [count(300), count(60)]}}});
        assert_eq!(used(&[agent(100)], response), Some(360));
        let response = json!({"stopReason": "end_turn", "usage": usage, "_meta": {"quota": {"model_usage": []}}});
        assert_eq!(used(&[], response), Some(240));
    }

    #[test]
    fn tokens_have_kinds_if_all_of_them_do() {
        let mut book = AcpConversation::default();
        let mut kinds = |usage: Value, about: UsageScope| {
            let response = json!({"stopReason": "end_turn", "usage": usage});
            let response = s::PromptResponse::deserialize(response).expect("a response");
            let kinds = book.spent(&response, about).token_kinds?;
            Some((
                kinds.input,
                kinds.output,
                kinds.cache_read,
                kinds.cache_write,
            ))
        };
        let usage = |total: u64, read: u64| {
            json!({"totalTokens": total, "inputTokens": 200, "outputTokens": 40,
                "cachedReadTokens": read, "cachedWriteTokens": 0, "thoughtTokens": 5})
        };
        let turn = UsageScope::Turn;
        assert_eq!(
            kinds(usage(240, 150), turn),
            Some((50, 40, 150, 0)),
            "as codex counts"
        );
        assert_eq!(
            kinds(usage(390, 150), turn),
            Some((200, 40, 150, 0)),
            "as claude counts"
        );
        assert_eq!(kinds(usage(300, 150), turn), None, "it does not add up");
        let uncached = json!({"totalTokens": 240, "inputTokens": 200, "outputTokens": 40});
        assert_eq!(kinds(uncached, turn), None, "the cache is not known");
        let call = UsageScope::Call;
        assert_eq!(
            kinds(usage(240, 150), call),
            None,
            "other calls are not known"
        );

        let mut book = AcpConversation::default();
        let mut of_conversation = |input: u64, read: u64| {
            let usage = json!({"totalTokens": input + 40, "inputTokens": input, "outputTokens": 40,
                "cachedReadTokens": read});
            let response = json!({"stopReason": "end_turn", "usage": usage});
            let response = s::PromptResponse::deserialize(response).expect("a response");
            let spent = book.spent(&response, UsageScope::Conversation);
            let kinds = spent
                .token_kinds
                .map(|kinds| (kinds.input, kinds.cache_read));
            (spent.tokens, kinds)
        };
        assert_eq!(of_conversation(200, 150), (Some(240), Some((50, 150))));
        assert_eq!(of_conversation(500, 400), (Some(300), Some((50, 250))));
    }

    #[test]
    fn a_diff_with_line_numbers_is_not_replaced_by_one_without() {
        let mut book = AcpConversation::default();
        let diff =
            |old: &str| json!([{"type": "diff", "path": "a", "oldText": old, "newText": "new\n"}]);
        let asked: s::ToolCallUpdate =
            serde_json::from_value(json!({"toolCallId": "c", "content": diff("1\n2\n3\n")}))
                .expect("a call");
        let (call, ..) = book.asked(asked, EditPlaces::Known);
        let update = json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed", "content": diff("3\n")});
        let updates = book.update(&update);
        let [AgentUpdate::ToolUpdated(after)] = updates.as_slice() else {
            panic!("an update")
        };
        assert_eq!(
            (after.status, &after.diff),
            (ToolStatus::Completed, &call.diff)
        );
    }

    #[test]
    fn a_call_that_was_never_announced_begins_with_its_first_update() {
        let updates = reported(&[
            json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "in_progress"}),
        ]);
        assert!(
            matches!(&updates[..], [AgentUpdate::ToolCalled(call)] if call.status == ToolStatus::InProgress)
        );
    }

    fn noted(what: &str, text: &str) -> AgentUpdate {
        AgentUpdate::Noted {
            what: what.into(),
            text: text.into(),
        }
    }

    /// An update that offers these models and has the first of them.
    fn offers(models: &[String]) -> Value {
        let options: Vec<Value> = models
            .iter()
            .map(|model| json!({"value": model, "name": model}))
            .collect();
        json!({"sessionUpdate": "config_option_update", "configOptions": [
            {"id": "model", "name": "Model", "type": "select", "currentValue": models[0], "options": options},
        ]})
    }

    #[test]
    fn a_list_of_models_and_the_current_one_can_change_together() {
        let (old, new) = (["a".to_owned()], ["b".to_owned(), "c".to_owned()]);
        assert_eq!(
            reported(&[offers(&old), offers(&new)]),
            [
                noted("models", "a"),
                noted("model", "a"),
                noted("models", "b\nc"),
                noted("model", "b"),
            ]
        );
    }

    #[test]
    fn a_list_of_models_that_is_too_long_loses_whole_lines_and_says_that_it_is_not_complete() {
        for (count, is_complete) in [(150, true), (2_000, false)] {
            let models: Vec<String> = (0..count)
                .map(|n| format!("provider/model-{n:05}"))
                .collect();
            let updates = reported(&[offers(&models)]);
            let Some(AgentUpdate::Noted { what, text }) = updates.first() else {
                panic!("{updates:?}");
            };
            assert_eq!(what == "models", is_complete, "{what}");
            assert!(text.lines().eq(models.iter().take(text.lines().count())));
            assert_eq!(text.lines().count() == count, is_complete);
        }
    }

    #[test]
    fn an_agent_cannot_write_creels_own_notes() {
        let updates = reported(&[
            json!({"sessionUpdate": "model", "x": 1}),
            json!({"sessionUpdate": "silence"}),
        ]);
        for update in updates {
            assert!(
                matches!(&update, AgentUpdate::Noted { what, .. } if what.starts_with("unknown:")),
                "{update:?}"
            );
        }
    }

    #[test]
    fn what_matters_is_reported_and_an_unknown_kind_is_kept() {
        let updates = reported(&[
            json!({"sessionUpdate": "plan", "entries": [{"content": "a", "priority": "high", "status": "completed"}]}),
            json!({"sessionUpdate": "usage_update", "used": 5, "size": 10, "cost": {"amount": 0.5, "currency": "USD"}}),
            json!({"sessionUpdate": "current_mode_update", "currentModeId": "plan"}),
            json!({"sessionUpdate": "available_commands_update", "availableCommands": [{"name": "a", "description": ""}]}),
            json!({"sessionUpdate": "session_info_update", "title": "A title"}),
            json!({"sessionUpdate": "session_info_update", "_meta": {"busy": true}}),
            json!({"sessionUpdate": "from_the_future", "x": 1}),
            json!({"sessionUpdate": "plan", "entries": 7}),
            json!(null),
        ]);
        assert_eq!(
            updates[0],
            AgentUpdate::Planned(vec![PlanEntry {
                content: "a".into(),
                status: ToolStatus::Completed
            }])
        );
        assert_eq!(
            updates[1],
            AgentUpdate::Used(ContextUsage { used: 5, size: 10 })
        );
        assert_eq!(updates[2], noted("mode", "plan"));
        assert!(
            matches!(&updates[3], AgentUpdate::Noted { what, text } if what == "unknown:from_the_future" && text.contains("\"x\":1"))
        );
    }
}
