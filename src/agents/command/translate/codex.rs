//! Translates the output of Codex: `codex exec --json`.
//!
//! The stream is a thread with items that start and complete, and ends with `turn.completed` or
//! `turn.failed`. An `error` before that is not the end: Codex retries.

use serde_json::Value;

use super::ToolCallEnd;
use super::{
    ReportedUsage, StreamEnd, StreamOutcome, StreamTranslator, TranslatedOutput, list, number,
    text, tools,
};
use crate::engine::conversation::{
    FileLocation, PlanEntry, StopReason, TokenKinds, ToolCall, ToolKind, ToolStatus, TurnUsage,
};

pub(in crate::agents::command) struct CodexTranslator {
    before: Option<ReportedUsage>,
    end: StreamEnd,
}

impl CodexTranslator {
    pub(in crate::agents::command) fn new(before: Option<ReportedUsage>) -> Self {
        Self {
            before,
            end: StreamEnd::default(),
        }
    }

    /// Codex counts over all turns of a thread. After a restart creel does not know the previous
    /// count, and reports no usage rather than too much.
    fn count(&mut self, line: &Value) {
        let tokens = number(line, "/usage/input_tokens")
            .saturating_add(number(line, "/usage/output_tokens"));
        let kinds = kinds(&line["usage"]);
        // The count can have begun again.
        let is_continued = |before: &ReportedUsage| before.tokens <= tokens;
        let before = self
            .before
            .map(|before| Some(before).filter(is_continued).unwrap_or_default());
        let spent = before.map(|before| tokens - before.tokens);
        let of_turn = before.and_then(|before| kinds?.since(before.kinds));
        self.end.spent = TurnUsage {
            tokens: spent,
            token_kinds: of_turn.filter(|kinds| Some(kinds.total()) == spent),
            ..TurnUsage::UNKNOWN
        };
        self.end.tally = Some(ReportedUsage {
            tokens,
            cost: 0.0,
            kinds: kinds.unwrap_or_default(),
        });
    }

    fn error(&mut self, message: &str, updates: &mut TranslatedOutput) {
        if message.starts_with("Reconnecting") {
            updates.note("retry", message);
        }
        self.end.complaint = Some(message.to_owned());
    }
}

impl StreamTranslator for CodexTranslator {
    fn line(&mut self, line: &Value, updates: &mut TranslatedOutput) -> Option<()> {
        match text(line, "/type")? {
            "thread.started" => updates.opened(text(line, "/thread_id")?),
            "turn.started" => {}
            "item.started" => started(line.get("item")?, updates)?,
            "item.updated" => plan(line.get("item")?, updates),
            "item.completed" => completed(line.get("item")?, updates)?,
            "turn.completed" => {
                self.count(line);
                self.end.verdict = StreamOutcome::Ended(StopReason::EndTurn);
            }
            "turn.failed" => {
                let words = text(line, "/error/message").unwrap_or("it gave no reason");
                self.end.verdict = StreamOutcome::Failed(words.to_owned());
            }
            "error" => self.error(text(line, "/message")?, updates),
            _ => return None,
        }
        Some(())
    }

    fn end(self: Box<Self>) -> StreamEnd {
        self.end
    }
}

/// Cached tokens are a part of the input, and reasoning of the output.
fn kinds(usage: &Value) -> Option<TokenKinds> {
    let count = |key: &str| usage[key].as_u64();
    let cache_read = count("cached_input_tokens")?;
    let cache_write = count("cache_write_input_tokens").unwrap_or(0);
    let input = count("input_tokens")?.checked_sub(cache_read)?;
    Some(TokenKinds {
        input: input.checked_sub(cache_write)?,
        output: count("output_tokens")?,
        cache_read,
        cache_write,
    })
}

fn started(item: &Value, updates: &mut TranslatedOutput) -> Option<()> {
    match call(item) {
        Some(call) => updates.began(call),
        None => plan(item, updates),
    }
    is_known(item)
}

