//! Lines of the log that say who was refused what, and who did what cannot be undone or is nobody else's
//! business. They carry names and rights, never content, and go to the target `switchboard::audit`.

use std::collections::HashMap;
use std::sync::LazyLock;
use std::time::Duration;

use axum::http::Method;
use parking_lot::Mutex;
use switchboard_core::model::{Actor, ActorKind, CallKind, Standing};
use switchboard_core::{Op, Principal, PrincipalId, Right, Session};
use tokio::time::Instant;

/// A credential did not allow something. Said once in ten seconds for each principal and right: whoever is
/// refused at a high rate does not fill the disk.
pub(crate) fn refused(principal: &PrincipalId, right: Right) {
    let now = Instant::now();
    let mut said = REFUSALS.lock();
    if said.len() >= REMEMBERED {
        said.retain(|_, told| now.duration_since(told.at) < PAUSE);
    }
    let key = (principal.clone(), right);
    let full = said.len() >= REMEMBERED;
    let missed = match said.get_mut(&key) {
        Some(told) if now.duration_since(told.at) < PAUSE => {
            told.missed += 1;
            return;
        }
        Some(told) => told.missed,
        None if full => return,
        None => 0,
    };
    said.insert(key, Told { at: now, missed: 0 });
    drop(said);
    tracing::warn!(target: TARGET, %principal, ?right, before = missed, "refused: {}", right.refusal());
}

/// Somebody with the scope `admin` used it.
pub(crate) fn administration(principal: &Principal, method: &Method, path: &str) {
    if principal.scopes.permit(Right::Administer, None) {
        tracing::info!(target: TARGET, principal = %principal.id, %method, path, "administration");
    }
}

/// A client's op was decided, and is not yet applied.
pub(crate) fn decided(session: &Session, actor: &Actor, op: &Op) {
    let (principal, session_id) = (&actor.principal, session.id());
    if !matches!(actor.kind, ActorKind::Client) {
        return;
    }
    if let Op::Stand(Standing::Deleted) = op {
        tracing::info!(target: TARGET, %principal, %session_id, "a session is deleted");
    }
    if let Op::Answer { turn, call, .. } = op {
        let asked = session.turn(turn).and_then(|known| known.calls.get(call));
        if let Some(CallKind::Question { approves: Some(tool), .. }) = asked.map(|call| &call.kind) {
            tracing::info!(target: TARGET, %principal, %session_id, %turn, %tool, "an approval is answered");
        }
    }
}

/// What was refused lately.
static REFUSALS: LazyLock<Mutex<HashMap<(PrincipalId, Right), Told>>> = LazyLock::new(Mutex::default);

/// When something was last told, and how often it was not since.
struct Told {
    at: Instant,
    missed: u64,
}

const TARGET: &str = "switchboard::audit";
/// How long the same refusal is not told again.
const PAUSE: Duration = Duration::from_secs(10);
/// How many kinds of refusal are told apart.
const REMEMBERED: usize = 1024;
