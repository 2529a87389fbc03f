//! `{{name}}` in a command line: which names exist, and how they are replaced.
//!
//! A placeholder becomes a reference to the environment variable with the value, quoted for its
//! position: `{{error}}` is `"${CREEL_ERROR-}"` bare, `'"${CREEL_ERROR-}"'` inside '…',
//! `${CREEL_ERROR-}` inside "…". The runner of the command sets the variable ([`variable`]); a
//! variable that is not set reads as empty text.
//!
//! Rejected design: quoting the value and writing it into the command. Every mistake in parsing the
//! shell's grammar would then let an agent run commands, and the command and its values together
//! would have to fit into one argument of 128 KiB. This way a mistake can at worst split a word,
//! and each value has 128 KiB of its own.
//!
//! Does not set variables and does not know values: see `crate::hooks`. [`shell`] determines a
//! placeholder's position.
//!
//! # Invariants
//! - A value is data, never code: it is not part of the command text, and the shell expands it
//!   once.
//! - A value is not searched for further placeholders.
//! - A position where this cannot be guaranteed is refused, with a suggestion. creel does not
//!   control what a *program* does with its argument or input; only programs that are known to read
//!   it as code (`sh -c`, `eval`, `ssh`, `| python`) are refused: see [`simple_command`].

mod shell;
mod simple_command;
mod taint;

use std::{fmt, ops::Range};

use super::point::HookPoint;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placeholder {
    /// The text between the braces.
    pub name: String,
    /// In bytes, braces included.
    pub range: Range<usize>,
}

/// All placeholders of a text. Braces around anything but one plain name, the output of a workflow
/// step (`{{steps.build.stdout}}`) or a part of its context (`{{context.version}}`) are ordinary
/// text (`{{.Names}}`, `{{ a b }}`), since other programs have templates too.
pub fn placeholders(text: &str) -> Vec<Placeholder> {
    in_braces(text, is_name)
}

/// Dotted names in braces that are no placeholders, such as `{{contxt.version}}`.
pub fn lookalikes(text: &str) -> Vec<Placeholder> {
    let is_part = |part: &str| is_plain_name(&part.replace('-', "_"));
    in_braces(text, |name| {
        name.contains('.') && name.split('.').all(is_part) && !is_name(name)
    })
}

fn in_braces(text: &str, is_wanted: impl Fn(&str) -> bool) -> Vec<Placeholder> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(open) = text[from..].find("{{").map(|i| from + i) {
        let inside = open + 2;
        let Some(close) = text[inside..].find("}}").map(|i| inside + i) else {
            break;
        };
        let name = text[inside..close].trim_matches([' ', '\t']);
        if is_wanted(name) {
            found.push(Placeholder {
                name: name.to_owned(),
                range: open..close + 2,
            });
            from = close + 2;
        } else {
            from = open + 1;
        }
    }
    found
}

fn is_name(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if let Some(rest) = text.strip_prefix("steps.") {
        // The output of a workflow step: `steps.NAME.stdout`.
        let parts = rest.rsplit_once('.');
        return parts.is_some_and(|(step, field)| {
            !step.is_empty()
                && step.chars().all(|c| plain(c) || c == '-')
                && !field.is_empty()
                && field.chars().all(plain)
        });
    }
    if let Some(path) = text.strip_prefix("context.") {
        return path
            .split('.')
            .all(|key| !key.is_empty() && key.chars().all(|c| plain(c) || c == '-'));
    }
    is_plain_name(text)
}

fn is_plain_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The placeholders of a command that opens a pull request.
pub const PULL_REQUEST: &[&str] = &[
    "title",
    "body",
    "body_file",
    "base",
    "branch",
    "remote",
    "commit",
];

