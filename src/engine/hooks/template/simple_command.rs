//! One simple command of a command line: its words, and which of them, or which input, another
//! program reads as code.
//!
//! Owns the list of such programs. Does not parse the shell's grammar: see [`super::shell`].
//!
//! # Invariants
//! - When in doubt it is code: an option that can have a value is assumed to have one, and a
//!   program named by a variable is assumed to be a shell.

/// Which arguments a program reads as code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CodeArguments {
    All,
    /// The first argument that is not an option.
    First,
    /// The value of one of its flags, at any position.
    Flagged,
    /// The value of one of its flags before the script. Arguments after the script belong to the
    /// script.
    BeforeScript,
    /// The script argument, if a flag before it says so.
    FlaggedScript,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CodeInput {
    Always,
    /// If no argument names a file with the code.
    WithoutScript,
    Never,
}

#[derive(Debug)]
struct InterpreterSpec {
    names: &'static [&'static str],
    code: CodeArguments,
    /// Letters of the options that pass code.
    flags: &'static str,
    /// Letters of the options that have a value which is not code.
    takes: &'static str,
    input: CodeInput,
}

/// Recognized at any position in a command, because `sudo`, `env` and many others run their
/// arguments.
const ANYWHERE: &[InterpreterSpec] = &[
    InterpreterSpec {
        code: CodeArguments::FlaggedScript,
        ..SHELL
    },
    InterpreterSpec {
        names: &["fish"],
        flags: "cC",
        ..SHELL
    },
    InterpreterSpec {
        names: &["pwsh", "powershell"],
        ..SHELL
    },
    InterpreterSpec {
        names: &["su", "runuser"],
        takes: "gGsw",
        input: CodeInput::Always,
        ..SHELL
    },
    InterpreterSpec {
        names: &["eval"],
        code: CodeArguments::All,
        input: CodeInput::Never,
        ..SHELL
    },
    InterpreterSpec {
        names: &["ssh", "mosh", "rsh"],
        code: CodeArguments::All,
        input: CodeInput::Always,
        ..SHELL
    },
    InterpreterSpec {
        names: &["python", "pypy"],
        takes: "WX",
        ..INTERPRETER
    },
    InterpreterSpec {
        names: &["perl", "ruby"],
        flags: "eE",
        takes: "Ir",
        ..INTERPRETER
    },
    InterpreterSpec {
        names: &["node", "nodejs", "bun", "julia", "Rscript"],
        flags: "eEp",
        takes: "rCtJL",
        ..INTERPRETER
    },
    InterpreterSpec {
        names: &["php"],
        flags: "rBRE",
        takes: "dc",
        ..INTERPRETER
    },
    InterpreterSpec {
        names: &["lua", "luajit", "osascript"],
        flags: "e",
        takes: "l",
        ..INTERPRETER
    },
];

const INTERPRETER: InterpreterSpec = InterpreterSpec {
    code: CodeArguments::BeforeScript,
    ..SHELL
};

/// Only the shell itself can do this.
const SOURCE: InterpreterSpec = InterpreterSpec {
    names: &[".", "source"],
    flags: "",
    takes: "",
    ..SHELL
};

/// Any shell; also assumed for a program that a variable names.
const SHELL: InterpreterSpec = InterpreterSpec {
    names: &[
        "sh", "bash", "rbash", "dash", "ash", "zsh", "ksh", "mksh", "csh", "tcsh",
    ],
    code: CodeArguments::Flagged,
    flags: "c",
    takes: "oO",
    input: CodeInput::WithoutScript,
};

/// Their names are common words, so they are recognized only where a program is expected.
const IN_PLACE: &[InterpreterSpec] = &[
    // `let` evaluates arithmetic, which runs command substitutions inside an operand.
    InterpreterSpec {
        names: &["trap", "watch", "tmux", "let"],
        code: CodeArguments::All,
        input: CodeInput::Never,
        ..SHELL
    },
    InterpreterSpec {
        names: &["parallel"],
        code: CodeArguments::All,
        input: CodeInput::Always,
        ..SHELL
    },
    InterpreterSpec {
        names: &["at", "batch", "crontab"],
        flags: "",
        input: CodeInput::Always,
        ..SHELL
    },
    SOURCE,
    InterpreterSpec {
        names: &["script", "flock", "sg", "expect"],
        input: CodeInput::Never,
        ..SHELL
    },
    InterpreterSpec {
        names: &["env"],
        flags: "S",
        takes: "uC",
        input: CodeInput::Never,
        ..SHELL
    },
    InterpreterSpec {
        names: &["nix-shell"],
        flags: "",
        input: CodeInput::Never,
        ..SHELL
    },
    InterpreterSpec {
        names: &["awk", "gawk", "mawk", "nawk", "sed", "gsed"],
        code: CodeArguments::First,
        flags: "e",
        takes: "vFfl",
        input: CodeInput::Never,
    },
];

