//! The words of §3.1.

wire_words! {
    /// What a message of a client is.
    pub enum ClientMessageType {
        /// Work is asked for.
        Task = "task",
        /// Still here.
        Heartbeat = "heartbeat",
        /// What became of the commands of one message.
        CommandResults = "command_results",
        /// Something went wrong on the client's side.
        Error = "error",
        /// Who is speaking; the first message of every connection.
        Register = "register",
        /// The task is over as far as the client is concerned.
        TaskEnd = "task_end",
        /// What kind of a device is it?
        DeviceInfoRequest = "device_info_request",
        /// What kind of a device it is.
        DeviceInfoResponse = "device_info_response",
    }
}

wire_words! {
    /// What a message of a server is.
    pub enum ServerMessageType {
        /// Work for the device, which is to submit it as its own task.
        Task = "task",
        /// An acknowledgement: of a registration, a heartbeat or a task.
        Heartbeat = "heartbeat",
        /// The task is over.
        TaskEnd = "task_end",
        /// Commands to run.
        Command = "command",
        /// Something was refused or went wrong.
        Error = "error",
        /// What kind of a device is it?
        DeviceInfoRequest = "device_info_request",
        /// What kind of a device it is.
        DeviceInfoResponse = "device_info_response",
    }
}

wire_words! {
    /// Which side of a task a client is on.
    #[derive(Default)]
    pub enum ClientType {
        /// Runs commands.
        #[default]
        Device = "device",
        /// Hands out tasks.
        Constellation = "constellation",
    }
}

wire_words! {
    /// How a task, or the message itself, stands.
    pub enum TaskStatus {
        /// It goes on.
        Continue = "continue",
        /// It ended well.
        Completed = "completed",
        /// It ended badly.
        Failed = "failed",
        /// Acknowledged.
        Ok = "ok",
        /// The message could not be used.
        Error = "error",
    }
}

wire_words! {
    /// How one command ended.
    pub enum ResultStatus {
        /// Well.
        Success = "success",
        /// Badly.
        Failure = "failure",
        /// It was not run, because one before it failed.
        Skipped = "skipped",
        /// There is nothing to say.
        None = "none",
    }
}

wire_words! {
    /// What a command is for.
    pub enum ToolType {
        /// To look.
        DataCollection = "data_collection",
        /// To act.
        Action = "action",
    }
}
