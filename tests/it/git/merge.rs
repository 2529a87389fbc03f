//! `merge_pr`.

use std::fs;

use creel::engine::effect::SubmissionFacts;

use crate::support::repo::{Repo, failure, hook_of, skipped, success};

const URL: &str = "https://forge.example/pull/7";

/// A branch with a pull request in this state, and with these checks.
fn with_pull_request(more: &serde_json::Value, checks: &str) -> Repo {
    let repo = Repo::with_gh();
    let head = repo.commit("b.txt", "b\n", "add b");
    repo.git(&["push", "--quiet", "origin", "work"]);
    let mut pull =
        serde_json::json!({ "number": 7, "url": URL, "state": "OPEN", "headRefOid": head });
    let more = more.as_object().expect("an object").clone();
    pull.as_object_mut().expect("an object").extend(more);
    fs::write(repo.at("gh/list.json"), format!("[{pull}]")).expect("a list");
    repo.gh_answers("pr-list", "cat \"$calls/list.json\"");
    repo.gh_answers("pr-checks", checks);
    repo.gh_answers(
        "repo-view",
        r#"echo '{"viewerDefaultMergeMethod":"SQUASH"}'"#,
    );
    pull["state"] = "MERGED".into();
    pull["mergeCommit"] = serde_json::json!({ "oid": "1234567890abcdef" });
    fs::write(repo.at("gh/merged.json"), pull.to_string()).expect("a pull request");
    repo.gh_answers("pr-view", "cat \"$calls/merged.json\"");
    repo
}

/// Asserts that nothing was merged, neither here nor on the remote.
fn nothing_merged(repo: &Repo) {
    assert_eq!(repo.gh_called(["pr", "merge"]), Vec::<Vec<String>>::new());
    assert_eq!(repo.on_remote("main"), Some(repo.here("main")));
}

const GREEN: &str =
    r#"echo '[{"name":"build","bucket":"pass"},{"name":"docs","bucket":"skipping"}]'"#;

#[tokio::test]
async fn a_pull_request_whose_checks_passed_is_merged() {
    let repo = with_pull_request(&serde_json::json!({}), GREEN);
    let before = repo.before();
    let result = repo.run("merge_pr").await;
    let outcome = success(&result);
    assert_eq!(outcome.message, format!("merged {URL}"));
    assert_eq!(outcome.merged.as_deref(), Some("1234567890abcdef"));
    assert_eq!(outcome.pull_request.as_deref(), Some(URL));
    let commit = format!("--match-head-commit={}", repo.here("work"));
    assert_eq!(
        repo.gh_called(["pr", "merge"]),
        [["pr", "merge", "7", "--squash", &commit]]
    );
    repo.is_as(&before);
}

#[tokio::test]
async fn nothing_is_merged_past_a_check() {
    let cases = [
        (
            r#"echo '[{"name":"unit","bucket":"fail","link":"https://ci.example/1"},{"name":"b","bucket":"pending"}]'; exit 1"#,
            "these checks failed: `unit`",
            true,
        ),
        (
            r#"echo '[{"name":"unit","bucket":"cancel"}]'; exit 1"#,
            "waits for these checks, which have not ended: `unit` (cancelled)",
            false,
        ),
        (
            r#"echo '[{"name":"unit","bucket":"pass"},{"name":"e2e","bucket":"pending"}]'; exit 8"#,
            "have not ended: `e2e`",
            false,
        ),
        (
            r#"echo '[{"name":"unit","bucket":"something new"}]'"#,
            "have not ended: `unit`",
            false,
        ),
        (
            "echo 'the server is on fire' >&2; exit 1",
            "the server is on fire",
            false,
        ),
        (
            "echo 'unknown flag: --json' >&2; exit 1",
            "update it",
            false,
        ),
        ("exit 0", "`gh pr checks` failed", false),
    ];
    for (checks, expected, repairable) in cases {
        let repo = with_pull_request(&serde_json::json!({}), checks);
        let before = repo.before();
        let result = repo.run("merge_pr").await;
        let (message, remediation) = failure(&result);
        assert!(message.contains(expected), "{message}");
        assert_eq!(remediation.is_some(), repairable, "{message}");
        nothing_merged(&repo);
        repo.is_as(&before);
    }
}

