//! Values of every type, made from one seed.

use bytes::Bytes;
use switchboard_alicia::lite::*;
use switchboard_alicia::message::*;
use switchboard_alicia::{Body, Id, LiteBody, LiteType, Map, MessageType, Meta, Severity, Value, Word};
use switchboard_core::{Pii, SplitMix};

pub(crate) struct Gen(SplitMix);

impl Gen {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SplitMix::new(seed))
    }

    pub(crate) fn of<T: Sample>(&mut self) -> T {
        T::sample(self)
    }

    pub(crate) fn below(&mut self, most: usize) -> usize {
        (self.0.next() >> 32) as usize % most
    }

    pub(crate) fn chance(&mut self) -> bool {
        self.below(2) == 0
    }

    pub(crate) fn int(&mut self, least: i64, most: i64) -> i64 {
        let width = most.wrapping_sub(least).cast_unsigned();
        // Small magnitudes as often as large ones.
        let bits = self.below(65);
        let raw = if bits == 64 { self.0.next() } else { self.0.next() & ((1 << bits) - 1) };
        least.wrapping_add((raw % width.saturating_add(1).max(1)).cast_signed())
    }

    pub(crate) fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    fn value(&mut self, depth: usize) -> Value {
        match self.below(if depth == 0 { 7 } else { 9 }) {
            0 => Value::Nil,
            1 => Value::Bool(self.of()),
            2 => Value::Int(self.of()),
            3 => Value::UInt(u64::MAX - self.below(1000) as u64),
            4 => Value::Float(self.of()),
            5 if self.below(4) == 0 => Value::Str("é".repeat(self.below(300))),
            5 => Value::Str(self.of()),
            6 => Value::Bin(self.of()),
            7 => Value::Array((0..self.below(20)).map(|_| self.value(depth - 1)).collect()),
            _ => Value::Map(self.map(depth - 1)),
        }
    }

    fn map(&mut self, depth: usize) -> Map {
        (0..self.below(5)).map(|_| (self.of::<String>(), self.value(depth))).collect()
    }
}

pub(crate) trait Sample {
    fn sample(g: &mut Gen) -> Self;
}

impl Sample for bool {
    fn sample(g: &mut Gen) -> Self {
        g.chance()
    }
}

impl Sample for i64 {
    fn sample(g: &mut Gen) -> Self {
        let magnitude = g.int(0, Self::MAX);
        if g.chance() { magnitude } else { -1 - magnitude }
    }
}

impl Sample for u64 {
    fn sample(g: &mut Gen) -> Self {
        if g.below(10) == 0 { Self::MAX } else { g.int(0, i64::MAX).cast_unsigned() }
    }
}

impl Sample for i32 {
    fn sample(g: &mut Gen) -> Self {
        g.int(0, i64::from(u32::MAX)) as Self
    }
}

impl Sample for u32 {
    fn sample(g: &mut Gen) -> Self {
        g.int(0, i64::from(Self::MAX)) as Self
    }
}

impl Sample for u16 {
    fn sample(g: &mut Gen) -> Self {
        g.int(0, i64::from(Self::MAX)) as Self
    }
}

impl Sample for u8 {
    fn sample(g: &mut Gen) -> Self {
        g.int(0, i64::from(Self::MAX)) as Self
    }
}

impl Sample for f64 {
    fn sample(g: &mut Gen) -> Self {
        let float = match g.below(3) {
            0 => Self::from_bits(g.0.next()),
            1 => g.int(-1000, 1000) as Self / 8.0,
            _ => g.int(0, 1 << 53) as Self,
        };
        if float.is_finite() { float } else { 0.5 }
    }
}

impl Sample for Ratio {
    fn sample(g: &mut Gen) -> Self {
        Self::new(g.int(0, 1 << 30) as f64 / (1 << 30) as f64).unwrap()
    }
}

/// Never blank, never a name of the reference, and within the shortest bound.
impl Sample for String {
    fn sample(g: &mut Gen) -> Self {
        let length = g.pick(&[0, 1, 5, 12, 23]);
        std::iter::once('x')
            .chain((0..length).map(|_| g.pick(&['a', ' ', 'é', '\n', '"', '0', '😀'])))
            .collect()
    }
}

impl Sample for Bytes {
    fn sample(g: &mut Gen) -> Self {
        let length = g.pick(&[0, 1, 31, 300]);
        (0..length).map(|_| g.of::<u8>()).collect()
    }
}

