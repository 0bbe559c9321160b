//! Bytes ↔ envelopes of both profiles (§2.2, Appendix A).

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use bytes::Bytes;
use switchboard_core::Pii;

use crate::error::{DecodeError, Fault, FieldError, Origin};
use crate::id::{Id, is_user_id};
use crate::limits::{AliciaLimits, RELIABLE_PACKET, size};
use crate::lite::{LiteBody, LiteEnvelope, LiteTrace, LiteType};
use crate::message::{Body, Envelope, MessageType, Meta, Reason, Side, Transports};
use crate::value::{Map, Plain, Value, decode_msgpack, encode_map, encoded_size};

/// What is agreed on a connection about the form of its envelopes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// A room: always the full profile, where a missing `stanzaId` is 0.
    LiveKit,
    /// A socket on which nothing was decoded yet: without `stanzaId`, the first envelope makes it lite.
    Undecided,
    /// A socket of the full profile.
    Full,
    /// A socket of the lite profile.
    Lite,
}

/// One envelope of either profile.
#[derive(Debug, Clone, PartialEq)]
pub enum Decoded {
    /// Of the full profile.
    Full {
        /// The envelope.
        envelope: Box<Envelope>,
        /// What became of its stanza id.
        stanza: StanzaForm,
    },
    /// Of the lite profile.
    Lite(Box<LiteEnvelope>),
}

impl Decoded {
    /// What the connection speaks from now on if it was undecided.
    pub fn dialect(&self) -> Dialect {
        match self {
            Self::Full { .. } => Dialect::Full,
            Self::Lite(_) => Dialect::Lite,
        }
    }

    /// Whether it follows a conversation, or no longer.
    pub(crate) fn is_about_following(&self) -> bool {
        match self {
            Self::Full { envelope, .. } => matches!(envelope.body, Body::Subscribe(_) | Body::Unsubscribe(_)),
            Self::Lite(envelope) => {
                matches!(envelope.body, LiteBody::Subscribe(_) | LiteBody::Unsubscribe(_))
            }
        }
    }
}

/// How a `stanzaId` came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StanzaForm {
    /// As an integer of 32 bits.
    Given,
    /// Not at all.
    Missing,
    /// As a number that is none; read as 0, worth counting.
    Unusable,
}

/// What one packet or frame holds: one envelope, or as many as its array has, each taken or refused
/// by itself and in order.
///
/// A packet that holds no envelope at all gives one error. While the dialect is undecided, the first
/// envelope that is told apart decides it for those behind it.
pub fn decode(
    packet: &[u8],
    from: Side,
    dialect: Dialect,
    limits: &AliciaLimits,
) -> Vec<Result<Decoded, DecodeError>> {
    let mut reader = Reader { from, dialect, limits, packet: packet.len() };
    if let Some(decoded) = reader.plain(packet) {
        return vec![Ok(decoded)];
    }
    match reader.open(packet) {
        Ok(values) => values.into_iter().map(|value| reader.envelope(value)).collect(),
        Err(fault) => vec![Err(DecodeError { fault, origin: Box::default() })],
    }
}

/// The canonical form of an envelope.
pub fn encode(envelope: &Envelope) -> Bytes {
    let mut out = Vec::with_capacity(USUAL_SIZE);
    envelope.encode(&mut out);
    out.into()
}

/// The canonical form of an envelope of the lite profile.
pub fn encode_lite(envelope: &LiteEnvelope) -> Bytes {
    let mut out = Vec::with_capacity(USUAL_SIZE);
    encode_map(&envelope.to_map(), &mut out);
    out.into()
}

/// Most envelopes are smaller.
const USUAL_SIZE: usize = 512;

struct Reader<'a> {
    from: Side,
    dialect: Dialect,
    limits: &'a AliciaLimits,
    /// Size of the packet.
    packet: usize,
}

