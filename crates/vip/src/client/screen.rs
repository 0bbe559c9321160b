//! What is on the screen: told as soon as the state allows it, and no more often than the server bears.

use serde_json::{Map, Value, json};
use switchboard_core::{Bucket, Rate, Timestamp};

use super::event::CommandError;
use super::{About, Carrier, VipClient};
use crate::context::{Context, ContextFault};
use crate::error::Code;
use crate::matrix::State;
use crate::message::{ClientEvent, Update, Warning};
use crate::size::json_bytes;

/// What is on the screen, and what the server knows of it.
#[derive(Debug)]
pub(super) struct Screen {
    shown: Option<Shown>,
    version: u64,
    /// What was sent last, and is not contradicted: changes build on it.
    base: Option<(u64, Value)>,
    /// Whether the server has to be told.
    due: bool,
    bucket: Bucket,
    /// When another update may be sent, if that is waited for.
    refilled_at: Option<Timestamp>,
}

struct Shown {
    /// As the app gave it.
    screen: Value,
    context: Context,
}

crate::message::quiet!(Shown);

impl Default for Screen {
    fn default() -> Self {
        Self {
            shown: None,
            version: 0,
            base: None,
            due: false,
            // A little below what a server takes, which counts by a clock of its own.
            bucket: Bucket::new(Rate::per_second(4, 4)),
            refilled_at: None,
        }
    }
}

impl Screen {
    pub(super) const fn continue_from(&mut self, version: u64) {
        self.version = version;
    }

    pub(super) const fn version(&self) -> u64 {
        self.version
    }

    pub(super) fn context(&self) -> Option<&Context> {
        self.shown.as_ref().map(|shown| &shown.context)
    }

    /// Takes in what the app shows now; whether that is news.
    fn accept(&mut self, screen: Value) -> Result<bool, CommandError> {
        if self.shown.as_ref().is_some_and(|shown| shown.screen == screen) {
            return Ok(false);
        }
        let version = self.version + 1;
        let applied = Context::apply_knowing(None, &full(&screen, version), &vendor_types(&screen))?;
        if let Some(warning) = applied.warnings.into_iter().next() {
            // Types without the prefix are not for the wire (VIP-046).
            let Warning { path, message, .. } = warning;
            return Err(ContextFault { code: Code::CtxInvalid, path, message }.into());
        }
        self.version = version;
        self.shown = Some(Shown { screen, context: applied.context });
        Ok(true)
    }

    /// Gives what is shown a new number, so that it can be told once more.
    fn renumber(&mut self, above: u64) {
        self.version = self.version.max(above) + 1;
        if let Some(shown) = &mut self.shown {
            shown.context.version = self.version;
        }
        self.base = None;
        self.due = self.shown.is_some();
    }

    /// All of it, for a server that may know nothing, or something older.
    pub(super) fn whole(&mut self) -> Option<Value> {
        self.renumber(0);
        self.told()
    }

    /// Everything that is shown, as an update that is about to be sent.
    fn told(&mut self) -> Option<Value> {
        let shown = self.shown.as_ref()?;
        self.due = false;
        self.base = Some((self.version, shown.screen.clone()));
        Some(full(&shown.screen, self.version))
    }

    /// What has to be told, as little of it as possible.
    fn next_update(&mut self) -> Option<Value> {
        let shown = self.shown.as_ref()?;
        let change =
            self.base.as_ref().and_then(|(version, base)| delta(*version, base, &shown.screen, self.version));
        let whole = self.told()?;
        let change = change.filter(|change| json_bytes(change) * 2 < json_bytes(&whole));
        Some(change.unwrap_or(whole))
    }
}

/// The types that the app has besides those of the reference: what it shows, it can do.
fn vendor_types(screen: &Value) -> Vec<String> {
    let actions = screen.get("actions").and_then(Value::as_object);
    let types = actions.into_iter().flatten().filter_map(|(_, action)| action.get("type")?.as_str());
    types.filter(|kind| kind.starts_with("x-")).map(str::to_owned).collect()
}

/// The members that are replaced as a whole.
const WHOLE: [&str; 5] = ["route", "routes", "narration", "tree", "data"];

fn full(screen: &Value, version: u64) -> Value {
    let mut update = json!({"mode": "full", "context_version": version});
    if let (Some(update), Some(members)) = (update.as_object_mut(), screen.as_object()) {
        let own = members.iter().filter(|(key, _)| !matches!(key.as_str(), "mode" | "context_version"));
        update.extend(own.map(|(key, value)| (key.clone(), value.clone())));
    }
    update
}

