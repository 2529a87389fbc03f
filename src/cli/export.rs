//! `creel export`: prints tasks so that `creel import` and other tools read them, or marks finished
//! tasks in the file that they were imported from.

use std::{
    collections::BTreeSet,
    fs::{self, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use clap::Args;

use crate::{
    cli::{
        arguments::SessionArgs,
        error::{CliError, CliResult, print, say},
        import,
        target::sessions_of,
        task::{self, QueueArgs, queue::QueueConnection},
    },
    engine::{
        queue::QueuedTask,
        tasks::{command::NewTask, graph::TaskState},
    },
    present::{task_view::TaskView, text::counted},
    task_files::{
        FileTask, FileTaskState, TaskFormat,
        export::{ExportFormat, written},
        title,
    },
};

/// What to export.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// Mark the completed tasks in the file that they were imported from: `- [x]`, or
    /// `"passes": true`. Nothing else in it changes. Without a file: print all tasks.
    pub file: Option<PathBuf>,
    /// How to print them.
    #[arg(
        long,
        value_enum,
        default_value_t,
        value_name = "FORMAT",
        conflicts_with = "file"
    )]
    pub format: ExportFormat,
    /// Where they are.
    #[command(flatten)]
    pub queue: QueueArgs,
    /// Which session.
    #[command(flatten)]
    pub session: SessionArgs,
}

pub(super) fn export(args: &ExportArgs) -> CliResult {
    let tasks: Vec<FileTask> = if args.queue.is_meant() {
        let all = QueueConnection::open(&args.session, &args.queue)?.all()?;
        all.into_iter().map(of_queue).collect()
    } else {
        task::all_of_last(&args.session)?
            .into_iter()
            .map(of_session)
            .collect()
    };
    match &args.file {
        Some(_) => mark(args, &tasks),
        None if tasks.is_empty() => {
            say("creel: no tasks");
            Ok(0)
        }
        None => {
            let (root, _) = sessions_of(&args.session.config)?;
            let project = root.file_name().map(|name| name.to_string_lossy());
            print(&written(&tasks, args.format, &project.unwrap_or_default()))
        }
    }
}

/// Marks the completed tasks in their file.
fn mark(args: &ExportArgs, tasks: &[FileTask]) -> CliResult {
    let path = args.file.clone().unwrap_or_default();
    let (text, name) = import::read_text(&path, &args.session.config)?;
    let file = import::parse(&text, &name, None)?;
    let way_out = match file.format {
        TaskFormat::Markdown | TaskFormat::Prd => None,
        TaskFormat::Github => Some("close them with `gh issue close NUMBER`"),
        TaskFormat::Beads => Some("close them with `bd close ID`"),
        TaskFormat::Json => Some("print the tasks again with `creel export --format json`"),
    };
    if let Some(way_out) = way_out {
        let what = file.format;
        return Err(CliError::usage(format!(
            "{name} is {what}, in which creel marks nothing\n  {way_out}"
        )));
    }
    // A number in a file can stand for another task now, so the titles count, too.
    let sources = |is_wanted: fn(&FileTask) -> bool| {
        let wanted = tasks.iter().filter(|task| is_wanted(task));
        wanted
            .flat_map(|task| task.sources().map(|it| (it, title(&task.task.goal))))
            .collect::<BTreeSet<(&str, &str)>>()
    };
    let (all, done) = (
        sources(|_| true),
        sources(|task| task.state == FileTaskState::Done),
    );
    let is_in = |known: &BTreeSet<(&str, &str)>, task: &FileTask| {
        known.contains(&(task.source(&name).as_str(), title(&task.task.goal)))
    };
    let known = file.tasks.iter().filter(|task| is_in(&all, task)).count();
    if known == 0 {
        let place = if args.queue.is_meant() {
            "the queue"
        } else {
            "the session"
        };
        return Err(CliError::usage(format!(
            "{place} has no task that was imported from {name}\n  `creel export > FILE` writes all tasks to a new file"
        )));
    }
    let (new, marked) = file.marked(&text, |task| is_in(&done, task));
    if marked > 0 {
        replace(&path, &text, &new).map_err(|error| {
            CliError::failed(format!("cannot write {}: {error}", path.display()))
        })?;
    }
    let completed = file.tasks.iter().filter(|task| is_in(&done, task)).count();
    let open = known - completed;
    say(&format!(
        "creel: marked {} as done in {name}; {open} of those imported from it not completed yet",
        counted(marked, "task"),
    ));
    Ok(0)
}

/// Replaces a file as a whole, so that a full disk or a kill leaves the old one.
fn replace(path: &Path, old: &str, new: &str) -> io::Result<()> {
    // Behind a link, the file that it names is replaced.
    let path = path.canonicalize()?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let draft = path.with_file_name(format!(".{name}.creel-{}", std::process::id()));
    let written = (|| {
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&draft)?;
        file.set_permissions(fs::metadata(&path)?.permissions())?;
        file.write_all(new.as_bytes())?;
        file.sync_all()?;
        if fs::read(&path)? != old.as_bytes() {
            return Err(io::Error::other("it has just changed; run this again"));
        }
        fs::rename(&draft, &path)
    })();
    if written.is_err() {
        let _ = fs::remove_file(&draft);
    }
    written
}

const fn state_of(state: TaskState) -> FileTaskState {
    match state {
        TaskState::Completed => FileTaskState::Done,
        TaskState::Created | TaskState::Ready | TaskState::Active | TaskState::Blocked => {
            FileTaskState::Open
        }
    }
}

fn of_session(task: TaskView) -> FileTask {
    let new = NewTask {
        id: Some(task.id),
        goal: task.goal,
        deliverables: task.deliverables,
        labels: task.labels,
        priority: Some(task.priority),
        kind: task.kind,
        parent: task.parent,
        dependencies: task.dependencies,
        queue: task.queue.map(|agents| agents.into_iter().collect()),
    };
    FileTask::of(new, state_of(task.state))
}

/// Tasks of several sessions can have the same id.
fn of_queue(task: QueuedTask) -> FileTask {
    let state = task.state.state().map_or(FileTaskState::Open, state_of);
    let order = task.order;
    let owner = order.session.map(|owner| owner.name);
    let unique = |id: &String| match &owner {
        Some(owner) => format!("{owner}-{id}"),
        None => id.clone(),
    };
    let new = NewTask {
        id: Some(unique(&order.id)),
        goal: order.description.goal,
        deliverables: order.description.deliverables,
        labels: order.description.labels,
        priority: Some(order.description.priority),
        kind: order.description.kind,
        parent: None,
        dependencies: order.dependencies.iter().map(unique).collect(),
        queue: Some(order.agents),
    };
    FileTask::of(new, state)
}