/// The placeholders that are available at a point.
pub const fn offered(point: HookPoint) -> &'static [&'static str] {
    match point {
        HookPoint::SessionStart | HookPoint::SessionEnd => &["session"],
        HookPoint::PreIteration
        | HookPoint::PrePrompt
        | HookPoint::OnQuestion
        | HookPoint::PostIteration
        | HookPoint::StopDecision => &["session", "iteration"],
        HookPoint::PreTool => &["session", "iteration", "tool", "tool_kind"],
        HookPoint::PostTool => &["session", "iteration", "tool", "tool_kind", "status"],
        HookPoint::Stop => &["session", "iteration", "attempt"],
        HookPoint::OnError => &["session", "iteration", "error"],
        HookPoint::OnGate => &[
            "session",
            "gate",
            "about",
            "reason",
            "choices",
            "answer_command",
            "state",
            "waits_for_user",
            "choice",
            "by",
        ],
        HookPoint::OnTaskComplete | HookPoint::Automation => {
            &["session", "iteration", "task_id", "task_content"]
        }
        HookPoint::BeforeSubmit => &[
            "session",
            "task_id",
            "task_content",
            "attempt",
            "branch",
            "base",
            "commit",
            "agent",
            "task_type",
        ],
        HookPoint::BeforeMerge => &[
            "session",
            "task_id",
            "task_content",
            "attempt",
            "branch",
            "base",
            "commit",
            "agent",
            "task_type",
            "pull_request",
        ],
        HookPoint::AfterSubmit | HookPoint::AfterMerge => &[
            "session",
            "task_id",
            "task_content",
            "branch",
            "base",
            "commit",
            "agent",
            "task_type",
            "pull_request",
        ],
    }
}

/// The environment variable of a placeholder.
pub fn variable(name: &str) -> String {
    format!(
        "CREEL_{}",
        name.to_ascii_uppercase().replace(['.', '-'], "_")
    )
}

/// The command line with every placeholder replaced by a reference to its variable. Braces that are
/// not a placeholder stay as they are, and so does a placeholder in a comment. Needs no values, so
/// it also checks a command before anything runs.
pub fn expand(text: &str) -> Result<String, TemplateError> {
    shell::expand(text)
}

/// Checks the arguments of a program that runs without a shell. Each value is (a part of) one
/// argument, so only two places are refused: the program itself, which a value would choose, and an
/// argument that the program runs as code.
pub fn check_arguments(arguments: &[String]) -> Result<(), (usize, TemplateError)> {
    let mut command = simple_command::SimpleCommand::default();
    for (index, argument) in arguments.iter().enumerate() {
        for placeholder in placeholders(argument) {
            command.word = Some(argument[..placeholder.range.start].to_owned());
            let place = match index {
                0 => Some(UnsafePosition::Program),
                _ if !shell::is_plain(&placeholder.name) && command.is_code() => {
                    Some(UnsafePosition::OtherShell)
                }
                _ => None,
            };
            if let Some(place) = place {
                return Err((index, TemplateError { placeholder, place }));
            }
        }
        command.word = Some(argument.clone());
        command.end_word();
    }
    Ok(())
}

/// The text with every placeholder replaced by its value. Values are not searched for placeholders,
/// and a placeholder without a value stays.
pub fn fill(text: &str, value: impl Fn(&str) -> Option<String>) -> String {
    let mut filled = String::new();
    let mut from = 0;
    for Placeholder { name, range } in placeholders(text) {
        filled.push_str(&text[from..range.start]);
        filled.push_str(&value(&name).unwrap_or_else(|| text[range.clone()].to_owned()));
        from = range.end;
    }
    filled.push_str(&text[from..]);
    filled
}

/// A placeholder at a position where its value could become code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateError {
    pub placeholder: Placeholder,
    pub place: UnsafePosition,
}

