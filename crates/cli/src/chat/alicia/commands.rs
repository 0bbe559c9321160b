//! What can be done besides talking.

use switchboard_client::alicia::{
    ClientError, Id, LibraryError, MemoryCategory, MemoryContent, NoteCategory, Vote,
};
use switchboard_core::Pii;

use super::answer::Expected;
use super::{AliciaPeer, tree};
use crate::chat::said::Did;
use crate::console::one_line;

impl AliciaPeer {
    /// Carries out a line that begins with `/`. What goes wrong is told, and ends nothing.
    pub(super) async fn carry_out(&self, line: &str) -> Did {
        let (command, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        let newest = self.place.newest();
        let done = match (command, rest) {
            ("/branches", "") => self.branches().await,
            ("/switch", number) => self.switch(number).await,
            ("/edit", text) if !text.is_empty() => self.edit(newest.question, text),
            ("/again", "") => self.again(newest.question),
            ("/continue", "") => self.go_on(newest.answer),
            ("/stop", "") => self.stop_it().await,
            ("/remember", text) if !text.is_empty() => self.remember(text).await,
            ("/memories", "") => self.memories().await,
            ("/vote", vote) => self.vote(newest.answer, vote).await,
            ("/note", text) if !text.is_empty() => self.note(newest.answer.or(newest.question), text).await,
            ("/title", title) if !title.is_empty() => self.title(title).await,
            _ if HELP.iter().any(|help| help.split([' ', ',']).next() == Some(command)) => {
                Err(Cannot("use it like this: ".to_owned() + usage(command)))
            }
            _ => return Did::Nothing,
        };
        done.unwrap_or_else(|Cannot(why)| Did::Note(why))
    }

    async fn branches(&self) -> Result<Did, Cannot> {
        let tree = tree(&self.library, self.conversation.id()).await?;
        let lines = tree.lines(WIDTH);
        Ok(if lines.is_empty() { Did::Note("nothing was said yet".to_owned()) } else { Did::Listing(lines) })
    }

    async fn switch(&self, number: &str) -> Result<Did, Cannot> {
        let id = self.conversation.id();
        let known = tree(&self.library, id).await?;
        let number: Option<usize> = number.parse().ok();
        let leaf =
            number.and_then(|number| known.leaves().get(number.checked_sub(1)?).map(ToString::to_string));
        let leaf = leaf.and_then(|leaf| Id::new(leaf).ok());
        let Some(leaf) = leaf else { return Err(Cannot("/branches shows the numbers there are".to_owned())) };
        self.library.switch_branch(id, &leaf).await?;
        let tree = tree(&self.library, id).await?;
        self.place.set(&tree);
        let mut lines: Vec<String> = tree
            .past(SHOWN)
            .into_iter()
            .map(|past| {
                let mark = if past.who == crate::chat::past::Who::User { "> " } else { "" };
                let place = past.place.map(|place| format!(" {place}")).unwrap_or_default();
                format!("{mark}{}{place}", one_line(&past.text, WIDTH))
            })
            .collect();
        lines.reverse();
        Ok(Did::Listing(lines))
    }

    fn edit(&self, question: Option<Id>, text: &str) -> Result<Did, Cannot> {
        let question = question.ok_or_else(nothing_said)?;
        let (conversation, text) = (self.conversation.clone(), text.to_owned());
        let expected = Expected::Edited(text.clone());
        Ok(Did::Answer(self.answer(expected, async move { conversation.edit(question, text).await })))
    }

    fn again(&self, question: Option<Id>) -> Result<Did, Cannot> {
        let question = question.ok_or_else(nothing_said)?;
        let (conversation, expected) = (self.conversation.clone(), Expected::To(question.clone()));
        Ok(Did::Answer(self.answer(expected, async move { conversation.regenerate(question).await })))
    }

    fn go_on(&self, answer: Option<Id>) -> Result<Did, Cannot> {
        let answer = answer.ok_or_else(nothing_said)?;
        let (conversation, expected) = (self.conversation.clone(), Expected::To(answer.clone()));
        Ok(Did::Answer(self.answer(expected, async move { conversation.go_on(answer).await })))
    }

    /// An answer that another device has asked for.
    async fn stop_it(&self) -> Result<Did, Cannot> {
        self.conversation.stop().await?;
        Ok(Did::Note("stopped, if there was something to stop".to_owned()))
    }

    async fn remember(&self, text: &str) -> Result<Did, Cannot> {
        let content = Pii(text.to_owned());
        let memory = MemoryContent { content, category: MemoryCategory::Fact, pinned: false };
        self.client.remember(memory).await?;
        Ok(Did::Note("remembered".to_owned()))
    }

    async fn memories(&self) -> Result<Did, Cannot> {
        let memories = self.library.memories().await?;
        if memories.is_empty() {
            return Ok(Did::Note("nothing is remembered".to_owned()));
        }
        let line = |memory: &switchboard_client::alicia::MemoryRow| {
            let pinned = if memory.pinned { "pinned " } else { "" };
            let archived = if memory.archived { "archived " } else { "" };
            let category = memory.category.as_deref().unwrap_or("fact");
            format!("{pinned}{archived}{category}: {}", one_line(&memory.content, WIDTH))
        };
        Ok(Did::Listing(memories.iter().map(line).collect()))
    }

    async fn vote(&self, answer: Option<Id>, vote: &str) -> Result<Did, Cannot> {
        let Some(vote) = Vote::from_name(vote) else {
            return Err(Cannot(format!("use it like this: {}", usage("/vote"))));
        };
        let votes = self.conversation.vote(answer.ok_or_else(nothing_said)?, vote).await?;
        let (up, down) = (votes.aggregates.upvotes, votes.aggregates.downvotes);
        Ok(Did::Note(format!("the answer has {up} for it and {down} against")))
    }

    async fn note(&self, message: Option<Id>, text: &str) -> Result<Did, Cannot> {
        self.conversation.note(message.ok_or_else(nothing_said)?, text, NoteCategory::General).await?;
        Ok(Did::Note("noted".to_owned()))
    }

    async fn title(&self, title: &str) -> Result<Did, Cannot> {
        self.library.rename(self.conversation.id(), title).await?;
        Ok(Did::Note(format!("the title is now {}", one_line(title, WIDTH))))
    }
}

/// Why something was not done.
struct Cannot(String);

impl From<ClientError> for Cannot {
    fn from(error: ClientError) -> Self {
        Self(error.to_string())
    }
}

impl From<LibraryError> for Cannot {
    fn from(error: LibraryError) -> Self {
        Self(error.to_string())
    }
}

fn nothing_said() -> Cannot {
    Cannot("nothing was said yet".to_owned())
}

/// The line that explains a command.
fn usage(command: &str) -> &'static str {
    HELP.iter().find(|help| help.split([' ', ',']).next() == Some(command)).copied().unwrap_or_default()
}

/// Each begins with its command.
pub(super) const HELP: &[&str] = &[
    "/branches shows everything that was said, the active branch marked with *",
    "/switch N goes on with branch N",
    "/edit TEXT asks the last question anew, like this",
    "/again has the last question answered once more",
    "/continue has the last answer go on",
    "/stop stops what is being answered for another device",
    "/remember TEXT has something remembered in all conversations",
    "/memories shows what is remembered",
    "/vote up, down, critical or remove says what the last answer is worth",
    "/note TEXT puts a note to the last answer",
    "/title TEXT gives the conversation a title",
];
const WIDTH: usize = 100;
/// Messages of a branch that are shown when it is chosen.
const SHOWN: usize = 4;
