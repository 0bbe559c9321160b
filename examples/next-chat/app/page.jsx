"use client";

import { useChat } from "@ai-sdk/react";
import { createClient } from "@switchboard/client";
import { SwitchboardTransport } from "@switchboard/react/ai";
import { useState } from "react";

const browser = typeof window !== "undefined";
// One client for the page; on the server, where this is rendered first, it connects to nothing.
const client = createClient({
  url: process.env.NEXT_PUBLIC_SWITCHBOARD_URL ?? "http://127.0.0.1:4600",
  ...(browser && window.sessionStorage ? { storage: window.sessionStorage } : {}),
});
const transport = new SwitchboardTransport({ client });

export default function Page() {
  const { messages, sendMessage, stop, status, error } = useChat({ id: "next", transport, resume: browser });
  const [text, setText] = useState("");
  return (
    <main>
      {messages.map(({ id, role, parts }) => (
        <p key={id} className={role}>
          {parts.map((part, index) => (part.type === "text" ? <span key={index}>{part.text}</span> : null))}
        </p>
      ))}
      {error ? <p role="alert">{error.message}</p> : null}
      <form onSubmit={(event) => (event.preventDefault(), sendMessage({ text }), setText(""))}>
        <input aria-label="Message" value={text} onChange={(event) => setText(event.target.value)} />
        {status === "streaming" ? <button type="button" onClick={stop}>Stop</button> : <button type="submit">Send</button>}
      </form>
    </main>
  );
}
