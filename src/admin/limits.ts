import { z } from "zod";
import { limitMax } from "../core/limits.ts";

const shape = `must be a whole number from 1 to ${limitMax}, or null for no limit`;

const limitSchema = z.int(shape).min(1, shape).max(limitMax, shape).nullable().optional();

/** Requests and tokens in any 60 seconds, and requests at the same time. What is left out stays as it is; null takes a limit away. */
export const limitsSchema = z.strictObject({ rpm: limitSchema, tpm: limitSchema, parallel: limitSchema });
