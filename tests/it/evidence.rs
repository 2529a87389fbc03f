//! `evidence:`: heads of the journal in git, and what `creel verify` makes of them.

use crate::{
    support::{
        git_project::{git, repository, with_remote},
        project::{Project, Ran},
    },
    task_branches::{add, drain, with_agent},
};

const NOTED: &str = "prompt: GOAL\ninstructions: none\nevidence: note\nagents: { demo: { script: scenario.yaml } }\n";

/// A session that commits a file, and ends.
fn noted() -> Project {
    let project = repository(NOTED);
    project.write(
        "scenario.yaml",
        "turns: [{ run: 'git commit -q --allow-empty -m work' }]\notherwise: { say: <promise>COMPLETE</promise> }",
    );
    let ran = project.run();
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    project
}

#[test]
fn the_last_commit_of_a_session_has_a_note_with_the_head_of_the_journal() {
    let project = noted();
    let note = git(&project, &["notes", "--ref=creel", "show", "HEAD"]);
    let verified = project.creel(&["verify", "s"]);
    assert_eq!(verified.code, 0, "{}{}", verified.out, verified.err);
    let head = verified
        .out
        .lines()
        .find_map(|line| line.strip_prefix("head  "));
    assert_eq!(
        note.trim(),
        format!("Creel-Journal: s {}", head.expect("a head"))
    );
    let last = project.records().len();
    let names = format!(" names record {last}\n");
    assert!(verified.out.contains(&names), "{}", verified.out);
}

#[test]
fn a_journal_that_was_written_anew_is_found() {
    let project = noted();
    let pruned = project.creel(&["prune", "--keep", "0", "--yes"]);
    assert_eq!(pruned.code, 0, "{}{}", pruned.out, pruned.err);
    // Another journal with a whole chain and its seal.
    let ran = project.run();
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let verified = project.creel(&["verify", "s", "--json"]);
    assert_eq!(verified.code, 1, "{}{}", verified.out, verified.err);
    assert!(
        verified.out.contains("\"record\": null"),
        "{}",
        verified.out
    );
    let verified = project.creel(&["verify", "s"]);
    assert!(
        verified.out.contains("s: NOT intact. Commit ")
            && verified.out.contains("which is not in the journal"),
        "{}",
        verified.out
    );
}

#[test]
fn commits_of_the_merge_queue_name_the_journal_of_their_session() {
    let project = with_agent("evidence: trailer", with_remote);
    add(&project, "write one.txt", &[]);
    drain(&project, "1");
    let merged = project.creel(&["merge", "--queue"]);
    assert_eq!(merged.code, 0, "{}", merged.err);
    let message = git(&project, &["log", "-1", "--format=%B", "origin/main"]);
    let of = |key: &str| {
        let line = message.lines().find_map(|line| line.strip_prefix(key));
        line.unwrap_or_else(|| panic!("no {key} in {message}"))
            .to_owned()
    };
    let session = of("Creel-Session: ");
    let evidence = of("Creel-Journal: ");
    let verified = project.creel(&["verify", &session]);
    assert_eq!(verified.code, 0, "{}{}", verified.out, verified.err);
    let head = evidence
        .strip_prefix(&format!("{session} "))
        .expect("the session");
    assert!(
        verified.out.contains(&format!("head  {head}\n")),
        "{}",
        verified.out
    );
}

#[test]
fn only_trailers_of_commits_count_as_evidence() {
    let project = noted();
    let example =
        "docs: how evidence looks\n\nCreel-Journal: s 0123456789abcdef\n\nThat was an example.";
    git(&project, &["commit", "-q", "--allow-empty", "-m", example]);
    let verified = project.creel(&["verify", "s"]);
    assert_eq!(verified.code, 0, "{}{}", verified.out, verified.err);
    let trailer = "work\n\nCreel-Journal: s 0123456789abcdef";
    git(&project, &["commit", "-q", "--allow-empty", "-m", trailer]);
    let verified = project.creel(&["verify", "s"]);
    assert_eq!(verified.code, 1, "{}{}", verified.out, verified.err);
}

#[test]
fn a_repository_that_cannot_be_searched_is_no_proof() {
    let project = noted();
    let mut without_git = project.command(&["verify", "s"]);
    let ran = without_git.env("PATH", "/nonexistent").output();
    let ran = Ran::of(&ran.expect("creel starts"));
    assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("cannot search the commits"), "{}", ran.err);
}