/// Positions where a placeholder is not allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnsafePosition {
    /// After a backslash, which would escape creel's quotes.
    AfterBackslash,
    /// After a dollar sign, which would join with the inserted reference.
    AfterDollar,
    /// Inside `` `…` ``.
    Backquotes,
    /// Inside `${…}`.
    Parameter,
    /// Inside `$((…))`: some shells run command substitutions in an operand.
    Arithmetic,
    /// In the end mark of a here-document.
    HereDelimiter,
    /// In a here-document whose end mark is quoted: nothing is expanded there.
    QuotedHere,
    /// In a here-document that also contains `$(…)`, `${…}` or `` `…` ``.
    MixedHere,
    /// In text that another shell reads as code.
    OtherShell,
    /// In the name of a program that runs without a shell.
    Program,
    /// After something that shells parse in different ways.
    Unclear,
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.placeholder.name;
        let variable = variable(name);
        let (place, way_out) = match self.place {
            UnsafePosition::AfterBackslash => {
                ("right after a backslash", "remove the backslash, or use")
            }
            UnsafePosition::AfterDollar => (
                "right after a dollar sign",
                "write \\$ for a dollar sign, or use",
            ),
            UnsafePosition::Backquotes => ("inside `…`", "write $(…) instead, or use"),
            UnsafePosition::Parameter => ("inside ${…}", "use"),
            UnsafePosition::Arithmetic => {
                ("inside $((…))", "check that it is a number first, with")
            }
            UnsafePosition::HereDelimiter => ("in the end mark of a here-document", "use"),
            UnsafePosition::QuotedHere => (
                "in a here-document with a quoted end mark",
                "write the mark without quotes, or use",
            ),
            UnsafePosition::MixedHere => ("in a here-document with other expansions", "use"),
            UnsafePosition::OtherShell => {
                return write!(
                    f,
                    "{{{{{name}}}}} cannot be in text that another program runs as code: pass it to that program as an \
                     argument after its code, or read the environment variable {variable} in that code \
                     (\"${variable}\" in a shell)"
                );
            }
            UnsafePosition::Program => {
                return write!(
                    f,
                    "{{{{{name}}}}} cannot name the program: a value would choose what runs"
                );
            }
            UnsafePosition::Unclear => (
                "here, after syntax that shells read in different ways",
                "use",
            ),
        };
        write!(
            f,
            "{{{{{name}}}}} cannot be {place}: {way_out} \"${variable}\""
        )
    }
}

