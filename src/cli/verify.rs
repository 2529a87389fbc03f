//! `creel verify`: whether a session's journal is as creel wrote it.

use clap::Args;
use serde::Serialize;

use crate::{
    cli::{
        arguments::{ConfigArgs, NatsArgs, session_name},
        error::{CliError, CliResult, json, print},
        target::remote_sessions::RecordedSession,
    },
    journal::{
        SessionDir,
        chain::{self, ChainCheck, ChainFinding, EVIDENCE, EVIDENCE_NOTES, JournalOrigin},
    },
    text::counted,
    worktrees::{self, ProjectRepository, WorktreeError},
};

/// Something is not as creel wrote it, or nothing shows whether it is.
const NOT_PROVED: u8 = 1;

/// Which journal.
#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// The session. Default: `CREEL_SESSION`, or the one that changed last.
    #[arg(value_parser = session_name)]
    pub session: Option<String>,
    /// Whose sessions.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Where they are.
    #[command(flatten)]
    pub nats: NatsArgs,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// The JSON form.
#[derive(Serialize)]
struct VerifiedJournal<'a> {
    session: &'a str,
    intact: bool,
    #[serde(flatten)]
    check: &'a ChainCheck,
    evidence: &'a [CommitEvidence],
    text: String,
}

/// A commit, or its note, that names a head of the journal.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct CommitEvidence {
    commit: String,
    head: String,
    /// The record that it is the hash of. None: the journal does not have it.
    record: Option<u64>,
}

pub(super) fn verify(args: &VerifyArgs) -> CliResult {
    let recorded = RecordedSession::find(args.session.as_deref(), &args.config, &args.nats)?;
    let folder = recorded.folder();
    let origin = if args.nats.url.is_some() {
        JournalOrigin::Copy
    } else {
        JournalOrigin::Own
    };
    let check = chain::verify(folder, origin).map_err(|error| {
        let journal = folder.journal();
        CliError::failed(format!("cannot read {}: {error}", journal.display()))
    })?;
    let evidence = match origin {
        JournalOrigin::Own => evidence_of(folder)?,
        JournalOrigin::Copy => Vec::new(),
    };
    let stranger = evidence.iter().find(|commit| commit.record.is_none());
    let intact = check.finding.is_good() && stranger.is_none();
    let text = match stranger {
        Some(commit) if check.finding.is_good() => foreign(commit),
        Some(_) | None => words(&check),
    };
    if args.json {
        json(&VerifiedJournal {
            session: &folder.name,
            intact,
            check: &check,
            evidence: &evidence,
            text,
        })?;
    } else {
        let head = check.head.map(|head| format!("head  {}\n", head.hex()));
        print(&format!(
            "{}: {text}\n{}{}",
            folder.name,
            head.unwrap_or_default(),
            evidence.iter().map(line).collect::<String>()
        ))?;
    }
    Ok(if intact { 0 } else { NOT_PROVED })
}

/// The commits of the project's repository that name a head of this journal.
fn evidence_of(folder: &SessionDir) -> CliResult<Vec<CommitEvidence>> {
    let repository = match ProjectRepository::of(folder.project()) {
        Ok(repository) => repository,
        Err(WorktreeError::NoRepository(_) | WorktreeError::NoGit)
            if !worktrees::may_have_git(folder.project()) =>
        {
            return Ok(Vec::new());
        }
        Err(error) => {
            return Err(CliError::failed(format!(
                "cannot search the commits for heads of the journal: {error}"
            )));
        }
    };
    let prefix = format!("{EVIDENCE}: {} ", folder.name);
    let (notes, grep) = (
        format!("--notes={EVIDENCE_NOTES}"),
        format!("--grep={prefix}"),
    );
    // A byte that no message contains begins each commit. The text of a message can have such a line as
    // an example, so only its trailers count.
    let format = format!("--format=%x01%H%n%(trailers:only,unfold,key={EVIDENCE})%n%N");
    let log = ["log", "--all", &notes, "--fixed-strings", &grep, &format];
    let found = repository.ask(&log)?;
    if !found.is_ok {
        let why = found.complaint();
        return Err(CliError::failed(format!(
            "cannot search the commits: {why}"
        )));
    }
    let known = chain::lines_by_hash(folder).map_err(|error| {
        let journal = folder.journal();
        CliError::failed(format!("cannot read {}: {error}", journal.display()))
    })?;
    let mut evidence = Vec::new();
    for commit in found.stdout.split('\u{1}').skip(1) {
        let mut lines = commit.lines();
        let id = lines.next().unwrap_or_default();
        let heads = lines.filter_map(|line| line.trim_end().strip_prefix(prefix.as_str()));
        evidence.extend(heads.map(|head| CommitEvidence {
            commit: id.to_owned(),
            head: head.to_owned(),
            record: known.get(head).copied(),
        }));
    }
    Ok(evidence)
}

fn line(commit: &CommitEvidence) -> String {
    let id = short(&commit.commit);
    match commit.record {
        Some(record) => format!("commit {id} names record {record}\n"),
        None => format!(
            "commit {id} names {}, which is not in the journal\n",
            commit.head
        ),
    }
}

fn foreign(commit: &CommitEvidence) -> String {
    format!(
        "NOT intact. Commit {} names a record that is not in the journal: the journal was written anew, or an earlier session had this name",
        short(&commit.commit)
    )
}

fn short(commit: &str) -> &str {
    &commit[..commit.floor_char_boundary(10)]
}

fn words(check: &ChainCheck) -> String {
    let records = counted(check.records, "record");
    let chained = match check.without_chain {
        0 => format!("{records}, each as creel wrote it"),
        1 => format!(
            "{records}: the first has no chain, because an earlier creel wrote it, and each later one is as creel wrote it"
        ),
        without => format!(
            "{records}: 1 to {without} have no chain, because an earlier creel wrote them, and each later one is as creel wrote it"
        ),
    };
    match &check.finding {
        ChainFinding::Intact => format!("intact. {chained}"),
        ChainFinding::Running => format!("intact so far, and the session runs. {chained}"),
        ChainFinding::NotSealed => format!(
            "intact up to the end of the session. {chained}. creel was killed just after the end, so later records could be missing"
        ),
        ChainFinding::Changed { line } => format!(
            "NOT intact. Record {line} is not what creel wrote there: it was changed, or records before it were removed or moved"
        ),
        ChainFinding::Unlinked { line } => format!(
            "NOT intact. Record {line} has no link to the one before it: another program wrote it"
        ),
        ChainFinding::Torn { line } => format!(
            "NOT intact. Record {line} is not whole: creel was killed while writing it, or the end was cut off"
        ),
        ChainFinding::CutOff { sealed } if *sealed <= check.records => format!(
            "NOT intact. creel had written {} when the end was cut off, and the session was continued after that",
            counted(*sealed, "record")
        ),
        ChainFinding::CutOff { sealed } => format!(
            "NOT intact. The end was cut off: creel wrote {}, and {} are left",
            counted(*sealed, "record"),
            check.records
        ),
        ChainFinding::Added { sealed } => format!(
            "NOT intact. Records follow record {sealed}, the last one that creel wrote"
        ),
        ChainFinding::SealMissing => format!(
            "not proved. {chained}, but the seal is missing, so records at the end could be missing, too"
        ),
        ChainFinding::NoEnd => format!(
            "not proved. {chained}, but the end is not on record: creel was killed, or the end was cut off. `creel resume` \
             continues the session"
        ),
        ChainFinding::NoChain => {
            "not proved. The journal has no chain: an earlier creel wrote it, or the chain was removed".to_owned()
        }
    }
}
