/** Voice for the page, as a hook: needs the package @switchboard/vip. */

import { type Caption, type ErrorData, VoiceApp, type VoiceOptions } from "@switchboard/vip";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";

export interface UseVoice {
  /** One of the states of the protocol: `not_connected`, `idle`, `user_speaking`, `ai_thinking`, `ai_speaking`, … */
  state: string;
  listening: boolean;
  captions: readonly Caption[];
  error: ErrorData | Error | undefined;
  /** Connects and opens the microphone; to be called from a click. */
  start(): Promise<void>;
  say(text: string): void;
  interrupt(): void;
  hangUp(): Promise<void>;
  /** How loud both voices are now, from 0 to 1; to be asked once per picture. */
  levels(): { input: number; output: number };
}

const MAX_CAPTIONS = 200;

/** One conversation by voice for as long as the component is there. Options count when it is connected. */
export function useVoice(options: VoiceOptions): UseVoice {
  const latest = useRef(options);
  useEffect(() => {
    latest.current = options;
  });
  const app = useRef<VoiceApp | undefined>(undefined);
  const [state, setState] = useState("not_connected");
  const [listening, setListening] = useState(false);
  const [captions, setCaptions] = useState<readonly Caption[]>([]);
  const [error, setError] = useState<ErrorData | Error | undefined>(undefined);

  const end = useCallback(async () => {
    const ending = app.current;
    app.current = undefined;
    await ending?.dispose();
    setState("not_connected");
    setListening(false);
  }, []);
  // Strict mode mounts twice: nothing is made before it is started, and what was is given back.
  useEffect(() => () => void end(), [end]);

  const start = useCallback(async () => {
    if (app.current) return;
    const voice = (app.current = new VoiceApp(latest.current));
    setError(undefined);
    voice.on("state", (transition) => setState(transition.state));
    voice.on("microphone", (news) => {
      setListening(news.open);
      if (news.error) setError(news.error);
    });
    voice.on("caption", (caption) => setCaptions((before) => [...before.slice(1 - MAX_CAPTIONS), caption]));
    voice.on("error", setError);
    voice.on("ended", (news) => {
      if (app.current === voice) void end();
      if (news.error) setError(news.error);
    });
    try {
      await voice.unlockAudio();
      await voice.start();
      await voice.openMicrophone();
    } catch (thrown) {
      setError(thrown instanceof Error ? thrown : new Error(String(thrown)));
      await end();
    }
  }, [end]);

  return useMemo(
    () => ({
      state, listening, captions, error, start,
      say: (text: string) => app.current?.say(text),
      interrupt: () => app.current?.interrupt(),
      hangUp: end,
      levels: () => app.current?.levels ?? { input: 0, output: 0 },
    }),
    [state, listening, captions, error, start, end],
  );
}
