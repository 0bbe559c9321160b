//! One chat over HTTP: the stream of its answer in, what the user is told out. It cannot be
//! resumed; to stop it is to hang up.

use super::telling::{Telling, done, failed};
use super::{ChatEvent, Ending, Loss};
use crate::codec::{StreamReader, Streamed};
use crate::message::{StreamEvent, TaskId};

/// The answer to one request over HTTP.
#[derive(Debug, Default)]
pub struct StreamChat {
    task: Option<TaskId>,
    reader: StreamReader,
    telling: Telling,
    ending: Option<Ending>,
}

impl StreamChat {
    /// The server has begun to answer; `task` is the header `acolyte-task-id`.
    pub fn new(task: Option<&str>) -> Self {
        Self { task: task.and_then(TaskId::parse), ..Self::default() }
    }

    /// Its task, if the server has told it.
    pub fn task(&self) -> Option<&TaskId> {
        self.task.as_ref()
    }

    /// Takes in the next piece of the body. Nothing counts after the end.
    pub fn push(&mut self, piece: &[u8]) -> Vec<ChatEvent> {
        let mut events = Vec::new();
        for said in self.reader.push(piece) {
            if self.ending.is_some() {
                break;
            }
            match said {
                Streamed::Event(StreamEvent::Error(error)) => self.ending = Some(failed(error, false)),
                Streamed::Event(event) => events.extend(self.telling.hear(event)),
                Streamed::Done(reply) => {
                    let (output, ending) = done(reply);
                    events.extend(output);
                    self.ending = Some(ending);
                }
            }
        }
        events
    }

    /// How it ended, once it has.
    pub fn ending(&self) -> Option<&Ending> {
        self.ending.as_ref()
    }

    /// The body is over; without a last frame that is a failure.
    pub fn close(self) -> Ending {
        let task = self.task;
        self.ending.unwrap_or(Ending::Lost { loss: Loss::Disconnected, task })
    }
}