impl Reader<'_> {
    /// Largest packet that is read.
    fn most(&self) -> usize {
        match self.dialect {
            Dialect::LiveKit => RELIABLE_PACKET,
            Dialect::Undecided | Dialect::Full | Dialect::Lite => size(self.limits.frame),
        }
    }

    /// The short way, for an envelope that is written as nearly all are and has nothing wrong with it. Whatever
    /// else comes, the long way finds out what it is.
    fn plain(&mut self, packet: &[u8]) -> Option<Decoded> {
        if self.dialect == Dialect::Lite || packet.len() > self.most() {
            return None;
        }
        let mut plain = Plain::open(packet)?;
        // Another spelling of a conversation is for the long way.
        let conversation_id = Some(Id::new(plain.conversation).ok().filter(|id| id.room_of().is_none())?);
        let kind = MessageType::from_number(plain.number)?;
        let stanza_id = plain.stanza_id;
        self.allow(kind, stanza_id).ok()?;
        let meta = self.meta(plain.meta.take()).ok()?;
        let body = match Body::from_packet(kind, plain.cursor()?, self.limits) {
            Some(body) => body,
            // The members may be there in another order.
            None => Body::from_map(kind, plain.into_map()?, self.limits).ok()?,
        };
        if self.is_fallback(&body) {
            return None;
        }
        if self.dialect == Dialect::Undecided {
            self.dialect = Dialect::Full;
        }
        let envelope = Box::new(Envelope { stanza_id, conversation_id, meta, body });
        Some(Decoded::Full { envelope, stanza: StanzaForm::Given })
    }

    /// The values that are to be envelopes.
    fn open(&self, packet: &[u8]) -> Result<Vec<Value>, Fault> {
        let most = self.most();
        if packet.len() > most {
            let fatal = packet.len() > size(self.limits.hard_cap);
            return Err(Fault::TooLarge { size: packet.len(), most, fatal });
        }
        let value = decode_msgpack(packet)?;
        let Value::Array(values) = value else { return Ok(vec![value]) };
        if values.len() > size(self.limits.batch) {
            return Err(Fault::Batch { most: self.limits.batch });
        }
        Ok(values)
    }

    fn envelope(&mut self, value: Value) -> Result<Decoded, DecodeError> {
        let mut origin = Origin::default();
        self.read(value, &mut origin).map_err(|fault| DecodeError { fault, origin: Box::new(origin) })
    }

    fn read(&mut self, value: Value, origin: &mut Origin) -> Result<Decoded, Fault> {
        let Value::Map(mut map) = value else { return Err(Fault::NotAMap) };
        // What names the envelope comes first, so that even a refusal can name it.
        let stanza = map.remove("stanzaId");
        let (stanza_id, form) = read_stanza(stanza.as_ref());
        origin.stanza_id = stanza_id;
        origin.number = map.get("type").and_then(read_type);
        origin.id = map.get("body").and_then(Value::as_map).and_then(read_id);
        let number = origin.number.ok_or_else(|| envelope("type", type_reason(map.get("type"))))?;
        let body = match map.remove("body") {
            Some(Value::Map(body)) => body,
            None | Some(Value::Nil) => return Err(envelope("body", Reason::Missing)),
            Some(_) => return Err(envelope("body", Reason::Type("a map"))),
        };
        let lite = match self.dialect {
            Dialect::Lite => true,
            Dialect::Undecided => stanza.is_none(),
            Dialect::LiveKit | Dialect::Full => false,
        };
        origin.lite = Some(lite);
        if self.dialect == Dialect::Undecided {
            self.dialect = if lite { Dialect::Lite } else { Dialect::Full };
        }
        if lite {
            return self.read_lite(&map, number, body, origin);
        }
        if stanza.as_ref().is_some_and(|stanza| *stanza != Value::Nil && stanza.as_float().is_none()) {
            return Err(envelope("stanzaId", Reason::Type("an integer")));
        }
        self.read_full(map, number, body, form, origin)
    }

    fn read_full(
        &self,
        mut map: Map,
        number: u16,
        body: Map,
        stanza: StanzaForm,
        origin: &mut Origin,
    ) -> Result<Decoded, Fault> {
        let outer = read_conversation(map.get("conversationId"), Id::conversation);
        // Unknown types are skipped, whatever they hold.
        let Some(kind) = MessageType::from_number(number) else {
            let envelope = Envelope {
                stanza_id: origin.stanza_id,
                conversation_id: outer.unwrap_or_default(),
                meta: self.meta(map.remove("meta")).unwrap_or_default(),
                body: Body::Unknown { number, body },
            };
            return Ok(Decoded::Full { envelope: Box::new(envelope), stanza });
        };
        let outer = outer.map_err(|reason| envelope("conversationId", reason))?;
        let conversation_id = match self.judge(kind, outer.as_ref(), &body, origin.stanza_id) {
            Ok(inner) => outer.or(inner),
            Err(fault) => {
                origin.conversation_id = outer;
                return Err(fault);
            }
        };
        let meta = self.meta(map.remove("meta")).map_err(|reason| envelope("meta", reason));
        let read = meta.and_then(|meta| {
            let body = Body::from_map(kind, body, self.limits).and_then(|body| self.acceptable(body));
            body.map(|body| (meta, body)).map_err(|error| Fault::Body(kind, error))
        });
        match read {
            Ok((meta, body)) => {
                let envelope = Envelope { stanza_id: origin.stanza_id, conversation_id, meta, body };
                Ok(Decoded::Full { envelope: Box::new(envelope), stanza })
            }
            Err(fault) => {
                origin.conversation_id = conversation_id;
                Err(fault)
            }
        }
    }

    /// Whether this side may send such an envelope here; the conversation, if the body alone names it.
    fn judge(
        &self,
        kind: MessageType,
        outer: Option<&Id>,
        body: &Map,
        stanza_id: i32,
    ) -> Result<Option<Id>, Fault> {
        self.allow(kind, stanza_id)?;
        self.conversation(kind, outer, body)
    }

    /// Whether this side may send such an envelope.
    fn allow(&self, kind: MessageType, stanza_id: i32) -> Result<(), Fault> {
        let on_socket_only = kind.transports() == Transports::WebSocket;
        if !kind.is_sent_by(self.from) || (on_socket_only && self.dialect == Dialect::LiveKit) {
            return Err(Fault::Direction(kind));
        }
        let wrong_sign = match self.from {
            Side::Client => stanza_id < 0,
            Side::Server => stanza_id > 0,
        };
        if wrong_sign { Err(Fault::Stanza) } else { Ok(()) }
    }

    fn read_lite(&self, map: &Map, number: u16, body: Map, origin: &mut Origin) -> Result<Decoded, Fault> {
        origin.stanza_id = 0;
        let outer = read_conversation(map.get("conversationId"), Id::new)
            .map_err(|reason| envelope("conversationId", reason))?;
        origin.conversation_id.clone_from(&outer);
        let (conversation_id, body) = match LiteType::from_number(number) {
            None => (outer, LiteBody::Unknown { number, body }),
            Some(kind) if !kind.is_sent_by(self.from) => return Err(Fault::LiteDirection(kind)),
            Some(kind) => {
                let inner = read_conversation(body.get("conversationId"), Id::new)
                    .map_err(|reason| Fault::LiteBody(kind, FieldError::new("conversationId", reason)))?;
                let conversation_id = match (outer, inner) {
                    (Some(outer), Some(inner)) if outer != inner => return Err(Fault::Conversation),
                    (outer, inner) => outer.or(inner),
                };
                origin.conversation_id.clone_from(&conversation_id);
                let body = LiteBody::from_map(kind, body, self.limits)
                    .map_err(|error| Fault::LiteBody(kind, error))?;
                (conversation_id, body)
            }
        };
        // A name to show, on which nothing depends: one that cannot be used is none.
        let user_id = map.get_str("user_id").filter(|user| is_user_id(user)).map(str::to_owned);
        let (trace, session_id) = (LiteTrace::read(map), text(map, "session_id")?);
        Ok(Decoded::Lite(Box::new(LiteEnvelope {
            conversation_id,
            body,
            trace,
            session_id,
            user_id: user_id.map(Pii),
        })))
    }

    /// The conversation that the body names besides: the same as the envelope's, or, for a handshake or a
    /// subscription, which come before the conversation does, the only one.
    fn conversation(&self, kind: MessageType, outer: Option<&Id>, body: &Map) -> Result<Option<Id>, Fault> {
        let named = body.get("conversationId");
        // Spelled alike, as nearly always: nothing to read.
        if outer.is_some_and(|outer| named.and_then(Value::as_str) == Some(outer.as_str())) {
            return Ok(None);
        }
        let inner = read_conversation(named, Id::conversation)
            .map_err(|reason| Fault::Body(kind, FieldError::new("conversationId", reason)))?;
        match (outer, inner) {
            (_, None) => Ok(None),
            (None, inner) if NAMES_CONVERSATION.contains(&kind) => Ok(inner),
            (outer, inner) if outer == inner.as_ref() => Ok(None),
            _ => Err(Fault::Conversation),
        }
    }

    fn meta(&self, meta: Option<Value>) -> Result<Meta, Reason> {
        let most = size(self.limits.meta);
        match meta {
            None | Some(Value::Nil) => Ok(Meta::default()),
            // The canonical form is at most twice as long as what came, where floats were short.
            Some(Value::Map(map)) if self.packet > most / 2 && encoded_size(&map) > most => {
                Err(Reason::TooLarge(most))
            }
            Some(Value::Map(map)) => Ok(Meta::new(map)),
            Some(_) => Err(Reason::Type("a map")),
        }
    }

    /// What a body must not be because a client sends it.
    fn acceptable(&self, body: Body) -> Result<Body, FieldError> {
        if self.is_fallback(&body) { Err(FieldError::new("id", Reason::Fallback)) } else { Ok(body) }
    }

    /// Whether a client wants something new to have an id that is none.
    fn is_fallback(&self, body: &Body) -> bool {
        self.from == Side::Client && body.new_row().is_some_and(Id::is_fallback)
    }
}

