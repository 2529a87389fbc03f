//! `creel hook`: the handler that creel adds to an agent's own hooks, for one session.
//!
//! Owns how the agent asks and what it gets as an answer. The session decides.
//!
//! # Invariants
//! - A call runs only if the session has answered about it: whatever fails before denies it.
//! - The report of a call that has ended never blocks anything.

use std::io::{self, Read as _};

use clap::Args;
use serde_json::{Value, json};

use crate::{
    cli::{
        arguments::SessionArgs,
        error::{CliError, CliResult, print, say},
        target,
    },
    engine::{
        conversation::ToolCall,
        hooks::{announced_call, point::HookPoint, tool_matcher::ClaudeToolEvent},
        ids::PermissionId,
        input::SessionCommand,
    },
    protocol::{ClientKind, LONGEST_REQUEST, ReplyData, view::ToolDecisionView},
    sessions::session_client::request_once,
};

/// The exit code with which a hook denies a call, for every agent, if it also says why.
const DENIED: u8 = 2;

/// How many bytes of a title are sent.
const TITLE_MAX: usize = 8 << 10;

/// What an agent asks.
#[derive(Debug, Args)]
pub struct HookArgs {
    /// The event: `PreToolUse`, `PostToolUse` or `PostToolUseFailure`. Its input comes on standard
    /// input.
    #[arg(value_parser = event)]
    pub event: ClaudeToolEvent,
    /// Answer only denials, with exit code 2: for agents that accept nothing else.
    #[arg(long)]
    pub deny_only: bool,
    /// Which session.
    #[command(flatten)]
    pub session: SessionArgs,
}

fn event(name: &str) -> Result<ClaudeToolEvent, String> {
    let reported = ClaudeToolEvent::named(name);
    reported
        .filter(|event| *event != ClaudeToolEvent::PermissionRequest)
        .ok_or_else(|| "expected PreToolUse, PostToolUse or PostToolUseFailure".to_owned())
}

pub(super) fn hook(args: &HookArgs) -> CliResult {
    let asks = args.event.point() == HookPoint::PreTool;
    let answered = call(args.event).and_then(|call| ask(args, call));
    match answered {
        Ok(Some(ToolDecisionView::Deny(reason))) if args.deny_only => Ok(deny(&reason)),
        Ok(Some(ToolDecisionView::Deny(reason))) => decide(args.event, "deny", Some(&reason)),
        Ok(Some(ToolDecisionView::Allow)) if !args.deny_only => decide(args.event, "allow", None),
        Ok(None) if asks => Ok(deny("the session gave no answer")),
        Err(error) if asks => {
            let why = error.to_string();
            let why = why.strip_prefix("creel: ").unwrap_or(&why);
            Ok(deny(&format!("creel cannot ask your hooks: {why}")))
        }
        // The agent reports the end of a call itself, too.
        Ok(Some(ToolDecisionView::Allow | ToolDecisionView::Undecided) | None) | Err(_) => Ok(0),
    }
}

fn deny(reason: &str) -> u8 {
    say(reason);
    DENIED
}

/// Claude Code's way to say it. There, the text of exit code 2 has the whole command before it.
fn decide(event: ClaudeToolEvent, decision: &str, reason: Option<&str>) -> CliResult {
    let decision = json!({ "hookSpecificOutput": {
        "hookEventName": event.name(),
        "permissionDecision": decision,
        "permissionDecisionReason": reason.unwrap_or("your hooks allow it"),
    } });
    print(&format!("{decision}\n"))
}

/// The call that the agent describes on standard input.
fn call(event: ClaudeToolEvent) -> CliResult<ToolCall> {
    let mut text = Vec::new();
    let most = LONGEST_REQUEST as u64;
    let read = io::stdin().lock().take(most).read_to_end(&mut text);
    read.map_err(|error| CliError::usage(format!("cannot read standard input: {error}")))?;
    if text.len() >= LONGEST_REQUEST {
        return Err(CliError::usage(format!(
            "the call is too long for a hook ({LONGEST_REQUEST} B or more)"
        )));
    }
    let input: Value = serde_json::from_slice(&text)
        .map_err(|error| CliError::usage(format!("standard input is no JSON: {error}")))?;
    announced_call::read(event, &input).map_err(|error| CliError::usage(error.to_string()))
}

fn ask(args: &HookArgs, call: ToolCall) -> CliResult<Option<ToolDecisionView>> {
    let folder = target::running(&args.session)?;
    let mut call = Box::new(call);
    let command = match args.event {
        ClaudeToolEvent::PreToolUse | ClaudeToolEvent::PermissionRequest => {
            let input = call.input.take();
            let arguments = input.and_then(|text| serde_json::from_str(&text).ok());
            // The session keeps no more of it, and a command is its own title.
            call.title
                .truncate(call.title.floor_char_boundary(TITLE_MAX));
            SessionCommand::DecideTool {
                ask: PermissionId::default(),
                call,
                arguments,
                shortened: false,
                whole: false,
                digest: None,
            }
        }
        ClaudeToolEvent::PostToolUse | ClaudeToolEvent::PostToolUseFailure => {
            if call.call.is_empty() {
                // Each call is another one, though the agent does not say which.
                call.call = format!("hook-{}", std::process::id());
            }
            SessionCommand::ToolEnded { call }
        }
    };
    let reply = request_once(&folder, ClientKind::Cli, command)?;
    Ok(match reply {
        Some(ReplyData::ToolDecided(decision)) => Some(decision),
        Some(_) | None => None,
    })
}
