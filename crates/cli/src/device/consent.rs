//! Who says whether something that changes the machine may be done.

use switchboard_client::aip::ToolFailure;

use crate::console::one_line;
use tokio::sync::{mpsc, oneshot};

/// What becomes of things that are not allowed anyway.
#[derive(Clone, Debug)]
pub(super) enum Consent {
    /// The user has said yes to everything.
    Given,
    /// The user is asked.
    Ask(mpsc::Sender<Question>),
    /// Nobody is there.
    Nobody,
}

/// A question to the user.
#[derive(Debug)]
pub(super) struct Question {
    /// What is to be done.
    pub(super) what: String,
    /// Who asks for it and for which task, as far as the server says, line by line.
    pub(super) who: Vec<String>,
    /// Whether it may be; closed when it is not wanted any more.
    pub(super) reply: oneshot::Sender<bool>,
}

impl Consent {
    /// Waits for leave to do this, for whoever asks.
    pub(super) async fn obtain(&self, what: &str, asked: &[String]) -> Result<(), ToolFailure> {
        match self {
            Self::Given => Ok(()),
            Self::Nobody => Err(ToolFailure::new(format!(
                "refused: `{what}` needs the consent of the device's user, and there is no terminal to ask on; \
                 start the device with --allow, --allow-screen, --root or --yes"
            ))),
            Self::Ask(questions) => {
                // Nobody can agree to what does not fit on the screen.
                if what.chars().count() > MAX_QUESTION {
                    return Err(ToolFailure::new("refused: too long to be shown to the device's user"));
                }
                let (reply, answer) = oneshot::channel();
                let lines = asked.iter().take(MAX_LINES).map(|line| one_line(line, MAX_LINE));
                let who = lines.collect::<Vec<String>>();
                let question = Question { what: what.to_owned(), who, reply };
                let asked = questions.send(question).await.is_ok();
                if asked && answer.await.unwrap_or(false) {
                    Ok(())
                } else {
                    Err(ToolFailure::new("refused: the device's user said no"))
                }
            }
        }
    }
}

const MAX_QUESTION: usize = 2_000;
/// As much of who asks as is shown.
const MAX_LINES: usize = 4;
const MAX_LINE: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn consent_is_given_asked_for_or_refused() {
        assert!(Consent::Given.obtain("x", &[]).await.is_ok());
        assert!(Consent::Nobody.obtain("x", &[]).await.unwrap_err().message.contains("no terminal"));
        let (sender, mut questions) = mpsc::channel(1);
        let consent = Consent::Ask(sender);
        for answer in [true, false] {
            let who = ["asked by boss\nof ann".to_owned(), "x".repeat(500)];
            let (obtained, ()) = tokio::join!(consent.obtain("run it", &who), async {
                let question = questions.recv().await.unwrap();
                assert_eq!(
                    (question.what.as_str(), question.who[0].as_str()),
                    ("run it", "asked by boss of ann")
                );
                assert_eq!(question.who[1].chars().count(), 200);
                question.reply.send(answer).unwrap();
            });
            assert_eq!(obtained.is_ok(), answer);
        }
        assert!(consent.obtain(&"x".repeat(3_000), &[]).await.is_err());
        drop(questions);
        assert!(consent.obtain("x", &[]).await.is_err());
    }
}