/// Long options that pass code.
const LONG: &[&str] = &[
    "--command",
    "--session-command",
    "--init-command",
    "--split-string",
    "--run",
    "--eval",
    "--print",
    "--expression",
    "--source",
    "-Command",
];

/// Prefixes of long options that never have a value.
const ALONE: &[&str] = &["--no-", "--enable-"];

/// Programs that run their arguments: see [`runs_next`].
const WRAPPERS: &[&str] = &[
    "sudo",
    "doas",
    "env",
    "exec",
    "command",
    "builtin",
    "nohup",
    "nice",
    "ionice",
    "timeout",
    "setsid",
    "time",
    "xargs",
    "chroot",
    "stdbuf",
    "flock",
    "find",
    "docker",
    "podman",
    "kubectl",
    "busybox",
    "unshare",
    "nsenter",
    "strace",
    "coproc",
    "unbuffer",
    "systemd-run",
    "caffeinate",
    "chronic",
    "gosu",
    "poetry",
    "uv",
    "pipenv",
    "direnv",
];

/// Wrappers whose first operand is not the program.
const WITH_OPERAND: &[&str] = &["flock", "chroot", "gosu", "coproc"];

/// Wrappers that run a program only after one of [`RUN`].
const WITH_VERB: &[&str] = &[
    "find", "docker", "podman", "kubectl", "poetry", "uv", "pipenv", "direnv",
];
const RUN: &[&str] = &["-exec", "-execdir", "-ok", "-okdir", "exec", "run", "debug"];

/// They run nothing: after one of these, a shell's name is only a word.
const TELLERS: &[&str] = &[
    "echo", "printf", "grep", "egrep", "rg", "cat", "tee", "logger", "test", "[",
];

/// Operators for which `[[` evaluates arithmetic, which runs command substitutions inside an
/// operand.
const CALCULATING: &[&str] = &["-eq", "-ne", "-lt", "-le", "-gt", "-ge"];

/// Words that can precede a command.
const KEYWORDS: &[&str] = &[
    "if", "then", "elif", "else", "while", "until", "do", "!", "{", "time",
];

const STANDARD_INPUT: &[&str] = &["-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"];

/// The simple command that is being parsed.
#[derive(Debug, Default)]
pub(super) struct SimpleCommand {
    words: Vec<String>,
    /// The current word; empty quotes make it `Some("")`.
    pub(super) word: Option<String>,
    /// Whether the current word, or the next one, is the target of a redirection.
    redirected: bool,
    /// Whether the command contains a value that could do harm as code.
    pub(super) has_value: bool,
}

impl SimpleCommand {
    /// Ends the current word and returns it.
    pub(super) fn end_word(&mut self) -> Option<&str> {
        let word = self.word.take()?;
        if std::mem::take(&mut self.redirected) {
            return None;
        }
        self.words.push(word);
        self.words.last().map(String::as_str)
    }

    /// Before a `<` or `>`: a number directly in front of it belongs to the redirection.
    pub(super) fn drop_number(&mut self) {
        let number = |word: &String| !word.is_empty() && word.chars().all(|c| c.is_ascii_digit());
        if self.word.as_ref().is_some_and(number) {
            self.word = None;
        }
    }

    /// The next word is the target of a redirection.
    pub(super) fn redirect(&mut self) {
        self.redirected = true;
    }

    /// A here-document's end mark was read, which is not a word of the command.
    pub(super) fn marked(&mut self) {
        self.redirected = false;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.words.is_empty() && self.word.is_none() && !self.redirected
    }

    /// The only word so far, or the last one if all words before it can precede a command.
    pub(super) fn leading(&self) -> Option<&str> {
        let (last, before) = self.words.split_last()?;
        before
            .iter()
            .all(|word| KEYWORDS.contains(&word.as_str()))
            .then_some(last)
    }

