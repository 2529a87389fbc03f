//! `creel pending`: the held output, looked at and changed from another terminal.

use std::io::IsTerminal as _;

use clap::{Args, Subcommand};

use crate::{
    cli::{
        arguments::{SessionArgs, item},
        error::{CliError, CliResult, LINE, json, print, refusal_as_json, say},
        target::{self, ask, given, other_answer, remote_sessions, reply_to},
    },
    engine::{
        event::{Event, PendingEvent},
        ids::ItemId,
        input::SessionCommand,
        pending::ItemState,
    },
    journal::{self, SessionDir},
    present::text::{counted, plain, plain_line},
    process::editor::EditorFile,
    protocol::{ItemFilter, ReplyData, SessionQuery, view::ItemView},
};

/// The held output.
#[derive(Debug, Args)]
pub struct PendingArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: PendingCommand,
}

/// What to do with held output.
#[derive(Debug, Subcommand)]
pub enum PendingCommand {
    /// List the items that have not been sent to the agent yet.
    List {
        /// Also list delivered items.
        #[arg(long)]
        all: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// Which session.
        #[command(flatten)]
        session: SessionArgs,
    },
    /// Print the text of an item.
    Show {
        /// The item's number.
        #[arg(value_parser = item)]
        item: ItemId,
        /// Print JSON, with the source of the item.
        #[arg(long)]
        json: bool,
        /// Which session.
        #[command(flatten)]
        session: SessionArgs,
    },
    /// Skip an item: do not send it to the agent.
    Skip {
        /// The item's number.
        #[arg(value_parser = item)]
        item: ItemId,
        /// Which session.
        #[command(flatten)]
        session: SessionArgs,
    },
    /// Restore a skipped item.
    Restore {
        /// The item's number.
        #[arg(value_parser = item)]
        item: ItemId,
        /// Which session.
        #[command(flatten)]
        session: SessionArgs,
    },
    /// Edit the text of an item.
    Edit {
        /// The item's number.
        #[arg(value_parser = item)]
        item: ItemId,
        /// The new text, or `-` to read it from standard input. Default: your editor opens.
        text: Option<String>,
        /// Which session.
        #[command(flatten)]
        session: SessionArgs,
    },
}

pub(super) fn pending(command: PendingCommand) -> CliResult {
    let as_json = match &command {
        PendingCommand::List { json, .. } | PendingCommand::Show { json, .. } => *json,
        PendingCommand::Skip { .. }
        | PendingCommand::Restore { .. }
        | PendingCommand::Edit { .. } => false,
    };
    refusal_as_json(as_json, run(command))
}

fn run(command: PendingCommand) -> CliResult {
    match command {
        PendingCommand::List {
            all,
            json: as_json,
            session,
        } => {
            let which = if all {
                ItemFilter::All
            } else {
                ItemFilter::Held
            };
            let Some(ReplyData::Items(items)) =
                reply_to(&session, SessionQuery::PendingList { which })?
            else {
                return Err(other_answer());
            };
            if as_json { json(&items) } else { list(&items) }
        }
        PendingCommand::Show {
            item,
            json: as_json,
            session,
        } => {
            let item = whole(&session, item)?;
            if as_json {
                return json(&item);
            }
            let text = plain(&item.text.unwrap_or_default());
            print(&(text.trim_end_matches('\n').to_owned() + "\n"))
        }
        PendingCommand::Skip { item, session } => ask(&session, SessionCommand::SkipItem { item }),
        PendingCommand::Restore { item, session } => {
            ask(&session, SessionCommand::RestoreItem { item })
        }
        PendingCommand::Edit {
            item,
            text: Some(text),
            session,
        } => ask(
            &session,
            SessionCommand::EditItem {
                item,
                text: given(&text)?,
            },
        ),
        PendingCommand::Edit {
            item,
            text: None,
            session,
        } => edit(&session, item),
    }
}

fn list(items: &[ItemView]) -> CliResult {
    if items.is_empty() {
        say("creel: no pending items");
        return Ok(0);
    }
    let line = |item: &ItemView| {
        let state = state(item.state);
        let edited = if item.edited { ", edited" } else { "" };
        let hook = plain_line(&item.hook, LINE);
        let bytes = if item.state == ItemState::Delivered {
            String::new()
        } else {
            counted(item.bytes, "byte")
        };
        format!(
            "{:>4}  {state:9}  {:14}  {bytes:>12}  {hook}{edited}\n",
            item.item.to_string(),
            item.point.name()
        )
    };
    print(&items.iter().map(line).collect::<String>())
}

const fn state(state: ItemState) -> &'static str {
    match state {
        ItemState::Pending => "pending",
        ItemState::InFlight => "in flight",
        ItemState::Skipped => "skipped",
        ItemState::Delivered => "delivered",
    }
}

/// An item with its text, wherever that is.
fn whole(session: &SessionArgs, item: ItemId) -> CliResult<ItemView> {
    let Some(ReplyData::Item(mut view)) = reply_to(session, SessionQuery::PendingShow { item })?
    else {
        return Err(other_answer());
    };
    if view.text.is_none() {
        let copy = remote_sessions::copy(session)?;
        view.text = match &copy {
            Some(copy) => on_record(copy.folder(), item)?,
            None => on_record(&target::running(session)?, item)?,
        };
    }
    Ok(*view)
}

/// What the journal says that an item said last: a session forgets what it has delivered.
fn on_record(folder: &SessionDir, wanted: ItemId) -> CliResult<Option<String>> {
    let mut found = None;
    journal::read(&folder.journal(), |record| {
        if let Event::Pending(
            PendingEvent::Added { item, text, .. } | PendingEvent::Edited { item, text, .. },
        ) = record.event
            && item == wanted
        {
            found = Some(text);
        }
    })?;
    Ok(found)
}

/// Lets the person change an item in an editor. What the session does not take any more stays where
/// they wrote it.
fn edit(session: &SessionArgs, item: ItemId) -> CliResult {
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        return Err(CliError::usage(
            "pass the new text, or `-` to read it from standard input",
        ));
    }
    let view = whole(session, item)?;
    if let Some(why) = view.state.is_settled(item) {
        return Err(CliError::refused(why));
    }
    let before = view.text.unwrap_or_default();
    let sheet = EditorFile::new(&before).map_err(|error| CliError::failed(error.to_string()))?;
    let text = sheet
        .read(sheet.command().status())
        .map_err(|error| CliError::failed(error.to_string()))?;
    if text == before.trim_end_matches('\n') {
        sheet.remove();
        say("creel: you changed nothing");
        return Ok(0);
    }
    let asked = ask(session, SessionCommand::EditItem { item, text });
    match asked {
        Ok(_) => sheet.remove(),
        Err(failure) => return Err(failure.with(|why| sheet.kept(&why))),
    }
    asked
}