#[tokio::test]
async fn only_the_required_checks_decide_if_there_are_some() {
    for (required, merges) in [("pass", true), ("pending", false)] {
        let checks = format!(
            r#"case "$*" in *--required*) echo '[{{"name":"unit","bucket":"{required}"}}]' ;;
            *) echo '[{{"name":"unit","bucket":"{required}"}},{{"name":"fuzz","bucket":"fail"}}]'; exit 1 ;; esac"#
        );
        let repo = with_pull_request(&serde_json::json!({}), &checks);
        let result = repo.run("merge_pr").await;
        if merges {
            assert_eq!(success(&result).message, format!("merged {URL}"));
        } else {
            let (message, _) = failure(&result);
            assert!(message.contains("have not ended: `unit`"), "{message}");
            nothing_merged(&repo);
        }
    }
}

#[tokio::test]
async fn a_repository_without_checks_can_be_merged() {
    let none = "echo \"no checks reported on the 'work' branch\" >&2; exit 1";
    let repo = with_pull_request(&serde_json::json!({}), none);
    success(&repo.run("merge_pr").await);
}

#[tokio::test]
async fn reviews_of_the_pull_request_are_respected() {
    let cases = [
        (
            serde_json::json!({ "state": "CLOSED" }),
            "was closed without merging",
        ),
        (serde_json::json!({ "isDraft": true }), "is a draft"),
        (
            serde_json::json!({ "reviewDecision": "CHANGES_REQUESTED" }),
            "requests changes",
        ),
        (
            serde_json::json!({ "mergeable": "CONFLICTING" }),
            "conflicts with `origin/main`",
        ),
        (
            serde_json::json!({ "headRefOid": "feedbeef" }),
            "submit again",
        ),
        (
            serde_json::json!({ "baseRefName": "next" }),
            "goes to `next` and the work to `main`",
        ),
    ];
    for (pull, expected) in cases {
        let repo = with_pull_request(&pull, GREEN);
        let result = repo.run("merge_pr").await;
        assert!(failure(&result).0.contains(expected), "{result:?}");
        nothing_merged(&repo);
    }
}

/// A pull request at the remote's commit, with one local commit that the remote does not have.
fn with_repair(more: &serde_json::Value, checks: &str) -> (Repo, String) {
    let repo = with_pull_request(more, checks);
    let list = fs::read_to_string(repo.at("gh/list.json"))
        .expect("a list")
        .replace(&repo.here("work"), "HEAD_OID");
    fs::write(repo.at("gh/list.json"), list).expect("a list");
    let head = "$(git --git-dir=\"$calls/../remote.git\" rev-parse refs/heads/work)";
    repo.gh_answers(
        "pr-list",
        &format!("sed \"s/HEAD_OID/{head}/\" \"$calls/list.json\""),
    );
    let repaired = repo.commit("c.txt", "c\n", "repair");
    (repo, repaired)
}

fn after_a_repair() -> SubmissionFacts {
    SubmissionFacts {
        repaired: true,
        ..SubmissionFacts::default()
    }
}

#[tokio::test]
async fn a_repair_is_pushed_to_the_pull_request_before_it_is_merged() {
    let late = "case \"$*\" in *--required*) echo 'no required checks reported' >&2; exit 1;; esac\nn=$(ls \"$calls\" | grep -c '^asked'); touch \"$calls/asked-$n\"\ncase $n in 0) b=pass;; 1) echo 'no checks reported' >&2; exit 1;; 2) b=pending;; *) b=pass;; esac\nprintf '[{\"name\":\"unit\",\"bucket\":\"%s\"}]' $b";
    let (repo, repaired) = with_repair(&serde_json::json!({}), late);
    let result = repo.run_with("merge_pr", after_a_repair()).await;
    assert_eq!(success(&result).message, format!("merged {URL}"));
    assert_eq!(repo.on_remote("work"), Some(repaired.clone()));
    assert_eq!(
        repo.gh_called(["pr", "checks"]).len(),
        6,
        "until they have passed on the repair, and once to be sure; once for the required ones while one runs"
    );
    assert_eq!(
        repo.gh_called(["pr", "merge"])[0][4],
        format!("--match-head-commit={repaired}")
    );
}