fn completed(item: &Value, updates: &mut TranslatedOutput) -> Option<()> {
    let words = text(item, "/text").unwrap_or_default();
    match text(item, "/type")? {
        "agent_message" => updates.message(words),
        "reasoning" => updates.think(words),
        "error" => updates.quote(text(item, "/message")?),
        "todo_list" => plan(item, updates),
        _ => {
            let call = call(item)?;
            let ending = ToolCallEnd {
                status: status(item),
                output: printed(item),
                diff: None,
            };
            if updates.is_open(&call.call) {
                updates.ended(&call.call, ending);
            } else {
                updates.happened(call, ending);
            }
        }
    }
    Some(())
}

/// Items that are known, but contain nothing before they are completed.
fn is_known(item: &Value) -> Option<()> {
    let known = ["agent_message", "reasoning", "error", "todo_list"];
    (call(item).is_some() || known.contains(&text(item, "/type")?)).then_some(())
}

fn call(item: &Value) -> Option<ToolCall> {
    let id = text(item, "/id")?;
    Some(match text(item, "/type")? {
        "command_execution" => {
            let command = text(item, "/command").unwrap_or_default();
            let title = unwrapped(command);
            ToolCall {
                call: id.into(),
                title,
                kind: Some(ToolKind::Execute),
                input: Some(command.into()),
                ..ToolCall::default()
            }
        }
        "file_change" => file_change(id, item),
        "web_search" => {
            let title = format!("web search {}", text(item, "/query").unwrap_or_default());
            ToolCall {
                call: id.into(),
                title,
                kind: Some(ToolKind::Fetch),
                ..ToolCall::default()
            }
        }
        "mcp_tool_call" => {
            let (server, tool) = (
                text(item, "/server").unwrap_or("?"),
                text(item, "/tool").unwrap_or("?"),
            );
            tools::call(id, &format!("{server}.{tool}"), &item["arguments"])
        }
        _ => return None,
    })
}

fn file_change(id: &str, item: &Value) -> ToolCall {
    let paths: Vec<&str> = list(item, "/changes")
        .filter_map(|change| text(change, "/path"))
        .collect();
    let removes = |change: &Value| text(change, "/kind") == Some("delete");
    let only_removes = !paths.is_empty() && list(item, "/changes").all(removes);
    let (verb, kind) = if only_removes {
        ("delete", ToolKind::Delete)
    } else {
        ("edit", ToolKind::Edit)
    };
    ToolCall {
        call: id.to_owned(),
        title: format!("{verb} {}", paths.join(", ")),
        kind: Some(kind),
        locations: paths
            .into_iter()
            .map(|path| FileLocation {
                path: path.to_owned(),
                line: None,
            })
            .collect(),
        ..ToolCall::default()
    }
}

fn status(item: &Value) -> ToolStatus {
    match text(item, "/status") {
        Some("failed" | "declined") => ToolStatus::Failed,
        _ if item["exit_code"].as_i64().is_some_and(|code| code != 0) => ToolStatus::Failed,
        _ => ToolStatus::Completed,
    }
}

fn printed(item: &Value) -> Option<String> {
    let texts = list(item, "/result/content").filter_map(|block| text(block, "/text"));
    let result = texts.collect::<Vec<_>>().join("\n");
    let printed = text(item, "/aggregated_output").or_else(|| text(item, "/error/message"));
    printed
        .map(str::to_owned)
        .or_else(|| (!result.is_empty()).then_some(result))
}

fn plan(item: &Value, updates: &mut TranslatedOutput) {
    if text(item, "/type") == Some("todo_list") {
        let entry = |todo: &Value| {
            let status = if todo["completed"] == true {
                ToolStatus::Completed
            } else {
                ToolStatus::Pending
            };
            Some(PlanEntry {
                content: text(todo, "/text")?.to_owned(),
                status,
            })
        };
        updates.planned(list(item, "/items").filter_map(entry));
    }
}

/// The command inside `bash -lc '…'`, which Codex wraps around every command.
fn unwrapped(command: &str) -> String {
    let inner = ["-lc ", "-c "].iter().find_map(|option| {
        let (shell, rest) = command.split_once(option)?;
        let shell = shell.trim_end().rsplit('/').next()?;
        ["sh", "bash", "zsh"].contains(&shell).then_some(rest)
    });
    match inner {
        Some(rest) => match rest
            .strip_prefix('\'')
            .and_then(|rest| rest.strip_suffix('\''))
        {
            Some(quoted) => quoted.replace(r"'\''", "'"),
            None => rest.to_owned(),
        },
        None => command.to_owned(),
    }
}
