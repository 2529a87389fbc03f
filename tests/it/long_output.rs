//! Output that is too long to keep: the agent finds all of it in a file.

use crate::support::git_project::{config, git, repository};

/// Copies the file that its prompt names, as a command in its own folder.
const READS: &str =
    r#"path=$(sed -n 's/.*all of it: \(.*\) …\]$/\1/p'); test -z "$path" || cat "$path" > "$SEEN""#;

#[test]
fn the_agent_finds_the_whole_output_under_the_path_in_its_prompt() {
    for (worktree, is_absolute) in [("", false), ("worktree: true", true)] {
        let check = "test -s $SEEN || { seq 1 20000; exit 2; }";
        let more =
            format!("hooks: {{ stop: [{{ name: tests, command: '{check}' }}] }}\n{worktree}");
        let project = repository(&config(
            "sh agent.sh; echo '<promise>COMPLETE</promise>'",
            &more,
        ));
        project.write("agent.sh", READS);
        git(&project, &["add", "agent.sh"]);
        git(&project, &["commit", "--quiet", "-m", "agent"]);
        let seen = project.root().with_file_name("seen");
        let args = ["run", "--headless", "--trust", "-s", "s"];
        let output = project
            .command(&args)
            .env("SEEN", &seen)
            .output()
            .expect("creel starts");
        let ran = crate::support::project::Ran::of(&output);
        assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
        let whole = std::fs::read_to_string(&seen).expect("the agent read the file");
        assert_eq!(whole.lines().count(), 20_000);
        let feedback = &project.prompts()[1].1;
        let (_, path) = feedback.split_once("all of it: ").expect("a path");
        assert_eq!(path.starts_with('/'), is_absolute, "{path}");
        assert!(
            is_absolute || path.starts_with(".creel/sessions/s/outputs/run-"),
            "{path}"
        );
    }
}