    /// The names of the variables that the current word assigns to.
    pub(super) fn assigns(&self) -> Vec<&str> {
        let word = self.word.as_deref().unwrap_or_default();
        let at = self.place();
        match at.map(|at| self.words[at].as_str()) {
            Some("for" | "select") => self
                .words
                .get(at.map_or(0, |at| at + 1))
                .map(String::as_str)
                .into_iter()
                .collect(),
            Some("set") => vec!["@", "*", "1", "2", "3", "4", "5", "6", "7", "8", "9"],
            Some(_) | None if is_assignment(word) => word
                .split_once('=')
                .map(|(name, _)| name)
                .into_iter()
                .collect(),
            Some(_) | None => Vec::new(),
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Whether the current word is code for another program.
    pub(super) fn is_code(&self) -> bool {
        let word = self.word.as_deref().unwrap_or_default();
        self.programs()
            .any(|(at, program)| program.takes_as_code(&self.words[at + 1..], word))
    }

    /// Whether the command evaluates arithmetic on a value that it contains.
    pub(super) fn calculates(&self) -> bool {
        // `&&` can occur inside `[[ … ]]`.
        let is_test = self.names("[[") || self.names("]]");
        self.has_value
            && is_test
            && self
                .words
                .iter()
                .any(|word| CALCULATING.contains(&word.as_str()))
    }

    /// Whether another program reads this command's input, or the value that it was given, as code.
    pub(super) fn reads_code(&self) -> bool {
        if self
            .place()
            .is_some_and(|at| TELLERS.contains(&base(&self.words[at])))
        {
            return false;
        }
        // `xargs` turns its input into arguments of that shell, and with `-I` into a part of the
        // code.
        let by_xargs = |program: &InterpreterSpec| match program.code {
            CodeArguments::Flagged | CodeArguments::BeforeScript | CodeArguments::FlaggedScript => {
                self.names("xargs")
            }
            CodeArguments::All | CodeArguments::First => false,
        };
        let reads = |(at, program): (usize, &InterpreterSpec)| {
            by_xargs(program) || program.reads_code(&self.words[at + 1..])
        };
        self.programs()
            .filter(|(at, _)| self.is_run(*at))
            .any(reads)
    }

    fn names(&self, program: &str) -> bool {
        self.words.iter().any(|word| base(word) == program)
    }

    /// The index of the word that names the program.
    fn place(&self) -> Option<usize> {
        let before = |word: &String| KEYWORDS.contains(&word.as_str()) || is_assignment(word);
        self.words.iter().position(|word| !before(word))
    }

    /// Whether this word can be a program that is run.
    fn is_run(&self, at: usize) -> bool {
        self.place()
            .is_some_and(|place| place == at || (place < at && runs_next(&self.words[place..at])))
    }

    /// All words that can name a program that reads code, with their indices.
    fn programs(&self) -> impl Iterator<Item = (usize, &'static InterpreterSpec)> {
        let place = self.place();
        self.words.iter().enumerate().filter_map(move |(at, word)| {
            let program = find(word, self.is_run(at))?;
            (program.names != SOURCE.names || place == Some(at)).then_some((at, program))
        })
    }
}

/// Whether the word after these can be a program that the first of them runs.
fn runs_next(words: &[String]) -> bool {
    let Some((wrapper, rest)) = words.split_first() else {
        return false;
    };
    let name = base(wrapper);
    if !WRAPPERS.contains(&name) {
        return false;
    }
    if WITH_VERB.contains(&name) {
        return rest.iter().any(|word| RUN.contains(&word.as_str()));
    }
    let mut operands = usize::from(WITH_OPERAND.contains(&name));
    let mut after_option = false;
    for (at, word) in rest.iter().enumerate() {
        if runs_next(&rest[at..]) {
            return true;
        }
        let may_be_before = after_option
            || is_option(word)
            || is_assignment(word)
            || WRAPPERS.contains(&base(word))
            || word.starts_with(|c: char| c.is_ascii_digit());
        after_option = is_option(word);
        if !may_be_before {
            if operands == 0 {
                return false;
            }
            operands -= 1;
        }
    }
    true
}

impl InterpreterSpec {
    /// Whether `word`, which follows the words in `before`, is code for this program.
    fn takes_as_code(&self, before: &[String], word: &str) -> bool {
        let flagged = || {
            let after = |(at, _): (usize, &String)| self.operand(&before[at + 1..]).is_none();
            self.is_flag(word)
                || before
                    .iter()
                    .enumerate()
                    .filter(|(_, word)| self.is_flag(word))
                    .any(after)
        };
        match self.code {
            CodeArguments::All => true,
            CodeArguments::First => {
                let is_value = before
                    .last()
                    .is_some_and(|option| !option.starts_with("--") && self.takes_next(option));
                flagged() || (!is_value && self.operand(before).is_none())
            }
            CodeArguments::Flagged => flagged(),
            CodeArguments::BeforeScript => self.takes_before_script(before, word),
            CodeArguments::FlaggedScript => self.takes_as_script(before, word),
        }
    }

    fn takes_as_script(&self, before: &[String], word: &str) -> bool {
        let mut flagged = false;
        let mut before = before.iter();
        while let Some(option) = before.next() {
            if !is_option(option) {
                return false;
            }
            flagged |= self.is_flag(option);
            // `-oe pipefail`: the letter need not be the last.
            let takes = self.takes_next(option)
                || (!option.starts_with("--") && option.contains(|c| self.takes.contains(c)));
            if takes
                && before
                    .as_slice()
                    .first()
                    .is_some_and(|next| !is_option(next))
            {
                before.next();
            }
        }
        flagged || self.is_flag(word)
    }

    fn takes_before_script(&self, before: &[String], word: &str) -> bool {
        let mut before = before.iter();
        while let Some(option) = before.next() {
            if !is_option(option) {
                return false;
            }
            let is_flag = self.is_flag(option);
            match before.as_slice().first() {
                None => return is_flag || self.is_flag(word),
                // An option with an optional value does not consume another option.
                Some(next) if is_flag || (self.takes_next(option) && !is_option(next)) => {
                    before.next();
                }
                Some(_) => {}
            }
        }
        self.is_flag(word)
    }

    fn reads_code(&self, rest: &[String]) -> bool {
        match self.input {
            CodeInput::Always => true,
            CodeInput::Never => false,
            CodeInput::WithoutScript => {
                let from_input =
                    |word: &String| STANDARD_INPUT.contains(&word.as_str()) || word == "-s";
                let flagged = rest.iter().any(|word| self.is_flag(word));
                rest.iter().any(from_input) || (!flagged && self.operand(rest).is_none())
            }
        }
    }

    /// Whether this option passes code, in the word itself or in the next one.
    fn is_flag(&self, word: &str) -> bool {
        if LONG.iter().any(|long| {
            word.strip_prefix(long)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
        }) {
            return true;
        }
        word.starts_with('-')
            && !word.starts_with("--")
            && word.contains(|c| self.flags.contains(c))
    }

    /// The first word that is neither an option nor an option's value.
    fn operand<'a>(&self, words: &'a [String]) -> Option<&'a str> {
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if !is_option(word) {
                return Some(word);
            }
            if self.takes_next(word) {
                words.next();
            }
        }
        None
    }

    /// Whether this option's value is the next word. Any long option can have one.
    fn takes_next(&self, word: &str) -> bool {
        if word.starts_with("--") {
            return word != "--"
                && !word.contains('=')
                && !ALONE.iter().any(|alone| word.starts_with(alone));
        }
        is_option(word) && word.ends_with(|c| self.takes.contains(c))
    }
}

/// The program of that name; `expected` where a command begins.
fn find(word: &str, expected: bool) -> Option<&'static InterpreterSpec> {
    let name = base(word);
    if expected && name.starts_with(['$', '`']) {
        return Some(&ANYWHERE[0]);
    }
    // `python3.11`.
    let bare = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let known =
        |program: &&InterpreterSpec| program.names.contains(&name) || program.names.contains(&bare);
    let in_place = IN_PLACE.iter().filter(|_| expected);
    ANYWHERE.iter().chain(in_place).find(known)
}

fn is_option(word: &str) -> bool {
    word.starts_with(['-', '+']) && word != "-"
}

fn base(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

fn is_assignment(word: &str) -> bool {
    let name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    word.split_once('=')
        .is_some_and(|(before, _)| !before.is_empty() && before.chars().all(name))
}
