import type { Link } from "./link.ts";
import type { PrimaryCalls, WorkerCalls } from "./protocol.ts";

/** A worker's end of the line. */
export type PrimaryLink = Link<PrimaryCalls, WorkerCalls>;

/** The primary's end of the line to one worker. */
export type WorkerLink = Link<WorkerCalls, PrimaryCalls>;