#[tokio::test]
async fn a_repair_is_not_merged_past_a_check_that_fails_on_it() {
    let red = "[ -e \"$calls/asked\" ] && b=fail || b=pass; touch \"$calls/asked\"\nprintf '[{\"name\":\"unit\",\"bucket\":\"%s\"}]' $b";
    let (repo, repaired) = with_repair(&serde_json::json!({}), red);
    let result = repo.run_with("merge_pr", after_a_repair()).await;
    let (message, remediation) = failure(&result);
    assert!(
        message.contains("these checks failed: `unit`") && remediation.is_some(),
        "{result:?}"
    );
    assert_eq!(repo.on_remote("work"), Some(repaired));
    nothing_merged(&repo);
}

#[tokio::test]
async fn a_repair_without_a_review_on_the_forge_is_pushed_and_not_merged() {
    let (repo, repaired) = with_repair(&serde_json::json!({ "reviewDecision": "APPROVED" }), GREEN);
    let result = repo.run_with("merge_pr", after_a_repair()).await;
    assert!(
        failure(&result)
            .0
            .contains("its reviewers have not seen the repair"),
        "{result:?}"
    );
    assert_eq!(repo.on_remote("work"), Some(repaired.clone()));
    nothing_merged(&repo);
    // A review by a gatekeeper is enough.
    let (repo, repaired) = with_repair(&serde_json::json!({ "reviewDecision": "APPROVED" }), GREEN);
    let reviewed = SubmissionFacts {
        reviewed: Some(repaired),
        ..after_a_repair()
    };
    success(&repo.run_with("merge_pr", reviewed).await);
}

#[tokio::test]
async fn unreviewed_and_unrequested_commits_are_not_pushed() {
    let (repo, _) = with_repair(&serde_json::json!({}), GREEN);
    let before = repo.on_remote("work");
    let result = repo.run("merge_pr").await;
    assert!(
        failure(&result)
            .0
            .contains("submit again with `creel submit`"),
        "{result:?}"
    );
    assert_eq!(repo.on_remote("work"), before);
    nothing_merged(&repo);
}

#[tokio::test]
async fn a_merged_pull_request_is_not_merged_again() {
    let repo = with_pull_request(&serde_json::json!({ "state": "MERGED" }), GREEN);
    assert_eq!(
        skipped(&repo.run("merge_pr").await),
        format!("{URL} is already merged")
    );
    nothing_merged(&repo);
}

