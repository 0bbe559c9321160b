//! Subscriptions, titles, branches, voice and devices of the lite profile.

use switchboard_core::Pii;

use crate::id::Id;
use crate::message::rows::body;
use crate::message::{Word, names};
use crate::value::Map;

body! {
    /// The title of a conversation changed.
    TitleUpdate {
        ..conversation
        /// The title.
        title: Pii<String> = required "title";
    }
}

body! {
    /// Follow a conversation, or say which service this is.
    LiteSubscribe {
        ..known_conversation
        /// An agent.
        agent_mode: bool = flag "agentMode";
        /// The voice service.
        voice_mode: bool = flag "voiceMode";
        /// An assistant.
        assistant_mode: bool = flag "assistantMode";
        /// The chat bridge.
        whatsapp_mode: bool = flag "whatsappMode";
        /// One that receives copies.
        monitor_mode: bool = flag "monitorMode";
    }
}

impl LiteSubscribe {
    /// Whether it comes from a service and not from a user.
    pub fn is_service(&self) -> bool {
        self.agent_mode || self.voice_mode || self.assistant_mode || self.whatsapp_mode || self.monitor_mode
    }
}

body! {
    /// Follow it no longer.
    LiteUnsubscribe {
        ..conversation
    }
}

body! {
    /// Answer to Subscribe.
    LiteSubscribeAck {
        ..known_conversation
        /// Whether the subscriber is an agent.
        agent_mode: bool = flag "agentMode";
        /// Whether it is followed now.
        success: bool = required "success";
        /// Why not.
        error: Option<String> = optional "error";
    }
}

body! {
    /// A message has a new sibling.
    BranchUpdate {
        ..conversation
        /// Their parent.
        parent_message_id: Id = required "parentMessageId";
        /// The new one.
        new_sibling: Sibling = required "newSibling";
        /// All of them.
        all_siblings: Vec<Sibling> = required "allSiblings" [0..=items];
        /// How many there are.
        total_count: u32 = required "totalCount";
    }
}

body! {
    /// One of several messages with one parent.
    Sibling {
        /// The message.
        id: Id = required "id";
        /// Its text.
        content: Pii<String> = required "content";
        /// When it was made, RFC 3339.
        created_at: String = required "createdAt";
    }
}

body! {
    /// Speak in this conversation.
    VoiceJoinRequest {
        ..conversation
        /// Who speaks, by a name to show; never proof of it.
        user_id: Option<Pii<String>> = optional "userId";
    }
}

body! {
    /// Answer to VoiceJoinRequest.
    VoiceJoinAck {
        ..conversation
        /// Whether one may.
        success: bool = required "success";
        /// Why not.
        error: Option<String> = optional "error";
        /// Samples per second.
        sample_rate: Option<u32> = optional "sampleRate";
    }
}

body! {
    /// Speak no longer.
    VoiceLeaveRequest {
        ..conversation
    }
}

body! {
    /// Answer to VoiceLeaveRequest.
    VoiceLeaveAck {
        ..conversation
        /// Whether it was done.
        success: bool = required "success";
        /// Why not.
        error: Option<String> = optional "error";
    }
}

body! {
    /// State of speech.
    VoiceStatus {
        ..conversation
        /// The state.
        status: Word<VoiceState> = required "status";
        /// How much waits.
        queue_length: u32 = required "queueLength";
        /// What is wrong.
        error: Option<String> = optional "error";
    }
}

names! {
    /// State of speech.
    VoiceState {
        /// No more can wait.
        QueueFull = "queue_full",
        /// More can wait.
        QueueOk = "queue_ok",
        /// Speaking.
        Speaking = "speaking",
        /// Silent.
        Idle = "idle",
    }
}

body! {
    /// Speech of a message begins or ends.
    VoiceSpeaking {
        ..conversation
        /// The message.
        message_id: Id = required "messageId";
        /// Whether it begins.
        speaking: bool = required "speaking";
        /// The sentence.
        sentence_seq: Option<u32> = optional "sentenceSeq";
    }
}

body! {
    /// The tools of a device.
    DeviceToolsRegister {
        /// All of them.
        tools: Vec<DeviceTool> = required "tools" [0..=items];
    }
}

body! {
    /// A tool of a device.
    DeviceTool {
        /// Its name.
        name: String = required "name" [1..=tool_name];
        /// What it does.
        description: String = required "description";
        /// JSON Schema of its arguments.
        input_schema: Option<Map> = optional "inputSchema";
    }
}

body! {
    /// Answer to DeviceToolsRegister.
    DeviceToolsAck {
        /// Whether they were taken.
        success: bool = required "success";
        /// How many.
        tool_count: u32 = required "toolCount";
        /// Why not.
        error: Option<String> = optional "error";
    }
}

body! {
    /// A device lives.
    DeviceHeartbeat {}
}
