//! What is done about messages, by type.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;

use super::Message;

/// Functions that are called for every message of their type.
#[derive(Default)]
pub struct Handlers {
    by_type: BTreeMap<String, Vec<Handler>>,
}

type Handler = Box<dyn FnMut(&Message) -> Result<(), HandlerError> + Send>;

/// Whatever a handler fails with.
pub type HandlerError = Box<dyn Error + Send + Sync>;

impl Handlers {
    /// Calls this for every message of the type, after those that were registered before.
    pub fn register(
        &mut self,
        kind: impl Into<String>,
        handler: impl FnMut(&Message) -> Result<(), HandlerError> + Send + 'static,
    ) {
        self.by_type.entry(kind.into()).or_default().push(Box::new(handler));
    }

    /// Calls every handler of the message's type, in the order of registration; one that fails does
    /// not keep the next from running.
    pub fn dispatch(&mut self, message: &Message) -> Dispatched {
        let Some(handlers) = self.by_type.get_mut(message.kind()) else {
            return Dispatched::default();
        };
        let failures = handlers.iter_mut().filter_map(|handler| handler(message).err()).collect();
        Dispatched { ran: handlers.len(), failures }
    }
}

impl fmt::Debug for Handlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.by_type.iter().map(|(kind, handlers)| (kind, handlers.len()))).finish()
    }
}

/// How it went.
#[derive(Debug, Default)]
pub struct Dispatched {
    /// How many handlers ran; 0 is worth a warning.
    pub ran: usize,
    /// What those that failed said.
    pub failures: Vec<HandlerError>,
}