#[tokio::test]
async fn a_merge_that_waits_in_a_queue_is_not_called_merged() {
    let repo = with_pull_request(&serde_json::json!({}), GREEN);
    let open = format!(r#"{{"number":7,"url":"{URL}","state":"OPEN"}}"#);
    repo.gh_answers("pr-view", &format!("echo '{open}'"));
    let result = repo.run("merge_pr").await;
    let outcome = success(&result);
    assert!(
        outcome.message.contains("is in the merge queue"),
        "{outcome:?}"
    );
    assert_eq!(
        (outcome.pull_request.as_deref(), &outcome.merged),
        (Some(URL), &None)
    );
}

#[tokio::test]
async fn a_gh_that_fails_merges_nothing() {
    let repo = with_pull_request(&serde_json::json!({}), GREEN);
    repo.gh_answers("pr-merge", "echo 'protected branch' >&2; exit 1");
    let before = repo.before();
    let result = repo.run("merge_pr").await;
    assert!(
        failure(&result).0.contains("protected branch"),
        "{result:?}"
    );
    assert_eq!(repo.on_remote("main"), Some(repo.here("main")));
    repo.is_as(&before);
}

#[tokio::test]
async fn another_forge_is_not_merged_past_its_checks() {
    let repo = Repo::new();
    repo.commit("b.txt", "b\n", "add b");
    let submission = SubmissionFacts {
        pr_command: Some("forge new".into()),
        ..SubmissionFacts::default()
    };
    let result = repo.run_with("merge_pr", submission).await;
    assert!(
        failure(&result).0.contains("cannot see the checks"),
        "{result:?}"
    );
    nothing_merged(&repo);
}

#[tokio::test]
async fn without_gh_a_remote_on_github_is_not_pushed_to() {
    let mut repo = Repo::new();
    repo.bare_path();
    repo.commit("b.txt", "b\n", "add b");
    repo.git(&["remote", "set-url", "origin", "git@github.com:a/b.git"]);
    let result = repo.run("merge_pr").await;
    assert!(
        failure(&result)
            .0
            .contains("which shows its checks, is not on PATH: install it"),
        "{result:?}"
    );
}

#[tokio::test]
async fn a_remote_on_another_forge_is_not_pushed_to() {
    let cases = [
        (
            "git@gitlab.com:a/b.git",
            "`glab`, which shows its checks, is not on PATH: install it",
        ),
        ("git@codeberg.org:a/b.git", "a forge (codeberg)"),
        ("git@codeberg.org:a/b.git", "submit first"),
    ];
    for (remote, expected) in cases {
        let mut repo = Repo::new();
        repo.bare_path();
        repo.commit("b.txt", "b\n", "add b");
        repo.git(&["remote", "set-url", "origin", remote]);
        let result = repo.run("merge_pr").await;
        assert!(failure(&result).0.contains(expected), "{result:?}");
    }
}

#[tokio::test]
async fn a_gh_that_only_knows_another_host_does_not_hide_checks() {
    let repo = Repo::with_gh();
    let strange =
        "none of the git remotes configured for this repository point to a known GitHub host";
    repo.gh_answers("pr-list", &format!("echo '{strange}' >&2; exit 1"));
    repo.commit("b.txt", "b\n", "add b");
    repo.git(&[
        "remote",
        "set-url",
        "origin",
        "https://github.corp.example/a/b.git",
    ]);
    let result = repo.run("merge_pr").await;
    assert!(
        failure(&result).0.contains("`gh` does not know that host"),
        "{result:?}"
    );
    nothing_merged(&repo);
}

#[tokio::test]
async fn a_merged_pull_request_to_another_branch_is_ignored() {
    let repo = with_pull_request(
        &serde_json::json!({ "state": "MERGED", "baseRefName": "next" }),
        GREEN,
    );
    let result = repo.run("merge_pr").await;
    assert!(
        failure(&result)
            .0
            .contains("submit first with `creel submit`"),
        "{result:?}"
    );
    nothing_merged(&repo);
    let repo = with_pull_request(&serde_json::json!({ "baseRefName": "main" }), GREEN);
    assert_eq!(
        success(&repo.run("merge_pr").await).message,
        format!("merged {URL}")
    );
}

#[tokio::test]
async fn without_a_forge_the_work_is_merged_and_pushed() {
    let mut repo = Repo::new();
    repo.bare_path();
    let head = repo.commit("b.txt", "b\n", "add b");
    let theirs = repo.elsewhere("main", "c.txt", "c\n");
    fs::write(repo.work.join("notes.txt"), "mine, untracked\n").expect("a file");
    let (before, local) = (repo.before(), repo.here("main"));
    let submission = SubmissionFacts {
        title: "Add b $(touch pwned)".into(),
        ..SubmissionFacts::default()
    };
    let result = repo.run_with("merge_pr", submission).await;
    let merged = success(&result).merged.clone().expect("a commit");
    assert_eq!(repo.on_remote("main"), Some(merged.clone()));
    assert_eq!(
        repo.git(&["log", "-1", "--format=%P", &merged]),
        format!("{theirs} {head}")
    );
    let message = repo.git(&["log", "-1", "--format=%B", &merged]);
    assert_eq!(
        message,
        "Merge branch 'work' into main\n\nAdd b $(touch pwned)"
    );
    assert_eq!(
        repo.git(&["ls-tree", "--name-only", &merged]),
        "a.txt\nb.txt\nc.txt"
    );
    assert_eq!(
        repo.here("main"),
        local,
        "what is here is a person's affair"
    );
    repo.is_as(&before);
    assert_eq!(repo.git(&["status", "--porcelain"]), "?? notes.txt");
    assert!(skipped(&repo.run("merge_pr").await).starts_with("nothing to merge"));
}

#[tokio::test]
async fn a_gh_without_a_forge_does_not_prevent_the_merge() {
    let answers = [
        "echo 'none of the git remotes configured for this repository point to a known GitHub host' >&2; exit 1",
        "echo 'please run:  gh auth login' >&2; exit 4",
    ];
    for answer in answers {
        let repo = Repo::with_gh();
        repo.gh_answers("pr-list", answer);
        repo.commit("b.txt", "b\n", "add b");
        success(&repo.run("merge_pr").await);
        assert_ne!(repo.on_remote("main"), Some(repo.here("main")));
    }
}

#[tokio::test]
async fn on_a_forge_nothing_is_merged_without_a_pull_request() {
    let repo = Repo::with_gh();
    repo.commit("b.txt", "b\n", "add b");
    let before = repo.before();
    let result = repo.run("merge_pr").await;
    let (message, remediation) = failure(&result);
    assert_eq!(
        message,
        "`work` has no pull request, and on a forge creel merges only by pull request: submit first with `creel submit`, then \
         run `creel merge` again"
    );
    assert_eq!(remediation, None);
    nothing_merged(&repo);
    repo.is_as(&before);
}

#[tokio::test]
async fn the_forge_of_another_remote_does_not_prevent_a_merge_into_a_folder() {
    let repo = Repo::with_gh();
    repo.git(&["remote", "add", "upstream", "https://github.com/a/b.git"]);
    repo.git(&["config", "branch.work.remote", "origin"]);
    repo.commit("b.txt", "b\n", "add b");
    success(&repo.run("merge_pr").await);
    assert_ne!(repo.on_remote("main"), Some(repo.here("main")));
}

#[tokio::test]
async fn a_conflict_merges_nothing() {
    let mut repo = Repo::new();
    repo.bare_path();
    repo.commit("a.txt", "mine\n", "mine");
    let theirs = repo.elsewhere("main", "a.txt", "theirs\n");
    let before = repo.before();
    let result = repo.run("merge_pr").await;
    let (message, remediation) = failure(&result);
    assert_eq!(message, "`work` conflicts with `origin/main` in `a.txt`");
    assert!(remediation.is_some_and(
        |prompt| prompt.contains("- `a.txt`\n") && prompt.contains("git rebase origin/main")
    ));
    assert_eq!(repo.on_remote("main"), Some(theirs));
    repo.is_as(&before);
    repo.is_clean();
}

#[tokio::test]
async fn a_push_that_is_refused_merges_nothing() {
    let mut repo = Repo::new();
    repo.bare_path();
    repo.commit("b.txt", "b\n", "add b");
    hook_of(&repo.remote(), "update", "#!/bin/sh\nexit 1\n");
    let before = repo.before();
    let result = repo.run("merge_pr").await;
    assert!(
        failure(&result)
            .0
            .starts_with("creel could not push the merge to `origin`"),
        "{result:?}"
    );
    nothing_merged(&repo);
    repo.is_as(&before);
}

#[tokio::test]
async fn uncommitted_changes_prevent_the_merge() {
    let mut repo = Repo::new();
    repo.bare_path();
    repo.commit("b.txt", "b\n", "add b");
    fs::write(repo.work.join("b.txt"), "half done\n").expect("a file");
    let result = repo.run("merge_pr").await;
    assert!(
        failure(&result).0.contains("so it is not merged"),
        "{result:?}"
    );
    nothing_merged(&repo);
}

#[tokio::test]
async fn without_a_remote_the_local_base_branch_moves() {
    let repo = Repo::without_remote();
    let head = repo.commit("b.txt", "b\n", "add b");
    let (before, old) = (repo.before(), repo.here("main"));
    let result = repo.run("merge_pr").await;
    let merged = success(&result).merged.clone().expect("a commit");
    assert_eq!(repo.here("main"), merged);
    assert_eq!(
        repo.git(&["log", "-1", "--format=%P", "main"]),
        format!("{old} {head}")
    );
    repo.is_as(&before);
    repo.is_clean();
}

#[tokio::test]
async fn a_checkout_of_the_base_branch_is_updated_only_if_it_has_no_changes() {
    let repo = Repo::without_remote();
    repo.commit("b.txt", "b\n", "add b");
    let other = repo.at("other");
    repo.git(&[
        "worktree",
        "add",
        "--quiet",
        &other.to_string_lossy(),
        "main",
    ]);
    fs::write(other.join("a.txt"), "half done\n").expect("a file");
    let old = repo.here("main");
    let result = repo.run("merge_pr").await;
    assert!(
        failure(&result).0.contains("has uncommitted changes"),
        "{result:?}"
    );
    assert_eq!(
        fs::read_to_string(other.join("a.txt")).expect("the file"),
        "half done\n"
    );
    assert_eq!(repo.here("main"), old);
    repo.git_in(&other, &["checkout", "--quiet", "--", "a.txt"]);
    let merged = success(&repo.run("merge_pr").await).merged.clone();
    assert_eq!(Some(repo.here("main")), merged);
    assert!(other.join("b.txt").exists());
    assert_eq!(repo.git_in(&other, &["status", "--porcelain"]), "");
}