/// Types whose body may be the only place that names the conversation.
const NAMES_CONVERSATION: &[MessageType] = &[
    MessageType::Configuration,
    MessageType::Subscribe,
    MessageType::Unsubscribe,
    MessageType::SubscribeAck,
    MessageType::UnsubscribeAck,
];

fn envelope(key: &str, reason: Reason) -> Fault {
    Fault::Envelope(FieldError::new(key, reason))
}

fn read_stanza(stanza: Option<&Value>) -> (i32, StanzaForm) {
    let Some(stanza) = stanza else { return (0, StanzaForm::Missing) };
    match stanza.as_int().and_then(|int| i32::try_from(int).ok()) {
        Some(stanza_id) => (stanza_id, StanzaForm::Given),
        None => (0, StanzaForm::Unusable),
    }
}

fn read_type(value: &Value) -> Option<u16> {
    value.as_int().and_then(|int| u16::try_from(int).ok()).filter(|number| *number > 0)
}

/// A type out of range is malformed like one of another kind: it discriminates.
fn type_reason(value: Option<&Value>) -> Reason {
    match value {
        None | Some(Value::Nil) => Reason::Missing,
        Some(_) => Reason::Type("an integer from 1 to 65535"),
    }
}

fn read_id(body: &Map) -> Option<Id> {
    body.get_str("id").and_then(|id| Id::new(id).ok())
}

fn read_conversation(
    value: Option<&Value>,
    parse: fn(String) -> Result<Id, Reason>,
) -> Result<Option<Id>, Reason> {
    match value {
        None | Some(Value::Nil) => Ok(None),
        Some(Value::Str(text)) if text.is_empty() => Ok(None),
        Some(Value::Str(text)) => parse(text.clone()).map(Some),
        Some(_) => Err(Reason::Type("text")),
    }
}

fn text(map: &Map, key: &str) -> Result<Option<String>, Fault> {
    match map.get(key) {
        None | Some(Value::Nil) => Ok(None),
        Some(Value::Str(text)) => Ok(Some(text.clone())),
        Some(_) => Err(envelope(key, Reason::Type("text"))),
    }
}
