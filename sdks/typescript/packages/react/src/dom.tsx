/** A few components without style, for pages. */

import { type Approval, type Question, type Turn } from "@switchboard/client";
import { type FormEvent, type JSX, useState } from "react";
import { type UseSession, useApprovals, useTurn } from "./index.js";

/** What was said, each message with the class of its role. */
export function Messages({ session }: { session: UseSession }): JSX.Element {
  return (
    <ol className="messages" aria-live="polite">
      {session.messages.map(({ id, role, text, turn }) => (
        <li key={id} className={role}>
          {turn ? <Answer turn={turn} /> : text}
        </li>
      ))}
    </ol>
  );
}

/** An answer on its way, with the tools that it uses. */
export function Answer({ turn }: { turn: Turn }): JSX.Element {
  const { text, tools, status, error } = useTurn(turn);
  return (
    <div className={`answer ${status}`}>
      {tools.map(({ id, name, state }) => (
        <p key={id} className={`tool ${state}`}>{name}</p>
      ))}
      <p>{text}</p>
      {error ? <p role="alert">{error.message}. {error.advice}.</p> : null}
    </div>
  );
}

/** A line to write in; a button that stops while an answer is coming. */
export function Composer({ session, placeholder }: { session: UseSession; placeholder?: string }): JSX.Element {
  const [text, setText] = useState("");
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (text.trim() === "") return;
    session.ask(text);
    setText("");
  };
  return (
    <form className="composer" onSubmit={submit}>
      <input value={text} onChange={(event) => setText(event.target.value)} placeholder={placeholder} aria-label={placeholder ?? "Message"} />
      {session.running ? <button type="button" onClick={session.stop}>Stop</button> : <button type="submit">Send</button>}
    </form>
  );
}

/** Questions and approvals that wait. */
export function Approvals(): JSX.Element {
  return (
    <div className="approvals">
      {useApprovals().map((open) => ("answer" in open ? <Ask key={open.id} question={open} /> : <Approve key={open.id} approval={open} />))}
    </div>
  );
}

function Approve({ approval }: { approval: Approval }): JSX.Element {
  return (
    <div role="alertdialog" aria-label={approval.text}>
      <p>{approval.text}</p>
      <button onClick={() => void approval.approve()}>Yes</button>
      <button onClick={() => void approval.deny()}>No</button>
    </div>
  );
}

function Ask({ question }: { question: Question }): JSX.Element {
  const [answer, setAnswer] = useState("");
  return (
    <form onSubmit={(event) => (event.preventDefault(), void question.answer(answer))}>
      <label>
        {question.text} <input value={answer} onChange={(event) => setAnswer(event.target.value)} />
      </label>
      <button type="submit">Answer</button>
    </form>
  );
}
