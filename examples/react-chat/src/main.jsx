import { createClient } from "@switchboard/client";
import { SwitchboardProvider, useConnection, useSession, useTool } from "@switchboard/react";
import { Approvals, Composer, Messages } from "@switchboard/react/dom";
import { useVoice } from "@switchboard/react/voice";
import { StrictMode, useEffect, useRef } from "react";
import { createRoot } from "react-dom/client";

// Where the server is: ?server=http://… in the address, else the default of a server on this machine.
const server = new URLSearchParams(location.search).get("server") ?? "http://127.0.0.1:4600";
const client = createClient({ url: server, storage: sessionStorage });

function Chat() {
  const session = useSession("trip");
  const { state, error } = useConnection();
  useTool({
    name: "page_title",
    description: "The title of this page",
    input: { type: "object" },
    run: () => document.title,
  });
  return (
    <main>
      <p role="status">{state}{error && state !== "online" ? `: ${error.advice}` : ""}</p>
      <Messages session={session} />
      <Approvals />
      <Composer session={session} placeholder="Ask something" />
      <Voice />
    </main>
  );
}

function Voice() {
  const voice = useVoice({ appId: "react-chat", endpoint: server, environment: "development" });
  return (
    <section aria-label="Voice" data-state={voice.state}>
      {voice.state === "not_connected" ? <button onClick={voice.start}>Talk</button> : <button onClick={voice.hangUp}>Hang up</button>}
      <Levels of={voice.levels} />
      <ul>{voice.captions.map(({ role, text }, index) => <li key={index}>{role}: {text}</li>)}</ul>
      {voice.error ? <p role="alert">{voice.error.message}</p> : null}
    </section>
  );
}

/** A bar for each voice. */
function Levels({ of }) {
  const bars = useRef(null);
  useEffect(() => {
    let frame = requestAnimationFrame(function draw() {
      const { input, output } = of();
      if (bars.current) {
        bars.current.children[0].value = input;
        bars.current.children[1].value = output;
      }
      frame = requestAnimationFrame(draw);
    });
    return () => cancelAnimationFrame(frame);
  }, [of]);
  return <p ref={bars}><meter aria-label="You" /><meter aria-label="Assistant" /></p>;
}

createRoot(document.getElementById("root")).render(
  <StrictMode>
    <SwitchboardProvider client={client}><Chat /></SwitchboardProvider>
  </StrictMode>,
);
