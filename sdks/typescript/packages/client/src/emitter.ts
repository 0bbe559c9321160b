/** Listeners by the name of what happens. One that throws does not keep the others from hearing. */
export class Emitter<Events> {
  private readonly listeners = new Map<keyof Events, Set<(value: never) => void>>();

  on<K extends keyof Events>(event: K, listener: (value: Events[K]) => void): () => void {
    let set = this.listeners.get(event);
    if (!set) this.listeners.set(event, (set = new Set()));
    const own = (value: Events[K]) => listener(value);
    set.add(own);
    return () => void set.delete(own);
  }

  protected emit<K extends keyof Events>(event: K, value: Events[K]): void {
    for (const listener of [...(this.listeners.get(event) ?? [])]) {
      try {
        (listener as (value: Events[K]) => void)(value);
      } catch (error) {
        // As an error that nobody has caught, which it is.
        void Promise.reject(error);
      }
    }
  }
}
