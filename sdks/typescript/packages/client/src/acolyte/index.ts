/** A client of Acolyte, in the shape of all clients here. */

export { AcolyteClient, type AcolyteClientOptions, createAcolyteClient } from "./client.js";