/// What leads from one screen to another; none if no change can say it.
fn delta(base: u64, from: &Value, to: &Value, version: u64) -> Option<Value> {
    let mut update = json!({"mode": "delta", "base_version": base, "context_version": version});
    for key in WHOLE {
        match (from.get(key), to.get(key)) {
            (before, Some(now)) if before != Some(now) => update[key] = now.clone(),
            // Nothing can be taken away.
            (Some(_), None) => return None,
            _ => {}
        }
    }
    if update.get("route").is_some() {
        update["narration"] = to.get("narration")?.clone();
    }
    let (before, now) = (from.get("actions")?.as_object()?, to.get("actions")?.as_object()?);
    let upsert: Map<String, Value> = now
        .iter()
        .filter(|(id, action)| before.get(*id) != Some(action))
        .map(|(id, action)| (id.clone(), action.clone()))
        .collect();
    if !upsert.is_empty() {
        update["actions_upsert"] = Value::Object(upsert);
    }
    let remove: Vec<&String> = before.keys().filter(|id| !now.contains_key(*id)).collect();
    if !remove.is_empty() {
        update["actions_remove"] = json!(remove);
    }
    if from.get("visibility") != to.get("visibility") || update.get("actions_remove").is_some() {
        update["visibility"] = to.get("visibility")?.clone();
    }
    Some(update)
}

impl VipClient {
    /// Says what is on the screen: a whole context without `mode` and `context_version`, which are added.
    /// It is told to the server as soon as the state allows it; until then, the newest takes the place of
    /// those before (VIP-041).
    ///
    /// # Errors
    /// It breaks a rule; what was shown before stays.
    pub fn show(&mut self, screen: Value, now: Timestamp) -> Result<(), CommandError> {
        self.now = now;
        self.check_size(&screen)?;
        if self.screen.accept(screen)? {
            self.screen.due = true;
        }
        self.settle();
        Ok(())
    }

    /// What is on the screen, as an update that goes along with a result.
    pub(super) fn refreshed(&mut self, screen: Value) -> Result<Option<Value>, CommandError> {
        self.check_size(&screen)?;
        if self.screen.accept(screen)? {
            self.screen.due = true;
        } else if !self.screen.due {
            // The same again, but said again.
            self.screen.renumber(0);
        }
        Ok(self.unsent_screen())
    }

    /// What the server does not know yet of the screen.
    pub(super) fn unsent_screen(&mut self) -> Option<Value> {
        let can = self.screen.due && self.link.is_up() && !self.is_internal();
        if can { self.screen.next_update() } else { None }
    }

    fn check_size(&self, screen: &Value) -> Result<(), CommandError> {
        let most = match self.config.carrier {
            Carrier::Socket => usize::MAX,
            Carrier::DataChannel => CHANNEL_BYTES,
        };
        if json_bytes(screen) > most { Err(CommandError::TooLong) } else { Ok(()) }
    }

    /// The server wants to know everything again, above this version.
    pub(super) fn resync(&mut self, have_version: u64) {
        self.screen.renumber(have_version);
    }

    /// An update came at the wrong time; it is told again at the next right one.
    pub(super) fn update_refused(&mut self) {
        self.screen.renumber(0);
    }

    pub(super) fn settle_screen(&mut self) {
        if !self.screen.due || !self.may_update() {
            self.screen.refilled_at = None;
            return;
        }
        if let Err(wait) = self.screen.bucket.take(1, self.now) {
            self.screen.refilled_at = Some(self.now.after(wait));
            return;
        }
        self.screen.refilled_at = None;
        if let Some(update) = self.screen.next_update() {
            self.send(&ClientEvent::StateUpdate(Update(update)), About::default());
        }
    }

    /// Whether updates are allowed now, in the eyes of both sides.
    fn may_update(&self) -> bool {
        let allows = |state| {
            matches!(state, State::Connecting | State::Idle | State::AiSpeaking | State::InvokeAction)
        };
        self.link.is_up() && allows(self.follow.state()) && allows(self.follow.agreed())
    }

    pub(super) const fn screen_wake(&self) -> Option<Timestamp> {
        self.screen.refilled_at
    }
}

/// What fits into one message of a data channel, with room for its envelope.
const CHANNEL_BYTES: usize = (64 << 10) - 512;
