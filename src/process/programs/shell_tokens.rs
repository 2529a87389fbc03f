//! Splits a command line into words and operators, as far as that is possible without a shell.

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ShellToken {
    Word(ShellWord),
    Operator(ShellOperator),
    /// Syntax that only a shell understands. Nothing after it is read.
    Unclear,
}

/// The operator between two commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ShellOperator {
    /// `;`, `&` or the end of a line.
    Next,
    And,
    Or,
    Pipe,
}

/// A word without its quotes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ShellWord {
    pub(super) text: String,
    /// Whether any part of it was quoted.
    pub(super) quoted: bool,
    /// The variable that it assigns, if it is an assignment before a command.
    pub(super) assigns: Option<String>,
    /// Whether the shell expands it.
    expands: bool,
}

impl ShellWord {
    /// The text, if the program receives exactly this.
    pub(super) fn literal(&self) -> Option<&str> {
        let is_pattern = self.text.contains(['*', '?'])
            || (self.text.contains('[') && !self.text.starts_with('['));
        let changes = self.expands || (!self.quoted && (is_pattern || self.text.starts_with('~')));
        (!changes && !self.text.is_empty()).then_some(self.text.as_str())
    }
}

/// Reads a command line up to the first syntax that is not understood.
pub(super) fn tokens(command: &str) -> Vec<ShellToken> {
    let mut reader = ShellTokenReader::of(command);
    if reader.read().is_none() {
        reader.end_word();
        reader.tokens.push(ShellToken::Unclear);
    }
    reader.end_word();
    reader.tokens
}

/// The position of a quote that the command does not close. None if syntax before it is not
/// understood.
pub(crate) fn unclosed_quote(command: &str) -> Option<usize> {
    let mut reader = ShellTokenReader::of(command);
    reader.read();
    reader.unclosed.map(|after| command.len() - after - 1)
}

struct ShellTokenReader<'a> {
    /// How much of the command is left after the quote that has no end.
    unclosed: Option<usize>,
    rest: &'a str,
    tokens: Vec<ShellToken>,
    word: Option<ShellWord>,
}

impl<'a> ShellTokenReader<'a> {
    const fn of(command: &'a str) -> Self {
        Self {
            unclosed: None,
            rest: command,
            tokens: Vec::new(),
            word: None,
        }
    }

    /// None if the rest is not understood.
    fn read(&mut self) -> Option<()> {
        while let Some(c) = self.take() {
            match c {
                ' ' | '\t' | '\r' => self.end_word(),
                '&' if self.eat("&") => self.operator(ShellOperator::And),
                '&' if self.rest.starts_with('>') => self.end_word(),
                '\n' | ';' | '&' => self.operator(ShellOperator::Next),
                '|' if self.eat("|") => self.operator(ShellOperator::Or),
                '|' => {
                    self.eat("&");
                    self.operator(ShellOperator::Pipe);
                }
                '<' | '>' => self.redirection()?,
                '#' if self.word.is_none() => self.skip_comment(),
                '(' | ')' | '`' => return None,
                // Only some shells read `$'…'` as one quoted text.
                '$' if self.rest.starts_with(['\'', '"']) => return None,
                '\'' => self.single_quotes()?,
                '"' => self.double_quotes()?,
                '\\' => self.escaped(),
                '$' => self.expansion()?,
                '{' if self.rest.starts_with('{') => self.placeholder()?,
                '=' => self.equals(),
                other => self.word().text.push(other),
            }
        }
        Some(())
    }

    fn take(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = &self.rest[c.len_utf8()..];
        Some(c)
    }

    fn eat(&mut self, text: &str) -> bool {
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// Takes everything before `end`, and `end` itself.
    fn take_until(&mut self, end: char) -> Option<String> {
        let (before, after) = self.rest.split_once(end)?;
        self.rest = after;
        Some(before.to_owned())
    }

    fn word(&mut self) -> &mut ShellWord {
        self.word.get_or_insert_default()
    }

    fn end_word(&mut self) {
        self.tokens.extend(self.word.take().map(ShellToken::Word));
    }

    fn operator(&mut self, operator: ShellOperator) {
        self.end_word();
        self.tokens.push(ShellToken::Operator(operator));
    }

    fn skip_comment(&mut self) {
        let end = self.rest.find('\n').unwrap_or(self.rest.len());
        self.rest = &self.rest[end..];
    }

    /// Skips a redirection and its file. The text of a here-document is not a command.
    fn redirection(&mut self) -> Option<()> {
        if self
            .word
            .as_ref()
            .is_some_and(|word| !word.quoted && word.text.chars().all(|c| c.is_ascii_digit()))
        {
            self.word = None;
        }
        self.end_word();
        if self.rest.starts_with('<') {
            return None;
        }
        self.rest = self
            .rest
            .trim_start_matches(['>', '&', '|'])
            .trim_start_matches([' ', '\t']);
        let before = self.tokens.len();
        while !self.rest.is_empty()
            && !self
                .rest
                .starts_with([' ', '\t', '\n', ';', '&', '|', '<', '>', ')'])
        {
            match self.take()? {
                '(' | '`' => return None,
                '\'' => self.single_quotes()?,
                '"' => self.double_quotes()?,
                '\\' => self.escaped(),
                '$' => self.expansion()?,
                other => self.word().text.push(other),
            }
        }
        self.word = None;
        self.tokens.truncate(before);
        Some(())
    }

    fn single_quotes(&mut self) -> Option<()> {
        let left = self.rest.len();
        let Some(text) = self.take_until('\'') else {
            self.unclosed = Some(left);
            return None;
        };
        let word = self.word();
        word.text.push_str(&text);
        word.quoted = true;
        Some(())
    }

    fn double_quotes(&mut self) -> Option<()> {
        let left = self.rest.len();
        self.word().quoted = true;
        loop {
            let Some(c) = self.take() else {
                self.unclosed = Some(left);
                return None;
            };
            match c {
                '"' => return Some(()),
                '\\' => self.escaped(),
                '$' => self.expansion()?,
                '`' => return None,
                '{' if self.rest.starts_with('{') => self.placeholder()?,
                other => self.word().text.push(other),
            }
        }
    }

    fn escaped(&mut self) {
        match self.take() {
            Some('\n') | None => {}
            Some(other) => {
                let word = self.word();
                word.text.push(other);
                word.quoted = true;
            }
        }
    }

    /// Reads `$NAME` and `${NAME…}`. None for a command substitution.
    fn expansion(&mut self) -> Option<()> {
        self.word().expands = true;
        if self.rest.starts_with('(') {
            return None;
        }
        if self.eat("{") {
            let inside = self.take_until('}')?;
            return (!inside.contains(['$', '`', '"', '\'', '{'])).then_some(());
        }
        Some(())
    }

    fn placeholder(&mut self) -> Option<()> {
        self.word().expands = true;
        self.take_until('}')?;
        self.eat("}");
        Some(())
    }

    fn equals(&mut self) {
        let word = self.word();
        let is_name = word
            .text
            .starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && word
                .text
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || c == '_');
        if is_name && !word.quoted && !word.expands && word.assigns.is_none() {
            word.assigns = Some(word.text.clone());
        }
        word.text.push('=');
    }
}