impl Sample for Id {
    fn sample(g: &mut Gen) -> Self {
        let length = g.pick(&[1, 21, 24, 32, 128]);
        Self::new((0..length).map(|_| char::from(g.pick(b"abcXYZ019_-+/~!"))).collect::<String>()).unwrap()
    }
}

impl Sample for Value {
    fn sample(g: &mut Gen) -> Self {
        let value = g.value(4);
        // Nil is how a value says that it is not there.
        if value == Self::Nil { Self::Bool(true) } else { value }
    }
}

impl Sample for Map {
    fn sample(g: &mut Gen) -> Self {
        g.map(3)
    }
}

impl Sample for Meta {
    fn sample(g: &mut Gen) -> Self {
        let map = if g.chance() { g.map(0) } else { Map::new() };
        let meta = Self::new(map);
        match Trace::new("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331") {
            Some(trace) if g.chance() => meta.with_trace(&trace),
            _ => meta,
        }
    }
}

impl Sample for LiteTrace {
    fn sample(g: &mut Gen) -> Self {
        let trace = Trace::new("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331").unwrap();
        Self { trace, flags: g.of() }
    }
}

impl<T: Sample> Sample for Option<T> {
    fn sample(g: &mut Gen) -> Self {
        g.chance().then(|| g.of())
    }
}

impl<T: Sample> Sample for Vec<T> {
    fn sample(g: &mut Gen) -> Self {
        (0..g.pick(&[0, 1, 2, 17])).map(|_| g.of()).collect()
    }
}

impl<T: Sample> Sample for Pii<T> {
    fn sample(g: &mut Gen) -> Self {
        Self(g.of())
    }
}

impl<T: Sample> Sample for Word<T> {
    fn sample(g: &mut Gen) -> Self {
        if g.chance() { Self::Known(g.of()) } else { Self::Other(g.of()) }
    }
}

impl Sample for SpecialVotes {
    fn sample(g: &mut Gen) -> Self {
        Self((0..g.below(3)).map(|index| (format!("v{index}"), g.of())).collect())
    }
}

/// Types that are one of a few.
macro_rules! picked {
    ($($type:ident)*) => {$(
        impl Sample for $type {
            fn sample(g: &mut Gen) -> Self {
                g.pick(Self::ALL)
            }
        }
    )*};
}

picked! {
    Severity StopType Mode AnswerType Execution ToolError MemoryActionKind MemoryCategory CommentaryType
    TargetType Vote QuickFeedback NoteCategory NoteAction Role SyncStatus ConnectionStatus McpStatus
    ConversationStatus Preset SubscribeError RequestType VoiceState
}

/// Types whose members are all made alike.
macro_rules! made {
    ($($type:ident { $($field:ident)* })*) => {$(
        impl Sample for $type {
            fn sample(g: &mut Gen) -> Self {
                let _ = &g;
                Self { $($field: g.of(),)* }
            }
        }
    )*};
}

