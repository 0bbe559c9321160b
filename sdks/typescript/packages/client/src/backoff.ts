/** Pauses between attempts to connect: a random part of a bound that doubles, so that clients that were lost together come back apart. */
export class Backoff {
  private attempt = 0;

  constructor(
    private readonly firstMs: number,
    private readonly mostMs: number,
    private readonly random: () => number,
  ) {}

  pause(): number {
    const bound = Math.min(this.mostMs, this.firstMs * 2 ** Math.min(this.attempt, 30));
    this.attempt += 1;
    return Math.floor(this.random() * bound);
  }

  reset(): void {
    this.attempt = 0;
  }
}
