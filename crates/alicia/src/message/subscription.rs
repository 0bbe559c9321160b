//! Following conversations on a socket (§4.23).

use super::rows::body;
use super::words::{Word, names};

body! {
    /// Follow the envelope's conversation.
    Subscribe {
        ..conversation
        /// The highest number of a message that the client holds.
        from_sequence: Option<u64> = optional "fromSequence";
    }
}

body! {
    /// Follow it no longer.
    Unsubscribe {
        ..conversation
    }
}

body! {
    /// Answer to Subscribe.
    SubscribeAck {
        ..conversation
        /// Whether it is followed now.
        success: bool = required "success";
        /// Why not.
        error: Option<Word<SubscribeError>> = optional "error";
        /// Messages that the client lacks, if it said which it holds.
        missed_messages: Option<u64> = optional "missedMessages";
    }
}

names! {
    /// Why a conversation is not followed (§8.3).
    SubscribeError {
        /// None was named.
        ConversationIdRequired = "conversation_id_required",
        /// The request makes no sense.
        InvalidRequest = "invalid_request",
        /// Unknown, or another's.
        NotFound = "not_found",
        /// Archived.
        Inactive = "inactive",
        /// Too many already.
        TooManySubscriptions = "too_many_subscriptions",
        /// We broke.
        Internal = "internal",
    }
}

body! {
    /// Answer to Unsubscribe.
    UnsubscribeAck {
        ..conversation
        /// Whether a conversation was named.
        success: bool = required "success";
    }
}
