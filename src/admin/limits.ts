import { z } from "zod";
import { limitMax } from "../core/limits.ts";
import { outputCapMax } from "../core/output-cap.ts";

const shape = `must be a whole number from 1 to ${limitMax}, or null for no limit`;

const limitSchema = z.int(shape).min(1, shape).max(limitMax, shape).nullable().optional();

/** Requests and tokens in any 60 seconds, and requests at the same time. What is left out stays as it is; null takes a limit away. */
export const limitsSchema = z.strictObject({ rpm: limitSchema, tpm: limitSchema, parallel: limitSchema });

const capShape = `must be a whole number from 1 to ${outputCapMax}, or null for no cap`;

/** Most output tokens for each choice of a request; null for no cap. */
export const outputCapSchema = z.int(capShape).min(1, capShape).max(outputCapMax, capShape).nullable();
