//! `creel status`: the state of a running session.

use clap::Args;

use crate::{
    cli::{
        arguments::SessionArgs,
        error::{CliResult, LINE, json, print, refusal_as_json},
        gate,
        target::{other_answer, reply_to},
    },
    present::{
        text::{counted, plain, plain_line},
        usage,
    },
    protocol::{ReplyData, SessionQuery, view::StatusView},
    runtime::clock,
};

/// How a session is.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Which session.
    #[command(flatten)]
    pub session: SessionArgs,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

pub(super) fn status(args: &StatusArgs) -> CliResult {
    refusal_as_json(args.json, show_status(args))
}

fn show_status(args: &StatusArgs) -> CliResult {
    let Some(ReplyData::Status(status)) = reply_to(&args.session, SessionQuery::Status)? else {
        return Err(other_answer());
    };
    if args.json {
        json(&status)
    } else {
        print(&lines(&status))
    }
}

fn lines(status: &StatusView) -> String {
    let mut text = format!(
        "session    {} ({})\ndoing      {}\niteration  {} of at most {}\nagent      {}\n",
        status.session,
        status.state,
        plain_line(&status.doing, LINE),
        status.iteration,
        status.max_iterations,
        plain(&status.agent),
    );
    if let Some(model) = &status.model {
        text += &format!("model      {}\n", plain(model));
    }
    if let Some(limit) = &status.usage_limit {
        text += &format!(
            "resumes    {}\n",
            usage::resumes(limit.until, clock::wall_clock())
        );
    }
    if status.counts.retries > 0 {
        text += &format!(
            "retries    {} of at most {}\n",
            status.counts.retries, status.counts.max_retries
        );
    }
    if status.counts.errors > 0 {
        text += &format!("errors     {} in a row\n", status.counts.errors);
    }
    text += &format!("pending    {}\n", counted(status.counts.pending, "item"));
    if status.counts.messages > 0 {
        text += &format!("messages   {} for the agent\n", status.counts.messages);
    }
    if let Some(gate) = &status.gate {
        text += &format!(
            "gate       {}\n",
            gate::line(gate).replace('\n', "\n           ")
        );
    }
    if let Some(link) = &status.nats {
        text += &format!("nats       {}\n", plain(&link.to_string()));
    }
    text + &format!("since      {} (process {})\n", status.started, status.pid)
}