made! {
    ErrorMessage { id code message severity recoverable originating_id }
    UserMessage { id previous_id content timestamp superset }
    Superset { role sequence_number created_at updated_at local_id server_id }
    AssistantMessage { id previous_id content timestamp superset }
    AudioChunk { format sequence duration_ms track_sid data is_last timestamp }
    ReasoningStep { id message_id sequence content }
    ToolUseRequest { id message_id tool_name parameters execution timeout_ms }
    ToolUseResult { id request_id success result error_code error_message }
    Acknowledgement { acknowledged_stanza_id success }
    Transcription { id previous_id text is_final confidence language }
    ControlStop { target_id reason stop_type }
    ControlVariation { target_id mode new_content }
    StartAnswer { id previous_id answer_type planned_sentence_count }
    MemoryTrace { id message_id memory_id content relevance source }
    AssistantSentence { id previous_id sequence text is_final audio }
    SyncRequest { messages }
    SyncMessage { local_id sequence_number previous_id role contents created_at updated_at }
    SyncResponse { synced_messages synced_at }
    SyncedMessage { local_id server_id status message conflict }
    SyncConflict { reason server_message resolution }
    MessageResponse {
        id conversation_id sequence_number previous_id role contents local_id server_id tool_uses created_at updated_at
    }
    ToolUseResponse {
        id message_id tool_name arguments result status error_message sequence_number completed_at created_at updated_at
    }
    Feedback { id message_id target_type target_id vote quick_feedback note timestamp }
    FeedbackConfirmation { feedback_id target_type target_id aggregates user_vote }
    Aggregates { upvotes downvotes special_votes }
    UserNote { id message_id content category action timestamp }
    NoteConfirmation { note_id message_id success }
    MemoryAction { id action memory timestamp }
    MemoryContent { content category pinned }
    MemoryConfirmation { memory_id action success }
    ServerInfo { connection model mcp_servers }
    ConnectionInfo { status latency }
    ModelInfo { name provider }
    McpServer { name status }
    SessionStats { message_count tool_call_count memories_used session_duration }
    ConversationUpdate { title status updated_at }
    DimensionPreference { weights preset timestamp }
    Weights { success_rate quality efficiency robustness generalization diversity innovation }
    EliteSelect { elite_id timestamp }
    EliteOptions { elites current_elite_id timestamp }
    Elite { id label scores description best_for }
    Dimensions { success_rate quality efficiency robustness generalization diversity innovation }
    Subscribe { from_sequence }
    Unsubscribe {}
    SubscribeAck { success error missed_messages }
    UnsubscribeAck { success }
    LiteError { code message message_id }
    LiteUserMessage { id content previous_id role created_at }
    LiteAssistantMessage { id previous_id content timestamp reasoning role created_at }
    LiteToolUseRequest { id message_id tool_name arguments execution }
    LiteToolUseResult { id request_id message_id success result error }
    LiteStartAnswer { message_id previous_id }
    LiteAssistantSentence { id previous_id sequence text is_final audio message_id }
    GenerationRequest {
        message_id previous_id request_type new_content enable_tools enable_reasoning enable_streaming use_pareto timestamp
    }
    ThinkingSummary { id message_id content progress timestamp }
    GenerationComplete { message_id success error }
    TitleUpdate { title }
    LiteSubscribe { agent_mode voice_mode assistant_mode whatsapp_mode monitor_mode }
    LiteUnsubscribe {}
    LiteSubscribeAck { agent_mode success error }
    BranchUpdate { parent_message_id new_sibling all_siblings total_count }
    Sibling { id content created_at }
    VoiceJoinRequest { user_id }
    VoiceJoinAck { success error sample_rate }
    VoiceLeaveRequest {}
    VoiceLeaveAck { success error }
    VoiceStatus { status queue_length error }
    VoiceSpeaking { message_id speaking sentence_seq }
    DeviceToolsRegister { tools }
    DeviceTool { name description input_schema }
    DeviceToolsAck { success tool_count error }
    DeviceHeartbeat {}
}

/// Never above 0.
impl Sample for Configuration {
    fn sample(g: &mut Gen) -> Self {
        Self {
            last_sequence_seen: g.chance().then(|| -g.int(0, i64::MAX)),
            client_version: g.of(),
            preferred_language: g.of(),
            device: g.of(),
            features: g.of(),
        }
    }
}

/// Withdrawn members are never sent.
impl Sample for Commentary {
    fn sample(g: &mut Gen) -> Self {
        Self {
            id: g.of(),
            message_id: g.of(),
            content: g.of(),
            commentary_type: g.of(),
            author_role: None,
            rating: None,
        }
    }
}

/// A body of this type; names each, so that a new type does not compile without one.
macro_rules! bodies {
    ($($name:ident)*) => {
        pub(crate) fn body(g: &mut Gen, kind: MessageType) -> Body {
            match kind { $(MessageType::$name => Body::$name(g.of()),)* }
        }
    };
}

macro_rules! lite_bodies {
    ($($name:ident)*) => {
        pub(crate) fn lite_body(g: &mut Gen, kind: LiteType) -> LiteBody {
            match kind { $(LiteType::$name => LiteBody::$name(g.of()),)* }
        }
    };
}

bodies! {
    ErrorMessage UserMessage AssistantMessage AudioChunk ReasoningStep ToolUseRequest ToolUseResult
    Acknowledgement Transcription ControlStop ControlVariation Configuration StartAnswer MemoryTrace Commentary
    AssistantSentence SyncRequest SyncResponse Feedback FeedbackConfirmation UserNote NoteConfirmation
    MemoryAction MemoryConfirmation ServerInfo SessionStats ConversationUpdate DimensionPreference EliteSelect
    EliteOptions Subscribe Unsubscribe SubscribeAck UnsubscribeAck
}

lite_bodies! {
    Error UserMessage AssistantMessage ReasoningStep ToolUseRequest ToolUseResult StartAnswer MemoryTrace
    AssistantSentence GenerationRequest ThinkingSummary TitleUpdate Subscribe Unsubscribe SubscribeAck
    BranchUpdate VoiceJoinRequest VoiceJoinAck VoiceLeaveRequest VoiceLeaveAck VoiceStatus VoiceSpeaking
    DeviceToolsRegister DeviceToolsAck DeviceHeartbeat GenerationComplete
}