impl std::error::Error for TemplateError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(text: &str) -> String {
        expand(text).expect("a place that can be quoted")
    }

    fn refused(text: &str) -> UnsafePosition {
        expand(text)
            .expect_err("a place that cannot be quoted")
            .place
    }

    #[test]
    fn a_placeholder_is_quoted_for_the_place_where_it_stands() {
        assert_eq!(expanded("a {{error}} b"), r#"a "${CREEL_ERROR-}" b"#);
        assert_eq!(
            expanded("a 'x {{ error }} y'"),
            r#"a 'x '"${CREEL_ERROR-}"' y'"#
        );
        assert_eq!(
            expanded(r#"a "x {{error}} y""#),
            r#"a "x ${CREEL_ERROR-} y""#
        );
        assert_eq!(
            expanded(r#"a "$(b {{error}} "{{error}}")""#),
            r#"a "$(b "${CREEL_ERROR-}" "${CREEL_ERROR-}")""#
        );
        assert_eq!(expanded(r#"a \"{{error}}\""#), r#"a \""${CREEL_ERROR-}"\""#);
        assert_eq!(
            expanded("cat <<E\n{{error}}\nE\na {{error}}"),
            "cat <<E\n${CREEL_ERROR-}\nE\na \"${CREEL_ERROR-}\""
        );
        assert_eq!(
            expanded("case {{error}} in '{{error}}') b;; esac"),
            r#"case "${CREEL_ERROR-}" in ''"${CREEL_ERROR-}"'') b;; esac"#
        );
    }

    #[test]
    fn a_value_that_looks_like_a_placeholder_stays_as_it_is() {
        let value = |name: &str| (name != "other").then(|| format!("<{name} {{{{reason}}}}>"));
        assert_eq!(
            fill("a {{hook}} {{ reason }} {{other}} {{", value),
            "a <hook {{reason}}> <reason {{reason}}> {{other}} {{"
        );
    }

    #[test]
    fn the_output_of_a_step_has_its_own_variable() {
        assert_eq!(
            expanded("a {{steps.build-all.stdout}}"),
            r#"a "${CREEL_STEPS_BUILD_ALL_STDOUT-}""#
        );
        for text in [
            "{{steps.x}}",
            "{{steps..x}}",
            "{{steps.a.b.c}}",
            "{{steps.$x.y}}",
        ] {
            assert_eq!(expanded(text), text);
        }
    }

    #[test]
    fn a_part_of_the_context_is_a_placeholder_and_what_looks_like_one_is_found() {
        assert_eq!(
            expanded("a {{context.items.0.name}}"),
            r#"a "${CREEL_CONTEXT_ITEMS_0_NAME-}""#
        );
        let found = |text: &str| {
            lookalikes(text)
                .into_iter()
                .map(|found| found.name)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            found("{{contxt.word}} {{ steps.x }} {{context.a}} {{a}}"),
            ["contxt.word", "steps.x"]
        );
        assert_eq!(
            found("{{.Names}} {{json .State}} {{context.}} {{a..b}} {{context.$x}}"),
            [""; 0]
        );
    }

    #[test]
    fn what_is_no_placeholder_stays() {
        for text in [
            "docker ps --format '{{.Names}}'",
            "a # not {{here}}",
            "echo {{ a b }} ${x:-{}} $((1+2)) `b`",
            "{{",
        ] {
            assert_eq!(expanded(text), text);
        }
    }

    #[test]
    fn a_number_may_be_calculated_with() {
        assert_eq!(
            expanded("echo $(({{iteration}} + 1))"),
            "echo $((${CREEL_ITERATION-} + 1))"
        );
        assert_eq!(
            refused("echo $(({{error}} + 1))"),
            UnsafePosition::Arithmetic
        );
    }

    #[test]
    fn a_place_that_cannot_be_quoted_is_refused() {
        let places = [
            (r"a \{{error}}", UnsafePosition::AfterBackslash),
            (r#"a "\{{error}}""#, UnsafePosition::AfterBackslash),
            ("a ${{error}}", UnsafePosition::AfterDollar),
            ("a `b {{error}}`", UnsafePosition::Backquotes),
            ("a \"`b {{error}}`\"", UnsafePosition::Backquotes),
            ("a ${x:-{{error}}}", UnsafePosition::Parameter),
            ("a \"${x:-$(b {{error}})}\"", UnsafePosition::Parameter),
            ("cat <<{{error}}", UnsafePosition::HereDelimiter),
            ("cat <<'E'\n{{error}}\nE", UnsafePosition::QuotedHere),
            ("cat <<-\\E\n\t{{error}}\n\tE", UnsafePosition::QuotedHere),
            ("cat <<E\")\"\n{{error}}\nE)", UnsafePosition::QuotedHere),
            ("cat <<E\n$(a {{error}})\nE", UnsafePosition::MixedHere),
            (
                "a \"$(case x in x) b;; esac)\" {{error}}",
                UnsafePosition::Unclear,
            ),
            ("a $'b\\'c' {{error}}", UnsafePosition::Unclear),
            ("(( {{error}} ))", UnsafePosition::Unclear),
        ];
        for (text, place) in places {
            assert_eq!(refused(text), place, "{text}");
        }
    }

    #[test]
    fn text_for_another_shell_takes_only_plain_values() {
        for text in [
            "bash -c 'a {{error}}'",
            "/bin/sh -ec \"a {{error}}\"",
            "eval a {{error}}",
            "sudo bash -s <<E\n{{error}}\nE",
            "x; ssh host a {{error}}",
            "sh -ce 'a {{error}}'",
            "bash -ceu \"a {{error}}\"",
            "bash -c -- 'a {{error}}'",
            "bash -c -o pipefail 'a {{error}}'",
            "bash 2>&1 -c 'a {{error}}'",
            "bash -c > log 'a {{error}}'",
            "bash -c \"$(b {{error}})\"",
            "bash -c \"$(cat <<E\na {{error}}\nE\n)\"",
            "$SHELL -c 'a {{error}}'",
            "X=bash; $X -c 'a {{error}}'",
            "sudo \"${X}\" -c 'a {{error}}'",
            "if `which bash` -c 'a {{error}}'; then b; fi",
            "su --command 'a {{error}}'",
            "su user --command='a {{error}}'",
            "find . -exec sh -c 'a {{error}}' \\;",
            "nohup timeout 5 nice -n 3 env A=b bash -c 'a {{error}}'",
            "env -S \"bash -c 'a {{error}}'\"",
            "trap \"a {{error}}\" EXIT",
            "script -qc \"a {{error}}\" /dev/null",
            "A=b watch a {{error}}",
            "tmux display-message {{error}}",
            "python3.11 -c \"print('{{error}}')\"",
            "perl -ne 'print \"{{error}}\"' x",
            "osascript -e 'display notification \"{{error}}\"'",
            "awk -v a=b '/{{error}}/' x",
            "sed 's/a/{{error}}/' x",
            "fish -C 'a {{error}}'",
            "let x={{error}}",
            "perl -e 'a' -e 'b {{error}}'",
            "node --require x --eval 'a {{error}}'",
            "node --no-warnings -e 'a {{error}}'",
            "node --no-warnings -e'a {{error}}'",
            "sed --quiet 's/{{error}}//' x",
            "sed --expression 's/{{error}}//' x",
            "if [[ {{error}} -eq 1 ]]; then a; fi",
            "[[ a == b && {{error}} -eq 1 ]]",
            "[[ $(a {{error}}) -gt 1 ]]",
            "x={{error}}; [[ $x -gt 1 ]]",
            "bash --norc -c 'a {{error}}'",
            "bash -oe pipefail -c 'a {{error}}'",
            "flock x -c 'a {{error}}'",
            "sudo -u a sed 's/{{error}}//' x",
            "docker exec a \"$X\" -c 'a {{error}}'",
        ] {
            assert_eq!(refused(text), UnsafePosition::OtherShell, "{text}");
        }
        assert_eq!(
            expanded("sh -c 'a {{iteration}}'"),
            r#"sh -c 'a '"${CREEL_ITERATION-}"''"#
        );
        assert_eq!(
            expanded("sh -c 'b; c' x {{error}}"),
            r#"sh -c 'b; c' x "${CREEL_ERROR-}""#
        );
        assert_eq!(
            expanded("sh -c x; grep -c {{error}}"),
            r#"sh -c x; grep -c "${CREEL_ERROR-}""#
        );
    }

    #[test]
    fn scripts_for_another_shell_take_only_plain_values() {
        for text in [
            ". /dev/stdin <<E\n{{error}}\nE",
            "<<E bash\n{{error}}\nE",
            "<<E 2>&1 bash -s\n{{error}}\nE",
            "$SHELL <<E\n{{error}}\nE",
            "cat <<E | sh\n{{error}}\nE",
            "cat <<E |\n{{error}}\nE\nsh",
            "bash <<< \"{{error}}\"",
            "<<< {{error}} bash",
            "bash <(echo {{error}})",
            "source <(echo {{error}})",
            "echo {{error}} | sh",
            "(echo {{error}}) |& sudo bash -e > log 2>&1",
            "echo {{error}} | { bash; }",
            "echo {{error}} | ssh host",
            "echo {{error}} | xargs -I% sh -c 'echo %'",
            "echo {{error}} | python3 -",
            "echo {{error}} | at now",
            "echo {{error}} |\n sh",
            "(echo {{error}}; echo b) | sh",
            "{ echo {{error}}; echo b; } | sh",
            "if a; then echo {{error}}; fi | sh",
            "for x in {{error}}; do echo $x | sh; done",
            "for x in a b; do echo {{error}}; done | sh",
            "(case x in x) echo {{error}};; esac) | sh",
            "for x in a b; do echo {{error}}; done<y | sh",
            "{ f() { a; }; echo {{error}}; } | sh",
            "{ f(){ a; }; echo {{error}}; } | sh",
            "{ cat <<E\n{{error}}\nE\n} | sh",
            "echo {{error}} | { cat x; bash; }",
            "echo {{error}} | while read x; do echo $x | sh; done",
            "x={{error}}; echo \"$x\" | sh",
            "x=$(echo {{error}}); sh <<E\n${x}\nE",
            "set -- {{error}}; echo \"$1\" | sh",
            "echo {{error}} | sudo -u deploy bash",
            "echo {{error}} | timeout -s KILL 60 nice -n 3 bash",
            "echo {{error}} | sudo docker exec -i a sh",
            "echo {{error}} | flock x sh",
            "echo {{error}} | find . -exec sh -s \\;",
            "echo {{error}} && echo {{error}} | sh",
        ] {
            assert_eq!(refused(text), UnsafePosition::OtherShell, "{text}");
        }
        assert_eq!(
            refused("echo $(cat <<E)\n{{error}}\nE"),
            UnsafePosition::Unclear
        );
        assert_eq!(
            expanded("sh <<E\na {{iteration}}\nE"),
            "sh <<E\na ${CREEL_ITERATION-}\nE"
        );
    }

    #[test]
    fn arguments_of_a_script_are_not_checked() {
        for text in [
            "bash notify.sh {{error}}",
            "bash -x notify.sh --title={{error}}",
            "\"$HOME/bin/notify\" -c {{error}}",
            "notify --title \"$TITLE\" -c {{error}}",
            "find . -name {{error}}",
            "grep -r {{error}} . | grep -v bash",
            "echo {{error}} | bash notify.sh > log 2>&1",
            "echo {{error}} | python3 -c 'import sys; print(sys.stdin.read())'",
            "awk -v error={{error}} 'BEGIN { print error }'",
            "sed -n p x {{error}}",
            "gh run watch {{error}}",
            "cat >> $LOG <<< {{error}}",
            "if test {{error}} = bash; then a; fi",
            "[[ {{error}} == *x* ]] && a",
            "node cli.js -p {{error}}",
            "python3 -u notify.py -c {{error}}",
            "make {{task_id}}",
            "docker build -t app:{{task_id}} .",
            "sudo cp {{task_id}}.log .",
            "timeout 60 git commit -m {{task_content}} .",
            "gh issue create --title {{task_content}} --label python",
            "curl -d {{error}} https://ntfy.sh/node",
            "git commit -m {{task_content}} -- services/node",
            "git commit -m {{task_content}} && git push origin HEAD:refs/heads/node",
            "git commit -m {{task_content}} && rsync -a -e ssh . host:x",
            "git commit -qam \"{{task_content}}\" && ssh deploy@host ./deploy.sh",
            "echo {{error}} >> log; [[ $N -gt 3 ]] && exit 2",
            "echo {{error}} >> log; $NOTIFY",
            "echo \"{{error}}\" >> log\npython3 - <<'EOF'\nprint(1)\nEOF",
            "cat >> log <<E\n{{error}}\nE\nssh deploy@host ./deploy.sh",
            "echo {{error}} >> log; crontab -l",
            "echo {{error}} >> log & su - deploy -c ./x",
            "echo {{error}} >> log || find . -empty -delete",
            "if grep -q {{error}} log; then ssh deploy@host ./deploy.sh; fi",
            "bash notify.sh -c {{error}}",
            "bash notify.sh -critical {{error}}",
            "bash notify.sh --print {{error}}",
            "node --enable-source-maps notify.js -p {{task_id}}",
            "kubectl -n at annotate pod x m={{task_content}}",
        ] {
            assert!(expand(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn without_a_shell_only_code_and_the_program_take_no_values() {
        let check = |arguments: &[&str]| {
            let arguments: Vec<String> = arguments
                .iter()
                .map(|&argument| argument.to_owned())
                .collect();
            check_arguments(&arguments).map_err(|(index, error)| (index, error.place))
        };
        assert_eq!(
            check(&[
                "notify",
                "{{error}}",
                "-c",
                "a `{{error}}` $(b) \\{{error}}"
            ]),
            Ok(())
        );
        assert_eq!(
            check(&["sh", "-c", "echo \"$1\"", "sh", "{{error}}"]),
            Ok(())
        );
        assert_eq!(check(&["sh", "-c", "echo {{iteration}}"]), Ok(()));
        assert_eq!(check(&["{{error}}"]), Err((0, UnsafePosition::Program)));
        assert_eq!(
            check(&["bin/{{session}}"]),
            Err((0, UnsafePosition::Program))
        );
        for code in [
            &["sh", "-c", "echo {{error}}"][..],
            &["sudo", "bash", "-ec", "{{error}}"],
            &["python3", "-c", "print('{{error}}')"],
            &["perl", "-e{{error}}"],
            &["ssh", "host", "echo {{error}}"],
        ] {
            assert_eq!(
                check(code),
                Err((code.len() - 1, UnsafePosition::OtherShell)),
                "{code:?}"
            );
        }
    }

    #[test]
    fn what_surrounds_a_placeholder_is_read_to_its_end() {
        let error = "\"${CREEL_ERROR-}\"";
        for text in [
            "echo $(( (1 + 2) * 3 )) @",
            "echo $(( ((1)) )) @",
            "echo $(( $(b @) + 1 )) @",
            "echo $(( $x )) @",
            "echo ${x:-'a}'} @",
            "echo ${x:-\"a}\"} @",
            "a `b \\`c\\` d` @",
            "a \\\n @",
            "a b#c @",
            "a 'b\nc' @",
            "cat <<E 'b' @\nE",
            "cat <<'E'\na \\\nE\nb @",
            "echo {@}",
        ] {
            assert_eq!(
                expanded(&text.replace('@', "{{error}}")),
                text.replace('@', error),
                "{text}"
            );
        }
        for text in [
            "a 'b",
            "a \\",
            "a \"b",
            "cat <<E",
            "cat <<",
            "{{context.}}",
            "{{context.$x}}",
        ] {
            assert_eq!(expanded(text), text);
        }
        assert_eq!(expanded("cat <<E\n{{error}}"), "cat <<E\n${CREEL_ERROR-}");
        assert_eq!(
            expanded("a {{context.a-b}} {{_x}}"),
            r#"a "${CREEL_CONTEXT_A_B-}" "${CREEL__X-}""#
        );
    }

    #[test]
    fn a_place_that_shells_read_differently_is_refused() {
        for text in [
            "echo $((1) + 2) {{error}}",
            "echo $(( \"1\" )) {{error}}",
            "echo \"${x:-'a'}\" {{error}}",
            "cat <\\\n<E {{error}}",
            "(\\\n(a) {{error}}",
            "cat <<E \\\n {{error}}\nE",
            "cat <<\\'E\n{{error}}\n'E",
            "cat <<E 'a\nb' {{error}}\nE",
            "cat <<E \"a\nb\" {{error}}\nE",
            "cat <<E\na \\\nE\n{{error}}",
        ] {
            assert_eq!(refused(text), UnsafePosition::Unclear, "{text}");
        }
        for text in ["echo $(( `b {{error}}` ))", "a `b \\`c {{error}}\\``"] {
            assert_eq!(refused(text), UnsafePosition::Backquotes, "{text}");
        }
    }

    #[test]
    fn a_value_is_followed_to_the_program_that_reads_it() {
        for text in [
            "bash &> log -c 'a {{error}}'",
            "x_y={{error}}; echo $x_y | sh",
            "x={{error}}; echo $x.y | sh",
            "x={{error}}; echo ${#x} | sh",
            "set -- {{error}}; echo $@ | sh",
            "if a; then echo {{error}}; echo fi; fi | sh",
            "{ echo {{error}}; echo }; } | sh",
            "for x in a; do echo {{error}}; echo done; done | sh",
            "x={{error}}; sh <<E\n$x\nE",
        ] {
            assert_eq!(refused(text), UnsafePosition::OtherShell, "{text}");
        }
        for text in [
            "echo {{error}} || sh",
            "echo {{error}} | cat\nsh",
            "(echo {{error}})\nsh",
            "x={{error}}; echo $y | sh",
            "x={{error}}; cat <<E\n$x\nE",
            "x={{error}}; sh <<'E'\n$x\nE",
            "test {{error}} -eq 1",
            "echo {{error}} | flock lock notify sh",
        ] {
            assert!(expand(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn an_error_says_the_way_out() {
        let error = expand("a `b {{task_content}}`")
            .expect_err("refused")
            .to_string();
        assert_eq!(
            error,
            r#"{{task_content}} cannot be inside `…`: write $(…) instead, or use "$CREEL_TASK_CONTENT""#
        );
        let error = expand("python3 -c 'print({{error}})'")
            .expect_err("refused")
            .to_string();
        assert!(
            error.contains("read the environment variable CREEL_ERROR"),
            "{error}"
        );
    }
}
