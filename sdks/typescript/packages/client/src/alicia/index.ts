/** A client of Alicia, in the shape of all clients here. */

export { AliciaClient, type AliciaClientOptions, AliciaSession, createAliciaClient, type Memory } from "./client.js";
