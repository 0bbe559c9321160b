//! What the parts of a server decide that run at the same time, without I/O: inputs in, outputs out.
//!
//! * [`SessionWorker`] turns commands for one session into batches: decide, append, apply, answer, publish.
//! * [`ConnectionWorker`] feeds and drains one [`Connection`](switchboard_core::Connection), and leads what it asks
//!   for to sessions.
//! * [`Feed`] lets any number of connections read the committed batches of a session, each at its own pace.
//! * [`Inbox`] is where everything for one connection arrives.
//! * [`Shared`] is what the sessions and connections of one node know together.
//!
//! The server runs these on threads, sockets and a database; the simulation runs the same values in one thread, with
//! a clock of its own and a log that is slow, fails, or does not know whether it has taken a batch.

mod caller;
mod connection;
mod feed;
mod inbox;
mod outbox;
mod session;
mod shared;

pub use caller::{Caller, Surroundings, name_looked_up};
pub use connection::{ConnectionWorker, FAREWELL, NO_CODE, Outgoing, Output as ConnectionOutput};
pub use feed::{Cursor, Feed, Next, RingBounds};
pub use inbox::{Attached, Delivery, Inbox};
pub use outbox::{HEADER, Outbox, Written, size};
pub use session::{
    AppendFailed, AttachRequest, Command, Input as SessionInput, Inspection, Lease, Node, Notice,
    Output as SessionOutput, ReadFailed, ReplyTo, Reserved, SessionSettings, SessionWorker, Start,
    Submission,
};
pub use shared::{Address, Shared};
