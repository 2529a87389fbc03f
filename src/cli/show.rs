//! `creel show`: prints what happened in a session.

use std::ops::ControlFlow;

use clap::Args;

use crate::{
    cli::{
        arguments::{ConfigArgs, NatsArgs, session_name},
        error::{CliResult, print, warn_of},
        launch::session_end::{NextCommands, print_card},
        record_formatter::{HookOutputMode, RecordFormatter},
        target::remote_sessions::RecordedSession,
    },
    engine::event::{Event, TurnEvent},
    journal::{self, SessionDir, record::rfc3339},
    present::{
        describe::prompt_name,
        style::{ColourMode, TextRole},
        text::plain,
    },
};

/// What to show of a session.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// The session. Default: `CREEL_SESSION`, or the one that changed last.
    #[arg(value_parser = session_name)]
    pub session: Option<String>,
    /// Whose sessions.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Where they are.
    #[command(flatten)]
    pub nats: NatsArgs,
    /// Print the records as JSON lines.
    #[arg(long, conflicts_with = "prompts")]
    pub json: bool,
    /// Print the prompts that the agent received.
    #[arg(long)]
    pub prompts: bool,
}

pub(super) fn show(args: &ShowArgs) -> CliResult {
    let recorded = RecordedSession::find(args.session.as_deref(), &args.config, &args.nats)?;
    let folder = recorded.folder();
    if args.json {
        return print_each(folder, journal::Record::to_line);
    }
    let paint = ColourMode::for_stream(&std::io::stdout());
    if args.prompts {
        return print_each(folder, |record| prompt(record, paint));
    }
    let mut narrator = RecordFormatter::new(paint, HookOutputMode::Recorded);
    print_each(folder, |record| narrator.tell(record))?;
    print(&narrator.rest())?;
    if let Ok(state) = journal::fold(&folder.journal()) {
        print_card(folder, &state, NextCommands::AfterShow);
    }
    Ok(0)
}

/// Prints while reading, since a journal can be larger than memory.
fn print_each(folder: &SessionDir, mut text: impl FnMut(&journal::Record) -> String) -> CliResult {
    let mut printed = Ok(0);
    let disorder = journal::read_while(&folder.journal(), |record| {
        printed = print(&text(&record));
        // The rest of the journal is of no use once a pager has closed the pipe.
        if printed.is_ok() {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    })?;
    warn_of(disorder.as_ref());
    printed
}

fn prompt(record: &journal::Record, paint: ColourMode) -> String {
    let Event::Turn(TurnEvent::PromptSent(prompt)) = &record.event else {
        return String::new();
    };
    let name = prompt_name(prompt.reason);
    let head = format!(
        "── {name} · turn {} · iteration {} · {}",
        prompt.turn,
        prompt.iteration,
        rfc3339(record.at)
    );
    format!(
        "{}\n{}\n\n",
        paint.paint(TextRole::Heading, head),
        plain(&prompt.text)
    )
}
