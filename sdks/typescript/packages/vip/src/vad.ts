/** Tells speech from the room, by how much louder it is. */

export interface Hearing {
  /** Somebody speaks. */
  speech: boolean;
  /** Somebody began to, with this frame. */
  onset: boolean;
  /** How long nobody has spoken, in milliseconds. */
  silenceMs: number;
  levelDb: number;
  /** How sure that is speech, from 0 to 1. */
  confidence: number;
}

const QUIET_DB = -70;
const LOUD_ROOM_DB = -40;
const LEAST_SPEECH_DB = -48;
const ABOVE_ROOM_DB = 10;
/** Over the sound of the loudspeaker, more is asked: louder, and for longer. */
const STRICT_EXTRA_DB = 8;
const ONSET_MS = 80;
const STRICT_ONSET_MS = 180;
/** A gap this short is within a word. */
const HANGOVER_MS = 160;

export class VoiceDetector {
  private roomDb: number | undefined;
  private loudMs = 0;
  private quietMs = 0;
  private speaking = false;

  /** Takes in one frame of PCM16. */
  push(pcm: Uint8Array, frameMs: number, strict = false): Hearing {
    const levelDb = level(pcm);
    // The first that is heard is the room, though somebody may be speaking already.
    this.roomDb ??= Math.max(QUIET_DB, Math.min(LOUD_ROOM_DB, levelDb));
    const threshold = Math.max(LEAST_SPEECH_DB, this.roomDb + ABOVE_ROOM_DB) + (strict ? STRICT_EXTRA_DB : 0);
    const loud = levelDb > threshold;
    let onset = false;
    if (loud) {
      this.loudMs += frameMs;
      this.quietMs = 0;
      if (!this.speaking && this.loudMs >= (strict ? STRICT_ONSET_MS : ONSET_MS)) {
        this.speaking = true;
        onset = true;
      }
    } else {
      this.quietMs += frameMs;
      this.loudMs = Math.max(0, this.loudMs - frameMs);
      if (this.quietMs > HANGOVER_MS) {
        this.speaking = false;
        this.loudMs = 0;
      }
      this.roomDb = learnRoom(this.roomDb, levelDb, frameMs);
    }
    const confidence = Math.max(0, Math.min(1, (levelDb - threshold + 6) / 18));
    return { speech: this.speaking, onset, silenceMs: this.quietMs, levelDb, confidence };
  }

  /** Forgets who was speaking, but not how loud the room is. */
  reset(): void {
    this.loudMs = 0;
    this.quietMs = 0;
    this.speaking = false;
  }
}

/** The room becomes quieter quickly and louder slowly. */
function learnRoom(roomDb: number, levelDb: number, frameMs: number): number {
  const level = Math.max(QUIET_DB, levelDb);
  const weight = frameMs / (level < roomDb ? 100 : 1500);
  return roomDb + (level - roomDb) * Math.min(1, weight);
}

/** How loud PCM16 is, in decibels below full scale. */
export function level(pcm: Uint8Array): number {
  const view = new DataView(pcm.buffer, pcm.byteOffset, pcm.byteLength & ~1);
  const count = view.byteLength / 2;
  let sum = 0;
  for (let i = 0; i < count; i++) sum += (view.getInt16(i * 2, true) / 32768) ** 2;
  return count ? Math.max(-100, 10 * Math.log10(sum / count + 1e-10)) : -100;
}
